"""Handle the requests of the host program, by subtype."""

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from turnlog.agent.chat.built_in_prompts import PROMPTS
from turnlog.agent.chat.opening import Chat
from turnlog.agent.headless.control_channel import ControlError
from turnlog.agent.headless.stream_messages import COMPACT, KEY
from turnlog.agent.loop.context_usage import last_usage, tokens_of, usage_of
from turnlog.agent.loop.model_switch import SwitchRefused, ask_to_switch, switch
from turnlog.agent.mcp.server_config import HOST, ServerConfig
from turnlog.agent.model.model_names import DEFAULT, NEWEST, adapts, model_named, with_model
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.session.entry_builders import VERSION
from turnlog.agent.session.rewind import FileBack, RewindScope, apply_rewind, plan_rewind
from turnlog.agent.tools.files.patch import patch_of
from turnlog.conversation.session import open_session
from turnlog.edit.journal import Journal
from turnlog.errors import TurnlogError
from turnlog.format.json_values import Fields
from turnlog.store.paths import journal_folder

CHECKPOINTS = "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"
EFFORTS = ["low", "medium", "high", "xhigh", "max"]
LOCAL_COMMANDS = (
    (COMPACT, "<optional instructions>", "Summarize the conversation to free up context"),
    ("context", "", "Show what fills the context"),
    ("cost", "", "Show the cost of the session"),
    ("effort", "<level>", "Set the effort of the model"),
    ("model", "<name>", "Show or set the model"),
    ("usage", "", "Show the cost of the session"),
)
"""Commands without a prompt: name, arguments, description."""
AUTO = "auto"
OTHER_NAMES = {"manual": "default", AUTO: "acceptEdits"}
"""Other names of modes in the client. In its `auto`, a model decides about calls except edits."""


class ControlRequests:
    """Carries out the requests of a program about an open chat."""

    def __init__(self, chat: Chat, send: Callable[[Fields], None]) -> None:
        self._chat = chat
        self._send = send

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
        wanted = str(request.get("mode"))
        name = OTHER_NAMES.get(wanted, wanted)
        known = {mode.value: mode for mode in ApprovalMode}
        if name not in known:
            names = ", ".join(sorted({*known, AUTO}))
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
        parts = self._chat.parts
        # `default` is not the model that the chat started with (2.1.325, observed).
        choice = with_model(parts.choice, DEFAULT if name is None else str(name), os.environ)
        asked = None if name is None else str(name)
        try:
            outcome = await ask_to_switch(parts, choice, asked, "sdk")
            # There is no user to confirm the switch.
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
        if request.get("dry_run") is True:
            return {"canRewind": True, "filesChanged": changed} | _changed_lines(plan.usual)
        journal = Journal(journal_folder())
        # Overwrite files that have changed since, as there is no user to ask.
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
        """Accept a notification of an MCP server in the program, and ignore it."""
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
        # Updated in place, as hooks and permissions share this dict.
        parts.tools.clear()
        parts.tools.update(kept | offered)
        self._chat.prompts.take_servers(self._chat.servers)


def _changed_lines(files: Sequence[FileBack]) -> Fields:
    """Return how many lines a rewind would insert and delete."""
    marks = [
        line[:1]
        for file in files
        for hunk in patch_of(_text(file.path), _text(file.copy))
        for line in hunk["lines"]
    ]
    return {"insertions": marks.count("+"), "deletions": marks.count("-")}


def _text(path: Path | None) -> str:
    try:
        return path.read_text("utf-8", errors="replace") if path else ""
    except OSError:  # the file does not exist now
        return ""


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
        state |= {"source": "sdk" if kind == HOST else "dynamic"}
        state |= {} if kind == HOST else {"config": _config(kind, server.config)}
        if status == "connected":
            state |= {"serverInfo": server.info, "tools": server.offered}
        elif is_failed:
            state["error"] = chat.servers.failed[name]
        states.append(state)
    known = {state["name"] for state in states}
    # Servers that wait for approval are not started: only their state is known.
    return states + [state for state in chat.server_states if state["name"] not in known]


def _config(kind: str, config: ServerConfig) -> Fields:
    """Return a server's command or URL, without variables and headers, which may hold secrets."""
    if config.command:
        return {"type": kind, "command": config.command, "args": config.args}
    return {"type": kind, "url": config.url}


def context_usage(chat: Chat) -> Fields:
    """Return the tokens in the context by category."""
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
        "memoryFiles": [
            {"path": path, "type": kind, "tokens": tokens_of(text)}
            for path, kind, text in parts.memory_files
        ],
        "mcpTools": [
            {"name": tool.name, "serverName": tool.server, "tokens": len(tool.description) // 4}
            for tool in parts.tools.values()
            if tool.server
        ],
        "agents": [{"agentType": name, "source": "", "tokens": 0} for name in chat.agents],
        "gridRows": [],
        "isAutoCompactEnabled": parts.limits.compacting.is_automatic,
        "autoCompactThreshold": int(parts.limits.compacting.limit(window)),
        "apiUsage": last_usage(parts.recorder.chain),
    }


def initialized(chat: Chat, styles: Path) -> Fields:
    """Return the response to `initialize`: commands, agents, models and account."""
    parts = chat.parts
    commands = [
        {"name": name, "description": each.description, "argumentHint": each.hint}
        for name, each in chat.prompts.commands.items()
    ]
    rows = [*LOCAL_COMMANDS, *((each.name, each.hint, each.description) for each in PROMPTS)]
    own = [
        {"name": name, "description": description, "argumentHint": hint}
        for name, hint, description in rows
        if name not in chat.prompts.commands
    ]
    has_key = bool(os.environ.get(KEY))
    return {
        "commands": [*commands, *own],
        "agents": [
            {"name": each.name, "description": each.description}
            | ({"model": each.model} if each.model else {})
            for each in chat.agents.values()
        ],
        "output_style": chat.preferences.output_style or "default",
        "available_output_styles": list(chat.styles),
        "user_output_styles_dir": str(styles),
        "models": [
            _model("default", model_named("default", os.environ)),
            *map(_model, NEWEST, NEWEST.values()),
        ],
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
