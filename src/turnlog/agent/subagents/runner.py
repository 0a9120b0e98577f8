"""Run sub-agents: the same loop with its own recorder, tools and workspace.

Each sub-agent writes its own file next to the session, in the layout of 2.1.150 to 2.1.325.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.config.agent_memory import memory_context, memory_folder
from turnlog.agent.loop.answering import ask_for_tool
from turnlog.agent.loop.call_hooks import review_task
from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.events import Event, Inside, Notice, Recorded, TurnEnded
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.loop.loop import Loop
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.loop.system_prompt import surroundings
from turnlog.agent.mcp.connections import Connections
from turnlog.agent.mcp.elicitation import AskForInput
from turnlog.agent.mcp.server_config import listed_servers
from turnlog.agent.model.model_names import with_model
from turnlog.agent.session.entry_builders import new_agent_id
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.subagents.hook_evaluation import ConversationResources
from turnlog.agent.subagents.overrides import NOT_ASKED, may_use, model_for, rules_for
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.shell.background_tasks import BackgroundAgent, ForegroundCall, Shells
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields, parse_json
from turnlog.format.private_files import create_private_folder, write_private
from turnlog.store.paths import subagent_meta, subagents_folder

NOT_LENT = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "StructuredOutput")
"""Tools that only the main conversation has: its questions, its plan mode and its answer."""
NAME = "Agent"
"""The tool's name in 2.1.325; calls under its former name `Task` work as well."""
STOPPED = "\n\nNOTE: it was stopped at its limit of {count} answers, before it was done."
DEEPEST = 3
"""Maximum nesting depth of sub-agents."""
LAUNCHED = """\
The agent works in the background. You are notified when it has ended; until then nothing is known \
of its result, so neither assume nor report it. Do not do its work yourself meanwhile.
agentId: {agent_id} (TaskStop stops it; not for the user)
output_file: {path} (its whole transcript, too long to read)"""
DESCRIPTION = """\
Let a sub-agent carry out a task by itself and report back. It starts without knowing anything of \
this conversation: say in the prompt what it is to do, what it needs to know, and what it is to \
report. Its report is for you; tell the user what matters of it. Several sub-agents that do not \
depend on each other are started together, in one answer. The kinds there are:
{kinds}"""


class Skills(Protocol):
    """The skills that sub-agents may use."""

    async def preload(self, name: str, parts: Parts) -> Prompt | None:
        """Return a skill's text for a sub-agent; None if it may not use it."""

    def tool(self, parts: Parts) -> Tool | None:
        """Return the tool with which a sub-agent invokes skills."""


class TaskInput(Input, frozen=True):
    """Input of the Agent tool."""

    description: Annotated[str, Meta(description="The task in three to five words")]
    prompt: Annotated[str, Meta(description="The task of the sub-agent")]
    subagent_type: Annotated[str, Meta(description="The kind of sub-agent")] = "general-purpose"
    model: Annotated[str | None, Meta(description="opus, fable, sonnet or haiku")] = None
    run_in_background: Annotated[
        bool, Meta(description="Return at once; you are notified when it has ended")
    ] = False


@dataclass
class Agents:
    """Starts sub-agents for a conversation or for another sub-agent."""

    session: Path
    """The session file that all sub-agents belong to."""
    parts: Parts
    """The parts of the conversation that starts them."""
    definitions: dict[str, AgentDefinition]
    skills: Skills | None = None
    home: Path | None = None
    """The user's configuration directory; None disables agent memory."""
    own_place: Path | None = None
    """The working directory of the user's MCP servers; the project's if None."""
    depth: int = 1
    elicit: AskForInput | None = None
    """Answers elicitation requests of the sub-agents' own MCP servers."""

    def tool(self) -> Tool:
        """Return the tool that starts a sub-agent."""
        kinds = [f"- {each.name}: {each.description}" for each in self.definitions.values()]
        description = DESCRIPTION.format(kinds="\n".join(kinds))
        schema, read = schema_of(TaskInput), reader_of(TaskInput)
        return Tool(NAME, description, schema, read, _touches, self._run, is_parallel=True)

    async def _run(
        self, given: TaskInput, workspace: Workspace, output: Output, grant: Grant
    ) -> ToolOutcome:
        definition = self.definitions.get(given.subagent_type)
        if definition is None:
            known = ", ".join(self.definitions)
            raise ToolError(f"Unknown agent {given.subagent_type!r}; available: {known}")
        running, call_id = self.parts.turn, grant.call_id
        assert running, "a call runs in a turn"
        child = self._child(definition, given, workspace)
        self._describe(child.recorder.path, definition, given, call_id)
        agent_id = child.recorder.facts.agent_id or ""
        if given.run_in_background:
            work = self._work(child, definition, given.prompt, call_id, lambda _: None)
            return self._launch(child, given, call_id, work)
        with workspace.shells.movable() as call:
            relay = _Relay(running, child, agent_id, call_id, call)
            work = self._work(child, definition, given.prompt, call_id, relay.emit)
            task = asyncio.create_task(work)
            if await _outlasts(task, call):
                return self._launch(child, given, call_id, task, relay)
        ended = task.result()
        if not relay.is_counted:
            self._bill(ended)
        if ended.reason == "failed":
            raise ToolError(ended.text)
        return _outcome(child, given, definition, ended)

    async def _work(
        self,
        child: Parts,
        definition: AgentDefinition,
        prompt: str,
        call_id: str,
        emit: Callable[[Event], None],
    ) -> TurnEnded:
        """Run a sub-agent to its end; return the last event."""
        ended: TurnEnded | None = None
        agent_id = child.recorder.facts.agent_id or ""
        servers = Connections(elicit=self.elicit)
        try:
            await self._connect(servers, definition, child, emit)
            loop = await self._loop(child, definition)
            async with aclosing(loop.run(prompt)) as events:
                async for event in events:
                    self._note(event, agent_id, call_id)
                    emit(event)
                    ended = event if isinstance(event, TurnEnded) else ended
        finally:  # its background commands end with it, as documented for the client
            await child.workspace.shells.close()
            await servers.close()
        _mark_finished(child.recorder.path)
        assert ended, "the last event of a turn is its end"
        return ended

    def _launch(
        self,
        child: Parts,
        given: TaskInput,
        call_id: str,
        work: Awaitable[TurnEnded],
        relay: "_Relay | None" = None,
    ) -> ToolOutcome:
        """Move a sub-agent to the background; a notification tells the model when it ends.

        `relay` is given if the agent ran in the foreground until the user moved it.
        """
        agent_id, path = child.recorder.facts.agent_id or "", child.recorder.path
        agent = BackgroundAgent(agent_id, given.description, call_id, path)

        async def follow() -> None:
            try:
                ended = await work
            except Exception as error:  # nobody awaits this task: report every error to the model
                agent.status, agent.report = "failed", f"{type(error).__name__}: {error}"
                return
            agent.status = "failed" if ended.reason == "failed" else "completed"
            agent.report = ended.text
            agent.usage = _figures(child, ended)
            if not (relay and relay.is_counted):
                self._bill(ended)

        self.parts.workspace.shells.add_agent(agent, follow())
        text = LAUNCHED.format(agent_id=agent_id, path=path)
        data: Fields = {
            "isAsync": True,
            "status": "async_launched",
            "agentId": agent_id,
            "description": given.description,
            "resolvedModel": child.choice.model,
            "prompt": given.prompt,
            "outputFile": str(path),
            "canReadOutputFile": True,
        }
        return ToolOutcome([{"type": "text", "text": text}], data)

    def _bill(self, ended: TurnEnded) -> None:
        """Add the usage of a sub-agent to the running turn, or else to the next one."""
        if self.parts.turn:
            self.parts.turn.spent.add_agent(ended)
        else:
            self.parts.unbilled.append(ended)

    def _child(self, definition: AgentDefinition, given: TaskInput, workspace: Workspace) -> Parts:
        parent = self.parts
        facts = msgspec.structs.replace(parent.recorder.facts, agent_id=new_agent_id())
        path = subagents_folder(self.session) / f"agent-{facts.agent_id}.jsonl"
        model = model_for(definition, given.model)
        choice = with_model(parent.choice, model, os.environ) if model else parent.choice
        memory = self._memory(definition)

        async def ask(question: str, tools: list[Fields]) -> list[Fields]:
            return await ask_for_tool(child, question, tools)

        place = replace(
            workspace,
            read_states={},
            todos=[],
            directories=list(workspace.directories),
            shells=Shells(),
            ask=ask,
        )
        context = [surroundings(place.cwd, place.directories)]
        context += [memory_context(memory)] if memory else []
        context += parent.memory if definition.loads_memory else []
        child = replace(
            parent,
            choice=choice,
            recorder=Recorder(path, facts, lambda: place.cwd, parent.recorder.session),
            workspace=place,
            system=[definition.prompt, *context],
            # The budget applies to the whole turn, which includes the cost of its sub-agents.
            limits=msgspec.structs.replace(
                parent.limits, max_turns=definition.max_turns, max_budget=None
            ),
            rules=rules_for(definition, parent.rules, memory),
            ask=None if definition.permission_mode == NOT_ASKED else parent.ask,
            # Its edits are still backed up, by `before_change` of the workspace. Snapshots belong
            # to prompts of the user.
            backups=None,
            unbilled=[],
            demand=lambda: None,
            agent_type=definition.name,
        )
        place.review_task = partial(review_task, child)
        child.hooks = parent.hooks.within(ConversationResources(child), definition.hooks)
        own = replace(self, parts=child, depth=self.depth + 1)
        tools = parent.tools | ({NAME: own.tool()} if self.depth < DEEPEST else {})
        skill_tool = self.skills.tool(child) if self.skills else None
        if skill_tool and skill_tool.name in tools:  # a parent without it cannot pass it on
            tools |= {skill_tool.name: skill_tool}
        child.tools = {
            name: tool
            for name, tool in tools.items()
            if may_use(definition, tool, memory)
            and (name != NAME or self.depth < DEEPEST)
            and name not in NOT_LENT
        }
        if definition.tools and not child.tools:
            named = ", ".join(definition.tools)
            raise ToolError(f"Agent {definition.name} has no usable tools; it lists: {named}")
        return child

    def _memory(self, definition: AgentDefinition) -> Path | None:
        """Return the agent's memory directory, creating it if necessary."""
        if not self.home:
            return None
        root = self.parts.workspace.root
        folder = memory_folder(definition, self.home, root)
        if folder:
            create_private_folder(folder)
        return folder

    async def _connect(
        self,
        servers: Connections,
        definition: AgentDefinition,
        child: Parts,
        emit: Callable[[Event], None],
    ) -> None:
        """Connect the agent's own MCP servers; a failing one does not affect the others."""
        found = listed_servers(definition.servers, os.environ, definition.is_project)
        place = child.workspace
        await servers.start(found.configs, place.root, place.environment, own_place=self.own_place)
        for problem in (*found.problems, *servers.problems):
            emit(Notice(problem, is_error=True))
        child.tools |= {
            tool.name: tool
            for tool in servers.tools
            if not definition.is_refused(tool.name, tool.server)
        }

    async def _loop(self, child: Parts, definition: AgentDefinition) -> Loop:
        """Return the agent's loop, preloaded with the skills of its definition."""
        loop = Loop(child)
        if self.skills:
            texts = [await self.skills.preload(name, child) for name in definition.skills]
            loop.pending_context = [text for text in texts if text]
        return loop

    def _describe(
        self, path: Path, definition: AgentDefinition, given: TaskInput, call_id: str
    ) -> None:
        """Write the metadata file next to the agent's file, if the session is recorded at all."""
        if not self.parts.recorder.is_kept:
            return
        metadata = {
            "agentType": definition.name,
            "description": given.description,
            "toolUseId": call_id,
            "spawnDepth": self.depth,
        }
        create_private_folder(path.parent)
        write_private(subagent_meta(path), json.dumps(metadata, separators=(",", ":")).encode())

    def _note(self, event: Event, agent_id: str, call_id: str) -> None:
        """Record progress of the sub-agent in the session; results are in its own file."""
        if isinstance(event, Recorded) and event.entry["type"] == "assistant":
            entry = event.entry
            message = {"type": "assistant", "message": entry["message"], "uuid": entry["uuid"]}
            data = {"type": "agent_progress", "agentId": agent_id, "message": message}
            name = f"agent_{entry['message']['id']}"
            self.parts.recorder.progress(data, name, call_id)


def _mark_finished(path: Path) -> None:
    """Mark an agent as finished in its metadata; a killed agent lacks this mark."""
    place = subagent_meta(path)
    # The session may have been moved meanwhile; the agent's answer counts nevertheless.
    with suppress(OSError, ValueError):
        metadata: Fields = parse_json(place.read_bytes()) | {"finished": True}
        write_private(place, json.dumps(metadata, separators=(",", ":")).encode())


class _Relay:
    """Passes a sub-agent's events to the waiting turn, until it is moved to the background."""

    def __init__(
        self, turn: RunningTurn, child: Parts, agent_id: str, call_id: str, call: ForegroundCall
    ) -> None:
        self._turn = turn
        self._child = child
        self._ids = agent_id, call_id
        self._call = call
        self.is_counted = False
        """True if the turn has counted the agent's usage."""

    def emit(self, event: Event) -> None:
        if self._call.moved.is_set():  # the agent outlives the turn now
            return
        self.is_counted = self.is_counted or isinstance(event, TurnEnded)
        # A notice before its first entry is about a problem with its servers: show it to the user.
        is_problem = isinstance(event, Notice) and not self._child.recorder.chain
        self._turn.emit(event if is_problem else Inside(*self._ids, event))


async def _outlasts(task: asyncio.Task[Any], call: ForegroundCall) -> bool:
    """Wait for a sub-agent; return whether it was moved to the background instead of ending."""
    try:
        return await call.outlasts(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _touches(given: TaskInput, workspace: Workspace) -> Sequence[Uses]:
    return [Uses(given.subagent_type)]


def _figures(child: Parts, ended: TurnEnded) -> dict[str, int]:
    """Return the usage figures of a notification, under the client's names."""
    messages = [each["message"] for each in child.recorder.chain if each["type"] == "assistant"]
    return {
        "subagent_tokens": context_tokens(child.recorder.chain),
        "tool_uses": sum(each["content"][0]["type"] == "tool_use" for each in messages),
        "duration_ms": round(ended.seconds * 1000),
    }


def _outcome(
    child: Parts, given: TaskInput, definition: AgentDefinition, ended: TurnEnded
) -> ToolOutcome:
    chain = child.recorder.chain
    messages = [entry["message"] for entry in chain if entry["type"] == "assistant"]
    calls = sum(message["content"][0]["type"] == "tool_use" for message in messages)
    text = ended.text or f"The sub-agent said nothing ({ended.reason})."
    if ended.reason == "max_turns":
        text += STOPPED.format(count=definition.max_turns)
    content: list[Fields] = [{"type": "text", "text": text}]
    data: Fields = {
        "status": "completed",
        "prompt": given.prompt,
        "agentId": child.recorder.facts.agent_id,
        "agentType": definition.name,
        "content": content,
        "resolvedModel": child.choice.model,
        "totalDurationMs": round(ended.seconds * 1000),
        "totalTokens": context_tokens(chain),
        "totalToolUseCount": calls,
        "usage": messages[-1].get("usage") if messages else None,
    }
    return ToolOutcome(content, data)
