"""The interactive screen: reads input and displays events in order.

Finished output is printed once into the terminal's scrollback; only the live region, the prompt and
the status line are redrawn. The prompt appears before the chat is open: slow modules load later.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.key_processor import KeyProcessor

from turnlog.agent.terminal.completer import Offer, files_in, offers
from turnlog.agent.terminal.folding import Unfolding, fold_rows
from turnlog.agent.terminal.menu import Choices, Item, Menu
from turnlog.agent.terminal.pastes import Pastes, clipboard_image
from turnlog.agent.terminal.prompt_editor import make_buffer, quiet_since
from turnlog.agent.terminal.screen_layout import View
from turnlog.agent.terminal.screen_protocol import ScrollbackItem, TypedInput
from turnlog.agent.terminal.styled_text import cut, fold, has_colour, make_style, one_line
from turnlog.agent.terminal.typed_prompts import add_typed, typed_in
from turnlog.errors import TurnlogError
from turnlog.store.paths import Store

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.terminal.chat_driver import ChatDriver

TICK = 0.12
"""Seconds between two redraws of the live region."""
TWICE = 2.0
"""Seconds within which a second ctrl-c exits."""
CALM = 0.6
"""Seconds without a key press before a question appears."""
AGAIN = "ctrl-c again to leave"
HEAVY = "turnlog.agent.terminal.input_dispatch"
LEAVING = ("exit", "quit")


class Screen:
    """The screen of one run."""

    def __init__(self, store: Store, cwd: Path) -> None:
        self._store = store
        self._cwd = cwd
        self._is_coloured = has_colour(os.environ)
        self.style = make_style(self._is_coloured)
        self.menu: Menu | None = None
        self.pending: list[TypedInput] = []
        self.pastes = Pastes()
        self.driver: ChatDriver | None = None
        self.buffer = make_buffer(lambda: typed_in(store, cwd), self._offers)
        self._view = View(self, self.style, self._is_coloured)
        self._view.app.key_processor.before_key_press += self._pressed
        self._arrived = asyncio.Event()
        self._doing: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._files: list[str] = []
        self._hint = ""
        """A temporary message in the status line."""
        self._last_key = 0.0
        self._last_cancel = 0.0
        self._was_tight = False
        self._is_stopping = False

    async def run(
        self, make_options: "Callable[[], ChatOptions]", prompt: str | None
    ) -> str | None:
        """Run until the user exits or the terminal closes; return the session id."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP):
            # A closed terminal or `kill` must end the chat in order: servers stop, the turn is
            # recorded.
            loop.add_signal_handler(name, self.leave)
        drawing = asyncio.create_task(self._view.app.run_async(set_exception_handler=False))
        chatting = asyncio.create_task(self._chat(make_options, prompt))
        ticking = asyncio.create_task(self._tick())
        try:
            await asyncio.wait({drawing, chatting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end(drawing, chatting, ticking)
        recorder = self.driver.chat.parts.recorder if self.driver else None
        return recorder.facts.session_id if recorder and recorder.chain else None

    async def _end(self, *tasks: asyncio.Task[None]) -> None:
        """Stop everything and record the running turn as interrupted."""
        drawing, *others = tasks
        # asyncio.run cancels what is left all at once, together with tasks of asyncio's own: one
        # that is just starting a process then waits forever (observed: Python 3.11.7).
        others += filter(None, (self._doing, self._listing))
        for task in others:
            task.cancel()
        ended = await asyncio.gather(*others, return_exceptions=True)
        if self._view.app.is_running:
            self._view.app.exit()
        with suppress(EOFError, OSError):
            await drawing
        if self.driver:
            await self.driver.chat.close("prompt_input_exit")
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _chat(self, make_options: "Callable[[], ChatOptions]", prompt: str | None) -> None:
        await asyncio.sleep(0)  # the prompt is drawn first
        await asyncio.to_thread(import_module, HEAVY)
        from turnlog.agent.terminal.chat_driver import ChatDriver
        from turnlog.agent.terminal.input_dispatch import dispatch

        self.driver = await ChatDriver.open(self, self._store, make_options())
        if prompt:
            self.pending.insert(0, TypedInput(prompt))
        while True:
            # Anew for each prompt, as the turn before may have created files.
            self._listing = asyncio.create_task(self._list_files())
            await self._wait(self.driver)
            self._listing.cancel()
            self._doing = asyncio.create_task(self._run_next(self.driver, dispatch))
            await asyncio.wait({self._doing})
            done, self._doing = self._doing, None
            self._is_stopping = False
            self.redraw()
            done.result()  # an unexpected error ends the chat and is printed

    async def _list_files(self) -> None:
        self._files = await files_in(self._cwd)

    async def _wait(self, driver: "ChatDriver") -> None:
        """Wait for the next task."""
        # Checked again after each wake-up: a notification may have been delivered in a turn
        # meanwhile.
        while not self.pending and not driver.has_news:
            self._arrived.clear()
            await self._arrived.wait()

    async def _run_next(
        self, driver: "ChatDriver", dispatch: "Callable[[ChatDriver, TypedInput], Any]"
    ) -> None:
        from turnlog.agent.workspace.tool import ToolError

        typed = self.pending.pop(0) if self.pending else None
        if typed and not typed.is_queued:
            self._keep(driver, typed.text)
        try:
            await (dispatch(driver, typed) if typed else driver.send_notice())
        except asyncio.CancelledError:
            driver.display.note("interrupted")
        except TurnlogError as error:
            driver.display.note(error.line, is_error=True)
        except (OSError, ToolError) as error:
            driver.display.note(str(error), is_error=True)

    async def _tick(self) -> None:
        """Redraw the live region periodically."""
        while True:
            await asyncio.sleep(TICK)
            # Redrawing behind an open question would only flicker.
            is_moving = self.driver is not None and self.driver.display.is_running and not self.menu
            if is_moving or self._hint:
                self._view.app.invalidate()

    # The interface for the rest of the terminal UI: see `ScreenInterface`.

    @property
    def columns(self) -> int:
        return self._view.columns

    def show(self, shown: ScrollbackItem | None) -> None:
        if shown is None:
            return
        gap = "" if shown.is_attached or (shown.is_tight and self._was_tight) else "\n"
        self._was_tight = shown.is_tight
        self._view.app.print_above(gap + self._laid_out(shown))

    def _laid_out(self, shown: ScrollbackItem) -> str:
        if not shown.is_markdown:
            return "\n".join(fold(line, self.columns, shown.indent) for line in shown.lines)
        from turnlog.agent.terminal.markdown_stream import draw

        return draw(shown.lines[0], self.columns, self._is_coloured)

    async def choose(self, menu: Menu) -> Any:
        before, self.menu = self.menu, menu
        self._view.focus()
        try:
            return await menu.chosen
        finally:
            self.menu = before
            self._view.focus()

    async def ask(self, menu: Choices, about: Sequence[ScrollbackItem]) -> Any:
        rows = [(await asyncio.to_thread(self._laid_out, each)).split("\n") for each in about]
        # An enter that is held, or was typed ahead, must not answer a question that nobody has
        # seen: wait until no key was pressed for a moment, forget what came meanwhile, and draw.
        await quiet_since(lambda: self._last_key, CALM)
        room = self._view.room_above(menu) - 1
        folded = fold_rows(rows, room)
        everything = [row for part in rows for row in part]
        if folded != rows:
            whole = Unfolding(everything)
            menu.expand = lambda: self._view.app.print_above("\n".join(["", *whole.turn()]))
        if sum(map(len, folded)) > room:  # so low a terminal shows only the end of it
            menu.preface = everything
        self._was_tight = False
        before, self.menu = self.menu, menu
        self._view.drop_typed()
        self._view.app.print_above("\n".join(["", *(row for part in folded for row in part)]))
        self.menu = before
        return await self.choose(menu)

    async def run_program(self, command: Sequence[str]) -> None:
        with set_app(self._view.app):
            await run_in_terminal(lambda: subprocess.run(command, check=False), in_executor=True)

    def switch_vi(self) -> bool:
        app = self._view.app
        is_on = app.editing_mode is not EditingMode.VI
        app.editing_mode = EditingMode.VI if is_on else EditingMode.EMACS
        return is_on

    def type_in(self, text: str) -> None:
        self.buffer.text = text
        self.buffer.cursor_position = len(text)

    def redraw(self) -> None:
        self._view.app.invalidate()

    def wake(self) -> None:
        self._arrived.set()

    def ring(self, sequence: str) -> None:
        self._view.app.output.write_raw(sequence)
        self._view.app.output.flush()

    def leave(self) -> None:
        if self._view.app.is_running and not self._view.app.is_done:
            self._view.app.exit()

    # Actions of key bindings: see `Controls`.

    @property
    def is_busy(self) -> bool:
        return self._doing is not None

    def submit(self, text: str) -> None:
        if text.strip() in LEAVING:
            self.leave()
            return
        # Typed during a turn: recorded as queued, like the client does, and possibly sent within
        # it.
        is_queued = self.is_busy and self.driver is not None
        self.pending.append(TypedInput(text, is_queued))
        if is_queued and self.driver:
            self.driver.note_queue("enqueue", text)
            self._keep(self.driver, text)
        self.wake()

    def _keep(self, driver: "ChatDriver", text: str) -> None:
        """Add a prompt to the history."""
        with suppress(OSError):  # a full disk must not keep anyone from asking
            session_id = driver.chat.parts.recorder.facts.session_id
            add_typed(
                self._store, text, self.pastes.contents(text, self._store), self._cwd, session_id
            )

    def stop(self) -> None:
        if queued := self.take_back():  # the user wants to change what is queued
            self.type_in("\n".join(filter(None, (queued, self.buffer.text))))
        # Pressed once, Escape lets the loop record the interruption. Pressed again, it cancels the
        # task: a hook or a tool may take long to end.
        if self.driver and self.driver.is_at_work and not self._is_stopping:
            self._is_stopping = True
            self.driver.stop()
        elif self._doing:
            self._doing.cancel()

    def cancel(self) -> None:
        now = asyncio.get_running_loop().time()
        is_second = now - self._last_cancel < TWICE
        self._last_cancel = now
        if self.is_busy:
            self.stop()
        elif self.buffer.text:
            self.buffer.reset()
        elif is_second:
            self.leave()
        else:
            self._hint = AGAIN

    def go_back(self) -> None:
        self.submit("/rewind")

    def next_mode(self) -> None:
        if self.driver:
            self.driver.next_mode()

    def show_keys(self) -> None:
        if self.driver:
            from turnlog.agent.terminal.listings import show_keys

            show_keys(self.driver)

    def show_todos(self) -> None:
        if self.driver:
            self.driver.display.show_todos(self.driver.chat.parts.workspace.todos)

    async def search_history(self) -> str | None:
        if self.menu:
            return None
        texts = dict.fromkeys(typed_in(self._store, self._cwd))
        items = [Item(one_line(text), text) for text in texts]
        foot = "type to search · enter to take it · esc to leave"
        return await self.choose(Menu(["Earlier prompts"], items, foot, is_narrowed=True))

    def unfold(self) -> None:
        if self.driver:
            self.driver.display.unfold()

    def take_back(self) -> str | None:
        queued = [typed.text for typed in self.pending if typed.is_queued]
        if not queued or not self.driver:
            return None
        self.pending = [typed for typed in self.pending if not typed.is_queued]
        self.driver.note_queue("popAll", "\n".join(queued))
        return "\n".join(queued)

    def paste(self, text: str) -> str:
        return self.pastes.take(text)

    async def paste_image(self) -> str:
        image = await asyncio.to_thread(clipboard_image)
        return self.pastes.take_image(image) if image else ""

    def _pressed(self, processor: KeyProcessor) -> None:
        self._last_key = asyncio.get_running_loop().time()

    def _offers(self, before: str) -> list[Offer]:
        """Return completions; computed in a thread, as modules may have to be loaded."""
        from turnlog.agent.terminal.slash_commands import known

        commands = known(self.driver.chat.prompts.commands if self.driver else {})
        return offers(before, commands, self._files)

    # Content of the redrawn part.

    def live_rows(self, columns: int, height: int) -> list[str]:
        blocks: list[list[str]] = []
        if self.driver and self.driver.display.tail.strip():
            from turnlog.agent.terminal.markdown_stream import draw, end_of

            tail = end_of(self.driver.display.tail, height)
            blocks.append(draw(tail, columns, self._is_coloured).split("\n"))
        if self.driver and self.driver.display.is_running and not self.menu:
            blocks.append(self.driver.display.rows(columns))
        if self.pending:
            room = columns - 12
            texts = [cut(one_line(typed.text), room) for typed in self.pending]
            blocks.append([self.style(f"❯ {text}  queued", "dim") for text in texts])
        rows = [row for block in blocks for row in ["", *block]]
        # The newest rows are at the bottom; what is above them must not push the prompt off the
        # screen.
        return [*rows[-(height - 1) :], ""] if height > 1 else [""]

    def status_row(self, columns: int) -> str:
        now = asyncio.get_running_loop().time()
        if self._hint and now - self._last_cancel < TWICE:
            return self.style(f"  {self._hint}", "dim")
        self._hint = ""
        if not self.driver:
            return ""
        from turnlog.agent.terminal.status_line import status_row

        return status_row(self.driver.facts, self.style, columns)
