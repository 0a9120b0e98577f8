"""A chat that a host program drives through the control protocol, for example with the Agent SDK.

The program initializes the chat, sends prompts, and answers questions about calls. Each event is
written as a message before the next one happens.
"""

import asyncio
import os
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.host import Host, read_agents
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.agent.headless.control_channel import ControlChannel, HostPrompt
from turnlog.agent.headless.control_requests import ControlRequests, initialized, mode_message
from turnlog.agent.headless.host_callbacks import (
    HostHooks,
    HostInput,
    HostPermissions,
    host_server,
)
from turnlog.agent.headless.initialization import requested_options
from turnlog.agent.headless.local_commands import local_answer, local_messages
from turnlog.agent.headless.prompt_queue import PROGRAM, incoming
from turnlog.agent.headless.stream_messages import (
    ALWAYS_SHOWN,
    ResultFigures,
    hook_message,
    init_message,
    messages_of,
    result_message,
)
from turnlog.agent.headless.task_messages import TaskMessages
from turnlog.agent.hooks.runs import Firing, HookRun
from turnlog.agent.loop.events import Event, Inside, Notice, TurnEnded
from turnlog.agent.loop.notifications import NOTICE, Arrival
from turnlog.errors import NotFound
from turnlog.format.json_values import Fields, is_array
from turnlog.store.paths import Store, subagents_folder

READS_STATE, EMITS_STATE = (
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
)


class HostedOptions(Struct, frozen=True):
    """Options of the messages sent to the host program."""

    has_pieces: bool = False
    has_hook_events: bool = False
    replays: bool = False
    """True if prompts are sent back."""
    mirrors: bool = False
    """True if each line of the session is sent as well."""
    asks_host: bool = False
    """True if the program decides about calls."""


@dataclass
class Console:
    """The streams of a hosted chat: input lines, messages and warnings."""

    lines: AsyncIterable[str]
    write: Callable[[str], None]
    complain: Callable[[str], None]


async def run_hosted(
    store: Store, options: Callable[[], ChatOptions], wanted: HostedOptions, console: Console
) -> int:
    """Serve a program until it closes the stream; return the exit code."""
    channel = ControlChannel(console.write)
    reading = asyncio.create_task(channel.read(console.lines))
    try:
        hello = await channel.opening()
        # `opening` also returns when reading has failed, without a request.
        if reading.done() and (error := reading.exception()):
            raise error
        hosted = HostedChat(store, channel, wanted, console.complain)
        try:
            await hosted.open(options(), hello)
        except NotFound as error:
            # `initialize` gets no response now, so the program gets a result with the error.
            hosted.fail(error.message)
            raise
        return await _race(hosted, reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _race(hosted: "HostedChat", reading: "asyncio.Task[None]") -> int:
    """Run the chat to its end, or until the program writes something unreadable."""
    running = asyncio.create_task(hosted.run())
    try:
        await asyncio.wait({running, reading}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and reading.exception():
            hosted.stop()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            reading.result()
        return await running
    except asyncio.CancelledError:
        # Cancelled by a signal: the program still gets the turn's result, as from client 2.1.325.
        if hosted.stop():
            hosted.is_ending = True
            await asyncio.wait({running})
        raise
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await hosted.close()


class HostedChat:
    """One chat and the program that drives it."""

    def __init__(
        self,
        store: Store,
        channel: ControlChannel,
        wanted: HostedOptions,
        complain: Callable[[str], None],
    ) -> None:
        self._store = store
        self._channel = channel
        self._wanted = wanted
        self._complain = complain
        self._chat: Chat | None = None
        self._session_id = str(uuid4())
        self._figures = ResultFigures()
        self._mirrored: dict[Path, list[Fields]] = {}
        self._mirror_lock = Lock()
        """Needed because backups are recorded in threads."""
        self._tasks = TaskMessages(self._send, self._output_of)
        self._state = "idle"
        self._mode = ""
        self._forwards_text = False
        self._results = 0
        self._takes_more = False
        self._has_waited = False
        """True if prompts waited for the previous turn to end."""
        self.is_error = False
        """True if the last turn failed."""
        self.is_ending = False
        """True if no turn follows the running one."""

    @property
    def chat(self) -> Chat:
        assert self._chat, "the chat is open"
        return self._chat

    async def open(self, options: ChatOptions, hello: Fields | None) -> None:
        """Open the chat with the options in the `initialize` request, and answer the request."""
        request: Fields = hello["request"] if hello else {}
        options = requested_options(options, request)
        self._forwards_text = request.get("forwardSubagentText") is True
        permissions = HostPermissions(self._channel, self._set_state)
        ask = permissions.ask if self._wanted.asks_host else None
        self._session_id = options.session_id or self._session_id
        self._chat = await open_chat(
            self._store,
            # A resumed session has an id already. A new one gets it here, so that messages sent
            # while the chat opens name it.
            options if options.resume else replace(options, session_id=self._session_id),
            ask,
            host=self._host(request),
            elicit=HostInput(self._channel, self._set_state).ask,
        )
        parts = self._chat.parts
        self._session_id = parts.recorder.facts.session_id
        self._mode = parts.rules.mode.value
        parts.can_defer = True
        parts.workspace.shells.observe = self._tasks.command
        self._chat.loop.more = self._absorb
        self._chat.loop.companions = self._companions
        if self._wanted.mirrors:
            parts.recorder.on_append = self._mirror
        for note in self._chat.notes:
            self._complain(note)
        if hello:
            styles = self._store.root / "output-styles"
            self._channel.answer(hello.get("request_id"), initialized(self._chat, styles))
        # Last: the program expects the response to `initialize` before any other response.
        self._channel.serve(ControlRequests(self._chat, self._switch).handle)

    def _host(self, request: Fields) -> Host:
        hooks = HostHooks(self._channel, request.get("hooks"))
        skills = request.get("skills")
        return Host(
            agents=read_agents(request.get("agents")),
            hooks=hooks.groups,
            call_back=hooks.call,
            observe=self._observe,
            open_server=partial(host_server, self._channel),
            skills=tuple(map(str, skills)) if is_array(skills) else None,
            moves_surroundings=request.get("excludeDynamicSections") is True,
        )

    async def run(self) -> int:
        """Run the prompts of the program, and turns started by background notifications."""
        prompts = self._channel.prompts()
        async with aclosing(incoming(prompts, self.chat.parts)) as arrivals:
            async for prompt, source in arrivals:
                await self._turn(prompt, source)
                self._set_state("idle")
                # Not after a notification's turn: `incoming` may already hold the next prompt.
                self._has_waited = source == PROGRAM and self._channel.has_waiting
                if self.is_ending:
                    break
        return 1 if self.is_error else 0

    def stop(self) -> bool:
        """Interrupt the turn; return whether one was running."""
        return self._chat is not None and self._chat.loop.interrupt()

    async def close(self) -> None:
        """Close the chat."""
        if self._chat:
            await self._chat.close("other")
            self._flush_mirror()

    def fail(self, message: str) -> None:
        """Tell the program that the chat could not be opened."""
        self._send(
            {
                "type": "result",
                "subtype": "error_during_execution",
                "is_error": True,
                "duration_ms": 0,
                "duration_api_ms": 0,
                "num_turns": 0,
                "stop_reason": None,
                "total_cost_usd": 0,
                "usage": {},
                "modelUsage": {},
                "permission_denials": [],
                "errors": [message],
            }
        )

    async def _turn(self, prompt: HostPrompt | str, source: str) -> None:
        chat = self.chat
        self._figures.begin_turn()
        self._limit_budget()
        self._set_state("running")
        self._takes_more = source == PROGRAM
        content = prompt if isinstance(prompt, str) else prompt.content
        if isinstance(prompt, HostPrompt):
            chat.parts.recorder.next_uuid = self._prompt_uuid(prompt)
            # A command has a turn of its own.
            self._has_waited &= prompt.is_plain
        self._send(init_message(chat))
        self._replay(prompt)
        is_typed = source == PROGRAM and not (isinstance(prompt, HostPrompt) and prompt.is_verbatim)
        if is_typed and (answer := await local_answer(chat, content)) is not None:
            message, ended = local_messages(answer)
            self._send(message)
            self._end(ended, source)
            return
        async with aclosing(chat.send(content, source)) as events:
            async for event in events:
                self._show(event, source)

    def _absorb(self) -> Iterator[Arrival]:
        """Yield the waiting prompts, to send with the next request of the running turn.

        A notification's turn takes none, as they could overtake a prompt that was already read.
        """
        while self._takes_more and (prompt := self._channel.take_plain()):
            self.chat.parts.recorder.next_uuid = self._prompt_uuid(prompt)
            self._replay(prompt)
            yield prompt.content, PROGRAM

    def _companions(self) -> Iterator[Arrival]:
        """Yield the other prompts that waited for the previous turn, to join the starting turn."""
        if self._has_waited:
            yield from self._absorb()

    def _prompt_uuid(self, prompt: HostPrompt) -> str:
        """Return the uuid for a prompt's entry: the program's own, unless it is taken."""
        # Entries refer to their parent by uuid, so a duplicate would be ambiguous.
        chain, wanted = self.chat.parts.recorder.chain, prompt.uuid
        is_free = wanted and not any(entry.get("uuid") == wanted for entry in chain)
        return wanted if wanted and is_free else str(uuid4())

    def _replay(self, prompt: HostPrompt | str) -> None:
        if self._wanted.replays and isinstance(prompt, HostPrompt):
            message = {"role": "user", "content": prompt.content}
            uuid = self.chat.parts.recorder.next_uuid
            about = {"parent_tool_use_id": None, "uuid": uuid, "isReplay": True}
            self._send({"type": "user", "message": message, **about})

    def _limit_budget(self) -> None:
        """Limit a turn to the rest of the session's budget."""
        parts = self.chat.parts
        given = parts.limits.budget_given
        if given is not None:
            left = max(0.0, given - self._figures.cost)
            parts.limits = replace(parts.limits, max_budget=left, session_budget=given)

    def _show(self, event: Event, source: str) -> None:
        if isinstance(event, TurnEnded):
            self._end(event, source)
            return
        self._tasks.take(event)
        self._figures.note(event)
        if isinstance(event, Notice) and event.is_error:
            self._complain(event.text)
        self._note_mode()
        marks = self._tasks.marks(event.call_id) if isinstance(event, Inside) else {}
        for message in messages_of(event, None, self._wanted.has_pieces):
            if not isinstance(event, Inside) or self._is_forwarded(message):
                self._figures.count(message)
                self._send(message | marks)

    def _is_forwarded(self, message: Fields) -> bool:
        """Return whether a message of a sub-agent is sent.

        Programs see its calls and results; its text and thinking only if they ask for them.
        """
        if self._forwards_text or message["type"] != "assistant":
            return True
        return any(block.get("type") == "tool_use" for block in message["message"]["content"])

    def _end(self, ended: TurnEnded, source: str) -> None:
        result = result_message(self.chat, ended, self._figures)
        self._figures.begin_turn()  # a call deferred again has its own result before the prompt's
        if source == NOTICE:
            result["origin"] = {"kind": "task-notification", "producer": "session-task"}
        self._note_mode()
        self.is_error = result["is_error"]
        self._send(result | {"result_index": self._results})
        self._results += 1

    def _note_mode(self) -> None:
        """Tell the program about a changed permission mode, whoever changed it."""
        mode = self.chat.parts.rules.mode.value
        if mode != self._mode:
            self._switch(mode_message(mode))

    def _switch(self, message: Fields) -> None:
        self._mode = message["permissionMode"]
        self._send(message)

    def _set_state(self, state: str) -> None:
        if state == self._state:
            return
        self._state = state
        is_wanted = _is_set(EMITS_STATE)
        if not (is_wanted or _is_set(READS_STATE)):
            return
        hidden = {} if is_wanted else {"sdk_host_only": True}
        self._send({"type": "system", "subtype": "session_state_changed", "state": state, **hidden})

    def _observe(self, run_id: str, firing: Firing, run: HookRun | None) -> None:
        """Report a hook that is not the program's own, before and after it runs."""
        if not self._wanted.has_hook_events and firing.event not in ALWAYS_SHOWN:
            return
        self._send(hook_message(run_id, firing, run))

    def _output_of(self, agent_id: str) -> str:
        folder = subagents_folder(self.chat.parts.recorder.path)
        return str(folder / f"agent-{agent_id}.jsonl")

    def _mirror(self, path: Path, entry: Fields) -> None:
        with self._mirror_lock:
            self._mirrored.setdefault(path, []).append(entry)

    def _flush_mirror(self) -> None:
        with self._mirror_lock:
            mirrored, self._mirrored = self._mirrored, {}
        for path, entries in mirrored.items():
            frame = {"type": "transcript_mirror", "filePath": str(path), "entries": entries}
            with suppress(OSError):  # the program may be gone; the lines are on disk
                self._channel.send(frame)

    def _send(self, message: Fields) -> None:
        # Mirrored lines first: a program that sees a result may expect its lines to be stored.
        self._flush_mirror()
        common = {"session_id": self._session_id, "uuid": str(uuid4())}
        self._channel.send(common | message)


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes", "on")
