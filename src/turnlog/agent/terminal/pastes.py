"""Pasted content: long texts and images are shown as placeholders, but sent in full."""

import hashlib
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from turnlog.format.json_values import Fields
from turnlog.format.private_files import create_private_folder, write_private
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import Store, expand_user

if TYPE_CHECKING:
    from turnlog.agent.loop.lifecycle_hooks import Prompt


NAMED = re.compile(r"\[(?:Pasted text|Image) #(\d+)(?: \+\d+ lines)?\]")
LONG_LINES = 10
LONG_TEXT = 1_000
INLINE = 1_024
"""Maximum characters of a pasted text kept in the history itself; longer texts get a file."""
IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
CLIPBOARDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
PATIENCE = 3.0
LARGEST = 64 << 20
"""Maximum bytes of an image."""


class Paste(Struct, frozen=True):
    """A pasted text or image."""

    text: str = ""
    image: Fields | None = None


class Pastes:
    """Pasted content by number."""

    def __init__(self) -> None:
        self._held: dict[int, Paste] = {}

    def take(self, text: str) -> str:
        """Return what to insert for a pasted text: a placeholder if it is long or an image."""
        path = image_path(text)
        image = _image_in(path) if path else None
        if image:
            return self.take_image(image)
        lines = text.count("\n")
        if lines < LONG_LINES and len(text) < LONG_TEXT:
            return text
        number = self._hold(Paste(text))
        return f"[Pasted text #{number} +{lines} lines]"

    def take_image(self, block: Fields) -> str:
        """Return the placeholder of an image."""
        return f"[Image #{self._hold(Paste(image=block))}] "

    def prompt(self, text: str) -> "Prompt":
        """Return a prompt with the content of its placeholders."""
        whole = NAMED.sub(self._text, text)
        images = [paste.image for paste in self._in(text).values() if paste.image]
        return [{"type": "text", "text": whole}, *images] if images else whole

    def contents(self, text: str, store: Store) -> Fields:
        """Return the pasted content for the prompt history."""
        texts = {number: paste.text for number, paste in self._in(text).items() if paste.text}
        return {
            str(number): _saved_paste(number, pasted, store) for number, pasted in texts.items()
        }

    def _hold(self, paste: Paste) -> int:
        number = len(self._held) + 1
        self._held[number] = paste
        return number

    def _in(self, text: str) -> dict[int, Paste]:
        numbers = [int(found) for found in NAMED.findall(text)]
        return {number: self._held[number] for number in numbers if number in self._held}

    def _text(self, found: re.Match[str]) -> str:
        paste = self._held.get(int(found[1]))
        # Someone may simply type `[Image #1]`.
        return paste.text if paste and paste.text else found[0]


def image_path(text: str) -> Path | None:
    """Return the image file that a pasted text names: terminals paste dropped files as paths."""
    named = text.strip().removeprefix("file://")
    if "\n" in named or not named.lower().rstrip("'\"").endswith(IMAGES):
        return None
    try:
        # Terminals quote or escape a dropped path in different ways; some leave it as it is.
        names = [named, *(shlex.split(named) if len(shlex.split(named)) == 1 else [])]
    except ValueError:
        names = [named]
    paths = [expand_user(name) for name in names]
    return next((path for path in paths if path.is_absolute() and path.is_file()), None)


def _image_in(path: Path) -> Fields | None:
    """Return an image as a block; None if it cannot be sent."""
    from turnlog.agent.workspace.image_blocks import fit
    from turnlog.agent.workspace.tool import ToolError

    try:
        return fit(read_regular(path, LARGEST), str(path)).block
    except (OSError, ToolError):
        return None


def clipboard_image() -> Fields | None:
    """Return the clipboard image, if there is one and a program that can read it."""
    from turnlog.agent.workspace.image_blocks import fit
    from turnlog.agent.workspace.programs import find_program
    from turnlog.agent.workspace.project_directories import project_root
    from turnlog.agent.workspace.tool import ToolError

    for name, *arguments in CLIPBOARDS:
        # With a relative entry in PATH, a repository could bring its own `xclip`.
        if program := find_program(name, [project_root(Path.cwd())]):
            try:
                done = subprocess.run(
                    [program, *arguments],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=PATIENCE,
                    check=False,
                )
                return fit(done.stdout, "the clipboard").block
            except (OSError, subprocess.TimeoutExpired, ToolError):
                continue
    return None


def _saved_paste(number: int, text: str, store: Store) -> Fields:
    saved: Fields = {"id": number, "type": "text"}
    if len(text) <= INLINE:
        return saved | {"content": text}
    raw = text.encode("utf-8", "replace")
    # Named by its content, as by the client: the same text is stored once.
    name = hashlib.sha256(raw).hexdigest()[:16]
    create_private_folder(store.pastes)
    write_private(store.pastes / f"{name}.txt", raw)
    return saved | {"contentHash": name}
