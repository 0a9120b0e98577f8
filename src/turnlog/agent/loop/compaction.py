"""Compact a conversation: replace its history by a summary that the model writes.

Earlier lines stay in the file, so a session can be rewound to them.
"""

import asyncio
from itertools import takewhile
from time import monotonic

from turnlog.agent.loop.answering import ask_aside
from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.events import Notice
from turnlog.agent.loop.lifecycle_hooks import start_session
from turnlog.agent.loop.request import request_with
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.loop.turn_records import record_cost
from turnlog.agent.model.messages_api import CONTENTS
from turnlog.agent.model.streaming import is_too_long
from turnlog.agent.session.entry_builders import meta, text_of
from turnlog.conversation.context import messages_of
from turnlog.errors import ModelError
from turnlog.format.blocks import THINKING
from turnlog.format.json_values import Fields, is_object
from turnlog.store.catalog import describe, locate_session

BY_TOKEN = 4
"""Average characters per token, for the size of the summary."""
LEAST = 2_000
"""Minimum length of the extract used when the model writes no summary."""
LONGEST_KEPT = 20_000
"""Maximum characters of a last answer that is kept in full after the summary."""
KEPT = ("text", *THINKING)
ASK = f"""\
Write the summary that is to take the place of this whole conversation. The work goes on after it, \
and nothing but your summary will be known of what came before. {CONTENTS}
Call no tools. Answer with the summary alone."""
AUTO, MANUAL = "auto", "manual"
FOCUS = "\n\nThe user adds: {focus}"
GO_ON = "Go on with the work where it was, without asking about it and without repeating it."


def is_full(parts: Parts) -> bool:
    """Return whether the context is so full that it should be compacted now."""
    when = parts.limits.compacting
    tokens = context_tokens(parts.recorder.chain)
    return when.is_automatic and tokens > when.limit(parts.choice.window)


async def compact(turn: RunningTurn, trigger: str, focus: str) -> bool:
    """Compact the conversation unless a setting or hook forbids it; return whether it was done."""
    parts, emit = turn.parts, turn.emit
    when = parts.limits.compacting
    if not (when.is_automatic if trigger == AUTO else when.is_possible):
        emit(Notice("Not compacted: compaction is turned off"))
        return False
    fields = {"trigger": trigger, "custom_instructions": focus}
    outcome = await parts.hooks.fire("PreCompact", trigger, fields)
    if outcome.block or not parts.recorder.chain:
        emit(Notice(f"Not compacted: {outcome.reason or 'there is nothing to compact'}"))
        return False
    tokens = context_tokens(parts.recorder.chain)
    started = monotonic()
    text = await _summarise(turn, focus)
    kept = last_answer(parts.recorder.chain)
    after = (len(text) + sum(len(text_of(each["message"]["content"])) for each in kept)) // BY_TOKEN
    about: Fields = {"preTokens": tokens, "postTokens": after}
    dropped = max(0, tokens - after) + _dropped_before(parts.recorder.chain)
    about |= {"cumulativeDroppedTokens": dropped}
    about |= {"durationMs": round((monotonic() - started) * 1000)}
    title = describe(locate_session(parts.recorder.path)).title or "Conversation"
    for entry in parts.recorder.compaction(text, title, trigger, about, kept):
        turn.record(entry)
    emit(Notice(f"Compacted {tokens:,} tokens into a summary; /rewind brings them back"))
    fields = {"trigger": trigger, "compact_summary": text}
    outcome = await parts.hooks.fire("PostCompact", trigger, fields)
    for error in outcome.errors:
        emit(Notice(error, is_error=True))
    # The context that SessionStart hooks added is gone with the history, so run them again.
    for context in await start_session(parts, "compact", lambda text: emit(Notice(text))):
        turn.record(parts.recorder.meta(context))
    return True


def last_answer(chain: list[Fields]) -> list[Fields]:
    """Return the entries of the last answer, if nobody has replied to it and it is short.

    The user's next prompt may refer to it: "the second one, please". The client keeps it, too;
    versions before 2.1.325 send only the summary.
    """
    said = [entry for entry in chain if entry.get("type") != "system"]
    is_answer = bool(said) and said[-1].get("type") == "assistant"
    name = said[-1]["message"].get("id") if is_answer else None
    answer = [*takewhile(lambda entry: name and _message_id(entry) == name, reversed(said))][::-1]
    blocks = [block for entry in answer for block in entry["message"]["content"]]
    is_plain = all(is_object(block) and block.get("type") in KEPT for block in blocks)
    return answer if is_plain and len(text_of(blocks)) <= LONGEST_KEPT else []


def _message_id(entry: Fields) -> str | None:
    message = entry.get("message")
    return message.get("id") if is_object(message) else None


def _dropped_before(chain: list[Fields]) -> int:
    """Return the tokens that earlier compactions dropped, if the chain starts with one."""
    about = chain[0].get("compactMetadata") if chain else None
    dropped = about.get("cumulativeDroppedTokens") if is_object(about) else None
    return dropped if isinstance(dropped, int) else 0


async def compact_now(turn: RunningTurn, focus: str) -> None:
    """Compact the conversation on the user's request, and emit the outcome."""
    try:
        done = await compact(turn, MANUAL, focus)
        reason, text = ("done" if done else "blocked"), ""
    except asyncio.CancelledError:
        reason, text = "interrupted", ""
    except ModelError as error:
        reason, text = "failed", f"API Error: {error.line}"
    if reason == "done":
        record_cost(turn)
    turn.emit(turn.spent.ended(reason, text))


async def _summarise(turn: RunningTurn, focus: str) -> str:
    """Return the model's summary of the conversation, or an extract if the request fails."""
    from turnlog.edit.compaction_entries import HEAD, TRANSCRIPT

    parts = turn.parts
    prompt = ASK + (FOCUS.format(focus=focus) if focus else "")
    messages = messages_of([*parts.recorder.chain, meta(prompt, None)], is_open=True)
    try:
        # With the usual system prompt and tools, the history is read from the prompt cache:
        # summarising 150,000 tokens then costs a tenth.
        answer = await ask_aside(parts, request_with(parts, messages), turn)
    except ModelError as error:
        if not is_too_long(error):
            raise
        return _extracts(parts)
    if not answer.text:
        return _extracts(parts)
    return HEAD + answer.text + TRANSCRIPT.format(path=parts.recorder.path)


def _extracts(parts: Parts) -> str:
    """Return an extract of the conversation that is much shorter than the original."""
    from turnlog.conversation.session import open_session
    from turnlog.edit.call_facts import both_ends
    from turnlog.edit.compaction_entries import HEAD, TRANSCRIPT, summary_text
    from turnlog.edit.transforms import TransformOptions

    path, chain = parts.recorder.path, parts.recorder.chain
    session = open_session(path)
    since = {entry["uuid"] for entry in chain}
    nodes = [each for each in session.branch_to(session.tree.active_leaf) if each.uuid in since]
    turns = [turn for turn in session.turns if any(node.uuid in since for node in turn.nodes)]
    text = summary_text(session, turns, nodes, TransformOptions()) or HEAD
    # A quarter of the history, which may have filled the window: the rest is for further work.
    room = max(LEAST, sum(len(str(entry["message"])) for entry in chain if "message" in entry) // 4)
    return both_ends(text, room) + TRANSCRIPT.format(path=path)
