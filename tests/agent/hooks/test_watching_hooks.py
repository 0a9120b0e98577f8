"""Hooks that watch files."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from turnlog.agent.hooks.file_watch import wants_watch, watch
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.format.json_values import Fields


def hooks_of(folder: Path, event: str, matcher: str | None = None, answer: str = "") -> Hooks:
    command = f"part=$(mktemp -p .); cat > $part; mv $part told.$(date +%s%N); {answer}"
    group: Fields = {"hooks": [{"type": "command", "command": command}]}
    groups = {event: [group | ({"matcher": matcher} if matcher else {})]}
    return Hooks(groups, SessionFacts("s", folder / "s.jsonl", folder, folder))


def told_in(folder: Path) -> list[Fields]:
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("told.*"))]


def heard_of(
    folder: Path, hooks: Hooks, settings: dict[Path, str], *changes: Callable[[], object]
) -> list[Fields]:
    """Make changes, each after hooks reported the one before; return the reports."""

    async def after() -> None:
        pass

    async def run() -> None:
        hooks.keep(watch(hooks, settings, after, pause=0.01))
        await asyncio.sleep(0)
        for count, change in enumerate(changes, 1):
            change()
            while len(told_in(folder)) < count:
                await asyncio.sleep(0.01)
        await hooks.close()

    asyncio.run(run())
    return told_in(folder)


def test_hooks_hear_of_files_that_come_change_and_go(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    changes = (
        lambda: path.write_text("A=1"),
        lambda: path.write_text("A=1\nB=2"),
        path.unlink,
    )
    told = heard_of(tmp_path, hooks_of(tmp_path, "FileChanged", ".envrc|.env"), {}, *changes)
    assert [each["event"] for each in told] == ["add", "change", "unlink"]
    assert {each["file_path"] for each in told} == {str(path)}


def test_hooks_may_name_further_files(tmp_path: Path) -> None:
    more = tmp_path / "more" / "a.csv"
    more.parent.mkdir()
    named = {"hookEventName": "FileChanged", "watchPaths": [str(more)]}
    answer = f"echo '{json.dumps({'hookSpecificOutput': named})}'"
    hooks = hooks_of(tmp_path, "FileChanged", answer=answer)
    asyncio.run(hooks.fire("FileChanged", "first", {}))
    for path in tmp_path.glob("told.*"):
        path.unlink()
    (told,) = heard_of(tmp_path, hooks, {}, lambda: more.write_text("x"))
    assert (told["file_path"], told["event"]) == (str(more), "add")


def test_hooks_hear_of_changed_settings(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    hooks = hooks_of(tmp_path, "ConfigChange", "user_settings")
    (told,) = heard_of(
        tmp_path, hooks, {path: "user_settings"}, lambda: path.write_text('{"a": 1}')
    )
    assert (told["source"], told["file_path"]) == ("user_settings", str(path))


@pytest.mark.parametrize(
    ("event", "expected"), [("FileChanged", True), ("ConfigChange", True), ("Stop", False)]
)
def test_nothing_is_watched_that_no_hook_would_hear_of(
    tmp_path: Path, event: str, expected: bool
) -> None:
    assert wants_watch(hooks_of(tmp_path, event)) is expected
