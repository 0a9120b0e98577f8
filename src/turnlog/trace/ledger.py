"""The delivery ledger: what is known of each route, for `hook status` and for ownership.

Senders change it under the lock of the spool's books.
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.format.regular_files import read_object
from turnlog.trace.route import Route
from turnlog.trace.sent_state import now_text, write_json

KEPT = 500
"""Routes that are remembered, the most recently used first."""


class RouteRecord(Struct):
    """How things stand with one route."""

    project: str
    target: str | None
    """The address; None if the settings name no usable target."""
    content: str
    queue: str = ""
    """The name of the target's queue."""
    used: str = ""
    """When something was last attempted."""
    announced: float = 0.0
    """When the newest hook that used it was called; routes of one call share it."""
    sent: str | None = None
    """When the target last took something."""
    failed: str | None = None
    reason: str | None = None
    """Why the last failed attempt failed."""
    withheld: str = ""
    """Why credentials are not sent along this route."""


class Ledger:
    """Every route that a sender has used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "routes.json"
        self.records: dict[str, RouteRecord] = {}
        for key, held in read_object(self.path).items():
            record = _record(held)
            if record:
                self.records[key] = record

    @property
    def projects(self) -> set[str]:
        """The directories of every project that ever announced anything."""
        return {record.project for record in self.records.values()}

    def open(self, route: Route, target: str | None) -> RouteRecord:
        """Return the record of a route, and remember the route as used now."""
        record = self.records.get(route.key)
        if record is None:
            record = RouteRecord(route.project, None, route.settings.content)
            self.records[route.key] = record
        record.target, record.used = target or record.target, now_text()
        record.queue = route.queue
        return record

    def newest(self) -> set[str]:
        """Return the keys of the routes that each project used last: one for each target."""
        last: dict[str, tuple[float, str]] = {}
        for record in self.records.values():
            when = record.announced, "" if record.announced else record.used
            last[record.project] = max(last.get(record.project, when), when)
        return {
            key
            for key, record in self.records.items()
            if (record.announced, "" if record.announced else record.used) == last[record.project]
        }

    def save(self) -> None:
        """Write the ledger atomically."""
        newest = sorted(self.records.items(), key=lambda each: each[1].used, reverse=True)
        self.records = dict(newest[:KEPT])
        write_json(self.path, msgspec.to_builtins(self.records))


def _record(held: Any) -> RouteRecord | None:
    try:
        return msgspec.convert(held, RouteRecord)
    except msgspec.ValidationError:
        return None
