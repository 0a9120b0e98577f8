"""Draw the pictures of the documents from what turnlog shows in a real terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path

from chat_scenes import asked, working
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

WIDTH = 92
SCREEN = ("ls", "show last --no-pager")
MOST_LINES = 26
# The library's own frame loads a font from elsewhere; this one is satisfied with the reader's.
FONT = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def main() -> None:
    """Draw all pictures."""
    draw("terminal", [line for arguments in SCREEN for line in printed(arguments)])
    draw("chat", asked(WIDTH).splitlines())
    draw("chat-working", working(WIDTH).splitlines())


def draw(name: str, lines: list[str]) -> None:
    """Draw lines with their colours into a file of the documents."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(lines)), overflow="crop", no_wrap=True)
    drawing = console.export_svg(title="turnlog", theme=MONOKAI, code_format=frame())
    Path(f"docs/{name}.svg").write_text(drawing, "utf-8")


def printed(arguments: str) -> list[str]:
    """A command as it is typed, and the start of what it prints."""
    typed = f"\x1b[32m$ \x1b[0;1mturnlog {arguments}\x1b[0m"
    return [typed, *output_of(arguments).splitlines()[:MOST_LINES], ""]


def output_of(arguments: str) -> str:
    """Return the terminal output of a command, colours included."""
    environment = os.environ | {"COLUMNS": str(WIDTH), "TZ": "UTC", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "turnlog", "--samples", *arguments.split()]
    reader, writer = pty.openpty()
    with subprocess.Popen(command, stdout=writer, env=environment):
        os.close(writer)
        return b"".join(_chunks(reader)).decode()


def _chunks(reader: int) -> Iterator[bytes]:
    """A terminal whose other end was closed says so with an error, not an end of file."""
    with suppress(OSError):
        while chunk := os.read(reader, 65536):
            yield chunk


def frame() -> str:
    """The frame of the picture, without the part that loads a font."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    start = CONSOLE_SVG_FORMAT.index("@font-face")
    end = CONSOLE_SVG_FORMAT.index(".{unique_id}-matrix")
    return (CONSOLE_SVG_FORMAT[:start] + CONSOLE_SVG_FORMAT[end:]).replace(
        "Fira Code, monospace", FONT
    )


if __name__ == "__main__":
    main()
