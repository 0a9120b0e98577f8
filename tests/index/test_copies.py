"""Totals do not change when sessions are cloned, forked or copied."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from support.build import assistant, call, line, result, session, text, user
from turnlog.conversation.session import open_session
from turnlog.edit.clone import plan_clone
from turnlog.edit.plan import Plan
from turnlog.edit.transforms import TransformOptions, straighten
from turnlog.index.database import open_index
from turnlog.index.ingest.sync import sync
from turnlog.index.reports.report_cache import OF_THE_MOMENT, cached_report
from turnlog.index.reports.reports import REPORTS, Row, run_report
from turnlog.store.paths import Store

ONE, TWO = (f"0000000{n}-0000-4000-8000-000000000000" for n in (1, 2))
USAGE = {"input_tokens": 10, "output_tokens": 20}
Total = Callable[[], Row]
KEPT = set(REPORTS) - {OF_THE_MOMENT}


@pytest.fixture
def total(store: Store, tmp_path: Path) -> Total:
    """Return the current totals of all sessions."""

    def add_up() -> Row:
        with open_index(tmp_path / "index.db") as index:
            sync(index, store, words=False)
            fresh = {name: run_report(index.db, name) for name in KEPT}
            for _ in range(2):  # answered, and as it was kept
                assert {name: cached_report(index.db, name) for name in KEPT} == fresh
            return fresh["daily"].total

    return add_up


@pytest.fixture
def source(store: Store) -> Path:
    """A session of two turns with a sub-agent, a commit and a local command."""
    folder = store.projects / "-home-ada-shop"
    folder.mkdir()
    path = folder / f"{ONE}.jsonl"
    path.write_bytes(
        session(
            user("fix it"),
            assistant(call("Edit", {"file_path": "a", "new_string": "x"}), message_id="msg_1"),
            result("toolu_1"),
            user("and this"),
            assistant(text("done"), message_id="msg_2", message={"usage": USAGE}),
            session_id=ONE,
        )
    )
    agent = folder / ONE / "subagents" / "agent-a1b2c3d4.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(
        session(
            user("look"),
            assistant(text("seen"), message_id="msg_3"),
            session_id=ONE,
            agent_id="a1b2c3d4",
        )
    )
    return path


def test_a_clone_counts_nothing_again(source: Path, store: Store, total: Total) -> None:
    before = total()
    opened = open_session(source)
    for path, lines in plan_clone(store, opened, Plan(opened)).files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
    assert before["turns"] == 2
    assert total() == before


def clone_of(store: Store, path: Path) -> Path:
    """Write a clone of a session; return its file."""
    opened = open_session(path)
    clone = plan_clone(store, opened, Plan(opened))
    for file, lines in clone.files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(lines))
    return clone.path


def test_messages_without_an_id_count_once(source: Path, store: Store, total: Total) -> None:
    for path in source.parent.rglob("*.jsonl"):
        raw = re.sub(rb',"id":"msg_\d"|,"requestId":"[^"]*"', b"", path.read_bytes())
        if path != source:  # uuids of the builder are unique in a file only
            raw = raw.replace(b"00000000-0000-4000-8000-0", b"a0000000-0000-4000-8000-0")
        assert b"msg_" not in raw
        path.write_bytes(raw)
    before = total()
    assert (before["output"], before["turns"]) == (60, 2)
    clone = clone_of(store, source)
    assert total() == before
    assert json.loads(clone.read_bytes().splitlines()[1])["forkedFrom"]["sessionId"] == ONE
    # A clone of a clone, also if the first one is gone.
    clone_of(store, clone)
    assert total() == before
    clone.unlink()
    assert total() == before
    source.unlink()
    assert total()["output"] == before["output"]


def test_messages_without_an_id_count_once_in_the_clone_of_a_fork(
    source: Path, store: Store, total: Total
) -> None:
    lines: list[bytes] = []
    for raw in re.sub(rb',"id":"msg_\d"', b"", source.read_bytes()).splitlines():
        own = json.loads(raw)["uuid"]
        note = b',"forkedFrom":{"sessionId":"%s","messageUuid":"%s"}}\n'
        lines.append(raw.removesuffix(b"}") + note % (TWO.encode(), own.encode()))
    source.write_bytes(b"".join(lines))
    shutil.rmtree(source.with_suffix(""))
    before = total()
    assert before["output"] == 40
    clone_of(store, source)
    assert total() == before


@pytest.mark.parametrize("name", [f"{n}0000000-0000-4000-8000-000000000001" for n in (0, 9)])
def test_a_straightened_clone_counts_nothing_again(
    source: Path, store: Store, total: Total, name: str
) -> None:
    # Both prompts and an answer are earlier than the entries before them, so they are moved.
    times = [f"2026-11-15T06:00:{second}.000Z" for second in (30, 40, 50, 20, 45)]
    entries = map(json.loads, source.read_bytes().splitlines())
    moved = [entry | {"timestamp": at} for entry, at in zip(entries, times, strict=True)]
    start = user("/ide", uuid="first", timestamp=times[1], session_id=ONE)
    moved[0]["parentUuid"] = "first"
    source.write_bytes(start + b"".join(json.dumps(entry).encode() + b"\n" for entry in moved))
    before = total()
    opened = open_session(source)
    plan = Plan(opened)
    straighten(opened, plan, TransformOptions())
    ids = iter([name])
    clone = plan_clone(store, opened, plan, new_id=lambda: next(ids, None) or str(uuid4()))
    for path, lines in clone.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(lines))
    assert before["turns"] == 3
    assert total() == before


def test_a_fork_counts_nothing_again(source: Path, total: Total) -> None:
    before = total()
    forked = list[bytes]()
    for raw in source.read_bytes().splitlines():
        entry = json.loads(raw)
        origin = {"sessionId": ONE, "messageUuid": entry["uuid"]}
        forked.append(json.dumps(entry | {"sessionId": TWO, "forkedFrom": origin}).encode())
    source.with_name(f"{TWO}.jsonl").write_bytes(b"\n".join(forked) + b"\n")
    assert total() == before


@pytest.mark.parametrize("is_cloned", [True, False])
def test_a_copy_counts_nothing_again_after_its_prompts_and_directory_changed(
    source: Path, store: Store, total: Total, is_cloned: bool
) -> None:
    # A sync keeps uuids and gives the edited version another id; a bundle clones it.
    before = total()
    copy = clone_of(store, source) if is_cloned else source.with_name(f"{TWO}.jsonl")
    files = [copy, *copy.with_suffix("").rglob("*.jsonl")] if is_cloned else [source]
    for path in files:
        raw = path.read_bytes().replace(b'"fix it"', b'"mend it"').replace(b'"look"', b'"see"')
        target = path if is_cloned else copy
        target.write_bytes(raw.replace(b"/home/ada/shop", b"/home/bob/shop"))
    assert b"mend it" in copy.read_bytes()
    assert total() == before


def test_a_copy_of_the_store_counts_nothing_again(source: Path, store: Store, total: Total) -> None:
    before = total()
    shutil.copytree(source.parent, store.projects / "-home-ada-shop-copy")
    assert total() == before


def test_the_same_prompt_at_another_time_is_another_turn(source: Path, total: Total) -> None:
    later = session(user("fix it", timestamp="2026-11-15T09:00:00.000Z"), session_id=TWO)
    before = total()["turns"]
    source.with_name(f"{TWO}.jsonl").write_bytes(later)
    after = total()["turns"]
    assert isinstance(before, int)
    assert after == before + 1


def progress(message_id: str, output: int, **fields: Any) -> bytes:
    """A line in which a session repeats a message of its sub-agent."""
    body = {"id": message_id, "model": "claude-opus-5", "usage": {"output_tokens": output}}
    told = {"type": "assistant", "message": body, "requestId": "req_1"}
    data = {"type": "agent_progress", "agentId": "a9", "message": told}
    return line("progress", data=data, **fields)


def test_messages_that_only_progress_lines_hold_count_once(source: Path, total: Total) -> None:
    before = total()
    with source.open("ab") as file:
        file.write(session(progress("msg_9", 5), progress("msg_9", 70), session_id=ONE))
    assert total()["output"] == before["output"] + 70  # pyright: ignore[reportOperatorIssue]
    agent = source.with_suffix("") / "subagents" / "agent-a9.jsonl"
    body = {"usage": {"output_tokens": 70}, "model": "claude-opus-5"}
    own = assistant(text("so"), message_id="msg_9", message=body, request_id="req_1")
    agent.write_bytes(session(own, session_id=ONE, agent_id="a9"))
    assert total()["output"] == before["output"] + 70  # pyright: ignore[reportOperatorIssue]


def test_a_repeated_message_counts_although_another_field_is_odd(
    source: Path, total: Total
) -> None:
    before = total()["output"]
    with source.open("ab") as file:
        file.write(session(progress("msg_9", 70, slug=5), session_id=ONE))
    assert total()["output"] == before + 70  # pyright: ignore[reportOperatorIssue]


def test_a_message_id_with_another_request_is_another_message(source: Path, total: Total) -> None:
    def lines(name: str, request: str | None) -> bytes:
        body = {"usage": {"output_tokens": 100}}
        own = assistant(text("so"), message_id="msg_7", message=body, request_id=request)
        return session(own, session_id=name)

    start = total()["output"] or 0
    names = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(2, 6)]
    requests = ("req_1", "req_2", "req_2", None)
    outputs = list[object]()
    for name, request in zip(names, requests, strict=True):
        source.with_name(f"{name}.jsonl").write_bytes(lines(name, request))
        outputs.append(total()["output"])
    assert outputs == [start + 100, start + 200, start + 200, start + 200]  # pyright: ignore
