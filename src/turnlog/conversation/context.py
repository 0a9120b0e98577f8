"""The messages that the client would send to the model at a leaf.

The rules are those of 2.1.325, observed by resuming some 280 files with it; docs/context.md lists
them. Content that the client adds to each request is left out: reminders of attachments, and the
next prompt.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.drafts import NO_CONTENT, Draft, draft_messages, text_block
from turnlog.conversation.node_log import NodeLog
from turnlog.format.blocks import THINKING
from turnlog.format.decode import HALVES
from turnlog.format.json_values import Fields

USE, RESULT = "tool_use", "tool_result"
NO_RESPONSE = "No response requested."
INTERRUPTED_USE = "[Tool use interrupted]"
ORPHANED_RESULT = "[Orphaned tool result removed due to conversation resume]"
MISSING_RESULT = "[Tool result missing due to internal error]"
INTERRUPTED_CALL = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its "
    "outcome is unknown. Check whether it took effect before relying on it or running it again.]"
)


def context_at(log: NodeLog, leaf: int | None = None) -> list[Fields]:
    """Return the messages at a leaf, given by its rank in the tree; by default the active leaf."""
    tree = log.tree
    leaf = tree.active_leaf if leaf is None else leaf
    if leaf is None:
        return []
    return messages_of(log.values(since_compaction(tree, leaf)))


def messages_of(values: Iterable[Fields], is_open: bool = False) -> list[Fields]:
    """Return the messages that a sequence of decoded lines forms.

    Complete an unanswered end with placeholders, unless `is_open`: then an answer is about to come.
    """
    # The order matters and is the client's: an answer left empty by `drop_unanswered` must be gone
    # before the end is completed, or the placeholder would be added after the wrong message.
    drafts = draft_messages(values)
    drop_unanswered(drafts)
    drafts = [draft for draft in drafts if not _is_empty_answer(draft)]
    drop_foreign_thinking(drafts)
    drafts = drafts if is_open else complete_end(drafts)
    drafts = [draft for draft in drafts if not draft.is_error]
    drafts = pair_results(merge_users(drafts))
    return [{"role": draft.role, "content": sound_text(draft.blocks)} for draft in drafts]


def sound_text(value: Any) -> Any:
    """Return a value that UTF-8 can encode: lone surrogates become U+FFFD."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.loads(HALVES.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    return value


def drop_unanswered(drafts: list[Draft]) -> None:
    """Remove lines whose calls all have no result, except those of the unfinished last answer.

    The client looks at whole lines (2.1.150 and 2.1.325, observed): of a line with two calls and
    one result, both calls stay, and `pair_results` adds the missing result. It writes one block to
    a line; other programs write several.
    """
    answered = {block.get("tool_use_id") for draft in drafts for block in draft.of_type(RESULT)}
    last = _unfinished_answer(drafts)
    for draft in drafts:
        if draft is not last and draft.role == "assistant" and draft.blocks:
            lines = (line for line in draft.lines if _is_unanswered(line, answered))
            gone = {id(block) for line in lines for block in line}
            kept = [block for block in draft.blocks if id(block) not in gone]
            draft.blocks = kept or [text_block("")]


def _is_unanswered(line: Iterable[Fields], answered: set[Any]) -> bool:
    """Return whether a line has calls, and none of them has a result."""
    calls = [block.get("id") for block in line if block.get("type") == USE]
    return bool(calls) and answered.isdisjoint(calls)


def drop_foreign_thinking(drafts: list[Draft]) -> None:
    """Drop the thinking of all models but the one that answered last.

    The client resumes with that model and sends it no other model's thinking (2.1.325, observed):
    after a switch from Sonnet to Haiku, none of Sonnet's is sent.
    """
    models = [draft.model for draft in drafts if draft.model]
    for draft in drafts:
        if draft.model and draft.model != models[-1]:
            draft.blocks = [b for b in draft.blocks if b.get("type") not in THINKING]


def complete_end(drafts: list[Draft]) -> list[Draft]:
    """Return the drafts with an answer or results added if the conversation broke off."""
    end = _count_without_notes(drafts)
    missing = _missing_end(drafts)
    answer = [Draft("assistant", [text_block(NO_RESPONSE)])] if missing.is_open else []
    if not missing.calls:
        return drafts[:end] + answer + drafts[end:]
    results = Draft("user", [_failed_result(call, INTERRUPTED_CALL) for call in missing.calls])
    return [*drafts[:end], results, *drafts[end:], *answer]


class MissingEnd(NamedTuple):
    """The parts missing at the end of a conversation that broke off."""

    calls: list[str]
    """The calls without a result."""
    is_open: bool
    """True if the last message is unanswered."""


def missing_end(values: Iterable[Fields]) -> MissingEnd:
    """Return the parts that a sequence of decoded lines lacks at its end."""
    drafts = draft_messages(values)
    drop_unanswered(drafts)
    return _missing_end([draft for draft in drafts if not _is_empty_answer(draft)])


def _missing_end(drafts: list[Draft]) -> MissingEnd:
    final = next((each for each in reversed(drafts) if not _is_aside(each)), None)
    if final is None:
        return MissingEnd([], is_open=False)
    last = _unfinished_answer(drafts)
    answered = {block.get("tool_use_id") for draft in drafts for block in draft.of_type(RESULT)}
    calls = [_id_of(block) for block in last.of_type(USE)] if last else []
    calls = [call for call in calls if call not in answered]
    is_asked = final.role == "user" and not final.ends_turn and not final.is_command
    return MissingEnd(calls, bool(calls) or is_asked)


def merge_users(drafts: list[Draft]) -> list[Draft]:
    """Merge consecutive user messages; move the calls of an answer after its text."""
    merged: list[Draft] = []
    for draft in drafts:
        if draft.role == "assistant":
            draft.blocks.sort(key=lambda block: block.get("type") == USE)
            merged.append(draft)
        elif not draft.blocks:
            continue
        elif merged and merged[-1].role == "user":
            merged[-1] = Draft("user", _merge_blocks(merged[-1].blocks, draft.blocks))
        else:
            merged.append(draft)
    return merged


def pair_results(drafts: list[Draft]) -> list[Draft]:
    """Keep one call per id, and make the next message contain one result for each call."""
    # The API rejects a request in which a tool_use is not followed at once by its tool_result, or
    # an id occurs twice. Sessions contain both: a crash between call and result, a line written
    # twice. So a missing result becomes a failed one, and a surplus call or result is dropped.
    paired: list[Draft] = []
    seen: set[str] = set()
    waiting: list[str] = []
    for draft in drafts:
        if draft.role == "user":
            empty = NO_CONTENT if paired else ORPHANED_RESULT
            draft.blocks = _results_for(draft.blocks, waiting) or [text_block(empty)]
        elif waiting:
            paired.append(Draft("user", _results_for([], waiting)))
        waiting = []
        if draft.role == "assistant":
            waiting = [name for name in map(_id_of, draft.of_type(USE)) if name not in seen]
            kept = [b for b in draft.blocks if b.get("type") != USE or _id_of(b) in waiting]
            empty = text_block(INTERRUPTED_USE if draft.blocks else NO_CONTENT)
            draft.blocks = kept or [empty | {"citations": []}]
            seen.update(waiting)
        paired.append(draft)
    return paired


def _is_empty_answer(draft: Draft) -> bool:
    """Return whether an answer is only thinking, white space, or "(no content)" of old clients."""
    if draft.role != "assistant" or not draft.blocks:
        return False
    is_placeholder = draft.blocks == [text_block(NO_CONTENT)]
    return is_placeholder or draft.is_blank or draft.has_only(*THINKING)


def _unfinished_answer(drafts: list[Draft]) -> Draft | None:
    """Return the last answer if nothing but results, notes and attachments follows it."""
    for draft in reversed(drafts):
        if draft.role == "assistant":
            return draft
        if not _is_aside(draft) and not draft.has_only(RESULT):
            return None
    return None


def _is_aside(draft: Draft) -> bool:
    return draft.is_note or draft.is_attached


def _count_without_notes(drafts: list[Draft]) -> int:
    """Return the number of messages before the trailing notes and their attachments."""
    end = len(drafts)
    while end and _is_aside(drafts[end - 1]):
        end -= 1
    # Attachments of the last message stay with it.
    while end < len(drafts) and drafts[end].is_attached:
        end += 1
    return end


def _merge_blocks(first: list[Fields], second: list[Fields]) -> list[Fields]:
    """Merge the blocks of two user messages: results first, adjacent texts on separate lines."""
    if first and second and first[-1].get("type") == second[0].get("type") == "text":
        first = [*first[:-1], first[-1] | {"text": first[-1]["text"] + "\n"}]
    results = [block for block in second if block.get("type") == RESULT]
    if not results:
        return first + second
    return sorted(first + second, key=lambda block: block.get("type") != RESULT)


def _results_for(blocks: list[Fields], calls: list[str]) -> list[Fields]:
    """Return the blocks with one result per call, adding failed ones for missing results."""
    missing = list(calls)
    kept: list[Fields] = []
    for block in blocks:
        if block.get("type") == RESULT:
            if block.get("tool_use_id") not in missing:
                continue
            missing.remove(block["tool_use_id"])
        kept.append(block)
    return [_failed_result(call, MISSING_RESULT) for call in missing] + kept


def _id_of(call: Fields) -> str:
    """Return the id of a call, "" if an exporter left it out."""
    return str(call.get("id") or "")


def _failed_result(call: str, text: str) -> Fields:
    return {"type": RESULT, "tool_use_id": call, "content": text, "is_error": True}
