"""Sync the store of this machine with DEST: read, merge, write, publish.

Publishing comes last, so a manifest never lists an edition before it was compared with the
editions of others. A sync that is killed earlier is simply run again.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import msgspec

from turnlog.edit.journal import Journal, open_journal
from turnlog.edit.open_sessions import open_files
from turnlog.errors import TurnlogError, UsageError
from turnlog.exchange.application import Applier
from turnlog.exchange.destinations import initialize, open_transport
from turnlog.exchange.editions import (
    MAIN,
    OwnSession,
    fork_aliases,
    gone_session,
)
from turnlog.exchange.expansion_budget import repetitions
from turnlog.exchange.local_scan import LocalSession, Scan, own_files
from turnlog.exchange.machine_manifest import Piece, SessionVersion
from turnlog.exchange.machine_state import (
    MergedManifest,
    State,
    load_state,
    only_sync,
    sessions_elsewhere,
    state_folder,
)
from turnlog.exchange.options import Exchanged, ExchangeOptions, NotExchanged
from turnlog.exchange.packs import PackWriter, PieceReader
from turnlog.exchange.publication import Others, publish, read_manifests
from turnlog.exchange.reception import Incoming, Receiver
from turnlog.exchange.sealed_transport import SealedTransport, require_plain
from turnlog.exchange.shared_paths import Places
from turnlog.exchange.transports import Transport, canonical_dest
from turnlog.secrets import mask
from turnlog.store.catalog import live_sessions
from turnlog.store.deletion_consent import Deletion
from turnlog.store.paths import Store, real_path

DEFAULT = ExchangeOptions()


def sync_with(
    store: Store,
    dest: str,
    options: ExchangeOptions = DEFAULT,
    journal: Journal | None = None,
) -> Exchanged:
    """Exchange all sessions of a store with DEST."""
    _require_outside(store, dest)
    folder = state_folder(dest, store.root)
    with _locked(folder, dest, options.is_dry_run) as local:
        transport = open_transport(dest, local)
        started = initialize(transport, dest, options.may_start, options.is_dry_run)
        problems: list[NotExchanged] = []
        if options.password is None:
            require_plain(transport, quote(mask(dest)))
        else:
            shown = quote(mask(dest))
            transport = SealedTransport(transport, options.password, options.is_dry_run, shown)
            problems = transport.problems
        sync = _Sync(store, dest, options, transport, folder)
        sync.report.problems += problems
        sync.report.started = started
        with closing(sync):
            return sync.carry_out(journal or open_journal())


@contextmanager
def _locked(folder: Path, dest: str, is_dry_run: bool) -> Generator[Path]:
    """Lock DEST for this machine; yield the folder for the local files of its transport.

    The first dry run with a DEST leaves nothing behind, not even the clone of a git repository.
    """
    if is_dry_run and not folder.exists():
        with TemporaryDirectory(prefix="turnlog-") as temporary:
            yield Path(temporary)
    else:
        with only_sync(folder, dest):
            yield folder


def _require_outside(store: Store, dest: str) -> None:
    """Raise `UsageError` if DEST is inside the store, whose folders belong to the client."""
    path = Path(canonical_dest(dest))
    if not path.is_absolute():
        return
    real = real_path(path)
    if real.is_symlink():
        raise UsageError(f"{dest} is a loop of symbolic links", f"ls -l {quote(str(path))}")
    if real.is_relative_to(real_path(store.root)):
        raise UsageError(f"{dest} is in the store itself", "turnlog sync-with DIR")


class _Sync:
    def __init__(
        self,
        store: Store,
        dest: str,
        options: ExchangeOptions,
        transport: Transport,
        folder: Path,
    ) -> None:
        self.store = Store(store.root.resolve())
        self.options, self.transport, self.folder = options, transport, folder
        self.state = _with_mapping(load_state(folder), options)
        self.others: Others = read_manifests(transport, self.state, options.is_verifying)
        contents = self.others.contents
        # A URL may contain a password: https://ada:secret@example.org/sessions.git
        shown = quote(mask(dest))
        self.report = Exchanged(shown, self.state.machine, len(self.others.manifests))
        self.report.problems += self.others.problems
        self._at_dest = frozenset(contents.places)
        """Hashes of the pieces that were at DEST before this sync."""
        self.writer = PackWriter(transport, contents.places, options.is_dry_run, contents.damaged)
        self.reader = PieceReader(transport, self.writer)
        self.places = Places(Path.home(), self.state.mapped)
        self.versions: dict[str, list[SessionVersion]] = {}
        """The versions of other machines by session."""
        self.elsewhere = sessions_elsewhere(folder, self.store.root)
        """Sessions of this store as last published to other DESTs."""
        listed = [each for m in self.others.manifests.values() for each in m.sessions]
        self.aliases = fork_aliases([*listed, *self.elsewhere, *self.state.sessions])
        """Editions by the ids that their forks may have, to recognize forks among the sessions."""
        for manifest in self.others.manifests.values():
            for version in manifest.sessions:
                key = self.aliases.get(version.session)
                if key and not version.label:
                    version.session, version.label = key
                self.versions.setdefault(version.session, []).append(version)
        self.unmerged: set[tuple[str, str]] = set()
        """Machine id and `_key` of each version that the next sync has to merge again."""

    @cached_property
    def open(self) -> set[str]:
        """Sessions and files that are open in a client; computed only when needed."""
        return live_sessions(self.store) | set(open_files())

    def close(self) -> None:
        self.writer.stop()

    def carry_out(self, journal: Journal) -> Exchanged:
        scan = Scan(self.store, self.state, self.places, self.writer, self._versions())
        local = scan.read(self.options.progress)
        self.report.problems += scan.problems
        owns, lost = self._own_sessions(local)
        packs = (self.reader, self.writer)
        receiver = Receiver(
            self.store.root, owns, packs, self.others.sizes, self.places, self.report
        )
        self._detect_edits(receiver, lost)
        applier = Applier(receiver, journal, self.report.dest, scan.seen)
        self._delete(receiver, applier)
        changed = self._merge(receiver)
        # Computed before writing, because a written file is no longer new.
        notes = [(id(own), self._changes_of(own)) for own in changed]
        if not self.options.is_dry_run:
            applier.apply(changed, self._progress("writing", len(changed)))
            self._finish(receiver, applier, scan)
        for key, note in notes:
            if key not in applier.failed:
                note()
        self._count(receiver)
        self._report_damage()
        if self.options.password is not None:
            self.report.rewinding.clear()  # nobody without the password can add lines
        return self.report

    def _versions(self) -> Iterator[SessionVersion]:
        """Yield the last versions of this machine and of all others."""
        yield from self.state.sessions
        yield from self.elsewhere
        for versions in self.versions.values():
            yield from versions

    def _own_sessions(
        self, local: dict[str, LocalSession]
    ) -> tuple[list[OwnSession], dict[int, dict[str, list[Piece]]]]:
        """Return this machine's sessions, and by their `id()` the last pieces of rewritten logs."""
        sessions = self.state.sessions
        known = {version.local: version for version in sessions if version.local is not None}
        names = {name: self.aliases[name] for name in local if name in self.aliases}
        for version in self.elsewhere if local.keys() - known.keys() else ():
            if version.local in local and version.local not in known:
                names[version.local] = version.key
        owns: list[OwnSession] = []
        lost: dict[int, dict[str, list[Piece]]] = {}
        for name, session in local.items():
            before = known.pop(name, None)
            key = before.key if before else (name, "")
            # A fork that came from another DEST, or before its edition was known here, belongs to
            # that edition and is not an independent session.
            if key == (name, ""):
                key = names.get(name, key)
            own = OwnSession(*key, name)
            own.files = own_files(self.store.root, session, before)
            own.is_partial = session.is_partial
            owns.append(own)
            if session.is_rewritten:
                files = session.files.items()
                lost[id(own)] = {role: file.lost for role, file in files if file.lost}
        gone = [version for version in sessions if version.local is None]
        owns += [gone_session(version) for version in (*known.values(), *gone)]
        return owns, lost

    def _transcripts(self, owns: Iterable[OwnSession]) -> list[Path]:
        mains = [own.files[MAIN].path for own in owns if MAIN in own.files]
        return [path for path in mains if path is not None]

    def _detect_edits(self, receiver: Receiver, lost: dict[int, dict[str, list[Piece]]]) -> None:
        known = {version.local for version in self.state.sessions}
        # Edited sessions first: they give up their labels to the forks of their old editions.
        for own in sorted(receiver.owns, key=lambda own: id(own) not in lost):
            try:
                if rewritten := lost.get(id(own)):
                    others = [each.as_version() for each in receiver.of_session(own.session)]
                    theirs = self.versions.get(own.session, [])
                    versions = [*others, *filter(receiver.admits, theirs)]
                    receiver.detect_edit(own, rewritten, versions)
                elif own.local not in known and len(receiver.of_session(own.session)) > 1:
                    receiver.separate(own)
            except TurnlogError as error:
                self._fail(own.session, error)
                receiver.note_removed(own, lost.get(id(own), {}))

    def _merge(self, receiver: Receiver) -> list[OwnSession]:
        """Merge all changed versions; return the sessions that changed, in a stable order."""
        incoming = self._changed_versions()
        repeats = repetitions(each for found in incoming.values() for each in found)
        ranks = {
            name: (min(repeats[each.machine] for each in found), sum(map(_listed_size, found)))
            for name, found in incoming.items()
        }
        touched = {own.session for own in receiver.owns if own.has_gaps and not own.is_deleted}
        # What a hostile manifest lists again and again is refused, not the rest.
        sessions = sorted(touched | incoming.keys(), key=lambda name: (ranks.get(name, ()), name))
        progress = self._progress("merging", len(sessions))
        for session in sessions:
            self._merge_session(receiver, session, incoming.get(session, []))
            progress(1)
        changed = [
            own
            for own in receiver.owns
            if own.is_changed and own.local is not None and not own.is_deleted
        ]
        return sorted(changed, key=lambda own: (own.session, own.label))

    def _merge_session(self, receiver: Receiver, session: str, incoming: list[Incoming]) -> None:
        busy = self._busy(receiver.of_session(session))
        if busy:
            self.report.skipped.append(NotExchanged(session or "prompt history", busy))
            self._postpone(incoming)
            for own in receiver.of_session(session):
                own.leave()
            return
        try:
            self._bring_back(receiver, receiver.of_session(session))
            for each in incoming:
                if self._is_left(receiver, each) or not receiver.receive(each):
                    self._postpone([each])
        except TurnlogError as error:
            self._fail(session, error)
            self._postpone(incoming)
            for own in receiver.of_session(session):
                own.leave()
        finally:
            for own in receiver.of_session(session):
                own.drop_lines()

    def _bring_back(self, receiver: Receiver, owns: list[OwnSession]) -> None:
        for own in owns:  # restoring may append to this list
            if own.is_deleted or self.options.leave_removed:
                receiver.leave_removed(own)
                for file in own.files.values():
                    file.is_left = file.is_new
                continue
            if own.local is None:
                receiver.name_former(own)
            elif own.has_gaps and not own.is_here:
                self.report.returned.append(own.local)
            receiver.make_way(own)
            receiver.restore_removed(own)

    def _is_left(self, receiver: Receiver, incoming: Incoming) -> bool:
        """Return whether a version belongs to a session that was removed here and stays removed."""
        if not self.options.leave_removed:
            return False
        version = incoming.version
        same = [own for own in receiver.of_session(version.session) if own.label == version.label]
        return any(not own.is_here and not own.is_new for own in same)

    def _changed_versions(self) -> dict[str, list[Incoming]]:
        """Return the versions that changed since the last merge, by session, the largest first."""
        found: dict[str, list[Incoming]] = {}
        for name, manifest in self.others.manifests.items():
            merged = self.state.merged.get(name.machine)
            if merged is not None and merged.name == str(name):
                continue
            for version in manifest.sessions:
                known = merged.sessions.get(_key(version)) if merged else None
                if version.is_deleted:
                    # Checked by every sync, because the next one may be run with `--delete`.
                    self.unmerged.add((name.machine, _key(version)))
                elif known is None or known != version.digest:
                    each = Incoming(name.machine, version)
                    found.setdefault(version.session, []).append(each)
        for versions in found.values():
            # The largest usually contains the others, which are then skipped.
            versions.sort(key=lambda each: (-each.version.size, each.machine))
        return found

    def _busy(self, owns: Iterable[OwnSession]) -> str | None:
        for own in owns:
            if own.local in self.open or any(
                str(file.path) in self.open for file in own.files.values() if file.path
            ):
                return "it is open in a running client"
            for file in own.files.values():
                # Ignore a time in the future: the clock is wrong, or was when the file was written.
                age = time.time() - file.state.mtime_ns / 1e9 if file.state else -1
                if 0 <= age < self.options.settle:
                    return "it was written to a moment ago, perhaps by a client that is running"
        return None

    def _delete(self, receiver: Receiver, applier: Applier) -> None:
        """With `--delete`, mark sessions removed here as deleted; remove those others marked."""
        if not self.options.is_deleting:
            return
        marked = [own for own in receiver.owns if _was_removed(own)]
        leaving = self._deleted_by_others(receiver)
        if not marked and not leaving:
            return
        removed = [own.local or "" for own in leaving]
        details = [f"{own.local}  (removed here)" for own in marked]
        details += [f"{name}  (deleted on another machine)" for name in removed]
        self.report.deleted = [own.local or "" for own in marked]
        self.report.removed = removed
        if self.options.is_dry_run:
            return
        count = len(marked) + len(leaving)
        what = "1 session" if count == 1 else f"{count} sessions"
        command = f"turnlog sync-with {self.report.dest} --delete --yes"
        self.options.consent(Deletion(what, details, command))
        paths = self._transcripts(leaving)
        if paths:
            applier.remove(self.store, paths)
        for own in [*marked, *leaving]:
            own.is_deleted = True
            own.forget()

    def _deleted_by_others(self, receiver: Receiver) -> list[OwnSession]:
        found: list[OwnSession] = []
        for versions in self.versions.values():
            for version in versions:
                for own in receiver.of_session(version.session) if version.is_deleted else ():
                    is_same = own.label == version.label and own.is_here and own not in found
                    if is_same and not self._busy([own]) and receiver.covers(own, version):
                        found.append(own)
        return found

    def _changes_of(self, own: OwnSession) -> Callable[[], None]:
        """Return a function that adds a session's changes to the report, to call after writing."""
        report, main, name = self.report, own.files.get(MAIN), own.local or ""
        names: list[str] = []
        if main is not None and main.is_changed:
            if own.session and own.local != own.session and main.is_new:
                names = report.forked
            elif main.is_new:
                names = report.created
            else:
                names = report.merged if main.is_diverged else report.extended
        changed = {role: file for role, file in own.files.items() if file.is_changed}
        others = sum(role != MAIN for role in changed)
        lines = sum(file.added for file in own.files.values())
        size = sum(file.version.size for file in changed.values())

        def note() -> None:
            names.append(name)
            report.files += others
            report.lines += lines
            report.received_bytes += size

        return note

    def _finish(self, receiver: Receiver, applier: Applier, scan: Scan) -> None:
        failed = [own for own in receiver.owns if id(own) in applier.failed]
        for own in [*failed, *applier.incomplete]:
            self.unmerged |= {
                (name.machine, _key(version))
                for name, manifest in self.others.manifests.items()
                for version in manifest.sessions
                if version.session == own.session
            }
        for own in failed:
            own.leave()
        state = self.state
        merged = {
            name.machine: self._merged_manifest(str(name), name.machine, manifest.sessions)
            for name, manifest in self.others.manifests.items()
        }
        versions = [own.as_version() for own in receiver.owns]
        versions.sort(key=lambda version: (version.session, version.label, version.local or ""))
        new = msgspec.structs.replace(
            state, seen=scan.seen, merged=merged, sessions=versions, store=str(self.store.root)
        )
        packs = (self.writer, self.reader)
        publish(self.transport, packs, (state, new), self.folder, self.others)

    def _merged_manifest(
        self, name: str, machine: str, versions: list[SessionVersion]
    ) -> MergedManifest:
        before = self.state.merged.get(machine)
        if before is not None and before.name == name:
            return before
        done = {
            _key(version): version.digest
            for version in versions
            if (machine, _key(version)) not in self.unmerged
        }
        return MergedManifest(name if len(done) == len(versions) else "", done)

    def _count(self, receiver: Receiver) -> None:
        report = self.report
        report.sessions = sum(own.is_here and bool(own.session) for own in receiver.owns)
        report.sent = sum(map(self._is_new_at_dest, receiver.owns))
        report.sent_bytes, report.written_bytes = self.writer.bytes, self.writer.written

    def _report_damage(self) -> None:
        """Report damaged files at DEST: those sent again, and those this machine cannot restore."""
        contents, writer = self.others.contents, self.writer
        missing = {
            place.pack
            for digest, place in contents.lost.items()
            if digest not in writer.known and place.pack not in writer.names
        }
        for name in sorted({place.pack for place in contents.lost.values()}):
            if name in missing:
                reason = (
                    "is damaged; it is sent again when a machine that has its lines syncs"
                    " (if none has them any more, remove the file at DEST)"
                )
                self.report.problems.append(NotExchanged(f"packs/{name}", reason))
            else:
                self.report.repaired.append(f"packs/{name}")
        self.report.repaired += self.others.damaged

    def _is_new_at_dest(self, own: OwnSession) -> bool:
        """Return whether a session has a piece that was not at DEST before this sync."""
        pieces = (piece for file in own.as_version().files for piece in file.pieces)
        return bool(own.session) and any(piece.hash not in self._at_dest for piece in pieces)

    def _postpone(self, incoming: Iterable[Incoming]) -> None:
        self.unmerged |= {(each.machine, _key(each.version)) for each in incoming}

    def _fail(self, session: str, error: TurnlogError) -> None:
        self.report.problems.append(NotExchanged(session or "files of no session", str(error)))

    def _progress(self, step: str, total: int) -> Callable[[int], None]:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.options.progress(step, done, total)

        return advance


def _with_mapping(state: State, options: ExchangeOptions) -> State:
    """Return the state with new mappings; if there are any, all files are read again."""
    if any(state.mapped.get(local) != shared for local, shared in options.mapped.items()):
        state.mapped |= options.mapped
        state.seen = {}
    return state


def _listed_size(incoming: Incoming) -> int:
    return sum(piece.size for pieces in incoming.version.listed for piece in pieces)


def _was_removed(own: OwnSession) -> bool:
    return bool(own.session and own.local and not own.is_here and not own.is_deleted)


def _key(version: SessionVersion) -> str:
    return f"{version.session}/{version.label}/{version.local or ''}"
