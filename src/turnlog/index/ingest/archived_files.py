"""Find files that are gone from the store but archived; the index keeps covering them."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from turnlog.index.ingest.figure_writer import SourceFile
from turnlog.store.archive.archive import MIRRORED, Archive, ArchivedCopy, ArchiveManifest
from turnlog.store.catalog import SessionNames
from turnlog.store.paths import Store, is_session_name
from turnlog.store.stores import AnyStores, each_store


def archived_sources(
    archive: Archive, stores: AnyStores, present: Iterable[SourceFile]
) -> Iterator[SourceFile]:
    """Yield the files of sessions and sub-agents that only the archive has."""
    roots = {str(store.root.resolve()): store for store in each_store(stores)}
    # A mirrored session has no store; it is listed with the sessions of the first store.
    for first in each_store(stores)[:1]:
        roots[MIRRORED] = first
    # Compare without store and project: a moved session exists under another path.
    roles = {_role(source) for source in present}
    for manifest in archive.manifests():
        if store := roots.get(manifest.store):
            yield from _sources(archive, store, manifest, roles)


def _role(source: SourceFile) -> tuple[str, ...]:
    return source.path.relative_to(Path(source.store, "projects")).parts[1:]


def _sources(
    archive: Archive, store: Store, manifest: ArchiveManifest, roles: set[tuple[str, ...]]
) -> Iterator[SourceFile]:
    for file in manifest.current:
        # A manifest from elsewhere may name any path, such as "../../.ssh/id_rsa".
        if manifest.problem(file):
            continue
        folder, name = file.path.partition("/")[0], PurePosixPath(file.path).name
        role = tuple(file.role.split("/"))
        is_agent = name.startswith("agent-") and name.endswith(".jsonl")
        is_session = len(role) == 1 and is_session_name(name)
        if folder == "projects" and (is_agent or is_session) and role not in roles:
            owner = manifest.session if is_session or len(role) > 1 else None
            copy = ArchivedCopy(archive, file, SessionNames(manifest.title, manifest.tag))
            path = str(Path(store.root, file.path))
            yield SourceFile(path, str(store.root), file.state, owner, not is_session, copy)
