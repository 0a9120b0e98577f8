"""Requests of the program that drives turnlog, by subtype: what each does, and its response."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from turnlog.agent.chat.opening import Chat
from turnlog.agent.headless.control_channel import ControlError
from turnlog.agent.headless.stream_messages import COMPACT, KEY
from turnlog.agent.loop.context_usage import usage_of
from turnlog.agent.loop.model_switch import SwitchRefused, ask_to_switch, switch
from turnlog.agent.mcp.server_config import HOST
from turnlog.agent.model.model_names import NEWEST, adapts, with_model
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.session.entry_builders import VERSION
from turnlog.agent.session.rewind import RewindScope, apply_rewind, plan_rewind
from turnlog.conversation.session import open_session
from turnlog.edit.journal import Journal
from turnlog.errors import TurnlogError
from turnlog.format.json_values import Fields
from turnlog.store.paths import journal_folder

CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
EFFORTS = ["low", "medium", "high", "xhigh", "max"]
UNSUPPORTED_MODES = ("auto",)
"""Modes of the client that turnlog does not have."""


class ControlRequests:
    """Carries out the requests of a program about an open chat."""

    def __init__(self, chat: Chat, send: Callable[[Fields], None]) -> None:
        self._chat = chat
        self._send = send
        # `default` means the model that the chat started with, not the one that was set last.
        self._usual = chat.parts.choice.model

    async def handle(self, request: Fields) -> Fields | None:
        """Carry out a request and return its response; raise `ControlError` if that fails."""
        subtype = str(request["subtype"])
        known = HANDLERS.get(subtype)
        if known is None:
            message = f"Unsupported control request subtype: {subtype}"
            raise ControlError(message, "unsupported_request")
        return await known(self, request)

    async def interrupt(self, request: Fields) -> Fields:
        self._chat.loop.interrupt()
        return {"still_queued": []}

    async def set_permission_mode(self, request: Fields) -> Fields:
        name = str(request.get("mode"))
        known = {mode.value: mode for mode in ApprovalMode}
        if name in UNSUPPORTED_MODES:
            message = f"Cannot set permission mode to {name}: turnlog does not have it"
            raise ControlError(message, "unsupported_mode")
        if name not in known:
            names = ", ".join(sorted(known))
            message = f"Cannot set permission mode: must be one of {names}"
            raise ControlError(message, "invalid_mode")
        rules = self._chat.parts.rules
        if not rules.may_switch(known[name]):
            message = (
                "Cannot set permission mode to bypassPermissions because the session was not"
                " launched with --dangerously-skip-permissions"
            )
            raise ControlError(message, "bypass_not_launched")
        rules.mode = known[name]
        self._chat.parts.hooks.facts.permission_mode = name
        self._send(mode_message(name))
        return {"mode": name}

    async def set_model(self, request: Fields) -> Fields:
        name = request.get("model")
        wanted = self._usual if name in (None, "default") else str(name)
        parts = self._chat.parts
        choice = with_model(parts.choice, wanted, os.environ)
        asked = None if name is None else str(name)
        try:
            outcome = await ask_to_switch(parts, choice, asked, "sdk")
            # Nobody can confirm it here.
            if outcome.decision == "ask":
                raise SwitchRefused(outcome.reason)
        except SwitchRefused as error:
            message = f"Model switch blocked by a PreModelSwitch hook: {error}"
            raise ControlError(message, "blocked_by_hook") from error
        switch(parts, choice, asked, "sdk")
        return {"model": choice.model}

    async def set_max_thinking_tokens(self, request: Fields) -> None:
        tokens = request.get("max_thinking_tokens")
        if tokens is not None and (not isinstance(tokens, int) or tokens < 0):
            raise ControlError("max_thinking_tokens must be a number or null", "invalid_request")
        parts = self._chat.parts
        tuning = replace(parts.choice.tuning, thinking="disabled" if tokens == 0 else None)
        parts.choice = replace(parts.choice, thinking_tokens=tokens or 0, tuning=tuning)

    async def rewind_files(self, request: Fields) -> Fields:
        """Restore the files to their state before a prompt."""
        if not os.environ.get(CHECKPOINTS):
            raise ControlError("File rewinding is not enabled.")
        parts = self._chat.parts
        workspace, place = parts.workspace, parts.recorder.path
        prompt = str(request.get("user_message_id"))
        try:
            session = open_session(place)
            plan = plan_rewind(
                self._chat.store, session, prompt, workspace.root, workspace.directories
            )
        except (TurnlogError, OSError) as error:
            raise ControlError("No file checkpoint found for this message.") from error
        changed = [str(file.path) for file in plan.usual]
        if request.get("dry_run") is not True:
            journal = Journal(journal_folder())
            # Nobody can be asked here about files that have changed since.
            apply_rewind(plan, RewindScope.FILES, session, journal, overwrite=True)
        return {"canRewind": True, "filesChanged": changed}

    async def mcp_status(self, request: Fields) -> Fields:
        return {"mcpServers": server_states(self._chat)}

    async def mcp_reconnect(self, request: Fields) -> None:
        name = self._server(request)
        await self._chat.servers.restart(name)
        self._refresh_tools()
        if name in self._chat.servers.failed:
            raise ControlError(self._chat.servers.problems[-1])

    async def mcp_toggle(self, request: Fields) -> None:
        name = self._server(request)
        if request.get("enabled") is True:
            await self._chat.servers.restart(name)
        else:
            await self._chat.servers.stop(name)
        self._refresh_tools()

    async def get_context_usage(self, request: Fields) -> Fields:
        return context_usage(self._chat)

    async def stop_task(self, request: Fields) -> Fields:
        shells = self._chat.parts.workspace.shells
        if job := shells.jobs.get(str(request.get("task_id"))):
            await shells.kill(job)
        return {}

    async def server_message(self, request: Fields) -> Fields:
        """Accept a notification of a server in the program; turnlog acts on none."""
        return {}

    async def initialize(self, request: Fields) -> Fields:
        raise ControlError("Already initialized", "already_initialized")

    def _server(self, request: Fields) -> str:
        name = str(request.get("serverName"))
        if name not in self._chat.servers.servers:
            raise ControlError(f"Server not found: {name}")
        return name

    def _refresh_tools(self) -> None:
        parts = self._chat.parts
        kept = {name: tool for name, tool in parts.tools.items() if tool.server is None}
        offered = {tool.name: tool for tool in self._chat.servers.tools}
        # In place: hooks and permissions hold the same table.
        parts.tools.clear()
        parts.tools.update(kept | offered)
        self._chat.prompts.take_servers(self._chat.servers)


def mode_message(mode: str) -> Fields:
    """Build the message about a changed permission mode."""
    return {"type": "system", "subtype": "status", "status": None, "permissionMode": mode}


def server_states(chat: Chat) -> list[Fields]:
    """Return the MCP servers with their status, in the client's words."""
    states: list[Fields] = []
    for name, server in chat.servers.servers.items():
        is_failed = name in chat.servers.failed
        status = "disabled" if server.is_disabled else "failed" if is_failed else "connected"
        kind = server.config.type or ("stdio" if server.config.command else "http")
        state: Fields = {"name": name, "status": status, "transport": kind, "scope": "dynamic"}
        state |= {"source": "sdk"} if kind == HOST else {}
        if status == "connected":
            state |= {"serverInfo": server.info, "tools": server.offered}
        states.append(state)
    known = {state["name"] for state in states}
    # Servers that wait for approval are not started: only their state is known.
    return states + [state for state in chat.server_states if state["name"] not in known]


def context_usage(chat: Chat) -> Fields:
    """Return what fills the context, by category."""
    parts = chat.parts
    usage, window = usage_of(parts), parts.choice.window
    reserve = parts.limits.compacting.reserve(window)
    free = max(0, window - usage.total - reserve)
    rows = [
        ("system_prompt", "System prompt", usage.system, "used"),
        ("system_tools", "System tools", usage.tools, "used"),
        ("mcp_tools", "MCP tools", usage.server_tools, "used"),
        ("memory_files", "Memory files", usage.memory, "used"),
        ("messages", "Messages", usage.messages, "used"),
        ("autocompact_buffer", "Autocompact buffer", reserve, "buffer"),
        ("free_space", "Free space", free, "free"),
    ]
    categories = [
        {"id": name, "name": title, "tokens": tokens, "color": "inactive", "kind": kind}
        for name, title, tokens, kind in rows
        if tokens or kind == "free" or name == "messages"
    ]
    return {
        "categories": categories,
        "totalTokens": usage.total,
        "maxTokens": window,
        "rawMaxTokens": window,
        "percentage": round(100 * usage.total / window),
        "model": parts.choice.model,
        "memoryFiles": [],
        "mcpTools": [
            {"name": tool.name, "serverName": tool.server, "tokens": len(tool.description) // 4}
            for tool in parts.tools.values()
            if tool.server
        ],
        "agents": [{"agentType": name, "source": "", "tokens": 0} for name in chat.agents],
        "gridRows": [],
        "isAutoCompactEnabled": parts.limits.compacting.is_automatic,
        "autoCompactThreshold": int(parts.limits.compacting.limit(window)),
        "apiUsage": None,
    }


def initialized(chat: Chat, styles: Path) -> Fields:
    """Return the response to `initialize`: commands, agents, models and account."""
    parts = chat.parts
    commands = [
        {"name": name, "description": each.description, "argumentHint": each.hint}
        for name, each in chat.prompts.commands.items()
    ]
    compact = {
        "name": COMPACT,
        "description": "Summarize the conversation to free up context",
        "argumentHint": "<optional instructions>",
    }
    has_key = bool(os.environ.get(KEY))
    return {
        "commands": [*commands, compact],
        "agents": [
            {"name": each.name, "description": each.description}
            | ({"model": each.model} if each.model else {})
            for each in chat.agents.values()
        ],
        "output_style": "default",
        "available_output_styles": ["default"],
        "user_output_styles_dir": str(styles),
        "models": [_model("default", parts.choice.model), *map(_model, NEWEST, NEWEST.values())],
        "account": {"tokenSource": "none", "apiKeySource": KEY if has_key else "none"},
        "pid": os.getpid(),
        "claude_code_version": VERSION,
        "current_permission_mode": parts.rules.mode.value,
        "hook_on_failure_supported": True,
        "hooks_applied": True,
        "session_state": "idle",
    }


def _model(value: str, model: str) -> Fields:
    return {
        "value": value,
        "resolvedModel": model,
        "displayName": value.capitalize(),
        "description": model,
        "supportsEffort": adapts(model),
        "supportedEffortLevels": EFFORTS if adapts(model) else [],
        "supportsAdaptiveThinking": adapts(model),
    }


HANDLERS: dict[str, Callable[[ControlRequests, Fields], Awaitable[Fields | None]]] = {
    "initialize": ControlRequests.initialize,
    "interrupt": ControlRequests.interrupt,
    "set_permission_mode": ControlRequests.set_permission_mode,
    "set_model": ControlRequests.set_model,
    "set_max_thinking_tokens": ControlRequests.set_max_thinking_tokens,
    "rewind_files": ControlRequests.rewind_files,
    "mcp_status": ControlRequests.mcp_status,
    "mcp_reconnect": ControlRequests.mcp_reconnect,
    "mcp_toggle": ControlRequests.mcp_toggle,
    "mcp_message": ControlRequests.server_message,
    "get_context_usage": ControlRequests.get_context_usage,
    "stop_task": ControlRequests.stop_task,
}
