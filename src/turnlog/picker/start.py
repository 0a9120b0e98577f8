"""Start the picker on the terminal.

It is drawn on stderr, so that stdout stays free for the id of the chosen session.
"""

import sys
from collections.abc import Sequence

from prompt_toolkit.input import create_input
from prompt_toolkit.output import create_output

from turnlog.picker.picker import Choice, Picker, PickerApp, PickerOptions
from turnlog.picker.picker_keys import bind_keys
from turnlog.picker.picker_screen import PickerScreen
from turnlog.store.paths import Store

__all__ = ["PickerOptions", "pick_session"]


def pick_session(stores: Sequence[Store], options: PickerOptions) -> Choice | None:
    """Let the user pick a session; None if the picker was left without a choice."""
    # First of all, so that SQLite works while the screen is built.
    picker = Picker(stores, options)
    screen = PickerScreen(picker)
    app = PickerApp(
        layout=screen.layout(),
        key_bindings=bind_keys(picker),
        style=screen.style(),
        full_screen=True,
        input=create_input(sys.stdin),
        output=create_output(sys.stderr),
    )
    return picker.run(app, screen.focused)
