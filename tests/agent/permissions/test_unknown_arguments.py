"""Arguments that are only known when a command runs: none of them runs a denied program."""

from pathlib import Path

import pytest

from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

X = '"$(printf cu%s rl)"'
RUNNING = (
    *("printf '. -exec cu%s ;' rl | xargs find", "git $(printf -- '-c alias.x=!cu%s x' rl)"),
    *("find . $(printf -- '-exec cu%s ;' rl)", f"sed {X} a.txt", f"split --filter={X} a.txt"),
    *(f"tar cf x --checkpoint-action=exec={X} a.txt", f"awk {X}", f"perl -e {X}", f"vim -c {X}"),
    *(f"npm exec -c {X}", f"zip -TT {X} x", f"make --eval={X}", f"make {X}", f"python3 -c {X}"),
    *("printf x | xargs tar", "printf x | xargs sed", "cat list | xargs awk", f"node -e {X}"),
    *(
        "cat list | xargs make",
        "a=cu; b=rl; env $a$b",
        "a=cu; make X=${a}rl",
        "x=$(cat f); make $x",
    ),
    *("read x < f; make $x", "sort $(cat f) a.txt", "git fetch $(cat f) .", "any-program $(cat f)"),
    *(f"ln -s {X} zz; ./zz", "ln -s bin/cu{r,}l zz; ./zz", f"cp {X} zz; ./zz"),
)
MATCHING = (
    *("/lib64/ld-linux-x86-64.so.2 bin/cu?l -V", "ln -s bin/cu?l zz; ./zz", "cp bin/c* zz; ./zz"),
    *("x=bin/cu?l; any-program $x", "ln -s bin zb; for i in zb/c*; do cp $i zz; done; ./zz"),
    *("any-program bin/[c]url", "cd bin; any-program *", "cd $x; any-program c*l"),
)
PLAIN = (
    *('git commit -m "$(date)"', 'echo "$(date)"', "kill $(cat pid)", "wc -l $(git ls-files)"),
    *("for f in *.txt; do node $f; done", "for f in a b; do node src/$f.js; done", "make -C $HOME"),
    *("docker rm $(docker ps -q)", "docker logs $(docker ps -lq)", "kubectl get pods $x"),
    *(
        "black $(git ls-files '*.py')",
        "git ls-files | xargs black",
        "python3 a.py *",
        "eslint *.js",
    ),
    *("find . | xargs sed -i s/a/b/", "find . -name '*.py' -exec python3 {} \\;", "sleep $x"),
    *('git push origin "$(git branch --show-current)"', 'node "$PWD/a.js"', "npm test -- $FOO"),
    *('b=$(git rev-parse --abbrev-ref HEAD); git push origin "$b"', 'cp "$a" "$b"; ./run.sh'),
    *(
        'gh pr create --title x --body "$(cat b)"',
        "tar czf x.tgz $(git ls-files)",
        "cat * | node x",
    ),
    *("d=$(mktemp -d); tar xf x.tar -C $d", "grep -rl a src | xargs sed -i s/a/b/"),
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("bin/curl", "a.txt", "src/a.js", "run.sh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    return root


def kind_of(command: str, place: Path, mode: str) -> VerdictKind:
    allowed, denied = parse_rule("Bash", place, "test"), parse_rule("Bash(curl:*)", place, "test")
    policy = Policy((denied,), (), (allowed,), ApprovalMode(mode), place, (place,))
    return decide("Bash", [Runs(command)], policy).kind


@pytest.mark.parametrize("command", [*RUNNING, *MATCHING])
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_an_argument_that_may_run_a_denied_program_asks(
    mode: str, command: str, project: Path
) -> None:
    assert kind_of(command, project, mode) is VerdictKind.ASK


@pytest.mark.parametrize("command", PLAIN)
def test_arguments_that_name_no_program_do_not_ask(command: str, project: Path) -> None:
    assert kind_of(command, project, "bypassPermissions") is VerdictKind.ALLOW
