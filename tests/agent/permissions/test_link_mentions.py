"""Links that lead to denied or protected files, named anywhere in the text of a call."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, Verdict, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

LINKS = {
    "notes": ".env",
    "d": "secrets",
    "a b": ".env",
    "sub/l": "../.env",
    "sub/dd": "../secrets",
    "hk": ".git/hooks",
    "mj": ".mcp.json",
    "x,y": ".git/hooks",
    "sub/hk": "../.git/hooks",
    "kl": "docs/keep.md",
    "up": "..",
    "far": "sub",
    "latest": "docs",
    "data": "secrets",
}
DENY = ("Read(./.env)", "Read(secrets/**)", "Edit(/docs/keep.md)")
SED = (
    *("sed 1rnotes README.md", "sed '$rnotes' README.md", "sed '1!rnotes' README.md"),
    *("sed -n '/two/rd/key' README.md", "sed '1r a b' README.md", "sed 1Rnotes README.md"),
    *("sed 1rsub/l README.md", "sed 1rsub/dd/key README.md", "sed -e 1rnotes -n README.md"),
    *("sed 1rfar/l README.md", "cd sub && sed 1r../notes x.txt", "sed -i 1rnotes README.md"),
    *("sed 1r../project/notes README.md", "sed 1rup/project/notes README.md"),
)
READS = (
    *SED,
    "curl -s --proto-default file localhost/project/notes",
    "curl -s --proto-d file localhost/project/n%6ftes",
    "curl -s --proto-default file localhost/project/a%20b",
    "rsync -a --filter=merge_notes docs/ ../x",
    "rsync -a --filter='. notes' docs/ ../x",
    "python3 <<< 'print(open(\"notes\").read())'",
    "python3 <<'E'\nprint(open('notes').read())\nE",
    "echo 'print(open(\"notes\").read())' | python3",
    "echo 'print(open(\"no''tes\").read())' | python3",
    "echo $'print(open(\"no\\x74es\").read())' | python3",
    "python3 -c 'print(open(\"a b\").read())'",
    "python3 -c 'print(open(\"\\x6eotes\").read())'",
    'python3 -c \'import os; os.chdir("sub"); print(open("l").read())\'',
    "perl -e 'open F, q xnotesx; print <F>'",
    "perl -e 'open F, q-notes-; print <F>'",
    "ruby -e 'puts File.read(%_notes_)'",
    "awk 'BEGIN { while ((getline x < \"notes\") > 0) print x }'",
    "vim -es -c 'r a\\ b' -c %p -c q! README.md",
    "ed -s README.md <<< $'r notes\\n,p'",
    "sed -n wkl README.md",
)
WRITES = (
    *("sed -n 1whk/pre-commit README.md", "sed -n 1wmj README.md", "sed -n 's/r/b/gwmj' README.md"),
    *("sed -n 'w x,y/x' README.md", "sed -n 1wsub/hk/x README.md", "sed -i'hk/*' s/a/b/ README.md"),
    "curl -sT evil.json --proto-default file localhost/project/mj",
    "curl -s -w '%output{x,y/pre-commit}evil' https://example.com",
    'echo \'open("mj", "w")\' | python3',
    'python3 -c \'open("x,y/pre-commit", "w")\'',
)
HARMLESS = (
    *("sed 1rREADME.md docs/a.md", "sed -n wnew.txt README.md"),
    *(
        "python3 footnotes.py",
        "python3 -c 'import notebook'",
        "npm run metadata",
        "npm run database",
    ),
    *("sed -n wlatest/new.md README.md", "python3 -c 'open(\"latest/a.md\")'", "make notes.html"),
    *("curl -s https://example.com/update_metadata", "npm run database"),
    *("python3 latest/gen.py --out=far", "printf '%s\\n' notes"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in (".env", "secrets/key", ".mcp.json", "docs/keep.md", "README.md", "sub/x.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    (root / ".git/hooks").mkdir(parents=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    return root


def verdict_of(command: str, root: Path, *deny: str, mode: str = "default") -> Verdict:
    denied, allowed = (tuple(parse_rule(t, root, "test") for t in ts) for ts in (deny, ("Bash",)))
    policy = Policy(denied, (), allowed, ApprovalMode(mode), root, (root,))
    return decide("Bash", [Runs(command)], policy)


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize("command", READS)
def test_a_text_that_names_a_link_to_a_denied_file_asks(
    command: str, mode: str, project: Path
) -> None:
    command = command.replace("localhost/project", f"localhost{project}")
    verdict = verdict_of(command, project, *DENY, mode=mode)
    assert (verdict.kind, verdict.is_firm) == (VerdictKind.ASK, True)
    assert verdict_of(command, project, mode="bypassPermissions").kind is VerdictKind.ALLOW


@pytest.mark.parametrize("command", WRITES)
def test_a_text_that_names_a_link_to_a_protected_file_asks(command: str, project: Path) -> None:
    command = command.replace("localhost/project", f"localhost{project}")
    assert verdict_of(command, project).kind is VerdictKind.ASK


@pytest.mark.parametrize("command", HARMLESS)
def test_other_texts_that_contain_the_name_of_a_link_run(command: str, project: Path) -> None:
    (project / "d").unlink()  # a name of one letter is in too many texts
    assert verdict_of(command, project, *DENY).kind is VerdictKind.ALLOW
    assert verdict_of(command, project).kind is VerdictKind.ALLOW


@pytest.mark.parametrize("path", ["../clone/notes", "{}/clone/notes", "../clone/keys/key"])
def test_links_outside_of_the_working_directories_count(path: str, project: Path) -> None:
    clone = project.parent / "clone"
    clone.mkdir()
    (clone / "notes").symlink_to("../project/.env")
    (clone / "keys").symlink_to("../project/secrets")
    (clone / "plain").write_text("x\n")
    (project / "notes").unlink()
    (project / "d").unlink()
    path = path.format(project.parent)
    plain = path.replace("notes", "plain").replace("keys/key", "plain")
    assert verdict_of(f"sed 1r{path} README.md", project, *DENY).kind is VerdictKind.ASK
    assert verdict_of(f"sed 1r{plain} README.md", project, *DENY).kind is VerdictKind.ALLOW


def test_links_in_another_working_directory_count(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "lnk").symlink_to("../project/.env")
    denied = (parse_rule("Read(.env)", project, "test"),)
    allowed = (parse_rule("Bash", project, "test"),)
    policy = Policy(denied, (), allowed, ApprovalMode.DEFAULT, project, (project, other))
    verdict = decide("Bash", [Runs("sed 1r../other/lnk README.md")], policy)
    assert verdict.kind is VerdictKind.ASK


def test_a_link_with_too_many_readings_asks_where_rules_are_about_files(project: Path) -> None:
    for number in range(8):
        (project / f"hop{number}").symlink_to("sub")
    (project / "maze").symlink_to("/".join(f"hop{n}/.." for n in range(8)) + "/.env")
    assert verdict_of("sed 1rmaze README.md", project, *DENY).kind is VerdictKind.ASK
