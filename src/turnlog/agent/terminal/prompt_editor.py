"""The prompt editor: history, completion and key bindings."""

import asyncio
import os
import shlex
import shutil
from collections.abc import Callable, Iterable
from typing import Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Always, Condition, vi_mode
from prompt_toolkit.history import History
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from turnlog.agent.terminal.completer import Offer
from turnlog.errors import UsageError

FALLBACK = "vi"
NEW_LINE = (Keys.Escape, Keys.ControlM)
ALWAYS = Always()
# As kitty and xterm (with modifyOtherKeys) send it; prompt_toolkit knows neither.
SHIFT_ENTER = ("\x1b[13;2u", "\x1b[27;2;13~")


class Controls(Protocol):
    """Actions of key bindings."""

    @property
    def is_busy(self) -> bool:
        """Return whether something can be interrupted."""
        ...

    stash: str
    """A prompt that was put aside."""

    def submit(self, text: str) -> None:
        """Submit the typed text."""
        ...

    def stop(self) -> None:
        """Interrupt the running turn."""
        ...

    def leave(self) -> None:
        """Exit."""
        ...

    def cancel(self) -> None:
        """Interrupt, clear the input, or exit on the second press."""
        ...

    def go_back(self) -> None:
        """Open the rewind menu."""
        ...

    def next_mode(self) -> None:
        """Switch the permission mode."""
        ...

    def choose_model(self) -> None:
        """Open the menu of models."""
        ...

    def show_keys(self) -> None:
        """Print the keys."""
        ...

    def toggle_tasks(self) -> None:
        """Show or hide the task list."""
        ...

    @property
    def can_background(self) -> bool:
        """Return whether something runs that can be moved to the background."""
        ...

    def move_to_background(self) -> None:
        """Move running commands and agents to the background."""
        ...

    @property
    def has_queue(self) -> bool:
        """Return whether prompts are queued."""
        ...

    def send_now(self) -> None:
        """Send queued prompts without waiting for running calls."""
        ...

    async def search_history(self) -> str | None:
        """Let the user choose an earlier prompt."""
        ...

    def unfold(self) -> None:
        """Print texts that were folded."""
        ...

    def take_back(self) -> str | None:
        """Remove the queued prompts and return their text; None if there are none."""
        ...

    def paste(self, text: str) -> str:
        """Return the text to insert for a pasted text: itself, or a placeholder."""
        ...

    async def paste_image(self) -> str:
        """Return the placeholder to insert for the image in the clipboard."""
        ...

    def complain(self, text: str) -> None:
        """Print an error."""
        ...


class Typed(History):
    """Prompt history, loaded on first use."""

    def __init__(self, load: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._load = load

    def load_history_strings(self) -> Iterable[str]:
        return self._load()

    def store_string(self, string: str) -> None:
        """Do nothing: a prompt is stored when it is sent, in the client's format."""


class Offered(Completion):
    """A completion in the menu."""

    def __init__(self, offer: Offer) -> None:
        super().__init__(offer.text, -offer.length, display=offer.shown, display_meta=offer.note)
        self.is_begun = offer.is_begun


class Offers(Completer):
    """The completer of the prompt."""

    def __init__(self, offers: Callable[[str], list[Offer]]) -> None:
        self._offers = offers

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        yield from map(Offered, self._offers(document.text_before_cursor))


def make_buffer(load: Callable[[], Iterable[str]], offers: Callable[[str], list[Offer]]) -> Buffer:
    """Return the buffer for typed text."""
    return Buffer(
        multiline=True,
        history=Typed(load),
        # In a thread: with 50,000 names to rank, every key press would lag.
        completer=ThreadedCompleter(Offers(offers)),
        complete_while_typing=True,
    )


def bindings(buffer: Buffer, controls: Controls) -> KeyBindings:
    """Return the key bindings; all other keys work as in a shell."""
    for sequence in SHIFT_ENTER:
        ANSI_SEQUENCES[sequence] = NEW_LINE
    keys = KeyBindings()
    is_busy = Condition(lambda: controls.is_busy)
    has_text = Condition(lambda: bool(buffer.text))
    # If nothing can be moved, ctrl-b goes back by a character, as in a shell.
    is_movable = Condition(lambda: controls.can_background)
    for names, do, when in (
        (("enter",), lambda: _enter(buffer, controls), ALWAYS),
        (("c-j",), lambda: buffer.insert_text("\n"), ALWAYS),
        (("escape", "enter"), lambda: buffer.insert_text("\n"), ALWAYS),
        (("tab",), lambda: _complete(buffer), ALWAYS),
        (("s-tab",), controls.next_mode, ALWAYS),
        (("escape",), controls.stop, is_busy),
        (("escape", "escape"), buffer.reset, ~is_busy & has_text),
        (("escape", "escape"), controls.go_back, ~is_busy & ~has_text),
        (("c-o",), controls.unfold, ALWAYS),
        (("?",), controls.show_keys, ~has_text),
        (("c-t",), controls.toggle_tasks, ALWAYS),
        (("c-b",), controls.move_to_background, is_movable),
        (("c-x", "c-b"), controls.move_to_background, is_movable),
        (("c-x", "c-s"), controls.send_now, Condition(lambda: controls.has_queue)),
        (("c-s",), lambda: _swap_stash(buffer, controls), ALWAYS),
        # With vi keys, escape and p paste.
        (("escape", "p"), controls.choose_model, ~is_busy & ~vi_mode),
        (("c-r",), lambda: _search(buffer, controls), ALWAYS),
        (("c-g",), lambda: _edit_outside(buffer, controls), ALWAYS),
        (("c-x", "c-e"), lambda: _edit_outside(buffer, controls), ALWAYS),
        (("c-c",), controls.cancel, ALWAYS),
        (("<sigint>",), controls.cancel, ALWAYS),
        (("c-d",), controls.leave, ~has_text),
        (("c-z",), lambda: get_app().suspend_to_background(), ALWAYS),
        (("up",), lambda: _up(buffer, controls), ~has_text),
        (("c-v",), lambda: _paste_image(buffer, controls), ALWAYS),
    ):
        keys.add(*names, filter=when)(_handler(do))

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        # Terminals send the line ends of a pasted text as CR.
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        buffer.insert_text(controls.paste(text))

    return keys


def _handler(do: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    def handle(event: KeyPressEvent) -> None:
        do()

    return handle


def _enter(buffer: Buffer, controls: Controls) -> None:
    """Submit; a trailing backslash inserts a newline, an open completion is accepted first."""
    # For terminals that send the same for Enter and Shift-Enter.
    if buffer.document.text_before_cursor.endswith("\\"):
        buffer.delete_before_cursor()
        buffer.insert_text("\n")
        return
    if _take_offer(buffer):
        return
    text = buffer.text
    if text.strip():
        buffer.append_to_history()
        buffer.reset()
        controls.submit(text)
        _swap_stash(buffer, controls)


def _swap_stash(buffer: Buffer, controls: Controls) -> None:
    """Swap the typed text with the stash."""
    text, controls.stash = controls.stash, buffer.text
    buffer.reset()
    buffer.insert_text(text)


def _take_offer(buffer: Buffer) -> bool:
    """Accept the selected completion; return True if the text should not be submitted yet."""
    state = buffer.complete_state
    if not state or not state.completions:
        return False
    is_chosen = state.current_completion is not None
    is_command = buffer.text.startswith("/") and " " not in buffer.text
    if is_command and not is_chosen:
        buffer.go_to_completion(0)
    taken = state.current_completion
    buffer.complete_state = None
    if is_command:
        is_begun = isinstance(taken, Offered) and taken.is_begun
        buffer.insert_text(" " if is_begun else "")
        return is_begun
    if is_chosen and not buffer.text.endswith(("/", " ")):
        buffer.insert_text(" ")
    return is_chosen


def _complete(buffer: Buffer) -> None:
    state = buffer.complete_state
    if not state or not state.completions:
        buffer.start_completion(select_first=True)
        return
    if len(state.completions) > 1:
        buffer.complete_next()
        return
    buffer.apply_completion(state.completions[0])
    if not buffer.text.endswith("/"):
        buffer.insert_text(" ")


def _up(buffer: Buffer, controls: Controls) -> None:
    queued = controls.take_back()
    if queued is None:
        buffer.auto_up()
    else:
        buffer.insert_text(queued)


def _search(buffer: Buffer, controls: Controls) -> None:
    async def search() -> None:
        text = await controls.search_history()
        if text is not None:
            buffer.text = text
            buffer.cursor_position = len(text)

    get_app().create_background_task(search())


def editor_command() -> list[str]:
    """Return the command of the user's editor; raise `UsageError` if it cannot be parsed."""
    commands: list[list[str]] = []
    for name in ("VISUAL", "EDITOR"):
        commands += filter(None, [_command_in(name)])
        # Fall back to $EDITOR if the program in $VISUAL is not installed.
        if commands and shutil.which(commands[-1][0]):
            return commands[-1]
    return commands[0] if commands else [FALLBACK]


def _command_in(name: str) -> list[str]:
    try:
        return shlex.split(os.environ.get(name) or "")
    except ValueError as error:
        why = str(error).lower()
        raise UsageError(f"${name} is not a command: {why}", f"export {name}={FALLBACK}") from error


def _edit_outside(buffer: Buffer, controls: Controls) -> None:
    """Open the prompt in `$VISUAL` or `$EDITOR`."""
    try:
        editor_command()
    except UsageError as error:
        controls.complain(error.line)
    else:
        buffer.open_in_editor()


def _paste_image(buffer: Buffer, controls: Controls) -> None:
    async def paste() -> None:
        buffer.insert_text(await controls.paste_image())

    get_app().create_background_task(paste())


async def quiet_since(last: Callable[[], float], wait: float) -> None:
    """Wait for a pause in typing, so that no key typed ahead answers a new question."""
    loop = asyncio.get_running_loop()
    while (left := last() + wait - loop.time()) > 0:
        await asyncio.sleep(left)
