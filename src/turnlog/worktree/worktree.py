"""The files of a session at any moment, per branch.

`Worktree` collects the sightings of files; `versions` folds them into states. Only lines of the
branch count as evidence, but commands on any branch may have changed a file.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shlex import quote

from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session
from turnlog.errors import Ambiguous, NotFound
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.secrets import MASKED
from turnlog.worktree.agent_sources import Source, sources_of
from turnlog.worktree.beliefs import (
    NOTHING,
    Belief,
    Certainty,
    EditedPart,
    Observation,
    belief_after,
    belief_before,
    doubted,
    gaps_of,
)
from turnlog.worktree.file_names import FileName, file_name, matches, may_be_same
from turnlog.worktree.hazards import Hazard, Hazards, hazards_of, removal_hazards
from turnlog.worktree.history_blobs import BackedUp, backups_of, history_folder
from turnlog.worktree.moved_roots import former_roots, moved_name, working_root
from turnlog.worktree.places import AT, BEHIND, END, START, MainClock, SessionPosition
from turnlog.worktree.sightings import (
    FILE_HISTORY,
    Sighting,
    change_under_way,
    lost_changes,
    overlapping_changes,
    rivals_in,
    sightings_in,
    unfinished,
    unordered_changes,
    with_late_backups,
)

REDACTED = re.compile(MASKED.encode())


@dataclass(frozen=True, slots=True)
class FileRevision:
    """A state of a file, and the line that shows it."""

    name: FileName
    place: SessionPosition
    belief: Belief
    tool: str
    """The tool, `file history`, `attachment`, `edited outside`, `file below` or `file above`."""
    line: int
    """The line in the session's file, or in that of the sub-agent."""
    time: str | None
    is_change: bool
    """True if the file was changed there, False if it was only seen."""
    call_id: str | None = None
    agent_id: str | None = None
    edit: EditedPart | None = None
    """The edit that led to this state, if an edit did."""

    @property
    def path(self) -> str:
        return self.name.path

    @property
    def certainty(self) -> Certainty:
        return self.belief.certainty

    @property
    def content(self) -> bytes | None:
        """The whole content; None for a gap and for a file that does not exist."""
        return self.belief.raw

    @property
    def is_absent(self) -> bool:
        return self.belief.is_absent

    @property
    def gaps(self) -> list[tuple[int, int | None]]:
        """Ranges of unknown lines; None stands for the end of the file."""
        return gaps_of(self.belief)


@dataclass(frozen=True, slots=True)
class Branch:
    """The lines of a branch that count as evidence."""

    nodes: frozenset[int]
    """Indexes of the branch's nodes."""

    def holds(self, sighting: Sighting, parent: ChainNode | None) -> bool:
        """Return whether a sighting is on the branch; `parent` is the message of a backup."""
        if sighting.source.call:
            return sighting.source.call.use.index in self.nodes
        # Without its call, the branch that started a sub-agent is unknown, but its changes count.
        if sighting.source.agent:
            return True
        if sighting.backup:
            return parent is None or parent.index in self.nodes
        return sighting.node.index in self.nodes


class Worktree:
    """The files that a session and its sub-agents read or changed."""

    def __init__(self, session: Session, folder: Path | None = None) -> None:
        """`folder` contains the session's backups; the default is the one in its store."""
        self.session = session
        self.folder = folder or history_folder(session.path)
        self._clock = MainClock(session)
        self._observed: dict[int, Observation | None] = {}
        self._branches: dict[int | None, Branch] = {}
        self._versions: dict[tuple[str, int | None], list[FileRevision]] = {}

    @cached_property
    def root(self) -> str | None:
        """The directory that the session was started in."""
        for node in self.session.nodes:
            if isinstance(node, ChainNode):
                entry = self.session.entry(node)
                if isinstance(entry, ChainEntry) and (cwd := given(entry.cwd)):
                    return cwd
        return None

    @cached_property
    def files(self) -> dict[str, FileName]:
        """All files with evidence, in order of first appearance, by key."""
        found: dict[str, FileName] = {}
        for key, sightings in self._sightings.items():
            found[key] = sightings[0].name
        return found

    @property
    def changed_files(self) -> list[FileName]:
        """The files that were changed, on any branch."""
        return [
            name
            for key, name in self.files.items()
            if any(each.is_change for each in self._sightings[key])
        ]

    def changers(self, name: FileName) -> list[Sighting]:
        """Return the sightings that changed a file, on any branch, in order."""
        return [each for each in self._sightings.get(name.key, []) if each.is_change]

    def lines_about(self, key: str) -> list[tuple[int, int]]:
        """Return the use and result lines of the session's own calls and attachments on a file."""
        own = (each for each in self._sightings.get(key, []) if not each.source.agent)
        return [
            (each.call.use.line if each.call else each.node.line, each.node.line)
            for each in own
            if not (each.backup or each.rival)
        ]

    def known(self, path: str) -> FileName | None:
        """Return the file with a path, which may be from before the session was moved."""
        name = moved_name(file_name(path, self.root), self._former_roots, self.root)
        return self.files.get(name.key)

    def find(self, path: str) -> FileName:
        """Return the file that a user means: by its path, or the last parts of it."""
        if known := self.known(path):
            return known
        found = [name for name in self.files.values() if matches(name, path, self.root)]
        if len(found) > 1:
            paths = [name.path for name in found]
            raise Ambiguous(f"{path!r} matches {len(found)} files", paths)
        if not found:
            hint = f"turnlog files {quote(self.session.id)}"
            raise NotFound(f"{self.session.id} neither read nor changed {path}", hint)
        return found[0]

    def versions(
        self, name: FileName, leaf: int | None = None, until: SessionPosition = END
    ) -> list[FileRevision]:
        """Return the states of a file on a branch, in order, up to a place."""
        key = (name.key, leaf)
        if key not in self._versions:
            self._versions[key] = list(self._fold(name, leaf))
        return [version for version in self._versions[key] if version.place <= until]

    def _fold(self, name: FileName, leaf: int | None) -> Iterator[FileRevision]:
        earlier: list[Belief] = []
        previous = START
        belief = NOTHING
        hazards = self._hazards_for(name, leaf)
        disorder = [*self._removals, *unordered_changes(self._sightings.get(name.key, []))]
        for sighting in self._on_branch(name, leaf):
            seen = self._observe(sighting)
            if seen is None:
                continue
            # First doubt, then observe: a command in between may have changed the file, but the
            # next read proves its content again.
            belief = self._aged(belief, previous, sighting.place, hazards)
            if sighting.rival and belief.is_absent and belief.certainty is Certainty.EXACT:
                continue
            belief = _unless_redacted(belief_after(belief, seen, earlier))
            # Where even the order of events is not known, no observation is certain.
            for each in disorder:
                if each.start <= sighting.place <= each.end:
                    belief = doubted(belief, f"{each.what} may have changed it")
            earlier.append(belief)
            previous = sighting.place
            edit = seen if isinstance(seen, EditedPart) else None
            yield replace(_version(sighting, belief), edit=edit)

    def at(self, name: FileName, place: SessionPosition, leaf: int | None = None) -> FileRevision:
        """Return the state of a file at a place of a branch."""
        versions = self.versions(name, leaf, place)
        if not versions:
            return self._in_hindsight(name, place, leaf)
        last = versions[-1]
        belief = self._aged(last.belief, last.place, place, self._hazards_for(name, leaf))
        change = change_under_way(self._sightings.get(name.key, []), place)
        if change and change.call:
            belief = doubted(belief, f"{change.tool} in line {change.call.use.line} is under way")
        return replace(last, belief=belief)

    def base(self, name: FileName, leaf: int | None = None) -> FileRevision:
        """Return the state of a file just before the first line that shows or changes it."""
        for sighting in self._on_branch(name, leaf):
            seen = self._observe(sighting)
            if seen is not None:
                version = _version(sighting, belief_before(NOTHING, seen))
                return replace(version, is_change=False)
        return FileRevision(name, START, NOTHING, "", 0, None, is_change=False)

    def place_of_line(self, line: int) -> SessionPosition:
        """Return the place of a line: everything up to it has happened."""
        node = self.session.node_at(line)
        return self._clock.place(node) if node else SessionPosition(line, AT)

    def place_of_turn(self, nodes: Iterable[ChainNode]) -> SessionPosition:
        """Return the place of a turn's end, given its nodes."""
        last = max((self._clock.place(node).line for node in nodes), default=0)
        return SessionPosition(last, BEHIND)

    @cached_property
    def sources(self) -> list[Source]:
        """The session and its sub-agents."""
        return sources_of(self.session, self._clock)

    @cached_property
    def _sightings(self) -> dict[str, list[Sighting]]:
        found: dict[str, list[Sighting]] = {}
        for sighting in (*map(self._after_move, self._recorded), *self._backups()):
            found.setdefault(sighting.name.key, []).append(sighting)
        for rival in list(rivals_in(found)):
            found[rival.name.key].append(rival)
        for sightings in found.values():
            sightings.sort(key=lambda each: each.place)
        order = sorted(found, key=lambda key: found[key][0].place)
        return {key: with_late_backups(found[key]) for key in order}

    @cached_property
    def _recorded(self) -> list[Sighting]:
        return [each for source in self.sources for each in sightings_in(source)]

    @cached_property
    def _former_roots(self) -> list[str]:
        return former_roots(self._recorded, self._listed_backups, self.root)

    @cached_property
    def _listed_backups(self) -> list[BackedUp]:
        return backups_of(self.session, self.root, self.folder)

    def _after_move(self, sighting: Sighting) -> Sighting:
        name = moved_name(sighting.name, self._former_roots, self.root)
        return replace(sighting, name=name, recorded=sighting.name)

    def root_of(self, name: FileName) -> str | None:
        """Return the project directory of a file, usually the session's."""
        return working_root(self._sightings.get(name.key, []), self.root)

    def _backups(self) -> Iterable[Sighting]:
        main = self.sources[0]
        for backup in self._listed_backups:
            node = self._message(backup.message_id) or self.session.node_at(backup.line)
            if node is None:
                continue
            place = self._clock.place(node)
            if backup.is_before_change:
                # Right behind the call and before its result, also where that has the same line,
                # because it was written first (observed: 2.1.45).
                place = self._agent_place(backup.message_id) or place._replace(inner=1)
            yield Sighting(
                backup.name, place, node, main, FILE_HISTORY, is_change=False, backup=backup
            )

    def _agent_place(self, uuid: str | None) -> SessionPosition | None:
        """Return the place of a sub-agent's message, whose backups the session's file lists."""
        for source in self.sources[1:]:
            rank = source.session.tree.rank_of(uuid)
            if rank is not None and self._message(uuid) is None:
                return source.place(source.session.tree.chain[rank])
        return None

    def _message_of(self, sighting: Sighting) -> ChainNode | None:
        return self._message(sighting.backup.message_id) if sighting.backup else None

    def _message(self, uuid: str | None) -> ChainNode | None:
        rank = self.session.tree.rank_of(uuid)
        return None if rank is None else self.session.tree.chain[rank]

    @cached_property
    def _hazards(self) -> Hazards:
        return Hazards(hazard for _, own in self._hazards_by_agent for hazard in own)

    @cached_property
    def _hazards_by_agent(self) -> list[tuple[str | None, Hazards]]:
        """The hazards of the session and of each sub-agent."""
        agents = [source.agent for source in self.sources if source.agent]
        known = {agent.call_id for agent in agents if agent.call_id}
        found: list[tuple[str | None, Hazards]] = []
        for source in self.sources:
            own = hazards_of(source.session, source.place, known, source.agent is None)
            name = source.agent.id if source.agent else None
            found.append((name, Hazards(each.within(source.doubt) for each in own)))
        return found

    @cached_property
    def _removals(self) -> list[Hazard]:
        return list(removal_hazards(self.session, self._clock.place))

    def _parallel_hazards(self, sightings: list[Sighting]) -> Iterator[Hazard]:
        """Yield the hazards of other agents during a call, which may follow the call's change.

        An agent's own hazards lie before or after its calls. A hazard of another agent may lie
        between the change and the line with its result.
        """
        for sighting in sightings if len(self.sources) > 1 else []:
            if sighting.call is None:
                continue
            start, end = sighting.source.place(sighting.call.use), sighting.place
            for agent, hazards in self._hazards_by_agent:
                if agent != sighting.agent_id and (found := hazards.between(start, end)):
                    yield Hazard(found.start, end._replace(order=end.order + 1), found.what)

    @cached_property
    def _unfinished(self) -> dict[str, list[Hazard]]:
        found: dict[str, list[Hazard]] = {}
        for source in self.sources:
            for recorded, hazard in unfinished(source):
                name = moved_name(recorded, self._former_roots, self.root)
                found.setdefault(name.key, []).append(hazard)
        return found

    def _hazards_for(self, name: FileName, leaf: int | None) -> Sequence[Hazards]:
        """Return the hazards of a file: those of all files, and changes on other branches."""
        own = list(self._unfinished.get(name.key, []))
        branch = self._branch(leaf)
        sightings = self._sightings.get(name.key, [])
        for sighting in sightings:
            if sighting.is_change and not branch.holds(sighting, None):
                what = f"{sighting.tool} in line {sighting.node.line} of another branch"
                own.append(Hazard(sighting.place, sighting.place, what))
        # Concurrent changes by several agents, changes that a stripped clone lost, and hazards of
        # other agents during a call.
        own += overlapping_changes(sightings)
        own += unordered_changes(sightings)
        own += self._removals
        own += lost_changes(sightings)
        own += self._parallel_hazards(sightings)
        for other in self._by_case.get(_loose(name.key), []):
            # The same file where names are compared ignoring case and Unicode form, as on a Mac.
            if other.name.key != name.key:
                what = f"{other.tool} of {other.name.path}"
                own.append(Hazard(other.place, other.place, what))
        own += self._home_hazards(name)
        return (self._hazards, Hazards(own))

    def _home_hazards(self, name: FileName) -> Iterator[Hazard]:
        """Yield the changes of files that may be this one, such as `~/a` and `/home/me/a`."""
        short = name.key.startswith("~/")
        for other in self.files.values() if short else self._below_home:
            if other.key != name.key and may_be_same(name, other):
                for each in self.changers(other):
                    yield Hazard(each.place, each.place, f"{each.tool} of {other.path}")

    @cached_property
    def _below_home(self) -> list[FileName]:
        return [name for name in self.files.values() if name.key.startswith("~/")]

    @cached_property
    def _by_case(self) -> dict[str, list[Sighting]]:
        """All changes of files, by path with case and Unicode form ignored, as on a Mac."""
        found: dict[str, list[Sighting]] = {}
        for key, sightings in self._sightings.items():
            changes = [each for each in sightings if each.is_change]
            found.setdefault(_loose(key), []).extend(changes)
        return found

    def _aged(
        self,
        belief: Belief,
        seen: SessionPosition,
        until: SessionPosition,
        hazards: Sequence[Hazards],
    ) -> Belief:
        # Only an exact belief can become less certain; a second reason for doubt adds nothing.
        if belief.certainty is not Certainty.EXACT:
            return belief
        for each in hazards:
            if hazard := each.between(seen, until):
                where = f"exact as of line {seen.line}; {hazard.what} may have changed it"
                return doubted(belief, where)
        return belief

    def _in_hindsight(
        self, name: FileName, place: SessionPosition, leaf: int | None
    ) -> FileRevision:
        """Return the state before the first evidence, as far as the evidence reveals it."""
        hazards = self._hazards_for(name, leaf)
        for sighting in self._on_branch(name, leaf):
            seen = self._observe(sighting)
            if seen is None:
                continue
            belief = belief_before(NOTHING, seen)
            reason = f"first seen in line {sighting.node.line}"
            # `make` before the first read may have written the file, so the read says nothing
            # about the state before that.
            if any(each.between(place, sighting.place) for each in hazards):
                belief = replace(NOTHING, reason=f"{reason}, and it may have changed before")
            elif belief.certainty is not Certainty.GAP:
                belief = replace(belief, certainty=Certainty.DERIVED, reason=reason)
            return replace(_version(sighting, belief), is_change=False)
        return FileRevision(name, place, NOTHING, "", 0, None, is_change=False)

    def _on_branch(self, name: FileName, leaf: int | None) -> list[Sighting]:
        branch = self._branch(leaf)
        return [
            each
            for each in self._sightings.get(name.key, [])
            if branch.holds(seen := each.rival or each, self._message_of(seen))
        ]

    def _branch(self, leaf: int | None) -> Branch:
        if leaf not in self._branches:
            rank = self.session.tree.active_leaf if leaf is None else leaf
            nodes = self.session.branch_to(rank)
            self._branches[leaf] = Branch(frozenset(node.index for node in nodes))
        return self._branches[leaf]

    def _observe(self, sighting: Sighting) -> Observation | None:
        # By identity: `_sightings` keeps every sighting alive, so no id is used twice.
        key = id(sighting)
        if key not in self._observed:
            self._observed[key] = sighting.observe(self.folder)
        return self._observed[key]


def _loose(key: str) -> str:
    return unicodedata.normalize("NFC", key).casefold()


def _unless_redacted(belief: Belief) -> Belief:
    """Downgrade an exact belief if `turnlog redact` may have replaced a part of the content."""
    # In UTF-16, a zero byte follows each ASCII character.
    raw = belief.raw.replace(b"\0", b"") if belief.raw else b""
    if belief.certainty is Certainty.EXACT and REDACTED.search(raw):
        return doubted(belief, "it may have redacted values")
    return belief


def open_worktree(session: Session, folder: Path | None = None) -> Worktree:
    """Return the files of a session; `folder` contains its backups, by default in its store."""
    return Worktree(session, folder)


def _version(sighting: Sighting, belief: Belief) -> FileRevision:
    return FileRevision(
        sighting.name,
        sighting.place,
        belief,
        sighting.tool,
        sighting.node.line,
        sighting.node.time,
        sighting.is_change,
        sighting.call.id if sighting.call else None,
        sighting.agent_id,
    )
