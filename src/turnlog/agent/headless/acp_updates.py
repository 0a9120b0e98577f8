"""Convert events of the agent loop, and recorded sessions, to ACP session updates."""

from collections.abc import Iterator
from time import monotonic
from typing import Any

from acp.helpers import (
    SessionUpdate,
    ToolCallContentVariant,
    image_block,
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    tool_terminal_ref,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message,
    update_user_message_text,
)
from acp.schema import PlanEntryStatus

from turnlog.agent.headless.acp_calls import (
    changed_line,
    fenced,
    kind_of,
    locations_of,
    outcome_of,
    preview_of,
    title_of,
)
from turnlog.agent.loop.events import (
    CallStarted,
    Event,
    FellBack,
    Inside,
    Notice,
    Printed,
    Recorded,
    Retrying,
    Streamed,
)
from turnlog.agent.tools.task_tracking import is_tracking
from turnlog.agent.workspace.task_list import TaskListError
from turnlog.agent.workspace.workspace import Workspace
from turnlog.conversation.branch import whole_branch
from turnlog.conversation.call_titles import todo_list
from turnlog.conversation.prompts import ASKING, LOCAL, prompt_kind, prompt_label
from turnlog.conversation.session import Session
from turnlog.format.entries import User
from turnlog.format.json_values import Fields, as_object, is_array, is_object, objects_in
from turnlog.text import harmless

TODO = "TodoWrite"
SHELL = "Bash"
PAUSE = 0.2
"""Seconds between two updates about the output of one call."""
SHOWN = 8_000
"""Maximum characters of a running call's output in an update."""
STATES: dict[str, PlanEntryStatus] = {"in_progress": "in_progress", "completed": "completed"}


class SessionUpdates:
    """Builds updates, and tracks the calls that have no result yet."""

    def __init__(self, workspace: Workspace, has_terminals: bool = False) -> None:
        self._workspace = workspace
        self._has_terminals = has_terminals
        """True if the client can show sent output in a terminal."""
        self._calls: dict[str, tuple[str, Fields]] = {}
        """Tool and input of each call."""
        self._tracking: set[str] = set()
        """Calls about the task list."""
        self._asked: set[str] = set()
        """Calls that the user was asked about."""
        self._printed: dict[str, str] = {}
        self._shown_at: dict[str, float] = {}
        self._is_past = False

    def of_event(self, event: Event, caller: str | None = None) -> Iterator[SessionUpdate]:
        """Yield the updates for an event; `caller` is the call that started its sub-agent."""
        match event:
            case Inside():
                yield from self.of_event(event.event, event.call_id)
            case Recorded():
                yield from self._recorded(event.entry, caller)
            case Streamed() if caller is None:
                yield from _streamed(event.event)
            case CallStarted() if event.call_id in self._calls:
                # The question replaced the call's content with its reasons: restore it.
                content = self._content(event.call_id) if event.call_id in self._asked else None
                yield update_tool_call(event.call_id, status="in_progress", content=content)
            case Printed() if event.call_id in self._calls:
                yield from self._output(event)
            case Notice() if caller is None:
                yield update_agent_thought_text(f"{harmless(event.text)}\n")
            case Retrying() if caller is None:
                wait = f"{event.wait:.0f} s (try {event.attempt} of {event.attempts})"
                yield update_agent_thought_text(f"{event.reason}; trying again in {wait}\n")
            case FellBack() if caller is None:
                text = f"{event.original} is overloaded: {event.fallback} answers instead\n"
                yield update_agent_thought_text(text)
            case _:
                pass

    def note_question(self, call_id: str) -> None:
        """Remember that the user is asked about a call."""
        self._asked.add(call_id)

    def of_session(self, session: Session) -> Iterator[SessionUpdate]:
        """Yield the updates that show a recorded conversation, from its first prompt."""
        leaf = session.tree.active_leaf
        nodes = [] if leaf is None else whole_branch(session.tree, leaf)
        self._is_past = True
        # Typed entries classify prompts; plain values have the blocks as they were written.
        for entry, value in zip(session.entries(nodes), session.values(nodes), strict=True):
            if isinstance(entry, User) and prompt_kind(entry) in ASKING | LOCAL:
                yield update_user_message_text(prompt_label(entry))
                yield from _images(value)
            elif value.get("type") == "assistant":
                yield from _answered(value)
                yield from self._started(value, None)
            else:
                yield from self._recorded(value, None)
        self._is_past = False

    def _recorded(self, entry: Fields, caller: str | None) -> Iterator[SessionUpdate]:
        if entry.get("type") == "assistant":
            yield from self._started(entry, caller)
        elif entry.get("type") == "user" and not entry.get("isMeta"):
            for block in _blocks(entry):
                if block.get("type") == "tool_result":
                    yield from self._ended(block, entry.get("toolUseResult"))

    def _started(self, entry: Fields, caller: str | None) -> Iterator[SessionUpdate]:
        for block in _blocks(entry):
            if block.get("type") != "tool_use":
                continue
            tool, given = str(block.get("name")), block.get("input")
            given = as_object(given)
            # The todo list is shown as a plan, so the call itself is not shown.
            if tool == TODO and caller is None:
                yield update_plan(map(_step, todo_list(given)))
            if is_tracking(tool):
                self._tracking.add(str(block["id"]))
                continue
            self._calls[str(block["id"])] = tool, given
            yield self._start(str(block["id"]), caller)

    def _tasks(self) -> list[Fields]:
        try:
            return self._workspace.tasks.all()
        except TaskListError:
            return []

    def _in_terminal(self, tool: str) -> bool:
        return self._has_terminals and tool == SHELL and not self._is_past

    def _content(self, call_id: str) -> list[ToolCallContentVariant]:
        tool, given = self._calls[call_id]
        if self._in_terminal(tool):
            return [tool_terminal_ref(call_id)]
        return preview_of(tool, given, self._workspace, self._is_past)

    def _start(self, call_id: str, caller: str | None) -> SessionUpdate:
        tool, given = self._calls[call_id]
        about: Fields = {"claudeCode": {"toolName": tool}}
        about["claudeCode"] |= {"parentToolUseId": caller} if caller else {}
        if self._in_terminal(tool):
            about["terminal_info"] = {"terminal_id": call_id, "cwd": str(self._workspace.cwd)}
        update = start_tool_call(
            call_id,
            harmless(title_of(tool, given)),
            kind=kind_of(tool),
            status="pending",
            content=self._content(call_id),
            locations=locations_of(given, self._workspace),
            raw_input=given,
        )
        update.field_meta = about
        return update

    def _output(self, event: Printed) -> Iterator[SessionUpdate]:
        """Yield a running call's output: new text for a terminal, else the end of the output."""
        printed = self._printed.get(event.call_id, "") + event.text
        self._printed[event.call_id] = printed[-SHOWN:]
        if self._has_terminals:
            yield self._terminal(event.call_id, event.text)
            return
        now = monotonic()
        # Throttled, as each update replaces the previous one and sends up to `SHOWN` characters.
        if now - self._shown_at.get(event.call_id, 0.0) >= PAUSE:
            self._shown_at[event.call_id] = now
            content = [tool_content(text_block(fenced(printed[-SHOWN:])))]
            yield update_tool_call(event.call_id, status="in_progress", content=content)

    def _terminal(self, call_id: str, text: str) -> SessionUpdate:
        update = update_tool_call(call_id)
        update.field_meta = {"terminal_output": {"terminal_id": call_id, "data": text}}
        return update

    def _ended(self, block: Fields, data: Any) -> Iterator[SessionUpdate]:
        call_id = str(block.get("tool_use_id"))
        if call_id in self._tracking:
            self._tracking.remove(call_id)
            if tasks := self._tasks():
                yield update_plan(map(_step, tasks))
        if call_id not in self._calls:
            return
        tool, given = self._calls.pop(call_id)
        had_output = bool(self._printed.pop(call_id, ""))
        self._shown_at.pop(call_id, None)
        self._asked.discard(call_id)
        is_error = block.get("is_error") is True
        is_change = kind_of(tool) == "edit" and not is_error
        locations = locations_of(given, self._workspace)
        for place in locations if is_change else ():
            place.line = changed_line(data)
        in_terminal = self._in_terminal(tool)
        # A call that printed nothing while it ran, such as a denied one, still has a result.
        if in_terminal and not had_output:
            yield self._terminal(call_id, _text(block))
        update = update_tool_call(
            call_id,
            status="failed" if is_error else "completed",
            # The diff of a change stays.
            content=None if is_change or in_terminal else outcome_of(tool, block),
            locations=locations if is_change else None,
        )
        if in_terminal:
            ended = {"terminal_id": call_id, "exit_code": int(is_error), "signal": None}
            update.field_meta = {"terminal_exit": ended}
        yield update


def _blocks(entry: Fields) -> list[Fields]:
    content: Any = entry["message"].get("content") if is_object(entry.get("message")) else None
    return objects_in(content)


def _text(block: Fields) -> str:
    content = block.get("content")
    if not is_array(content):
        return str(content or "")
    texts = [each.get("text") for each in objects_in(content)]
    return "\n".join(map(str, filter(None, texts)))


def _streamed(event: Fields) -> Iterator[SessionUpdate]:
    delta: Any = event.get("delta") if event.get("type") == "content_block_delta" else None
    if not is_object(delta):
        return
    if delta.get("type") == "text_delta" and delta.get("text"):
        yield update_agent_message_text(delta["text"])
    elif delta.get("type") == "thinking_delta" and delta.get("thinking"):
        yield update_agent_thought_text(delta["thinking"])


def _answered(entry: Fields) -> Iterator[SessionUpdate]:
    """Yield the updates for the text and thinking of a recorded answer."""
    for block in _blocks(entry):
        if block.get("type") == "text" and block.get("text"):
            yield update_agent_message_text(str(block["text"]))
        elif block.get("type") == "thinking" and block.get("thinking"):
            yield update_agent_thought_text(str(block["thinking"]))


def _images(entry: Fields) -> Iterator[SessionUpdate]:
    for block in _blocks(entry):
        source: Any = block.get("source")
        if block.get("type") == "image" and is_object(source) and source.get("type") == "base64":
            image = image_block(str(source.get("data")), str(source.get("media_type")))
            yield update_user_message(image)


def _step(todo: Fields) -> Any:
    status = STATES.get(str(todo.get("status")), "pending")
    return plan_entry(str(todo.get("content") or todo.get("subject") or ""), status=status)
