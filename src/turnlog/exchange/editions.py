"""This machine's sessions during a merge: editions, their labels and their forks."""

import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

from turnlog.errors import Damaged
from turnlog.exchange.line_merge import Segment, find_contest, split_lines
from turnlog.exchange.machine_manifest import FileVersion, Piece, SessionVersion
from turnlog.exchange.packs import Fetch
from turnlog.exchange.shared_paths import is_loose, nested_role
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import open_regular

MAIN = "projects/{id}.jsonl"
"""The role of a session's own log."""
MOST_LEVELS = 3
"""Number of fork ids recognized per edition: if an id is taken, the next is derived from it."""


@dataclass
class OwnFile:
    """A file of this machine, including the lines merged into it so far."""

    version: FileVersion
    path: Path | None = None
    """None if this machine does not have the file, or no longer has it."""
    state: FileState | None = None
    """Its state when it was read."""
    base: list[Piece] = field(default_factory=list[Piece])
    """The pieces of the file on disk."""
    segments: list[Segment] | None = None
    """All lines of the log; None until a merge needs them."""
    tail: bytes = b""
    """A torn last line, which stays at the end of the file and is not exchanged."""
    added: int = 0
    """Number of lines merged into an existing file."""
    is_diverged: bool = False
    is_replaced: bool = False
    """True for a document that is replaced by another machine's newer version."""
    left_out: frozenset[bytes] = frozenset()
    """Lines that were removed here and stay removed."""
    original: FileVersion | None = None
    """The version before the merge; None if this machine never had the file."""
    published: FileVersion | None = None
    """The version in the last manifest of this machine; None if that did not list the file."""
    is_left: bool = False
    """True for a file that was removed here and is not restored."""

    @property
    def is_new(self) -> bool:
        return self.state is None

    @property
    def is_changed(self) -> bool:
        return not self.is_left and (self.is_new or self.is_replaced or bool(self.added))

    def load(self, fetch: Fetch) -> list[Segment]:
        """Return all lines of a log, from the local file as far as possible."""
        if self.segments is None:
            ranked = zip(self.version.ranked(), self._contents(fetch), strict=True)
            self.segments = [
                Segment(split_lines(raw), piece, rank) for (piece, rank), raw in ranked
            ]
        return self.segments

    def content(self, fetch: Fetch) -> Iterator[bytes]:
        """Yield the bytes of the merged file."""
        yield from self._contents(fetch)
        yield self.tail

    def _contents(self, fetch: Fetch) -> Iterator[bytes]:
        """Yield each piece, from the local file if that has it; then set the tail."""
        is_log = self.version.is_log
        if self.path is None or self.state is None or self.is_replaced:
            for piece in self.version.pieces:
                yield b"".join(read_log_piece(piece, fetch)) if is_log else fetch(*piece)
            return
        offsets = _offsets(self.base)
        with open_regular(self.path) as file:
            for piece in self.version.pieces:
                if piece not in offsets:
                    yield b"".join(read_log_piece(piece, fetch)) if is_log else fetch(*piece)
                    continue
                file.seek(offsets[piece])
                raw = file.read(piece.size)
                # The last line of the file may lack its newline, though its piece has it.
                yield raw + b"\n" if len(raw) == piece.size - 1 else raw
            end = sum(piece.size for piece in self.base)
            file.seek(end)
            # What a client appended since the file was read is not ours to write.
            self.tail = file.read(max(0, self.state.size - end))


def _offsets(pieces: Iterable[Piece]) -> dict[Piece, int]:
    """Return where each piece of a file starts."""
    found: dict[Piece, int] = {}
    end = 0
    for piece in pieces:
        found.setdefault(piece, end)
        end += piece.size
    return found


@dataclass
class OwnSession:
    """An edition of a session on this machine."""

    session: str
    label: str
    local: str | None
    """Its id here; None for a former edition that this machine no longer has."""
    files: dict[str, OwnFile] = field(default_factory=dict[str, OwnFile])
    """By role."""
    is_deleted: bool = False
    is_new: bool = False
    """True if this machine did not know the edition before."""
    is_partial: bool = False
    """True if it has a file here that is not exchanged, and is reported."""
    is_former: bool = False
    """True for a former edition that was assigned an id here in this sync."""

    @property
    def is_here(self) -> bool:
        return any(not file.is_new for file in self.files.values())

    @property
    def is_changed(self) -> bool:
        return any(file.is_changed for file in self.files.values())

    @property
    def has_gaps(self) -> bool:
        """True if files or lines that this machine had before are missing."""
        return any(file.is_new or file.version.former for file in self.files.values())

    def as_version(self) -> SessionVersion:
        files = [self.files[role].version for role in sorted(self.files)]
        return SessionVersion(self.session, self.label, files, self.local, self.is_deleted)

    def role_of(self, role: str, others: Collection[str] = ()) -> str:
        """Return a file's role in this session; `others` are roles in the same version.

        A fork has the sub-agents that it received in its own folder. So one sub-agent may be next
        to the session on one machine and in its folder on another one; here it has one place.
        """
        if role in self.files:
            return role
        if is_loose(role):
            nested = nested_role(role)
            is_fork = self.local not in (None, self.session)
            return nested if is_fork or nested in self.files or nested in others else role
        loose = (each for each in self.files if is_loose(each) and nested_role(each) == role)
        return next(loose, role)

    def remember(self) -> None:
        """Save the versions of all files as the originals, to which `leave` reverts."""
        for file in self.files.values():
            file.original = own_version(file.version)

    def leave(self) -> None:
        """Discard what this sync merged into the session; keep listing its previous versions."""
        for role, file in list(self.files.items()):
            if file.original is None:
                del self.files[role]
            elif file.is_new:
                file.is_left = True
            elif file.is_changed:
                self.files[role] = replace(
                    file,
                    version=file.original,
                    segments=None,
                    added=0,
                    is_diverged=False,
                    is_replaced=False,
                )
        # If it kept the id, the next sync would take it for a session that was removed here.
        self.local = None if self.is_former else self.local

    def drop_lines(self) -> None:
        """Free the lines that a merge needed; writing reads them again."""
        for file in self.files.values():
            file.segments = None

    def forget(self) -> None:
        """Mark all files of the session as removed."""
        for file in self.files.values():
            file.path, file.state, file.is_left = None, None, True


def gone_session(version: SessionVersion) -> OwnSession:
    """Return a published session of which this machine has no file any more."""
    own = OwnSession(version.session, version.label, version.local, is_deleted=version.is_deleted)
    own.files = {
        file.role: OwnFile(own_version(file), original=own_version(file), published=file)
        for file in version.files
    }
    return own


def own_version(version: FileVersion) -> FileVersion:
    """Return a copy of a version that is safe to modify."""
    copied = copy(version)
    copied.former = list(version.former)
    return copied


def read_log_piece(piece: Piece, fetch: Fetch) -> list[bytes]:
    """Return the lines of a piece at DEST."""
    raw = fetch(*piece)
    # Without its newline, the last line of a hostile piece would join with one of ours.
    if not raw.endswith(b"\n"):
        raise Damaged(f"piece {piece.hash.hex()} does not end with a newline")
    return split_lines(raw)


def read_segments(pieces: Iterable[tuple[Piece, int]], fetch: Fetch) -> list[Segment]:
    """Return the lines of pieces at DEST."""
    return [Segment(read_log_piece(piece, fetch), piece, rank) for piece, rank in pieces]


def fork_id(session: str, label: str) -> str:
    """Return the id that the fork of an edition has on every machine.

    >>> fork_id("a1", "00")
    '1888b030-4a9a-509e-8333-5d9ff1d7d51f'
    """
    digest = hashlib.sha256(f"turnlog fork\0{session}\0{label}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))


def contested_label(session: str, label: str, uuid: str, line: bytes) -> str:
    """Return the label of the edition in which the entry `uuid` is this line.

    The label depends only on content, so machines that never met compute the same label.
    """
    digest = hashlib.sha256(f"{session}\0{label}\0{uuid}\0".encode(errors="surrogatepass"))
    digest.update(line)
    return digest.hexdigest()[:32]


def split_editions(version: SessionVersion, fetch: Fetch) -> list[SessionVersion]:
    """Return each conflicting version of a log as an edition, then the version without them.

    A machine that cannot read a former version of a log keeps listing it, although it may belong
    to another edition. A sub-agent may be in several places, and have been edited in only one of
    them; in a fork, all would be the same file.
    """
    files = {file.role: own_version(file) for file in version.files}
    editions: list[tuple[str, list[str], FileVersion]] = []
    for roles in log_groups(version):
        first = files[roles[0]]
        agreed = None
        for role, pieces in _other_versions(files, roles):
            # Later versions must agree with each other, too: all of them become one log.
            agreed = agreed or lines_of(read_segments(first.ranked(), fetch))
            theirs = lines_of(read_segments([(piece, 0) for piece in pieces], fetch))
            if contest := find_contest(agreed, theirs):
                uuid, _, line = contest
                label = contested_label(version.session, version.label, uuid, line)
                editions.append((label, roles, FileVersion(first.role, first.project, pieces)))
                _remove_version(files, role, first, pieces)
            else:
                agreed |= theirs
    # Not before all conflicts are known: an edition must not list a conflict of another log.
    found = [
        SessionVersion(version.session, label, _replaced(files, roles, other), None)
        for label, roles, other in editions
    ]
    rest = list(files.values())
    return [
        *found,
        SessionVersion(version.session, version.label, rest, version.local, version.is_deleted),
    ]


def log_groups(version: SessionVersion) -> list[list[str]]:
    """Return the roles of a session's logs, grouped by the role that they would have in a fork.

    A sub-agent may be in the session's folder, which comes first, and also outside of it.
    """
    groups: dict[str, list[str]] = {}
    for file in sorted(version.files, key=lambda file: (is_loose(file.role), file.role)):
        if file.is_log:
            role = nested_role(file.role) if is_loose(file.role) else file.role
            groups.setdefault(role, []).append(file.role)
    return list(groups.values())


def _other_versions(
    files: Mapping[str, FileVersion], roles: list[str]
) -> list[tuple[str, list[Piece]]]:
    """Return the versions of a log besides the current one of its first role, by role."""
    first, *others = roles
    found = [(first, pieces) for pieces in files[first].former]
    for role in others:
        found += [(role, pieces) for pieces in (files[role].pieces, *files[role].former)]
    return found


def _remove_version(
    files: dict[str, FileVersion], role: str, first: FileVersion, pieces: list[Piece]
) -> None:
    """Remove one of the versions that `_other_versions` returned."""
    file = files.get(role, first)
    if pieces in file.former:
        file.former.remove(pieces)
    else:
        first.former += files.pop(role).former


def _replaced(
    files: Mapping[str, FileVersion], roles: list[str], other: FileVersion
) -> list[FileVersion]:
    """Return the files of an edition in which one log is another version.

    Documents that were replaced since may belong to the other edition only.
    """
    kept = [
        file
        for role, file in files.items()
        if role not in roles and not (not file.is_log and file.replaces)
    ]
    return [*kept, other]


def fork_aliases(versions: Iterable[SessionVersion]) -> dict[str, tuple[str, str]]:
    """Return a mapping from possible fork ids to editions; empty if there are no forks."""
    known = list(versions)
    names = {version.session for version in known} | {version.local or "" for version in known}
    forks: dict[str, tuple[str, str]] = {}
    # Fork ids are UUIDs of version 5; those of the client are random (version 4).
    if any(name[14:15] == "5" for name in names):
        for session, label in {version.key for version in known if version.session}:
            name = session
            for _ in range(MOST_LEVELS):
                name = fork_id(name, label)
                forks[name] = session, label
    return forks


def lines_of(segments: Iterable[Segment]) -> set[bytes]:
    return {line for segment in segments for line in segment.lines}


def has_more(
    drafts: Mapping[str, OwnFile], files: Mapping[str, OwnFile], theirs: Iterable[FileVersion]
) -> bool:
    """Return whether logs have lines, or theirs has documents, that the files do not have."""
    return any(
        role not in files or draft.version.pieces != files[role].version.pieces
        for role, draft in drafts.items()
    ) or any(
        file.role not in files or not files[file.role].version.covers(file)
        for file in theirs
        if not file.is_log
    )
