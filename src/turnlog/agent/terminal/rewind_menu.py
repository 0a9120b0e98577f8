"""The menu for rewinding: choose a prompt and a scope, and preview the changes to files.

A file is deleted or created only after the menu has named it and the user has confirmed twice. A
file outside the working directories, or one that programs take commands from, is confirmed
separately: a session that somebody else wrote could name any file.
"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from turnlog.agent.session.rewind import (
    FileBack,
    Point,
    RewindPlan,
    RewindScope,
    apply_rewind,
    plan_rewind,
    rewind_points,
    undo_rewind,
)
from turnlog.agent.terminal.call_preview import spelled
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item, Menu
from turnlog.agent.terminal.styled_text import cut, one_line
from turnlog.conversation.session import Session, open_session
from turnlog.edit.journal import Journal
from turnlog.format.timestamps import age, parse_timestamp
from turnlog.store.paths import journal_folder
from turnlog.text import drop_unsafe

UNDO = "undo"
STAY = "enter to continue · esc to stay"
NAMED = 60
"""Maximum cells of a prompt in a menu."""
SHOWN = 8
"""Maximum number of files named in a menu; a key lists all."""


class Single(StrEnum):
    """The user's choice for one file."""

    NO = "no"
    YES = "yes"
    NONE = "none"
    """Neither this file nor the remaining ones."""


async def rewind(driver: ChatDriver, arguments: str) -> None:
    """Rewind to before a prompt, or undo a rewind."""
    path = driver.chat.parts.recorder.path
    if not path.exists():
        driver.display.note("there is nothing to rewind yet")
        return
    session = await asyncio.to_thread(open_session, path)
    chosen = await driver.screen.choose(
        point_menu(rewind_points(session), driver.rewound is not None)
    )
    if chosen == UNDO:
        _undo(driver, session)
    elif chosen:
        await _go_back(driver, session, chosen)


def point_menu(points: list[Point], has_undo: bool) -> Menu:
    """Return the menu of prompts to rewind to, newest first."""
    undo = [Item("Undo the last rewind", UNDO)] if has_undo else []
    items = [Item(point.text, point.uuid, _when(point)) for point in reversed(points)]
    return Menu(["Go back to before which prompt?"], [*undo, *items], STAY)


def scope_menu(plan: RewindPlan, root: Path) -> Choices:
    """Return the menu of scopes; if a file is at risk, keeping the files is the default."""
    keep = Item("Conversation", RewindScope.CONVERSATION, "files stay as they are")
    items = [keep]
    if plan.usual or plan.apart:
        counts = _counts(plan)
        both = Item("Conversation and files", RewindScope.BOTH, counts)
        # Whoever presses Enter out of habit must not delete, create or overwrite anything.
        items = [keep, both] if plan.apart or _risky(plan) else [both, keep]
        items.append(Item("Files", RewindScope.FILES, f"the conversation stays; {counts}"))
    listed = _listed(_by_risk(plan), root)[:SHOWN]
    more = len(plan.files) - SHOWN
    listed += [f"  … and {more:,} more"] if more > 0 else []
    head = ["Go back with what?", f"to before: {cut(one_line(plan.point.text), NAMED)}", *listed]
    head += [] if plan.files else ["no file has changed since"]
    return Choices(head, items, STAY)


def confirm_menu(plan: RewindPlan, root: Path) -> Choices:
    """Return the second confirmation, for files to delete or create, or that lose changes."""
    risky = _risky(plan)
    listed = _listed(risky, root)[:SHOWN]
    listed += [f"  … and {len(risky) - SHOWN:,} more"] if len(risky) > SHOWN else []
    removed, created = len(plan.removed), len(plan.created)
    changed = len(risky) - removed - created
    acts = [f"delete {_files(removed)}"] if removed else []
    acts += [f"create {_files(created)}"] if created else []
    acts += [f"overwrite {_files(changed)} that someone else has changed"] if changed else []
    act = " and ".join(acts)
    items = [Item("No, leave everything as it is", False), Item(f"Yes, {act}", True)]  # noqa: FBT003
    return Choices([f"{act[0].upper()}{act[1:]}?", *listed], items, STAY)


def single_menu(file: FileBack, others: int, root: Path) -> Choices:
    """Return the question about one file; `others` is the number of files still to ask about."""
    act = "delete" if file.copy is None else "create" if file.is_created else "overwrite"
    items = [Item("No, leave it as it is", Single.NO), Item(f"Yes, {act} it", Single.YES)]
    if others:
        items.append(Item(f"No, and leave {_files(others)} more as well", Single.NONE))
    head = [f"{act.capitalize()} this file?", f"  {_effect_of(file, root)}"]
    return Choices(head, items, STAY)


def _risky(plan: RewindPlan) -> list[FileBack]:
    overwritten = [file for file in plan.conflicts if file.copy and not file.is_created]
    return [*plan.removed, *plan.created, *overwritten]


def _by_risk(plan: RewindPlan) -> list[FileBack]:
    """Return all files, starting with those that the user must not overlook."""
    first = [*plan.apart, *_risky(plan)]
    return [*first, *(file for file in plan.files if file not in first)]


def _listed(files: Sequence[FileBack], root: Path) -> list[str]:
    return [f"  {_effect_of(file, root)}" for file in files]


def _effect_of(file: FileBack, root: Path) -> str:
    path = file.path.relative_to(root) if file.path.is_relative_to(root) else file.path
    name = spelled(str(path))
    if file.is_lost:
        return f"{name} stays: its copy is gone"
    done = "is created" if file.is_created else "is brought back" if file.copy else "is deleted"
    other = ", though someone else has changed it" if file.is_changed_outside else ""
    asked = f", if you say so: {file.apart}" if file.apart else ""
    return f"{name} {done}{other}{asked}"


async def _go_back(driver: ChatDriver, session: Session, prompt: str) -> None:
    workspace = driver.chat.parts.workspace
    root = workspace.root
    plan = plan_rewind(driver.store, session, prompt, root, workspace.directories)
    scope = await _choose(driver, scope_menu(plan, root), _by_risk(plan))
    if scope is None:
        return
    if scope is not RewindScope.CONVERSATION:
        risky = _risky(plan)
        if risky and not await _choose(driver, confirm_menu(plan, root), risky):
            return
        chosen = await _choose_apart(driver, plan, root)
        if chosen is None:
            return
        plan = plan.choosing(chosen)
    driver.rewound = apply_rewind(plan, scope, session, _journal(), overwrite=True)
    if scope is not RewindScope.FILES:
        driver.reload_session()
        # The session may be a stranger's, and the editor does not escape bidi overrides.
        driver.screen.type_in(drop_unsafe(plan.point.text))
    done = (
        []
        if scope is RewindScope.FILES
        else ["the conversation is where it was before that prompt"]
    )
    done += [] if scope is RewindScope.CONVERSATION else _done(plan)
    driver.display.note(f"went back: {', '.join(done)}; /rewind can undo it")


async def _choose_apart(driver: ChatDriver, plan: RewindPlan, root: Path) -> list[Path] | None:
    """Ask about each file that needs its own confirmation; None leaves everything as it is."""
    chosen: list[Path] = []
    for rank, file in enumerate(plan.apart, start=1):
        answer = await driver.screen.choose(single_menu(file, len(plan.apart) - rank, root))
        if answer is None:
            return None
        if answer is Single.NONE:
            break
        chosen += [file.path] if answer is Single.YES else []
    return chosen


async def _choose(driver: ChatDriver, menu: Menu, files: Sequence[FileBack]) -> Any:
    """Let the user choose; a key lists all files if there are more than the menu shows."""
    if len(files) > SHOWN:
        root = driver.chat.parts.workspace.root
        menu.expand = lambda: driver.show_lines(_listed(files, root))
    return await driver.screen.choose(menu)


def _counts(plan: RewindPlan) -> str:
    """Summarise the changes to files: `deletes 1 file, restores 2 files`."""
    back = len(plan.usual) - len(plan.removed) - len(plan.created)
    counts = (
        (len(plan.removed), "deletes"),
        (len(plan.created), "creates"),
        (back, "restores"),
        (len(plan.apart), "asks about"),
    )
    return ", ".join(f"{what} {_files(count)}" for count, what in counts if count)


def _done(plan: RewindPlan) -> list[str]:
    back = len(plan.usual) - len(plan.removed)
    counts = ((back, "brought back"), (len(plan.removed), "deleted"))
    return [f"{_files(count)} {what}" for count, what in counts if count]


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _undo(driver: ChatDriver, session: Session) -> None:
    assert driver.rewound, "offered only then"
    undo_rewind(driver.rewound, session, _journal())
    driver.rewound = None
    driver.reload_session()
    driver.display.note("undone: conversation and files are as before the rewind")


def _journal() -> Journal:
    return Journal(journal_folder())


def _when(point: Point) -> str:
    moment = parse_timestamp(point.time)
    return f"{age(moment)} ago" if moment else ""
