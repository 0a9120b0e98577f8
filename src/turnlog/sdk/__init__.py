"""Session stores for the Agent SDK (PyPI `claude-agent-sdk`), which is imported only when used."""

from turnlog.sdk.archive_store import ArchiveSessionStore
from turnlog.sdk.filesystem_store import FilesystemSessionStore

__all__ = ["ArchiveSessionStore", "FilesystemSessionStore"]
