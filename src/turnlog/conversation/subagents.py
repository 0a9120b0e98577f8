"""Sub-agents: sessions that a call of another session started."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from turnlog.conversation.calls import Call
from turnlog.format.decode import read_entries
from turnlog.format.fields import given
from turnlog.store.paths import adjacent_subagents, nested_subagents, subagent_meta


@dataclass(frozen=True, slots=True)
class SubAgentFile:
    """A sub-agent with a file of its own."""

    id: str
    path: Path
    meta: dict[str, Any]
    """What its `.meta.json` says; empty for clients before 2.1.97."""
    call_id: str | None
    """The call that started it; none did for the client's own helpers."""

    @property
    def description(self) -> str:
        return str(self.meta.get("description") or self.meta.get("agentType") or self.id)


def subagent_files(session: Path, calls: list[Call]) -> list[SubAgentFile]:
    """The sub-agents of a session that have files, linked to the calls that started them."""
    started = {call.agent_id: call.id for call in calls if call.agent_id}
    return [_describe(path, started) for path in _paths(session)]


def _paths(session: Path) -> Iterator[Path]:
    yield from nested_subagents(session)
    for path in adjacent_subagents(session.parent):
        owner = next((given(entry.session_id) for _, entry in read_entries(path)), None)
        if owner == session.stem and path != session:
            yield path


def _describe(path: Path, started: dict[str, str]) -> SubAgentFile:
    name = path.stem.removeprefix("agent-")
    meta = _meta(subagent_meta(path))
    return SubAgentFile(name, path, meta, meta.get("toolUseId") or started.get(name))


def _meta(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}
