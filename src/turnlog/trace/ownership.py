"""Decide which route a turn belongs to: its traces are sent along that route only.

A session may be resumed in a worktree, continued in another directory or copied by a fork. Its file
then contains turns of several projects. A turn belongs to the route of the hook that announced it,
or else to the project it was recorded in. A turn that worked in a switched-off directory belongs to
none.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from turnlog.conversation.session import Session
from turnlog.format.entries import ChainEntry, Entry
from turnlog.format.fields import given
from turnlog.format.json_values import is_array
from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import read_object
from turnlog.store.paths import folder_name
from turnlog.trace.sent_state import write_json
from turnlog.trace.span_times import nanoseconds, nearest_time, seconds
from turnlog.trace.spans import loose_by_turn
from turnlog.trace.spool import HookNote
from turnlog.trace.switch import Switches, ancestors, nearest
from turnlog.trace.work import NOTHING, Past, Work, all_subagents

SWITCHED_OFF = "worked in a directory that was switched off"
KEPT = 2000
"""Maximum number of announcements kept per session; older turns count as unannounced."""


class Announcement(NamedTuple):
    """A hook call for a session: when, along which route, and whether a client started."""

    time: float
    is_start: bool
    project: str
    route: str


class Ownership(Struct, frozen=True):
    """Decides which turns may be sent along one route."""

    folder: Path
    """The state folder, which contains the announcements."""
    project: str
    route: str
    known: frozenset[str]
    """Every directory known to be a project."""
    switches: Switches

    def foreign_turns(
        self, session: Session, turns: list[Work], past: Past = NOTHING
    ) -> dict[int, str]:
        """Return why turns must not be sent along this route, by their numbers.

        The reason is empty for a turn that another route sends.
        """
        history = load_announcements(self.folder, session.path.stem)
        announced = _announcements_of(turns, history)
        is_home = session.path.parent.name == folder_name(self.project)
        found: dict[int, str] = {}
        for turn in turns:
            announcers = {item.project for item in announced.get(turn.n, ())}
            if not self._is_current(announced.get(turn.n) or _before(history, turn)):
                found[turn.n] = ""
            elif (reason := self._why_foreign(turn, announcers, is_home)) is not None:
                found[turn.n] = reason
        return found | dict.fromkeys(self._turns_off(session, turns, past), SWITCHED_OFF)

    def _is_current(self, announcements: Sequence[Announcement]) -> bool:
        """Return whether this route was the project's at the time of a turn, or none was known."""
        own = [item for item in announcements if item.project == self.project]
        # A hook that sends to several targets announces a turn on several routes at the same time.
        last = {item.route for item in own if item.time == own[-1].time}
        return not own or self.route in last

    def _why_foreign(self, turn: Work, announcers: set[str], is_home: bool) -> str | None:
        """Return why a turn is not this project's, as in `foreign_turns`; None if it is."""
        cwd = _cwd_of(turn)
        # Announced only by other projects: the turn is theirs, wherever it worked.
        if announcers and self.project not in announcers:
            return ""
        if cwd is None:  # early clients and other exporters write none
            is_own = is_home and announcers <= {self.project}
            return None if is_own else "recorded without a working directory"
        owner = nearest(cwd, self.known | {self.project})
        if announcers == {self.project}:
            is_inside = self.project in ancestors(cwd)
            # After `cd` to an added directory, the turn is still this project's, unless that
            # directory belongs to another known project.
            is_own = is_inside or (is_home and owner is None)
        else:
            # No hook announced the turn, or several projects had the session open at once.
            is_own = owner == self.project
        if is_own:
            return None
        return "" if owner in announcers else f"recorded in {cwd}, not in {self.project}"

    def _turns_off(self, session: Session, turns: list[Work], past: Past) -> frozenset[int]:
        """Return the turns that worked in a directory while it was switched off.

        The client may run in a parent of such a directory and `cd` into it; a sub-agent may work
        there while its turn continues elsewhere.
        """
        if not self.switches.has_off:  # the usual case: no need to read the lines again
            return frozenset()
        crew = all_subagents(session, turns, past)
        # A loose sub-agent counts for one turn while the session runs, and maybe for another after
        # it has ended: check both.
        loose = [loose_by_turn(turns, crew.loose, ended) for ended in (True, False)]
        found: set[int] = set()
        for turn in turns:
            works = [turn, *(work for by_turn in loose for work in by_turn.get(turn.n, []))]
            for work in works:  # the list grows by the sub-agents of sub-agents
                started = (agent for call in work.calls for agent in crew.started.get(call.id, []))
                works += [agent for agent in started if not any(agent is old for old in works)]
            if not all(map(self._was_on, works)):
                found.add(turn.n)
        return frozenset(found)

    def _was_on(self, work: Work) -> bool:
        folders = {self.project, *_folders_of(work)}
        times = [seconds(time) for node in work.nodes if (time := nanoseconds(node.time))]
        if not times:
            return all(map(self.switches.is_on, folders))
        return all(self.switches.was_on(folder, min(times), max(times)) for folder in folders)


def record_announcements(folder: Path, notes: Iterable[HookNote]) -> None:
    """Save which projects announced which sessions, and when."""
    sessions: dict[str, list[Announcement]] = {}
    for note in notes:
        if not note.is_backfill:
            announced = Announcement(note.time, note.is_start, note.route.project, note.route.key)
            sessions.setdefault(note.transcript.stem, []).append(announced)
    for session, announced in sessions.items():
        before = load_announcements(folder, session)
        after = sorted({*before, *announced})[-KEPT:]
        if after != before:
            path = _path(folder, session)
            secure_folder(path.parent, must_own=True)
            write_json(path, {"announcements": after})


def load_announcements(folder: Path, session: str) -> list[Announcement]:
    """Return the announcements of a session, the oldest first."""
    stored = read_object(_path(folder, session)).get("announcements")
    return [
        Announcement(item[0], item[1], item[2], item[3])
        for item in (stored if is_array(stored) else [])
        if is_array(item) and len(item) == 4 and isinstance(item[0], float)
    ]


def _announcements_of(
    turns: Iterable[Work], history: Iterable[Announcement]
) -> dict[int, list[Announcement]]:
    """Return the announcements of each turn, by turn number.

    A hook announces the turn that is running when it is called. A start announces nothing, and
    hooks of a client started later do not announce the last turn of an earlier client.
    """
    began = [(seconds(time), turn.n) for turn in turns if (time := nearest_time(turn))]
    found: dict[int, list[Announcement]] = {}
    started = 0.0
    for announcement in history:
        if announcement.is_start:
            started = announcement.time
            continue
        before = [entry for entry in began if entry[0] <= announcement.time]
        if before and (latest := max(before))[0] >= started:
            found.setdefault(latest[1], []).append(announcement)
    return found


def _before(history: Sequence[Announcement], turn: Work) -> list[Announcement]:
    """Return the announcements from before a turn began."""
    start = seconds(nearest_time(turn) or 0)
    return [announcement for announcement in history if announcement.time <= start]


def _cwd_of(turn: Work) -> str | None:
    cwd = _recorded_cwd(turn.session.entry(turn.first))
    return os.path.realpath(cwd) if cwd else None


def _folders_of(work: Work) -> set[str]:
    """Return the working directories of some work, as recorded and with links resolved."""
    written = set(filter(None, map(_recorded_cwd, work.session.entries(work.nodes))))
    return {*map(os.path.normpath, written), *map(os.path.realpath, written)}


def _recorded_cwd(entry: Entry) -> str | None:
    cwd = given(entry.cwd) if isinstance(entry, ChainEntry) else None
    return cwd if cwd and cwd.startswith("/") and "\0" not in cwd else None


def _path(folder: Path, session: str) -> Path:
    return folder / "announcements" / f"{session}.json"
