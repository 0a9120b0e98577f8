"""The slash command that shows changes: uncommitted ones, and those of each turn.

git runs under the permission rules, as confined as if the model had called it: a repository's
configuration can name programs that `git diff` runs.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from turnlog.agent.chat.prompt_expansion import run_permitted
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Item, Menu
from turnlog.agent.terminal.styled_text import one_line
from turnlog.agent.terminal.text_viewer import TextViewer, ViewedLine
from turnlog.agent.workspace.repository import repository_of
from turnlog.agent.workspace.tool import ToolError, ToolOutcome
from turnlog.conversation.session import open_session
from turnlog.format.json_values import is_object
from turnlog.text import plural
from turnlog.worktree.file_steps import TurnPlaces, diff_change, file_steps
from turnlog.worktree.worktree import open_worktree

UNCOMMITTED = "git diff --no-color --no-ext-diff HEAD"
STAGED = "git diff --no-color --no-ext-diff --cached"
"""Used before the first commit, when there is no HEAD to compare with."""
UNTRACKED = "git ls-files --others --exclude-standard"
MOST_BYTES = 2_000_000
MOST_LINES = 20_000
CUT = "… {count:,} more lines are not shown (try: {command})"
ROLES = {"+": "added", "-": "removed", "@": "dim", "\\": "dim"}
HUNK = "@@"
SIGNS = ("+", "-", " ", "\\", HUNK)
"""Prefixes of the lines of a hunk."""
FOOT = "enter to show it · esc to leave"
NOT_HERE = "this directory is not in a git repository"


class ShownDiff(Struct, frozen=True):
    """A diff with its title."""

    title: str
    lines: list[ViewedLine]
    note: str = ""
    """A short summary, or why it is empty."""


class TurnDiff(Struct):
    """The files that a turn changed."""

    turn: int | None
    prompt: str
    lines: list[str] = []
    files: dict[str, None] = {}


async def show_diff(driver: ChatDriver, arguments: str) -> None:
    """Let the user choose what to see: uncommitted changes, or those of a turn."""
    diffs = await _read_diffs(driver)
    items = [Item(one_line(each.title), number, each.note) for number, each in enumerate(diffs)]
    menu = Menu(["Show which changes?"], items, FOOT)
    chosen: int | None
    while (chosen := await driver.screen.choose(menu)) is not None:
        await driver.screen.choose(TextViewer(diffs[chosen].title, diffs[chosen].lines))
        menu = Menu(menu.head, items, FOOT)
        menu.index = chosen


async def _read_diffs(driver: ChatDriver) -> list[ShownDiff]:
    parts = driver.chat.parts
    driver.display.start()
    driver.display.working("reading changes")
    try:
        turns = asyncio.to_thread(diffs_of_turns, parts.recorder.path)
        first, others = await asyncio.gather(uncommitted(parts), turns)
    finally:
        driver.display.finish()
    return [first, *others]


async def uncommitted(parts: Parts) -> ShownDiff:
    """Return the uncommitted changes, with the names of untracked files."""
    title = "Not committed"
    if repository_of(parts.workspace.cwd) is None:
        return ShownDiff(title, [("dim", NOT_HERE)], NOT_HERE)
    try:
        text = await _git(parts, UNCOMMITTED) or await _git(parts, STAGED) or ""
        names = (await _git(parts, UNTRACKED) or "").splitlines()
    except ToolError as error:
        return ShownDiff(title, [("error", str(error))], one_line(str(error)))
    lines = list(diff_lines(text.splitlines()))
    files = sum(role == "bold" and line.startswith("diff ") for role, line in lines)
    new: list[ViewedLine] = [("dim", f"not tracked by git: {name}") for name in names]
    untracked = [f"{plural(len(names), 'file')} not tracked"] if names else []
    note = " · ".join([_counts(files, lines), *untracked])
    return ShownDiff(title, _first_lines([*new, *lines], UNCOMMITTED), note)


async def _git(parts: Parts, command: str) -> str | None:
    """Return the output of git, up to a limit; None if it fails."""
    outcome = await run_permitted(command, parts.workspace, parts.rules)
    return None if outcome.is_error else await asyncio.to_thread(_printed, outcome)


def _printed(outcome: ToolOutcome) -> str:
    data = outcome.data if is_object(outcome.data) else {}
    saved = data.get("persistedOutputPath")
    if not isinstance(saved, str):
        return str(data.get("stdout") or "")
    with Path(saved).open("rb") as file:
        text = file.read(MOST_BYTES).decode("utf-8", "replace")
    Path(saved).unlink(missing_ok=True)
    return text


def diffs_of_turns(path: Path) -> list[ShownDiff]:
    """Return the changes that tools made in each turn of a session, the last turn first."""
    if not path.exists():
        return []
    worktree = open_worktree(open_session(path))
    places = TurnPlaces(worktree, None)
    turns: dict[int, TurnDiff] = {}
    for name in worktree.changed_files:
        for step in file_steps(worktree, name, None, places):
            found = turns.setdefault(step.turn or 0, TurnDiff(step.turn, step.prompt, [], {}))
            diff = diff_change(step.before, step.version)
            reason = step.version.belief.reason or "its content is not known"
            short = name.path.removeprefix(f"{worktree.root}/")
            found.lines += [f"diff {short}", *(diff or [f"@@ {reason} @@"])]
            found.files[name.path] = None
    return [_shown(turns[number]) for number in sorted(turns, reverse=True)]


def _shown(found: TurnDiff) -> ShownDiff:
    title = f"Turn {found.turn or '?'}: {found.prompt}"
    lines = list(diff_lines(found.lines))
    return ShownDiff(
        title, _first_lines(lines, "turnlog files --diff"), _counts(len(found.files), lines)
    )


def _counts(files: int, lines: Sequence[ViewedLine]) -> str:
    roles = Counter(role for role, _ in lines)
    counts = f"+{roles['added']:,} -{roles['removed']:,}"
    return f"{plural(files, 'file')} · {counts}" if files else "no changes"


def diff_lines(lines: Iterable[str]) -> Iterator[ViewedLine]:
    """Yield the lines of a diff, each with its role.

    >>> [role for role, _ in diff_lines(["--- a", "+++ b", "@@ -1 +1 @@", "--- x", "+y", " z"])]
    ['bold', 'bold', 'dim', 'removed', 'added', 'text']
    """
    # `--- x` within a hunk is a removed line that starts with two dashes.
    is_hunk = False
    for line in lines:
        is_hunk = line.startswith(HUNK) or (is_hunk and line.startswith(SIGNS))
        yield (ROLES.get(line[:1], "text") if is_hunk else "bold"), line


def _first_lines(lines: list[ViewedLine], command: str) -> list[ViewedLine]:
    """Return as many lines as can be shown; `command` prints the rest."""
    if len(lines) <= MOST_LINES:
        return lines
    return [
        *lines[:MOST_LINES],
        ("note", CUT.format(count=len(lines) - MOST_LINES, command=command)),
    ]
