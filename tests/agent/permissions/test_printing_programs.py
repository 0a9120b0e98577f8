"""Filters and builtins of everyday that only print, and calls of the same programs that do more.

The programs differ: awk may be mawk, gawk or that of BusyBox, jq any version since 1.5. So a call
runs unprompted only if all of them read it in the same way.
"""

from pathlib import Path

import pytest

from agent.permissions.cases import Case
from agent.permissions.test_execution_state import ASKED, DENIED, World
from agent.permissions.trial import make_project, verdict_of
from turnlog.agent.permissions import VerdictKind

ALLOW = "Bash(npm test:*)\nBash(git status:*)"
DENY = "Read(./.env)\nRead(./secrets/**)"

JQ = r"""
    cat read.md | jq -r '.scripts | keys[]'
    jq '.a.b?[0].["x y"]."z"[1:].[:2]' read.md
    jq 'map(select(.a == "b" and (.n > 1.5e3 | not))) | sort_by(.a, .b) | .[-1]' read.md
    jq -r '.[] | "\(.name): \(.tags | join(", ")) \u00e9\n"' read.md
    jq -c '{name, "v": .version, (.key): 1, n: (.a, .b), env}' read.md
    jq 'to_entries[] | if .value then .key elif .b then null else empty end' read.md
    jq -r '.[] | [.a, .env, -1] | @csv' read.md
    jq '.version = "2" | .n += 1 | .a |= map(. // 0)' read.md
    jq 'with_entries(.value |= tostring) | .. | numbers' read.md
"""
JQ_ASKED = r"""
    jq -n 'env | keys'
    jq -n '{a: env}'
    jq -n '{a: (1, env)}'
    jq -n '{a: if true then 1, env else 2 end}'
    jq -n '[1, env]'
    jq '.[env:2]' read.md
    jq -n '"\(env)"'
    jq -n '"\("\(env)")"'
    jq -n '$ENV'
    jq -n '{$ENV}'
    jq -n '[$ENV.PATH]'
    jq -n '$__prog_args'
    jq -n 'input'
    jq -n '[inputs]'
    jq -n 'input_filename'
    jq '. env' read.md
    jq '.. env' read.md
    jq '..env' read.md
    jq '1.env' read.md
    jq '.a.5 env' read.md
    jq -n '1 as $x | $x'
    jq -n 'def f: env; f'
    jq 'import "x" as y; y::f' read.md
    jq -n 'include "x"; f'
    jq '.a | x::keys' read.md
    jq '{length::env}' read.md
    jq 'reduce .[] as $x (0; . + $x)' read.md
    jq 'debug' read.md
    jq 'halt_error' read.md
    jq 'getpath(env)' read.md
    jq 'keys # \' read.md
    jq '@base64 "\(env)"' read.md
    jq 'map(.a' read.md
    jq 'map(.a))' read.md
    jq '"\(.a"' read.md
    jq '"\x41"' read.md
    jq 'é' read.md
    jq --arg a b '.a' read.md
    jq --slurpfile a read.md '.a' read.md
    jq '.a' -L sub read.md
    jq "$x" read.md
"""
AWK = r"""
    git status --short | awk '{print $2}'
    awk '{ print }' read.md
    awk -F: '{print $1, $NF}' read.md
    awk -F '\t' 'NR > 1 && $3 != "a b" {print NR": "$1"\t"$3;}' read.md
    awk 'NR==5' read.md src/app.py
    awk '/\.py$/ || !/test|x(y)+/' read.md
    awk '$2 ~ /^a.*b$/{print FILENAME, FNR}' read.md
    awk 'END {print NR}' < read.md
    awk '{s += $3} END {print s}' -
"""
AWK_ASKED = r"""
    awk '{print > "new"}' read.md
    awk '{print $1 > "new"}' read.md
    awk '{print $1 >> $2}' read.md
    awk '{print | "touch new"}' read.md
    awk '"touch new" | getline' read.md
    awk '{getline < ".env"; print}' read.md
    awk '{system("touch new")}' read.md
    awk 'system("touch new")' read.md
    awk 'NR==1 system("touch new")' read.md
    awk '/a/ {print} {system("id")}' read.md
    awk '/a/;{system("id")}' read.md
    awk '/[/]/{system("id")}#/{print}' read.md
    awk '/=/ {print}' read.md
    awk '/a\//{system("id")}' read.md
    awk '{print "a\"; system(\"id\")"}' read.md
    awk '{print ENVIRON["KEY"]}' read.md
    awk '{printf "%n", $1}' read.md
    awk 'BEGIN {print}' read.md
    awk '@include "x"' read.md
    awk '@load "filefuncs"' read.md
    awk '{print $1}' OFMT=%n read.md
    awk '{print $1}' ./a=b
    awk '{print}' /inet/tcp/0/localhost/80
    awk '{print}' -f x.awk
    awk '{print}' read.md -v a=b
    awk -f x.awk
    awk -v a=b '{print}' read.md
    awk -Ft '{print $1}' read.md
    awk -F -f '{print}' read.md
    awk -F: -f x.awk
    awk -i inplace '{print}' read.md
    awk -- '{print}' read.md
    awk '{print}' ../other/file.txt
    awk '{print}' out.txt
    awk '{print é}' read.md
    awk "{print \$$x}" read.md
"""
XXD = """
    head -c 100 read.md | xxd
    xxd read.md
    xxd -l 64 -s 16 -c 8 -g 1 read.md
    xxd -p < read.md
"""
XXD_ASKED = """
    xxd read.md new
    xxd - new
    xxd -r read.md
    xxd -r read.md new
    xxd -revert read.md
    xxd -pr read.md
    xxd -il 5 new
    xxd -bc 5 new
    xxd -ps 5 new
    xxd read.md -r
    xxd -n x -i read.md new
    xxd --revert read.md
    xxd ../other/file.txt
"""
SET = """
    set -e; npm test
    set -euo pipefail; npm test
    set -Eeu -o pipefail && cat read.md
    set -o errexit -o nounset; ls | wc -l
"""
SET_ASKED = """
    set
    set -o
    set -x; npm test
    set -v; npm test
    set -a; npm test
    set +e; npm test
    set -k; npm test
    set -e x; npm test
    set -e -- x; npm test
    set -- x; npm test
    set -o posix; npm test
    set -o pipefail x; npm test
    set -oe pipefail; npm test
    set '-e -u'; npm test
    set -e $x; npm test
    set -euo; npm test
    set -e; npm run other
"""
OUTPUTS = """
    diff <(sort read.md) <(sort src/app.py)
    comm -12 <(ls src | sort) <(ls sub | sort)
    cat <(head -1 read.md) read.md | wc -l
    grep x read.md <(ls) || diff <(ls) <(pwd)
"""
OUTPUTS_ASKED = """
    diff <(cat ../other/file.txt) read.md
    diff <(sort $x) read.md
    diff <(npm run x) read.md
    diff <(ls) >(tee new)
    cat <(ls)$x
    cat <(ls){,/../x}
    cat x<(ls)
    cat <(ls)/../../x
    cat "$x"<(ls)
    cat < <(ls)
    sh <(ls)
    . <(ls)
    grep -f <(ls) read.md
    sort --files0-from=<(ls)
    tee <(ls)
    find <(ls)
    cd <(ls)
    git diff <(ls) <(pwd)
    xargs cat <(ls)
    cat <(ls; unknown new)
    diff <(ls) <(npm test; cat read.md) | tee new
"""


def commands(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("filters"))


@pytest.mark.parametrize("deny", ["", DENY])
@pytest.mark.parametrize("command", commands(JQ + AWK + XXD + SET + OUTPUTS))
def test_a_call_that_only_prints_does_not_ask(command: str, deny: str, project: Path) -> None:
    verdict = verdict_of(Case("allow", f"Bash: {command}", allow=ALLOW, deny=deny), project)
    assert verdict.kind is VerdictKind.ALLOW, verdict.reason


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
@pytest.mark.parametrize(
    "command", commands(JQ_ASKED + AWK_ASKED + XXD_ASKED + SET_ASKED + OUTPUTS_ASKED)
)
def test_a_call_that_may_do_more_asks(command: str, mode: str, project: Path) -> None:
    verdict = verdict_of(Case("ask", f"Bash: {command}", allow=ALLOW, mode=mode), project)
    assert verdict.kind is VerdictKind.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("jq . .env", "jq -r '.a | keys[]' .env", "awk '{print $1}' .env", "xxd secrets/key"),
        *("diff <(cat .env) read.md", "cat read.md | diff - <(xxd .env)", "awk /a/ read.md .e*"),
    ],
)
@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
def test_a_denied_file_stays_denied(command: str, mode: str, project: Path) -> None:
    verdict = verdict_of(Case("deny", f"Bash: {command}", deny=DENY, mode=mode), project)
    assert verdict.kind is VerdictKind.DENY


@pytest.mark.parametrize(
    "command",
    [
        "tar -cf x.tar -T <(printf '.%s' env)",
        'python3 <(printf \'print(open(".e" + "nv").read())\')',
        "curl -K <(ls) http://h",
        "wc --files0-from <(ls)",
        "rsync --files-from <(ls) . x",
    ],
)
def test_the_output_of_a_command_may_be_a_list_for_other_programs(
    command: str, project: Path
) -> None:
    case = Case("ask", f"Bash: {command}", allow="Bash", deny=DENY)
    assert verdict_of(case, project).kind is VerdictKind.ASK


def test_such_calls_print_what_they_should(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file("a.txt", "one 1\ntwo 2\n")
    world.file("b.txt", "two 2\none 1\n")
    world.file(".env", f"KEY={DENIED}\n")
    told = world.session(
        "awk 'NR > 1 {print $2}' a.txt",
        "set -euo pipefail; diff <(sort a.txt) <(sort b.txt); echo same; false; echo not reached",
        "cat a.txt | awk '{s += $2} END {print s}'",
        mode="default",
        deny=("Read(.env)",),
    )
    assert ASKED not in told
    assert told[0].strip() == "2"
    assert "same" in told[1]
    assert "not reached" not in told[1]
    assert told[2].strip() == "3"
