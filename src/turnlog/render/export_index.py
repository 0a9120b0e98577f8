"""Write the index of a directory of exported sessions: HTML pages, or a Markdown list."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from turnlog.errors import UsageError
from turnlog.format.atomic import require_replaceable, write_atomic
from turnlog.text import harmless, one_line, plural

HEADING = "# Sessions\n\n<!-- turnlog export -->\n\n"
TITLE = "Sessions · turnlog"
PER_PAGE = 1000
"""Sessions per page, so that an index of 100,000 sessions opens quickly."""


class IndexedSession(NamedTuple):
    """A row of the index."""

    name: str
    """The name of its file."""
    title: str | None
    """None if the pages are encrypted, because the index is not."""
    project: str | None
    last_active: str


def write_index(
    folder: Path, extension: str, sessions: Sequence[IndexedSession], is_agreed: bool = False
) -> None:
    """Write the pages of an index that changed, and remove pages that are no longer needed."""
    is_html = extension == "html"
    pages = range(0, max(1, len(sessions)), PER_PAGE)
    for number, start in enumerate(pages, 1):
        shown = sessions[start : start + PER_PAGE]
        text = _html(shown, number, len(pages), len(sessions)) if is_html else _markdown(shown)
        path = folder / page_name(number, is_html)
        _require_own(path, folder, is_agreed)
        content = text.encode("utf-8", "replace")
        if not path.exists() or path.read_bytes() != content:
            write_atomic(path, content)
    number = len(pages) + 1
    while (stale := folder / page_name(number, is_html)).exists():
        # The name alone proves nothing: `index-2.html` may be a page of the user's own.
        with suppress(UsageError):
            _require_own(stale, folder)
            stale.unlink()
        number += 1


def require_own_index(folder: Path, extension: str, is_agreed: bool) -> None:
    """Raise UsageError if the index would replace a file that turnlog did not write."""
    _require_own(folder / page_name(1, extension == "html"), folder, is_agreed)


def _require_own(path: Path, folder: Path, is_agreed: bool = False) -> None:
    command = f"turnlog export --yes --all -o {folder}"
    require_replaceable(path, command, is_agreed, _is_own_index)


def _is_own_index(start: bytes) -> bool:
    from turnlog.render.html.page_file import MARK

    is_page = start.startswith(MARK.encode()) and f"<title>{TITLE}</title>".encode() in start
    return is_page or start.startswith(HEADING.encode())


def page_name(number: int, is_html: bool = True) -> str:
    """Return the name of a page of the index.

    >>> page_name(1), page_name(2)
    ('index.html', 'index-2.html')
    """
    extension = "html" if is_html else "md"
    return f"index.{extension}" if number == 1 else f"index-{number}.{extension}"


def _html(sessions: Sequence[IndexedSession], page: int, pages: int, total: int) -> str:
    from io import BytesIO

    from turnlog.render.html.page_file import Frame
    from turnlog.render.html.static_page import static_style

    style = static_style()
    body = f"<header><h1>{plural(total, 'session')}</h1></header>\n{_links(page, pages)}<main>\n"
    frame = Frame(TITLE, style, body)
    file = BytesIO()
    frame.write_start(file)
    rows = "".join(map(_row, sessions))
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Session", "Project", "Active"))
    table = f'<table class="index"><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table>'
    file.write(f"{table}</main>\n{_links(page, pages)}".encode("utf-8", "replace"))
    frame.write_end(file)
    return file.getvalue().decode()


def _row(session: IndexedSession) -> str:
    title = _text(session.title or Path(session.name).stem)
    link = f'<a href="{escape(quote(session.name))}">{title}</a>'
    cells = (link, _text(session.project or ""), _clock(session.last_active))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"


def _links(page: int, pages: int) -> str:
    """Return links to the first, previous, next and last page."""
    if pages == 1:
        return ""
    names = {"first": 1, "previous": page - 1, "next": page + 1, "last": pages}
    links = [
        f'<a href="{page_name(number)}">{name}</a>'
        for name, number in names.items()
        if 1 <= number <= pages and number != page
    ]
    return f'<nav aria-label="Pages">page {page} of {pages}: {" · ".join(links)}</nav>\n'


def _markdown(sessions: Sequence[IndexedSession]) -> str:
    return "".join(_markdown_lines(sessions))


def _markdown_lines(sessions: Sequence[IndexedSession]) -> Iterator[str]:
    yield HEADING
    for session in sessions:
        title = _markdown_text(session.title or Path(session.name).stem)
        project = _markdown_text(session.project or "")
        facts = " · ".join(filter(None, (project, _clock(session.last_active))))
        yield f"- [{title}]({quote(session.name)}) {facts}".rstrip() + "\n"


def _markdown_text(text: str) -> str:
    """Return a text on one line, with the syntax of links, tags and code escaped."""
    return re.sub(r"[\\`<\[\]]", r"\\\g<0>", harmless(one_line(text)))


def _clock(moment: str) -> str:
    if not moment:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def _text(text: str) -> str:
    return escape(harmless(one_line(text)))
