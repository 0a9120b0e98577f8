"""turnlog entries: one row per line of a session file."""

from typing import Any

import click

from turnlog.cli.arguments import json_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json_line, fit, plain, plain_masked, size, width
from turnlog.cli.preview import preview
from turnlog.cli.terminal import Look, dim, echo_masked, style
from turnlog.format.decode import decode_line
from turnlog.format.entries import Entry
from turnlog.format.fields import given
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.kinds import kind_of
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.find import find_session
from turnlog.store.paths import Store

KIND_WIDTH = 22


@click.command("entries")
@session_argument
@reveal_switch
@json_option
@click.pass_obj
def command(store: Store, session: str, as_json: bool) -> None:
    """List the entries of SESSION, one row per line."""
    for line in read_lines(find_session(store, session).path):
        show_line(line, as_json)


def show_line(line: Line, as_json: bool) -> None:
    """Print what a line holds: a row, or a JSON object, for each entry."""
    decoded = decode_line(line)
    problem = "; ".join(decoded.problems)
    entries: tuple[Entry | None, ...] = decoded.entries
    for entry in entries or ((None,) if problem else ()):
        if as_json:
            echo_json_line(_fields(line, entry) | ({"problem": problem} if problem else {}))
        else:
            echo_masked(_row(line, entry, problem))


def _fields(line: Line, entry: Entry | None) -> dict[str, Any]:
    kind = kind_of(entry) if entry else None
    return {
        "line": line.number or None,
        "offset": line.offset,
        "type": kind.partition("/")[0] if kind else None,
        "subtype": given(getattr(entry, "subtype", None)),
        "kind": kind,
        "uuid": given(getattr(entry, "uuid", None)),
        "parent_uuid": given(getattr(entry, "parent_uuid", None)),
        "timestamp": entry.when if entry else None,
    }


def _row(line: Line, entry: Entry | None, problem: str) -> str:
    moment = parse_timestamp(entry.when) if entry else None
    clock = moment.astimezone().strftime("%H:%M:%S") if moment else ""
    before = f"{line.number or '':>6}  {clock:8}  {size(len(line.raw)):>7}  "
    warning = f"{plain(problem)}  " if problem else ""
    room = width() - len(before) - KIND_WIDTH - 2 - len(warning)
    about = fit(plain_masked(preview(entry, room)), room).rstrip() if entry else ""
    kind = fit(_kind(kind_of(entry)) if entry else "-", KIND_WIDTH)
    return f"{dim(before)}{style_kind(kind)}  {style(warning, 'red')}{about}"


def _kind(kind: str) -> str:
    return plain(kind).removeprefix("system/")


def style_kind(kind: str) -> str:
    """A kind in the colour of who speaks."""
    colours: dict[str, Look] = {"user": "green", "assistant": "cyan"}
    return style(kind, colours.get(kind.strip()))
