"""A conversation with a scripted model, in a folder of its own, for tests of the agent."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.agent.loop.conversation import Parts, TurnLimits
from turnlog.agent.loop.events import Event, Recorded, TurnEnded
from turnlog.agent.loop.loop import Loop
from turnlog.agent.model.model_names import ModelChoice
from turnlog.agent.model.streaming import Model
from turnlog.agent.permissions.grants import read_changes
from turnlog.agent.permissions.policy import Policy, Verdict, VerdictKind
from turnlog.agent.session.entry_builders import EntryDefaults
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.workspace.access import Access, ApprovalMode, Basis, Uses
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.tool import Grant, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store, sidecar_folder

SESSION = "5e551011-0000-4000-8000-000000000000"
FACTS = EntryDefaults(SESSION, "calm-teal-hopper", "cli")


class AllowAll:
    """Rules that allow everything, except what a test denies or wants to be asked."""

    def __init__(self) -> None:
        self.mode = ApprovalMode.DEFAULT
        self.for_turn: tuple[str, ...] = ()
        self.kinds: dict[str, VerdictKind] = {}
        self.remembered: list[str] = []

    def decide(self, tool: str, accesses: Sequence[Access], workspace: Workspace) -> Verdict:
        return Verdict(
            self.kinds.get(tool, VerdictKind.ALLOW), f"a rule about {tool}", basis=Basis.RULE
        )

    def profile(self, basis: Basis, workspace: Workspace, is_bare: bool = False) -> Profile:
        return Profile(Basis.BYPASS, ())

    def standing(self, workspace: Workspace) -> Policy:
        return Policy((), (), (), self.mode, workspace.cwd, (workspace.root,))

    def remember(self, rules: tuple[str, ...], is_kept: bool = True) -> None:
        self.remembered += rules if is_kept else [f"{rule} for now" for rule in rules]

    def update(self, updates: Iterable[Fields], workspace: Workspace) -> None:
        for change in read_changes(updates):
            kept = "" if change.destination != "session" else " for now"
            self.remembered += [f"{rule}{kept}" for rule in change.rules]
            if change.mode and self.may_switch(ApprovalMode(change.mode)):
                self.mode = ApprovalMode(change.mode)

    def may_switch(self, mode: ApprovalMode) -> bool:
        return mode is not ApprovalMode.BYPASS

    def lent(self, mode: ApprovalMode | None, folder: Path | None) -> "AllowAll":
        other = copy(self)
        other.mode = mode or self.mode
        return other


def make_tool(name: str, run: Callable[..., Any], is_parallel: bool = False) -> Tool:
    """A tool whose run is given its input."""

    async def carry_out(
        value: Fields, workspace: Workspace, output: Callable[[str], None], grant: Grant
    ) -> Any:
        return await run(value, output)

    schema: Fields = {"type": "object"}
    return Tool(name, name, schema, read_any, lambda value, place: [Uses()], carry_out, is_parallel)


def read_any(value: Fields) -> Fields:
    if value.get("wrong"):
        raise ToolError("that is wrong")
    return value


async def echo(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
    """Give back the text that it is given."""
    output(value["text"])
    return ToolOutcome(value["text"], {"echo": value["text"]})


async def fail(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
    raise ToolError(value["text"])


ECHO = make_tool("Echo", echo, is_parallel=True)
FAIL = make_tool("Fail", fail)


def make_parts(store: Store, cwd: Path, hooks: Fields | None = None, **limits: Any) -> Parts:
    """The parts of a conversation that is recorded in a store."""
    path = store.project_of(str(cwd)) / f"{SESSION}.jsonl"
    told = SessionFacts(SESSION, path, cwd, cwd)
    workspace = Workspace(cwd, sidecar_folder(path), cwd)
    return Parts(
        choice=ModelChoice("claude-opus-5-5"),
        model=Model(),
        recorder=Recorder(path, FACTS, lambda: workspace.cwd),
        tools={tool.name: tool for tool in (ECHO, FAIL)},
        workspace=workspace,
        hooks=Hooks(hooks or {}, told),
        rules=AllowAll(),
        ask=None,
        system=["Be useful."],
        limits=TurnLimits(**limits),
    )


def rules_of(parts: Parts) -> AllowAll:
    """The rules of a conversation that `make_parts` made."""
    assert isinstance(parts.rules, AllowAll)
    return parts.rules


def chat(parts: Parts, *prompts: str) -> list[Event]:
    """Run prompts one after the other; return all events."""

    async def run() -> list[Event]:
        loop = Loop(parts)
        events = [event for prompt in prompts async for event in loop.run(prompt)]
        await parts.model.close()
        return events

    return asyncio.run(run())


def hold_chat(store: Store, options: ChatOptions, *prompts: str) -> Path:
    """Run prompts in a chat as `turnlog chat` opens it; return its session file."""

    async def run() -> Path:
        opened = await open_chat(store, options)
        for prompt in prompts:
            async for _ in opened.send(prompt):
                pass
        await opened.close()
        return opened.parts.recorder.path

    path = asyncio.run(run())
    assert [finding.message for finding in check_session(open_session(path))] == []
    return path


def lines_in(path: Path) -> list[Fields]:
    """The lines of a file."""
    return [json.loads(raw) for raw in path.read_bytes().splitlines()]


def ended(events: list[Event]) -> TurnEnded:
    """The end of the last turn."""
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last


def recorded(events: list[Event]) -> list[Fields]:
    """The lines that were written."""
    return [event.entry for event in events if isinstance(event, Recorded)]


def sound_session(parts: Parts) -> Session:
    """The session as it was recorded; nothing about it is amiss."""
    session = open_session(parts.recorder.path)
    assert session.problems == []
    assert [finding.message for finding in check_session(session)] == []
    return session
