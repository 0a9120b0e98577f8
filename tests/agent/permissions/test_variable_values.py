"""Values of variables: bash opens or evaluates some of them, and programs open others."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

DENY = ("Read(./.env)", "Read(secrets/**)", "Edit(/docs/keep.md)")
PRINTED = "$(printf 'a[$(cat .e%s >&2)]' nv)"
SHELL = (
    *("HISTFILE=.mcp.json; history -s x; history -w", "HISTFILE=.git/config; history -a"),
    *("PS4='$(cp evil.json .mcp.json)'; set -x; :", r"PS4='\044(cp a b)'; set -x; :"),
    *("read HISTFILE <<< x; history -w", "printf -v HISTFILE x", "declare -n r=HISTFILE; r=x"),
    *("for HISTFILE in x; do history -w; done", "export $(printf HISTFI%s=x LE); history -w"),
    *("BASH_ENV=x bash -c :", "GLOBIGNORE=x; ls", "CDPATH=secrets; cd sub", "RANDOM=$x"),
    *("shopt -s cdable_vars; s=x; cd s", "MAILPATH='x?$(id)'; :", "POSIXLY_CORRECT=1; ls"),
)
PROTECTED = (
    *("TMPDIR=.git/hooks mktemp", "TMPDIR=hk mktemp", "NODE_V8_COVERAGE=.claude node -e 0"),
    *("npm_config_cache=.git/hooks npm test", "npm_config_logs_dir=.claude npm test"),
    *("PYTHONPYCACHEPREFIX=.claude python3 a.py", "LD_DEBUG=files LD_DEBUG_OUTPUT=hk/x ls"),
    *("env LD_DEBUG_OUTPUT=hk/x ls", "export ANY=hk/x; ls", "set -a; ANY=hk/x; ls"),
    *("ANY=$PWD/hk/x ls", 'ANY=\'{"file":".mcp.json"}\' node a.js'),
)
DENIED = (
    *(
        "PS4='$(cat .env)'; set -x; :",
        "PS4='`cat .env`'; set -x; :",
        "GIT_CONFIG=lnk git config -l",
    ),
    *("PS4='$(<secrets/key)'; set -x; :", "HISTFILE=lnk; history -r", "F=.env npm test"),
    *("CDPATH=secrets; cd sub; cat k2", "export CDPATH=secrets; cd sub; cat k2"),
    *("GIT_TRACE=$PWD/docs/keep.md git status", "GIT_TRACE=$(printf x) git status"),
    "x='$(cat .env)'; echo \"${x@P}\"",
)
EVALUATED = (
    *(": $((x))", "((x))", "for ((;x;)); do :; done", "echo ${y[$x]}", "echo ${y[x]}", "y[x]=1"),
    *("echo $[x]", "echo ${!x}", 'echo "${x@P}"', "echo ${HOME:x}", "y=x; : $((y))", "((z=x))"),
    *("RANDOM=$x", "for y in $x; do : $((y)); done"),
)
PLAIN = (
    *("i=0; echo $((i+1))", "for i in 1 2 3; do echo $((i*2)); done", "f=a.txt; echo ${f%.txt}"),
    *("n=$(ls | wc -l); echo $((n+1))", "for ((i=0;i<3;i++)); do echo $i; done"),
    *("a=(x y); for i in 0 1; do echo ${a[$i]}; done", "echo ${FOO:-x} ${#FOO}"),
    "t=$(date +%s); npm test; echo $(( $(date +%s) - t ))",
)
EVERYDAY = (
    *("TMPDIR=$(mktemp -d) npm test", "DATABASE_URL=postgres://u:p@h/db npm test", "RANDOM=42; ls"),
    *("PYTHONPATH=src pytest -q", "BUILD_DIR=$PWD/build make", "CDPATH= cd src && ls"),
    *("KUBECONFIG=~/.kube/config kubectl get pods", "DEBUG=app:* node a.js", "IFS=,; npm test"),
    *("PS4='+ '; set -x; npm test", "HISTFILE=/dev/null npm test", "d=.claude; npm test"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in (".env", "secrets/sub/k2", "docs/keep.md", "sub/k2", "src/a", ".git/hooks/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    (root / "hk").symlink_to(".git/hooks")
    (root / "lnk").symlink_to(".env")
    return root


def kind_of(command: str, place: Path, *deny: str, mode: str = "default") -> VerdictKind:
    denied = tuple(parse_rule(text, place, "test") for text in deny)
    allowed = (parse_rule("Bash", place, "test"),)
    policy = Policy(denied, (), allowed, ApprovalMode(mode), place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", [*SHELL, *PROTECTED])
def test_a_rule_for_all_commands_covers_no_such_value(command: str, project: Path) -> None:
    assert kind_of(command, project) is VerdictKind.ASK


@pytest.mark.parametrize("command", [*SHELL, *DENIED])
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_no_value_names_a_denied_file(mode: str, command: str, project: Path) -> None:
    assert kind_of(command, project, *DENY, mode=mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", EVALUATED)
@pytest.mark.parametrize(
    "setting", [f"x={PRINTED}", "x='a[$(cat lnk)]'", "read x < f", f"printf -v x %s {PRINTED}"]
)
def test_no_evaluated_value_reads_a_denied_file(setting: str, command: str, project: Path) -> None:
    text = f"{setting}; {command}"
    assert kind_of(text, project, *DENY, mode="bypassPermissions") is VerdictKind.ASK


@pytest.mark.parametrize("text", [f'set -- "{PRINTED}"; : $(($1))', f': "{PRINTED}"; : $(($_))'])
def test_parameters_are_evaluated_as_well(text: str, project: Path) -> None:
    assert kind_of(text, project, *DENY, mode="bypassPermissions") is VerdictKind.ASK
    assert kind_of(f": $(({PRINTED}))", project, *DENY, mode="bypassPermissions") is VerdictKind.ASK


@pytest.mark.parametrize("command", [*PLAIN, *EVERYDAY])
def test_everyday_values_do_not_ask(command: str, project: Path) -> None:
    assert kind_of(command, project, *DENY, mode="bypassPermissions") is VerdictKind.ALLOW
    if command in EVERYDAY:
        assert kind_of(command, project) is VerdictKind.ALLOW
