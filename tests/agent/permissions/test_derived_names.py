"""Files whose names a program derives from its arguments: no protected or denied one is written."""

import subprocess
from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

PROTECTED = (
    *("sed -i'.claud*/settings.json' s/x/y/ e", "sed -i'.gi*/hooks/pre-commit' s/x/y/ t"),
    *("sed -i.json s/x/y/ .mcp", "sed --in-place='.*.json' s/x/y/ mcp", "sed -nic s/x/y/ .envr"),
    *("sed -Ei'.envr*' s/x/y/ c", "sed --in='.envr*' s/x/y/ c", "gsed -i.json s/x/y/ .mcp"),
    *("cp -b -S .json y .mcp", "cp -bfS.json y .mcp", "mv --backup --suf=.json y .mcp"),
    *("ln -fbS .json y .mcp", "install -b --suffix .json y .mcp", "rsync -b --suffix=.json y .mcp"),
    *("rsync -b --backup-dir=.. y sub", "gzip -S .json .mcp", "xz --suffix=.json .mcp"),
    *("gunzip .mcp.json.gz", "gzip -d .envrc.gz", "xz -d sub/.envrc.xz", "zstd -d .envrc.zst"),
    *("bunzip2 .envrc.bz2", "lz4 -d .envrc.lz4", "uncompress .envrc.Z", "gunzip .envrc-gz"),
    *(
        "unlzma .envrc.lzma",
        "lzip -d .envrc.lz",
        "gpg --decrypt-files .envrc.gpg",
        "lzop -dN x.lzo",
    ),
    *(
        "git clone ../.claude.git",
        "git clone -q https://h/a/.husky.git",
        "git clone .vscode.bundle",
    ),
    *(
        "git clone ../.claude.git/",
        "git submodule add ../.claude.git",
        "gh repo clone a/.vscode.git",
    ),
    *("gzip -dr src", "gunzip -r src", "gzip --recursive -d src", "zstd -d -r src"),
    *("rsync -R src/./x .", "rsync -a --relative src/x ."),
    *("gunzip -S .bak .envrc.bak", "gzip -dS.old .envrc.old", "xz -d --suf .bak .mcp.json.bak"),
    *(
        "unxz --suffix=.orig .envrc.orig",
        "ln -s ../cfg/fish .config/",
    ),
    *("mv -t .config cfg/fish", "install cfg/fish -t .config", "ln -st .config cfg/fish"),
    *("cp --parents .config/fish/x ..", "git mv cfg/fish .config", "rsync cfg/fish .config"),
    *("split -b 1 x .env", "split -a1 --additional-suffix=.json x .mc", "csplit -f.envr -b%x x 2"),
)
DENIED = (
    *("sed -i'doc*/keep.md' s/x/y/ s", "sed -i.md s/x/y/ own", "cp -b -S .md y own"),
    *("gunzip -f own.md.gz", "xz -df ./own.md.xz", "git clone ../docs.git", "gzip -S .md own"),
    *("gunzip -fS .bak own.md.bak", "gunzip -f docs.tgz", "ln -s new/docs .", "ln -f new/docs"),
    *("mv -t . new/docs", "git mv new/docs ."),
)
HARMLESS = (
    *("sed -i.bak s/x/y/ a.txt", "sed -i.json s/x/y/ a", "sed -iE s/x/y/ a", "sed -i s/x/y/ .mcp"),
    *("cp -b y a.txt", "cp -b -S .bak y a.txt", "cp -tSrc y", "mv --backup --suffix=.old y a"),
    *("rsync -ab --suffix=.orig src/ out/", "rsync -aS src/ out/", "install -m 644 -bS .old y a"),
    *("ln -s src x", "ln -s ../src sub/", "cp -r --parents src sub", "git mv a.txt sub"),
    *("gunzip data.json.gz", "gzip -S .gz a", "xz -dk a.tar.xz", "zstd -d a.zst", "gzip -k a.txt"),
    *("git clone https://h/ada/shop.git", "git clone git@h:ada/docs.vim.git x"),
    *("split -l 1000 big.csv part_", "split -b 1m big.csv", "csplit -f page big.md 2"),
)
RULES = (
    "cp csplit gh git gpg gsed gunzip gzip install ln lz4 lzip lzop mv rsync sed split uncompress "
    "unlzma bunzip2 xz zstd"
).split()


def verdict(
    command: str, place: Path, *deny: str, mode: ApprovalMode = ApprovalMode.DEFAULT
) -> VerdictKind:
    for name in ("src", "sub", "docs", "Src"):
        (place / name).mkdir(parents=True, exist_ok=True)
    allowed = tuple(parse_rule(f"Bash({name}:*)", place, "test") for name in RULES)
    denied = tuple(parse_rule(text, place, "test") for text in deny)
    policy = Policy(denied, (), allowed, mode, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", PROTECTED)
def test_no_protected_file_is_made_from_another_name(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("command", DENIED)
@pytest.mark.parametrize("mode", [ApprovalMode.DEFAULT, ApprovalMode.BYPASS])
def test_no_denied_file_is_made_from_another_name(
    command: str, mode: ApprovalMode, tmp_path: Path
) -> None:
    deny = ("Edit(/docs/**)", "Edit(/own.md)", "Edit(/docs.tar)")
    assert verdict(command, tmp_path, *deny, mode=mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", HARMLESS)
def test_other_names_do_not_ask(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path) is VerdictKind.ALLOW
    deny = ("Edit(/own.md)", "Read(./.env)")
    assert verdict(command, tmp_path, *deny, mode=ApprovalMode.BYPASS) is VerdictKind.ALLOW


def test_no_link_or_copy_takes_the_place_of_hooks(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "config", "core.hooksPath", "hooks"], cwd=tmp_path, check=True)
    (tmp_path / "new/hooks").mkdir(parents=True)
    (tmp_path / "new/hooks/pre-commit").write_text("x\n")
    for command in (
        *("ln -s new/hooks .", "ln -sr new/hooks .", "ln -s new/hooks", "ln -st . new/hooks"),
        *("git mv new/hooks .", "cd new && ln -sr hooks ..", "cd new && git mv hooks .."),
        *("cd new && cp --parents hooks/pre-commit ..", "cd new && cp -r --parents hooks .."),
        "cd new && cp -r --par . ..",
    ):
        assert verdict(command, tmp_path) is VerdictKind.ASK
    for command in ("ln -s new/hooks x", "cp -r --parents new/hooks src", "git mv new/hooks x"):
        assert verdict(command, tmp_path) is VerdictKind.ALLOW
