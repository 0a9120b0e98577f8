"""Find tasks that calls leave running, and the lines that report their end.

A task without such a report may change files until the session's end.
"""

import re
from functools import cached_property

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import UserNode
from turnlog.conversation.prompts import PromptKind, full_text
from turnlog.conversation.session import Session
from turnlog.format.blocks import ToolResultBlock
from turnlog.format.entries import User
from turnlog.format.fields import given
from turnlog.format.json_values import Fields, is_object
from turnlog.worktree.places import END, Placing, SessionPosition

LEFT_RUNNING = re.compile(
    rb"async_launched|teammate_spawned|remote_launched|\"(?:backgroundT|t)askId\"\s*:\s*\""
    rb"|\"isAsync\"\s*:\s*true|background(?:ed)?(?: by user)? with ID: "
    rb"|(?:launched|running|resumed) in (?:the )?background",
    re.IGNORECASE,
)
"""What the result of a call says if the call goes on behind it."""
WORDS = (b"background", b"launched", b"spawned", b'askid"', b'"isasync"')
"""Each match of `LEFT_RUNNING` contains one of these; finding them is much faster."""
IDS = ("backgroundTaskId", "taskId", "agentId")
"""Fields of a structured result that name the task."""
NAMED = re.compile(r"\b(?:background with ID|Task ID|agentId): ([A-Za-z0-9_-]{1,80})")
"""The same in the text of a result, which is all that the files of sub-agents have."""
NOTIFICATION = re.compile(r"\s*<task-notification>")
ELEMENT = re.compile(r"\s*<([a-z-]+)>([^<]*)</\1>")
FINAL = frozenset({"completed", "failed", "killed"})


def is_left_running(session: Session, call: Call) -> bool:
    """Return whether the result of a call says that the call goes on behind it."""
    nodes = [call.result] if call.result else []
    return any(_says_running(line.raw) for _, line in session.lines_of(nodes))


def _says_running(raw: bytes) -> bool:
    folded = raw.lower()
    return any(word in folded for word in WORDS) and LEFT_RUNNING.search(raw) is not None


def ended_task(text: str) -> str | None:
    """Return the task that a notification reports to have ended; None if it reports no end.

    >>> ended_task("<task-notification><task-id>b1</task-id><status>completed</status>")
    'b1'
    """
    head = NOTIFICATION.match(text)
    found: dict[str, str] = {}
    element = ELEMENT.match(text, head.end()) if head else None
    # The first of each: later ones may be part of a summary or a result, which quote anything.
    while element:
        found.setdefault(element[1], element[2].strip())
        element = ELEMENT.match(text, element.end())
    return found.get("task-id") if found.get("status") in FINAL else None


class TaskEnds:
    """The ends of background tasks that a session's lines report."""

    def __init__(self, session: Session, place: Placing) -> None:
        self._session = session
        self._place = place

    def first_end(self, call: Call) -> SessionPosition:
        """Return where the task that a call left running is first reported to have ended."""
        return min(self._ends(call), default=END)

    def last_end(self, call: Call) -> SessionPosition:
        """Return where it is last reported to have ended: a sub-agent may be continued."""
        return max(self._ends(call), default=END)

    def _ends(self, call: Call) -> list[SessionPosition]:
        task = self._task_of(call)
        if task is None or call.result is None:
            return []
        after = call.result.index
        reports = ((node, ended) for node, ended in self._reports if node.index > after)
        return [self._place(node) for node, ended in reports if ended == task]

    def _task_of(self, call: Call) -> str | None:
        entry = self._session.entry(call.result) if call.result else None
        if not isinstance(entry, User):
            return None
        found = given(entry.tool_use_result)
        structured: Fields = found if is_object(found) else {}
        ids = {structured[name] for name in IDS if isinstance(structured.get(name), str)}
        if not structured:
            ids = set(NAMED.findall("\n".join(_result_texts(entry))))
        # A result that names several tasks does not tell which of them is the last to end.
        return ids.pop() if len(ids) == 1 else None

    @cached_property
    def _reports(self) -> list[tuple[UserNode, str]]:
        nodes = [
            node
            for node in self._session.nodes
            if isinstance(node, UserNode) and node.prompt is PromptKind.TASK_NOTIFICATION
        ]
        entries = zip(nodes, self._session.entries(nodes), strict=True)
        texts = ((node, full_text(entry)) for node, entry in entries if isinstance(entry, User))
        return [(node, task) for node, text in texts if (task := ended_task(text))]


def _result_texts(entry: User) -> list[str]:
    return [block.text for block in entry.content if isinstance(block, ToolResultBlock)]
