"""Write a bundle: gather the files of sessions, redact them, replace directories by tokens, pack.

The finished file is read back before it gets its name: every checksum is compared, and a redacted
bundle is searched for secrets once more.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from turnlog import __version__
from turnlog.bundle.container import PackedFile, write_container
from turnlog.bundle.encoded_secrets import encoded_secrets, image_secrets, is_image, is_text
from turnlog.bundle.manifest import (
    FORMAT,
    MANIFEST,
    VERSION,
    BundledFile,
    BundledProject,
    BundledSession,
    BundleManifest,
    Omission,
    encode_manifest,
)
from turnlog.bundle.members import BundleMember, gather, has_tokens
from turnlog.bundle.path_tokens import PathTokens, first_free_prefix, prefixes_in
from turnlog.bundle.sealing import sign, signature_of
from turnlog.bundle.validation import OpenBundle, open_bundle, private_folder
from turnlog.edit.move import directory_of
from turnlog.edit.redact.redaction import find_all, find_remaining
from turnlog.edit.redact.replacement import Find, RedactedPart, RedactionFinds, redact_part
from turnlog.edit.redact.secret_finder import Finder
from turnlog.errors import Conflict, Damaged, Unredacted, UsageError
from turnlog.format.age_files import encrypt_with_password
from turnlog.format.atomic import written_beside
from turnlog.format.decode import read_entries, split_values
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.format.jsonl import Line, read_lines
from turnlog.secrets import find_secrets, mask, placeholder_for
from turnlog.store.archive.allowed_paths import is_session_id
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import TOOL_RESULTS, Store, last_part

ENCODED_KIND = "encoded-secret"
CHUNK = 1 << 20
LARGEST_TOTAL = 1 << 50
CLIENT_VERSION = re.compile(r"[\w.+-]{1,40}")
UNSEARCHABLE = "is not text, so it cannot be searched for secrets"

Progress = Callable[[int], None]


@dataclass(frozen=True)
class BundleOptions:
    """Options for writing a bundle."""

    is_redacted: bool = True
    password: str | None = None
    """If given, encrypts the bundle."""
    key: Path | None = None
    """SSH key that signs the bundle."""
    home: str = field(default_factory=lambda: str(Path.home()))
    """The home directory that is replaced by a token."""


class BundleReport(NamedTuple):
    """A bundle that was written, or would be."""

    path: Path
    manifest: BundleManifest
    size: int
    """Its size in bytes."""
    signature: Path | None


def write_bundle(
    store: Store,
    sessions: Iterable[Path],
    path: Path,
    options: BundleOptions,
    *,
    dry_run: bool = False,
    progress: Progress = lambda count: None,
) -> BundleReport:
    """Write sessions of a store to a bundle; with `dry_run`, do everything but keep the file."""
    chosen = _chosen(sessions)
    with private_folder() as folder:
        packing = _Packing(store, chosen, options, folder)
        manifest, members = packing.pack(progress)
        packed = folder / "packed"
        with packed.open("wb") as file:
            write_container(file, encode_manifest(manifest), members)
        # Before it is encrypted, so that the check reads what the receiver will see.
        _require_importable(packed, folder / "again", packing.finder)
        if options.password is not None:
            packed.write_bytes(encrypt_with_password(packed.read_bytes(), options.password))
        size = packed.stat().st_size
        if dry_run:
            return BundleReport(path, manifest, size, None)
        # Sign it before it gets its name: if signing fails, there must be no bundle.
        signature = sign(packed, options.key) if options.key else None
        _put(packed, path)
        if signature:
            _put(signature, signature_of(path))
    return BundleReport(path, manifest, size, signature_of(path) if signature else None)


def _chosen(sessions: Iterable[Path]) -> list[Path]:
    """Return the sessions in a fixed order; raise `UsageError` if one cannot be bundled."""
    found = sorted(dict.fromkeys(sessions), key=lambda path: (path.stem, str(path)))
    for path in found:
        if not is_session_id(path.stem):
            hint = f"turnlog clone {quote(path.stem)}"
            raise UsageError(f"{path.name} is not named by a UUID: no client resumes it", hint)
    for one, other in pairwise(found):
        # Ids that differ only in case are one file on macOS and Windows.
        if one.stem.lower() == other.stem.lower():
            message = f"{one} and {other} have the same id"
            raise UsageError(message, f"turnlog bundle {quote(str(one))} -o FILE")
    if not found:
        raise UsageError("no session matches", "turnlog ls")
    return found


def _put(packed: Path, path: Path) -> None:
    with written_beside(path, 0o600) as (descriptor, beside):
        with packed.open("rb") as source, open(descriptor, "wb", closefd=False) as file:
            while chunk := source.read(CHUNK):
                file.write(chunk)
        beside.replace(path)


class _Packing:
    """Gathers, redacts and writes the files of one bundle."""

    def __init__(
        self, store: Store, sessions: Sequence[Path], options: BundleOptions, folder: Path
    ) -> None:
        self._store, self._sessions, self._options = store, sessions, options
        self._folder = folder
        self._omitted: list[Omission] = []
        self.finder = Finder()
        self._suspects: dict[Path, set[int]] = {}
        """Lines with secrets by file: only these and lines with known values are searched twice."""

    def pack(self, progress: Progress) -> tuple[BundleManifest, list[PackedFile]]:
        """Write the content of all files to the folder; return the manifest and the files."""
        members = self._gather()
        finds: list[Find] = []
        if self._options.is_redacted:
            finds = self._find(members, progress)
            members = [member for member in members if not self._is_named_by_secret(member)]
        directories = {path: directory_of(path) for path in self._sessions}
        tokens = self._tokens(members, directories)
        packed: list[PackedFile] = []
        files: list[BundledFile] = []
        for number, member in enumerate(members):
            target = self._folder / str(number)
            size, digest = _write(target, self._content(member, tokens))
            packed.append(PackedFile(member.name, size, target))
            files.append(BundledFile(member.name, size, digest))
        transcripts = {m.path: p.path for m, p in zip(members, packed, strict=True)}
        chosen = [(path, transcripts[path], directories[path]) for path in self._sessions]
        return self._manifest(files, finds, chosen, tokens), packed

    def _gather(self) -> list[BundleMember]:
        members: list[BundleMember] = []
        for session in self._sessions:
            gathered = gather(self._store, session)
            self._omitted += gathered.omitted
            members += gathered.members
        if not self._options.is_redacted:
            return members
        kept: list[BundleMember] = []
        for member in members:
            if reason := _unsearchable(member):
                self._omitted.append(Omission(member.name, reason))
            else:
                kept.append(member)
        return kept

    def _find(self, members: Sequence[BundleMember], progress: Progress) -> list[Find]:
        found, self.finder = find_all(_parts(members), (), progress)
        for find in found.finds:
            self._suspects.setdefault(find.path, set()).add(find.line)
        encoded = {
            piece: ENCODED_KIND
            for path in dict.fromkeys(member.path for member in members)
            for raw in _pieces(path)
            for piece in encoded_secrets(raw, self.finder)
        }
        if encoded:
            self.finder = replace(self.finder, kinds={**self.finder.kinds, **encoded})
        return found.finds + [Find(Path(), 0, kind, piece) for piece, kind in encoded.items()]

    def _is_named_by_secret(self, member: BundleMember) -> bool:
        """Return whether a file's name contains a secret; if so, record that it is left out.

        This is known only after the search: `hunter2-77.txt` is harmless, unless a prompt says
        `PASSWORD=hunter2-77`.
        """
        session, _, inner = member.name.partition("/")
        own = _valid(inner.replace(session, ""))
        is_named = self._shown(own) != own
        if is_named:
            self._omitted.append(Omission(member.name, "its name contains a secret"))
        return is_named

    def _tokens(
        self, members: list[BundleMember], directories: dict[Path, str | None]
    ) -> PathTokens:
        used: set[int] = set()
        for path in dict.fromkeys(m.path for m in members if has_tokens(m.name)):
            for raw in _pieces(path):
                used |= prefixes_in(raw)
        known = dict.fromkeys(found for found in directories.values() if found)
        home = self._options.home if len(self._options.home.strip("/\\")) else None
        root = str(self._store.root.absolute())
        return PathTokens(first_free_prefix(used), home, root, dict(enumerate(known)))

    def _content(self, member: BundleMember, tokens: PathTokens) -> Iterator[bytes]:
        prefix = tokens.prefix.encode()
        for raw in self._redacted(member):
            if not has_tokens(member.name):
                yield raw
                continue
            # The client may have written a line since the prefix was chosen.
            if prefix in raw:
                hint = "turnlog bundle SESSION -o FILE"
                raise Conflict(f"{member.path} changed while it was read", hint)
            yield tokens.replace(raw)

    def _redacted(self, member: BundleMember) -> Iterator[bytes]:
        part = RedactedPart(member.path, member.lines)
        if self._options.is_redacted:
            suspects = self._suspects.get(member.path, set[int]())
            pieces = redact_part(part, self.finder, RedactionFinds(), suspects)
        else:
            pieces = _pieces(member.path)
        if member.lines is None:
            yield from self._without_torn_end(member, pieces)
            return
        # The prompt history of all sessions: one piece per line.
        yield from (raw for number, raw in enumerate(pieces, 1) if number in member.lines)

    def _without_torn_end(self, member: BundleMember, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Skip an incomplete last line, which the client is still writing."""
        for raw in pieces:
            is_torn = member.path.suffix == ".jsonl" and not raw.endswith(b"\n")
            if is_torn and split_values(Line(raw, 0, 0))[1]:
                self._omitted.append(Omission(member.name, "its last line is incomplete"))
            else:
                yield raw

    def _manifest(
        self,
        files: list[BundledFile],
        finds: list[Find],
        chosen: list[tuple[Path, Path, str | None]],
        tokens: PathTokens,
    ) -> BundleManifest:
        places = [*dict.fromkeys(directory or "" for _, _, directory in chosen)]
        known = [*tokens.projects.values()]
        # Tokens are numbered by known directories, so an unknown one comes last.
        places.sort(key=lambda path: known.index(path) if path in known else len(known))
        projects = [
            BundledProject(self._shown(tokens.below_home(path)), self._shown(last_part(path)))
            for path in places
        ]
        sessions = [
            self._session(path, packed, places.index(directory or ""), tokens)
            for path, packed, directory in chosen
        ]
        omitted = [Omission(mask(self._shown(each.path)), each.reason) for each in self._omitted]
        return BundleManifest(
            format=FORMAT,
            version=VERSION,
            turnlog=__version__,
            is_redacted=self._options.is_redacted,
            masked=dict(sorted(Counter(find.kind for find in finds).items())),
            tokens=tokens.prefix,
            projects=projects,
            sessions=sessions,
            files=files,
            omitted=omitted,
        )

    def _session(
        self, path: Path, packed: Path, project: int, tokens: PathTokens
    ) -> BundledSession:
        versions: dict[str, None] = {}
        lines = sum(1 for _ in read_lines(packed))
        for _, entry in read_entries(packed):
            version = given(entry.version) if isinstance(entry, ChainEntry) else None
            if version and CLIENT_VERSION.fullmatch(version):
                versions[version] = None
        title = describe(locate_session(path)).title
        shown = tokens.replace(self._shown(title or "").encode("utf-8", "replace")).decode()
        return BundledSession(path.stem, project, shown or None, list(versions), lines)

    def _shown(self, text: str) -> str:
        text = _valid(text)
        if not self._options.is_redacted:
            return text
        # The longest first, in an order that does not depend on the order of the finds.
        for form, value in sorted(
            self.finder.forms.items(), key=lambda each: (-len(each[0]), each)
        ):
            text = text.replace(form, placeholder_for(self.finder.kinds[value], value))
        return mask(text)


def _valid(text: str) -> str:
    """Return a text as valid UTF-8 for the manifest; file names may contain other bytes."""
    return text.encode("utf-8", "replace").decode()


def _parts(members: Iterable[BundleMember]) -> list[RedactedPart]:
    return [RedactedPart(member.path, member.lines) for member in members]


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield a file line by line if it is a log, else as a whole."""
    if path.suffix == ".jsonl":
        return (line.raw for line in read_lines(path))
    return iter([path.read_bytes()])


def _unsearchable(member: BundleMember) -> str | None:
    """Return why a file cannot be redacted; None if it is text, or an image without secrets."""
    # Logs may contain bytes that are not UTF-8, but they are searched line by line anyway.
    if member.path.suffix == ".jsonl" and TOOL_RESULTS not in member.path.parts:
        return None
    raw = member.path.read_bytes()
    if is_image(raw):
        return "is an image that contains a secret" if image_secrets(raw, Finder()) else None
    return None if is_text(raw) else UNSEARCHABLE


def _write(target: Path, pieces: Iterable[bytes]) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        for raw in pieces:
            digest.update(raw)
            size += len(raw)
            file.write(raw)
    return size, digest.hexdigest()


def _require_importable(packed: Path, folder: Path, finder: Finder) -> None:
    """Open a finished bundle as its receiver would; raise `Damaged` if that fails.

    Raise `Unredacted` if a redacted bundle still contains a secret.
    """
    try:
        with open_bundle(packed, max_size=LARGEST_TOTAL) as bundle:
            if bundle.manifest.is_redacted:
                _require_clean(bundle, folder, finder)
    except Damaged as error:
        reason = error.message.removeprefix(f"{packed}: ")
        raise Damaged(f"cannot be bundled: {reason}", "turnlog check --all") from error


def _require_clean(bundle: OpenBundle, folder: Path, finder: Finder) -> None:
    manifest = bundle.manifest
    paths = [folder / each.path for each in manifest.files]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        bundle.file(number).rename(path)  # names decide how a file is searched
    left = find_remaining([RedactedPart(path) for path in paths], finder, lambda count: None)
    left += [find for path in paths for find in _encoded_finds(path, finder)]
    # Checksums are hexadecimal digits, which look like keys.
    facts = encode_manifest(_without_hashes(manifest)).decode()
    left += [Find(folder / MANIFEST, 0, secret.kind, "") for secret in find_secrets(facts)]
    known = [finder.kinds[value] for form, value in finder.forms.items() if form in facts]
    left += [Find(folder / MANIFEST, 0, kind, "") for kind in known]
    if left:
        rows = [_row(folder, find) for find in dict.fromkeys(left)]
        hint = f"turnlog redact {quote(manifest.sessions[0].id[:8])} --dry-run"
        raise Unredacted("secrets are left that cannot be replaced; no bundle written", rows, hint)


def _without_hashes(manifest: BundleManifest) -> BundleManifest:
    from msgspec.structs import replace as replaced

    return replaced(manifest, files=[replaced(each, sha256="") for each in manifest.files])


def _encoded_finds(path: Path, finder: Finder) -> Iterator[Find]:
    for number, raw in enumerate(_pieces(path), 1):
        if is_image(raw) and image_secrets(raw, finder):
            yield Find(path, 0, "image", "")
        for piece in encoded_secrets(raw, finder):
            yield Find(path, number, ENCODED_KIND, piece)


def _row(folder: Path, find: Find) -> str:
    name = find.path.relative_to(folder).as_posix() if find.path.is_relative_to(folder) else ""
    where = f"{name}:{find.line}" if find.line > 0 else name
    return f"{where}: {placeholder_for(find.kind, find.value) if find.value else find.kind}"
