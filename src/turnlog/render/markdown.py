"""Render rows as Markdown: turns are sections, calls are list items with their output below."""

import re
from collections.abc import Iterable, Iterator

from turnlog.format.timestamps import parse_timestamp
from turnlog.render.inert_markdown import inert
from turnlog.render.rows import AnswerRow, CallRow, NoteRow, PromptRow, Row, ThoughtRow, TurnEndRow
from turnlog.render.session_facts import TranscriptFacts
from turnlog.render.terminal_text import FOLDED, times_text
from turnlog.text import exact_money, plural

QUOTE = "> "
INDENT = "  "
LABEL = 120
TURN_LEVEL, DEEPEST = 2, 6
"""Heading level of a turn, and the deepest level in Markdown."""
HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
CLOSING = re.compile(r" {0,3}(`+|~+)[ \t]*")
HTML_BLOCK = re.compile(r" {0,3}<(?=[!?]|(?:script|pre|style|textarea)(?:[\s>]|$))", re.IGNORECASE)
"""Start of an HTML block that no blank line ends: an open comment hides everything after it."""


def to_markdown(
    rows: Iterable[Row], full: bool = False, facts: TranscriptFacts | None = None
) -> Iterator[str]:
    """Yield the lines of a Markdown document, with a title if there are facts for it."""
    if facts:
        yield from _head(facts)
    yield from _document(rows, full, TURN_LEVEL)


def _document(rows: Iterable[Row], full: bool, level: int) -> Iterator[str]:
    for row in rows:
        yield from _lines(row, full, level)
        yield ""


def _head(facts: TranscriptFacts) -> Iterator[str]:
    yield f"# {_heading(facts.title or facts.slug or facts.id)}"
    yield ""
    project = _code(facts.project) if facts.project else ""
    branch = f"branch {_code(facts.branch)}" if facts.branch else ""
    rows = {
        "Session": _code(facts.id),
        "Project": ", ".join(filter(None, (project, branch))),
        "Time": facts.period,
        "Size": facts.size,
        "Models": ", ".join(map(_code, facts.models)),
        "Client": inert(_on_one_line(facts.client_version or "")),
    }
    yield from (f"- {name}: {value}" for name, value in rows.items() if value)
    yield ""


def _lines(row: Row, full: bool, level: int) -> Iterator[str]:
    match row:
        case PromptRow():
            yield from _prompt(row, level)
        case AnswerRow():
            yield from nested_headings(inert(row.text), level)
        case ThoughtRow():
            yield from _quoted(f"*thinking:* {inert(row.text)}")
        case NoteRow():
            if full or row.is_open:
                yield from nested_headings(inert(row.text), level)
            else:
                yield f"*{_heading(row.text)}*"
        case CallRow():
            yield from _call(row, full, level)
        case TurnEndRow():
            yield f"*{_turn_facts(row)}*"


def _prompt(row: PromptRow, level: int) -> Iterator[str]:
    yield f"{'#' * level} {row.n}. {_heading(row.text)}"
    yield ""
    moment = parse_timestamp(row.time)
    clock = moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""
    if about := ", ".join(filter(None, (clock, *row.marks))):
        yield f"*{about}*"
        yield ""
    yield from _quoted(inert(row.text))


def nested_headings(text: str, level: int) -> Iterator[str]:
    """Yield the lines of an answer, with its headings moved below a level.

    The answer cannot affect later text: an open fence is closed, and open HTML is escaped.

    >>> list(nested_headings("# One\\n```\\n# code\\n```\\n## Two", 2))
    ['### One', '```', '# code', '```', '#### Two']
    >>> list(nested_headings("~~~\\ncut off", 2))
    ['~~~', 'cut off', '~~~']
    """
    lines: list[str] = []
    fence, indent, is_doubtful = "", 0, False
    for line in text.split("\n"):
        if not fence:
            if mark := FENCE.match(line):
                indent, fence = len(mark[1]), mark[2]
                lines.append(line)
            else:
                _add_nested(lines, line, level)
            continue
        lines.append(line)
        # An indented fence may belong to a list item, which a line with less indentation ends.
        is_doubtful |= line.strip() != "" and not line.startswith(" " * indent)
        closing = CLOSING.fullmatch(line)
        fence = "" if closing and closing[1].startswith(fence) else fence
    if fence:
        lines.append(f"{' ' * indent}{fence}")
    # If a fence may still be open, put everything into a quote, whose end closes it.
    yield from _quoted("\n".join(lines)) if is_doubtful else lines


def _add_nested(lines: list[str], line: str, level: int) -> None:
    """Add a line that is outside of fences; move a heading below a level."""
    underline = UNDERLINE.fullmatch(line)
    if heading := HEADING.match(line):
        deeper = min(DEEPEST, len(heading[1]) + level)
        lines.append(f"{'#' * deeper}{line[heading.end() :]}")
    elif underline and lines and re.match(r" {0,3}\w", lines[-1]):
        deeper = min(DEEPEST, level + (1 if "=" in underline[1] else 2))
        lines[-1] = f"{'#' * deeper} {lines[-1].strip()}"
    elif HTML_BLOCK.match(line):
        lines.append(line.replace("<", "\\<", 1))
    else:
        lines.append(line)


def _call(row: CallRow, full: bool, level: int) -> Iterator[str]:
    title = row.title.strip()
    is_short = "\n" not in title and len(title) <= LABEL
    mark = "✗ " if row.is_error else ""
    name = inert(_on_one_line(row.name))
    outcome = f" → {inert(_on_one_line(row.outcome))}" if row.outcome else ""
    # Not the bullet of answers, or a call would join the list that an answer ends with.
    yield f"* {mark}**{name}** {_code(title) if is_short and title else ''}".rstrip() + outcome
    if not is_short:
        yield from _item(_fenced(title.split("\n"), "sh" if row.name == "Bash" else ""))
    is_whole = full or row.is_open or row.style == "diff"
    body = row.body if is_whole else row.body[:FOLDED] if row.is_error else []
    if body:
        yield from _item(_fenced(body, "diff" if row.style == "diff" else ""))
    if row.rows:
        inner = "\n".join(_document(row.rows, full, level + 1)).rstrip("\n").split("\n")
        yield from _item(f"{QUOTE}{line}".rstrip() for line in inner)


def _item(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as a paragraph of a list item."""
    yield ""
    yield from (f"{INDENT}{line}".rstrip() for line in lines)


def _fenced(lines: list[str], language: str) -> Iterator[str]:
    # A fence has to be longer than any run of backticks in the code that it encloses.
    fence = "`" * max(3, 1 + max(map(_longest_run, lines)))
    yield f"{fence}{language}"
    yield from lines
    yield fence


def _code(text: str) -> str:
    """Return a code span, whose delimiters are longer than any run of backticks in it.

    >>> _code("ls"), _code("echo `date`")
    ('`ls`', '`` echo `date` ``')
    """
    # A blank line, as in the name of a directory, would end the span.
    text = _on_one_line(text)
    run = _longest_run(text)
    return f"{'`' * (run + 1)} {text} {'`' * (run + 1)}" if run else f"`{text}`"


def _turn_facts(row: TurnEndRow) -> str:
    facts = [times_text(row.working_ms, row.elapsed_ms), plural(row.tokens, "token")]
    if row.cost_usd is not None:
        facts.append(exact_money(row.cost_usd))
    return " · ".join(filter(None, facts))


def _quoted(text: str) -> Iterator[str]:
    yield from (f"{QUOTE}{line}".rstrip() for line in text.splitlines())


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _heading(text: str) -> str:
    """Return the first line of a text, short and inert."""
    lines = text.strip().splitlines()
    return inert(lines[0][:LABEL]) if lines else ""


def _longest_run(line: str) -> int:
    return max(map(len, re.findall("`+", line)), default=0)
