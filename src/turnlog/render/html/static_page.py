"""Write a session as an HTML file without scripts, for mail and print: everything in <details>."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import BinaryIO

from turnlog.conversation.session import Session
from turnlog.format.json_values import Fields
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.depth import page_at
from turnlog.render.html.page_file import Frame
from turnlog.render.html.session_file import WITH_CALLS
from turnlog.render.html.session_pages import SessionPages, find_masked
from turnlog.render.html.turn_documents import FileOptions, page_options
from turnlog.render.session_facts import TranscriptFacts, session_facts
from turnlog.render.terminal_text import times_text
from turnlog.secrets import mask
from turnlog.text import exact_money, harmless, plural

VIEWER = Path(__file__).parent / "viewer"
LABEL = 100
MARKS = {"+": "added", "-": "removed", "@": "place"}


def write_static_file(session: Session, file: BinaryIO, options: FileOptions) -> None:
    """Write a page without scripts, with secrets masked; its footer says how many."""
    facts = session_facts(session).for_export()
    frame = Frame(f"{_title(facts)} · turnlog", static_style(), _header(facts))
    frame.write_start(file)
    writer = _StaticWriter(session, options)
    for part in writer.parts():
        file.write(part.encode("utf-8", "replace"))
    masked = plural(writer.masked, "secret") + (" is" if writer.masked == 1 else " are")
    file.write(f"<footer>{masked} masked. Written by turnlog.</footer>\n".encode())
    frame.write_end(file)


def static_style() -> str:
    """Return the style sheet of pages without scripts."""
    names = ("theme.css", "static_page.css")
    return "\n".join((VIEWER / name).read_text("utf-8") for name in names)


class _StaticWriter:
    """Renders the pages of a session and its sub-agents, each sub-agent once."""

    def __init__(self, session: Session, options: FileOptions) -> None:
        self.masked = 0
        self._session = session
        self._options = options
        self._shown: set[str] = set()

    def parts(self) -> Iterator[str]:
        """Yield the outline and the turns."""
        pages = SessionPages(self._session, page_options(self._options, self._options.leaf))
        chosen = [turn.n for turn in pages.turns if self._options.turn in (None, turn.n)]
        labels = [label for n in chosen for label in pages.labels(n, n)]
        yield '<nav aria-label="Turns"><ol>\n'
        for n, label in zip(chosen, labels, strict=True):
            yield f'<li value="{n}"><a href="#turn-{n}">{_text(label) or "(no prompt)"}</a></li>\n'
        yield "</ol></nav>\n<main>\n"
        for n, label in zip(chosen, labels, strict=True):
            yield f'<section id="turn-{n}">\n<h2>{n}. {_text(label)}</h2>\n'
            yield from self._turn(pages, n)
            yield "</section>\n"
        yield "</main>\n"

    def _turn(self, pages: SessionPages, n: int) -> Iterator[str]:
        page = page_at(pages.page(n), self._options.depth)
        self.masked += page["masked"]
        for row in page["rows"]:
            yield ROWS.get(row["type"], _note)(row)
            if row["type"] == "call" and row["agent"] and self._options.depth in WITH_CALLS:
                yield from self._agent(pages.session, row["agent"])

    def _agent(self, parent: Session, agent_id: str) -> Iterator[str]:
        """Yield the turns of a sub-agent, below the call that started it."""
        agent = find_masked(parent.subagents, agent_id)
        # Sub-agents that start from a copy of the same context contain each other's calls.
        if agent is None or agent_id in self._shown:
            return
        self._shown.add(agent_id)
        options = page_options(replace(self._options, turn=None, leaf=None))
        pages = SessionPages(parent.open_subagent(agent), options)
        label = _text(mask(agent.description))
        yield f'<details class="agent"><summary>Sub-agent: {label}</summary>\n'
        for turn in pages.turns:
            yield from self._turn(pages, turn.n)
        yield "</details>\n"


def _header(facts: TranscriptFacts) -> str:
    rows = {
        "Session": facts.id,
        "Project": " · ".join(filter(None, (facts.project, facts.branch))),
        "Time": facts.period,
        "Size": facts.size,
        "Models": ", ".join(facts.models),
    }
    shown = (f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in rows.items() if value)
    return f"<header><h1>{_text(_title(facts))}</h1>\n<dl>{''.join(shown)}</dl></header>"


def _title(facts: TranscriptFacts) -> str:
    return facts.title or facts.slug or facts.id


def _prompt(row: Fields) -> str:
    moment = parse_timestamp(row["time"])
    clock = moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment else ""
    time = f"<time>{clock}</time>" if clock else ""
    about = " · ".join(filter(None, (time, *map(_text, row["marks"]))))
    head = f'<span class="note">{about}</span>'
    return f'<div class="prompt">{head}<pre>{_text(row["text"])}</pre>{_images(row)}</div>\n'


def _answer(row: Fields) -> str:
    # `html` was rendered and sanitized by turnlog; it is None if the text is too long to render.
    shown = row["html"] if row["html"] is not None else f"<pre>{_text(row['text'])}</pre>"
    return f'<div class="answer">{shown}</div>\n'


def _thinking(row: Fields) -> str:
    return _details("thinking", "Thinking", f"<pre>{_text(row['text'])}</pre>")


def _note(row: Fields) -> str:
    first, _, rest = _text(row.get("text", "")).partition("\n")
    kind = "note error" if row.get("is_error") else "note"
    if not rest and len(first) <= LABEL:
        return f'<p class="{kind}">{first}</p>\n'
    return _details(kind, first[:LABEL], f"<pre>{first}\n{rest}</pre>")


def _call(row: Fields) -> str:
    kind = "call error" if row["is_error"] else "call"
    title = row["title"].strip()
    first = title.partition("\n")[0][:LABEL]
    mark = "✗" if row["is_error"] else "•"
    facts = f" → {_text(row['outcome'])}" if row["outcome"] else ""
    summary = f"{mark} <b>{_text(row['name'])}</b> <code>{_text(first)}</code>{facts}"
    parts = [f"<pre>{_text(title)}</pre>"] if title != first else []
    if row["style"] == "diff":
        parts.append(f'<pre class="diff">{"".join(map(_diff_line, row["body"]))}</pre>')
    elif body := row["result"] or "\n".join(row["body"]):
        parts.append(f"<pre>{_text(body)}</pre>")
    return _details(kind, summary, "".join(parts) + _images(row))


def _end(row: Fields) -> str:
    facts = [times_text(row["working_ms"], row["elapsed_ms"]), plural(row["tokens"], "token")]
    if row["cost_usd"] is not None:
        facts.append(exact_money(row["cost_usd"]))
    return f'<p class="end">{" · ".join(filter(None, facts))}</p>\n'


def _details(kind: str, summary: str, content: str) -> str:
    if not content:
        return f'<p class="{kind}">{summary}</p>\n'
    return f'<details class="{kind}"><summary>{summary}</summary>{content}</details>\n'


def _diff_line(line: str) -> str:
    kind = MARKS.get(line[:1])
    return f'<span class="{kind}">{_text(line)}</span>\n' if kind else f"{_text(line)}\n"


def _images(row: Fields) -> str:
    return "".join(f'<img alt="Image" src="{escape(url)}">' for url in row.get("images", []))


def _text(text: str) -> str:
    """Return a text for HTML; control characters and bidi overrides are spelled out."""
    return escape(harmless(text))


ROWS: dict[str, Callable[[Fields], str]] = {
    "prompt": _prompt,
    "answer": _answer,
    "thinking": _thinking,
    "call": _call,
    "end": _end,
}
