"""Open a chat: a new or resumed session with its tools, MCP servers and commands."""

import logging
import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

from msgspec.structs import replace

from turnlog.agent.chat.assembly import (
    INTERACTIVE,
    ChatOptions,
    assemble,
    starting_mode,
    starting_model,
)
from turnlog.agent.chat.chat_configuration import (
    decide_trust,
    load_settings,
    outside_imports,
    place_of_own_programs,
    rule_problems,
    servers_of,
    untrusted_notes,
    with_plugins,
)
from turnlog.agent.chat.elicitations import Elicitations
from turnlog.agent.chat.host import Host, offered_tools, usable_skills
from turnlog.agent.chat.message_display import EVENT as DISPLAY
from turnlog.agent.chat.message_display import displayed
from turnlog.agent.chat.plan_approval import PlanApproval
from turnlog.agent.chat.preferred_answers import styled_system, take_key
from turnlog.agent.chat.prompt_expansion import Prompts
from turnlog.agent.chat.session_agent import find_agent, setting_line, take_role
from turnlog.agent.chat.structured_output import StructuredOutput
from turnlog.agent.config import settings as settings_files
from turnlog.agent.config.agent_definitions import AgentDefinition, load_agents
from turnlog.agent.config.custom_commands import CustomCommand, load_commands
from turnlog.agent.config.definition_directories import DefinitionFiles
from turnlog.agent.config.output_styles import OutputStyle, load_styles
from turnlog.agent.config.plugins import Plugin
from turnlog.agent.config.preferences import Preferences
from turnlog.agent.config.settings import Settings
from turnlog.agent.config.skills import for_model, listing
from turnlog.agent.hooks.file_watch import wants_watch, watch
from turnlog.agent.hooks.hook_entries import reminder
from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.loop.call_hooks import take_variables
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.events import Event
from turnlog.agent.loop.lifecycle_hooks import (
    Prompt,
    end_session,
    set_up_session,
    start_session,
)
from turnlog.agent.loop.loop import Loop
from turnlog.agent.loop.model_switch import announce_restored, fit_tracking
from turnlog.agent.loop.notifications import NOTICE
from turnlog.agent.loop.spending import Spending
from turnlog.agent.mcp.connections import Connections
from turnlog.agent.mcp.elicitation import AskForInput
from turnlog.agent.mcp.server_approval import Approved, ask_for
from turnlog.agent.permissions.consent import require_user
from turnlog.agent.permissions.policy import Ask
from turnlog.agent.permissions.trust import (
    Trust,
    ask_for_imports,
)
from turnlog.agent.session.entry_builders import VERSION
from turnlog.agent.session.recorder import name_session
from turnlog.agent.session.resume import Resumed, check_dropped, fork, fork_totals, reopen
from turnlog.agent.subagents.runner import Agents
from turnlog.agent.tools.ask_user_question import ASK_USER_QUESTION
from turnlog.agent.tools.task_tracking import chosen_tracking, demands_tracking, is_tracking
from turnlog.agent.tools.toolbox import toolbox
from turnlog.agent.workspace.project_directories import (
    SERVERS,
    SettingSource,
)
from turnlog.agent.workspace.sandbox.bubblewrap import sandbox_notes
from turnlog.agent.workspace.tool import Tool, ToolError
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.store.catalog import live_sessions
from turnlog.store.paths import Store
from turnlog.store.registry import claim, release

LOG = logging.getLogger("turnlog.session")
ELSEWHERE = "this session is open elsewhere, too: both would write to it"
REFUSED = (
    "ignored, as a project may not choose where keys are sent: {names}"
    " (set it in your own settings or environment)"
)
NOBODY = Host()
SKILLS = "The skills that you may invoke with the Skill tool:\n"


@dataclass
class Chat:
    """An open chat."""

    store: Store
    loop: Loop
    prompts: Prompts
    servers: Connections
    server_states: list[Fields]
    """MCP servers and their status."""
    notes: list[str]
    """Messages to show before the chat starts."""
    name: str | None = None
    """Session title to set with the next prompt."""
    agents: dict[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    """Sub-agents by name."""
    answer: StructuredOutput | None = None
    """Takes the answer of each turn, if it has to follow a schema."""
    plugins: tuple[Plugin, ...] = ()
    styles: dict[str, OutputStyle] = field(default_factory=dict[str, OutputStyle])
    """Output styles by name."""
    preferences: Preferences = field(default_factory=Preferences)
    settings_files: tuple[Path, ...] = ()
    """The settings files in effect."""
    opening_lines: tuple[Fields, ...] = ()
    """Lines about the session, to write with the next prompt."""
    plain_system: list[str] = field(default_factory=list[str])
    """The system prompt without an output style."""
    reload: Callable[[], Settings] = lambda: Settings(Path(), ())
    """Reads the settings again, from the same sources and with the same trust."""

    @property
    def parts(self) -> Parts:
        return self.loop.parts

    async def send(self, prompt: Prompt, source: str = "typed") -> AsyncGenerator[Event]:
        """Run what the user typed: a prompt, a custom command, or /compact."""
        try:
            async with aclosing(self._displayed(await self._start(prompt, source))) as events:
                async for event in events:
                    yield event
        except ToolError as error:
            yield Spending().ended("blocked", str(error))

    def _displayed(self, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        hooks = self.parts.hooks
        if not hooks.groups(DISPLAY):
            return events
        return displayed(events, hooks, is_whole=hooks.facts.entrypoint != INTERACTIVE)

    async def _start(self, prompt: Prompt, source: str) -> AsyncGenerator[Event]:
        self._take_name()
        if self.answer:
            self.answer.begin_turn()
        if isinstance(prompt, str) and source != NOTICE:
            # A custom command called `compact` takes precedence.
            if prompt.split()[:1] == ["/compact"] and not self.prompts.find(prompt):
                return self.loop.compact(prompt.partition("/compact")[2].strip())
            prompt = await self.prompts.read(prompt)
        else:
            self.prompts.begin_turn()
        return self.loop.run(prompt, source)

    def _take_name(self) -> None:
        """Write what is pending: the session title, and lines about the session."""
        name, self.name = self.name, None
        if name:
            name_session(self.parts.recorder, name)
        lines, self.opening_lines = self.opening_lines, ()
        for line in lines:
            self.parts.recorder.aside(line | {"sessionId": self.parts.recorder.facts.session_id})

    async def close(self, reason: str = "other") -> None:
        """Close the chat: run SessionEnd hooks, stop servers and background commands."""
        # SessionEnd hooks may call MCP tools, so servers are stopped after them.
        await end_session(self.parts, reason)
        recorder = self.parts.recorder
        if recorder.prompt_id:  # the mode may have changed since the last turn
            recorder.mode(self.parts.rules.mode.value)
        await self.parts.workspace.shells.close()
        await self.servers.close()
        await self.parts.model.close()
        release(self.store, self.parts.recorder.facts.session_id)
        if not self.parts.recorder.is_kept:
            rmtree(self.parts.recorder.path.parent, ignore_errors=True)


async def open_chat(
    store: Store,
    options: ChatOptions,
    ask: Ask | None = None,
    approve: Ask | None = None,
    host: Host = NOBODY,
    elicit: AskForInput | None = None,
) -> Chat:
    """Open a chat; the session's file is created with its first prompt.

    `ask` decides about calls, `approve` about configuration that the project contains. Without
    `approve`, the configuration of an untrusted directory can only restrict. `host` is the program
    that drives turnlog, if any. `elicit` asks the user for input that MCP servers request.
    """
    # Trust is decided first: everything below reads files of the project, and what they may do
    # depends on it.
    trust = await decide_trust(store, options, approve)
    settings = load_settings(store, options, trust)
    options, unplugged = with_plugins(store, options, settings, trust)
    path, resumed = _session_of(store, options)
    require_user(starting_mode(options, settings, resumed))
    if approve:
        outside = outside_imports(store, options, settings)
        await ask_for_imports(store, options.cwd, outside, approve)
    notes = [*_refusal(settings), *rule_problems(options)]
    # Must happen before the first subprocess and the model's client read the environment.
    os.environ.update(settings.env)
    place = place_of_own_programs(store, options)
    await take_key(settings.preferences, options.cwd, place)
    notes += sandbox_notes(settings.sandbox)
    notes += [ELSEWHERE] if path.stem in live_sessions(store) else []
    parts = assemble(store, options, settings, path, resumed, notes.append)
    parts.ask = ask
    parts.model.prepare()
    servers = servers_of(store, options, settings, trust)
    found = await ask_for(servers, settings, approve)
    loop = Loop(parts)
    _take_hooks(parts.hooks, host, options.plugins, settings)
    files = _definition_files(store, options, trust, parts)
    prompts = Prompts(loop, _commands(store, options, files, host))
    styles, plain = load_styles(files), parts.system
    notes += _apply_style(parts, styles, settings, options)
    definitions = load_agents(store, options.cwd, files) | options.agents | dict(host.agents)
    notes += [*settings.problems, *unplugged, *found.problems, *files.problems]
    notes += untrusted_notes([*settings.ignored, *files.ignored, *_left_out(options, found)])
    answer = StructuredOutput(options.schema) if options.schema else None
    extras = (options.name, definitions, answer, options.plugins, styles, settings.preferences)
    extras = (*extras, tuple(each.path for each in settings.sources), options.opening_lines, plain)
    reload = partial(load_settings, store, options, trust)
    connections = Connections(open_host=host.open_server, elicit=Elicitations(parts, elicit).answer)
    chat = Chat(store, loop, prompts, connections, [], notes, *extras, reload)
    await _start_servers(chat, found, options.cwd, place)
    home = store.root if settings.keeps_memory and options.customizations.has_memory else None
    agents = Agents(path, parts, definitions, prompts, home, place, elicit=connections.elicit)
    parts.tools |= _tools(chat, options, agents.tool())
    fit_tracking(parts)
    _move_surroundings(loop, options.moves_surroundings or host.moves_surroundings)
    _take_role(chat, options)
    await _begin(chat, options, settings)
    return chat


async def _begin(chat: Chat, options: ChatOptions, settings: Settings) -> None:
    """Run the hooks at the start of a chat, and watch files for FileChanged hooks."""
    # Claimed only when nothing can fail any more: a chat that did not open must not look open.
    _claim(chat.store, options, chat.parts.recorder.path)
    if options.setup:
        await set_up_session(chat.parts, options.setup, chat.notes.append)
    context = await start_session(chat.parts, _source(options), chat.notes.append)
    chat.loop.pending_context += context
    if options.resume and not options.model:
        announce_restored(chat.parts, starting_model(options, Resumed(), settings))
    _watch_files(chat.store, options, chat.parts)


def _claim(store: Store, options: ChatOptions, path: Path) -> None:
    if options.is_recorded:
        claim(store, path.stem, options.cwd, options.entrypoint, VERSION)
    LOG.debug("%s in %s, started as %s", path, options.cwd, options.entrypoint)


def _take_role(chat: Chat, options: ChatOptions) -> None:
    if options.agent:
        take_role(chat.parts, find_agent(chat.agents, options.agent), options)
        chat.opening_lines += (setting_line(options.agent),)


def _refusal(settings: Settings) -> list[str]:
    refused = ", ".join(settings.refused_variables())
    return [REFUSED.format(names=refused)] if refused else []


async def _start_servers(chat: Chat, found: Approved, cwd: Path, place: Path) -> None:
    variables = chat.parts.workspace.environment
    await chat.servers.start(found.configs, cwd, variables, own_place=place)
    chat.notes += chat.servers.problems
    chat.server_states = _states(found, chat.servers.failed)
    chat.prompts.take_servers(chat.servers)


def _apply_style(
    parts: Parts, styles: dict[str, OutputStyle], settings: Settings, options: ChatOptions
) -> list[str]:
    """Apply the output style, unless the user gave a system prompt; return notes on it."""
    named = settings.preferences.output_style if options.system_prompt is None else None
    parts.system, notes = styled_system(parts.system, styles, named)
    return notes


def _left_out(options: ChatOptions, found: Approved) -> list[str]:
    names = ", ".join(found.ignored)
    return [f"{options.cwd / SERVERS} ({names})"] if names else []


def _source(options: ChatOptions) -> str:
    """Return the start source for the hook payload."""
    if not options.resume:
        return options.start
    return "fork" if options.is_fork else "resume"


def _session_of(store: Store, options: ChatOptions) -> tuple[Path, Resumed]:
    """Return the session file and its previous content."""
    source = options.resume
    if source and options.resume_at and options.drops_turn is not None:
        check_dropped(source, options.resume_at, options.drops_turn)
    if not options.is_recorded:
        return _unrecorded(options)
    if source and not options.is_fork:
        return source, reopen(source, options.resume_at)
    name = options.session_id or str(uuid4())
    path = store.project_of(str(options.cwd)) / f"{name}.jsonl"
    if path.exists():
        raise UsageError(f"session {name} exists already", f"--resume {name}")
    if source:
        fork(source, path, options.resume_at)
        return path, replace(reopen(path), totals=fork_totals(source))
    return path, Resumed()


def _unrecorded(options: ChatOptions) -> tuple[Path, Resumed]:
    """Return a session path in a temporary folder, which is removed when the chat closes."""
    source = options.resume
    is_same = source is not None and not options.is_fork
    name = source.stem if source and is_same else options.session_id or str(uuid4())
    # An unguessable name: whoever created the folder first could read the files in it.
    folder = Path(tempfile.gettempdir(), f"turnlog-{secrets.token_hex(16)}")
    return folder / f"{name}.jsonl", reopen(source, options.resume_at) if source else Resumed()


def _skills(chat: Chat) -> list[Tool]:
    """Return the Skill tool if there are skills, and list them in the system prompt."""
    tool = chat.prompts.tool(chat.parts)
    if tool is None:
        return []
    chat.parts.system.append(SKILLS + listing(for_model(chat.prompts.commands).values()))
    return [tool]


def _definition_files(
    store: Store, options: ChatOptions, trust: Trust, parts: Parts
) -> DefinitionFiles:
    has_any = options.customizations.has_agents
    sources = options.sources if has_any else frozenset[SettingSource]()
    limits = (sources, trust.covers, trust.contains, parts.workspace.may_read)
    return DefinitionFiles(store, options.cwd, *limits).add_plugins(options.plugins)


def _commands(
    store: Store, options: ChatOptions, files: DefinitionFiles, host: Host
) -> dict[str, CustomCommand]:
    if not options.customizations.has_commands:
        return {}
    return usable_skills(load_commands(store, options.cwd, files), host.skills)


def _watch_files(store: Store, options: ChatOptions, parts: Parts) -> None:
    if wants_watch(parts.hooks):
        watched = settings_files.files_of(store, options.cwd)
        parts.hooks.keep(watch(parts.hooks, watched, partial(take_variables, parts)))


def _move_surroundings(loop: Loop, is_wanted: bool) -> None:
    """Send user-dependent context with the first prompt, so that users can share a prompt cache."""
    if not is_wanted:
        return
    role, *others = loop.parts.system
    loop.parts.system = [role]
    loop.pending_context.append(reminder(others, "SessionStart"))


def _take_hooks(hooks: Hooks, host: Host, plugins: Sequence[Plugin], settings: Settings) -> None:
    """Add the hooks of the host program and of plugins; let the program observe all others."""
    running = [each.hooks for each in plugins if settings.runs_hooks(each.source.is_managed)]
    for groups in (host.hooks, *running):
        hooks.add({event: each for event, each in groups.items() if event in EVENTS})
    hooks.call_back = host.call_back
    hooks.observe = host.observe or hooks.observe


def _tools(chat: Chat, options: ChatOptions, agent: Tool) -> dict[str, Tool]:
    """Return the tools of the chat that the options do not leave out."""
    # Where nobody can be asked, the model does not get the tools that ask.
    asking = [ASK_USER_QUESTION, *PlanApproval(chat.store, chat.parts).tools()]
    asked = asking if chat.parts.ask else []
    every = toolbox(agent, *asked, *_skills(chat), *chat.servers.tools)
    usable = offered_tools(every, options.tools, options.deny)
    chat.parts.accepted = {name: each for name, each in usable.items() if is_tracking(name)}
    chosen = chosen_tracking()
    offered = {
        name: each for name, each in usable.items() if not is_tracking(name) or name in chosen
    }
    if not demands_tracking((*(options.tools or ()), *options.allow)):
        chat.parts.tracking = {name: each for name, each in offered.items() if is_tracking(name)}
    if chat.answer:
        chat.parts.demand = chat.answer.demand
        answering = chat.answer.tool()
        offered[answering.name] = answering
    return offered


def _states(found: Approved, failed: Container[str]) -> list[Fields]:
    """Return each server with its status, in the client's words."""
    states = {name: "failed" if name in failed else "connected" for name in found.configs}
    states |= dict.fromkeys(found.pending, "pending")
    return [{"name": name, "status": status} for name, status in states.items()]
