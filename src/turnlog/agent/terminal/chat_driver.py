"""Drive an open chat: send prompts, ask for permission, switch sessions."""

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from importlib import import_module
from time import monotonic
from typing import Any, Self

from msgspec.structs import replace

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.mentions import MENTION
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.loop.notifications import NOTICE, Arrival, listen, next_notice
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.session.resume import continue_session, reopen
from turnlog.agent.session.rewind import Rewound
from turnlog.agent.terminal.elicitation_form import ask_for_input
from turnlog.agent.terminal.event_view import TurnDisplay
from turnlog.agent.terminal.permission_prompt import ACCEPT, Asking
from turnlog.agent.terminal.question_menu import (
    PLAN,
    QUESTION,
    PlanMenu,
    ask_questions,
    plan_items,
)
from turnlog.agent.terminal.screen_protocol import ScreenInterface, ScrollbackItem, TypedInput
from turnlog.agent.terminal.status_command import StatusCommand, session_state
from turnlog.agent.terminal.status_line import StatusFacts
from turnlog.agent.terminal.themes import theme_named
from turnlog.agent.workspace.shell.background_tasks import ForegroundCall
from turnlog.agent.workspace.task_list import TaskListError
from turnlog.conversation.prompts import ASKING, LOCAL, prompt_kind
from turnlog.conversation.session import open_session
from turnlog.format.entries import User
from turnlog.format.fit import fit
from turnlog.format.json_values import Fields
from turnlog.format.regular_files import read_object
from turnlog.render.costs import session_cost
from turnlog.store.paths import Store

LAST_TURNS = 2
"""Turns shown when a session is resumed."""
COMMANDS = ("/", "!")
CLIENT = "anthropic"
"""A package imported in a thread: this takes a second or two, and the screen must not freeze."""
ASKED, IDLE = "permission_prompt", "idle_prompt"
WAITING = "turnlog is waiting for your input"
IDLE_SECONDS = 60.0
IDLE_SETTING = "messageIdleNotifThresholdMs"
"""The client's setting for this delay, in the client's own state file."""
COUNTED = 1 << 24
"""Maximum size of a session that is read to show its cost."""


class ChatDriver:
    """An open chat and its display state."""

    def __init__(self, screen: ScreenInterface, store: Store, options: ChatOptions) -> None:
        self.screen = screen
        self.store = store
        self.options = options
        self.display = TurnDisplay(screen, options.cwd)
        self.rewound: Rewound | None = None
        """The last rewind, for undoing it."""
        self.chat: Chat
        self.is_at_work = False
        """True if the model is running."""
        self._counting: asyncio.Task[None] | None = None
        self._status: StatusCommand | None = None
        self._started = monotonic()
        self._answered: float | None = None
        """When the last turn ended; None before the first turn, or once the idle wait has begun."""

    @classmethod
    async def open(cls, screen: ScreenInterface, store: Store, options: ChatOptions) -> Self:
        """Open a chat and show the end of the session."""
        driver = cls(screen, store, options)
        driver._begin(await driver._open(options))
        return driver

    async def switch(self, reason: str, **changes: Any) -> None:
        """Switch to another session or a new one."""
        parts = self.chat.parts
        plain: Fields = {"resume": None, "is_fork": False, "session_id": None, "name": None}
        carried: Fields = {"mode": parts.rules.mode, "model": parts.choice.model, "start": reason}
        carried["tuning"] = parts.choice.tuning
        wanted = replace(self.options, **plain | carried | changes)
        # Open the other session first: if that fails, this one stays open.
        chat = await self._open(wanted)
        await self.chat.close(reason)
        self.options = wanted
        self.display = TurnDisplay(self.screen, wanted.cwd)
        self.rewound = None
        self._begin(chat)

    async def _open(self, options: ChatOptions) -> Chat:
        elicit = partial(ask_for_input, self.screen)
        return await open_chat(self.store, options, self._ask, self._approve, elicit=elicit)

    def _begin(self, chat: Chat) -> None:
        self.chat = chat
        self.chat.loop.more = self._absorb
        listen(self.chat.parts, self.screen.wake)
        self.chat.parts.hooks.show = self.display.working
        self.chat.parts.hooks.ring = self.screen.ring
        self.screen.style.use(theme_named(chat.preferences.theme, os.environ))
        self.screen.use_vi(chat.preferences.uses_vi)
        for note in self.chat.notes:
            self.display.note(note, is_error=True)
        self.display.read_tasks = partial(_tasks, chat)
        self.display.checklist.take(_tasks(chat))
        self.display.past(last_turns(self.chat.parts.recorder.chain))
        self.restart_status()
        if self.options.resume:
            # Pass this display: the user may have switched sessions by the time the count is done.
            self._counting = asyncio.create_task(self._count_before(self.display))
        self.screen.redraw()

    def restart_status(self) -> None:
        """Run the user's status line command, if there is one, now and after changes."""
        if self._status:
            self._status.stop()
        chat = self.chat
        command = chat.preferences.status_command

        def state() -> Fields:
            seconds = monotonic() - self._started
            return session_state(chat, self.display.meter.cost, seconds)

        place = self.options.cwd
        made = StatusCommand(command, place, state, self.screen.redraw) if command else None
        self._status = made
        self.refresh_status()
        self.screen.redraw()

    def refresh_status(self) -> None:
        """Schedule a run of the status line command after a change."""
        if self._status:
            self._status.refresh()

    async def _count_before(self, display: TurnDisplay) -> None:
        """Count the session's earlier usage, if its file is small enough to read quickly."""
        path = self.chat.parts.recorder.path
        if path.stat().st_size <= COUNTED:
            before = await asyncio.to_thread(lambda: session_cost(open_session(path)))
            display.meter.total += before.cost_usd
            self.screen.redraw()

    def reload_session(self) -> None:
        """Reload the session from its file."""
        recorder = self.chat.parts.recorder
        continue_session(recorder, reopen(recorder.path))

    async def send(self, prompt: Prompt, source: str) -> None:
        """Run a turn for a prompt."""
        self.display.start()
        try:
            await asyncio.to_thread(import_module, CLIENT)
            # From here on, Escape interrupts the loop, which records the interruption; before, it
            # cancels this task.
            self.is_at_work = True
            async with aclosing(self.chat.send(prompt, source)) as events:
                async for event in events:
                    self.display.show(event)
        finally:
            self.is_at_work = False
            self._answered = asyncio.get_running_loop().time()
            self.display.finish()
            self.refresh_status()

    async def watch_idleness(self, last_key: Callable[[], float]) -> None:
        """Run Notification hooks once the user has typed nothing for a while after a turn."""
        if self._answered is None:
            return
        answered, self._answered = self._answered, None
        await asyncio.sleep(idle_limit(self.store))
        if last_key() <= answered:
            about = {"message": WAITING, "title": "turnlog", "notification_type": IDLE}
            # In the background: typing ends the wait, but not a hook that has begun.
            self.chat.parts.hooks.announce("Notification", IDLE, about)

    @property
    def has_news(self) -> bool:
        """Return whether a background notification is waiting."""
        parts = self.chat.parts
        return bool(parts.workspace.shells.ended or parts.hooks.news)

    async def send_notice(self) -> None:
        """Run a turn for a background notification."""
        notice = next_notice(self.chat.parts)
        if notice:
            await self.send(notice, NOTICE)

    def show_lines(self, lines: list[str], indent: int = 2) -> None:
        """Show the output of a slash command; `indent` applies to wrapped rows."""
        self.screen.show(ScrollbackItem([f"  {line}".rstrip() for line in lines], 2 + indent))

    def stop(self) -> None:
        """Interrupt the turn."""
        self.chat.loop.interrupt()

    @property
    def foreground(self) -> list[ForegroundCall]:
        """Running calls that can be moved to the background."""
        return self.chat.parts.workspace.shells.foreground

    async def move_to_background(self, is_for_message: bool = False) -> None:
        """Move the running calls to the background."""
        for call in list(self.foreground):
            call.move(is_for_message)

    def next_mode(self) -> None:
        """Switch to the next permission mode."""
        rules = self.chat.parts.rules
        modes = [ApprovalMode.DEFAULT, ApprovalMode.ACCEPT_EDITS, ApprovalMode.PLAN]
        # Offer it only if the chat was started in it: one key press too many must not turn off all
        # questions.
        modes += [ApprovalMode.BYPASS] if self.options.mode is ApprovalMode.BYPASS else []
        place = modes.index(rules.mode) if rules.mode in modes else -1
        self.set_mode(modes[(place + 1) % len(modes)])

    def set_mode(self, mode: ApprovalMode) -> None:
        """Switch the permission mode."""
        self.chat.parts.rules.mode = mode
        self.chat.parts.hooks.facts.permission_mode = mode.value
        self.refresh_status()

    def note_queue(self, operation: str, text: str | None = None) -> None:
        """Record that a prompt entered or left the queue."""
        self.chat.parts.recorder.queue(operation, text)

    @property
    def facts(self) -> StatusFacts:
        """The content of the status line."""
        parts = self.chat.parts
        tokens, window = context_tokens(parts.recorder.chain), parts.choice.window
        return StatusFacts(
            parts.choice.model,
            parts.rules.mode,
            tokens,
            window,
            self.display.meter.cost,
            parts.choice.tuning.effort or "",
            self._status.text if self._status else "",
            sum(job.status == "running" for job in parts.workspace.shells.jobs.values()),
        )

    def _absorb(self) -> list[Arrival]:
        """Return prompts typed during the turn, for the next request."""
        taken: list[Arrival] = []
        # In order, up to the first input that cannot be sent now: later ones must not overtake it.
        while self.screen.pending and _is_plain(self.screen.pending[0]):
            typed = self.screen.pending.pop(0)
            if typed.is_queued:
                self.note_queue("remove", typed.text)
            taken.append((self.screen.pastes.prompt(typed.text), "queued"))
        return taken

    async def _approve(self, question: Question) -> PermissionReply:
        """Ask about a project's server before the chat is open."""
        return await self.screen.ask(Asking(question), self.display.question(question))

    async def _ask(self, question: Question) -> PermissionReply:
        message = f"turnlog needs your permission to use {question.tool}"
        about = {"message": message, "title": "turnlog", "notification_type": ASKED}
        # Hooks run while the question is open: a notification after the answer would be of no use.
        notified = asyncio.create_task(self.chat.parts.hooks.fire("Notification", ASKED, about))
        try:
            reply = await self._reply_to(question)
        finally:
            await notified
        if reply is ACCEPT:
            self.set_mode(ApprovalMode.ACCEPT_EDITS)
            return PermissionReply("allow")
        return reply

    async def _reply_to(self, question: Question) -> PermissionReply:
        if question.tool == QUESTION:
            return await ask_questions(self.screen, question)
        if question.tool == PLAN:
            items = await asyncio.to_thread(plan_items, question, self.screen.columns)
            return await self.screen.ask(PlanMenu(question), items)
        rules = self.chat.parts.rules
        menu = Asking(question, offers_edits=rules.mode is ApprovalMode.DEFAULT)
        return await self.screen.ask(menu, self.display.question(question))


def idle_limit(store: Store) -> float:
    """Return the seconds without a key press after which the user counts as away."""
    wanted = read_object(store.client_state(os.environ)).get(IDLE_SETTING)
    if not isinstance(wanted, int | float) or isinstance(wanted, bool) or wanted <= 0:
        return IDLE_SECONDS
    return wanted / 1000


def _tasks(chat: Chat) -> list[Fields]:
    """Return the task list of a chat: from TodoWrite if it was used, else from the task tools."""
    workspace = chat.parts.workspace
    if workspace.todos:
        return workspace.todos
    try:
        return workspace.tasks.all()
    except TaskListError:  # the next call of a task tool reports the error
        return []


def last_turns(chain: list[Fields], count: int = LAST_TURNS) -> list[Fields]:
    """Return the entries of the last turns of a conversation."""
    starts = [place for place, entry in enumerate(chain) if _is_prompt(entry)]
    return chain[starts[-count] if len(starts) >= count else 0 :]


def _is_prompt(entry: Fields) -> bool:
    return entry.get("type") == "user" and prompt_kind(fit(User, entry, [])) in ASKING | LOCAL


def _is_plain(typed: TypedInput) -> bool:
    """Return whether a prompt can be sent during a turn: no command, no mentioned files."""
    return not typed.text.startswith(COMMANDS) and not MENTION.search(typed.text)
