"""Archives that commands make by a rule: no denied file gets into one unnoticed."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

PACKED = (
    *("tar -cf o.tar --direc=.. project", "tar cf o.tar --add-file=.", "tar cf o.tar --add-f=."),
    *("tar cTf list o.tar", "tar cfT o.tar list", "bsdtar cfT o.tar list"),
    *("zip -R o.zip '*'", "zip o.zip '.e?v'", "zip o.zip ?env", "zip o.zip '.e[n]v'"),
    *("zip -x '*.pyc' -R o.zip '.e*'", "7z a o.7z '.e*'", "7z a o.7z '-ir!.e*'"),
    *("tar cf o.tar --files=list", "tar cf o.tar --files-f list", "bsdtar -cf o.tar -I zstd"),
    *(
        "zip o.zip --names-stdin < list",
        "zip o.zip --names < list",
        "zip -f o.zip",
        "zip -qu o.zip",
    ),
    *(
        "zip --freshen o.zip",
        "7z u o.7z",
        "7z a o.7z",
        "rar a o.rar",
        "rsync --files-from=list . x",
    ),
)
ANYWHERE = (
    *("zip -R o.zip key", "zip o -R key", "zip -qR o key", "zip --recurse-patterns o key"),
    *("zip -FS o.zip -R key", "zip -FS o.zip", "zip --filesync o.zip", "zip -dbu o.zip"),
    *("zip -nwR o key", "zip -icR o key", "7z a -r o.7z key", "7z a o.7z key -r0"),
    *("tar -cC.. -f o.tar project", "tar -czC.. -f o.tar project", "tar -cvC../.. -f o.tar x"),
    *("tar -rC.. -f o.tar project", "tar cCf .. o.tar project", "/bin/tar -uC.. -f o.tar project"),
    *("bsdtar -cC.. -f o.tar project", "tar -c --cd=.. -f o.tar project"),
    *("rar a -r o.rar key", "jar cf o.jar -C.. project"),
)
"""Calls that look for names in other directories, or in all of them."""
LISTED = (
    *("xz -k --files=list", "xz --files < list", "xz -k --files0=list", "zstd --filelist=list"),
    *("zstd -q --filelist list -o o.zst", "curl -s -K list", "curl --config list", "wget -qi list"),
    *("aria2c -i list", "du --files0-from=list", "wc --files0-from=list", "sort --files0=list"),
    *("find -files0-from list -size 1", "gpg --multifile --encrypt < list", "gsutil cp -I gs://x"),
    *("ffmpeg -f concat -i list o.mp4", "ffmpeg -i list.m3u8 o.mp4", "convert @list o.pdf"),
    *("exiftool -@ list", "parallel -a list cat", "xargs -a list cat", "gunzip -rc .", "zcat -r ."),
    *(
        "rsync -a --read-batch=list x",
        "rsync -a --iconv=UTF-7,UTF-8 src/ x",
        "restic --files-from l",
    ),
)
NOT_LISTED = (
    *("xz -k src/app.py", "zstd -q src/app.py -o o.zst", "ffmpeg -i a.mp4 o.webm", "gunzip o.gz"),
    *("convert a.png o.pdf", "npm install @types/node", "gpg --encrypt src/app.py", "zcat o.gz"),
    *("pre-commit run --files src/app.py", "curl -s https://h/x", "kubectl apply --filename=src"),
)
HARMLESS = (
    *("zip -r o.zip src", "zip -r o.zip src -x '*.pyc' '*/cache/*'", "zip -qr o.zip src -i '*.md'"),
    *("zip -r o.zip src -x'*/build/*'", "zip -rq9 o.zip src", "tar -czvf o.tgz src"),
    *("zip -r o.zip src/*", "tar cf o.tar src", "tar czf o.tgz --exclude=conf src", "tar tf o.tar"),
    *("tar --exclude='*.pyc' -czf o.tgz src", "rsync -a --exclude=conf src/ out/"),
    "7z a o.7z src '-x!*.pyc'",
)
PROGRAMS = ("tar", "/bin/tar", "bsdtar", "jar", "zip", "7z", "rar", "rsync")


def verdict(command: str, place: Path, mode: ApprovalMode = ApprovalMode.DEFAULT) -> VerdictKind:
    for name in ("src/app.py", "conf/key", "list", ".env"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x\n")
    allowed = tuple(parse_rule(f"Bash({name}:*)", place, "test") for name in PROGRAMS)
    denied = tuple(parse_rule(text, place, "test") for text in ("Read(./.env)", "Read(/conf/key)"))
    policy = Policy(denied, (), allowed, mode, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", [*PACKED, *ANYWHERE])
def test_a_denied_file_is_not_packed_without_a_question(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path / "project") is VerdictKind.ASK


@pytest.mark.parametrize("command", HARMLESS)
def test_other_files_are_packed_by_a_rule(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path / "project") is VerdictKind.ALLOW


@pytest.mark.parametrize("command", [*PACKED, *ANYWHERE, *LISTED])
def test_names_in_a_list_pass_no_rule_in_any_mode(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path / "project", ApprovalMode.BYPASS) is VerdictKind.ASK


@pytest.mark.parametrize("command", [*HARMLESS, *NOT_LISTED])
def test_programs_without_a_list_do_not_ask(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path / "project", ApprovalMode.BYPASS) is VerdictKind.ALLOW
