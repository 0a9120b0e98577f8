"""Digest turns as text: prompts in full, answers and calls shorter the older they are.

Turns are read from the newest back, one entry at a time; once the room is used up, only prompts are
read.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import SYNTHETIC, AssistantNode, ChainNode, UserNode
from turnlog.conversation.prompts import (
    ASKING,
    NOTIFICATION_SUMMARY,
    PromptKind,
    full_text,
    prompt_label,
)
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.edit.call_facts import both_ends, fact_of, first_part, result_of
from turnlog.format.blocks import THINKING, ImageBlock, TextBlock, ToolUseBlock
from turnlog.format.entries import Assistant, Attachment, Entry, User
from turnlog.format.fields import given
from turnlog.format.json_values import is_array, is_object
from turnlog.format.timestamps import parse_timestamp

QUEUED = "attachment/queued_command"
TOLD_KINDS = ASKING | {PromptKind.BASH_INPUT, PromptKind.INTERRUPTION}
ANSWERED = "AskUserQuestion"
"""The tool whose result is the user's answer."""


class DigestLimits(NamedTuple):
    """Limits on the characters of a turn that are kept."""

    prompt: int | None
    """Limit per prompt; None keeps prompts verbatim, without counting them against the room."""
    answer: int
    result: int
    """Limit per result; 0 omits results."""
    part: int
    """A turn takes at most 1/part of the room."""


class Scale(NamedTuple):
    """The total room in characters, and limits for new, older and old turns."""

    room: int
    extents: tuple[DigestLimits, DigestLimits, DigestLimits]


EXTRACT = Scale(
    200_000,
    (
        DigestLimits(None, 1200, 0, 4),
        DigestLimits(None, 300, 0, 40),
        DigestLimits(None, 120, 0, 400),
    ),
)
"""About 50,000 tokens of answers and calls, plus every prompt."""
MATERIAL = Scale(
    300_000,
    (
        DigestLimits(20_000, 5000, 1500, 4),
        DigestLimits(4000, 1200, 300, 40),
        DigestLimits(600, 300, 0, 400),
    ),
)
"""About 100,000 tokens."""
SLACK = 200
"""Characters reserved for notes about omissions."""
SHARES = (0.5, 0.75, 0.95)
"""Shares of the room up to which the first, second and third limits apply."""


class Step(NamedTuple):
    """One event of a turn."""

    who: str
    """USER, ASSISTANT or TASK; empty for a call."""
    text: str
    times: int = 1
    moment: str | None = None
    """Time of the turn's prompt, empty if unknown; None for other steps."""
    is_verbatim: bool = False
    """True for what the user typed, which is kept whole regardless of the room."""


class TurnText(NamedTuple):
    """A turn as text."""

    text: str
    used: int
    """Characters of the room that were used."""


def digest_turns(session: Session, turns: Sequence[Turn], scale: Scale) -> str:
    """Digest turns to fit into the room of a scale; return "" if nothing was said or done."""
    texts: list[str] = []
    room = scale.room
    # Try the generous limits first. Most sessions fit, and then no turn is shortened.
    for turn in reversed(turns):
        digest = _digest(session, turn, scale.extents[0], scale.room - SLACK)
        texts.append(digest.text)
        room -= digest.used + 2
        if room < 0:
            texts = list(_shortened(session, turns, scale))
            break
    return "\n\n".join(text for text in reversed(texts) if text)


def digest_prompts(session: Session, turns: Sequence[Turn]) -> str:
    """Return the prompts of turns verbatim."""
    texts = (_prompts(session, turn, EXTRACT.extents[0]) for turn in turns)
    return "\n\n".join(filter(None, texts))


def _shortened(session: Session, turns: Sequence[Turn], scale: Scale) -> Iterator[str]:
    """Digest turns from the newest back, ever shorter; the first turn comes last."""
    # The first turn states the task that later ones refer to, so its share is set aside beforehand.
    first = _digest(session, turns[0], scale.extents[1], scale.room // scale.extents[1].part)
    used = first.used
    remaining = list(turns[1:])
    while remaining and used < scale.room * SHARES[-1]:
        level = sum(used >= scale.room * share for share in SHARES)
        extent = scale.extents[level]
        digest = _digest(session, remaining.pop(), extent, scale.room // extent.part)
        used += digest.used + 2
        yield digest.text
    if remaining and scale.extents[-1].prompt is None:
        yield from (_prompts(session, turn, scale.extents[-1]) for turn in reversed(remaining))
        yield f"[the next {len(remaining):,} turns: prompts only]"
    elif remaining:
        yield f"[{len(remaining):,} turns left out]"
    yield first.text


def _prompts(session: Session, turn: Turn, extent: DigestLimits) -> str:
    """Return what the user typed in a turn without reading any answer."""
    # Entries are read from disk one by one, and answers are most of the bytes.
    others = [node for node in turn.nodes if not isinstance(node, AssistantNode)]
    steps = _steps(session, turn, others, extent)
    return "\n".join(_line(step, 0) for step in steps if step.is_verbatim)


def _digest(session: Session, turn: Turn, extent: DigestLimits, room: int) -> TurnText:
    """Digest one turn: its prompt, and as many of its last steps as fit."""
    steps = _counted(_steps(session, turn, turn.nodes, extent))
    head = [steps.pop(0)] if steps and steps[0].moment is not None else []
    lines = [_line(step, room) for step in head]
    used = sum(map(len, lines)) if head and not head[0].is_verbatim else 0
    kept: list[str] = []
    left_out = 0
    for step in reversed(steps):
        if step.is_verbatim:
            kept.append(_line(step, room))
        # Once a step does not fit, earlier ones are not tried: a gap in the middle would break the
        # sequence of events.
        elif left_out or room - used <= len(step.text):
            left_out += 1
        else:
            kept.append(_line(step, room - used))
            used += len(kept[-1]) + 1
    if left_out:
        lines.append(f"[{left_out:,} steps left out]")
        used += len(lines[-1])
    return TurnText("\n".join([*lines, *reversed(kept)]), used)


def _line(step: Step, room: int) -> str:
    if not step.who:
        return f"- {step.text}{f' ×{step.times}' if step.times > 1 else ''}"
    text = step.text if step.is_verbatim else both_ends(step.text, room)
    moment = parse_timestamp(step.moment)
    return f"{f'[{moment:%Y-%m-%d %H:%M}] ' if moment else ''}{step.who}: {text}"


def _counted(steps: Iterator[Step]) -> list[Step]:
    """Merge identical calls into the first one, with a count."""
    counts: dict[Step, int] = {}
    unique: list[Step] = []
    for step in steps:
        if step.who or step not in counts:
            unique.append(step)
        counts[step] = counts.get(step, 0) + 1
    return [step if step.who else step._replace(times=counts[step]) for step in unique]


def _steps(
    session: Session, turn: Turn, nodes: Iterable[ChainNode], extent: DigestLimits
) -> Iterator[Step]:
    calls = {call.id: call for call in turn.calls}
    relevant = [node for node in nodes if _is_relevant(node, turn)]
    for node, entry in zip(relevant, session.entries(relevant), strict=True):
        match entry:
            case User():
                time = node.time or "" if node is turn.prompt else None
                yield from (step._replace(moment=time) for step in _asked(node, entry, extent))
            case Assistant():
                yield from _answered(session, entry, calls, extent)
            case _:
                yield from _queued(entry, extent)


def _is_relevant(node: ChainNode, turn: Turn) -> bool:
    """Return whether an entry is part of a digest; results are included with their calls."""
    if isinstance(node, AssistantNode):
        is_thought = bool(node.blocks) and THINKING.issuperset(node.blocks)
        return not (is_thought or node.is_error or node.model == SYNTHETIC)
    if not isinstance(node, UserNode):
        return node.kind == QUEUED
    if node.prompt is PromptKind.COMMAND:
        return node is turn.prompt and turn.is_complete
    return node.prompt in TOLD_KINDS


def _asked(node: ChainNode, entry: User, extent: DigestLimits) -> Iterator[Step]:
    images = sum(isinstance(block, ImageBlock) for block in entry.content)
    label = prompt_label(entry)
    if isinstance(node, UserNode) and node.prompt is PromptKind.TASK_NOTIFICATION:
        yield _notified(full_text(entry), extent)
    elif label or images:
        marks = " [image]" * images
        yield _typed(label, extent, marks)


def _typed(text: str, extent: DigestLimits, marks: str = "") -> Step:
    """Return a prompt, verbatim unless there is a limit for prompts."""
    if extent.prompt is None:
        return Step("USER", text + marks, is_verbatim=True)
    return Step("USER", both_ends(text, extent.prompt) + marks)


def _notified(text: str, extent: DigestLimits) -> Step:
    """Return the report of a background task."""
    summary = NOTIFICATION_SUMMARY.search(text)
    _, _, rest = text.partition("<result>")
    report = rest.partition("</result>")[0].strip()
    head = summary[1].strip() if summary else first_part(text, extent.answer)
    return Step("TASK", f"{head}\n{first_part(report, extent.answer)}".strip())


def _queued(entry: Entry, extent: DigestLimits) -> Iterator[Step]:
    """Yield a prompt that was typed while the model was working."""
    attachment = given(entry.attachment) if isinstance(entry, Attachment) else None
    prompt = (attachment or {}).get("prompt")
    if is_array(prompt):
        prompt = "\n".join(str(part.get("text") or "") for part in prompt if is_object(part))
    if not isinstance(prompt, str) or not prompt.strip():
        return
    if prompt.startswith("<task-notification>"):
        yield _notified(prompt, extent)
    else:
        yield _typed(prompt.strip(), extent)


def _answered(
    session: Session, entry: Assistant, calls: dict[str, Call], extent: DigestLimits
) -> Iterator[Step]:
    content = entry.content
    for block in [TextBlock(text=content)] if isinstance(content, str) else content:
        if isinstance(block, TextBlock) and (text := (given(block.text) or "").strip()):
            yield Step("ASSISTANT", first_part(text, extent.answer))
        elif isinstance(block, ToolUseBlock) and (call := calls.get(given(block.id) or "")):
            fact = fact_of(session, call, given(block.input), given(entry.cwd))
            # The result contains the user's choice, which is as important as a prompt.
            if call.name == ANSWERED and not call.is_error:
                yield Step("", fact)
                limit = extent.prompt or extent.answer
                yield Step("USER", both_ends(result_of(session, call), limit))
                continue
            result = first_part(result_of(session, call), extent.result) if extent.result else ""
            yield Step("", f"{fact}\n  {result.replace(chr(10), f'{chr(10)}  ')}".rstrip())
