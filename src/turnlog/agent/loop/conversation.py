"""The parts of a conversation that the agent loop works with."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.loop.context_limit import Compacting
from turnlog.agent.loop.events import Event, Recorded, TurnEnded
from turnlog.agent.loop.spending import Spending
from turnlog.agent.model.model_names import ModelChoice
from turnlog.agent.model.streaming import Model
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.permissions.policy import Ask
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.workspace.tool import Tool
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields

Emit = Callable[[Event], None]
Recall = Callable[[Path, Ask | None, Emit], Awaitable[list[str]]]
"""Returns the memory for a file; may ask the user about imports from outside the project."""


class TurnLimits(Struct, frozen=True):
    """Limits that end a turn."""

    max_turns: int | None = None
    """Maximum number of model answers in one turn."""
    max_budget: float | None = None
    """Maximum cost of a turn in dollars."""
    retries: int = 10
    compacting: Compacting = Compacting()
    session_budget: float | None = None
    """The budget of all turns together; `max_budget` is then the remaining part."""

    @property
    def budget_given(self) -> float | None:
        """The budget as the user gave it."""
        return self.max_budget if self.session_budget is None else self.session_budget

    def reached(self, spent: Spending) -> str | None:
        """Return the name of the limit that a turn has reached, if any."""
        if self.is_spent(spent):
            return "max_budget"
        return "max_turns" if spent.requests == self.max_turns else None

    def is_spent(self, spent: Spending) -> bool:
        """Return whether a turn has used up the budget."""
        return self.max_budget is not None and spent.cost >= self.max_budget


class Backups(Protocol):
    """Backs up files before they change."""

    def snapshot_line(self, prompt_uuid: str) -> Fields:
        """Return the `file-history-snapshot` line that precedes a prompt."""
        ...


async def _nothing(path: Path, ask: Ask | None, emit: Emit) -> list[str]:
    return []


@dataclass
class Parts:
    """The parts of one conversation; a sub-agent has its own recorder, tools and workspace."""

    choice: ModelChoice
    model: Model
    recorder: Recorder
    tools: dict[str, Tool]
    workspace: Workspace
    hooks: Hooks
    rules: Rules
    ask: Ask | None
    """Asks the user for permission; None if nobody can be asked."""
    system: list[str]
    """The system prompt, in parts."""
    memory: list[str] = field(default_factory=list[str])
    """The part of the system prompt that comes from memory files."""
    memory_files: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Path, kind and text of each memory file."""
    recall: Recall = _nothing
    """Returns the memory that applies to a file that is read or changed, each text once."""
    can_defer: bool = False
    """True if a program drives the conversation, so that hooks may defer calls to its next run."""
    limits: TurnLimits = field(default_factory=TurnLimits)
    backups: Backups | None = None
    agent_type: str | None = None
    """The sub-agent's type; None for the main conversation."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a question is open: the user sees one at a time."""
    turn: "RunningTurn | None" = None
    """The turn that is running; None between turns."""
    unbilled: list[TurnEnded] = field(default_factory=list[TurnEnded])
    """Background agents that ended between turns; the next turn counts their usage."""
    tracking: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools of the task list, which only some models are offered."""
    accepted: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that may be called without being offered: a resumed session has calls of them."""
    demand: Callable[[], str | None] = lambda: None
    """Called when the model stops making calls; returns a demand to continue with, or None."""

    @property
    def about_agent(self) -> Fields:
        """Return the hook payload fields that identify a sub-agent; empty for the main one."""
        agent_id = self.recorder.facts.agent_id
        return {"agent_id": agent_id, "agent_type": self.agent_type} if agent_id else {}


class RunningTurn(Struct, frozen=True):
    """A turn in progress: the conversation, its listener and what it has spent so far."""

    parts: Parts
    emit: Emit
    spent: Spending

    def record(self, entry: Fields) -> None:
        """Emit an entry that is already written, so that a crash loses nothing that was shown."""
        self.emit(Recorded(entry))
