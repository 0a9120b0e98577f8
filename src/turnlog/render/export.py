"""Write a session to a file: Markdown, JSON or text, by the extension of its name."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from turnlog.conversation.session import Session
from turnlog.errors import UsageError
from turnlog.format.atomic import written_beside
from turnlog.render.json_views import turn_view
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import ViewOptions, chosen_turns, rows_of
from turnlog.render.terminal_text import Terminal
from turnlog.secrets import mask_value
from turnlog.text import harmless, one_line, safe_json

PRIVATE = 0o600


def export_session(session: Session, path: Path, options: ViewOptions) -> None:
    """Write a session to a private file, which appears when all of it is written."""
    export = EXPORTS.get(path.suffix.lower())
    if export is None:
        raise UsageError(f"cannot export to {path}: expected a name in {', '.join(EXPORTS)}")
    with written_beside(path, PRIVATE) as (descriptor, beside):
        # Lone surrogates, which session files may contain, have no UTF-8.
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in export(session, options))
        beside.replace(path)


def _markdown(session: Session, options: ViewOptions) -> Iterator[str]:
    return map(harmless, to_markdown(rows_of(session, options), options.full))


def _text(session: Session, options: ViewOptions) -> Iterator[str]:
    def uncoloured(text: str, role: str) -> str:
        return one_line(text.expandtabs(4)).rstrip()

    return Terminal(uncoloured, options.full).draw(rows_of(session, options))


def _json(session: Session, options: ViewOptions) -> Iterator[str]:
    chosen = chosen_turns(session, options)
    # Masked as a whole, because names of fields reveal more secrets than their values do.
    value = msgspec.to_builtins([turn_view(session, turn, reveal=True) for turn in chosen])
    shown = value if options.reveal else mask_value(value)
    yield safe_json(json.dumps(shown, ensure_ascii=False, indent=2))


EXPORTS: dict[str, Callable[[Session, ViewOptions], Iterator[str]]] = {
    ".md": _markdown,
    ".json": _json,
    ".txt": _text,
}
