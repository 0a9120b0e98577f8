"""Import a bundle: plan every change, check the result, then apply all of it or nothing.

Sessions are first unpacked into a temporary store, with the directories of this machine. A file
that does not belong to one of these sessions is refused.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from turnlog.bundle.layout import LaidOut, lay_out
from turnlog.bundle.manifest import BundledProject, BundledSession, BundleManifest
from turnlog.bundle.members import PLANS, PROMPTS
from turnlog.bundle.merge import LineComparison, Relation, combined, extended, relation_of
from turnlog.bundle.path_tokens import PathTokens
from turnlog.bundle.validation import OpenBundle, open_bundle, private_folder
from turnlog.conversation.session import open_session
from turnlog.edit.apply import Change, Ready, apply_changes, require_idle, require_sound
from turnlog.edit.check.checks import check_session
from turnlog.edit.check.findings import Finding, Severity
from turnlog.edit.clone import plan_clone
from turnlog.edit.journal import Record, chunks_of, open_journal
from turnlog.edit.move import directory_of
from turnlog.edit.plan_builder import EditOptions, build_plan
from turnlog.errors import NotFound, Unresumable, UsageError
from turnlog.format.jsonl import FileState, read_lines
from turnlog.store.archive.allowed_paths import name_problem
from turnlog.store.paths import THEIRS, TOOL_RESULTS, Store, real_path, set_aside


@dataclass(frozen=True)
class ImportOptions:
    """Options for importing a bundle."""

    into: Path | None = None
    """The project's directory; for several projects, the directory that contains them."""
    here: Path = field(default_factory=Path.cwd)
    """The directory for a single project that has no known directory on this machine."""
    home: str = field(default_factory=lambda: str(Path.home()))
    password: str | None = None
    max_size: int | None = None
    allow_broken: bool = False
    """Import sessions that no client resumes."""
    content: Path | None = None
    """A private copy to read instead of the bundle: the bytes whose signature was verified."""


class ImportedSession(NamedTuple):
    """The effect of an import on one session."""

    id: str
    new_id: str
    """The id in the store; a fork gets a new one."""
    title: str | None
    directory: str
    relation: Relation
    added_lines: int
    files: int
    """The number of files that are added, extended or replaced, including the transcript."""
    findings: list[Finding]
    """Findings of `check` about the result; empty if the store stays as it is."""

    @property
    def is_fork(self) -> bool:
        return self.new_id != self.id

    @property
    def is_kept(self) -> bool:
        """True if the store has all lines already; missing outputs and backups may be added."""
        return self.relation in (Relation.SAME, Relation.BEHIND)


@dataclass
class ImportPlan:
    """The changes that import a bundle."""

    manifest: BundleManifest
    sessions: list[ImportedSession] = field(default_factory=list[ImportedSession])
    changes: list[Change] = field(default_factory=list[Change])
    kept: list[Path] = field(default_factory=list[Path])
    """Files of the store that differ from those of the bundle, but are not replaced."""
    asides: list[Path] = field(default_factory=list[Path])
    """Where the bundle's versions of such files are, if they are imported as well."""
    untracked: set[str] = field(default_factory=set[str])
    """Files outside of the projects, which `/rewind` will neither restore nor delete."""
    prompts: int = 0
    record: Record | None = None


def import_bundle(
    store: Store, path: Path, options: ImportOptions, *, dry_run: bool = False
) -> ImportPlan:
    """Import the sessions of a bundle; with `dry_run`, only plan it."""
    opened = open_bundle(path, options.password, options.max_size, options.content)
    with opened as bundle, private_folder() as folder:
        importing = _Importing(store, bundle, options, folder)
        plan = importing.plan()
        if not dry_run and plan.changes:
            title = f"import of {path.name}"
            # Sessions of the store that get new lines must not be in use.
            existing = [change.path for change in plan.changes if change.was and not change.is_log]
            require_idle(store, *(each for each in existing if each.suffix == ".jsonl"))
            plan.record = apply_changes(
                open_journal(), title, plan.changes, importing.require, root=store.root
            )
        plan.changes = []  # their contents are gone with the temporary directory
        return plan


def summarise_import(plan: ImportPlan, *, is_done: bool) -> dict[str, Any]:
    """Return the JSON fields that describe what an import did, or would do."""
    return {
        "sessions": [session._asdict() for session in plan.sessions],
        "kept": plan.kept,
        "set_aside": plan.asides,
        "untracked": sorted(plan.untracked),
        "prompts": plan.prompts,
        "redacted": plan.manifest.is_redacted,
        "change": plan.record.id if plan.record else None,
        "done": is_done,
    }


class _Importing:
    """Plans one import, and checks its result."""

    def __init__(
        self, store: Store, bundle: OpenBundle, options: ImportOptions, folder: Path
    ) -> None:
        self._store = Store(store.root.absolute())
        self._bundle, self._options, self._folder = bundle, options, folder
        self._existing = {path.stem.lower(): path for path in self._store.session_files()}
        self._before: dict[Path, Path | None] = {}
        """Each transcript to write, with the existing one that it extends, if any."""
        self._plan = ImportPlan(bundle.manifest)
        self._prompts: list[bytes] = []
        self._new: set[Path] = set()
        self._laid = 0
        self._counted = 0
        """The number of changes that belong to the sessions planned so far."""
        self._places: dict[int, str] = {}

    def plan(self) -> ImportPlan:
        """Plan all changes; nothing is written to the store."""
        self._places = self._directories()
        for session in self._bundle.manifest.sessions:
            self._take(session, self._places)
        self._take_prompts()
        return self._plan

    def require(self, ready: Ready) -> None:
        """Check staged transcripts; raise `Unresumable` for one that no client resumes."""
        for path, before in self._before.items():
            if path not in ready:
                continue
            if before:
                require_sound(open_session(before), ready[path])
            elif not self._options.allow_broken:
                self._require_resumable(path.stem, check_session(open_session(ready[path])))

    def _require_resumable(self, name: str, findings: Iterable[Finding]) -> None:
        fatal = [found for found in findings if found.severity is Severity.FATAL]
        if fatal:
            rows = [f"line {found.line or '-'}: {found.message}" for found in fatal]
            hint = f"turnlog unbundle {quote(str(self._bundle.path))} --allow-broken"
            raise Unresumable(f"no client would resume {name}; nothing was written", rows, hint)

    def _directories(self) -> dict[int, str]:
        """Return the directory of this machine for each project of the bundle."""
        manifest = self._bundle.manifest
        return {
            number: self._directory(number, project)
            for number, project in enumerate(manifest.projects)
        }

    def _directory(self, number: int, project: BundledProject) -> str:
        if self._options.into is not None:
            into = real_path(self._options.into)
            is_single = len(self._bundle.manifest.projects) == 1
            return _require_directory(into if is_single else into / _plain_name(project))
        for session in self._bundle.manifest.sessions:
            existing = self._existing.get(session.id.lower())
            known = directory_of(existing) if existing and session.project == number else None
            if known:
                return known
        home = f"{self._bundle.manifest.tokens}home}}"
        below = project.path.removeprefix(home)
        # The sender names the directory. In `~/.ssh`, `/rewind` could replace `authorized_keys`.
        if below != project.path and not _is_hidden(below):
            same = Path(self._options.home + below)
            if same.is_dir():
                return str(same.resolve())
        if len(self._bundle.manifest.projects) == 1:
            return str(self._options.here.resolve())
        message = f"{_plain_name(project)!r} has no known directory on this machine"
        raise UsageError(message, f"turnlog unbundle {quote(str(self._bundle.path))} --into DIR")

    def _take(self, session: BundledSession, places: Mapping[int, str]) -> None:
        existing = self._existing.get(session.id.lower())
        if existing is None:
            self._write(session, places, Relation.NEW)
            return
        # Compare in the directory of the existing session: `--into` is for new ones.
        own = directory_of(existing) or places[session.project]
        laid = self._lay_out(session, {**places, session.project: own})
        is_redacted = self._bundle.manifest.is_redacted
        comparison = LineComparison(self._store, existing, own, is_redacted)
        relations = self._relations(laid, existing, comparison)
        # Some logs ahead and some behind: both sides were continued, as if one log diverged.
        relation = combined(relations.values())
        if relation is Relation.DIVERGED:
            self._write(session, places, relation)
        else:
            self._update(laid, existing, relations, comparison)
            is_ahead = relation is Relation.AHEAD
            transcript = laid.transcript if is_ahead else None
            self._note(session, session.id, own, relation, transcript, existing)

    def _relations(
        self, laid: LaidOut, existing: Path, comparison: LineComparison
    ) -> dict[Path, Relation]:
        """Compare the transcript and the logs of sub-agents with those in the store."""
        own = {path: self._own_path(laid, path, existing.parent) for path in laid.files()}
        own[laid.transcript] = existing
        return {
            path: relation_of(mine, path, comparison.are_equal) if mine.exists() else Relation.AHEAD
            for path, mine in own.items()
            if _is_log(path)
        }

    def _write(
        self, session: BundledSession, places: Mapping[int, str], relation: Relation
    ) -> None:
        """Plan to write a session that the store lacks; under new ids if it diverged."""
        laid = self._lay_out(session, places)
        files = laid.files()
        taken = [path for path in files if self._own_path(laid, path).exists()]
        shared = {path for path in files if path.parent.name in (PLANS, "paste-cache")}
        is_fork = relation is Relation.DIVERGED or bool(set(taken) - shared)
        name = session.id
        if is_fork:
            ids = _fork_ids(self._hash_of(session))
            opened = open_session(laid.transcript)
            plan = build_plan(opened, EditOptions())
            clone = plan_clone(laid.store, opened, plan, new_id=lambda: next(ids))
            name, contents = clone.id, dict(clone.files)
            contents |= {path: chunks_of(path) for path in shared}
            if name in self._existing:
                self._note(session, name, laid.directory, Relation.SAME, None)
                return
        else:
            contents = {path: chunks_of(path) for path in files}
        # The transcript comes last: a client lists a session as soon as its file exists.
        for path in sorted(contents, key=lambda each: each.stem == name):
            self._add(self._own_path(laid, path), path, contents[path])
        target = self._store.project_of(laid.directory) / f"{name}.jsonl"
        self._before[target] = None
        self._prompts += [raw.replace(session.id.encode(), name.encode()) for raw in laid.prompts]
        self._plan.untracked |= laid.untracked
        self._note(session, name, laid.directory, relation, laid.transcript)

    def _update(
        self,
        laid: LaidOut,
        existing: Path,
        relations: Mapping[Path, Relation],
        comparison: LineComparison,
    ) -> None:
        """Plan to append the lines that an existing session lacks, and to add missing files."""
        relation = combined(relations.values())
        backups = laid.store.file_history / laid.session
        for path in laid.files():
            own = self._own_path(laid, path, existing.parent)
            if path in relations:
                if relations[path] is Relation.AHEAD:
                    own = existing if path == laid.transcript else own
                    self._add_or_extend(own, path)
            elif _is_state(path):
                self._update_state(own, path, relation)
            elif path.parent == backups:
                self._add_backup(own, path, relation, comparison)
            else:
                self._add(own, path, chunks_of(path))
        if relation is Relation.AHEAD:
            self._before[existing] = existing
            self._prompts += laid.prompts
            self._plan.untracked |= laid.untracked

    def _add_backup(
        self, own: Path, path: Path, relation: Relation, comparison: LineComparison
    ) -> None:
        """Plan to add a backup; if ours differs, the bundle's version gets a name next to it.

        After a rewind, the client uses the number of a backup again, for another content. Nothing
        tells which of two versions a line of the bundle means, so both must be there.
        """
        if not own.exists():
            self._add(own, path, chunks_of(path))
            return
        theirs = path.read_bytes()
        if own.read_bytes() == theirs or comparison.is_redacted_from(own, theirs):
            return
        self._plan.kept.append(own)
        if THEIRS.search(own.name):
            return
        aside = set_aside(own, hashlib.sha256(theirs).digest())
        # A session that is behind adds no lines that could mean its version.
        if relation is not Relation.BEHIND and not aside.exists():
            self._plan.asides.append(aside)
            self._add(aside, path, [theirs])

    def _add_or_extend(self, own: Path, path: Path) -> None:
        if own.exists():
            self._replace(own, extended(own, path))
        else:
            self._add(own, path, chunks_of(path))

    def _update_state(self, own: Path, path: Path, relation: Relation) -> None:
        """Plan to write a to-do list or a title: that of the longer session is the newer one."""
        if relation is Relation.SAME and own.exists():
            self._keep(own, path)
        elif relation is Relation.AHEAD and not own.exists():
            self._add(own, path, chunks_of(path))
        elif relation is Relation.AHEAD and own.read_bytes() != path.read_bytes():
            self._replace(own, chunks_of(path))

    def _replace(self, own: Path, content: Iterable[bytes]) -> None:
        self._plan.changes.append(Change(own, content, FileState.of(own)))

    def _add(self, own: Path, path: Path, content: Iterable[bytes]) -> None:
        """Plan to write a new file, unless the store or another session of the bundle has it."""
        if own.exists():
            self._keep(own, path)
        elif own not in self._new:  # sessions may share a plan or a pasted text
            self._new.add(own)
            self._plan.changes.append(Change(own, content, None))

    def _hash_of(self, session: BundledSession) -> str:
        """Return the hash of a session's logs."""
        files, prompts = self._bundle.manifest.files, f"{session.id}/{PROMPTS}"
        own = (files[number] for number in self._bundle.numbers_of(session.id))
        logs = (file for file in own if file.path != prompts and _is_log(Path(file.path)))
        return " ".join(file.sha256 for file in sorted(logs, key=lambda each: each.path))

    def _keep(self, own: Path, other: Path) -> None:
        if own.read_bytes() != other.read_bytes():
            self._plan.kept.append(own)

    def _note(
        self,
        session: BundledSession,
        name: str,
        directory: str,
        relation: Relation,
        transcript: Path | None,
        existing: Path | None = None,
    ) -> None:
        findings = check_session(open_session(transcript)) if transcript else []
        if transcript and not existing and not self._options.allow_broken:
            self._require_resumable(session.id, findings)
        before = sum(1 for _ in read_lines(existing)) if existing else 0
        added = session.lines - before if transcript else 0
        tokens = self._tokens(self._places)
        title = tokens.expand((session.title or "").encode(), is_json=False).decode(
            "utf-8", "replace"
        )
        serious = [found for found in findings if found.is_serious]
        files = len(self._plan.changes) - self._counted
        self._counted += files
        named = session.id, name, title or None, directory
        self._plan.sessions.append(ImportedSession(*named, relation, added, files, serious))

    def _own_path(self, laid: LaidOut, path: Path, folder: Path | None = None) -> Path:
        """Return the path in the store for one in the temporary store."""
        if folder and path.is_relative_to(laid.transcript.parent):
            return folder / path.relative_to(laid.transcript.parent)
        return self._store.root / path.relative_to(laid.store.root)

    def _lay_out(self, session: BundledSession, places: Mapping[int, str]) -> LaidOut:
        tokens = self._tokens(places)
        # The folder is not named by the session's id, which a clone replaces in file paths.
        self._laid += 1
        return lay_out(self._bundle, session, self._folder / str(self._laid), tokens)

    def _tokens(self, places: Mapping[int, str]) -> PathTokens:
        prefix = self._bundle.manifest.tokens
        return PathTokens(prefix, self._options.home, str(self._store.root), places)

    def _take_prompts(self) -> None:
        """Plan to append prompts to the history, except those that it already contains."""
        history = self._store.history
        lines = list(_terminated(history)) if history.is_file() else list[bytes]()
        known = {raw.rstrip() for raw in lines}
        new = [raw for raw in dict.fromkeys(self._prompts) if raw.rstrip() not in known]
        self._plan.prompts = len(new)
        if not new:
            return
        was = FileState.of(history) if history.is_file() else None
        self._plan.changes.append(Change(history, [*lines, *new], was, is_log=True))


def _is_log(path: Path) -> bool:
    """Return whether a file is a transcript, to which lines are only ever appended."""
    return path.suffix == ".jsonl" and TOOL_RESULTS not in path.parts


def _is_state(path: Path) -> bool:
    """Return whether the client rewrites a file, so that the newer version wins.

    To-do lists, tasks and titles are rewritten; an output of a tool never is, whatever its suffix.
    """
    return path.suffix == ".json" and TOOL_RESULTS not in path.parts


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in re.split(r"[/\\]", path))


def _require_directory(path: Path) -> str:
    if not path.is_dir():
        raise NotFound(f"{path} is not a directory", f"mkdir -p {quote(str(path))}")
    return str(path)


def _plain_name(project: BundledProject) -> str:
    """Return the last part of a project's path; it names a directory below `--into`."""
    if problem := name_problem(project.name):
        raise UsageError(f"project {project.name!r} {problem}", "turnlog unbundle --help")
    return project.name


def _fork_ids(seed: str) -> Iterator[str]:
    """Yield ids for a fork; a bundle always gets the same, so importing it again adds nothing."""
    for number in count():
        digest = hashlib.sha256(f"turnlog fork {seed} {number}".encode()).digest()
        yield str(uuid.UUID(bytes=digest[:16], version=4))


def _terminated(path: Path) -> Iterator[bytes]:
    for line in read_lines(path):
        yield line.raw if line.is_whole else line.raw + b"\n"
