"""Callbacks of the host program: permissions, hooks and in-process MCP servers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from turnlog.agent.headless.control_channel import ControlChannel, HostError
from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.runs import Failed, Firing, HookReply
from turnlog.agent.mcp.elicitation import ElicitAnswer, Elicitation
from turnlog.agent.permissions.grants import suggestions
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.conversation.call_titles import call_title
from turnlog.format.json_values import Fields, as_object, is_array, is_object, objects_in

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

SetState = Callable[[str], None]
INTERNAL_ERROR = -32603
PATHS = ("file_path", "notebook_path", "path")
EDITS = ("Edit", "Write", "NotebookEdit")


class HostPermissions:
    """Asks the program about calls; its answer counts as the user's consent."""

    def __init__(self, channel: ControlChannel, set_state: SetState) -> None:
        self._channel = channel
        self._set_state = set_state

    async def ask(self, question: Question) -> PermissionReply:
        """Return the program's answer; a failure to answer counts as a denial."""
        self._set_state("requires_action")
        try:
            answer = await self._channel.ask(_request(question))
        except HostError as error:
            return _denied(f"Tool permission request failed: {error}")
        finally:
            self._set_state("running")
        return _reply(answer)


def _request(question: Question) -> Fields:
    request: Fields = {
        "subtype": "can_use_tool",
        "tool_name": question.tool,
        "display_name": question.tool,
        "input": question.input,
        "description": _description(question),
        "permission_suggestions": [*suggestions(question.verdict.remember), *_modes(question)],
        "decision_reason": question.verdict.reason,
        "tool_use_id": question.call_id,
    }
    named = [question.input.get(name) for name in PATHS]
    if path := next((each for each in named if isinstance(each, str)), None):
        request["blocked_path"] = str(question.place / path)
    return request | ({"agent_id": question.agent_id} if question.agent_id else {})


def _description(question: Question) -> str:
    """Return a short description of a call: the model's own, or the name of its file."""
    told = question.input.get("description") if question.tool == "Bash" else None
    if isinstance(told, str) and told.strip():
        return told
    title = call_title(question.tool, question.input)
    if question.tool in EDITS and Path(title).is_relative_to(question.place):
        return str(Path(title).relative_to(question.place))
    return title


def _modes(question: Question) -> list[Fields]:
    """Return the suggestion to accept all edits, if the call is an edit."""
    is_edit = question.tool in EDITS
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    return [mode] if is_edit and not question.verdict.is_firm else []


def _reply(answer: Fields) -> PermissionReply:
    if answer.get("behavior") == "deny":
        return _denied(str(answer.get("message") or ""), answer.get("interrupt") is True)
    # Only an explicit `allow` is consent: `{}` or an unknown behavior is not.
    if answer.get("behavior") != "allow":
        return _denied("Tool permission request failed: the answer has no behavior")
    updated = answer.get("updatedInput")
    return PermissionReply(
        "allow",
        updated_input=updated if is_object(updated) else None,
        updates=tuple(objects_in(answer.get("updatedPermissions"))),
        is_program=True,
    )


def _denied(text: str, ends_turn: bool = False) -> PermissionReply:
    return PermissionReply("deny", feedback=text, is_program=True, ends_turn=ends_turn)


class HostInput:
    """Asks the program for input that MCP servers request."""

    def __init__(self, channel: ControlChannel, set_state: SetState) -> None:
        self._channel = channel
        self._set_state = set_state

    async def ask(self, request: Elicitation) -> ElicitAnswer:
        """Return the program's answer; an error, as for an unknown request, declines."""
        self._set_state("requires_action")
        try:
            answer = await self._channel.ask(_elicitation(request))
        except HostError:
            return ElicitAnswer("decline")
        finally:
            self._set_state("running")
        action, content = answer.get("action"), answer.get("content")
        if action == "accept":
            return ElicitAnswer("accept", content if is_object(content) else None)
        return ElicitAnswer("cancel" if action == "cancel" else "decline")


def _elicitation(request: Elicitation) -> Fields:
    properties = request.schema.get("properties")
    order = {"property_order": [*properties]} if is_object(properties) else {}
    return {"subtype": "elicitation"} | request.payload | order


class HostHooks:
    """The hooks that the program registers when it initializes."""

    def __init__(self, channel: ControlChannel, registered: object) -> None:
        self._channel = channel
        self._callbacks: dict[str, tuple[str, bool]] = {}
        """Each hook's callback in the program, and True if a failure of it blocks."""
        self.groups = self._read(registered)

    async def call(self, firing: Firing) -> HookReply:
        """Call a hook; return its output as if a command had printed it."""
        known = self._callbacks.get(firing.text("callback"))
        if known is None:
            raise Failed("no program has registered this hook")
        callback, blocks = known
        about = {"callback_id": callback, "input": firing.payload}
        tool_use = firing.payload.get("tool_use_id") or str(uuid4())
        request = {"subtype": "hook_callback", **about, "tool_use_id": tool_use}
        try:
            async with asyncio.timeout(firing.timeout):
                return HookReply(json.dumps(await self._channel.ask(request)))
        except (HostError, TimeoutError) as error:
            why = str(error) or f"it timed out after {firing.timeout:g} s"
            if blocks and EVENTS[firing.event].can_block:
                text = f"{firing.name} hook failed, and is set to block on failure: {why}"
                return HookReply(json.dumps({"decision": "block", "reason": text}))
            raise Failed(why) from error

    def _read(self, registered: object) -> dict[str, list[Fields]]:
        events = registered.items() if is_object(registered) else ()
        return {
            event: [self._group(each) for each in objects_in(groups)]
            for event, groups in events
            if event in EVENTS
        }

    def _group(self, given: Fields) -> Fields:
        names = given.get("hookCallbackIds")
        timeout = given.get("timeout")
        limit: Fields = {"timeout": timeout} if timeout is not None else {}
        blocks = given.get("onFailure", "continue") != "continue"
        handlers = [
            {"type": "callback", "callback": self._name(str(each), blocks), **limit}
            for each in (names if is_array(names) else [])
        ]
        return {"matcher": given.get("matcher"), "hooks": handlers}

    def _name(self, callback: str, blocks: bool) -> str:
        # A random name, so that `{"type": "callback", "callback": "hook_0"}` in a project's
        # settings cannot call the program.
        name = str(uuid4())
        self._callbacks[name] = (callback, blocks)
        return name


@asynccontextmanager
async def host_server(channel: ControlChannel, name: str) -> AsyncGenerator[Any]:
    """Connect to an MCP server inside the program: each message is a control request."""
    import anyio
    from mcp.shared.message import SessionMessage

    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](32)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def deliver(message: "SessionMessage") -> None:
        reply = await _forward(channel, name, message)
        if reply is not None:
            await incoming.send(reply)

    async with AsyncExitStack() as streams:
        # Close them even if the server fails: garbage collection reports unclosed streams.
        for stream in (incoming, received, sent, outgoing):
            streams.push_async_callback(stream.aclose)
        tasks = await streams.enter_async_context(anyio.create_task_group())

        async def pump() -> None:
            async with outgoing:
                async for message in outgoing:
                    # Not awaited: a slow call must not hold up the messages behind it.
                    tasks.start_soon(deliver, message)

        tasks.start_soon(pump)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()


async def _forward(
    channel: ControlChannel, name: str, message: "SessionMessage"
) -> "SessionMessage | None":
    """Send a message to a server; return its response if the message was a request."""
    from mcp.shared.message import SessionMessage

    plain: Fields = message.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    request = {"subtype": "mcp_message", "server_name": name, "message": plain}
    try:
        answer = (await channel.ask(request)).get("mcp_response")
    except HostError as error:
        answer = {"error": {"code": INTERNAL_ERROR, "message": str(error)}}
    # Notifications and responses get no reply, but the program still acknowledges them.
    if "id" not in plain or "method" not in plain:
        return None
    return SessionMessage(_response(plain["id"], as_object(answer)))


def _response(request_id: object, answer: Fields) -> Any:
    """Return a server's answer as a JSON-RPC response; as an error if it is invalid.

    Passing on anything but a response would leave the call waiting forever.
    """
    from mcp import types

    about: Fields = {"jsonrpc": "2.0", "id": request_id}
    given = {name: answer[name] for name in ("result", "error") if is_object(answer.get(name))}
    error = {"code": INTERNAL_ERROR, "message": "the answer of the server is not a response"}
    for each in (given, {"error": error}):
        with suppress(ValueError):  # pydantic's ValidationError is a ValueError
            return types.jsonrpc_message_adapter.validate_python(about | each, by_name=False)
    raise AssertionError("an error is a response")
