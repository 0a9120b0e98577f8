"""The screen layout: live region, prompt or question, status line."""

import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)

from turnlog.agent.terminal.menu import Menu
from turnlog.agent.terminal.prompt_editor import Controls, bindings
from turnlog.agent.terminal.scrollback import App, Output
from turnlog.agent.terminal.styled_text import Style, cells, cut, one_line
from turnlog.text import guarded

MARK = "❯ "
MOST_OFFERS = 8
REDRAWS = 0.04
"""Minimum seconds between two redraws."""
KEY_WAIT = 0.05
"""Seconds until an escape character counts as the Escape key."""
SEQUENCE_WAIT = 0.25
"""Seconds to wait for the next key of a sequence, such as ctrl-x ctrl-e."""
RESERVED = 2
"""Rows that a menu leaves for the live region and the status line."""
KEYS = {
    "up": "up",
    "down": "down",
    "enter": "enter",
    "escape": "escape",
    "c-c": "escape",
    "<sigint>": "escape",
    "c-p": "up",
    "c-n": "down",
    "c-e": "expand",
    "s-tab": "mode",
    "pagedown": "forward",
    "pageup": "back",
    "backspace": "erase",
    Keys.Any: "text",
    Keys.BracketedPaste: "text",
}


class ScreenSource(Controls, Protocol):
    """Provides the content of the screen and the actions of its keys."""

    buffer: Buffer
    menu: Menu | None

    def live_rows(self, columns: int, height: int) -> list[str]:
        """Return the rows of the live region."""
        ...

    def status_row(self, columns: int) -> str:
        """Return the status line."""
        ...


class View:
    """The redrawn part of the screen."""

    def __init__(self, source: ScreenSource, style: Style, is_coloured: bool) -> None:
        self._source = source
        self._style = style
        self._output = Output(is_coloured)
        self._prompt = self._prompt_window()
        self._menu = self._window(self._menu_rows, self._menu_keys())
        self.app = App(
            layout=self._layout(),
            output=self._output,
            erase_when_done=True,
            include_default_pygments_style=False,
            min_redraw_interval=REDRAWS,
        )
        self.app.ttimeoutlen = KEY_WAIT
        self.app.timeoutlen = SEQUENCE_WAIT

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        return self._output.get_size().columns

    def room_above(self, menu: Menu) -> int:
        """Return the number of rows left above a menu."""
        return self._output.get_size().rows - len(self._rows_of(menu)) - 2

    def focus(self) -> None:
        """Focus the prompt or the menu in its place."""
        self.app.layout.focus(self._menu if self._source.menu else self._prompt)
        self.app.invalidate()

    def drop_typed(self) -> None:
        """Discard pending key presses."""
        # Keys wait in two places: those that prompt_toolkit has read, and those still in the
        # terminal.
        self.app.key_processor.empty_queue()
        with suppress(OSError, ValueError):  # no terminal any more
            termios.tcflush(sys.stdin, termios.TCIFLUSH)

    def _layout(self) -> Layout:
        has_menu = Condition(lambda: self._source.menu is not None)
        has_offers = Condition(lambda: bool(self._offer_rows()))
        parts = [
            self._window(self._live_rows),
            ConditionalContainer(self._menu, has_menu),
            ConditionalContainer(self._prompt, ~has_menu),
            ConditionalContainer(self._window(self._offer_rows), has_offers & ~has_menu),
            self._window(lambda: [self._source.status_row(self.columns)]),
        ]
        return Layout(HSplit(parts), focused_element=self._prompt)

    @property
    def _height(self) -> int:
        """Return the maximum height of the live region."""
        taken = (
            len(self._menu_rows())
            if self._source.menu
            else min(10, self._source.buffer.text.count("\n") + 1)
        )
        return max(1, self._output.get_size().rows - taken - 3)

    def _live_rows(self) -> list[str]:
        return self._source.live_rows(self.columns, self._height)

    def _menu_rows(self) -> list[str]:
        menu = self._source.menu
        return self._rows_of(menu) if menu else []

    def _rows_of(self, menu: Menu) -> list[str]:
        return menu.fit(self._style, self.columns, self._output.get_size().rows - RESERVED)

    def _offer_rows(self) -> list[str]:
        state = self._source.buffer.complete_state
        if not state or not state.completions:
            return []
        offers = [(each.display_text, each.display_meta_text) for each in state.completions]
        return offer_rows(offers, state.complete_index, self._style, self.columns)

    def _window(self, rows: Callable[[], list[str]], keys: KeyBindings | None = None) -> Window:
        control = FormattedTextControl(
            # Rows may hold text of the model or of a tool: only colours get through.
            lambda: ANSI(guarded("\n".join(rows()))),
            focusable=keys is not None,
            key_bindings=keys,
            show_cursor=False,
        )
        return Window(
            control,
            height=lambda: Dimension(min=0, preferred=len(rows()), max=len(rows())),
            dont_extend_height=True,
            always_hide_cursor=True,
        )

    def _prompt_window(self) -> Window:
        source = self._source
        control = BufferControl(source.buffer, key_bindings=bindings(source.buffer, source))
        return Window(
            control,
            height=Dimension(min=1, max=10),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda line, wrap: ANSI(self._mark(line, wrap)),
        )

    def _mark(self, line: int, wrap: int) -> str:
        if line or wrap:
            return " " * len(MARK)
        is_shell = self._source.buffer.text.startswith("!")
        return self._style(MARK, "mode" if is_shell else "prompt")

    def _menu_keys(self) -> KeyBindings:
        keys = KeyBindings()
        for key, name in KEYS.items():
            keys.add(key)(self._presser(name))
        return keys

    def _presser(self, name: str) -> Callable[[KeyPressEvent], None]:
        def press(event: KeyPressEvent) -> None:
            # The menu may have closed since the key was pressed.
            if self._source.menu:
                self._source.menu.press(name, event.data)

        return press


def offer_rows(
    offers: list[tuple[str, str]], chosen: int | None, style: Style, columns: int
) -> list[str]:
    """Return the rows of the completion menu, with the selection visible."""
    start = max(0, min((chosen or 0) - MOST_OFFERS // 2, len(offers) - MOST_OFFERS))
    visible = offers[start : start + MOST_OFFERS]
    wide = min(max(cells(name) for name, _ in visible) + 2, columns // 2)
    rows: list[str] = []
    for number, (name, note) in enumerate(visible, start):
        shown = cut(one_line(name), wide - 1)
        gap = " " * (wide - cells(shown))
        meta = cut(one_line(note), columns - wide - 3)
        rows.append(
            f"  {style(shown, 'chosen' if number == chosen else 'text')}{gap}{style(meta, 'dim')}"
        )
    return rows
