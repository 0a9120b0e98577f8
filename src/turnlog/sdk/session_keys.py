"""Convert the Agent SDK's keys of transcripts to paths in a store, and back.

A key has a project, a session and, for sub-agents, a subpath. Keys come from programs or, in shared
storage, from anyone, so they are checked before they become paths.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.store.archive.mirror import require_path

TRANSCRIPT = ".jsonl"
METADATA_FILE = ".meta.json"


class TranscriptKey(NamedTuple):
    """A valid key; the subpath of a session's own transcript is empty."""

    project: str
    session: str
    subpath: str = ""

    @property
    def folder(self) -> str:
        """The folder of the session's other files."""
        return f"projects/{self.project}/{self.session}"

    @property
    def path(self) -> str:
        """The path of the transcript in a store."""
        name = f"{self.folder}/{self.subpath}" if self.subpath else self.folder
        return f"{name}{TRANSCRIPT}"

    @property
    def metadata_path(self) -> str:
        return f"{self.folder}/{self.subpath}{METADATA_FILE}"


def require_key(key: Mapping[str, Any]) -> TranscriptKey:
    """Parse a key of the SDK; raise `UsageError` if it does not name a file of a session.

    >>> require_key({"project_key": "-home-ada", "session_id": "a1"}).path
    'projects/-home-ada/a1.jsonl'
    """
    found = TranscriptKey(key["project_key"], key["session_id"], key.get("subpath") or "")
    require_path(found.session, found.path)
    return found


def find_key(key: Mapping[str, Any]) -> TranscriptKey | None:
    """Parse a key of the SDK; return None if it is not a valid path, such as `../x`.

    >>> find_key({"project_key": "..", "session_id": "a1"})
    """
    try:
        return require_key(key)
    except UsageError:
        return None


def subpath_of(key: TranscriptKey, path: str) -> str | None:
    """Return the subpath of a sub-agent's file; None for other files.

    >>> subpath_of(TranscriptKey("p", "a1"), "projects/p/a1/subagents/agent-x.jsonl")
    'subagents/agent-x'
    """
    if not path.startswith(f"{key.folder}/"):
        return None
    name = path.removeprefix(f"{key.folder}/")
    for suffix in (TRANSCRIPT, METADATA_FILE):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return None
