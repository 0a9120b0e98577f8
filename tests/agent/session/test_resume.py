"""Resumed sessions: requests contain exactly the session's context."""

import asyncio
import json
from pathlib import Path

import pytest

from support.build import assistant, call, compaction, nth, session, text, user
from support.scripted_api import ScriptedApi
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.session.resume import SMALL, _tail_start, latest_in, reopen
from turnlog.conversation.node_log import NodeLog, ReadExtent
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.errors import NotFound, UsageError
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

NAME = "5e551011-0000-4000-8000-000000000000"


def keep(store: Store, project: Path, content: bytes, name: str = NAME) -> Path:
    path = store.project_of(str(project)) / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def go_on(store: Store, prompt: str, **options: object) -> Path:
    """Run a prompt in a session; return its file."""

    async def run() -> Path:
        chat = await open_chat(store, ChatOptions(**options))  # pyright: ignore[reportArgumentType]
        async for _ in chat.loop.run(prompt):
            pass
        await chat.close()
        return chat.parts.recorder.path

    return asyncio.run(run())


def sent(api: ScriptedApi, prompt: str) -> list[Fields]:
    """The messages of the first request, without the prompt and without marks for the cache."""
    messages = json.loads(json.dumps(api.requests[0].body["messages"]))
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    last = messages[-1]["content"]
    assert last.pop() == {"type": "text", "text": prompt}
    if last and last[-1]["type"] == "text":
        last[-1]["text"] = last[-1]["text"].removesuffix("\n")
    return messages if last else messages[:-1]


def test_any_session_goes_on_with_its_context(
    session_file: Path,
    store: Store,
    project: Path,
    api: ScriptedApi,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DISABLE_AUTO_COMPACT", "1")
    path = keep(store, project, session_file.read_bytes())
    before = path.read_bytes()
    try:
        expected = open_session(path).context()
        go_on(store, "And now?", cwd=project, resume=path, model="opus")
    except NotFound:
        assert open_session(path).tree.active_leaf is None
        return
    assert sent(api, "And now?") == expected
    after = path.read_bytes()
    assert after.startswith(before)
    messages = open_session(path).context()
    assert messages[-1]["content"][-1]["text"] == "Done."


def test_what_broke_off_is_completed_as_the_client_does(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    path = keep(store, project, session(user("go"), assistant(call("Bash", {"command": "ls"}))))
    go_on(store, "again", cwd=project, resume=path)
    opened = open_session(path)
    assert check_session(opened) == []
    (answer,) = [
        m for m in opened.context() if m["content"][0].get("text") == "No response requested."
    ]
    assert answer["role"] == "assistant"
    assert "[Tool call interrupted" in json.dumps(opened.context())


def test_opening_alone_leaves_a_session_as_it_is(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    path = keep(store, project, session(user("go"), assistant(call("Bash", {"command": "ls"}))))
    before = path.read_bytes()
    asyncio.run(open_chat(store, ChatOptions(cwd=project, resume=path)))
    assert path.read_bytes() == before


def test_the_model_and_the_mode_are_those_of_the_session(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    lines = (
        user("go", permission_mode="acceptEdits"),
        assistant(text("ok"), message={"model": "claude-x"}),
    )
    path = keep(store, project, session(*lines))
    go_on(store, "again", cwd=project, resume=path)
    assert api.requests[0].body["model"] == "claude-x"
    assert reopen(path).mode is ApprovalMode.ACCEPT_EDITS


@pytest.mark.parametrize("mode", ["plan", "bypassPermissions"])
def test_some_modes_are_not_gone_on_with(store: Store, project: Path, mode: str) -> None:
    path = keep(store, project, session(user("go", permission_mode=mode), assistant(text("ok"))))
    assert reopen(path).mode is None


def test_the_mode_may_have_changed_since_the_last_prompt(store: Store, project: Path) -> None:
    def switched(mode: str) -> bytes:
        return json.dumps({"type": "permission-mode", "permissionMode": mode}).encode() + b"\n"

    turn = session(user("go", permission_mode="acceptEdits"), assistant(text("ok")))
    path = keep(store, project, turn + switched("default"))
    assert reopen(path).mode is ApprovalMode.DEFAULT
    keep(store, project, switched("default") + turn)
    assert reopen(path).mode is ApprovalMode.ACCEPT_EDITS
    keep(store, project, turn + switched("bypassPermissions"))
    assert reopen(path).mode is None


def test_lines_to_come_are_later_than_any_in_the_file(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    future = "2126-01-01T00:00:00.000Z"
    path = keep(store, project, session(user("go"), assistant(text("ok"), timestamp=future)))
    go_on(store, "again", cwd=project, resume=path)
    times = [node.time or "" for node in open_session(path).tree.chain]
    assert times == sorted(times)
    assert times[2] > future


def long_session(*end: bytes) -> bytes:
    """A session that is not read whole: a long history, a compaction, and an end."""
    old = [user("x" * 50_000) for _ in range(2 * SMALL // 50_000)]
    return session(*old, *compaction("What was said."), *end)


def test_of_a_long_session_only_what_follows_its_compaction_is_read(
    store: Store, project: Path
) -> None:
    path = keep(store, project, long_session(user("go"), assistant(text("ok"))))
    whole = open_session(path)
    resumed = reopen(path)
    assert resumed.chain == list(whole.values(whole.branch_to(whole.tree.active_leaf)))[-4:]
    assert len(resumed.chain) == 4


def test_of_a_long_session_messages_that_its_compaction_kept_are_read_too(
    store: Store, project: Path
) -> None:
    count = 2 * SMALL // 50_000
    kept = {"anchorUuid": nth(count + 3), "uuids": [nth(count + 1)], "allUuids": [nth(count + 1)]}
    lines = (
        *(user("x" * 50_000) for _ in range(count)),
        assistant(text("First or second?")),
        *compaction("What was said.", compact_metadata={"preservedMessages": kept}),
        user("the second"),
        assistant(text("ok")),
    )
    path = keep(store, project, session(*lines))
    resumed = reopen(path)
    said = [entry["message"]["content"] for entry in resumed.chain if "message" in entry]
    assert said[1] == [text("First or second?")]
    assert len(NodeLog(path, ReadExtent(_tail_start(path))).nodes) == 5


def test_a_long_session_that_goes_on_before_its_compaction_is_read_whole(
    store: Store, project: Path
) -> None:
    back = user("elsewhere", parent=nth(1)), assistant(text("ok"))
    path = keep(store, project, long_session(*back))
    assert [entry["type"] for entry in reopen(path).chain] == ["user", "user", "assistant"]


def test_a_fork_goes_on_by_itself(store: Store, project: Path, api: ScriptedApi) -> None:
    path = keep(store, project, session(user("go"), assistant(text("ok"))))
    before = path.read_bytes()
    copy = go_on(store, "again", cwd=project, resume=path, is_fork=True)
    assert path.read_bytes() == before
    assert copy != path
    assert len(open_session(copy).context()) == 4
    ids = {json.loads(raw).get("sessionId") for raw in copy.read_bytes().splitlines()}
    assert ids - {None} == {copy.stem}


def test_a_new_session_may_not_have_the_id_of_another(store: Store, project: Path) -> None:
    keep(store, project, session(user("go")))
    with pytest.raises(UsageError, match="exists already"):
        asyncio.run(open_chat(store, ChatOptions(cwd=project, session_id=NAME)))


def test_the_latest_of_a_directory_is_found(store: Store, project: Path, tmp_path: Path) -> None:
    first = keep(store, project, session(user("one", timestamp="2026-01-01T00:00:00.000Z")), "a")
    last = keep(store, project, session(user("two", timestamp="2026-01-02T00:00:00.000Z")), "b")
    keep(store, tmp_path, session(user("three", timestamp="2026-01-03T00:00:00.000Z")), "c")
    assert latest_in(store, project) == last
    last.unlink()
    assert latest_in(store, project) == first
    with pytest.raises(NotFound):
        latest_in(store, tmp_path / "elsewhere")


def test_a_session_goes_on_where_the_client_starts_if_a_parent_is_missing(
    store: Store, project: Path
) -> None:
    late = {"parent": "gone", "timestamp": "2026-11-15T09:00:00.000Z"}
    lines = user("q1"), assistant(text("a1")), user("q2", **late), assistant(text("a2"))
    path = keep(store, project, session(*lines))
    assert [line["uuid"] for line in reopen(path).chain] == [nth(3), nth(4)]
