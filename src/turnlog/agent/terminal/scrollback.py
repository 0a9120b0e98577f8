"""Print into the terminal's own scrollback, above the part of the screen that is redrawn.

Each change is one write, which erases the redrawn part, prints, and draws it again below: nothing
flickers.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from turnlog.text import guarded

LEAST = Size(rows=5, columns=20)
USUAL = Size(rows=24, columns=80)


class Output(Vt100_Output):
    """Writes to the terminal, optionally in one piece; ignores a terminal that was closed."""

    def __init__(self, is_coloured: bool) -> None:
        depth = None if is_coloured else ColorDepth.DEPTH_1_BIT
        # Without CPR: a terminal that does not answer the query makes prompt_toolkit print a
        # warning.
        super().__init__(sys.stdout, _size, default_color_depth=depth, enable_cpr=False)
        self._holds = 0

    @contextmanager
    def in_one_piece(self) -> Generator[None]:
        """Hold back all output, and write it at once at the end."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self.flush()

    def erase_down(self) -> None:
        """Erase from the cursor, which is at the start of a row, to the end of the screen.

        Some terminals (observed: tmux 3.3) treat this as clearing the screen if that row is the
        first, and save a copy in the scrollback; from the second column on they do not.
        """
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")

    def flush(self) -> None:
        if not self._holds:
            try:
                super().flush()
            except OSError:  # the terminal was closed
                self._buffer.clear()


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:  # the terminal was closed
        return USUAL
    return Size(max(LEAST.rows, rows), max(LEAST.columns, columns))


class App(Application[None]):
    """The part of the screen that is redrawn."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._held: list[str] = []

    def print_above(self, text: str) -> None:
        """Print a text into the scrollback; of its control sequences, only colours get through.

        While another program has the terminal, the text is held back.
        """
        if self._running_in_terminal:
            self._held.append(text)
            return
        written = guarded(text).replace("\n", "\r\n") + "\r\n"
        output = self.output
        assert isinstance(output, Output)
        with output.in_one_piece():
            self._erase()
            output.write_raw(written)
            self._redraw()

    def print_held(self) -> None:
        """Print what was held back while another program had the terminal."""
        held, self._held = self._held, []
        for text in held:
            self.print_above(text)

    def _redraw(self, render_as_done: bool = False) -> None:
        output = self.output
        assert isinstance(output, Output)
        with output.in_one_piece():
            # A timer may redraw after the width has changed but before SIGWINCH is handled.
            if self.is_running and (self._is_reflowed() or self._is_smaller()):
                self._erase()
            super()._redraw(render_as_done)

    def _is_smaller(self) -> bool:
        """Return whether the last drawing was taller: its last rows would stay as blank rows."""
        last = self.renderer.last_rendered_screen
        size = self.output.get_size()
        if last is None or self.context is None:
            return False
        container = self.layout.container
        wanted: int = (
            self.context.copy().run(container.preferred_height, size.columns, size.rows).preferred
        )
        return wanted < last.height

    def _on_resize(self) -> None:
        # prompt_toolkit polls the size, too: it would erase what another program has drawn.
        if self._running_in_terminal:
            return
        self._correct_cursor()
        super()._on_resize()

    def _erase(self) -> None:
        self._correct_cursor()
        self.renderer.erase(leave_alternate_screen=False)

    def _is_reflowed(self) -> bool:
        """Return whether the terminal's width changed since the last drawing."""
        renderer: Any = self.renderer
        drawn: Size | None = renderer._last_size
        return drawn is not None and drawn.columns != self.output.get_size().columns

    def _correct_cursor(self) -> None:
        """Follow the cursor to where the terminal moved it when it rewrapped the last drawing."""
        renderer: Any = self.renderer
        last = renderer.last_rendered_screen
        if last is not None and self._is_reflowed():
            # prompt_toolkit erases from where the cursor was, but the terminal has rewrapped the
            # rows above it. There is no public way to correct the position.
            columns = self.output.get_size().columns
            renderer._cursor_pos = reflowed(renderer._cursor_pos, last, columns)


def reflowed(cursor: Point, screen: Screen, columns: int) -> Point:
    """Return the cursor position after the terminal rewrapped rows that no longer fit."""
    above = sum(max(0, _width(screen, row) - 1) // columns for row in range(cursor.y))
    return Point(x=cursor.x % columns, y=cursor.y + above + cursor.x // columns)


def _width(screen: Screen, row: int) -> int:
    cells = screen.data_buffer[row]
    return max((place + 1 for place, cell in cells.items() if cell.char != " "), default=0)
