"""Render rows as Markdown."""

from collections.abc import Iterable, Iterator

from turnlog.render.rows import AnswerRow, CallRow, NoteRow, PromptRow, Row, ThoughtRow, TurnEndRow
from turnlog.render.terminal_text import FOLDED

QUOTE = "> "


def to_markdown(rows: Iterable[Row], full: bool = False) -> Iterator[str]:
    """Yield the lines of a Markdown document."""
    for row in rows:
        yield from _lines(row, full)
        yield ""


def _lines(row: Row, full: bool) -> Iterator[str]:
    match row:
        case PromptRow():
            yield f"## {row.n}. {_first_line(row.text)}"
            yield ""
            yield from _quoted(row.text)
        case AnswerRow():
            yield row.text
        case ThoughtRow():
            yield from _quoted(f"*thinking:* {row.text}")
        case NoteRow():
            yield row.text if full or row.is_open else f"*{_first_line(row.text)}*"
        case CallRow():
            yield from _call(row, full)
        case TurnEndRow():
            yield "---"


def _call(row: CallRow, full: bool) -> Iterator[str]:
    mark = "✗" if row.is_error else "•"
    outcome = f" → {row.outcome}" if row.outcome else ""
    # A backtick would end the code span; the modifier letter looks alike.
    yield f"{mark} **{row.name}** `{_first_line(row.title).replace('`', 'ˋ')}`{outcome}"
    is_whole = full or row.is_open or row.style == "diff"
    body = row.body if is_whole else row.body[:FOLDED] if row.is_error else []
    if body:
        # A fence has to be longer than any run of backticks in the code that it encloses.
        fence = "`" * max(3, 1 + max(_longest_run(line) for line in body))
        yield ""
        yield f"{fence}{'diff' if row.style == 'diff' else ''}"
        yield from body
        yield fence
    for inner in row.rows:
        yield ""
        lines = "\n".join(_lines(inner, full)).split("\n")
        yield from (f"{QUOTE}{line}".rstrip() for line in lines)


def _quoted(text: str) -> Iterator[str]:
    yield from (f"{QUOTE}{line}".rstrip() for line in text.splitlines())


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:120] if lines else ""


def _longest_run(line: str) -> int:
    longest = run = 0
    for character in line:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
