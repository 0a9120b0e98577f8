"""Variables from which programs take options: no call reads or writes files by one unasked."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

OPTIONS = (
    *(
        "XZ_OPT=--files=list xz -k",
        "env XZ_OPT=--files=list xz -k",
        "CURL_HOME=conf curl http://h/x",
    ),
    *("export XZ_OPT=--files=list; xz -k", "XZ_OPT=--files=list; xz -k", "ZIPOPT=-@ zip x < list"),
    *("TAR_OPTIONS=--files-from=list tar cf x.tar", "X=1 env -u Y XZ_OPT=--fil=list nice xz -k"),
    *(
        "XZ_OPT=--files=list env xz -k",
        "bash -c 'XZ_OPT=--files=list xz -k'",
        "export XZ_OPT; xz -k",
    ),
    *(
        "env -S 'XZ_OPT=--files=list xz -k'",
        "set -a; F=conf; cp a.txt b",
        "HOME=conf curl http://h",
    ),
    *("POSIXLY_CORRECT=1 cp -r new/. -t docs .", "TZ=:/etc/passwd date", "XZ_OPT=$x xz -k a.txt"),
)
UNKNOWN = ("FOO=conf sort a.txt", "export FOO=conf; cp a.txt b", "sudo FOO=conf cat a.txt")
WRITING = (
    *("SIMPLE_BACKUP_SUFFIX=.json cp -b a.txt .mcp", "GZIP=-S.bak gunzip .envrc.bak"),
    *("env SIMPLE_BACKUP_SUFFIX=c mv -b a.txt .envr", "HOME=conf wget http://h/x"),
)
HARMLESS = (
    *(
        "FOO=1 npm test",
        "DEBUG=app:* node a.js",
        "export STAGE=test; npm test",
        "F=a.txt; npm test",
    ),
    *("XZ_OPT='-9e -T0' tar cJf x.txz src", "GZIP=-9 tar czf x.tgz src", "LC_ALL=C sort a.txt"),
    *("NODE_OPTIONS=--max-old-space-size=4096 npm run build", "HOME=/tmp/x npm ci", "FOO=1 cp a b"),
    *("AWS_PROFILE=prod aws s3 ls", "HTTPS_PROXY=http://h:1 curl http://h/x", "TZ=UTC date"),
    *("set -euo pipefail; OUT=b; npm test", "export PATH=$PWD/bin:$PATH; npm test"),
)


def kind_of(command: str, place: Path, *deny: str, mode: str = "default") -> VerdictKind:
    (place / "a.txt").write_text("x\n")
    (place / "src").mkdir(exist_ok=True)
    denied = tuple(parse_rule(text, place, "test") for text in deny)
    allowed = (parse_rule("Bash", place, "test"),)
    policy = Policy(denied, (), allowed, ApprovalMode(mode), place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", [*OPTIONS, *UNKNOWN, *WRITING])
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize("rule", ["Read(./.env)", "Edit(/docs/keep.md)"])
def test_no_variable_names_a_denied_file(
    rule: str, mode: str, command: str, tmp_path: Path
) -> None:
    assert kind_of(command, tmp_path, rule, mode=mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", WRITING)
def test_no_variable_names_a_protected_file(command: str, tmp_path: Path) -> None:
    assert kind_of(command, tmp_path) is VerdictKind.ASK


@pytest.mark.parametrize("command", HARMLESS)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_other_variables_do_not_ask(mode: str, command: str, tmp_path: Path) -> None:
    assert kind_of(command, tmp_path, "Read(./.env)", mode=mode) is VerdictKind.ALLOW
    assert kind_of(command, tmp_path) is VerdictKind.ALLOW


@pytest.mark.parametrize("command", UNKNOWN[:2])
def test_without_rules_about_files_unknown_variables_do_not_ask(
    command: str, tmp_path: Path
) -> None:
    assert kind_of(command, tmp_path) is VerdictKind.ALLOW
