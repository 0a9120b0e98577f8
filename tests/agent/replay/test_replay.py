"""A recorded session served as a Messages API: the official client asks it."""

import json
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError
from anthropic.types import MessageParam

from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    image,
    line,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.agent.replay.recorded_answers import OVER, tracks_of
from turnlog.agent.replay.replay_server import ReplayServer
from turnlog.conversation.session import open_session

Fields = dict[str, Any]
TALK = (
    user("list the files"),
    assistant(thinking("hm"), message_id="msg_a"),
    assistant(
        call("Bash", {"command": "ls"}),
        message_id="msg_a",
        message={"stop_reason": "tool_use", "usage": {"input_tokens": 7, "output_tokens": 9}},
    ),
    result("toolu_1", "a.txt"),
    assistant(
        text("There is a.txt. " * 9), message_id="msg_b", message={"stop_reason": "end_turn"}
    ),
)


def ask(client: Anthropic, *messages: MessageParam) -> Any:
    return client.messages.create(model="claude-x", max_tokens=100, messages=list(messages))


def said(words: Any) -> MessageParam:
    return {"role": "user", "content": words}


@contextmanager
def serving(server: ReplayServer) -> Generator[ReplayServer]:
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def replaying(
    folder: Path, *lines: bytes, strict: bool = False
) -> Generator[tuple[Anthropic, list[str], ReplayServer]]:
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(session(*lines))
    told: list[str] = []
    with (
        serving(ReplayServer(open_session(path), told.append, strict=strict)) as server,
        Anthropic(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        yield client, told, server


def results(*blocks: Fields) -> MessageParam:
    return said(list(blocks))


RESULT: Fields = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}


def test_requests_get_the_recorded_messages_in_their_order(tmp_path: Path) -> None:
    with replaying(tmp_path, *TALK) as (client, told, _):
        first = ask(client, said("list the files"))
        second = ask(
            client,
            said("list the files"),
            {"role": "assistant", "content": first.content},
            results(RESULT),
        )
    assert [block.type for block in first.content] == ["thinking", "tool_use"]
    assert (first.id, first.stop_reason, first.model) == ("msg_a", "tool_use", "claude-opus-5-5")
    assert (first.usage.input_tokens, first.usage.output_tokens) == (7, 9)
    assert first._request_id == "req_msg_a"
    assert second.content[0].text == "There is a.txt. " * 9
    assert told == []


def test_a_stream_brings_the_same_message(tmp_path: Path) -> None:
    with replaying(tmp_path, *TALK) as (client, _, _):
        asked = {"model": "m", "max_tokens": 9, "messages": [said("list the files")]}
        with client.messages.stream(**asked) as stream:  # pyright: ignore[reportArgumentType]
            kinds = [event.type for event in stream]
            streamed, request = stream.get_final_message(), stream.request_id
        whole = client.messages.create(**asked)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    assert streamed.model_dump(exclude={"parsed_output"}) == whole.model_dump()  # pyright: ignore[reportUnknownMemberType]
    assert {"thinking", "signature", "input_json"} <= set(kinds)
    assert request == "req_msg_a"


def test_a_request_that_is_sent_again_gets_the_same_answer(tmp_path: Path) -> None:
    with replaying(tmp_path, *TALK) as (client, _, _):
        names = [ask(client, said("list the files")).id for _ in range(2)]
    assert names == ["msg_a", "msg_a"]


def test_a_request_that_differs_is_answered_and_told(tmp_path: Path) -> None:
    with replaying(tmp_path, *TALK) as (client, told, _):
        answer = ask(client, said("list the folders"))
    assert answer.id == "msg_a"
    assert told[0].splitlines() == [
        "request 1 of main differs from the recorded one:",
        "--- recorded",
        "+++ received",
        "@@ -1 +1 @@",
        "-list the files",
        "+list the folders",
    ]


def test_reminders_and_notes_make_no_difference(tmp_path: Path) -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nnow\n</system-reminder>"}
    words = {"type": "text", "text": "list the files", "cache_control": {"type": "ephemeral"}}
    note: Any = {"role": "system", "content": "It is late."}
    with replaying(tmp_path, *TALK) as (client, told, _):
        ask(client, said([reminder, words]), note)
    assert told == []


def test_strictly_a_difference_is_refused_and_nothing_is_played(tmp_path: Path) -> None:
    with replaying(tmp_path, *TALK, strict=True) as (client, _, _):
        with pytest.raises(BadRequestError, match="list the folders"):
            ask(client, said("list the folders"))
        assert ask(client, said("list the files")).id == "msg_a"


def test_behind_the_end_it_is_said_that_nothing_follows(tmp_path: Path) -> None:
    with replaying(tmp_path, user("hi"), assistant(text("hello"))) as (client, told, _):
        ask(client, said("hi"))
        answer = ask(client, said("and now?"))
    assert (answer.content[0].text, answer.stop_reason) == (OVER, "end_turn")
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (0, 0)
    assert told == ["request 2 of main: only 1 are recorded"]


def test_tokens_are_counted_as_they_were_recorded(tmp_path: Path) -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 40, "output_tokens": 1}
    lines = (user("hi"), assistant(text("hello"), message={"usage": usage}))
    with replaying(tmp_path, *lines) as (client, _, _):
        counted = client.messages.count_tokens(model="m", messages=[said("hi")])
    assert counted.input_tokens == 43


def test_an_answer_without_a_reason_to_stop_gets_one(tmp_path: Path) -> None:
    lines = (user("hi"), assistant(call("Bash")), result("toolu_1"), assistant(text("done")))
    with replaying(tmp_path, *lines) as (client, _, _):
        reasons = [ask(client, said(words)).stop_reason for words in ("hi", "more")]
    assert reasons == ["tool_use", "end_turn"]


def test_an_answer_without_a_message_is_empty(tmp_path: Path) -> None:
    with replaying(tmp_path, user("hi"), line("assistant")) as (client, _, _):
        answer = ask(client, said("hi"))
    assert (answer.content, answer.stop_reason) == ([], "end_turn")


def test_errors_that_the_client_wrote_down_are_no_answers(tmp_path: Path) -> None:
    failed = assistant(
        text("API Error"), message={"model": "<synthetic>"}, is_api_error_message=True
    )
    with replaying(tmp_path, user("hi"), failed, user("hi"), assistant(text("yes"))) as served:
        assert ask(served[0], said("hi")).content[0].text == "yes"


def test_answers_go_on_behind_a_compaction(tmp_path: Path) -> None:
    lines = (user("hi"), assistant(text("one")), *compaction("so far"), assistant(text("two")))
    with replaying(tmp_path, *lines) as (client, told, _):
        ask(client, said("hi"))
        assert ask(client, said("so far")).content[0].text == "two"
    assert told == []


def test_blocks_of_other_kinds_are_compared_too(tmp_path: Path) -> None:
    lines = (user([text("what is it?"), image()]), assistant(text("a dot")))
    with replaying(tmp_path, *lines) as (client, told, _):
        ask(client, said([text("what is it?"), image()]))
        assert told == []
        ask(client, said([text("what is it?"), image("b3RoZXI=")]))
    assert "request 2 of main" in told[0]


def agent_file(folder: Path, name: str, *lines: bytes) -> None:
    path = folder / SESSION / "subagents" / f"agent-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(session(*lines, agent_id=name))


def test_sub_agents_are_known_by_what_they_were_asked_first(tmp_path: Path) -> None:
    agent_file(tmp_path, "a1", user("find the bug"), assistant(text("in a.py")))
    agent_file(tmp_path, "a2", user("find the docs"), assistant(text("in docs")))
    with replaying(tmp_path, user("help"), assistant(text("main says"))) as (client, told, _):
        answers = [
            ask(client, said(words)).content[0].text
            for words in ("find the docs", "help", "find the bug")
        ]
    assert answers == ["in docs", "main says", "in a.py"]
    assert told == []


def test_sub_agents_that_start_the_same_go_on_by_how_far_they_are(tmp_path: Path) -> None:
    for name in ("a1", "a2"):
        lines = (user("look"), assistant(text(f"{name} one")), user("on"), assistant(text("two")))
        agent_file(tmp_path, name, *lines)
    with replaying(tmp_path, user("help"), assistant(text("main"))) as (client, _, server):
        first = ask(client, said("look")).content[0].text
        second = ask(client, said([text("look"), text("<system-reminder>x")])).content[0].text
        again: Any = {"role": "assistant", "content": "a1 one"}
        ask(client, said("look"), again, said("on"))
    assert (first, second) == ("a1 one", "a2 one")
    assert [track.played for track in server.tracks] == [0, 2, 1]


def refusal(url: str, body: bytes, **headers: str) -> int:
    """The status of a refused request."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(url, body, headers))
    with refused.value as answer:
        assert json.load(answer)["type"] == "error"
        return answer.code


def test_what_is_no_request_is_refused_as_the_api_would(tmp_path: Path) -> None:
    with replaying(tmp_path, *TALK) as (_, _, server):
        assert refusal(f"{server.url}/v1/messages", b"{") == 400
        assert refusal(f"{server.url}/v1/messages", b"[]") == 400
        assert refusal(f"{server.url}/v1/other", b"{}") == 404
        assert refusal(f"{server.url}/v1/messages", b"{}", Host="evil.example:80") == 403
        with urllib.request.urlopen(f"{server.url}/v1/messages?beta=true", b"{}") as answer:
            assert answer.status == 200


def test_every_session_can_be_played(session_file: Path) -> None:
    for track in tracks_of(open_session(session_file)):
        for rank in range(len(track.messages)):
            answer = track.answer(rank)
            assert answer
            assert answer.body["stop_reason"]
            json.dumps(track.expected(rank))
