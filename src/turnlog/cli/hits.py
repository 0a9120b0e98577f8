"""Render search hits for a terminal."""

import os
import re
from collections.abc import Iterator
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING

from turnlog.cli.output import fit, fit_path, plain
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import dim, style
from turnlog.format.timestamps import age
from turnlog.render.text_layout import cells_of, wrap_command
from turnlog.text import UNSAFE, plural, short_id

if TYPE_CHECKING:
    from turnlog.index.search.search import Hit, SessionHits, TurnHits

LABEL = 9
"""Width of the column that names the kind of a hit."""
BLANK = re.compile(rf"[\s{UNSAFE}]+")

Piece = tuple[str, bool]
"""A part of a text, and whether it matched."""


def lines_of(
    found: "SessionHits", columns: int, store: str = "", *, wraps: bool = False
) -> Iterator[str]:
    """Yield the lines of a session with its hits and the commands that open them.

    `store` has the arguments that select the session's store. `wraps` breaks commands that do not
    fit the terminal; in a pipe, each must stay on one line.
    """
    room = columns if wraps else 0
    yield _heading(found, columns)
    for turn in found.turns:
        yield from _turn(turn, columns)
        place = "" if turn.prompt is None else f" --line {turn.hits[0].line}"
        yield from _command(to_type(f"turnlog show {quote(turn.id)}{place}{store}"), "    ", room)
    if found.more > 0:
        yield dim(f"  {plural(found.more, 'more hit')}")
    yield from _command(plain(found.resume or _next_command(found, store)), "  ", room)


def _next_command(found: "SessionHits", store: str) -> str:
    """Return the command for a session that no client resumes, or that only the archive has."""
    verb = "check" if os.path.lexists(found.path) else "restore"
    return to_type(f"turnlog {verb} {quote(found.id)}{store}")


def _command(command: str, indent: str, room: int) -> Iterator[str]:
    """Yield the lines of a command, wrapped unless `room` is 0."""
    for line in wrap_command(command, room - len(indent)):
        yield dim(f"{indent}{line}")


def _heading(found: "SessionHits", columns: int) -> str:
    when = age(datetime.fromisoformat(found.last_active)) if found.last_active else ""
    score = "" if found.score is None else f"{found.score:.2f}  "
    before = f"{short_id(found.id)}  {when:>4}  {score}"
    project = plain(found.project) if columns >= 60 else ""
    room = columns // 3
    after = f"  {fit_path(project, room)}" if project else ""
    title = fit(plain(found.title) or "(no title)", columns - len(before) - cells_of(after))
    return f"{dim(before)}{style(title, 'bold')}{dim(after)}"


def _turn(turn: "TurnHits", columns: int) -> Iterator[str]:
    agent = f"(sub-agent {turn.id}) " if turn.is_subagent else ""
    is_asked = turn.hits[0].kind == "prompt"
    if is_asked:
        shown = agent + _snippet(turn.hits[0], columns - 4 - len(agent))
        yield f"  {style('❯', 'green')} {shown}"
    elif turn.prompt is not None:
        prompt = fit(agent + BLANK.sub(" ", turn.prompt).strip(), columns - 4).rstrip()
        yield f"  {style(f'❯ {prompt}', 'green')}"
    for hit in turn.hits[is_asked:]:
        label = fit(_label(hit), LABEL)
        colour = "red" if hit.is_error else "cyan"
        yield f"    {style(label, colour)} {_snippet(hit, columns - LABEL - 5)}"


def _label(hit: "Hit") -> str:
    tool = plain(hit.tool)
    return {"input": tool, "result": f"→ {tool}"}.get(hit.kind, hit.kind) if tool else hit.kind


def _snippet(hit: "Hit", room: int) -> str:
    """Return the part of a hit's text that fits on a line, with matches highlighted."""
    pieces = list(_pieces(hit))
    if hit.marks and sum(_cells(text) for text, _ in pieces) > room:
        pieces[0] = _end_of(pieces[0][0], room // 3), False
    left = fit("".join(text for text, _ in pieces), room).rstrip()
    drawn = ""
    for text, is_mark in pieces:
        part, left = left[: len(text)], left[len(text) :]
        drawn += style(part, "bold", "yellow") if is_mark and part else part
    return drawn + left


def _pieces(hit: "Hit") -> Iterator[Piece]:
    end = 0
    for start, stop in hit.marks:
        yield BLANK.sub(" ", hit.text[end:start]), False
        yield BLANK.sub(" ", hit.text[start:stop]), True
        end = stop
    yield BLANK.sub(" ", hit.text[end:]).rstrip(), False


def _end_of(text: str, room: int) -> str:
    """Return as much of the end of a text as fits, starting at a word if possible."""
    start = len(text)
    while start and room > 1:
        start -= 1
        room -= _cells(text[start])
    if not start:
        return text
    space = text.find(" ", start)
    return f"…{text[space + 1 if 0 <= space < len(text) - 1 else start :]}"


def _cells(text: str) -> int:
    """Estimate the width of a text; faster than rich's tables."""
    return len(text) if text.isascii() else sum(1 + (sign >= "\u1100") for sign in text)
