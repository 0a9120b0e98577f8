"""Merge the versions of other machines into the sessions of this one, in memory.

No files are written. A version is merged as a whole: if one of its logs conflicts with ours, the
version is another edition and becomes a fork.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Damaged
from turnlog.exchange.documents import Aside, published_documents, take_documents
from turnlog.exchange.editions import (
    MAIN,
    OwnFile,
    OwnSession,
    contested_label,
    fork_id,
    has_more,
    lines_of,
    log_groups,
    own_version,
    read_log_piece,
    read_segments,
    split_editions,
)
from turnlog.exchange.expansion_budget import ExpansionBudget
from turnlog.exchange.line_merge import (
    Contest,
    Ranked,
    Segment,
    find_contest,
    is_forward,
    merge,
)
from turnlog.exchange.machine_manifest import FileVersion, Piece, SessionVersion
from turnlog.exchange.options import Exchanged, NotExchanged
from turnlog.exchange.packs import Fetch, PackWriter, PieceReader
from turnlog.exchange.placement import Placement
from turnlog.exchange.shared_paths import Places, is_loose, nested_role

MOST_LABELS = 16
"""Number of labels to try for one version before it is refused."""


class Incoming(NamedTuple):
    """A version of a session that another machine published."""

    machine: str
    version: SessionVersion


class Receiver:
    """Merges incoming versions into the sessions of this machine."""

    def __init__(
        self,
        root: Path,
        owns: list[OwnSession],
        packs: tuple[PieceReader, PackWriter],
        sizes: Mapping[str, int],
        places: Places,
        report: Exchanged,
    ) -> None:
        """`sizes` are the compressed sizes of the manifests of other machines."""
        self.owns = owns
        self.reader, self.writer = packs
        self.report = report
        self.placement = Placement(root, places, self.reader, report)
        self.asides: list[Aside] = []
        self._budget = ExpansionBudget(self.reader, sizes)
        self._refused: set[NotExchanged] = set()
        self._by_session: dict[str, list[OwnSession]] = {}
        for own in owns:
            self._by_session.setdefault(own.session, []).append(own)
        self._locals = {own.local for own in owns}

    @property
    def fetch(self) -> Fetch:
        return self.reader.read

    def of_session(self, session: str) -> list[OwnSession]:
        return self._by_session.get(session, [])

    def detect_edit(
        self, own: OwnSession, lost: Mapping[str, list[Piece]], known: Sequence[SessionVersion]
    ) -> None:
        """Start a new edition if lines were rewritten here; note lines that were removed.

        `lost` has the last pieces of each log that no longer starts with them. `known` are all
        other versions of the session: if an edit was undone, the session gets its old label back.
        """
        segments = {role: self._segments(pieces) for role, pieces in lost.items()}
        found = [self._contest(own.files[role], each) for role, each in sorted(segments.items())]
        if contest := next(filter(None, found), None):
            self._retire(own, lost, published_documents(own))
            new = contested_label(own.session, own.label, contest.uuid, contest.ours)
            matching = self._matching_label(own, known)
            own.label = new if matching is None else matching
        else:
            gone = [
                role
                for role, each in segments.items()
                if not lines_of(each) <= lines_of(own.files[role].load(self.fetch))
            ]
            self.note_removed(own, {role: lost[role] for role in gone})

    def note_removed(self, own: OwnSession, lost: Mapping[str, list[Piece]]) -> None:
        """List the last versions of logs as former ones, so that their lines can be restored."""
        for role, pieces in lost.items():
            if role in own.files:
                own.files[role].version.former.append(pieces)
        own.remember()

    def _retire(
        self,
        own: OwnSession,
        lost: Mapping[str, list[Piece]],
        documents: Mapping[str, FileVersion],
    ) -> None:
        """Keep listing the edition that a session belonged to before it was edited.

        `documents` are those of that edition: the edit may have changed documents, too.
        """
        # This may raise, so it comes before anything is changed.
        holder = self._holder(own, lost)
        old = OwnSession(own.session, own.label, None)
        old.files = {role: OwnFile(own_version(each)) for role, each in documents.items()}
        for role, file in own.files.items():
            if not file.version.is_log:
                continue
            pieces = lost.get(role, file.version.pieces)
            former = [each for each in file.version.former if each != pieces]
            file.version.former = []
            version = FileVersion(role, file.version.project, pieces, former)
            version.ranks = [0] * len(pieces) if role in lost else file.version.ranks
            old.files[role] = OwnFile(version)
        own.remember()
        if holder is None:
            old.remember()
            self._add(old)
            return
        for role, file in old.files.items():
            if role in lost or file.version.former or not file.version.is_log:
                self._adopt(holder, file, holder.role_of(role))
        holder.remember()

    def _adopt(self, own: OwnSession, file: OwnFile, role: str) -> None:
        """Add a file to a session; if the session has that log, add it as former versions."""
        version = file.version
        if role not in own.files:
            version.role = role
            own.files[role] = file
        elif version.is_log:
            own.files[role].version.former += [version.pieces, *version.former]

    def _holder(self, own: OwnSession, lost: Mapping[str, list[Piece]]) -> OwnSession | None:
        """Return this machine's fork of the edition that a session belonged to before its edit."""
        for other in self.of_session(own.session):
            if other is not own and other.label == own.label:
                contest = self._lost_contest(other, lost)
                if contest is None:
                    return other
                # A killed sync wrote the fork but did not record it, and the fork was edited.
                other.label = contested_label(own.session, own.label, contest.uuid, contest.ours)
        return None

    def _lost_contest(self, own: OwnSession, lost: Mapping[str, list[Piece]]) -> Contest | None:
        for role, pieces in sorted(lost.items()):
            mine = own.files.get(own.role_of(role))
            if mine and (contest := self._contest(mine, self._segments(pieces))):
                return contest
        return None

    def make_way(self, own: OwnSession) -> None:
        """Restore a sub-agent in the session's folder if another session's took its place."""
        for role, file in list(own.files.items()):
            if file.path is None and self.placement.is_taken(own, file.version):
                self._adopt(own, own.files.pop(role), nested_role(role))

    def restore_removed(self, own: OwnSession) -> None:
        """Merge the former versions of logs, which this machine published, back into them."""
        for role, file in own.files.items():
            former, unread = self._split_readable(own.session, file.version.former)
            if not former:
                continue
            draft = self._draft(file, map(_ranked, former))
            if isinstance(draft, Contest):
                # A sync that could not read it noted removed lines, but the log was edited.
                found = [each for each in former if self._contest(file, self._segments(each))]
                # How documents were before is known only of those that never changed.
                documents = published_documents(own)
                same = {role: each for role, each in documents.items() if not each.replaces}
                self._retire(own, {role: (found or former)[-1]}, same)
                own.label = contested_label(own.session, own.label, draft.uuid, draft.ours)
                return
            draft.version.former = unread
            own.files[role] = draft

    def leave_removed(self, own: OwnSession) -> None:
        """Note the lines that were removed here, so that no merge brings them back."""
        for file in own.files.values():
            gone: set[bytes] = set()
            for former in self._split_readable(own.session, file.version.former)[0]:
                gone |= lines_of(self._segments(former))
            if gone:
                file.left_out = frozenset(gone - lines_of(file.load(self.fetch)))

    def _split_readable(
        self, session: str, versions: Iterable[list[Piece]]
    ) -> tuple[list[list[Piece]], list[list[Piece]]]:
        """Return the former versions of a log that can be read, and those in damaged packs.

        Perhaps no machine has the lines of a damaged one any more. It must not keep the session
        from being exchanged.
        """
        found: list[list[Piece]] = []
        damaged: list[list[Piece]] = []
        for pieces in versions:
            try:
                self._segments(pieces)
            except Damaged as error:
                damaged.append(pieces)
                self._refuse(session, f"removed lines cannot be restored: {error}")
            else:
                found.append(pieces)
        return found, damaged

    def receive(self, incoming: Incoming) -> bool:
        """Merge a version into its edition; create a session if this machine has none for it.

        Return False if a part of it could not be read, so that the next sync tries again.
        """
        version, listed = incoming.version, incoming.version.listed
        have = {role for own in self.of_session(version.session) for role in own.files}
        if not self.admits(version):
            return False
        if not self._budget.admits_files(incoming.machine, version, have):
            reason = "lists too many new files for the size of its manifest; some are left out"
            self._refuse(f"machine {incoming.machine}", reason)
            return False
        # Usually each log has one version, so there is nothing to split. Splitting reads all lines,
        # so it must not happen if a file is too large.
        has_others = len(listed) > len(version.files) or any(
            len(roles) > 1 for roles in log_groups(version)
        )
        if not has_others or any(map(self.reader.size_problem, listed)):
            return self._receive(incoming)
        files: list[FileVersion] = []
        for file in version.files:
            former, _ = self._split_readable(version.session, file.former)
            files.append(own_version(file))
            files[-1].former = former
        readable = SessionVersion(
            version.session, version.label, files, version.local, version.is_deleted
        )
        is_whole = sum(len(file.former) for file in files) == len(listed) - len(files)
        for each in split_editions(readable, self.fetch):
            is_whole &= self._receive(Incoming(incoming.machine, each))
        return is_whole

    def admits(self, version: SessionVersion) -> bool:
        """Return whether another machine's version is small enough to be read; report it if not."""
        have = {
            (role, piece.hash)
            for own in self.of_session(version.session)
            for role, file in own.files.items()
            for piece in file.version.pieces
        }
        if reason := self._budget.problem_of(version, have):
            self._refuse(version.session or "files of no session", reason)
        return reason is None

    def _refuse(self, name: str, reason: str) -> None:
        problem = NotExchanged(name, reason)
        if problem not in self._refused:  # a hostile manifest may have a million sessions
            self._refused.add(problem)
            self.report.problems.append(problem)

    def _receive(self, incoming: Incoming) -> bool:
        version, label = incoming.version, incoming.version.label
        # Each conflict gives one side a new label, under which another conflict may occur.
        for _ in range(MOST_LABELS):
            targets = self._targets(version, label)
            drafts = [self._drafts(own, version) for own in targets]
            found = list(zip(targets, drafts, strict=True))
            contested = [(own, each) for own, each in found if isinstance(each, Contest)]
            if not contested:
                committed = [
                    self._commit(own, version, each)
                    for own, each in found
                    if not isinstance(each, Contest)
                ]
                return all(committed)
            own, contest = contested[0]
            label = self._decide(own, label, contest)
        raise Damaged(f"{version.session} of machine {incoming.machine} has too many editions")

    def _decide(self, own: OwnSession, label: str, contest: Contest) -> str:
        """Give one of two conflicting versions another label; return the label of theirs."""
        _, ours, theirs = contest
        line = theirs if contest.is_ours_first else ours
        new = contested_label(own.session, label, contest.uuid, line)
        if contest.is_ours_first:
            return new
        own.label = new
        return label

    def separate(self, own: OwnSession) -> None:
        """Give a session a new label if it conflicts with another session of the same label."""
        for other in self.of_session(own.session):
            if other is own or other.label != own.label:
                continue
            contest = self._drafts(own, other.as_version())
            if isinstance(contest, Contest):
                label = contested_label(own.session, own.label, contest.uuid, contest.ours)
                own.label = label

    def covers(self, own: OwnSession, version: SessionVersion) -> bool:
        """Return whether the writer of a version had every line and document of a session here."""
        if own.is_partial or not self.admits(version):
            return False
        theirs: dict[str, list[Piece]] = {}
        documents = {file.role: file for file in version.files if not file.is_log}
        for each in version.files:
            theirs.setdefault(own.role_of(each.role), []).extend(each.pieces)
        for role, file in own.files.items():
            if file.is_new:
                continue
            if file.version.is_log:
                known = lines_of(self._segments(theirs.get(role, [])))
                is_known = lines_of(file.load(self.fetch)) <= known
            else:
                is_known = role in documents and documents[role].covers(file.version)
            if not is_known:
                return False
        return True

    def _targets(self, version: SessionVersion, label: str) -> list[OwnSession]:
        """Return this machine's sessions for an edition: usually one, which may be new."""
        session = version.session
        found = [own for own in self.of_session(session) if own.label == label]
        found = found or [own for own in self.of_session(session) if self._is_same(own, version)]
        if not found:
            found = [OwnSession(session, label, None, is_new=True)]
            self._add(found[0])
        for own in found:
            self._name(own)
        return found

    def _is_same(self, own: OwnSession, version: SessionVersion) -> bool:
        """Return whether a session and a version are one edition with two labels.

        Machines that sync through two DESTs may label an edition differently at each.
        """
        mine = own.files.get(MAIN)
        theirs = next((file for file in version.files if file.role == MAIN), None)
        if mine is None or theirs is None or not own.is_here:
            return False
        # Equal pieces are compared without reading; different pieces may still hold equal lines.
        if mine.version.pieces != theirs.pieces:
            segments = self._segments(theirs.pieces)
            if lines_of(mine.load(self.fetch)) != lines_of(segments):
                return False
        # An edit may have changed a sub-agent only.
        return not isinstance(self._drafts(own, version), Contest)

    def _name(self, own: OwnSession) -> None:
        if own.local is None:
            name = own.session
            # The fork of an edition may itself have been edited, so that it is another edition now.
            while name in self._locals:
                name = fork_id(name, own.label)
            own.local = name
            self._locals.add(name)

    def name_former(self, own: OwnSession) -> None:
        """Assign an id and paths, as for a fork, to an edition that this machine no longer has."""
        self._name(own)
        own.is_former = True
        is_fork = own.local != own.session
        for role in [each for each in own.files if is_fork and is_loose(each)]:
            # A file of that name may be the sub-agent of the session that was forked.
            self._adopt(own, own.files.pop(role), nested_role(role))
        for role, file in list(own.files.items()):
            if self.placement.path_of(own, file.version) is None:
                del own.files[role]

    def _add(self, own: OwnSession) -> None:
        self.owns.append(own)
        self._by_session.setdefault(own.session, []).append(own)

    def _drafts(self, own: OwnSession, version: SessionVersion) -> dict[str, OwnFile] | Contest:
        """Return the logs of a session with a version merged into them, or a conflict."""
        drafts: dict[str, OwnFile] = {}
        for file in sorted(self.placement.accepted(own, version), key=lambda file: file.role):
            if file.is_log:
                empty = OwnFile(FileVersion(file.role, file.project, []))
                mine = own.files.get(file.role, empty)
                versions = [file.ranked(), *map(_ranked, file.former)]
                draft = self._draft(mine, versions)
                if isinstance(draft, Contest):
                    return draft
                drafts[file.role] = draft
        return drafts

    def _commit(self, own: OwnSession, version: SessionVersion, drafts: dict[str, OwnFile]) -> bool:
        theirs = self.placement.accepted(own, version)
        if own.is_deleted and has_more(drafts, own.files, theirs):
            # Another machine continued a session that was deleted here: restore all of it.
            own.is_deleted = False
            for file in (*own.files.values(), *drafts.values()):
                file.is_left = False
        own.files |= drafts
        documents = [file for file in theirs if not file.is_log]
        return take_documents(own, documents, self.asides)

    def _draft(self, mine: OwnFile, versions: Iterable[Ranked]) -> OwnFile | Contest:
        """Return a log with versions merged into it, or a conflict with one of them."""
        # Merge into a copy, which is discarded if another log of the version conflicts.
        draft = replace(mine, version=own_version(mine.version))
        for theirs in versions:
            ours = draft.version.pieces
            have = {piece.hash for piece in ours}
            pieces = [piece for piece, _ in theirs]
            # The usual case: ours has all pieces, so no lines are read.
            if all(piece.hash in have for piece in pieces):
                continue
            if is_forward(ours, theirs) and not draft.left_out:
                self._extend(draft, theirs[len(ours) :])
            elif contest := self._merge(draft, theirs):
                return contest
        return draft

    def _extend(self, draft: OwnFile, new: Ranked) -> None:
        """Fast-forward a log."""
        highest = draft.version.next_rank
        order = {rank: at for at, rank in enumerate(sorted({rank for _, rank in new}))}
        reranked = [(piece, highest + order[rank]) for piece, rank in new]
        if draft.segments is not None:
            draft.segments = draft.segments + read_segments(reranked, self.fetch)
        draft.version.ranks = [rank for _, rank in draft.version.ranked() + reranked]
        draft.version.pieces = draft.version.pieces + [piece for piece, _ in reranked]
        draft.added += sum(len(read_log_piece(each, self.fetch)) for each, _ in new if draft.state)

    def _merge(self, draft: OwnFile, ranked: Ranked) -> Contest | None:
        ours = draft.load(self.fetch)
        known = {segment.piece: segment.lines for segment in ours if segment.piece}
        theirs = [
            Segment(known.get(piece) or read_log_piece(piece, self.fetch), piece, rank)
            for piece, rank in ranked
        ]
        merged = merge(ours, theirs, draft.left_out)
        if merged.added:
            draft.segments = [self._with_piece(segment) for segment in merged.segments]
            draft.version.pieces = [each.piece for each in draft.segments if each.piece]
            draft.version.ranks = [each.rank for each in draft.segments]
            draft.added += merged.added
            draft.is_diverged = True
        return merged.contest

    def _with_piece(self, segment: Segment) -> Segment:
        if segment.piece is not None:
            return segment
        raw = b"".join(segment.lines)
        piece = Piece(hashlib.sha256(raw).digest(), len(raw))
        self.writer.add(piece.hash, raw)
        return segment._replace(piece=piece)

    def _segments(self, pieces: Iterable[Piece]) -> list[Segment]:
        return read_segments(_ranked(pieces), self.fetch)

    def _contest(self, mine: OwnFile, theirs: list[Segment]) -> Contest | None:
        return find_contest(lines_of(mine.load(self.fetch)), lines_of(theirs))

    def _matching_label(self, own: OwnSession, known: Sequence[SessionVersion]) -> str | None:
        """Return the label of another known edition that a session does not conflict with."""
        mine = own.files.get(MAIN)
        for version in sorted(known, key=lambda version: version.label):
            theirs = next((file for file in version.files if file.role == MAIN), None)
            if version.label != own.label and mine and theirs:
                segments = self._segments(theirs.pieces)
                is_same = lines_of(segments) & lines_of(mine.load(self.fetch))
                if is_same and not isinstance(self._drafts(own, version), Contest):
                    return version.label
        return None


def _ranked(pieces: Iterable[Piece]) -> Ranked:
    return [(piece, 0) for piece in pieces]
