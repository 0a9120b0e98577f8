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
)
HARMLESS = (
    *("zip -r o.zip src", "zip -r o.zip src -x '*.pyc' '*/cache/*'", "zip -qr o.zip src -i '*.md'"),
    *("zip -r o.zip src/*", "tar cf o.tar src", "tar czf o.tgz --exclude=conf src", "tar tf o.tar"),
    *("tar --exclude='*.pyc' -czf o.tgz src", "rsync -a --exclude=conf src/ out/"),
    "7z a o.7z src '-x!*.pyc'",
)
PROGRAMS = ("tar", "bsdtar", "zip", "7z", "rsync")


def verdict(command: str, place: Path) -> VerdictKind:
    for name in ("src/app.py", "conf/key", "list", ".env"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x\n")
    allowed = tuple(parse_rule(f"Bash({name}:*)", place, "test") for name in PROGRAMS)
    denied = tuple(parse_rule(text, place, "test") for text in ("Read(./.env)", "Read(/conf/key)"))
    policy = Policy(denied, (), allowed, ApprovalMode.DEFAULT, place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", PACKED)
def test_a_denied_file_is_not_packed_without_a_question(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path / "project") is VerdictKind.ASK


@pytest.mark.parametrize("command", HARMLESS)
def test_other_files_are_packed_by_a_rule(command: str, tmp_path: Path) -> None:
    assert verdict(command, tmp_path / "project") is VerdictKind.ALLOW
