"""Scenes of `turnlog chat` for pictures: a scripted model, and someone who types, in a terminal."""

import os
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.scripted_api import Fields, Reply, ScriptedApi, answered, called, scripted_api
from support.tmux import Pane, terminal

ROWS = 50
HOME = "/home/ada"
"""Name of the temporary home in a picture."""
FILES = {
    "cart.py": '''\
from catalog import Item


def total(items: list[Item], discount: float = 0) -> float:
    """The price of all items in euros; the discount is in percent."""
    price = sum(item.price * item.count for item in items)
    return price - price * discount / 100
''',
    "catalog.py": "class Item:\n    price: float\n    count: int\n",
    "Makefile": """\
test:
\t@echo 'test_discount ... ok'
\t@echo 'test_empty_cart ... ok'
\t@sleep 60
""",
}
OLD = """\
    price = sum(item.price * item.count for item in items)
    return price - price * discount / 100
"""
NEW = """\
    cents = sum(round(item.price * 100) * item.count for item in items)
    return round(cents * (100 - discount) / 100) / 100
"""
EDIT = {"file_path": "cart.py", "old_string": OLD, "new_string": NEW}
FOUND = """\
The total is added up in **floats**, where `0.1 + 0.2` is not `0.3`. So:

1. add up whole *cents*
2. take the discount off once, at the end
"""
TODO = (
    ("Add up cents", "Adding up cents", "completed"),
    ("Run the tests", "Running the tests", "in_progress"),
    ("Say it in the changelog", "Saying it in the changelog", "pending"),
)


@contextmanager
def chat(replies: Sequence[Reply], *options: str, columns: int) -> Generator[tuple[Pane, Path]]:
    """A chat in a project of its own; gives its terminal, and the temporary home."""
    # A chat may still be writing when its terminal is gone.
    made = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with made as folder, scripted_api(*replies) as api:
        home = Path(folder)
        work = home / "shop"
        for name, content in FILES.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(content)
        _isolate(home, api)
        command = [sys.executable, "-m", "turnlog", "chat", *options]
        with terminal(command, work, columns, ROWS) as pane:
            pane.see("% of ")
            yield pane, home


def _isolate(home: Path, api: ScriptedApi) -> None:
    """Let what is started know nothing of who draws the picture."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE_", "TMUX", "NO_COLOR", "MAKE", "MFLAGS")):
            del os.environ[name]
    os.environ["HOME"] = str(home)
    os.environ["TURNLOG_HOME"] = str(home / ".turnlog")
    os.environ["ANTHROPIC_BASE_URL"] = api.url
    os.environ["ANTHROPIC_API_KEY"] = "not-a-key"
    os.environ["CLAUDE_CODE_ENABLE_TODO_TOOLS"] = "1"
    os.environ["CLAUDE_CODE_ENABLE_TASKS"] = "0"


def asked(columns: int) -> str:
    """The screen when a change is asked about."""
    with chat(_fixing(), columns=columns) as (pane, home):
        pane.say("A cart with a discount shows 17.990000000000002. Why?")
        pane.see("Make this change?")
        return _seen(pane, home)


def working(columns: int) -> str:
    """The screen while a command runs, and something more is typed."""
    options = ("--permission-mode", "acceptEdits", "--allowed-tools", "Bash(make test)")
    with chat(_testing(), *options, columns=columns) as (pane, home):
        pane.say("Mend it, and run the tests.")
        pane.see("test_empty_cart ... ok")
        pane.say("and show me the three slowest")
        pane.see("slowest  queued", "✻ Running the tests", "ctrl-b to background")
        return _seen(pane, home)


def _seen(pane: Pane, home: Path) -> str:
    """The screen with its colours."""
    return pane.screen("-e").replace(str(home), HOME)


def _fixing() -> list[Reply]:
    return [
        called(
            ("t1", "Grep", {"pattern": "discount", "output_mode": "content"}),
            ("t2", "Read", {"file_path": "cart.py"}),
        ),
        _answered(FOUND, ("t3", "Edit", EDIT)),
    ]


def _testing() -> list[Reply]:
    todos = [{"content": each, "activeForm": form, "status": at} for each, form, at in TODO]
    return [
        called(("t1", "Read", {"file_path": "cart.py"})),
        called(("t2", "Edit", EDIT), ("t3", "TodoWrite", {"todos": todos})),
        _answered("The tests will tell.", ("t4", "Bash", {"command": "make test"})),
    ]


def _answered(text: str, call: tuple[str, str, Fields]) -> Reply:
    """An answer of a conversation that has gone on for a while."""
    name, tool, given = call
    return answered(
        {"type": "text", "text": text},
        {"type": "tool_use", "id": name, "name": tool, "input": given},
        stop_reason="tool_use",
        input_tokens=21_000,
        output_tokens=310,
    )
