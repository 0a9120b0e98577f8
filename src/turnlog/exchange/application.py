"""Write merged sessions to the store in batches.

Each batch is one change in the journal: it is applied completely or not at all.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.edit.journal import Journal
from turnlog.errors import TurnlogError
from turnlog.exchange.documents import Aside
from turnlog.exchange.editions import MAIN, OwnFile, OwnSession
from turnlog.exchange.machine_manifest import FileVersion
from turnlog.exchange.machine_state import UNSETTLED, SeenFile
from turnlog.exchange.options import Exchanged, NotExchanged
from turnlog.exchange.reception import Receiver
from turnlog.exchange.rewind_targets import RewindTargets
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import open_regular
from turnlog.store.paths import Store, set_aside
from turnlog.store.symlinks import find_link

MOST_FILES = 2000
MOST_BYTES = 256 << 20
"""A batch ends when it reaches either limit; each batch is one change in the journal."""


class Writing(NamedTuple):
    """A pending write: one file of a session."""

    own: OwnSession
    file: OwnFile
    path: Path

    @property
    def is_main(self) -> bool:
        return self.file.version.role == MAIN


class Applier:
    """Writes sessions and records the state of each written file."""

    def __init__(
        self,
        receiver: Receiver,
        journal: Journal,
        dest: str,
        seen: dict[str, SeenFile],
    ) -> None:
        self.receiver, self.journal = receiver, journal
        self.placement = receiver.placement
        self.report: Exchanged = receiver.report
        self.failed: set[int] = set()
        """The `id()` of each `OwnSession` that could not be written."""
        self.incomplete: list[OwnSession] = []
        """Sessions that were written, but not all versions that belong next to their documents."""
        self._title = f"sync with {dest}"
        self._seen = seen

    def apply(self, owns: Iterable[OwnSession], progress: Callable[[int], None]) -> None:
        """Write changed files, and other machines' versions of conflicting documents."""
        for batch in self._batches(owns):
            self._apply_batch(batch)
            progress(len({id(each.own) for each in batch}))
        if asides := self._named_asides():
            self._write_asides(asides)

    def remove(self, store: Store, sessions: list[Path]) -> None:
        """Remove sessions with all their files, as one change that can be undone."""
        from turnlog.edit.apply import apply_changes
        from turnlog.edit.removal import plan_removal

        removal = plan_removal(store, sessions)
        record = apply_changes(
            self.journal, self._title, removal.changes, clearing=removal.clearing, root=store.root
        )
        self.report.changes += [record.id] if record else []

    def _batches(self, owns: Iterable[OwnSession]) -> Iterator[list[Writing]]:
        batch: list[Writing] = []
        size = 0
        for own in owns:
            writings = self._writings(own)
            batch += writings
            size += sum(each.file.version.size for each in writings)
            if len(batch) >= MOST_FILES or size >= MOST_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _writings(self, own: OwnSession) -> list[Writing]:
        try:
            named = [
                Writing(own, file, self.placement.path_for(own, file))
                for file in own.files.values()
                if file.is_changed
            ]
            if self._is_linked(own, named):
                return []
            changed = [each for each in named if not self._is_taken(each)]
        except TurnlogError as error:
            self._fail(own, error)
            return []
        # The session's own log comes last: a client lists a session as soon as its log exists,
        # and must not open it before its sub-agents and tool results are there.
        return sorted(changed, key=lambda each: each.is_main)

    def _is_linked(self, own: OwnSession, named: list[Writing]) -> bool:
        """Return whether a file is behind a symlink, which turnlog reads but never writes through.

        The other machine's lines wait, in case that the link is replaced by what it leads to.
        """
        root = self.placement.root
        folders = {each.path.parent for each in named}
        link = next(filter(None, (find_link(root, folder) for folder in sorted(folders))), None)
        if link is not None:
            self.failed.add(id(own))
            self.report.linked.append(NotExchanged(own.local or own.session, str(link)))
        return link is not None

    def _is_taken(self, each: Writing) -> bool:
        """Return whether a new document's path is taken; if so, drop it from the session.

        This happens if a session was removed without its documents. If the existing file has other
        content, the received version is set aside.
        """
        version = each.file.version
        if not each.file.is_new or version.is_log or not os.path.lexists(each.path):
            return False
        # The next sync reads the existing file, because its session is back.
        del each.own.files[version.role]
        if not _has_content(each.path, version):
            self.receiver.asides.append(Aside(each.own, version))
        return True

    def _apply_batch(self, batch: list[Writing]) -> None:
        try:
            self._write(batch)
        except (TurnlogError, OSError) as error:
            owns = {id(each.own): each.own for each in batch}
            if len(owns) == 1:
                self._fail(batch[0].own, error)
                return
            # A session that changed in the meantime must not block the others.
            for key in owns:
                self._apply_batch([each for each in batch if id(each.own) == key])

    def _write(self, batch: list[Writing]) -> None:
        # Imported here, because most scheduled syncs find nothing to write.
        from turnlog.edit.apply import Change, apply_changes

        targets = {each.path: self._targets(each) for each in batch}
        changes = [
            Change(
                each.path,
                each.file.content(targets[each.path].watched(self.receiver.fetch)),
                each.file.state,
                is_log=_is_shared(each),
            )
            for each in batch
        ]
        root = self.placement.root
        record = apply_changes(self.journal, self._title, changes, root=root)
        self.report.changes += [record.id] if record else []
        for each in batch:
            self._note(each)
            if (found := targets[each.path].describe()) and each.own.local:
                self.report.rewinding.append(NotExchanged(each.own.local, found))

    def _targets(self, each: Writing) -> RewindTargets:
        return RewindTargets(each.file, self.placement.places)

    def _note(self, each: Writing) -> None:
        """Record the state of a written file, so that the next sync need not read it."""
        file, path = each.file, each.path
        # `swap_in` keeps the old modification time, by which the client deletes old sessions.
        with suppress(OSError):
            os.utime(path)
        file.path, file.state = path, FileState.of(path)
        file.base, file.segments = file.version.pieces, None
        name = str(path.relative_to(self.placement.root))
        # If a client has just appended to the file, the next sync must read it.
        if file.state.size == file.version.size + len(file.tail):
            self._seen[name] = SeenFile(*file.state, file.state.mtime_ns + UNSETTLED + 1)
        else:
            self._seen.pop(name, None)

    def _named_asides(self) -> dict[Path, Aside]:
        """Return the versions to write next to documents, by path, without those there already."""
        found: dict[Path, Aside] = {}
        for each in self.receiver.asides:
            own, version = each
            if own.is_deleted or id(own) in self.failed:
                continue
            mine = own.files.get(version.role) or OwnFile(version)
            path = set_aside(self.placement.path_for(own, mine), version.digest)
            if not path.exists():
                found[path] = each
        return found

    def _write_asides(self, asides: Mapping[Path, Aside]) -> None:
        from turnlog.edit.apply import Change, apply_changes

        changes = [
            Change(path, OwnFile(each.version).content(self.receiver.fetch), None)
            for path, each in asides.items()
        ]
        try:
            root = self.placement.root
            record = apply_changes(self.journal, self._title, changes, root=root)
        except (TurnlogError, OSError) as error:
            if len(asides) > 1:
                for path, each in asides.items():
                    self._write_asides({path: each})
                return
            for path, each in asides.items():
                self.report.problems.append(NotExchanged(str(path), str(error)))
                self.incomplete.append(each.own)
        else:
            self.report.changes += [record.id] if record else []
            self.report.set_aside += map(str, asides)

    def _fail(self, own: OwnSession, error: Exception) -> None:
        self.failed.add(id(own))
        name = own.local or own.session or "files of no session"
        self.report.problems.append(NotExchanged(name, str(error)))


def _is_shared(each: Writing) -> bool:
    """Return whether a file is the prompt history, to which every client appends."""
    return not each.own.session and each.file.version.is_log


def _has_content(path: Path, version: FileVersion) -> bool:
    """Return whether a path is a regular file with the content of a version."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != version.size:
        return False
    with open_regular(path) as file:
        return all(
            hashlib.sha256(file.read(piece.size)).digest() == piece.hash for piece in version.pieces
        )
