"""Files and folders that are swapped for symlinks between the verdict and the call."""

import json
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from support.chatting import chat, recorded, rules_of
from support.scripted_api import ScriptedApi, called, said
from support.tool_calls import Calls
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.permissions.policy import PermissionReply, Question, VerdictKind
from turnlog.agent.tools.toolbox import TOOLS
from turnlog.agent.workspace.access import Basis, Reads, Writes, targets_of
from turnlog.agent.workspace.tool import Grant, ToolError

NOTEBOOK = json.dumps({"cells": [{"cell_type": "code", "id": "a", "source": ["old"]}]})
CALLS: dict[str, dict[str, Any]] = {
    "Read": {"file_path": "src/code.py"},
    "Write": {"file_path": "src/code.py", "content": "new"},
    "Edit": {"file_path": "src/code.py", "old_string": "old", "new_string": "new"},
    "NotebookEdit": {"notebook_path": "src/code.ipynb", "cell_id": "a", "new_source": "new"},
    "Grep": {"pattern": "SECRET", "path": "src/code.py", "output_mode": "content"},
    "Glob": {"pattern": "*", "path": "src"},
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder outside of the project, with files of the same names."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "code.py").write_text("old SECRET")
    (folder / "code.ipynb").write_text(NOTEBOOK)
    (folder / "hidden").write_text("")
    return folder


@pytest.fixture
def source(parts: Parts) -> Path:
    folder = parts.workspace.root / "src"
    folder.mkdir()
    (folder / "code.py").write_text("old")
    (folder / "code.ipynb").write_text(NOTEBOOK)
    parts.tools |= TOOLS
    return folder


def swap_folder(source: Path, outside: Path) -> None:
    source.rename(source.with_name("moved"))
    source.symlink_to(outside)


def swap_file(source: Path, outside: Path) -> None:
    for name in ("code.py", "code.ipynb"):
        (source / name).unlink()
        (source / name).symlink_to(outside / name)


def run_swapped(
    parts: Parts, api: ScriptedApi, tool: str, given: dict[str, Any], swap: Callable[[], None]
) -> str:
    """Run a call about which the user is asked, and swap files while the question is open."""
    reads = [("toolu_1", "Read", CALLS["Read"])]
    reads += [("toolu_2", "Read", {"file_path": "src/code.ipynb"})]
    api.replies[:] = [called(*reads), called(("toolu_3", tool, given)), said("Done.")]

    async def ask(question: Question) -> PermissionReply:
        if question.call_id == "toolu_3":
            swap()
        return PermissionReply("allow")

    rules_of(parts).kinds[tool] = VerdictKind.ASK
    parts.ask = ask
    [*_, result] = [line for line in recorded(chat(parts, "go")) if line["type"] == "user"]
    return str(result["message"]["content"][0]["content"])


@pytest.mark.parametrize(
    ("tool", "swap"),
    [*((tool, swap_folder) for tool in CALLS), *((tool, swap_file) for tool in list(CALLS)[:-1])],
)
def test_a_symlink_swapped_in_while_the_user_is_asked_is_not_followed(
    parts: Parts,
    api: ScriptedApi,
    source: Path,
    outside: Path,
    tool: str,
    swap: Callable[[Path, Path], None],
) -> None:
    before = {path: path.read_bytes() for path in outside.iterdir()}
    told = run_swapped(parts, api, tool, CALLS[tool], lambda: swap(source, outside))
    assert "changed while permission was being asked" in told
    assert {path: path.read_bytes() for path in outside.iterdir()} == before


@pytest.mark.parametrize("name", ["src/new.py", "src/deeper/new.py"])
def test_a_new_file_is_not_created_behind_a_symlink_that_was_swapped_in(
    parts: Parts, api: ScriptedApi, source: Path, outside: Path, name: str
) -> None:
    given = {"file_path": name, "content": "new"}
    told = run_swapped(parts, api, "Write", given, lambda: swap_folder(source, outside))
    assert "changed while permission was being asked" in told
    assert sorted(os.listdir(outside)) == ["code.ipynb", "code.py", "hidden"]


def test_a_new_file_does_not_follow_a_dangling_symlink_that_was_swapped_in(
    parts: Parts, api: ScriptedApi, source: Path, outside: Path
) -> None:
    given = {"file_path": "src/new.py", "content": "new"}
    link = source / "new.py"
    told = run_swapped(
        parts, api, "Write", given, lambda: link.symlink_to(outside / "authorized_keys")
    )
    assert "changed while permission was being asked" in told
    assert not (outside / "authorized_keys").exists()


def test_symlinks_that_were_there_before_the_verdict_are_followed(
    parts: Parts, api: ScriptedApi, source: Path
) -> None:
    (source.parent / "link").symlink_to(source)
    given = {"file_path": "link/new/file.py", "content": "new"}
    assert "created" in run_swapped(parts, api, "Write", given, lambda: None)
    assert (source / "new" / "file.py").read_text() == "new"
    (source / "alias.py").symlink_to("code.py")
    edit = {"file_path": "src/alias.py", "old_string": "old", "new_string": "new"}
    assert "updated" in run_swapped(parts, api, "Edit", edit, lambda: None)
    assert (source / "alias.py").is_symlink()
    assert (source / "code.py").read_text() == "new"


@contextmanager
def swapping(source: Path, outside: Path) -> Generator[None]:
    """Let a thread swap a folder for a symlink and back, as fast as it can."""
    done = Event()
    away = source.with_name("away")

    def swap() -> None:
        while not done.is_set():
            source.rename(away)
            with suppress(FileExistsError):  # a call may have created the folder again
                source.symlink_to(outside)
            while away.exists():
                source.unlink() if source.is_symlink() else shutil.rmtree(
                    source, ignore_errors=True
                )
                with suppress(OSError):
                    away.rename(source)

    thread = Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_no_timing_of_a_swap_leads_a_call_outside(tmp_path: Path, outside: Path) -> None:
    calls = Calls(tmp_path)
    calls.file("src/code.py", "old")
    source = calls.root / "src"
    before = sorted(os.listdir(outside))
    ways: list[str] = []
    grants = [
        Grant(Basis.RULE, targets_of([access]))
        for access in (Reads(source / "code.py"), *(Writes(source / f"{n}") for n in range(200)))
    ]
    with swapping(source, outside):
        for number, grant in enumerate(grants[1:]):
            with suppress(ToolError):
                given = {"file_path": str(source / f"{number}"), "content": "new"}
                calls.run_by(grant, "Write", **given)
                ways.append("written")
            with suppress(ToolError):
                path = str(source / "code.py")
                outcome = calls.run_by(grants[0], "Read", file_path=path)
                assert "SECRET" not in str(outcome.content)
                ways.append("read")
    assert sorted(os.listdir(outside)) == before
    assert ways
