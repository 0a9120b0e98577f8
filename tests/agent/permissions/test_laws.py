"""Laws that hold for all commands and rules, including those that nobody thought of.

Real shells are asked what would have run.
"""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.permissions.cases import CASES, Case
from agent.permissions.trial import make_project, policy_for, verdict_of
from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Runs

RULES = ["Bash(ok:*)", "Bash(bad:*)", "Bash"]
STRICTNESS = [VerdictKind.ALLOW, VerdictKind.ASK, VerdictKind.DENY]
COMMANDS = [case for case in CASES if case.call.startswith("Bash: ")]
ASKABLE = [case for case in COMMANDS if case.mode != "bypassPermissions" and "#" not in case.call]
"""Those to which more can be joined: behind a comment it would be part of that."""
JOINTS = [
    *("{} && {}", "{} || {}", "{}; {}", "{} | {}", "{} |& {}", "{} & {}", "{}\n{}", "{} $({})"),
    *("{} `{}`", '{} "$({})"', "{} <({})", "{} >({})", "({}; {})", "{{ {}; {}; }}"),
    *("if {}; then {}; fi", "while {}; do {}; done", "{} # x\n{}", "! {} || {}"),
]
LINES = ["\n", "\n\\bad", "\\\n", "<<EOF\n", "\nEOF\n", "<<'EOF'\n", "<<-EOF\n", "\r", "\t"]
PIECES = r"""ok¦ok¦ok a¦bad¦bad¦b¦ad¦ ¦ ¦;¦&&¦||¦|¦&¦$(¦)¦`¦'¦"¦\¦#¦{ ¦; }¦(¦$'¦\x62ad¦${x:-¦}¦$x
¦x=bad ¦<<< ¦>f ¦2>&1¦! ¦if ¦; then ¦; fi¦for i in ¦; do ¦; done¦[[ ¦]]¦\`¦a[¦]¦=¦*¦~¦$¦f() ¦time
¦ command ¦timeout 5 ¦xargs ¦-c ¦bash ¦sh -c ¦exec ¦env ¦trap ¦EXIT¦alias ok=¦export ¦eval ¦nice
¦ coproc ¦$"¦echo ¦cat ¦true ¦builtin ¦find . -exec ¦hash -p ¦x=(¦{bad,}¦${!x}¦declare -n x=bad;"""
COMMAND = st.lists(
    st.sampled_from([*PIECES.replace("\n", "").split("¦"), *LINES]), min_size=2, max_size=12
).map("".join)
steady = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("law"))


@pytest.fixture(autouse=True)
def home(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.parent / "home"))


def with_rule(case: Case, kind: str, rule: str) -> Case:
    return case._replace(**{kind: f"{getattr(case, kind)}\n{rule}".strip()})


@steady
@given(
    st.sampled_from(CASES),
    st.sampled_from([case.deny for case in CASES if case.deny]),
    st.sampled_from(["deny", "ask"]),
)
def test_one_more_rule_that_denies_or_asks_never_lets_more_pass(
    project: Path, case: Case, rule: str, kind: str
) -> None:
    before = verdict_of(case, project).kind
    after = verdict_of(with_rule(case, kind, rule), project).kind
    assert STRICTNESS.index(after) >= STRICTNESS.index(before)


@steady
@given(st.sampled_from(CASES), st.sampled_from([case.allow for case in CASES if case.allow]))
def test_no_rule_that_allows_lifts_a_denial_or_what_a_rule_asks_for(
    project: Path, case: Case, rule: str
) -> None:
    before = verdict_of(case, project)
    if before.kind is VerdictKind.DENY or before.is_firm:
        assert verdict_of(with_rule(case, "allow", rule), project).kind is before.kind


@steady
@given(
    st.sampled_from(ASKABLE),
    st.sampled_from(JOINTS),
    st.booleans(),
)
def test_joined_to_a_command_that_is_not_allowed_nothing_is(
    project: Path, case: Case, joint: str, swapped: bool
) -> None:
    if case.allow in ("Bash", "Bash(*)"):
        case = case._replace(allow="")
    command, unallowed = case.call.removeprefix("Bash: "), "unknown-program x"
    pair = (unallowed, command) if swapped else (command, unallowed)
    joined = case._replace(call=f"Bash: {joint.format(*pair)}")
    assert verdict_of(joined, project).kind is not VerdictKind.ALLOW


@st.composite
def spelled(draw: st.DrawFn, word: str) -> str:
    """A word in quotes, in part or as a whole, that stays the same word."""
    cut = draw(st.integers(0, len(word)))
    first, rest = word[:cut], word[cut:]
    shapes = [word, f"'{word}'", f'"{word}"', f"{first}''{rest}", f"'{first}'{rest}"]
    shapes += [f'{first}"{rest}"', f"$'{word}'", "".join(f"\\{char}" for char in word)]
    return draw(st.sampled_from([shape for shape in shapes if shape]))


@steady
@given(st.data(), st.sampled_from(["allow", "ask", "deny"]))
def test_a_command_is_the_same_however_it_is_quoted(
    project: Path, data: st.DataObject, kind: str
) -> None:
    words = data.draw(st.sampled_from(["git push origin", "npm run test", "rm file", "ls src"]))
    gap = data.draw(st.sampled_from([" ", "  ", "\t", " \\\n "]))
    command = gap.join(data.draw(spelled(word)) for word in words.split())
    rules = {"allow": "", "ask": "", "deny": "", kind: "Bash(git push:*)\nBash(npm run test)"}
    plain = verdict_of(Case("", f"Bash: {words}", **rules), project)
    assert verdict_of(Case("", f"Bash: {command}", **rules), project).kind is plain.kind


@steady
@given(
    st.sampled_from(COMMANDS), st.sampled_from(['"', "'", "(", "$(", "`", "<<X", "\x00", "\ud800"])
)
def test_what_cannot_be_parsed_is_never_allowed(project: Path, case: Case, torn: str) -> None:
    policy = policy_for(case._replace(allow="Bash", mode="default"), project)
    assert decide("Bash", [Runs(f"ls {torn} x")], policy).kind is not VerdictKind.ALLOW
    assert decide("Bash", [Runs("ls " + "x" * 10_000)], policy).kind is not VerdictKind.ALLOW


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two programs that leave a mark when they run."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "work").mkdir()
    for name in ("ok", "bad"):
        (folder / name).write_text(f"#!/bin/sh\n: > {folder}/ran-{name}\n")
        (folder / name).chmod(0o755)
    return folder


def runs_bad(programs: Path, command: str) -> bool:
    """Return whether a real shell runs the program that is not allowed."""
    mark = programs / "ran-bad"
    mark.unlink(missing_ok=True)
    subprocess.run(
        ["timeout", "5", "bash", "-c", command],
        cwd=programs / "work",
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(programs / "work")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return mark.exists()


@steady
@given(COMMAND)
@example("coproc x=1 bad")
@example("ok <<EOF\n`bad`\nEOF")
@example("ok $(b\\\nad)")
@example("ok a\n\\bad")
@example("x=1 {fd}>f bad")
def test_a_real_shell_runs_nothing_that_was_not_allowed(programs: Path, command: str) -> None:
    work = programs / "work"

    ok, bad, every = (parse_rule(text, work, "test") for text in RULES)
    only_ok = Policy((), (), (ok,), ApprovalMode.ACCEPT_EDITS, work, (work,))
    all_but_bad = Policy((bad,), (), (every,), ApprovalMode.DEFAULT, work, (work,))
    allowed = [
        policy
        for policy in (only_ok, all_but_bad)
        if decide("Bash", [Runs(command)], policy).kind is VerdictKind.ALLOW
    ]
    if allowed and "ad" in command:
        assert not runs_bad(programs, command)
