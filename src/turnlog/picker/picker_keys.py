"""Key bindings of the picker.

Typing searches, so letters are commands only after Esc. A terminal sends Alt-c as Esc followed by
c. In command mode, where Esc leaves the picker, Esc therefore waits briefly for a second key.
"""

from collections.abc import Callable

from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from turnlog.picker.picker import Picker
from turnlog.picker.picker_state import PickerMode

TYPED = (PickerMode.RENAME, PickerMode.EXPORT)
"""Modes with an input line other than the query."""
LISTED = (PickerMode.SEARCH, PickerMode.COMMAND)
FAR = 1_000_000_000


def bind_keys(picker: Picker) -> KeyBindings:
    """Return the bindings of a picker."""
    bindings = KeyBindings()
    _bind_moves(bindings, picker)
    _bind_modes(bindings, picker)
    _bind_commands(bindings, picker)
    return bindings


def _in(picker: Picker, *modes: PickerMode) -> Condition:
    return Condition(lambda: picker.state.mode in modes)


def _bind(
    bindings: KeyBindings, keys: tuple[str, ...], when: Condition, work: Callable[[], object]
) -> None:
    for key in keys:

        def handle(event: KeyPressEvent) -> None:
            work()

        # Eager, so that Esc acts at once although Emacs key sequences start with it. Keys.Any is
        # not, or it would take precedence over prompt_toolkit's own bindings.
        bindings.add(key, filter=when, eager=key != Keys.Any)(handle)


def _bind_moves(bindings: KeyBindings, picker: Picker) -> None:
    is_listed, is_command = _in(picker, *LISTED), _in(picker, PickerMode.COMMAND)
    moves: dict[tuple[str, ...], Callable[[], int]] = {
        ("up", "c-p"): lambda: -1,
        ("down", "c-n"): lambda: 1,
        ("pageup",): lambda: -picker.height,
        ("pagedown",): lambda: picker.height,
        ("c-home",): lambda: -FAR,
        ("c-end",): lambda: FAR,
    }
    letters: dict[tuple[str, ...], Callable[[], int]] = {
        ("k",): lambda: -1,
        ("j",): lambda: 1,
        ("g", "home"): lambda: -FAR,
        ("G", "end"): lambda: FAR,
        (" ",): lambda: picker.height,
    }
    for when, table in ((is_listed, moves), (is_command, letters)):
        for keys, step in table.items():
            _bind(bindings, keys, when, lambda step=step: picker.move(step()))


def _bind_modes(bindings: KeyBindings, picker: Picker) -> None:
    state = picker.state

    def enter(mode: PickerMode) -> Callable[[], None]:
        def work() -> None:
            state.mode, state.message = mode, ""
            picker.focus()

        return work

    is_search, is_command = _in(picker, PickerMode.SEARCH), _in(picker, PickerMode.COMMAND)
    is_listed, is_typed = _in(picker, *LISTED), _in(picker, *TYPED)
    _bind(bindings, ("escape",), is_search, enter(PickerMode.COMMAND))
    _bind(bindings, ("q",), is_command, picker.leave)
    _bind(bindings, ("/", "i"), is_command, enter(PickerMode.SEARCH))
    _bind(bindings, ("escape", "c-c"), is_typed, enter(PickerMode.COMMAND))
    _bind(bindings, ("c-c",), is_listed, picker.leave)
    _bind(bindings, ("c-d",), is_listed, picker.leave)
    _bind_help(bindings, picker, enter)
    _bind(bindings, ("tab",), is_listed, lambda: picker.cycle_scope(1))
    _bind(bindings, ("s-tab",), is_listed, lambda: picker.cycle_scope(-1))
    _bind(bindings, ("c-r", "f5"), is_listed, picker.refresh)
    _bind(bindings, ("enter",), is_typed, picker.finish)


def _bind_help(
    bindings: KeyBindings, picker: Picker, enter: Callable[[PickerMode], Callable[[], None]]
) -> None:
    opened_from = PickerMode.SEARCH

    def open_help() -> None:
        nonlocal opened_from
        opened_from = picker.state.mode
        enter(PickerMode.HELP)()

    def close_help() -> None:
        # Restore the previous mode: if the user goes on typing a query in command mode, letters
        # would delete or rename.
        enter(opened_from)()

    _bind(bindings, ("f1",), _in(picker, *LISTED), open_help)
    _bind(bindings, ("?",), _in(picker, PickerMode.COMMAND), open_help)
    closing = (Keys.Any, "enter", "escape", "c-c", "up", "down", "tab")
    _bind(bindings, closing, _in(picker, PickerMode.HELP), close_help)


def _bind_commands(bindings: KeyBindings, picker: Picker) -> None:
    is_command, is_asked = _in(picker, PickerMode.COMMAND), _in(picker, PickerMode.DELETE)
    is_listed = _in(picker, *LISTED)
    _bind(bindings, ("enter",), is_listed, lambda: picker.choose("resume"))
    commands: dict[str, Callable[[], object]] = {
        "v": picker.view,
        "f": picker.fork,
        "r": lambda: picker.ask(PickerMode.RENAME, picker.title()),
        "d": lambda: picker.ask(PickerMode.DELETE),
        "e": lambda: picker.ask(PickerMode.EXPORT, picker.export_name()),
        "y": picker.copy,
        "u": picker.undo,
        "R": picker.refresh,
    }
    if picker.options.purpose is None:
        commands |= {name: lambda action=action: picker.choose(action) for name, action in LEAVING}
    for key, work in commands.items():
        _bind(bindings, (key,), is_command, work)
    _bind_alt(bindings, picker, commands)
    _bind(bindings, ("y", "Y"), is_asked, picker.finish)
    _bind(bindings, (Keys.Any, "enter", "escape", "c-c"), is_asked, picker.cancel)
    # Other letters must not reach the query while they are commands.
    _bind(bindings, (Keys.Any,), is_command, lambda: None)


def _bind_alt(
    bindings: KeyBindings, picker: Picker, commands: dict[str, Callable[[], object]]
) -> None:
    """Bind Alt with a letter to the letter's command, and Esc alone to leaving the picker."""
    is_command = _in(picker, PickerMode.COMMAND)

    def leave(event: KeyPressEvent) -> None:
        picker.leave()

    def ignore(event: KeyPressEvent) -> None:
        pass

    bindings.add("escape", filter=is_command)(leave)
    bindings.add("escape", Keys.Any, filter=is_command)(ignore)
    for key, work in commands.items():

        def act(event: KeyPressEvent, work: Callable[[], object] = work) -> None:
            work()

        # One binding per letter, because Emacs bindings such as Alt-d take precedence over
        # Keys.Any.
        bindings.add("escape", key, filter=is_command, eager=True)(act)


LEAVING = (("c", "chat"), ("w", "web"))
"""Commands that leave the picker."""
