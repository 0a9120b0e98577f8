"""Build the preview of a call for its permission prompt.

Nothing is left out or disguised. Invisible characters are spelled out, and long runs of blanks are
replaced by their length, because they could push the text after them off the screen.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unicodedata import bidirectional
from urllib.parse import urlsplit

from msgspec import Struct

from turnlog.agent.tools.edit import EditInput, edited_text
from turnlog.agent.tools.files.notebooks import cells_of, name_of, parse
from turnlog.agent.tools.files.patch import NO_END, patch_of
from turnlog.agent.tools.files.text_files import SAMPLE, TextFile, decode, is_binary
from turnlog.agent.workspace.inputs import reader_of
from turnlog.agent.workspace.tool import ToolError
from turnlog.agent.workspace.workspace import path_in
from turnlog.conversation.call_titles import call_title
from turnlog.format.json_values import Fields, is_array
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import real_path
from turnlog.text import escaped, visible

EDITS = ("Edit", "Write", "NotebookEdit")
"""Tools that change files."""
LARGEST = 4 << 20
"""Maximum size of a file that is diffed."""
BLANKS, EMPTY = 40, 5
"""Runs of at least this many spaces or empty lines are shown as a count."""
TAB = 4
RIGHT_TO_LEFT = ("R", "AL", "AN")
ROLES = {"+": "added", "-": "removed", "@": "dim", "\\": "dim"}

Line = tuple[str, str]
"""A role and one line of visible text."""


class CallPreview(Struct, frozen=True):
    """The title, body lines and summary that a permission prompt shows for a call."""

    title: str
    lines: list[Line]
    facts: str = ""
    """A short summary, such as `+3 -1`."""


class CallPlace(Struct, frozen=True):
    """Resolves the paths of a call, and shortens them for display."""

    root: Path
    """The session's directory; paths below it are shown without it."""
    cwd: Path

    def path_of(self, name: object) -> Path:
        """Return the path that a call names."""
        return path_in(self.cwd, str(name))

    def shown(self, path: Path) -> str:
        """Return a path for display."""
        return spelled(str(path.relative_to(self.root) if path.is_relative_to(self.root) else path))


def preview(tool: str, given: Fields, place: CallPlace) -> CallPreview:
    """Return the preview of a call with its complete input."""
    return PREVIEWS.get(tool, _preview_any(tool))(given, place)


def spelled(line: str) -> str:
    """Return a line with invisible characters and long runs of spaces spelled out.

    >>> spelled("ls" + " " * 500 + "; rm x" + chr(13))
    'ls<500 spaces>; rm x<CR>'
    """
    shown = visible(line, keep="\t").expandtabs(TAB)
    return re.sub(rf" {{{BLANKS},}}", lambda found: f"<{len(found[0]):,} spaces>", shown)


def spelled_lines(text: str) -> list[str]:
    """Return the lines of a text, spelled out, with long runs of empty lines as a count."""
    shown: list[str] = []
    empty = 0
    for line in [*text.split("\n"), None]:
        if line == "":
            empty += 1
            continue
        shown += [f"<{empty:,} empty lines>"] if empty >= EMPTY else [""] * empty
        empty = 0
        shown += [] if line is None else [spelled(line)]
    return shown


def _command(given: Fields, place: CallPlace) -> CallPreview:
    lines = spelled_lines(str(given.get("command", "")))
    body = [("output", line) for line in lines] if len(lines) > 1 else []
    if in_order := _in_order(lines):
        body.append(("note", "in the order that bash reads it:"))
        body += [("note", line) for line in in_order]
    if place.cwd != place.root:
        body.append(("note", f"in {place.shown(place.cwd)}"))
    others = {name: given[name] for name in given if name not in ("command", "description")}
    title = f"{lines[0]} …" if len(lines) > 1 else lines[0]
    return CallPreview(title, body + _fields(others), spelled(_text(given.get("description"))))


def _in_order(lines: list[str]) -> list[str]:
    """Return lines with right-to-left letters spelled out; none if there are no such letters.

    A terminal that supports bidi shows `cp A B` as `cp B A` where A and B are Hebrew names.
    """
    text = "\n".join(lines)
    if text.isascii():
        return []
    shown = (escaped(char) if bidirectional(char) in RIGHT_TO_LEFT else char for char in text)
    ordered = "".join(shown)
    return ordered.split("\n") if ordered != text else []


def _write(given: Fields, place: CallPlace) -> CallPreview:
    path = place.path_of(given.get("file_path", ""))
    old, notes = _current(path)
    return _change(place, path, notes, old.text, _text(given.get("content")))


def _edit(given: Fields, place: CallPlace) -> CallPreview:
    path = place.path_of(given.get("file_path", ""))
    old, notes = _current(path)
    try:
        value = reader_of(EditInput)(given)
        return _change(place, path, notes, old.text, edited_text(old.text, value)[0])
    except ToolError as error:  # the call would fail; still show everything in its input
        notes = [*notes, f"this would fail: {str(error).partition(chr(10))[0]}"]
        pieces = _text(given.get("old_string")), _text(given.get("new_string"))
        return _change(place, path, notes, *pieces)


def _notebook(given: Fields, place: CallPlace) -> CallPreview:
    path = place.path_of(given.get("notebook_path", ""))
    old, notes = _current(path)
    cell = _cell(old.text, path, given.get("cell_id"))
    is_new, is_gone = (given.get("edit_mode") == mode for mode in ("insert", "delete"))
    new = "" if is_gone else _text(given.get("new_source"))
    # A notebook is JSON with outputs and images: only the source of the cell is compared.
    change = _change(place, path, notes, "" if is_new else cell, new)
    others = {name: given[name] for name in given if name not in ("notebook_path", "new_source")}
    return CallPreview(change.title, _fields(others) + change.lines, change.facts)


def _cell(text: str, path: Path, name: object) -> str:
    try:
        cells = cells_of(parse(text, path))
    except ToolError:
        return ""
    named = ((name_of(cell, rank), cell.get("source")) for rank, cell in enumerate(cells))
    # If several cells share an id, the tool changes the first.
    source: Any = next((source for each, source in named if each == name), "")
    return "".join(map(str, source)) if is_array(source) else str(source)


def _current(path: Path) -> tuple[TextFile, list[str]]:
    """Return the current content of a file, and notes about it."""
    notes: list[str] = []
    target = real_path(path)
    # The path as named may look harmless: `notes.txt` can be a link to `~/.bashrc`.
    if target != path:
        notes.append(f"{'a link to' if path.is_symlink() else 'points to'} {spelled(str(target))}")
    try:
        status = target.stat()
        notes.append(f"mode {status.st_mode & 0o7777:04o}")
        if status.st_size > LARGEST:
            return TextFile(""), [*notes, "too large to compare: only the new content is shown"]
        raw = read_regular(target, LARGEST)
    except FileNotFoundError:
        return TextFile(""), [*notes, "a new file"]
    except OSError as error:
        return TextFile(""), [*notes, f"cannot be read: {error.strerror}"]
    if is_binary(raw[:SAMPLE]):
        return TextFile(""), [*notes, "a binary file"]
    text = decode(raw)
    return text, [*notes, *(["all lines end with CR LF"] if text.newline != "\n" else [])]


def _change(place: CallPlace, path: Path, notes: list[str], old: str, new: str) -> CallPreview:
    lines = list(_diff(old, new))
    added, removed = (sum(role == kind for role, _ in lines) for kind in ("added", "removed"))
    notes += [] if lines else ["the content stays as it is"]
    # Any other mode is worth a look: 0755 is a script, 0600 a secret.
    usual = [note for note in notes if note != "mode 0644"]
    head = [("note", note) for note in usual]
    return CallPreview(place.shown(path), head + lines, f"+{added} -{removed}")


def _diff(old: str, new: str) -> Iterator[Line]:
    """Return the lines of a diff, with trailing blanks of changed lines made visible."""
    for hunk in patch_of(old, new):
        start = f"-{hunk['oldStart']},{hunk['oldLines']}"
        yield "dim", f"@@ {start} +{hunk['newStart']},{hunk['newLines']} @@"
        for line in hunk["lines"]:
            role = "dim" if line == NO_END else ROLES.get(line[:1], "output")
            show = _spelled_end if role in ("added", "removed") else spelled
            yield role, line[:1] + show(line[1:])


def _spelled_end(line: str) -> str:
    """Return a line spelled out, with its trailing blanks made visible."""
    # Trailing blanks matter in Makefiles and Markdown. If a change touched nothing else, its old
    # and its new line would look the same.
    body = line.rstrip(" \t")
    blanks = line[len(body) :]
    end = f"<{len(blanks):,} blanks>" if len(blanks) >= BLANKS else "".join(map(escaped, blanks))
    return spelled(body) + end


def _preview_any(tool: str) -> Callable[[Fields, CallPlace], CallPreview]:
    def show(given: Fields, place: CallPlace) -> CallPreview:
        title = call_title(tool, given)
        # Show only the title if it contains the whole input; `1 items` does not.
        values = list(given.values())
        is_whole = not values or (len(values) == 1 and str(values[0]) in title)
        says_all = is_whole and "\n" not in title
        return CallPreview(spelled(title) if says_all else "", [] if says_all else _fields(given))

    return show


def _page(given: Fields, place: CallPlace) -> CallPreview:
    url = _text(given.get("url"))
    others = {name: value for name, value in given.items() if name != "url"}
    return CallPreview(
        spelled(url), [("note", note) for note in _host_notes(url)] + _fields(others)
    )


def _host_notes(url: str) -> list[str]:
    """Return a note with the host if a URL may be misread: `xn--`, look-alikes, `good@evil`."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ["the host is unclear"]
    other = _other_form(host)
    is_plain = not other and "@" not in parts.netloc and "\\" not in url
    return [] if is_plain else [f"the host is {spelled(host)}{f', or {other}' if other else ''}"]


def _other_form(host: str) -> str:
    """Return the ASCII form of a Unicode host name, or the Unicode form of an `xn--` name."""
    if host.isascii() and "xn--" not in host:
        return ""
    try:
        return spelled(host.encode().decode("idna") if host.isascii() else _ascii(host))
    except UnicodeError:
        return "no valid name"


def _ascii(host: str) -> str:
    labels = (
        label if label.isascii() else f"xn--{label.encode('punycode').decode()}"
        for label in host.split(".")
    )
    return ".".join(labels)


def _fields(given: Fields) -> list[Line]:
    """Return all fields of an input: strings as they are, other values as JSON."""
    lines: list[Line] = []
    for name, value in given.items():
        if isinstance(value, str) and "\n" in value:
            lines.append(("dim", f"{spelled(name)}:"))
            lines += [("output", f"  │ {line}") for line in spelled_lines(value)]
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(("output", f"{spelled(name)}: {spelled(text)}"))
    return lines


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


PREVIEWS: dict[str, Callable[[Fields, CallPlace], CallPreview]] = {
    "Bash": _command,
    "Edit": _edit,
    "Write": _write,
    "NotebookEdit": _notebook,
    "WebFetch": _page,
}
