"""Take other machines' versions of documents, which are replaced as a whole.

A version that knows ours as an older one replaces it. All others are kept next to ours, so no
content is lost that only one machine has.
"""

from collections.abc import Iterable
from typing import NamedTuple

from turnlog.exchange.editions import OwnFile, OwnSession, own_version
from turnlog.exchange.machine_manifest import MOST_REPLACED, FileVersion


class Aside(NamedTuple):
    """Another machine's version of a document, to be written next to ours."""

    own: OwnSession
    version: FileVersion


def take_documents(own: OwnSession, versions: Iterable[FileVersion], asides: list[Aside]) -> bool:
    """Take documents of another machine; return False if some are left for a later sync."""
    taken = [_take(own, theirs, asides) for theirs in versions]
    return all(taken)


def _take(own: OwnSession, theirs: FileVersion, asides: list[Aside]) -> bool:
    mine = own.files.get(theirs.role)
    # For backups, `replaces` has only what this machine replaced: see below.
    replaces = [] if theirs.is_backup else theirs.replaces[-MOST_REPLACED:]
    if mine is None:
        version = FileVersion(theirs.role, theirs.project, theirs.pieces)
        version.replaces = replaces
        own.files[theirs.role] = OwnFile(version)
    elif mine.version.covers(theirs):
        return True
    elif mine.is_left:
        # It was removed here and is not to be restored now; a sync that restores it takes both.
        return False
    # After a rewind, a client counts on from there and overwrites backups that other branches use.
    # So another content under the name of a backup is never a newer version of it.
    elif theirs.covers(mine.version) and not theirs.is_backup:
        mine.version = own_version(mine.version)
        mine.version.pieces, mine.version.replaces = theirs.pieces, replaces
        mine.is_replaced = True
    else:
        asides.append(Aside(own, theirs))
    return True


def published_documents(own: OwnSession) -> dict[str, FileVersion]:
    """Return the documents of a session as this machine last published them, by role."""
    published = {role: file.published for role, file in own.files.items()}
    return {role: each for role, each in published.items() if each and not each.is_log}
