"""The interactive screen: reads input and displays events in order.

Finished output is printed once into the terminal's scrollback; only the live region, the prompt and
the status line are redrawn. The prompt appears before the chat is open: slow modules load later.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from prompt_toolkit.application import in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.key_binding.vi_state import InputMode

from turnlog.agent.terminal.completer import Offer, files_in, offers
from turnlog.agent.terminal.folding import Unfolding, fold_rows
from turnlog.agent.terminal.menu import Choices, Item, Menu
from turnlog.agent.terminal.pastes import Pastes, clipboard_image
from turnlog.agent.terminal.prompt_editor import make_buffer, quiet_since
from turnlog.agent.terminal.screen_layout import View
from turnlog.agent.terminal.screen_protocol import PickSession, ScrollbackItem, TypedInput
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
NO_IMAGE = "no image in the clipboard (wl-paste, xclip or pngpaste reads it)"
KEYS_HINT = "? for keys"
VI = EditingMode.VI
VI_MODES = {
    InputMode.INSERT: "INSERT",
    InputMode.NAVIGATION: "NORMAL",
    InputMode.REPLACE: "REPLACE",
}
QUEUE_HINT = "  up to edit · ctrl-x ctrl-s to send now"


class Screen:
    """The interactive screen, from start to exit."""

    def __init__(self, store: Store, cwd: Path, pick: PickSession) -> None:
        self._store = store
        self._cwd = cwd
        self._pick = pick
        self._is_coloured = has_colour(os.environ)
        self.style = make_style(self._is_coloured)
        self.menu: Menu | None = None
        self.pending: list[TypedInput] = []
        self.pastes = Pastes()
        self.stash = ""
        self.driver: ChatDriver | None = None
        self.buffer = make_buffer(lambda: typed_in(store, cwd), self._offers)
        self._view = View(self, self.style, self._is_coloured)
        self._view.app.key_processor.before_key_press += self._pressed
        self._arrived = asyncio.Event()
        self._doing: asyncio.Task[None] | None = None
        self._listing: asyncio.Task[None] | None = None
        self._picking: asyncio.Future[Path | None] | None = None
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
        # asyncio.run would cancel the remaining tasks all at once, together with asyncio's own. A
        # task that is just starting a process then waits forever (observed: Python 3.11.7).
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
            # List files again for each prompt: the previous turn may have created some.
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
        """Wait for typed input or a background notification."""
        # Checked again after each wake-up: a notification may have been delivered in a turn
        # meanwhile.
        idling = asyncio.create_task(driver.watch_idleness(lambda: self._last_key))
        try:
            while not self.pending and not driver.has_news:
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            idling.cancel()
            await asyncio.gather(idling, return_exceptions=True)

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

        return draw(shown.lines[0], self.columns, self._is_coloured, self.style.theme.is_light)

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
        # An Enter that is held down or typed ahead must not answer a question that nobody has seen:
        # wait until no key was pressed for a moment, discard pending keys, and draw.
        await quiet_since(lambda: self._last_key, CALM)
        room = self._view.room_above(menu) - 1
        folded = fold_rows(rows, room) if rows else []
        everything = [row for part in rows for row in part]
        if folded != rows:
            whole = Unfolding(everything)
            menu.expand = lambda: self._view.app.print_above("\n".join(["", *whole.turn()]))
        if sum(map(len, folded)) > room:  # not even the folded rows fit on the terminal
            menu.preface = everything
        self._was_tight = False
        before, self.menu = self.menu, menu
        self._view.drop_typed()
        if folded:
            self._view.app.print_above("\n".join(["", *(row for part in folded for row in part)]))
        self.menu = before
        return await self.choose(menu)

    async def run_program(self, command: Sequence[str]) -> None:
        async with self._lent():
            await asyncio.to_thread(subprocess.run, command, check=False)

    async def pick_session(self) -> Path | None:
        async with self._lent():
            self._picking = asyncio.ensure_future(self._pick())
            try:
                return await self._picking
            finally:
                self._picking = None

    @asynccontextmanager
    async def _lent(self) -> AsyncGenerator[None]:
        """Lend the terminal to another program; output is held back until it ends."""
        app = self._view.app
        try:
            with set_app(app):
                async with in_terminal():
                    yield
        finally:
            app.print_held()

    def use_vi(self, is_on: bool) -> None:
        self._view.app.editing_mode = VI if is_on else EditingMode.EMACS

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
        # The screen can end only after the picker has given the terminal back.
        if self._picking:
            self._picking.cancel()
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
        # Typed during a turn: recorded as queued, as the client does, and possibly sent within that
        # turn.
        is_queued = self.is_busy and self.driver is not None
        self.pending.append(TypedInput(text, is_queued))
        if is_queued and self.driver:
            self.driver.note_queue("enqueue", text)
            self._keep(self.driver, text)
        self.wake()

    def _keep(self, driver: "ChatDriver", text: str) -> None:
        """Add a prompt to the history."""
        with suppress(OSError):  # a full disk must not prevent sending a prompt
            session_id = driver.chat.parts.recorder.facts.session_id
            add_typed(
                self._store, text, self.pastes.contents(text, self._store), self._cwd, session_id
            )

    def stop(self) -> None:
        # Queued prompts stay queued, and are sent once the turn has ended (2.1.325, observed).
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

    def choose_model(self) -> None:
        self.submit("/model")

    def next_mode(self) -> None:
        if self.driver:
            self.driver.next_mode()

    def show_keys(self) -> None:
        if self.driver:
            from turnlog.agent.terminal.listings import show_keys

            show_keys(self.driver)

    def toggle_tasks(self) -> None:
        if self.driver:
            self.driver.display.toggle_tasks()

    @property
    def can_background(self) -> bool:
        return self.driver is not None and bool(self.driver.foreground)

    def move_to_background(self) -> None:
        if self.driver:
            self._view.app.create_background_task(self.driver.move_to_background())

    @property
    def has_queue(self) -> bool:
        return any(typed.is_queued for typed in self.pending)

    def send_now(self) -> None:
        if not self.driver:
            return
        # A running call continues in the background; anything else is interrupted.
        if self.driver.foreground:
            self._view.app.create_background_task(
                self.driver.move_to_background(is_for_message=True)
            )
        else:
            self.stop()

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
        if image:
            return self.pastes.take_image(image)
        self.complain(NO_IMAGE)
        return ""

    def complain(self, text: str) -> None:
        if self.driver:
            self.driver.display.note(text, is_error=True)

    def _pressed(self, processor: KeyProcessor) -> None:
        self._last_key = asyncio.get_running_loop().time()

    def _offers(self, before: str) -> list[Offer]:
        """Return completions; computed in a thread, as modules may have to be loaded."""
        from turnlog.agent.terminal.slash_commands import known

        prompts = self.driver.chat.prompts if self.driver else None
        commands = known(prompts.commands if prompts else {})
        return offers(before, commands, [*self._files, *(prompts.resources if prompts else ())])

    # Content of the redrawn part.

    def live_rows(self, columns: int, height: int) -> list[str]:
        blocks: list[list[str]] = []
        if self.driver and self.driver.display.tail.strip():
            from turnlog.agent.terminal.markdown_stream import draw, end_of

            tail = end_of(self.driver.display.tail, height)
            is_light = self.style.theme.is_light
            blocks.append(draw(tail, columns, self._is_coloured, is_light).split("\n"))
        if self.driver and self.driver.display.is_running and not self.menu:
            blocks.append(self.driver.display.rows(columns))
        if self.driver and not self.menu and (rows := self.driver.display.task_rows(columns)):
            blocks.append(rows)
        if self.pending:
            room = columns - 12
            texts = [cut(one_line(typed.text), room) for typed in self.pending]
            shown = [self.style(f"❯ {text}  queued", "dim") for text in texts]
            hint = [self.style(cut(QUEUE_HINT, columns - 1), "dim")] if self.has_queue else []
            blocks.append([*shown, *hint])
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

        is_idle = not (self.buffer.text or self.is_busy or self.menu)
        hint = KEYS_HINT if is_idle else ""
        is_stashed = bool(self.stash)
        facts = replace(self.driver.facts, keys=self._vi_mode(), hint=hint, has_stash=is_stashed)
        return status_row(facts, self.style, columns)

    def _vi_mode(self) -> str:
        app = self._view.app
        return VI_MODES.get(app.vi_state.input_mode, "") if app.editing_mode is VI else ""
