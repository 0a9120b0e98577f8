"""The manifest: what a bundle contains, and what was left out.

Decoding is strict: unknown fields, wrong types and values out of range are refused, because the
manifest may come from anyone.
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from turnlog.bundle.path_tokens import NAMED_TOKEN, PREFIX
from turnlog.errors import Damaged
from turnlog.store.archive.allowed_paths import ID
from turnlog.text import one_line

FORMAT = "turnlog-bundle"
VERSION = 1
MANIFEST = "manifest.json"
MOST_FILES = 200_000
MOST_SESSIONS = 10_000
MOST_OMISSIONS = 200_000
HASH = re.compile(r"[0-9a-f]{64}")

Text = Annotated[str, Meta(max_length=4096)]
Number = Annotated[int, Meta(ge=0, le=1 << 50)]


class BundledFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the bundle."""

    path: Text
    """Its name in the bundle: `<session>/tool-results/a.txt`."""
    size: Number
    sha256: Text


class BundledProject(Struct, frozen=True, forbid_unknown_fields=True):
    """A directory that sessions belong to."""

    path: Text
    """With a token for the home directory: `{turnlog:home}/src/shop`; empty if it is elsewhere."""
    name: Text


class BundledSession(Struct, frozen=True, forbid_unknown_fields=True):
    """A session of the bundle."""

    id: Text
    project: Number
    title: Text | None
    client_versions: Annotated[list[Text], Meta(max_length=1000)]
    lines: Number


class Omission(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a session that is not in the bundle."""

    path: Text
    reason: Text


class BundleManifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The first file of a bundle."""

    format: Text
    version: Number
    turnlog: Text
    is_redacted: bool
    masked: Annotated[dict[Text, Number], Meta(max_length=10_000)]
    """Number of replaced secrets by kind."""
    tokens: Text
    """The prefix of tokens that replace paths."""
    projects: Annotated[list[BundledProject], Meta(max_length=MOST_SESSIONS)]
    sessions: Annotated[list[BundledSession], Meta(min_length=1, max_length=MOST_SESSIONS)]
    files: Annotated[list[BundledFile], Meta(min_length=1, max_length=MOST_FILES)]
    omitted: Annotated[list[Omission], Meta(max_length=MOST_OMISSIONS)]


def encode_manifest(manifest: BundleManifest) -> bytes:
    """Return the JSON of a manifest; equal manifests have equal bytes."""
    return msgspec.json.format(msgspec.json.encode(manifest, order="deterministic")) + b"\n"


def decode_manifest(raw: bytes) -> BundleManifest:
    """Parse a manifest; raise `Damaged` if turnlog would not have written it."""
    try:
        # Check the version first: a newer manifest may have other fields; the hint is to upgrade.
        head = msgspec.json.decode(raw, type=_ManifestHead)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the manifest is not valid: {_reason(error)}") from error
    if head.format != FORMAT:
        raise Damaged("the manifest does not belong to a bundle")
    if head.version != VERSION:
        raise Damaged(f"version {head.version} is unknown", "pip install --upgrade turnlog")
    try:
        manifest = msgspec.json.decode(raw, type=BundleManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the manifest is not valid: {_reason(error)}") from error
    _require_consistent(manifest)
    return manifest


class _ManifestHead(Struct):
    format: str
    version: int


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else one_line(str(error))


def _require_consistent(manifest: BundleManifest) -> None:
    """Raise `Damaged` if parts of a manifest contradict each other."""
    ids = [session.id for session in manifest.sessions]
    if strange := next((name for name in ids if not ID.fullmatch(name)), None):
        raise Damaged(f"{strange!r} is not a session id")
    # Where file names ignore case, as on a Mac, `ABC…` would overwrite `abc…`.
    if len({name.lower() for name in ids}) < len(ids):
        raise Damaged("a session occurs twice")
    if any(session.project >= len(manifest.projects) for session in manifest.sessions):
        raise Damaged("a session belongs to no project of the manifest")
    if strange := next((f.path for f in manifest.files if not HASH.fullmatch(f.sha256)), None):
        raise Damaged(f"{strange!r} has no SHA-256 checksum")
    if not PREFIX.fullmatch(manifest.tokens):
        raise Damaged(f"{manifest.tokens!r} is not a prefix for tokens")
    for project in manifest.projects:
        _require_plain_project(manifest, project)


def _require_plain_project(manifest: BundleManifest, project: BundledProject) -> None:
    """Raise `Damaged` unless a project's path is empty or below the home token."""
    home = f"{manifest.tokens}home}}"
    rest = project.path.removeprefix(home)
    # A token elsewhere would be expanded into a path that the sender never had.
    if NAMED_TOKEN.search(rest) or PREFIX.search(rest) or PREFIX.search(project.name):
        raise Damaged(f"project {project.path!r} has a token in the wrong place")
    is_below = project.path.startswith(home) and rest[:1] in ("", "/", "\\")
    # The path becomes a directory of the receiver: `{turnlog:home}/../bob` must not leave the home.
    is_odd = "\0" in rest or ".." in re.split(r"[/\\]", rest)
    if project.path and (is_odd or not is_below):
        raise Damaged(f"project {project.path!r} is not a directory")
