"""Lay out a session of a bundle in a temporary store, with the directories of the receiver."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from turnlog.bundle.manifest import BundledSession
from turnlog.bundle.members import PROMPTS, has_tokens, is_json_name, place_problem, store_path
from turnlog.bundle.path_tokens import PathTokens
from turnlog.bundle.validation import OpenBundle, refused
from turnlog.edit.journal import chunks_of
from turnlog.edit.tracked_files import without_foreign_files
from turnlog.format.decode import values_of
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line, read_lines
from turnlog.store.footprint import footprint_of
from turnlog.store.paths import Store, folder_name


@dataclass
class LaidOut:
    """A session in a temporary store of its own."""

    store: Store
    session: str
    directory: str
    prompts: list[bytes] = field(default_factory=list[bytes])
    untracked: set[str] = field(default_factory=set[str])
    """Files outside of the project that the session would have restored."""

    @property
    def transcript(self) -> Path:
        return self.store.project_of(self.directory) / f"{self.session}.jsonl"

    def guarded(self, raw: bytes) -> bytes:
        """Return a line without tracked files outside of the project; record which were dropped."""
        line, foreign = without_foreign_files(raw, self.directory)
        self.untracked.update(foreign)
        return line

    def files(self) -> list[Path]:
        """Return all files but the prompt history, in a fixed order."""
        return sorted(path for path in self.store.root.rglob("*") if path.is_file())


def lay_out(bundle: OpenBundle, session: BundledSession, root: Path, tokens: PathTokens) -> LaidOut:
    """Write a session's files to a temporary store; raise `Damaged` if one is not its own."""
    laid = LaidOut(Store(root), session.id, tokens.projects[session.project])
    for number in bundle.numbers_of(session.id):
        _put(laid, bundle, number, tokens)
    _require_own(laid, bundle)
    return laid


def _put(laid: LaidOut, bundle: OpenBundle, number: int, tokens: PathTokens) -> None:
    name, source = bundle.manifest.files[number].path, bundle.file(number)
    pieces: Iterator[bytes] = chunks_of(source)
    if has_tokens(name):
        is_json = is_json_name(name)
        pieces = (tokens.expand(line.raw, is_json) for line in read_lines(source))
    if name.endswith(f"/{PROMPTS}"):
        laid.prompts = [raw for raw in pieces if _is_typed_in(laid.directory, raw)]
        return
    if name.endswith(".jsonl"):
        pieces = map(laid.guarded, pieces)
    place = store_path(name, folder_name(laid.directory))
    problem = "has no place" if place is None else place_problem(name, place)
    if place is None or problem:
        raise refused(bundle.path, f"{name!r} {problem}")
    target = laid.store.root / place
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.writelines(pieces)


def _is_typed_in(directory: str, raw: bytes) -> bool:
    """Return whether a prompt belongs to a project: others must not appear in its history."""
    found = values_of(Line(raw, 0, 0))
    fields = next(iter(found), None)
    project = fields.get("project") if is_object(fields) else None
    place = directory.rstrip("/\\")
    return isinstance(project, str) and (project == directory or project.startswith(f"{place}/"))


def _require_own(laid: LaidOut, bundle: OpenBundle) -> None:
    """Raise `Damaged` for a file that the session does not refer to as its own."""
    own = set(footprint_of(laid.store, laid.transcript).files)
    pastes = laid.store.pastes
    for path in laid.files():
        # Foreign files are, for example, sub-agents of another session or plans named by no entry.
        is_paste = path.parent == pastes and any(path.stem.encode() in raw for raw in laid.prompts)
        if path not in own and not is_paste:
            name = path.relative_to(laid.store.root)
            raise refused(bundle.path, f"{name} does not belong to session {laid.session}")
