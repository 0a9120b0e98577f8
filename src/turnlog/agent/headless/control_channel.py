"""The control protocol: JSON lines between turnlog and its host program.

Both sides send requests over the same pipes, interleaved with prompts and messages. Every request
gets exactly one response, unless it is cancelled.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

from msgspec import Struct

from turnlog.agent.chat.mentions import MENTION
from turnlog.agent.headless.prompt_lines import prompt_in
from turnlog.agent.headless.stream_messages import encode
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, as_object, is_object, parse_json
from turnlog.secrets import mask_start

REQUEST, RESPONSE = "control_request", "control_response"
CANCEL = "control_cancel_request"
INITIALIZE = "initialize"
CLOSED = "Stream closed"


class HostError(Exception):
    """The host program answered a request with an error, or not at all."""


class ControlError(Exception):
    """A request of the host program cannot be carried out."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class HostPrompt(Struct, frozen=True):
    """A prompt sent by the host program."""

    content: Prompt
    uuid: str | None = None
    """The uuid of its entry, if the program has chosen one."""
    is_verbatim: bool = False
    """True if neither commands nor mentioned files are expanded in it."""

    @property
    def is_plain(self) -> bool:
        """True if it is not a command and mentions no files."""
        text = self.content
        return not isinstance(text, str) or not (text.startswith("/") or MENTION.search(text))


Handle = Callable[[Fields], Awaitable[Fields | None]]


class ControlChannel:
    """Exchanges requests, responses, prompts and messages with the host program."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._waiting: dict[str, asyncio.Future[Fields]] = {}
        """Requests of turnlog that have no response yet."""
        self._prompts: deque[HostPrompt | None] = deque()
        """Waiting prompts; None marks the end of the stream."""
        self._has_prompts = asyncio.Event()
        self._opened: asyncio.Future[Fields | None] = asyncio.get_running_loop().create_future()
        self._handle: Handle | None = None
        self._early: list[Fields] = []
        """Requests that arrived before anyone could handle them."""
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    async def read(self, lines: AsyncIterable[str]) -> None:
        """Route each line to its recipient, until the program closes the stream."""
        try:
            async for line in lines:
                if line.strip():
                    self._route(_decode(line))
        finally:
            self._close()

    async def opening(self) -> Fields | None:
        """Return the `initialize` request; None if the program starts with something else."""
        # Shielded: a cancelled waiter would cancel the future, which `read` still resolves.
        return await asyncio.shield(self._opened)

    def serve(self, handle: Handle) -> None:
        """Handle the requests of the program, including those that have already arrived."""
        self._handle = handle
        for message in self._early:
            self._accept(message)
        self._early = []

    async def prompts(self) -> AsyncIterator[HostPrompt]:
        """Yield the prompts of the program."""
        while True:
            await self._has_prompts.wait()
            prompt = self._prompts.popleft()
            if not self._prompts:
                self._has_prompts.clear()
            if prompt is None:
                return
            yield prompt

    @property
    def has_waiting(self) -> bool:
        """True if a prompt is waiting."""
        return bool(self._prompts and self._prompts[0])

    def take_plain(self) -> HostPrompt | None:
        """Return the next waiting prompt if it can be sent during a turn."""
        prompt = self._prompts[0] if self._prompts else None
        if prompt is None or not prompt.is_plain:
            return None
        self._prompts.popleft()
        if not self._prompts:
            self._has_prompts.clear()
        return prompt

    def send(self, message: Fields) -> None:
        """Write a message."""
        self._write(encode(message))

    async def ask(self, request: Fields) -> Fields:
        """Send a request and return the response; raise `HostError` if there is none."""
        if self._is_closed:
            raise HostError(CLOSED)
        request_id = str(uuid4())
        waiting = self._waiting[request_id] = asyncio.get_running_loop().create_future()
        self.send({"type": REQUEST, "request_id": request_id, "request": request})
        try:
            return await waiting
        except asyncio.CancelledError:
            # The turn was interrupted, so the program can stop showing the question.
            self.send({"type": CANCEL, "request_id": request_id})
            raise
        finally:
            self._waiting.pop(request_id, None)

    def answer(self, request_id: object, response: Fields | None) -> None:
        """Send the response to a request of the program."""
        more = {} if response is None else {"response": response}
        about = {"subtype": "success", "request_id": request_id}
        self.send({"type": RESPONSE, "response": about | more})

    def refuse(self, request_id: object, error: str, code: str | None = None) -> None:
        """Send an error as the response to a request of the program."""
        about: Fields = {"subtype": "error", "request_id": request_id, "error": error}
        self.send({"type": RESPONSE, "response": about | ({"error_code": code} if code else {})})

    def _route(self, message: Fields) -> None:
        match message.get("type"):
            case "user":
                self._start(None)
                self._put(_prompt_of(message))
            case "control_request":
                self._take(message)
            case "control_response":
                self._resolve(message.get("response"))
            case "control_cancel_request":
                if task := self._running.pop(str(message.get("request_id")), None):
                    task.cancel()
            # A newer program may send unknown types, which must not end its session.
            case _:
                pass

    def _put(self, prompt: HostPrompt | None) -> None:
        self._prompts.append(prompt)
        self._has_prompts.set()

    def _take(self, message: Fields) -> None:
        request = message.get("request")
        if not is_object(request) or not isinstance(request.get("subtype"), str):
            self.refuse(message.get("request_id"), "the request has no subtype", "invalid_request")
        elif request["subtype"] == INITIALIZE and not self._opened.done():
            self._start(message)
        elif self._handle is None:
            # Start without `initialize`: a program that waits for this response never sends it.
            self._start(None)
            self._early.append(message)
        else:
            self._accept(message)

    def _start(self, message: Fields | None) -> None:
        if not self._opened.done():
            self._opened.set_result(message)

    def _accept(self, message: Fields) -> None:
        request_id = str(message.get("request_id"))
        task = asyncio.create_task(self._carry_out(message))
        self._running[request_id] = task
        task.add_done_callback(lambda _: self._running.pop(request_id, None))

    async def _carry_out(self, message: Fields) -> None:
        request_id = message.get("request_id")
        assert self._handle, "requests are kept until there is a handler"
        try:
            self.answer(request_id, await self._handle(message["request"]))
        except ControlError as error:
            self.refuse(request_id, str(error), error.code)
        except Exception as error:  # a request that fails must not end the session
            self.refuse(request_id, f"{type(error).__name__}: {error}")

    def _resolve(self, response: Any) -> None:
        if not is_object(response):
            return
        waiting = self._waiting.pop(str(response.get("request_id")), None)
        if waiting is None or waiting.done():  # a late response to a cancelled request
            return
        if response.get("subtype") == "error":
            waiting.set_exception(HostError(str(response.get("error") or "unknown error")))
            return
        given = response.get("response")
        waiting.set_result(as_object(given))

    def _close(self) -> None:
        self._is_closed = True
        self._start(None)
        self._put(None)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HostError(CLOSED))


def _decode(line: str) -> Fields:
    try:
        value: Any = parse_json(line)
    except ValueError as error:
        shown = mask_start(line.strip(), 80)
        raise UsageError(f"Error parsing streaming input line: {shown}: {error}") from error
    if not is_object(value):
        raise UsageError(f"a line of the input is not an object: {mask_start(line.strip(), 80)}")
    return value


def _prompt_of(message: Fields) -> HostPrompt:
    content = prompt_in(message)
    is_verbatim = message.get("client_composed") is True
    if is_verbatim and isinstance(content, str):
        # Only typed text is expanded.
        content = [{"type": "text", "text": content}]
    return HostPrompt(content, _uuid(message.get("uuid")), is_verbatim)


def _uuid(text: object) -> str | None:
    """Return a uuid in canonical form; None for anything else."""
    try:
        return str(UUID(str(text)))
    except ValueError:
        return None
