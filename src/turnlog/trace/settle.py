"""Whether a turn is over when the client says so: its last lines may come after its word.

The newest clients call their hooks before they have written the answer, and what another hook
says may let the model go on (observed: 2.1.150 to 2.1.325).
"""

import time
from typing import NamedTuple

from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.session import Session
from turnlog.trace.message_parts import entries_of, has_text, parts_of, text_of_parts
from turnlog.trace.queue import FIRST_DELAY
from turnlog.trace.span_times import nanoseconds
from turnlog.trace.spool import HookNote
from turnlog.trace.work import Work, turns_of

DURATION = "system/turn_duration"
SUMMARY = "system/stop_hook_summary"
"""Written when all hooks at the end of a turn have run."""


class Patience(NamedTuple):
    """How long to wait for a session's last lines, in seconds."""

    whole: float = 2.0
    """Since the client called the hook."""
    quiet: float = 0.3
    """Since the file last grew, where no line tells that it was the last."""
    pause: float = 0.02
    delay: float = FIRST_DELAY
    """Before a target that failed is tried again; doubles with each failure."""


PATIENCE = Patience()


def wait_for_end(session: Session, patience: Patience, called: float) -> None:
    """Wait until a session's file does not grow any more."""
    grown = time.time()
    while time.time() < min(called + patience.whole, grown + patience.quiet):
        time.sleep(patience.pause)
        if session.refresh():
            grown = time.time()


def wait_for_turn(session: Session, note: HookNote, patience: Patience) -> bool:
    """Wait until a turn is over that the client told the end of; False if it is not."""
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
    """The last turn of a file, if it is the one that a note tells the end of, and is whole."""
    turn = next(reversed(turns_of(session)), None)
    is_settled = (
        turn is not None
        and turn.is_answered
        and all(call.result for call in turn.calls)
        and not any(_is_later(node, note.time) for node in turn.nodes)
        and (note.message is None or _is_told(turn, note.message.strip()))
    )
    return turn if is_settled else None


def _is_later(node: ChainNode, moment: float) -> bool:
    said = nanoseconds(node.time) if isinstance(node, AssistantNode | UserNode) else None
    return said is not None and said / 1e9 > moment


def _is_told(turn: Work, message: str) -> bool:
    """Whether the last words are there, and all hooks have run.

    Clients that do not tell the words have written them; not all of these tell of the hooks
    (observed: up to 2.1.45).
    """
    return _has_said(turn, message) and _is_closed(turn, is_quiet=True)


def _has_said(turn: Work, message: str) -> bool:
    last = next(filter(has_text, reversed(turn.said)), None)
    if last is None or not message:
        return not message
    text = text_of_parts(parts_of(entries_of(turn.session, last))).strip()
    return bool(text) and (text in message or message in text)


def _is_closed(turn: Work, is_quiet: bool) -> bool:
    """Whether the client wrote that its hooks have run, and perhaps how long the turn took."""
    answers = [node.index for node in turn.nodes if isinstance(node, AssistantNode)]
    after = {node.kind for node in turn.nodes if node.index > max(answers)}
    return DURATION in after or (SUMMARY in after and is_quiet)
