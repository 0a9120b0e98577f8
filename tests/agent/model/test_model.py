"""Requests to the Messages API over real HTTP."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scripted_api import Reply, ScriptedApi, refused, said, scripted_api, text_of
from turnlog.agent.model.messages_api import DEFAULT_MODEL, summarise
from turnlog.errors import ModelError

RETRIED = 3
"""How often a request is sent that may succeed another time."""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, and none of those that the user of this machine may have."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api(said("What was said.")) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


def failure(api: ScriptedApi, *replies: Reply) -> ModelError:
    api.replies[:] = replies
    with pytest.raises(ModelError) as raised:
        summarise("extracts")
    return raised.value


def test_one_request_brings_the_summary(api: ScriptedApi) -> None:
    assert summarise("extracts") == "What was said."
    (request,) = api.requests
    assert request.path == "/v1/messages"
    assert request.headers["authorization"] == "Bearer not-a-key"
    assert request.body["model"] == DEFAULT_MODEL
    assert text_of(request) == "extracts"
    assert "summary" in request.body["system"]


def test_the_model_can_be_chosen_and_a_token_used(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token")
    summarise("extracts", "claude-opus-5-5")
    assert api.requests[0].body["model"] == "claude-opus-5-5"
    assert api.requests[0].headers["authorization"] == "Bearer token"


def test_without_a_key_nothing_is_asked(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    error = failure(api, said("never"))
    assert error.message == "no key for the Messages API"
    assert error.hint == "export ANTHROPIC_API_KEY=KEY"
    assert api.requests == []


def test_a_refusal_names_status_request_and_reason(api: ScriptedApi) -> None:
    error = failure(api, refused(401, "invalid x-api-key"))
    assert error.message == (
        f"the Messages API refused {DEFAULT_MODEL}: invalid x-api-key (status 401, request req_1)"
    )
    assert (error.status, error.request_id, error.exit_code) == (401, "req_1", 1)
    assert error.hint == "export ANTHROPIC_API_KEY=KEY"
    assert len(api.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 529])
def test_what_may_pass_is_tried_again_and_then_told(api: ScriptedApi, status: int) -> None:
    error = failure(api, refused(status, "too much"))
    assert (error.status, error.request_id) == (status, f"req_{RETRIED}")
    assert error.hint is None
    assert len(api.requests) == RETRIED


def test_a_retry_that_succeeds_is_an_answer(api: ScriptedApi) -> None:
    api.replies[:] = [refused(500, "oh"), refused(429, "no"), said("At last.")]
    assert summarise("extracts") == "At last."


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (said("Half of", "max_tokens"), "the summary was cut at 16,000 tokens"),
        (said("I can't", "refusal"), "the model declined to write the summary"),
        (said(""), "the model wrote no summary"),
    ],
)
def test_an_answer_that_is_not_whole_is_none(api: ScriptedApi, reply: Reply, message: str) -> None:
    error = failure(api, reply)
    assert (error.message, error.request_id) == (message, "req_1")


def test_an_address_where_nobody_answers_is_named(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.server_close()
    error = failure(api, said("never"))
    assert error.message.startswith(f"no answer from {api.url}/v1/messages: ")
    assert error.status is None
