"""Render rows as text for a terminal, coloured by the caller's `style`."""

import re
from collections.abc import Callable, Iterable, Iterator

from turnlog.render.rows import AnswerRow, CallRow, NoteRow, PromptRow, Row, ThoughtRow, TurnEndRow
from turnlog.render.session_facts import TranscriptFacts
from turnlog.render.text_layout import (
    cells_of,
    is_table,
    lay_out_table,
    table_at,
    wrap_command,
    wrap_line,
)
from turnlog.text import duration, exact_money

Style = Callable[[str, str], str]
"""Colours a text and makes it safe for the terminal: (text, role)."""

INLINE = re.compile(r"(`|\*\*)(?=\S)(.+?)(?<=\S)\1")
BULLET = re.compile(r"^(\s*)[-*] ")
APART = 1000
"""Milliseconds by which elapsed time must exceed working time for both to be shown."""
FOLDED = 8
"""Lines of a failed call's output that are shown without --full."""
DIFF_FOLDED = 24
NARROWEST = 20
"""Minimum width of a nested transcript, in cells."""
LINE_LIMIT = 1000
"""Longer lines are cut, except with --full."""


class Terminal:
    """Draws rows for a terminal, folded or in full; with width 0, lines are not wrapped."""

    def __init__(self, style: Style, full: bool, width: int = 0) -> None:
        self.style = style
        self.full = full
        self.width = width
        self.drawn = 0
        """Lines drawn so far."""
        self.opened_at: int | None = None
        """Number of lines before the unfolded row, once it is drawn."""

    def head(self, facts: TranscriptFacts) -> Iterator[str]:
        """Yield the title of a session, its project, times and cost, and how to resume it."""
        for line in self._head(facts):
            self.drawn += 1
            yield line

    def _head(self, facts: TranscriptFacts) -> Iterator[str]:
        yield from self._wrapped(facts.title or facts.slug or facts.id, "heading")
        place = [f"session {facts.id}", facts.slug, facts.project, facts.branch]
        about = [facts.period, facts.size, ", ".join(facts.models)]
        for line in (place, about):
            yield from self._wrapped(" · ".join(filter(None, line)), "dim")
        for line in wrap_command(facts.resume, self.width) if facts.resume else ():
            yield self.style(line, "code")
        yield ""

    def draw(self, rows: Iterable[Row], indent: str = "") -> Iterator[str]:
        """Yield the lines of rows."""
        for row in rows:
            if getattr(row, "is_open", False) and self.opened_at is None:
                self.opened_at = self.drawn
            for line in self._row(row):
                self.drawn += 1
                yield f"{indent}{line}".rstrip()

    def _wrapped(self, text: str, role: str, lead: str = "", more: str = "") -> Iterator[str]:
        """Yield a text wrapped between words; `lead` starts the first line, `more` the others."""
        room = self.width - len(lead) if self.width else 0
        for place, part in enumerate(wrap_line(text, room)):
            yield self.style(f"{more if place else lead}{part}", role)

    def _row(self, row: Row) -> Iterator[str]:
        match row:
            case PromptRow():
                yield from self._prompt(row)
            case AnswerRow():
                yield from self._answer(row.text)
                yield ""
            case ThoughtRow():
                yield from self._thought(row)
            case NoteRow():
                yield from self._note(row)
            case CallRow():
                yield from self._call(row)
            case TurnEndRow():
                yield self.style(_what_it_took(row), "dim")
                yield ""

    def _prompt(self, row: PromptRow) -> Iterator[str]:
        label = f" ({', '.join(row.marks)})" if row.marks else ""
        lines = row.text.splitlines() or [""]
        shown = lines if self.full or row.is_open else lines[:DIFF_FOLDED]
        indent = " " * 6
        yield from self._wrapped(
            f"{label} {self._cut(shown[0])}", "prompt", f"{row.n:>3} ❯", indent
        )
        for line in shown[1:]:
            yield from self._wrapped(self._cut(line), "prompt", indent, indent)
        if len(shown) < len(lines):
            yield self.style(f"      {_more(len(lines) - len(shown))}", "dim")
        yield ""

    def _answer(self, text: str) -> Iterator[str]:
        """Colour the Markdown of an answer; keep code, align tables and wrap prose."""
        lines = text.strip("\n").splitlines()
        in_code = False
        place = 0
        while place < len(lines):
            line = lines[place]
            place += 1
            if line.lstrip().startswith("```"):
                in_code = not in_code
                yield self.style(line, "dim")
            elif in_code:
                yield self.style(line, "code")
            elif line.startswith("#"):
                yield from self._wrapped(line.lstrip("# "), "heading")
            elif is_table(lines, place - 1):
                rows = table_at(lines, place - 1)
                yield from self._table(rows)
                place += len(rows)
            else:
                yield from map(self._prose, wrap_line(BULLET.sub(r"\1• ", line), self.width))

    def _prose(self, line: str) -> str:
        # Style first: it removes control characters, and must not see the escape sequences that
        # inline styles add.
        return INLINE.sub(self._inline, self.style(line, "text"))

    def _table(self, rows: list[list[str]]) -> Iterator[str]:
        shown = [[INLINE.sub(r"\2", cell) for cell in row] for row in rows]
        is_ruled = False
        for number, cells in lay_out_table(shown, self.width, gap=3):
            if number and not is_ruled:
                yield self.style("─┼─".join("─" * cells_of(cell) for cell in cells), "dim")
                is_ruled = True
            yield self.style(" │ ".join(cells).rstrip(), "text" if number else "bold")

    def _inline(self, found: re.Match[str]) -> str:
        return self.style(found[2], "code" if found[1] == "`" else "bold")

    def _thought(self, row: ThoughtRow) -> Iterator[str]:
        lines = row.text.splitlines()
        shown = lines if self.full or row.is_open else lines[:3]
        for line in shown:
            yield from self._wrapped(self._cut(line), "thought", "  ∴ ", "    ")
        if len(shown) < len(lines):
            yield self.style(f"  ∴ {_more(len(lines) - len(shown))}", "dim")

    def _note(self, row: NoteRow) -> Iterator[str]:
        role = "error" if row.is_error else "note"
        for line in row.text.splitlines() if row.is_open else [self._short(row.text)]:
            yield from self._wrapped(line, role, "── ", "   ")

    def _call(self, row: CallRow) -> Iterator[str]:
        mark = self.style("✗", "error") if row.is_error else self.style("●", "ok")
        facts = "  ".join(filter(None, (row.outcome, _seconds(row.duration_ms))))
        for place, line in enumerate(self._call_lines(row.name, self._short(row.title), facts)):
            yield f"{' ' if place else mark} {line}"
        yield from self._body(row)
        inside = Terminal(
            self.style, self.full, max(NARROWEST, self.width - 4) if self.width else 0
        )
        yield from inside.draw(row.rows, indent="  ┃ ")

    def _call_lines(self, name: str, title: str, facts: str) -> Iterator[str]:
        """Yield the name, title and facts of a call, in as many lines as a terminal needs."""
        room = self.width - 2 if self.width else 0
        lines = wrap_line(f"{name} {title}", room)
        is_below = bool(room and facts) and cells_of(f"{lines[-1]}  {facts}") > room
        drawn = [self.style(line, "text") for line in lines]
        drawn[0] = f"{self.style(name, 'tool')} {self.style(lines[0][len(name) + 1 :], 'text')}"
        if is_below:
            drawn.append(self.style(facts, "dim"))
        else:
            drawn[-1] += f"  {self.style(facts, 'dim')}"
        yield from drawn

    def _body(self, row: CallRow) -> Iterator[str]:
        # Users review diffs, and errors explain what follows; other output is noise by default.
        limit = DIFF_FOLDED if row.style == "diff" else FOLDED if row.is_error else 0
        shown = row.body if self.full or row.is_open else row.body[:limit]
        for line in shown:
            role = _diff_role(line) if row.style == "diff" else "output"
            yield self.style(f"    {self._cut(line)}", role)
        if limit and len(shown) < len(row.body):
            yield self.style(f"    {_more(len(row.body) - len(shown))}", "dim")

    def _short(self, text: str) -> str:
        first, *rest = text.strip().split("\n")
        return self._cut(first, 160) + (" …" if rest else "")

    def _cut(self, line: str, limit: int = LINE_LIMIT) -> str:
        return line if self.full or len(line) <= limit else f"{line[:limit]}…"


def _more(count: int) -> str:
    return f"… {count} more line{'' if count == 1 else 's'}"


def _diff_role(line: str) -> str:
    return {"+": "added", "-": "removed", "@": "dim"}.get(line[:1], "output")


def _seconds(milliseconds: int | None) -> str:
    return f"{milliseconds / 1000:.1f}s" if milliseconds and milliseconds >= 1000 else ""


def times_text(working_ms: int | None, elapsed_ms: int | None) -> str:
    """Return the working time of a turn, and the elapsed time if that is longer.

    >>> times_text(5200, 5900), times_text(5200, 95_000)
    ('5s', '5s working, 1m 35s elapsed')
    """
    working, elapsed = times_apart(working_ms, elapsed_ms)
    return f"{working} working, {elapsed} elapsed" if elapsed else working


def times_apart(working_ms: int | None, elapsed_ms: int | None) -> tuple[str, str]:
    """Return working and elapsed time; the latter is empty unless it is a second longer.

    Working time may exceed elapsed time, because the client includes hooks after the last answer.

    >>> times_apart(5200, 95_000), times_apart(95_000, 90_000)
    (('5s', '1m 35s'), ('1m 35s', ''))
    """
    if working_ms is None or elapsed_ms is None or elapsed_ms - working_ms <= APART:
        return _minutes(elapsed_ms if working_ms is None else working_ms), ""
    return _minutes(working_ms), _minutes(elapsed_ms)


def _minutes(milliseconds: int | None) -> str:
    return "" if milliseconds is None else duration(milliseconds / 1000)


def _what_it_took(row: TurnEndRow) -> str:
    facts = [f"turn {row.n}"]
    if times := times_text(row.working_ms, row.elapsed_ms):
        facts.append(times)
    facts.append(f"{row.tokens:,} tokens")
    if row.cost_usd is not None:
        facts.append(exact_money(row.cost_usd))
    return f"── {' · '.join(facts)} ──"
