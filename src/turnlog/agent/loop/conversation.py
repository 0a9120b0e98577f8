"""What a conversation with a model is made of: the parts that the loop works with."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.loop.context_limit import Compacting
from turnlog.agent.loop.events import Event
from turnlog.agent.loop.spending import Spending
from turnlog.agent.model.model_names import ModelChoice
from turnlog.agent.model.streaming import Model
from turnlog.agent.permissions.asking import Ask
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.workspace.tool import Tool
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields

Emit = Callable[[Event], None]
Recall = Callable[[Path, Ask | None], Awaitable[list[str]]]
"""Takes a file, and who can be asked about what is imported from outside of the project."""


class TurnLimits(Struct, frozen=True):
    """When to stop."""

    max_turns: int | None = None
    """Answers of the model in one turn."""
    max_budget: float | None = None
    """Dollars."""
    retries: int = 10
    compacting: Compacting = Compacting()

    def reached(self, spent: Spending) -> str | None:
        """Which limit a turn has come to, if any."""
        if self.max_budget is not None and spent.cost >= self.max_budget:
            return "max_budget"
        return "max_turns" if spent.requests == self.max_turns else None


class Backups(Protocol):
    """Keeps what files were before they change."""

    def snapshot_line(self, prompt_uuid: str) -> Fields:
        """The line before a prompt."""
        ...


async def _nothing(path: Path, ask: Ask | None) -> list[str]:
    return []


@dataclass
class Parts:
    """All that one conversation needs; a sub-agent has its own recorder, tools and workspace."""

    choice: ModelChoice
    model: Model
    recorder: Recorder
    tools: dict[str, Tool]
    workspace: Workspace
    hooks: Hooks
    rules: Rules
    ask: Ask | None
    """Asks the user; None where nobody can be asked."""
    system: list[str]
    """The system prompt, in parts."""
    memory: list[str] = field(default_factory=list[str])
    """The part of it that the user's and the project's files are."""
    recall: Recall = _nothing
    """Returns what memory files say of a file that is read or changed, each told once."""
    limits: TurnLimits = field(default_factory=TurnLimits)
    backups: Backups | None = None
    agent_type: str | None = None
    """What kind of sub-agent this is."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Questions are put to the user one at a time."""

    @property
    def about_agent(self) -> Fields:
        """What hooks are told of the sub-agent that this is, if it is one."""
        agent_id = self.recorder.facts.agent_id
        return {"agent_id": agent_id, "agent_type": self.agent_type} if agent_id else {}


class RunningTurn(Struct, frozen=True):
    """The turn that a call is carried out in."""

    emit: Emit
    spent: Spending


RUNNING: ContextVar[RunningTurn] = ContextVar("running")
