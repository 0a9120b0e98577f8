"""Compaction: a summary replaces the conversation, which stays in the file."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.chatting import chat, ended, make_parts, recorded, sound_session
from support.scripted_api import Reply, ScriptedApi, answered, called, refused, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.loop.compaction import ASK, last_answer
from turnlog.agent.loop.context_limit import Compacting, compacting
from turnlog.agent.loop.conversation import Parts, TurnLimits
from turnlog.agent.loop.events import Event, Notice, TurnEnded
from turnlog.agent.loop.loop import Loop
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.model.model_names import ModelChoice
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

SUMMARY = answered({"type": "text", "text": "They greeted each other."})


def full(*blocks: Fields, stop_reason: str = "end_turn") -> Reply:
    """An answer after which there is no room for another."""
    return answered(*blocks, stop_reason=stop_reason, input_tokens=990_000)


def compact(parts: Parts, focus: str = "") -> list[Event]:
    async def run() -> list[Event]:
        events = [event async for event in Loop(parts).compact(focus)]
        await parts.model.close()
        return events

    return asyncio.run(run())


def first_texts(api: ScriptedApi, number: int) -> list[str]:
    """Return the start of each block that a request sends."""
    blocks = [b for m in api.requests[number].body["messages"] for b in m["content"]]
    return [(block.get("text") or block["type"])[:40] for block in blocks]


def test_the_user_can_have_it_compacted(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hello."), SUMMARY, said("On.")]
    chat(parts, "hello")
    events = compact(parts, "the greeting")
    asked = api.requests[1].body["messages"][-1]["content"][-1]["text"]
    assert asked.startswith(ASK)
    assert asked.endswith("The user adds: the greeting")
    boundary, summary = recorded(events)
    about = boundary["compactMetadata"]
    assert about["trigger"] == "manual"
    assert about["postTokens"] > 0
    assert about["durationMs"] >= 0
    assert "They greeted each other." in summary["message"]["content"]
    assert str(parts.recorder.path) in summary["message"]["content"]
    chat(parts, "and now")
    start, *rest = first_texts(api, 2)
    assert start == "This session is being continued from a p"
    assert rest == ["thinking", "Hello.", "and now"]
    sound_session(parts)


def test_what_was_said_before_stays_in_the_file(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hello."), SUMMARY]
    chat(parts, "hello")
    before = parts.recorder.path.read_bytes()
    compact(parts)
    after = parts.recorder.path.read_bytes()
    assert after.startswith(before)
    kinds = [json.loads(raw)["type"] for raw in after[len(before) :].splitlines()]
    assert kinds == ["summary", "system", "user", "cost-state"]


def test_a_full_conversation_is_compacted_before_the_next_prompt(
    parts: Parts, api: ScriptedApi
) -> None:
    api.replies[:] = [full({"type": "text", "text": "Hello."}), SUMMARY, said("On.")]
    events = chat(parts, "hello", "and now")
    start, *rest = first_texts(api, 2)
    assert start == "This session is being continued from a p"
    assert rest == ["Hello.", "and now"]
    assert any(isinstance(event, Notice) and "990,001 tokens" in event.text for event in events)
    assert ended(events).text == "On."


def test_a_conversation_that_fills_up_in_a_turn_goes_on_after_its_summary(
    parts: Parts, api: ScriptedApi
) -> None:
    call: Fields = {"type": "tool_use", "id": "t1", "name": "Echo", "input": {"text": "x"}}
    api.replies[:] = [full(call, stop_reason="tool_use"), SUMMARY, said("Done.")]
    assert ended(chat(parts, "go")).text == "Done."
    sent = first_texts(api, 2)
    assert (len(sent), sent[1]) == (2, "Go on with the work where it was, withou")
    sound_session(parts)


def test_one_that_the_model_calls_too_long_is_compacted(parts: Parts, api: ScriptedApi) -> None:
    too_long = refused(400, "prompt is too long: 210000 tokens > 200000 maximum")
    api.replies[:] = [said("Hello."), too_long, SUMMARY, said("On.")]
    assert ended(chat(parts, "hello", "and now")).text == "On."


def test_where_the_model_cannot_sum_up_extracts_take_the_place(
    parts: Parts, api: ScriptedApi
) -> None:
    too_long = refused(400, "prompt is too long: 210000 tokens > 200000 maximum")
    api.replies[:] = [said("Hello yourself."), too_long, too_long, said("On.")]
    assert ended(chat(parts, "hello", "and now")).text == "On."
    summary = api.requests[3].body["messages"][0]["content"][0]["text"]
    assert "Hello yourself." in summary


def test_a_model_with_little_room_is_compacted_again_and_again(
    parts: Parts, api: ScriptedApi
) -> None:
    def choose(body: Fields) -> Reply | None:
        is_long = len(json.dumps(body["messages"])) > 8_000
        return refused(400, "it exceeds the available context size") if is_long else None

    api.choose = choose
    api.replies[:] = [said("word " * 100)]
    events = chat(parts, *(f"prompt {number}" for number in range(40)))
    ends = [event.reason for event in events if isinstance(event, TurnEnded)]
    assert ends == ["done"] * 40
    boundaries = [each for each in recorded(events) if each.get("subtype") == "compact_boundary"]
    assert len(boundaries) > 2
    sound_session(parts)


def test_there_must_be_something_to_compact(parts: Parts, api: ScriptedApi) -> None:
    (noted, _) = compact(parts)
    assert noted == Notice("Not compacted: there is nothing to compact")
    assert api.requests == []


def test_a_failure_leaves_the_conversation_as_it_is(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hello."), refused(401, "no")]
    chat(parts, "hello")
    before = parts.recorder.path.read_bytes()
    assert ended(compact(parts)).reason == "failed"
    assert parts.recorder.path.read_bytes() == before


def test_hooks_hear_of_it_and_may_forbid_it(store: Store, project: Path, api: ScriptedApi) -> None:
    heard = project / "heard"
    hooks = {
        "PreCompact": [{"matcher": "manual", "hooks": [{"command": f"cat > {heard}; exit 2"}]}],
        "PostCompact": [{"hooks": [{"command": f"cat > {heard}"}]}],
    }
    parts = make_parts(store, project, hooks)
    api.replies[:] = [full({"type": "text", "text": "Hello."}), SUMMARY, said("On.")]
    chat(parts, "hello")
    assert ended(compact(parts, "x")).reason == "blocked"
    told = json.loads(heard.read_bytes())
    assert (told["trigger"], told["custom_instructions"]) == ("manual", "x")
    chat(parts, "and now")
    told = json.loads(heard.read_bytes())
    assert "They greeted each other." in told["compact_summary"]


@pytest.mark.parametrize(("model", "is_marked"), [("claude-x", False), ("claude-x[1m]", True)])
def test_the_mark_of_a_long_context_is_sent_as_a_header(
    parts: Parts, api: ScriptedApi, model: str, is_marked: bool
) -> None:
    parts.choice = ModelChoice(model)
    chat(parts, "hello")
    assert api.requests[0].body["model"] == "claude-x"
    has_header = "context-1m" in api.requests[0].headers.get("anthropic-beta", "")
    assert has_header == is_marked


def test_calls_in_a_summary_are_not_run(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hello."), called(("t1", "Echo", {"text": "x"})), said("On.")]
    chat(parts, "hello")
    events = compact(parts)
    assert [entry["type"] for entry in recorded(events)] == ["system", "user"]
    assert "hello" in recorded(events)[1]["message"]["content"]


def grown(parts: Parts, api: ScriptedApi, tokens: int, **rule: Any) -> bool:
    """Return whether a conversation of so many tokens is compacted before the next prompt."""
    parts.limits = TurnLimits(compacting=Compacting(**rule))
    api.replies[:] = [
        answered({"type": "text", "text": "Hello."}, input_tokens=tokens),
        SUMMARY,
        said("On."),
    ]
    chat(parts, "hello", "and now")
    return len(api.requests) == 3


@pytest.mark.parametrize(
    ("model", "tokens", "is_compacted"),
    [
        ("claude-opus-5-5", 960_000, False),
        ("claude-opus-5-5", 970_000, True),
        ("claude-sonnet-4-6", 160_000, False),
        ("claude-sonnet-4-6", 170_000, True),
        ("claude-sonnet-4-6[1m]", 170_000, False),
        ("qwen3-coder", 170_000, True),
    ],
)
def test_how_far_a_conversation_may_grow_is_up_to_its_model(
    parts: Parts, api: ScriptedApi, model: str, tokens: int, is_compacted: bool
) -> None:
    parts.choice = ModelChoice(model)
    assert grown(parts, api, tokens) == is_compacted


@pytest.mark.parametrize(
    ("rule", "tokens", "is_compacted"),
    [
        ({"window": 300_000}, 260_000, False),
        ({"window": 300_000}, 270_000, True),
        ({"window": 300_000, "share": 0.5}, 160_000, True),
        ({"share": 0.99}, 970_000, True),
        ({"is_automatic": False}, 999_000, False),
    ],
)
def test_how_far_a_conversation_may_grow_can_be_set(
    parts: Parts, api: ScriptedApi, rule: Fields, tokens: int, is_compacted: bool
) -> None:
    assert grown(parts, api, tokens, **rule) == is_compacted


def test_what_is_turned_off_is_not_done_even_if_it_is_too_long(
    parts: Parts, api: ScriptedApi
) -> None:
    parts.limits = TurnLimits(compacting=Compacting(is_automatic=False, is_possible=False))
    api.replies[:] = [refused(400, "prompt is too long: 210000 tokens > 200000 maximum")]
    events = chat(parts, "hello")
    assert len(api.requests) == 1
    assert ended(events).reason == "failed"
    assert any(isinstance(event, Notice) and "turned off" in event.text for event in events)
    assert recorded(compact(parts)) == []


@pytest.mark.parametrize(
    ("is_enabled", "window", "environment", "expected"),
    [
        (None, None, {}, Compacting()),
        (False, None, {}, Compacting(is_automatic=False)),
        (True, "auto", {"DISABLE_AUTO_COMPACT": "1"}, Compacting(is_automatic=False)),
        (
            None,
            None,
            {"DISABLE_COMPACT": "true"},
            Compacting(is_automatic=False, is_possible=False),
        ),
        (None, 500_000, {}, Compacting(window=500_000)),
        (None, 5, {}, Compacting(window=100_000)),
        (
            None,
            500_000,
            {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "2000000"},
            Compacting(window=1_000_000),
        ),
        (None, None, {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "500k"}, Compacting(window=100_000)),
        (None, None, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "80"}, Compacting(share=0.8)),
        (None, None, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "180"}, Compacting()),
        (None, None, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "half"}, Compacting()),
    ],
)
def test_settings_and_variables_say_when_to_compact(
    is_enabled: bool | None,
    window: int | str | None,
    environment: dict[str, str],
    expected: Compacting,
) -> None:
    assert compacting(is_enabled, window, environment) == expected


def test_what_is_not_used_of_a_window_is_told() -> None:
    assert Compacting().reserve(1_000_000) == 33_000
    assert Compacting(window=400_000).reserve(1_000_000) == 633_000
    assert Compacting(is_automatic=False).reserve(1_000_000) == 0


def test_a_chat_keeps_to_what_its_settings_say(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    store.settings.parent.mkdir(parents=True, exist_ok=True)
    store.settings.write_text('{"autoCompactEnabled": false, "autoCompactWindow": 400000}')

    async def limits() -> TurnLimits:
        opened = await open_chat(store, ChatOptions(cwd=project))
        await opened.close()
        return opened.parts.limits

    expected = Compacting(is_automatic=False, window=400_000)
    assert asyncio.run(limits()).compacting == expected


def test_the_last_answer_follows_the_summary_as_in_the_client(
    parts: Parts, api: ScriptedApi
) -> None:
    api.replies[:] = [said("First or second?"), SUMMARY, said("Good."), SUMMARY, said("On.")]
    chat(parts, "what are the options")
    asked = [each["uuid"] for each in parts.recorder.chain if each["type"] == "assistant"]
    boundary, summary = recorded(compact(parts))
    about = boundary["compactMetadata"]
    assert about["preservedMessages"]["uuids"] == asked
    assert about["preservedSegment"]["anchorUuid"] == summary["uuid"]
    assert about["cumulativeDroppedTokens"] == max(0, about["preTokens"] - about["postTokens"])
    events = chat(parts, "the second")
    prompt = next(each for each in recorded(events) if each["type"] == "user")
    assert prompt["parentUuid"] == summary["uuid"]
    session = sound_session(parts)
    roles = [message["role"] for message in session.context()]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert session.context()[1]["content"][-1]["text"] == "First or second?"
    again = recorded(compact(parts))[0]["compactMetadata"]
    assert again["cumulativeDroppedTokens"] >= about["cumulativeDroppedTokens"]


def test_an_answer_that_was_kept_does_not_make_the_context_look_full(
    parts: Parts, api: ScriptedApi
) -> None:
    api.replies[:] = [full({"type": "text", "text": "Hello."}), SUMMARY, said("On.")]
    chat(parts, "hello")
    compact(parts)
    assert context_tokens(parts.recorder.chain) == 0
    chat(parts, "and now")
    assert len(api.requests) == 3


def test_calls_and_long_answers_are_not_kept() -> None:
    use: Fields = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    long: Fields = {"type": "text", "text": "x" * 50_000}
    for block in (use, long):
        message: Fields = {"id": "m", "role": "assistant", "content": [block]}
        entry: Fields = {"type": "assistant", "uuid": "u", "message": message}
        assert last_answer([entry]) == []
    assert last_answer([]) == []
