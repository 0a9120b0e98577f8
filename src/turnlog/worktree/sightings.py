"""Collect where a session and its sub-agents mention files, without reading the contents yet."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, zip_longest
from pathlib import Path

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import AssistantNode, Node
from turnlog.conversation.prompts import PUT_OFF, REFUSED
from turnlog.conversation.session import Session
from turnlog.format.entries import Attachment, ChainEntry
from turnlog.format.fields import given
from turnlog.format.file_views import FileAttachment
from turnlog.format.fit import fit
from turnlog.worktree.agent_sources import Source
from turnlog.worktree.beliefs import (
    EditedPart,
    Observation,
    ShellEdit,
    UnknownChange,
    WholeContent,
    WholeText,
    WrittenText,
    shows_file,
)
from turnlog.worktree.evidence import (
    OBSERVERS,
    CallRecord,
    observe_attachment,
    observe_call,
    observe_shell,
    path_in,
    read_record,
    version_number,
)
from turnlog.worktree.file_names import FileName, file_name, keys_above
from turnlog.worktree.hazards import SHELLS, Hazard
from turnlog.worktree.history_blobs import LISTED_AGAIN, BackedUp, read_backup
from turnlog.worktree.places import END, SessionPosition
from turnlog.worktree.text_style import UNKNOWN_CHARACTER, decode_file, without_mark

ATTACHED = ("attachment/edited_text_file", "attachment/file")
EDITED_OUTSIDE = "attachment/edited_text_file"
SHELL_CHANGES = b'"bashEditDiff"'
MISSING = re.compile(r"(<tool_use_error>|Error: )?File does not exist")
UNCHANGED = re.compile(
    rf"<tool_use_error>(?!Error calling tool)|{REFUSED}|{PUT_OFF}|(Error: )?(String to replace not "
    r"found|Found \d+ matches|No changes to make|File has (not been read|been modified))"
)
"""Errors that occur before a file is touched; older clients do not mark them."""
SYSTEM_ERROR = re.compile(r"\bE[A-Z]{2,}: ")
"""Errors such as `ENOSPC: no space left on device, write`: the file may already be truncated."""
FILE_HISTORY = "file history"
FILE_BELOW, FILE_ABOVE = "file below", "file above"
"""Sources of the evidence that a path is a directory, or in a directory that is gone."""
BACKED_UP_IN_TIME_SINCE = (2, 1, 100)
"""From here on, a backup is made before the change of the file (observed: 2.1.100 to 2.1.325).

Up to 2.1.45, an interactive client may make it later: in both known interactive sessions of 2.0.76,
the backup is the content after the Edit (observed).
"""
LATE = "the client may have made the backup after the change"
MOST_CHANGES = 400
"""Maximum number of changes of one file that are compared in pairs; all later ones are assumed to
overlap."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One place where a file is read or changed; its content is read on demand."""

    name: FileName
    place: SessionPosition
    node: Node
    """The line that describes it, in the source's file."""
    source: Source
    tool: str
    is_change: bool
    call: Call | None = None
    backup: BackedUp | None = None
    recorded: FileName | None = None
    """The file's name as the line has it, which differs if the session was moved since."""
    may_be_late: bool = False
    """True for a backup that the client may have made after the change that it belongs to."""
    next_change: "Sighting | None" = None
    """The change that shows whether such a backup was made in time."""
    rival: "Sighting | None" = None
    """The sighting of a file below or above this path, which excludes a file of this path."""

    @property
    def agent_id(self) -> str | None:
        return self.source.agent.id if self.source.agent else None

    def observe(self, folder: Path | None) -> Observation | None:
        """Return the observation of the file's content; None if there is none."""
        if self.rival:
            return WholeContent(None) if shows_file(self.rival.observe(folder)) else None
        if self.backup:
            return self._observe_backup(self.backup, folder)
        if self.call is None:
            found = observe_attachment(self.source.session.entry(self.node))
            return found[1] if found else None
        record = record_of(self.source.session, self.call)
        if self.tool in SHELLS:
            changes = observe_shell(record)
            key = (self.recorded or self.name).key
            paths = (path for path in changes if file_name(path, None).key == key)
            return next((changes[path] for path in paths), ShellEdit(None))
        if self.call.is_error:
            return WholeContent(None) if _is_missing(record) else None
        seen = observe_call(record)
        if seen is None and self.is_change:
            return UnknownChange({}, f"{self.tool} changed it; the change is not recorded")
        return seen

    def _observe_backup(self, backup: BackedUp, folder: Path | None) -> Observation | None:
        if backup.copy is None:
            return WholeContent(None)
        raw = read_backup(folder, backup.copy)
        if raw is None:
            return None
        if backup.doubt:
            # Not even single lines are certain: the content may be that of another branch.
            seen = _observe_copy(raw)
            if not isinstance(seen, WholeContent):
                return None
            return WholeContent(raw, backup.doubt, is_likely=backup.doubt == LISTED_AGAIN)
        if not self.may_be_late:
            return _observe_copy(raw)
        change = self.next_change.observe(folder) if self.next_change else None
        return _observe_late_copy(raw, change)


def _observe_copy(raw: bytes) -> Observation:
    """Return the observation that a backup allows: all bytes, or only the text."""
    # Clients up to 2.1.45 copy files as text: bytes that are not UTF-8, as in a file in UTF-16, are
    # lost in the copy (observed: 2.0.76, 2.1.45; not in 2.1.100 and later).
    if UNKNOWN_CHARACTER.encode() in raw:
        return WholeText(raw.decode("utf-8", "replace").replace("\r\n", "\n"))
    return WholeContent(raw)


def _observe_late_copy(raw: bytes, change: Observation | None) -> Observation | None:
    """Return the observation that a backup allows if it may be of the content after the change."""
    if isinstance(change, WrittenText) and change.is_new:
        return None
    seen = _observe_copy(raw)
    original = change.original if isinstance(change, EditedPart | WrittenText) else None
    if original is None:
        return WholeContent(raw, LATE) if isinstance(seen, WholeContent) else seen
    copied = decode_file(raw)
    is_same = copied and copied.text == without_mark(original).replace("\r\n", "\n")
    return seen if is_same else None


def record_of(session: Session, call: Call) -> CallRecord:
    """Read the lines of a call."""
    nodes = [call.use, call.result] if call.result else [call.use]
    use, *answers = session.entries(nodes)
    return read_record(call.id, call.name, use, answers[0] if answers else None)


def sightings_in(source: Source) -> Iterator[Sighting]:
    """Yield where a source reads or changes files, in no particular order."""
    session = source.session
    with session.kept_open():
        for call in session.calls:
            if call.result is None:
                continue
            if call.name in OBSERVERS and (not call.is_error or call.name == "Read"):
                name = _named(session, call)
                if name:
                    place = source.place(call.result)
                    is_change = call.name != "Read"
                    yield Sighting(name, place, call.result, source, call.name, is_change, call)
            elif call.name in SHELLS:
                yield from _shell_sightings(source, call)
        yield from _attached(source)


def unfinished(source: Source) -> Iterator[tuple[FileName, Hazard]]:
    """Yield the files whose change was started but has no result, or failed midway."""
    with source.session.kept_open():
        for call in source.session.calls:
            if call.name not in OBSERVERS or call.name == "Read":
                continue
            if call.result is None:
                end, why = END, "which has no result"
            elif call.is_error and not _is_unchanged(record_of(source.session, call)):
                end, why = source.place(call.result), "which failed"
            else:
                continue
            name = _named(source.session, call)
            if name:
                what = f"{call.name} in line {call.use.line}, {why},"
                yield name, Hazard(source.place(call.use), end, what).within(source.doubt)


def _named(session: Session, call: Call) -> FileName | None:
    entry = session.entry(call.use)
    path = path_in(read_record(call.id, call.name, entry, None).arguments)
    cwd = given(entry.cwd) if isinstance(entry, ChainEntry) else None
    return file_name(path, cwd) if path else None


def _shell_sightings(source: Source, call: Call) -> Iterator[Sighting]:
    assert call.result
    # Most results have no list of changed files; searching the raw bytes avoids decoding them.
    raw = next(line.raw for _, line in source.session.lines_of([call.result]))
    if SHELL_CHANGES not in raw:
        return
    for path in observe_shell(record_of(source.session, call)):
        name, place = file_name(path, None), source.place(call.result)
        yield Sighting(name, place, call.result, source, call.name, is_change=True, call=call)


def _attached(source: Source) -> Iterator[Sighting]:
    nodes = [node for node in source.session.nodes if node.kind in ATTACHED]
    for node, entry in zip(nodes, source.session.entries(nodes), strict=True):
        if not isinstance(entry, Attachment):
            continue
        path = given(fit(FileAttachment, given(entry.attachment) or {}, []).filename)
        if path:
            name = file_name(path, given(entry.cwd))
            is_change = node.kind == EDITED_OUTSIDE
            tool = "edited outside" if is_change else "attachment"
            yield Sighting(name, source.place(node), node, source, tool, is_change)


def _is_missing(record: CallRecord) -> bool:
    return MISSING.match(record.text) is not None


def _is_unchanged(record: CallRecord) -> bool:
    return bool(UNCHANGED.match(record.text)) and not SYSTEM_ERROR.search(record.text[:400])


def rivals_in(sightings: Mapping[str, list[Sighting]]) -> Iterator[Sighting]:
    """Yield sightings that show that a path is no file, since there is one below or above it.

    A Write of `x/y` proves that `x` is a directory, and one of `x` that there is no `x/y`.
    """
    for below, own in sightings.items():
        for above in keys_above(below):
            others = sightings.get(above, [])
            yield from (_rival(each, others[0].name, FILE_BELOW) for each in own if others)
            yield from (_rival(each, own[0].name, FILE_ABOVE) for each in others)


def _rival(seen: Sighting, name: FileName, tool: str) -> Sighting:
    return replace(
        seen, name=name, tool=tool, is_change=False, backup=None, recorded=None, rival=seen
    )


def overlapping_changes(sightings: list[Sighting]) -> Iterator[Hazard]:
    """Yield a hazard for changes by two agents that overlap: either may have come last."""
    found = [
        (each.source.place(each.call.use), each.place, each.agent_id)
        for each in sightings
        if each.is_change and each.call
    ]
    if len({agent for _, _, agent in found}) < 2:
        return
    for start, end, _ in found[MOST_CHANGES:]:
        yield Hazard(start, end._replace(order=end.order + 1), "another agent at the same time")
    for (start, end, agent), (other, until, who) in combinations(found[:MOST_CHANGES], 2):
        if agent != who and start <= until and other <= end:
            last = max(end, until)
            behind = last._replace(order=last.order + 1)
            yield Hazard(min(start, other), behind, "another agent at the same time")


def unordered_changes(sightings: Iterable[Sighting]) -> Iterator[Hazard]:
    """Yield a hazard for each change by an agent that may have made it earlier or later."""
    for each in sightings:
        if each.is_change and each.source.doubt:
            yield Hazard(*each.source.doubt, "a sub-agent at an unknown time")


def change_under_way(sightings: Iterable[Sighting], place: SessionPosition) -> Sighting | None:
    """Return the change of a file whose call, but not yet its result, is before a place."""
    return next(
        (
            each
            for each in sightings
            if each.is_change and each.call
            if each.source.place(each.call.use) <= place < each.place
        ),
        None,
    )


def with_late_backups(sightings: list[Sighting]) -> list[Sighting]:
    """Mark the backups of one file that may have been made after the change they belong to."""
    found: list[Sighting] = []
    change: Sighting | None = None
    for each in reversed(sightings):
        if each.is_change:
            change = each
        is_before = each.backup is not None and each.backup.is_before_change
        late = is_before and _backs_up_late(each, change)
        found.append(replace(each, may_be_late=True, next_change=change) if late else each)
    return found[::-1]


def _backs_up_late(backup: Sighting, change: Sighting | None) -> bool:
    node = change.call.use if change and change.call else backup.node
    number = version_number(node.version if isinstance(node, AssistantNode) else None)
    return number is not None and number < BACKED_UP_IN_TIME_SINCE


def lost_changes(sightings: list[Sighting]) -> Iterator[Hazard]:
    """Yield a hazard for each backup before an unrecorded change, as in a stripped clone."""
    noted = [each for each in sightings if each.tool != "Read" and not each.rival]
    for backup, after in zip_longest(noted, noted[1:]):
        if backup.backup and backup.backup.is_before_change and not (after and after.is_change):
            behind = backup.place._replace(order=backup.place.order + 1)
            what = f"the change after the backup in line {backup.backup.line}"
            yield Hazard(behind, behind, what)
