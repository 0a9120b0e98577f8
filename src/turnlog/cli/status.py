"""Render the status line that the client shows below the prompt."""

import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from turnlog.cli.terminal import echo_masked, masked, style
from turnlog.conversation.models import window_of
from turnlog.errors import UsageError
from turnlog.format.json_values import is_object, parse_json
from turnlog.format.regular_files import is_readable
from turnlog.index.reports.status_figures import Status, status_of, status_of_file
from turnlog.index.sync_policy import open_without_waiting
from turnlog.store.stores import AnyStores
from turnlog.text import one_line, running_money

FULL, FILLING = 0.8, 0.5
MODEL_NAME = r"(?:[A-Za-z0-9.()\[\]]{1,9}(?:[ -]|$)){1,6}"
"""Matches names made of short words, which cannot be a secret."""


def print_status(stores: AnyStores) -> None:
    """Print the status line for the client's JSON on stdin."""
    payload = _read_payload()
    transcript = payload.get("transcript_path")
    path = Path(transcript) if isinstance(transcript, str) else None
    session = str(payload.get("session_id") or (path.stem if path else ""))
    with open_without_waiting(stores, path) as index:
        status = status_of(index.db, session, time.time()) if index else None
    if path and (status is None or status.session_usd is None) and is_readable(path):
        own = status_of_file(path)
        known = {name: value for name, value in own._asdict().items() if value is not None}
        status = status._replace(**known) if status else own
    parts = [_model(payload), *(_figures(status) if status else []), _context(payload, status)]
    line = " · ".join(part for part in parts if part)
    echo_masked(line, coloured=not os.environ.get("NO_COLOR"))


def _read_payload() -> dict[str, Any]:
    try:
        value = parse_json(sys.stdin.read())
    except ValueError:
        value = None
    if not is_object(value):
        message = "stdin contains no JSON object; the client passes one to status line commands"
        raise UsageError(message, "turnlog statusline --help")
    return value


def _model(payload: dict[str, Any]) -> str:
    model = payload.get("model")
    name = model.get("display_name") or model.get("id") if is_object(model) else None
    name = str(name or "")
    # A project's settings may set this name, and the client prints it to the terminal: it could
    # contain a secret or control characters. The rest of the line is numbers. Names such as
    # `Opus 4.8` or `claude-opus-4-8` skip the secret scanner, which takes as long to import as
    # everything else.
    return name if re.fullmatch(MODEL_NAME, name) else one_line(masked(name))


def _figures(status: Status) -> list[str]:
    parts = [f"{running_money(status.session_usd)} session"]
    if status.today_usd is not None:
        parts.append(f"{running_money(status.today_usd)} today")
    if status.window_ends:
        left = datetime.fromisoformat(status.window_ends).timestamp() - time.time()
        hours, minutes = divmod(max(0, int(left // 60)), 60)
        parts.append(f"{running_money(status.window_usd)} block, {hours}h {minutes:02}m left")
    return parts


def _context(payload: dict[str, Any], status: Status | None) -> str:
    """Return the fill level of the context, from the client or else the last request."""
    given = payload.get("context_window")
    share = given.get("used_percentage") if is_object(given) else None
    if isinstance(share, int | float):
        used = share / 100
    elif status and status.context_tokens:
        size = given.get("context_window_size") if is_object(given) else None
        known = size if isinstance(size, int) and size else _window_of(payload, status)
        used = status.context_tokens / known
    else:
        return ""
    colour = "red" if used >= FULL else "yellow" if used >= FILLING else "green"
    return style(f"context {used:.0%}", colour)


def _window_of(payload: dict[str, Any], status: Status) -> int:
    model = payload.get("model")
    name = model.get("id") if is_object(model) else None
    return window_of(str(name or status.model or ""))
