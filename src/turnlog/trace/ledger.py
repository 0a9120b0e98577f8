"""The delivery ledger: the state of each route, for `hook status` and for ownership.

Senders change it only while they hold `Spool.lock_books`.
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.format.regular_files import read_object
from turnlog.trace.route import Route
from turnlog.trace.sent_state import now_text, write_json

KEPT = 500
"""Maximum number of routes kept; the least recently used are dropped."""


class RouteRecord(Struct):
    """The state of one route."""

    project: str
    target: str | None
    """The address; None if the settings name no usable target."""
    content: str
    queue: str = ""
    """The name of the target's queue."""
    used: str = ""
    """Time of the last attempt."""
    announced: float = 0.0
    """Time of the newest hook call that used the route; routes of one call share it."""
    sent: str | None = None
    """Time at which the target last accepted spans."""
    failed: str | None = None
    reason: str | None = None
    """Error of the last failed attempt."""
    withheld: str = ""
    """The reason why credentials are not sent on this route."""


class Ledger:
    """Every route that a sender has used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "routes.json"
        self.records: dict[str, RouteRecord] = {}
        for key, stored in read_object(self.path).items():
            record = _record(stored)
            if record:
                self.records[key] = record

    @property
    def projects(self) -> set[str]:
        """The directory of every project with a recorded route."""
        return {record.project for record in self.records.values()}

    def open(self, route: Route, target: str | None) -> RouteRecord:
        """Return the record of a route, created if necessary, and mark the route as used now."""
        record = self.records.get(route.key)
        if record is None:
            record = RouteRecord(route.project, None, route.settings.content)
            self.records[route.key] = record
        record.target, record.used = target or record.target, now_text()
        record.queue = route.queue
        return record

    def newest(self) -> set[str]:
        """Return the keys of the routes that each project used last, one per target."""
        # Records without an announcement are compared by the time of their last attempt.
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
        newest = sorted(self.records.items(), key=lambda item: item[1].used, reverse=True)
        self.records = dict(newest[:KEPT])
        write_json(self.path, msgspec.to_builtins(self.records))


def _record(stored: Any) -> RouteRecord | None:
    try:
        return msgspec.convert(stored, RouteRecord)
    except msgspec.ValidationError:
        return None
