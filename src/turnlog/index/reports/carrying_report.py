"""Report the carrying costs of all sessions by project, session, tool or file, or as a tree.

A filter on time selects turns; their content counts with everything that it has cost since.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.format.timestamps import parse_timestamp
from turnlog.index.database import Index
from turnlog.index.reports.carrying_costs import (
    CarriedPart,
    CarriedSession,
    CarriedTurn,
    session_costs,
)
from turnlog.index.reports.reports import CARRYING, Filters, Report, Row
from turnlog.index.sync_policy import Progress
from turnlog.secrets import mask, mask_start

FIGURES = ("items", "bytes", "sent", "carried_usd", "output_usd", "cost_usd")
NO_PROJECT, NO_FILE, NO_TURN = "no project", "no file", "no turn"
LONGEST_NAME = 100
"""Maximum characters of a name in a tree."""


class _Piece(NamedTuple):
    """A part of a session, with the session and the turn it belongs to."""

    session: CarriedSession
    turn: CarriedTurn | None
    part: CarriedPart


DIMENSIONS: dict[str, Callable[[_Piece], str | None]] = {
    "store": lambda piece: piece.session.store,
    "project": lambda piece: piece.session.project,
    "session": lambda piece: piece.session.id,
    "tool": lambda piece: piece.part.tool,
    "file": lambda piece: piece.part.file,
}


def carrying_report(
    index: Index, filters: Filters, by: tuple[str, ...], progress: Progress
) -> Report:
    """Add up the carrying costs of all sessions, by tool unless other dimensions are given."""
    dimensions = by or ("tool",)
    unknown = [name for name in dimensions if name not in DIMENSIONS]
    if unknown:
        known = ", ".join(DIMENSIONS)
        hint = "turnlog stats carrying --by project,tool"
        raise UsageError(f"cannot group carrying costs by {unknown[0]}: choose from {known}", hint)
    sessions = list(_sessions(index, filters, progress))
    rows: dict[tuple[str | None, ...], Row] = {}
    members: dict[tuple[str | None, ...], set[str]] = {}
    for piece in _pieces(sessions, filters):
        key = tuple(DIMENSIONS[name](piece) for name in dimensions)
        if key not in rows:
            rows[key] = _head(dimensions, key, piece) | dict.fromkeys(FIGURES, 0)
        _add(rows[key], piece.part)
        members.setdefault(key, set()).add(piece.session.id)
    found = [
        row if "session" in dimensions else _with_sessions(row, len(dimensions), len(members[key]))
        for key, row in rows.items()
    ]
    found.sort(key=lambda row: -float(str(row["cost_usd"])))
    return Report(CARRYING, _columns(dimensions), found, _total(rows.values()), _unpriced(sessions))


def nest_costs(
    index: Index,
    filters: Filters,
    progress: Progress,
    least: float = 0.0005,
) -> dict[str, Any]:
    """Return the costs as nested {name, key, value, children}: project, session, turn, tool, file.

    `key` identifies a node among its siblings: the id of a session, the line of a turn. Siblings
    whose share of the total is below `least` are merged into one node.
    """
    root = _node("all sessions", "")
    for piece in _pieces(_sessions(index, filters, progress), filters):
        node = root
        node["value"] += piece.part.cost
        for key, name in _path(piece):
            node = node["children"].setdefault(key, _node(name, key))
            node["value"] += piece.part.cost
    return _pruned(root, root["value"] * least)


def _sessions(index: Index, filters: Filters, progress: Progress) -> Iterator[CarriedSession]:
    if filters.model is not None:
        # A request of one model carries what another model wrote.
        raise UsageError("carrying costs cannot be filtered by model", "turnlog stats carrying")
    return session_costs(index, filters.project, progress)


def _pieces(sessions: Iterable[CarriedSession], filters: Filters) -> Iterator[_Piece]:
    is_timed = filters.since is not None or filters.until is not None
    for session in sessions:
        turns = session.costs.turns
        chosen = [not is_timed or _is_within(turn.time, filters) for turn in turns]
        for part in session.costs.parts:
            if part.turn is None:
                if not is_timed:
                    yield _Piece(session, None, part)
            elif chosen[part.turn]:
                yield _Piece(session, turns[part.turn], part)


def _is_within(time: str | None, filters: Filters) -> bool:
    moment = parse_timestamp(time)
    if moment is None:
        return False
    at = moment.timestamp()
    is_late = filters.since is None or at >= filters.since
    return is_late and (filters.until is None or at < filters.until)


def _head(dimensions: tuple[str, ...], key: tuple[str | None, ...], piece: _Piece) -> Row:
    row: Row = dict(zip(dimensions, key, strict=True))
    if "session" in dimensions:
        row["title"] = piece.session.title
        row["project"] = piece.session.project
    return row


def _with_sessions(row: Row, place: int, sessions: int) -> Row:
    """Return a row with the number of sessions inserted after its dimensions."""
    cells = list(row.items())
    return dict([*cells[:place], ("sessions", sessions), *cells[place:]])


def _columns(dimensions: tuple[str, ...]) -> list[str]:
    if "session" not in dimensions:
        return [*dimensions, "sessions", *FIGURES]
    return list(dict.fromkeys([*dimensions, "title", "project", *FIGURES]))


def _add(row: dict[str, Any], part: CarriedPart) -> None:
    row["items"] += part.items
    row["bytes"] += part.bytes
    row["sent"] += part.sent
    row["carried_usd"] += part.carried
    row["output_usd"] += part.own
    row["cost_usd"] += part.cost


def _total(rows: Iterable[dict[str, Any]]) -> Row:
    found = list(rows)
    return {name: sum(row[name] for row in found) for name in FIGURES}


def _unpriced(sessions: Iterable[CarriedSession]) -> list[str]:
    return sorted({model for session in sessions for model in session.costs.unpriced})


def _path(piece: _Piece) -> Iterator[tuple[str, str]]:
    """Yield the key and the name of each node that contains a part, from the top down."""
    session, turn, part = piece
    yield session.project or "", session.project or NO_PROJECT
    yield session.id, session.title or session.id
    if not part.is_system:
        # The system prompt is paid for in every turn; it gets a place beside the turns.
        yield (f"{turn.line}", f"{turn.n} {turn.title}".strip()) if turn else ("", NO_TURN)
    yield part.tool, part.tool
    if part.file:
        yield part.file, part.file


def _node(name: str, key: str) -> dict[str, Any]:
    return {
        "name": mask_start(name, LONGEST_NAME),
        "key": mask(key),
        "value": 0.0,
        "children": {},
    }


def _pruned(node: dict[str, Any], least: float) -> dict[str, Any]:
    """Return a node with a sorted list of children; small ones are merged into one."""
    children: list[dict[str, Any]] = sorted(
        node["children"].values(), key=lambda child: -child["value"]
    )
    kept = [_pruned(child, least) for child in children if child["value"] >= least]
    rest = children[len(kept) :]
    if rest:
        merged = sum(child["value"] for child in rest)
        kept.append({"name": f"{len(rest)} more", "key": "", "value": merged, "children": []})
    return node | {"children": kept}
