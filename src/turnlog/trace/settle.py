"""Wait until the last turn of a session is completely written.

Recent clients run their Stop hooks before they write the answer, and another hook may make the
model continue (observed: 2.1.150 to 2.1.325).
"""

import time
from typing import NamedTuple

from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.session import Session
from turnlog.trace.message_parts import entries_of, has_text, parts_of, text_of_parts
from turnlog.trace.queue import FIRST_DELAY
from turnlog.trace.span_times import nanoseconds, seconds
from turnlog.trace.spool import HookNote
from turnlog.trace.work import Work, turns_of

DURATION = "system/turn_duration"
SUMMARY = "system/stop_hook_summary"
"""Entry that the client writes after all Stop hooks have run."""


class Patience(NamedTuple):
    """Seconds to wait for the last lines of a session."""

    whole: float = 2.0
    """Maximum wait since the hook was called."""
    quiet: float = 0.3
    """Wait since the file last grew, if no line marks the end of the turn."""
    pause: float = 0.02
    delay: float = FIRST_DELAY
    """Delay before a failed target is retried; doubles with each failure."""


PATIENCE = Patience()


def wait_for_end(session: Session, patience: Patience, called: float) -> None:
    """Wait until a session's file stops growing."""
    grown = time.time()
    while time.time() < min(called + patience.whole, grown + patience.quiet):
        time.sleep(patience.pause)
        if session.refresh():
            grown = time.time()


def wait_for_turn(session: Session, note: HookNote, patience: Patience) -> bool:
    """Wait until the turn that a Stop hook announced is complete; return whether it is."""
    turn, grown = settled_turn(session, note), time.time()
    while time.time() < note.time + patience.whole:
        is_quiet = time.time() >= grown + patience.quiet
        if turn and _is_closed(turn, is_quiet):
            break
        time.sleep(patience.pause)
        if session.refresh():
            turn, grown = settled_turn(session, note), time.time()
    return turn is not None


def settled_turn(session: Session, note: HookNote) -> Work | None:
    """Return the last turn if it is complete and a note announced its end; else None."""
    turn = next(reversed(turns_of(session)), None)
    is_settled = (
        turn is not None
        and turn.is_answered
        and all(call.result for call in turn.calls)
        and not any(_is_later(node, note.time) for node in turn.nodes)
        and (note.message is None or _is_confirmed(turn, note.message.strip()))
    )
    return turn if is_settled else None


def _is_later(node: ChainNode, moment: float) -> bool:
    time = nanoseconds(node.time) if isinstance(node, AssistantNode | UserNode) else None
    return time is not None and seconds(time) > moment


def _is_confirmed(turn: Work, message: str) -> bool:
    """Return whether the last message is written, and all hooks have run.

    Only clients that pass the message to the hook need this check. Older ones have written it
    before they run hooks, and not all of them record that hooks have run (observed: up to 2.1.45).
    """
    return _ends_with(turn, message) and _is_closed(turn, is_quiet=True)


def _ends_with(turn: Work, message: str) -> bool:
    last = next(filter(has_text, reversed(turn.model_messages)), None)
    if last is None or not message:
        return not message
    text = text_of_parts(parts_of(entries_of(turn.session, last))).strip()
    # The hook's message may cover more or fewer text blocks than the last message in the file.
    return bool(text) and (text in message or message in text)


def _is_closed(turn: Work, is_quiet: bool) -> bool:
    """Return whether the client recorded that its hooks have run, or the turn's duration."""
    answers = [node.index for node in turn.nodes if isinstance(node, AssistantNode)]
    # The duration is the very last line. After a hook summary, a duration may still follow, so the
    # summary closes the turn only once the file has been quiet for a while.
    after = {node.kind for node in turn.nodes if node.index > max(answers)}
    return DURATION in after or (SUMMARY in after and is_quiet)
