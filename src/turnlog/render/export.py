"""Export a session as an HTML page, Markdown, JSON or text; `show` prints the same lines.

Exports are written while the session is read, so that a large one takes little memory.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import BinaryIO, TypedDict

import msgspec

from turnlog.conversation.session import Session
from turnlog.errors import NotFound, UsageError
from turnlog.format.atomic import written_beside
from turnlog.render.depth import Depth, rows_at, view_at
from turnlog.render.html.encryption import PageKey, derive_key
from turnlog.render.json_views import turn_view
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import ViewOptions, chosen_turns, rows_of
from turnlog.render.session_facts import session_facts
from turnlog.render.terminal_text import Terminal
from turnlog.secrets import mask_value
from turnlog.text import harmless, one_line, safe_json

PRIVATE = 0o600
FORMATS = ("html", "md", "json", "txt")
EXTENSIONS = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".markdown": "md",
    ".json": "json",
    ".txt": "txt",
}
"""The format that the extension of a file names."""
OWN = (
    rb'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
    rb'<meta name="generator" content="turnlog export">'
    rb"|# [^\n]*\n\n- Session: `"
    rb'|\[\n  \{\n    "n": \d+,\n    "line": \d+,\n    "prompt_uuid": '
    rb"|[^\n]*\nsession [^ \n]+ \xc2\xb7 "
)
"""A regex for the start of turnlog's own exports, in each format."""
DEPTHS = {"html": Depth.FULL, "md": Depth.CALLS, "json": Depth.FULL, "txt": Depth.CALLS}
"""Default depth of each format."""


@dataclass(frozen=True)
class ExportOptions:
    """Options for an export."""

    format: str = "html"
    depth: Depth | None = None
    """Depth of the export; the default depends on the format."""
    turn: int | None = None
    """Only this turn."""
    leaf: int | None = None
    """The branch that ends here; by default the active one, in HTML all branches."""
    thinking: bool = True
    reveal: bool = False
    """Show secrets instead of masking them; ignored for HTML, which is meant to be shared."""
    is_static: bool = False
    """Write HTML without scripts."""
    key: PageKey | None = None
    """Encrypt HTML."""

    @property
    def chosen_depth(self) -> Depth:
        return self.depth or DEPTHS[self.format]

    @property
    def view(self) -> ViewOptions:
        """The options for rows."""
        is_full = self.chosen_depth is Depth.FULL
        return ViewOptions(
            self.turn, self.leaf, full=is_full, thinking=self.thinking, reveal=self.reveal
        )


class ExportChoices(TypedDict, total=False):
    """The options of an export, as a library user names them."""

    depth: str
    turn: int
    thinking: bool
    js: bool
    """False for HTML without scripts."""
    password: str


def export_options(path: Path, choices: ExportChoices, reveal: bool = False) -> ExportOptions:
    """Return the options of an export to a file, whose extension names the format."""
    depth, password = choices.get("depth"), choices.get("password")
    if depth is not None and depth not in list(Depth):
        raise UsageError(f"no depth {depth!r}: expected one of {', '.join(Depth)}")
    options = ExportOptions(
        format=format_of(path),
        depth=Depth(depth) if depth else None,
        turn=choices.get("turn"),
        thinking=choices.get("thinking", True),
        reveal=reveal,
        is_static=not choices.get("js", True),
        key=derive_key(password) if password else None,
    )
    if options.format != "html" and (options.is_static or options.key):
        raise UsageError(f"encryption and pages without scripts need HTML, not {options.format}")
    return options


def format_of(path: Path) -> str:
    """Return the format that a file's extension names; raise UsageError if it names none."""
    found = EXTENSIONS.get(path.suffix.lower())
    if found is None:
        names = ", ".join(f".{name}" for name in FORMATS)
        message = f"cannot export to {path}: expected a name in {names}"
        raise UsageError(message, f"turnlog export SESSION -o {path.with_suffix('.html').name}")
    return found


def export_session(
    session: Session, path: Path, options: ExportOptions, staging: Path | None = None
) -> None:
    """Write a session to a private file atomically.

    `staging` is a directory for the unfinished file, on the same file system.
    """
    staged = staging / path.name if staging else path
    with written_beside(staged, PRIVATE) as (descriptor, beside):
        with os.fdopen(os.dup(descriptor), "wb") as file:
            write_export(session, file, options)
        beside.replace(path)


def is_own_export(start: bytes) -> bool:
    """Return whether a file starts like an export of turnlog."""
    return re.match(OWN, start) is not None


def write_export(session: Session, file: BinaryIO, options: ExportOptions) -> None:
    """Write a session to a stream."""
    require_turn(session, options.turn, options.leaf)
    if options.format == "html":
        _write_html(session, file, options)
        return
    for line in LINES[options.format](session, options.view, options.chosen_depth):
        # Session files may contain lone surrogates, which UTF-8 cannot encode.
        file.write(f"{line}\n".encode("utf-8", "replace"))


def require_turn(session: Session, turn: int | None, leaf: int | None = None) -> None:
    """Raise NotFound if a branch has no such turn."""
    turns = session.turns if leaf is None else session.turns_to(leaf)
    if turn and turn > len(turns):
        message = f"{session.path.name} has {len(turns)} turns, no turn {turn}"
        raise NotFound(message, f"turnlog turns {quote(session.id[:8])}")


def _write_html(session: Session, file: BinaryIO, options: ExportOptions) -> None:
    # Imported late: only HTML needs the packages that render and sanitize Markdown.
    from turnlog.render.html.session_file import write_session_file
    from turnlog.render.html.static_page import write_static_file
    from turnlog.render.html.turn_documents import FileOptions

    if options.is_static and options.key:
        raise UsageError("a page without JavaScript cannot be encrypted", "turnlog export --help")
    leaf = None if options.leaf is None else session.tree.chain[options.leaf].uuid
    chosen = FileOptions(
        options.chosen_depth,
        options.turn,
        leaf,
        options.thinking,
        # By default, as in the web app, outputs are complete, but reminders and attachments left
        # out.
        injected=options.depth is Depth.FULL,
        key=options.key,
    )
    (write_static_file if options.is_static else write_session_file)(session, file, chosen)


def uncoloured(text: str, role: str) -> str:
    """Return a text on one line, safe for a terminal and without colours, for text files."""
    return one_line(text.expandtabs(4)).rstrip()


def text_lines(
    session: Session, options: ViewOptions, depth: Depth, terminal: Terminal | None = None
) -> Iterator[str]:
    """Yield a session as text; by default for a file, without colours and without wrapping."""
    facts = session_facts(session, options.reveal, options.store)
    if terminal is None:
        terminal, facts = Terminal(uncoloured, options.full), facts.for_export()
    yield from terminal.head(facts)
    yield from terminal.draw(rows_at(rows_of(session, options), depth))


def markdown_lines(session: Session, options: ViewOptions, depth: Depth) -> Iterator[str]:
    """Yield a session as Markdown."""
    facts = session_facts(session, options.reveal).for_export()
    rows = rows_at(rows_of(session, options), depth)
    return map(harmless, to_markdown(rows, options.full, facts))


def json_lines(session: Session, options: ViewOptions, depth: Depth) -> Iterator[str]:
    """Yield the turns of a session as one JSON document, turn by turn."""
    chosen = chosen_turns(session, options)
    if not chosen:
        yield "[]"
        return
    yield "["
    for place, turn in enumerate(chosen, 1):
        value = msgspec.to_builtins(turn_view(session, turn, reveal=True))
        # Mask the whole object: some values are recognized as secrets only by the names of their
        # fields.
        shown = view_at(value if options.reveal else mask_value(value), depth)
        text = safe_json(json.dumps(shown, ensure_ascii=False, indent=2))
        yield "  " + text.replace("\n", "\n  ") + ("" if place == len(chosen) else ",")
    yield "]"


LINES: dict[str, Callable[[Session, ViewOptions, Depth], Iterator[str]]] = {
    "md": markdown_lines,
    "json": json_lines,
    "txt": text_lines,
}
