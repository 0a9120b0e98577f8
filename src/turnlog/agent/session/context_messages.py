"""Compute the messages of a growing conversation incrementally.

With a million tokens in the context, starting from scratch for each request would take longer than
everything else in a turn. Messages that can no longer change are cached: those before the last
answer, once all their calls have results.
"""

from collections.abc import Iterable, Iterator

from turnlog.conversation.context import messages_of
from turnlog.conversation.drafts import draft_messages
from turnlog.format.json_values import Fields, is_array, is_object

USE, RESULT = "tool_use", "tool_result"


class ContextMessages:
    """Computes what `messages_of` returns for a chain that mostly grows at its end."""

    def __init__(self) -> None:
        self._forget([])

    def messages_at(self, chain: list[Fields]) -> list[Fields]:
        """Return the messages of a chain whose end is about to be answered.

        The messages that did not change since the last call are the same objects.
        """
        if not self._is_known(chain):
            self._forget(chain)
        self._advance(chain)
        rest = chain[self._count :]
        joined = self._joined(rest)
        return messages_of(chain, is_open=True) if joined is None else joined

    def _forget(self, chain: list[Fields]) -> None:
        self._chain = chain
        self._count = 0
        """Number of entries whose messages are cached."""
        self._last: Fields | None = None
        self._messages: list[Fields] = []
        self._names: set[str] = set()
        self._model: str | None = None

    def _is_known(self, chain: list[Fields]) -> bool:
        """Return whether a chain still starts with the entries whose messages are cached.

        A rewind or a compaction creates a new list. Within one list, entries are only added or
        removed at the end.
        """
        if chain is not self._chain or len(chain) < self._count:
            return False
        return self._count == 0 or chain[self._count - 1] is self._last

    def _advance(self, chain: list[Fields]) -> None:
        """Cache the messages of everything before the last answer, if they can no longer change."""
        start = _start_of_last_answer(chain)
        if start <= self._count:
            return
        new = chain[self._count : start]
        if set(_calls(new)) - set(_results(new)):
            return
        joined = self._joined(new)
        messages = messages_of(chain[:start], is_open=True) if joined is None else joined
        if messages and messages[-1]["role"] == "user":
            self._extend(start, new, messages)

    def _extend(self, count: int, new: list[Fields], messages: list[Fields]) -> None:
        is_apart = self._names.isdisjoint(_names(new))
        self._names.update(_names(new))
        newest = _last_model(new if is_apart else self._chain[:count])
        self._model = newest or self._model
        self._count, self._last, self._messages = count, self._chain[count - 1], messages

    def _joined(self, rest: list[Fields]) -> list[Fields] | None:
        """Return the cached messages plus those of further entries; None if they interact."""
        new = messages_of(rest, is_open=True)
        if not self._messages:
            return new
        # Two user messages in a row become one.
        if not new or new[0]["role"] != "assistant":
            return None
        # In damaged sessions, an entry may continue an earlier answer, repeat one of its calls, or
        # have the result of an earlier call.
        if not self._names.isdisjoint(_names(rest)):
            return None
        # `messages_of` leaves out the thinking of all models but the last, so the cache must have
        # the same model.
        model = _last_model(rest)
        return self._messages + new if model in (None, self._model) else None


def _start_of_last_answer(chain: list[Fields]) -> int:
    """Return the index of the first entry of the last answer; 0 if there is none."""
    place = len(chain) - 1
    while place >= 0 and chain[place].get("type") != "assistant":
        place -= 1
    name = _message_id(chain[place]) if place >= 0 else None
    while place > 0 and name and _message_id(chain[place - 1]) == name:
        place -= 1
    return max(place, 0)


def _message_id(entry: Fields) -> str | None:
    message = entry.get("message")
    name = message.get("id") if is_object(message) else None
    return name if isinstance(name, str) else None


def _blocks(entries: Iterable[Fields], block_type: str) -> Iterator[Fields]:
    for entry in entries:
        message = entry.get("message")
        content = message.get("content") if is_object(message) else None
        for block in content if is_array(content) else []:
            if is_object(block) and block.get("type") == block_type:
                yield block


def _calls(entries: Iterable[Fields]) -> Iterator[str]:
    return (str(block.get("id")) for block in _blocks(entries, USE))


def _results(entries: Iterable[Fields]) -> Iterator[str]:
    return (str(block.get("tool_use_id")) for block in _blocks(entries, RESULT))


def _names(entries: list[Fields]) -> Iterator[str]:
    """Yield the ids of answers, of calls, and of calls that results refer to."""
    for entry in entries:
        if name := _message_id(entry):
            yield name
    yield from _calls(entries)
    yield from _results(entries)


def _last_model(entries: list[Fields]) -> str | None:
    """Return the model of the last answer, in the order in which answers begin."""
    models = [draft.model for draft in draft_messages(entries) if draft.model]
    return models[-1] if models else None
