"""Let MessageDisplay hooks replace the text of answers on its way to the screen.

Only what is shown changes: the session and the model keep the original.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from uuid import uuid4

from msgspec.structs import replace

from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.loop.events import Event, Recorded, Streamed, TurnEnded
from turnlog.agent.session.entry_builders import text_of
from turnlog.format.json_values import Fields, is_array

EVENT = "MessageDisplay"


async def displayed(
    events: AsyncGenerator[Event], hooks: Hooks, is_whole: bool
) -> AsyncGenerator[Event]:
    """Yield the events of a turn with the texts that hooks want shown.

    Lines are passed on as they are completed. With `is_whole`, for output that nobody watches live,
    each message is passed on at its end.
    """
    turn_id = str(uuid4())
    message = _ShownMessage(hooks, turn_id)
    last: tuple[str, str] = ("", "")
    async with aclosing(events):
        async for event in events:
            delta: Fields = event.event.get("delta") or {} if isinstance(event, Streamed) else {}
            text = _answer_text(event)
            if delta.get("type") == "text_delta" and not is_whole:
                yield _piece(event, await message.grow(str(delta["text"])))
            elif isinstance(event, Recorded) and text:
                last = (text, await message.finish(text))
                message = _ShownMessage(hooks, turn_id)
                yield _changed(event, last[1])
            elif isinstance(event, TurnEnded) and event.text and event.text == last[0]:
                # `-p` prints the last message as changed by hooks (2.1.325, observed).
                yield replace(event, text=last[1])
            else:
                yield event


class _ShownMessage:
    """A text that is being displayed."""

    def __init__(self, hooks: Hooks, turn_id: str) -> None:
        self._hooks = hooks
        self._about = {"turn_id": turn_id, "message_id": str(uuid4())}
        self._index = 0
        self._received = ""
        self._taken = 0
        """Characters that hooks have seen."""
        self._shown = ""

    async def grow(self, text: str) -> str:
        """Add a piece; return the text to show for the lines that it completes."""
        self._received += text
        end = self._received.rfind("\n") + 1
        return await self._flush(end, is_last=False) if end > self._taken else ""

    async def finish(self, whole: str) -> str:
        """Pass the rest of the recorded text to hooks; return the complete text to show."""
        if whole.startswith(self._received[: self._taken]):
            self._received = whole
        await self._flush(len(self._received), is_last=True)
        return self._shown

    async def _flush(self, end: int, is_last: bool) -> str:
        delta = self._received[self._taken : end]
        self._taken = end
        about = self._about | {"index": self._index, "final": is_last, "delta": delta}
        self._index += 1
        outcome = await self._hooks.fire(EVENT, None, about)
        shown = delta if outcome.shown_text is None else outcome.shown_text
        self._shown += shown
        return shown


def _answer_text(event: Event) -> str:
    """Return the text of a recorded answer; empty for all other events."""
    entry = event.entry if isinstance(event, Recorded) else {}
    is_answer = entry.get("type") == "assistant" and not entry.get("isApiErrorMessage")
    content = entry["message"].get("content") if is_answer else None
    return text_of(content) if is_array(content) else ""


def _piece(event: Event, text: str) -> Event:
    assert isinstance(event, Streamed), "only streamed pieces are replaced"
    delta = event.event["delta"] | {"text": text}
    return Streamed(event.event | {"delta": delta})


def _changed(event: Recorded, text: str) -> Event:
    message = event.entry["message"]
    # An entry holds one block of the answer.
    blocks = [
        block | {"text": text} if block.get("type") == "text" else block
        for block in message["content"]
    ]
    return Recorded(event.entry | {"message": message | {"content": blocks}})
