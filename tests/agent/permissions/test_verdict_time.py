"""A verdict takes a bounded time, whatever the command, the rules and the files are."""

import asyncio
import subprocess
from pathlib import Path
from time import monotonic, thread_time

import pytest

from agent.permissions.test_execution_state import World, call
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.permissions import Policy, Verdict, VerdictKind, decide, parse_rule
from turnlog.agent.permissions.bash import HOLE, expand, parse_script
from turnlog.agent.permissions.wildcards import ANY, fits
from turnlog.agent.workspace.access import ApprovalMode, Runs

LONGEST = 2.0
"""Seconds of computing time."""
STARS = tuple(f"Bash(foo {'* a ' * 30}{number})" for number in range(30))
DENY = ("Read(./.env)", "Bash(curl:*)", "Bash(rm:*)", "Edit(/docs/keep.md)", "Read(config/**)")


def timed(command: str, root: Path, allow: tuple[str, ...], deny: tuple[str, ...]) -> Verdict:
    """Decide about a command, within the time."""
    allowed, denied = (tuple(parse_rule(t, root, "test") for t in each) for each in (allow, deny))
    started = thread_time()
    policy = Policy(denied, (), allowed, ApprovalMode.DEFAULT, root, (root,))
    verdict = decide("Bash", [Runs(command)], policy)
    assert thread_time() - started < LONGEST
    return verdict


@pytest.mark.parametrize(
    ("command", "allow", "deny"),
    [
        ("cat *a*a*a*a*a*a*b", (), ()),
        ("cat " + "*a" * 40 + "*b", (), ()),
        ("cat " + "*?a" * 40 + "*b", (), ()),
        ("cat " + "*" * 200 + "b", (), ()),
        ("foo " + "$x " * 400, (), STARS),
        ("foo " + "a " * 400, STARS, ()),
        ("foo -" + "a" * 9_000, (), DENY),
        ("cat " + "a" * 200, (), (f"Read({'*a' * 30}*b)",)),
        ("cat " + "a" * 200, (), (f"Read({'*[a]?' * 30}*b)",)),
        ("cat " + "a" * 200, (f"Read({'*a' * 30}*b)",), ()),
        ("cat " + "a/" * 200, (), (f"Read({'**/a/' * 12}**/b)",)),
        ("foo " + " ".join(f"a=@b:c=@d{n}" for n in range(480)), (), DENY),
        ("foo '" + "${" * 4_900 + "'", ("Bash",), DENY),
        ("foo '" + "$" * 9_900 + "'", ("Bash",), DENY),
        ("npx " + " ".join(["'npx a b c d e f g h i j'"] * 49), (), DENY),
        (";".join(["npx " + " ".join(["'x y z'"] * 40)] * 10), (), DENY),
        ("cd a;cd b;cd c;foo " + " ".join("-" + "a" * 95 for _ in range(98)), (), DENY),
    ],
    ids=lambda value: str(value)[:24],
)
def test_no_short_command_takes_long_to_decide_about(
    command: str, allow: tuple[str, ...], deny: tuple[str, ...], tmp_path: Path
) -> None:
    for name in ("a" * 200, "a" * 199 + "c", "-not-matched"):
        (tmp_path / name).write_text("")
    timed(command, tmp_path, allow, deny)


def test_a_search_of_many_files_is_given_up_and_asks(tmp_path: Path) -> None:
    for number in range(15_000):
        (tmp_path / f"{number}").touch()
    deny = tuple(f"Read({n}/**/x*)" for n in range(3))
    verdict = timed("grep -r x .", tmp_path, ("Bash",), deny)
    assert (verdict.kind, verdict.is_firm) == (VerdictKind.ASK, True)


@pytest.mark.parametrize("command", ["npm test", "sed 1rlink src/x", "foo " + "link " * 480])
def test_links_are_looked_up_in_time(command: str, tmp_path: Path) -> None:
    (tmp_path / "link").mkdir()
    for folder in (tmp_path, tmp_path / "link"):
        for number in range(4_000):
            (folder / f"link{number}").symlink_to("link0")
    timed(command, tmp_path, ("Bash",), DENY)


def test_the_console_stays_alive_while_a_verdict_is_made(tmp_path: Path) -> None:
    world, gaps = World(tmp_path), list[float]()

    async def watch() -> None:
        while True:
            before = monotonic()
            await asyncio.sleep(0.01)
            gaps.append(monotonic() - before)

    async def step(parts: Parts) -> str:
        watching = asyncio.create_task(watch())
        told = await call(parts, "foo; grep -r x .")
        watching.cancel()
        return told

    for number in range(4_000):
        world.file(f"many/{number}")
    deny = [f"Read(n{number}*)" for number in range(20)]
    assert world.session(step, deny=deny) == ["asked"]
    assert len(gaps) > 10


@pytest.mark.parametrize(
    ("pattern", "name", "is_denied"),
    [
        ("*a*a*b", "xaxab", True),
        ("*a*a*b", "xab", False),
        ("*[ab]*c*d", "bcd", True),
        ("*[!x]*c*d", "xcd", False),
        ("s*/*a*b*.py", "src/xaxbx.py", True),
        ("**/a/**/b/**/c/**/d/**/e/**/f", "a/b/c/d/e/f", True),
    ],
)
def test_file_rules_with_many_stars_mean_the_same(
    pattern: str, name: str, is_denied: bool, tmp_path: Path
) -> None:
    verdict = timed(f"cat {name}", tmp_path, (), (f"Read({pattern})",))
    assert (verdict.kind is VerdictKind.DENY) is is_denied


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*.py", "b.py .py"),
        ("a*b*c", "abc axbxc abcbc"),
        ("*ab*ab", "abab xabyab"),
        ("?*?", "ab b.py"),
        ("*a", "a ba"),
        ("a*", "a abc"),
        ("**b", "b ab"),
    ],
)
def test_patterns_without_backtracking_match_as_bash_does(
    pattern: str, matches: str, tmp_path: Path
) -> None:
    names = {*matches.split(), "x", "ba", "ab", "abcx", "yx", ".hidden", "aab"}
    for name in names:
        (tmp_path / name).write_text("")
    [part] = parse_script(f"echo {pattern}").parts
    argv = ["bash", "-c", f"printf '%s\\n' {pattern}"]
    printed = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=True, text=True).stdout
    assert set(expand(part.words[1], tmp_path)) == set(printed.splitlines())


@pytest.mark.parametrize(
    ("pattern", "text", "sure", "possible"),
    [
        ("a*b", "ab", True, True),
        ("a*b", "axxb", True, True),
        ("a**b*", "ab", True, True),
        ("a*b", "a", False, False),
        ("a*b", "a_", False, True),
        ("abc", "a_c", False, True),
        ("abc", "b_", False, False),
        ("*", "", True, True),
        ("", "x", False, False),
    ],
)
def test_patterns_of_rules_match_known_and_unknown_text(
    pattern: str, text: str, sure: bool, possible: bool
) -> None:
    pattern, text = pattern.replace("*", ANY), text.replace("_", HOLE)
    assert fits(pattern, text) is sure
    assert fits(pattern, text, in_holes=True) is possible
