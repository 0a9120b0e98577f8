"""One session of an ACP client: its chat, its turns, its mode and its model."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.helpers import SessionUpdate, update_agent_message_text, update_current_mode
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    Cost,
    PromptResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    StopReason,
    UnstructuredCommandInput,
    Usage,
    UsageUpdate,
)

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.built_in_prompts import PROMPTS
from turnlog.agent.chat.mentions import mention_blocks
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.agent.headless.acp_permissions import ask_client
from turnlog.agent.headless.acp_prompts import ClientPrompt, prompt_blocks
from turnlog.agent.headless.acp_updates import SessionUpdates
from turnlog.agent.headless.control_requests import ControlRequests
from turnlog.agent.headless.prompt_queue import PROGRAM
from turnlog.agent.headless.stream_messages import COMPACT
from turnlog.agent.loop.context_usage import usage_of
from turnlog.agent.loop.events import TurnEnded
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.loop.notifications import NOTICE, absorb, listen, next_notice
from turnlog.agent.model.model_names import NEWEST
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.conversation.session import open_session
from turnlog.store.paths import Store

INTERNAL_ERROR = -32603
MODE, MODEL = "mode", "model"
MODES = {
    ApprovalMode.DEFAULT: ("Ask", "Ask before changing files and running commands"),
    ApprovalMode.ACCEPT_EDITS: ("Accept edits", "Change files in the project without asking"),
    ApprovalMode.PLAN: ("Plan", "Read only; change nothing"),
    ApprovalMode.DONT_ASK: ("Don't ask", "Deny whatever is not allowed already"),
    ApprovalMode.BYPASS: ("Bypass permissions", "Ask about nothing"),
}
STOPS: dict[str, StopReason] = {
    "interrupted": "cancelled",
    "refused": "refusal",
    "max_turns": "max_turn_requests",
    "max_budget": "max_turn_requests",
}
"""Stop reasons by the end of a turn; others are `end_turn`."""
SHOWN = ("blocked", "max_budget")
"""Endings whose text does not come from the model."""


class AcpSession:
    """An open chat and the client that shows it."""

    def __init__(self, chat: Chat, client: AgentSideConnection, has_terminals: bool) -> None:
        self.chat = chat
        self._client = client
        self._updates = SessionUpdates(chat.parts.workspace, has_terminals)
        self._requests = ControlRequests(chat, lambda message: None)
        self._lock = asyncio.Lock()
        """Held by the turn that is running; prompts wait for it."""
        self._waiting: list[asyncio.Task[StopReason]] = []
        """Turns that have not ended, in order; only the first may be running."""
        self._mode = chat.parts.rules.mode
        self._cost = 0.0
        self._last: TurnEnded | None = None
        listen(chat.parts, lambda: None)

    @property
    def id(self) -> str:
        return self.chat.parts.recorder.facts.session_id

    async def prompt(self, given: ClientPrompt) -> PromptResponse:
        """Run a turn; return why it ended."""
        task = asyncio.create_task(self._run(given))
        self._waiting.append(task)
        try:
            return PromptResponse(stop_reason=await task, usage=self._usage)
        except asyncio.CancelledError:
            # Either the request or the turn was cancelled. Only a cancelled turn gets a response.
            if not task.cancelled():  # the connection is closed
                raise
            return PromptResponse(stop_reason="cancelled")
        finally:
            self._waiting.remove(task)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def cancel(self) -> None:
        """Interrupt the turn, leaving a valid session, and drop the prompts that wait for it."""
        is_running = self.chat.loop.interrupt()
        # The running turn ends by itself after the interrupt, and records that it was interrupted;
        # cancelling its task would leave calls without results in the session.
        for task in self._waiting[is_running:]:
            task.cancel()

    async def _run(self, given: ClientPrompt) -> StopReason:
        async with self._lock:
            loop, parts = self.chat.loop, self.chat.parts
            loop.pending_context += [notice for notice, _ in absorb(parts)]
            if given.context:
                loop.pending_context.append(given.context)
            prompt: Prompt = given.text
            if given.images:
                # Only typed text is expanded, so files that it mentions are attached here.
                ask = parts.ask
                files = await mention_blocks(given.text, parts.workspace, parts.rules, ask)
                loop.pending_context += [files] if files else []
                prompt = prompt_blocks(given.text, given.images)
            ended = await self._turn(prompt, PROGRAM)
            # ACP has no turns without a prompt, so notices of background commands extend this one.
            while ended.reason == "done" and (notice := next_notice(parts)):
                ended = await self._turn(notice, NOTICE)
            await self._report_usage()
        if ended.reason == "failed":
            raise RequestError(INTERNAL_ERROR, ended.text)
        return STOPS.get(ended.reason, "end_turn")

    async def _turn(self, prompt: Prompt, source: str) -> TurnEnded:
        ended: TurnEnded | None = None
        async with aclosing(self.chat.send(prompt, source)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    ended = event
                    continue
                for update in self._updates.of_event(event):
                    await self._send(update)
                await self.report_mode()
        assert ended, "the last event of a turn is its end"
        self._cost += ended.cost
        self._last = ended
        if ended.reason in SHOWN and ended.text:
            await self._send(update_agent_message_text(ended.text))
        return ended

    async def ask(self, question: Question) -> PermissionReply:
        """Ask the user about a call."""
        self._updates.note_question(question.call_id)
        return await ask_client(self._client, self.id, question, self.chat.parts.workspace)

    async def replay(self) -> None:
        """Show the recorded conversation to the client."""
        session = await asyncio.to_thread(open_session, self.chat.parts.recorder.path)
        for update in self._updates.of_session(session):
            await self._send(update)

    async def report_commands(self) -> None:
        """Send the commands that the user may type."""
        named = self.chat.prompts.commands.values()
        commands = [
            _command(each.name, each.description, each.hint) for each in named if each.for_user
        ]
        known = self.chat.prompts.commands
        about = "Summarize the conversation to free up context"
        own = [(COMPACT, about, "instructions")]
        own += [(each.name, each.description, each.hint) for each in PROMPTS]
        commands += [_command(*each) for each in own if each[0] not in known]
        await self._send(
            AvailableCommandsUpdate(
                session_update="available_commands_update", available_commands=commands
            )
        )

    async def set_mode(self, name: str) -> None:
        """Switch the permission mode; raise `ControlError` if that is not allowed."""
        await self._requests.set_permission_mode({"mode": name})
        await self.report_mode()

    async def set_option(self, name: str, value: str) -> None:
        """Set the mode or the model."""
        if name == MODE:
            await self.set_mode(value)
        elif name == MODEL and value in self._models:
            await self._requests.set_model({"model": value})
        else:
            raise RequestError.invalid_params({"details": f"{name} has no value {value}"})

    async def report_mode(self) -> None:
        """Tell the client about a changed permission mode, whoever changed it."""
        mode = self.chat.parts.rules.mode
        if mode is self._mode:
            return
        self._mode = mode
        await self._send(update_current_mode(mode.value))
        await self._send(
            ConfigOptionUpdate(session_update="config_option_update", config_options=self.options)
        )

    async def close(self) -> None:
        """Stop the turn and close the chat."""
        self.cancel()
        if self._waiting:
            await asyncio.wait(self._waiting)
        await self.chat.close("other")

    @property
    def modes(self) -> SessionModeState:
        """The current permission mode and the available ones."""
        rules = self.chat.parts.rules
        usable = [mode for mode in MODES if rules.may_switch(mode) or mode is rules.mode]
        known = [_mode(mode, *MODES[mode]) for mode in usable]
        return SessionModeState(current_mode_id=rules.mode.value, available_modes=known)

    @property
    def options(self) -> list[Any]:
        """The mode and the model as configuration options of ACP."""
        modes = self.modes
        choices = [
            SessionConfigSelectOption(value=each.id, name=each.name, description=each.description)
            for each in modes.available_modes
        ]
        models = [
            SessionConfigSelectOption(value=value, name=value, description=model)
            for value, model in self._models.items()
        ]
        current = self.chat.parts.choice.model
        named = next((value for value, model in self._models.items() if model == current), current)
        return [
            _select(MODE, "Permission mode", modes.current_mode_id, choices),
            _select(MODEL, "Model", named, models),
        ]

    @property
    def _models(self) -> dict[str, str]:
        current = self.chat.parts.choice.model
        return NEWEST if current in NEWEST.values() else {**NEWEST, current: current}

    @property
    def _usage(self) -> Usage:
        used = self._last.usage if self._last else {}
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens")
        taken, made, read = (int(used.get(name) or 0) for name in names)
        written = int(used.get("cache_creation_input_tokens") or 0)
        return Usage(
            total_tokens=taken + made + read + written,
            input_tokens=taken,
            output_tokens=made,
            cached_read_tokens=read,
            cached_write_tokens=written,
        )

    async def _report_usage(self) -> None:
        parts = self.chat.parts
        await self._send(
            UsageUpdate(
                session_update="usage_update",
                used=usage_of(parts).total,
                size=parts.choice.window,
                cost=Cost(amount=self._cost, currency="USD"),
            )
        )

    async def _send(self, update: SessionUpdate | ConfigOptionUpdate | UsageUpdate) -> None:
        # If the client has disconnected, the session is still recorded.
        with suppress(ConnectionError):
            await self._client.session_update(self.id, update)


async def open_acp_session(
    store: Store,
    options: ChatOptions,
    client: AgentSideConnection,
    has_terminals: bool,
    complain: Callable[[str], None],
) -> AcpSession:
    """Open a chat whose questions go to the client; raise `ModelError` without credentials."""
    # A cycle: the chat needs the function that asks, which needs the session, which needs the chat.
    opened: list[AcpSession] = []

    async def ask(question: Question) -> PermissionReply:
        return await opened[0].ask(question)

    chat = await open_chat(store, options, ask)
    for note in chat.notes:
        complain(note)
    try:
        chat.parts.model.require_credentials()
    except BaseException:
        await chat.close("other")
        raise
    opened.append(AcpSession(chat, client, has_terminals))
    return opened[0]


def _command(name: str, description: str, hint: str) -> AvailableCommand:
    given = AvailableCommandInput(UnstructuredCommandInput(hint=hint)) if hint else None
    return AvailableCommand(name=name, description=description or name, input=given)


def _mode(mode: ApprovalMode, name: str, description: str) -> SessionMode:
    return SessionMode(id=mode.value, name=name, description=description)


def _select(
    name: str, title: str, current: str, values: Sequence[SessionConfigSelectOption]
) -> SessionConfigOptionSelect:
    return SessionConfigOptionSelect(
        id=name,
        name=title,
        category="mode" if name == MODE else "model",
        type="select",
        current_value=current,
        options=list(values),
    )
