"""The asynchronous interface of the Agent SDK's session stores, on top of blocking functions."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from anyio import to_thread

from turnlog.sdk.entry_lines import Entry
from turnlog.sdk.session_keys import TranscriptKey, find_key, require_key

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )


class ThreadedSessionStore(ABC):
    """A session store that runs blocking methods in threads.

    `append` raises `UsageError` for an invalid key; all other methods act as if nothing is stored
    under it.
    """

    async def append(self, key: "SessionKey", entries: "list[SessionStoreEntry]") -> None:
        """Append entries to a transcript, except those whose `uuid` it already has."""
        await to_thread.run_sync(self._append, require_key(key), cast("list[Entry]", entries))

    async def load(self, key: "SessionKey") -> "list[SessionStoreEntry] | None":
        """Return the entries of a transcript; None if it was never written."""
        found = find_key(key)
        entries = await to_thread.run_sync(self._load, found) if found else None
        return cast("list[SessionStoreEntry] | None", entries)

    async def list_sessions(self, project_key: str) -> "list[SessionStoreListEntry]":
        """Return the sessions of a project and when they were last written."""
        return await to_thread.run_sync(self._list_sessions, project_key)

    async def list_session_summaries(self, project_key: str) -> "list[SessionSummaryEntry]":
        """Return the SDK's own summaries of the sessions of a project."""
        return await to_thread.run_sync(self._list_summaries, project_key)

    async def delete(self, key: "SessionKey") -> None:
        """Delete a sub-agent's transcript, or a session with all its sub-agents."""
        if found := find_key(key):
            await to_thread.run_sync(self._delete, found)

    async def list_subkeys(self, key: "SessionListSubkeysKey") -> list[str]:
        """Return the subpaths of a session's sub-agents."""
        found = find_key(key)
        return await to_thread.run_sync(self._list_subkeys, found) if found else []

    @abstractmethod
    def _append(self, key: TranscriptKey, entries: list[Entry]) -> None: ...

    @abstractmethod
    def _load(self, key: TranscriptKey) -> list[Entry] | None: ...

    @abstractmethod
    def _list_sessions(self, project: str) -> "list[SessionStoreListEntry]": ...

    @abstractmethod
    def _list_summaries(self, project: str) -> "list[SessionSummaryEntry]": ...

    @abstractmethod
    def _delete(self, key: TranscriptKey) -> None: ...

    @abstractmethod
    def _list_subkeys(self, key: TranscriptKey) -> list[str]: ...
