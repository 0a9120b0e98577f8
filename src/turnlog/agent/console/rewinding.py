"""Going back to before a prompt: which one, what with it, and what that would do to files."""

import asyncio
from pathlib import Path

from turnlog.agent.console.ink import cut, one_line
from turnlog.agent.console.menu import Choices, Item, Menu
from turnlog.agent.console.talk import Talk
from turnlog.agent.files.rewind import (
    FileBack,
    Point,
    RewindPlan,
    Scope,
    apply_rewind,
    plan_rewind,
    rewind_points,
    undo_rewind,
)
from turnlog.conversation.session import Session, open_session
from turnlog.edit.journal import Journal
from turnlog.format.timestamps import age, parse_timestamp
from turnlog.store.paths import journal_folder

UNDO = "undo"
STAY = "enter to go on · esc to stay"
NAMED = 60
"""Cells of a prompt by which it is named."""
SHOWN = 8
"""Files that are named."""


async def rewind(talk: Talk, arguments: str) -> None:
    """Go back to before a prompt, or undo that."""
    path = talk.chat.parts.recorder.path
    if not path.exists():
        talk.telling.note("there is nothing to go back to yet")
        return
    session = await asyncio.to_thread(open_session, path)
    chosen = await talk.face.choose(point_menu(rewind_points(session), talk.rewound is not None))
    if chosen == UNDO:
        _undo(talk, session)
    elif chosen:
        await _go_back(talk, session, chosen)


def point_menu(points: list[Point], has_undo: bool) -> Menu:
    """The prompts to go back to before, the last first."""
    undo = [Item("Undo the last time of going back", UNDO)] if has_undo else []
    items = [Item(point.text, point.uuid, _when(point)) for point in reversed(points)]
    return Menu(["Go back to before which prompt?"], [*undo, *items], STAY)


def scope_menu(plan: RewindPlan, root: Path) -> Choices:
    """What is to go back, with what that does to files."""
    lost = [file for file in plan.files if file.is_lost]
    files = [file for file in plan.files if not file.is_lost]
    told = [f"  {_told(file, root)}" for file in plan.files[:SHOWN]]
    more = len(plan.files) - SHOWN
    told += [f"  … and {more} more"] if more > 0 else []
    items = [Item("Conversation", Scope.CONVERSATION, "files stay as they are")]
    if files:
        both = Item("Conversation and files", Scope.BOTH)
        items = [both, *items, Item("Files", Scope.FILES, "the conversation goes on")]
    head = ["Go back with what?", f"to before: {cut(one_line(plan.point.text), NAMED)}", *told]
    head += ["no file has changed since"] if not files and not lost else []
    return Choices(head, items, STAY)


def _told(file: FileBack, root: Path) -> str:
    name = file.path.relative_to(root) if file.path.is_relative_to(root) else file.path
    if file.is_lost:
        return f"{name} stays: its copy is gone"
    done = "is brought back" if file.copy else "is removed"
    return (
        f"{name} {done}{', though someone else has changed it' if file.is_changed_outside else ''}"
    )


async def _go_back(talk: Talk, session: Session, prompt: str) -> None:
    root = talk.chat.parts.workspace.root
    plan = plan_rewind(talk.store, session, prompt, root)
    scope = await talk.face.choose(scope_menu(plan, root))
    if scope is None:
        return
    is_sure = scope is Scope.CONVERSATION or not plan.conflicts
    if not is_sure and not await talk.face.choose(_conflict_menu(plan, root)):
        return
    talk.rewound = apply_rewind(plan, scope, session, _journal(), overwrite=True)
    if scope is not Scope.FILES:
        talk.go_on()
        talk.face.type_in(plan.point.text)
    done = [] if scope is Scope.FILES else ["the conversation is where it was before that prompt"]
    done += [] if scope is Scope.CONVERSATION else _counted(plan)
    talk.telling.note(f"went back: {', '.join(done)}; /rewind can undo it")


def _counted(plan: RewindPlan) -> list[str]:
    """How many files were brought back, and how many removed."""
    files = [file for file in plan.files if not file.is_lost]
    back = sum(file.copy is not None for file in files)
    counts = ((back, "brought back"), (len(files) - back, "removed"))
    return [f"{count} file{'' if count == 1 else 's'} {what}" for count, what in counts if count]


def _conflict_menu(plan: RewindPlan, root: Path) -> Choices:
    names = [f"  {_told(file, root)}" for file in plan.conflicts[:SHOWN]]
    items = [Item("No, leave everything as it is", False), Item("Yes, overwrite them", True)]  # noqa: FBT003
    return Choices(["Overwrite what someone else has changed?", *names], items, STAY)


def _undo(talk: Talk, session: Session) -> None:
    assert talk.rewound, "offered only then"
    undo_rewind(talk.rewound, session, _journal())
    talk.rewound = None
    talk.go_on()
    talk.telling.note("undone: everything is as it was before going back")


def _journal() -> Journal:
    return Journal(journal_folder())


def _when(point: Point) -> str:
    moment = parse_timestamp(point.time)
    return f"{age(moment)} ago" if moment else ""
