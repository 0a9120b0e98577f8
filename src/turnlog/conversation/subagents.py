"""Sub-agents: sessions that a call of another session started.

Their entries are in files of their own, in the session's folder (2.1.29 on) or next to the session
(2.0.x), or in sidechains of the session's own file (before 2.0).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from turnlog.conversation.calls import Call, read_call
from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.prompts import full_text
from turnlog.conversation.tree import Tree
from turnlog.format.decode import read_entries
from turnlog.format.entries import User
from turnlog.format.fields import given
from turnlog.format.json_values import is_object
from turnlog.format.regular_files import is_readable, note_skipped, read_regular, skipping
from turnlog.store.paths import adjacent_subagents, nested_subagents, real_path, subagent_meta


@dataclass(frozen=True, slots=True)
class SubAgent:
    """A sub-agent and the location of its entries."""

    id: str
    path: Path
    meta: dict[str, Any]
    """Contents of its `.meta.json`; empty for clients before 2.1.97."""
    call_id: str | None
    """The call that started it; None for the client's own helpers."""
    root: int | None = None
    """Rank of its first entry among the sidechains of the session's own file, if it is there."""

    @property
    def description(self) -> str:
        return str(self.meta.get("description") or self.meta.get("agentType") or self.id)


def subagents_in_files(
    session: Path, agent_calls: Iterable[Call], find_call: Callable[[str | None], Call | None]
) -> list[SubAgent]:
    """Return the sub-agents of a session that have files, linked to the calls that started them."""
    started = {call.agent_id: call.id for call in agent_calls if call.agent_id}
    found = (_describe(path, started) for path in _paths(session))
    # A sub-agent's own sub-agents are in the same folder as all others of the session, so only
    # those that one of its calls started belong to it. Checked first, because it is cheap: a
    # session with 100 sub-agents would otherwise check 10,000 paths.
    if session.stem.startswith("agent-"):
        found = (agent for agent in found if find_call(agent.call_id))
    return [
        agent
        for agent in found
        if not _is_outside(agent.path, session.parent) and is_readable(agent.path)
    ]


def subagents_inside(log: NodeLog, sidechains: Tree, calls: list[Call]) -> list[SubAgent]:
    """Return the sub-agents in a session's own file, matched to calls by their prompts."""
    waiting = [call for call in calls if call.name in ("Task", "Agent")]
    found: list[SubAgent] = []
    for rank in sidechains.roots:
        root = sidechains.chain[rank]
        entry = log.entry(root)
        prompt = full_text(entry) if isinstance(entry, User) else ""
        call = next((task for task in waiting if _prompt_of(log, task) == prompt), None)
        # Two calls may have the same prompt: each call is matched only once.
        if call:
            waiting.remove(call)
        name = root.uuid or f"line {root.line}"
        found.append(SubAgent(name, log.path, {}, call.id if call else None, rank))
    return found


def _prompt_of(log: NodeLog, call: Call) -> str | None:
    arguments = read_call(log, call).input
    return arguments.get("prompt") if is_object(arguments) else None


def _paths(session: Path) -> Iterator[Path]:
    yield from nested_subagents(session)
    is_agent = session.stem.startswith("agent-")
    for path in adjacent_subagents(session.parent):
        if path != session and (is_agent or _owner(path) == session.stem):
            yield path


def _owner(path: Path) -> str | None:
    """Return the session that a sub-agent's file names; None if it cannot be read."""
    with skipping(path):
        return next((given(entry.session_id) for _, entry in read_entries(path)), None)
    return None


def _is_outside(path: Path, project: Path) -> bool:
    """Return whether a sub-agent's file resolves outside its project; if so, note it as skipped."""
    # A link `subagents/agent-1.jsonl -> ~/diary.jsonl` would otherwise be shown, exported and
    # traced as a part of the session.
    real = real_path(path)
    if real.is_relative_to(real_path(project)):
        return False
    note_skipped(path, f"a link to {real}, outside of the project's folder")
    return True


def _describe(path: Path, started: dict[str, str]) -> SubAgent:
    name = path.stem.removeprefix("agent-")
    meta = _read_meta(subagent_meta(path))
    recorded = meta.get("toolUseId")
    call_id = recorded if isinstance(recorded, str) and recorded else started.get(name)
    return SubAgent(name, path, meta, call_id)


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        state = path.stat()
        return _parsed_meta(path, state.st_mtime_ns, state.st_size)
    except (OSError, msgspec.MsgspecError):
        return {}


# Cached, because each of a hundred sub-agents searches all of them for those that it started.
@lru_cache(512)
def _parsed_meta(path: Path, mtime_ns: int, size: int) -> dict[str, Any]:
    return msgspec.json.decode(read_regular(path), type=dict[str, Any])
