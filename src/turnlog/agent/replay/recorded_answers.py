"""Replay a recorded session as answers of the Messages API, in order.

Each conversation of the session, the main one and those of sub-agents, is a track of its own. The
nth request of a track gets its nth message.
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from msgspec import Struct

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.context import messages_of
from turnlog.conversation.messages import Message, join_messages
from turnlog.conversation.nodes import AssistantNode
from turnlog.conversation.session import Session
from turnlog.format.json_values import Fields, is_array, is_object

MAIN = "main"
REMINDER = "<system-reminder>"
OVER = "Nothing more is recorded of this conversation."
MOST_LINES = 20
"""Maximum lines of a reported difference."""
SAME_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class RecordedAnswer(Struct, frozen=True):
    """A recorded message in the API's form."""

    body: Fields
    request_id: str | None

    @property
    def input_tokens(self) -> int:
        """Input tokens of the request."""
        return sum(self.body["usage"].get(name) or 0 for name in SAME_INPUT)


@dataclass
class Track:
    """One conversation of a recording and its playback position."""

    name: str
    session: Session
    messages: list[Message]
    key: str
    """The first prompt, by which requests are assigned to tracks."""
    played: int = 0
    last: str = ""
    """The last request; repeating it returns the same answer."""

    def next_rank(self, request: str) -> int:
        """Return the index of the message for a request."""
        # A client that lost the connection repeats its request.
        if not self.last or request != self.last:
            self.last = request
            self.played += 1
        return self.played - 1

    def answer(self, rank: int) -> RecordedAnswer | None:
        """Return a recorded message; None after the end."""
        if rank >= len(self.messages):
            return None
        return _answer(self.session, self.messages[rank])

    def expected(self, rank: int) -> list[Fields]:
        """Return the recorded prompts that precede a message."""
        tree = self.session.tree
        if rank >= len(self.messages):
            return []
        first = tree.rank_of(self.messages[rank].nodes[0].uuid)
        before = tree.parents[first] if first is not None else -1
        if before < 0:
            return []
        values = self.session.values(since_compaction(tree, before))
        return new_messages(messages_of(values, is_open=True))


def tracks_of(session: Session) -> list[Track]:
    """Return the conversations of a session, the main one first."""
    agents = [(each.id, session.open_subagent(each)) for each in session.subagents]
    return [_track(name, held) for name, held in ((MAIN, session), *agents)]


def choose_track(tracks: list[Track], messages: object) -> Track:
    """Return the track of a request: a sub-agent's if it starts the same way, else the main one.

    Among several sub-agents that start the same way, prefer one that has played as many answers as
    the request contains, else one that has not ended.
    """
    # A sub-agent is identified by its task, which is part of its first message.
    first = "\n".join(_texts(messages[:1])) if is_array(messages) else ""
    found = [each for each in tracks[1:] if each.key and each.key in first]
    answered = _count_answers(messages)
    fitting = [each for each in found if each.played == answered]
    going = [each for each in found if each.played < len(each.messages)]
    return [*fitting, *going, *found, tracks[0]][0]


def new_messages(messages: object) -> list[Fields]:
    """Return the user messages since the last answer."""
    given = messages if is_array(messages) else []
    sent = [each for each in given if is_object(each)]
    answers = [rank for rank, each in enumerate(sent) if each.get("role") == "assistant"]
    new = sent[answers[-1] + 1 :] if answers else sent
    return [each for each in new if each.get("role") == "user"]


def difference(expected: list[Fields], received: list[Fields]) -> list[str]:
    """Return how a request differs from the recorded one, as lines of a diff.

    Reminders are ignored, as each client writes its own.
    """
    old, new = list(_content_lines(expected)), list(_content_lines(received))
    if old == new:
        return []
    lines = difflib.unified_diff(old, new, "recorded", "received", lineterm="", n=1)
    return list(islice(lines, MOST_LINES))


def over(model: str) -> RecordedAnswer:
    """Build the answer after the end of the recording."""
    usage = {"input_tokens": 0, "output_tokens": 0}
    head = {"id": "msg_replay_over", "type": "message", "role": "assistant", "model": model}
    rest = {"stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    return RecordedAnswer(head | {"content": [{"type": "text", "text": OVER}]} | rest, None)


def _track(name: str, session: Session) -> Track:
    branch = session.branch_to(session.tree.active_leaf)
    messages = [each for each in join_messages(branch) if not each.is_synthetic]
    head = [node for node in branch if not isinstance(node, AssistantNode)][:1]
    prompts = [value.get("message") for value in session.values(head)]
    return Track(name, session, messages, "\n".join(_texts(prompts)))


def _answer(session: Session, message: Message) -> RecordedAnswer:
    """Build a message from its entries, the last of which has the final token counts."""
    values = list(session.values(message.nodes))
    bodies = [value["message"] for value in values if is_object(value.get("message"))]
    content = [block for body in bodies for block in _blocks(body.get("content"))]
    last: Fields = bodies[-1] if bodies else {}
    usage: Fields = last["usage"] if is_object(last.get("usage")) else {}
    calls = any(block.get("type") == "tool_use" for block in content)
    body: Fields = last | {
        "id": message.id or "msg_replay",
        "type": "message",
        "role": "assistant",
        "model": message.model or "",
        "content": content,
        "stop_reason": message.stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": last.get("stop_sequence"),
        "usage": {"input_tokens": 0, "output_tokens": 0} | usage,
    }
    requests = [value["requestId"] for value in values if value.get("requestId")]
    return RecordedAnswer(body, requests[0] if requests else None)


def _count_answers(messages: object) -> int:
    return sum(
        is_object(each) and each.get("role") == "assistant"
        for each in (messages if is_array(messages) else [])
    )


def _blocks(content: object) -> list[Fields]:
    if is_array(content):
        return [block for block in content if is_object(block)]
    return [{"type": "text", "text": content}] if isinstance(content, str) else []


def _texts(messages: Iterable[object]) -> Iterator[str]:
    """Yield the texts of messages, except reminders."""
    for message in messages:
        for block in _blocks(message.get("content")) if is_object(message) else []:
            text = block.get("text")
            if isinstance(text, str) and text.strip() and not text.lstrip().startswith(REMINDER):
                yield text.strip()


def _content_lines(messages: list[Fields]) -> Iterator[str]:
    """Yield the content of messages as lines."""
    for message in messages:
        for block in _blocks(message.get("content")):
            kind = block.get("type")
            if kind == "text":
                yield from "\n".join(_texts([{"content": [block]}])).splitlines()
            elif kind == "tool_result":
                failed = " failed" if block.get("is_error") else ""
                yield f"result of {block.get('tool_use_id')}{failed}:"
                yield from "\n".join(_texts([{"content": block.get("content")}])).splitlines()
            else:
                fields = {name: block[name] for name in sorted(block) if name != "cache_control"}
                yield json.dumps(fields)[:200]
