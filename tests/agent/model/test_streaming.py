"""Streamed answers: permanent and temporary failures."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from time import time

import pytest

from support.scripted_api import ScriptedApi, answered, called, refused, said, stream_events
from turnlog.agent.loop.answering import LONGEST_WAIT, backoff
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.request import build_request
from turnlog.agent.model.answer import StreamedMessage
from turnlog.agent.model.model_names import ModelChoice, choose, for_mode, model_named
from turnlog.agent.model.streaming import Faltered, Model, _asked_wait, is_too_long
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields

REQUEST: Fields = {
    "model": "claude-opus-5-5",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "hi"}],
}


@pytest.fixture(params=["direct", "official"])
def api(
    api: ScriptedApi, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> ScriptedApi:
    """The API, asked directly and with the official client."""
    if request.param == "official":
        monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-from: a test")
    return api


def ask() -> StreamedMessage:
    async def run() -> StreamedMessage:
        model = Model()
        try:
            async with model.ask(REQUEST) as stream:
                answer = StreamedMessage(stream.request_id)
                async for event in stream.events:
                    answer.take(event)
                return answer
        finally:
            await model.close()

    return asyncio.run(run())


def test_an_answer_is_whole_when_all_its_pieces_are_there(api: ScriptedApi) -> None:
    reply = called(("t1", "Bash", {"command": "ls -l", "n": [1, 2.5, None]}), text="Look at this.")
    api.replies[:] = [reply]
    answer = ask()
    assert answer.blocks == reply.body["content"]
    assert (answer.stop_reason, answer.request_id, answer.text) == (
        "tool_use",
        "req_1",
        "Look at this.",
    )
    assert answer.message["usage"] == reply.body["usage"]


def test_thinking_keeps_its_signature(api: ScriptedApi) -> None:
    thought = {"type": "thinking", "thinking": "A longer thought.", "signature": "c2lnbmVk"}
    hidden = {"type": "redacted_thinking", "data": "aGlkZGVu"}
    api.replies[:] = [answered(thought, hidden, {"type": "text", "text": "So."})]
    assert ask().blocks[:2] == [thought, hidden]


def test_blocks_of_the_apis_own_tools_are_kept(api: ScriptedApi) -> None:
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    found: Fields = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    api.replies[:] = [answered(use, found)]
    answer = ask()
    assert answer.blocks == [use, found]
    assert answer.calls == []


def test_an_input_that_was_cut_off_is_empty() -> None:
    answer = StreamedMessage()
    events = list(stream_events(called(("t1", "Write", {"content": "long"})).body))
    del events[5]
    for event in events:
        answer.take(event)
    assert answer.blocks[0]["input"] == {}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_some_failures_may_pass(api: ScriptedApi, status: int) -> None:
    api.replies[:] = [refused(status, "later")]
    with pytest.raises(Faltered) as raised:
        ask()
    assert (raised.value.status, raised.value.wait) == (status, 0.001)
    assert len(api.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413])
def test_others_do_not(api: ScriptedApi, status: int) -> None:
    api.replies[:] = [refused(status, "no")]
    with pytest.raises(ModelError) as raised:
        ask()
    assert not isinstance(raised.value, Faltered)
    assert raised.value.status == status


def test_the_api_itself_may_say_whether_to_try_again(api: ScriptedApi) -> None:
    api.replies[:] = [refused(529, "no")._replace(headers=(("x-should-retry", "false"),))]
    with pytest.raises(ModelError) as raised:
        ask()
    assert not isinstance(raised.value, Faltered)


@pytest.mark.parametrize("fault", ["cut_after", "garbled_after"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_an_answer_that_breaks_off_may_pass(api: ScriptedApi, fault: str, place: int) -> None:
    api.replies[:] = [said("Half of it.")._replace(**{fault: place})]
    with pytest.raises(Faltered, match="the answer was cut off"):
        ask()


def test_an_address_where_nobody_answers_may_pass(api: ScriptedApi) -> None:
    api.server_close()
    with pytest.raises(Faltered, match="no answer from http"):
        ask()


class _Failing(BaseHTTPRequestHandler):
    """Begins an answer, and then reports that it cannot continue."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        events = [*list(stream_events(said("x").body))[:3], error]
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""


@pytest.fixture
def failing() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Failing) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_an_error_in_the_middle_has_the_status_of_its_kind(
    failing: str, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", failing)
    with pytest.raises(Faltered) as raised:
        ask()
    assert raised.value.status == 529


def test_without_a_key_nothing_is_asked(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ModelError, match="no key"):
        ask()
    assert api.requests == []


def test_quitting_does_not_wait_for_the_official_client(tmp_path: Path) -> None:
    (tmp_path / "anthropic.py").write_text("import time; time.sleep(20); print('imported')")
    code = "from turnlog.agent.model.streaming import Model; Model({}).prepare(); print('quit')"
    places = os.pathsep.join([str(tmp_path), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": places},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert run.stdout == "quit\n"


def test_the_wait_that_is_asked_for_is_read() -> None:
    assert _asked_wait({}) is None
    assert _asked_wait({"retry-after": "2.5"}) == 2.5
    assert _asked_wait({"retry-after-ms": "20", "retry-after": "9"}) == 0.02
    wait = _asked_wait({"retry-after": formatdate(time() + 100, usegmt=True)})
    assert wait is not None
    assert 90 < wait <= 100
    assert _asked_wait({"retry-after": "whenever"}) is None


def test_waits_grow_within_bounds() -> None:
    waits = [backoff(attempt) for attempt in range(1, 12)]
    assert 0.3 < waits[0] < 0.7
    assert max(waits) <= LONGEST_WAIT * 1.25


def test_what_is_too_long_is_known() -> None:
    assert is_too_long(ModelError("the API refused: Prompt is too long: 2 > 1", None, 400))
    assert is_too_long(ModelError("request too large", None, 413))
    assert not is_too_long(ModelError("bad input", None, 400))


def test_thinking_is_asked_for_with_room_for_an_answer(parts: Parts) -> None:
    parts.choice = ModelChoice("claude-sonnet-4-5", max_tokens=1000, thinking_tokens=8000)
    parts.recorder.prompt("go", "default", "typed")
    request = build_request(parts)
    assert request["thinking"] == {"type": "enabled", "budget_tokens": 8000}
    assert request["max_tokens"] > 8000


def test_newer_models_decide_how_much_they_think(parts: Parts) -> None:
    parts.choice = ModelChoice("claude-opus-5-5", max_tokens=1000, thinking_tokens=8000)
    parts.recorder.prompt("go", "default", "typed")
    request = build_request(parts)
    assert request["thinking"] == {"type": "adaptive"}
    assert request["max_tokens"] == 1000


@pytest.mark.parametrize(
    ("model", "thinking", "effort"),
    [
        ("claude-opus-5-5", {"type": "adaptive"}, "medium"),
        ("claude-opus-4-6", {"type": "adaptive"}, "high"),
        ("claude-opus-4-5", {"type": "enabled", "budget_tokens": 31_999}, "high"),
        ("claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 31_999}, None),
        ("qwen3-coder", None, None),
    ],
)
def test_models_think_by_default_as_in_the_client(
    parts: Parts, model: str, thinking: Fields | None, effort: str | None
) -> None:
    parts.choice = choose(model, {})
    parts.recorder.prompt("go", "default", "typed")
    request = build_request(parts)
    assert request.get("thinking") == thinking
    assert request.get("output_config") == ({"effort": effort} if effort else None)


def test_a_variable_turns_thinking_off_where_the_model_allows_it(parts: Parts) -> None:
    parts.recorder.prompt("go", "default", "typed")
    for model, kind in (("claude-sonnet-4-5", "disabled"), ("claude-opus-5-5", "adaptive")):
        parts.choice = choose(model, {"MAX_THINKING_TOKENS": "0"})
        assert build_request(parts)["thinking"] == {"type": kind}


def test_only_opusplan_changes_the_model_in_plan_mode() -> None:
    for name, expected in (("sonnet", "claude-sonnet-5-5"), ("opusplan", "claude-opus-5-5")):
        choice = choose(name, {})
        assert choice.model == "claude-sonnet-5-5"
        assert for_mode(choice, is_planning=True, environment={}).model == expected


def test_models_are_chosen_by_name_and_environment() -> None:
    assert choose(None, {}).model == "claude-opus-5-5"
    assert choose(None, {"ANTHROPIC_MODEL": "haiku"}).model == "claude-haiku-5-5"
    assert choose("sonnet", {"MAX_THINKING_TOKENS": "4000"}).thinking_tokens == 4000
    assert choose("x", {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": "99"}).max_tokens == 99
    assert model_named("opus[1m]", {"ANTHROPIC_DEFAULT_OPUS_MODEL": "my-opus"}) == "my-opus[1m]"
