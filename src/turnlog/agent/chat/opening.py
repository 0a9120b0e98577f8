"""Open a chat: a new or resumed session with its tools, MCP servers and commands."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import uuid4

from turnlog.agent.chat.assembly import ChatOptions, assemble, memory_limits, starting_mode
from turnlog.agent.chat.host import Host, offered_tools, usable_skills
from turnlog.agent.chat.plan_approval import PlanApproval
from turnlog.agent.chat.preferred_answers import styled_system, take_key
from turnlog.agent.chat.prompt_expansion import Prompts
from turnlog.agent.chat.structured_output import StructuredOutput
from turnlog.agent.config import settings as settings_files
from turnlog.agent.config.agent_definitions import AgentDefinition, load_agents
from turnlog.agent.config.custom_commands import load_commands
from turnlog.agent.config.definition_directories import DefinitionFiles
from turnlog.agent.config.memory import MemoryFiles
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
from turnlog.agent.loop.lifecycle_hooks import Prompt, end_session, start_session
from turnlog.agent.loop.loop import Loop
from turnlog.agent.loop.notifications import NOTICE
from turnlog.agent.loop.spending import Spending
from turnlog.agent.mcp.connections import Connections
from turnlog.agent.mcp.server_config import given_servers, listed_servers
from turnlog.agent.permissions import ApprovalMode, Policy, is_readable, sound_rules
from turnlog.agent.permissions.consent import COMMAND_LINE, require_user
from turnlog.agent.permissions.policy import Ask
from turnlog.agent.permissions.server_approval import Approved, ask_for, find_servers, with_given
from turnlog.agent.permissions.trust import (
    Trust,
    ask_for_imports,
    establish_trust,
    is_trusted,
)
from turnlog.agent.session.entry_builders import VERSION
from turnlog.agent.session.recorder import name_session
from turnlog.agent.session.resume import Resumed, check_dropped, fork, reopen
from turnlog.agent.subagents.runner import Agents
from turnlog.agent.tools.ask_user_question import ASK_USER_QUESTION
from turnlog.agent.tools.toolbox import toolbox
from turnlog.agent.workspace.project_directories import (
    SERVERS,
    ConfigDirectory,
    SettingSource,
    config_directories,
)
from turnlog.agent.workspace.shell.bubblewrap import sandbox_notes
from turnlog.agent.workspace.tool import Tool, ToolError
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.store.catalog import live_sessions
from turnlog.store.paths import Store
from turnlog.store.registry import claim, release

ELSEWHERE = "this session is open elsewhere, too: both would write to it"
UNTRUSTED = "ignored, as its directory is not trusted: {names} (try: --trust)"
REFUSED = (
    "ignored, as a project may not choose where keys are sent: {names}"
    " (set it in your own settings or environment)"
)
NOBODY = Host()
SKILLS = "The skills that you may take up with the Skill tool:\n"


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
    """The settings files that count."""
    plain_system: list[str] = field(default_factory=list[str])
    """The system prompt without an output style."""

    @property
    def parts(self) -> Parts:
        return self.loop.parts

    async def send(self, prompt: Prompt, source: str = "typed") -> AsyncGenerator[Event]:
        """Run what the user typed: a prompt, a custom command, or /compact."""
        try:
            async with aclosing(await self._start(prompt, source)) as events:
                async for event in events:
                    yield event
        except ToolError as error:
            yield Spending().ended("blocked", str(error))

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
        """Set the session title if one is pending."""
        name, self.name = self.name, None
        if name:
            name_session(self.parts.recorder, name)

    async def close(self, reason: str = "other") -> None:
        """Close the chat: run SessionEnd hooks, stop servers and background commands."""
        # SessionEnd hooks may call MCP tools, so servers are stopped after them.
        await end_session(self.parts, reason)
        await self.parts.workspace.shells.close()
        await self.servers.close()
        await self.parts.model.close()
        release(self.store, self.parts.recorder.facts.session_id)


async def open_chat(
    store: Store,
    options: ChatOptions,
    ask: Ask | None = None,
    approve: Ask | None = None,
    host: Host = NOBODY,
) -> Chat:
    """Open a chat; a session's file is made with its first prompt.

    `ask` decides about calls, `approve` about configuration that the project contains. Without
    `approve`, the configuration of an untrusted directory can only restrict. `host` is the program
    that drives turnlog, if any.
    """
    # Trust is decided first: everything below reads files of the project, and what they may do
    # depends on it.
    trust = await _trust(store, options, approve)
    settings = _load_settings(store, options, trust)
    path, resumed = _session_of(store, options)
    require_user(starting_mode(options, settings, resumed))
    if approve:
        outside = _outside_imports(store, options, settings)
        await ask_for_imports(store, options.cwd, outside, approve)
    notes = _refusal(settings)
    # Before the first subprocess is started and the model's client reads its variables.
    os.environ.update(settings.env)
    await take_key(settings.preferences, options.cwd)
    notes += sandbox_notes(settings.sandbox)
    notes += [ELSEWHERE] if path.stem in live_sessions(store) else []
    parts = assemble(store, options, settings, path, resumed, notes.append)
    parts.ask = ask
    parts.model.prepare()
    servers = _servers_of(store, options, settings, trust)
    found = await ask_for(servers, settings, approve)
    loop = Loop(parts)
    _take_hooks(parts.hooks, host, options.plugins)
    files = _definition_files(store, options, trust, parts)
    commands = usable_skills(load_commands(store, options.cwd, files), host.skills)
    prompts = Prompts(loop, commands)
    styles, plain = load_styles(files), parts.system
    notes += _apply_style(parts, styles, settings, options)
    definitions = load_agents(store, options.cwd, files) | options.agents | dict(host.agents)
    notes += [*settings.problems, *found.problems, *files.problems]
    notes += _untrusted([*settings.ignored, *files.ignored, *_left_out(options, found)])
    answer = StructuredOutput(options.schema) if options.schema else None
    extras = (options.name, definitions, answer, options.plugins, styles)
    extras = (*extras, settings.preferences, tuple(each.path for each in settings.sources))
    chat = Chat(store, loop, prompts, _closed(host), [], notes, *extras, plain_system=plain)
    place = _place_of_own_servers(store, options)
    await _start_servers(chat, found, options.cwd, place)
    home = store.root if settings.keeps_memory else None
    agents = Agents(path, parts, definitions, prompts, home, place)
    parts.tools |= _tools(chat, options, agents.tool())
    _move_surroundings(loop, host)
    # Claimed only when nothing can fail any more: a chat that did not open must not look open.
    claim(store, path.stem, options.cwd, options.entrypoint, VERSION)
    chat.loop.pending_context += await start_session(parts, _source(options), chat.notes.append)
    _watch_files(store, options, parts)
    return chat


async def starting_policy(store: Store, options: ChatOptions) -> Policy:
    """Return the policy that a chat would start with; an untrusted project can only restrict it."""
    settings = _load_settings(store, options, await _trust(store, options, None))
    allow, deny = (
        list(sound_rules(rules, options.cwd, COMMAND_LINE))
        for rules in (options.allow, options.deny)
    )
    mode = settings.mode(options.mode)
    return settings.policy(mode, options.cwd, options.directories, allow, deny)


def _load_settings(store: Store, options: ChatOptions, trust: Trust) -> Settings:
    return settings_files.load(
        store,
        options.cwd,
        given=options.settings,
        sources=options.sources,
        is_trusted=trust.covers,
    )


async def _trust(store: Store, options: ChatOptions, approve: Ask | None) -> Trust:
    """Return which configuration of the project is trusted.

    Where nobody can be asked, `--setting-sources` counts as consent to the sources it names.
    """
    directories = config_directories(store, options.cwd, options.sources)
    is_named = approve is None and options.setting_sources is not None
    if options.trusts_project or is_named:
        return Trust(tuple(directories))
    return await establish_trust(store, directories, approve)


def _outside_imports(store: Store, options: ChatOptions, settings: Settings) -> list[Path]:
    """Return the files outside the project that its memory imports, except denied ones."""
    policy = settings.policy(ApprovalMode.DEFAULT, options.cwd)
    excluded = settings.preferences.excluded_memory
    limits = memory_limits(store, options, lambda path: is_readable(path, policy), excluded)
    found = MemoryFiles(options.cwd, store.root, limits=limits).at_start()
    return [memory.path for memory in found if memory.needs_approval]


def _refusal(settings: Settings) -> list[str]:
    refused = ", ".join(settings.refused_variables())
    return [REFUSED.format(names=refused)] if refused else []


async def _start_servers(chat: Chat, found: Approved, cwd: Path, place: Path) -> None:
    variables = chat.parts.workspace.environment
    await chat.servers.start(found.configs, cwd, variables, own_place=place)
    chat.notes += chat.servers.problems
    chat.server_states = _states(found, chat.servers.failed)


def _closed(host: Host) -> Connections:
    return Connections(open_host=host.open_server)


def _apply_style(
    parts: Parts, styles: dict[str, OutputStyle], settings: Settings, options: ChatOptions
) -> list[str]:
    """Apply the output style, unless the user gave a system prompt; return notes on it."""
    named = settings.preferences.output_style if options.system_prompt is None else None
    parts.system, notes = styled_system(parts.system, styles, named)
    return notes


def _untrusted(ignored: Sequence[str]) -> list[str]:
    return [UNTRUSTED.format(names="; ".join(ignored))] if ignored else []


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
    if source and not options.is_fork:
        return source, reopen(source, options.resume_at)
    name = options.session_id or str(uuid4())
    path = store.project_of(str(options.cwd)) / f"{name}.jsonl"
    if path.exists():
        raise UsageError(f"session {name} exists already", f"--resume {name}")
    if source:
        fork(source, path, options.resume_at)
        return path, reopen(path)
    return path, Resumed()


def _place_of_own_servers(store: Store, options: ChatOptions) -> Path:
    """Return the working directory of the user's servers: the project's only if it is trusted."""
    if options.trusts_project or is_trusted(store, ConfigDirectory(options.cwd, ())):
        return options.cwd
    return store.root if store.root.is_dir() else Path.home()


def _servers_of(store: Store, options: ChatOptions, settings: Settings, trust: Trust) -> Approved:
    """Return the MCP servers of the chat."""
    environment = os.environ | settings.command_env
    given = given_servers(options.servers, options.cwd, environment)
    for plugin in options.plugins:
        theirs = listed_servers(plugin.servers, environment, is_project=False)
        named = {f"plugin:{plugin.name}:{name}": each for name, each in theirs.configs.items()}
        given.configs.update(named)
        given.problems.extend(theirs.problems)
    if options.has_only_these_servers:
        return with_given(Approved({}, {}, []), given)
    uses_project = SettingSource.PROJECT in options.sources
    is_trusted = trust.covers(options.cwd / SERVERS)
    found = find_servers(store, settings, environment, uses_project, is_trusted)
    return with_given(found, given)


def _skills(chat: Chat) -> list[Tool]:
    """Return the Skill tool, if there are skills; its description lists them."""
    tool = chat.prompts.tool(chat.parts)
    if tool is None:
        return []
    chat.parts.system.append(SKILLS + listing(for_model(chat.prompts.commands).values()))
    return [tool]


def _definition_files(
    store: Store, options: ChatOptions, trust: Trust, parts: Parts
) -> DefinitionFiles:
    limits = (options.sources, trust.covers, trust.contains, parts.workspace.may_read)
    return DefinitionFiles(store, options.cwd, *limits).add_plugins(options.plugins)


def _watch_files(store: Store, options: ChatOptions, parts: Parts) -> None:
    if wants_watch(parts.hooks):
        watched = settings_files.files_of(store, options.cwd)
        parts.hooks.keep(watch(parts.hooks, watched, partial(take_variables, parts)))


def _move_surroundings(loop: Loop, host: Host) -> None:
    """Send what depends on the user with the first prompt, if many users share a cache."""
    if not host.moves_surroundings:
        return
    role, *others = loop.parts.system
    loop.parts.system = [role]
    loop.pending_context.append(reminder(others, "SessionStart"))


def _take_hooks(hooks: Hooks, host: Host, plugins: Sequence[Plugin]) -> None:
    """Add the hooks of a program and of plugins, and let the program see those of others."""
    for groups in (host.hooks, *(plugin.hooks for plugin in plugins)):
        hooks.add({event: each for event, each in groups.items() if event in EVENTS})
    hooks.call_back = host.call_back
    hooks.observe = host.observe or hooks.observe


def _tools(chat: Chat, options: ChatOptions, agent: Tool) -> dict[str, Tool]:
    """Return the tools of the chat that the options do not leave out."""
    # Where nobody can be asked, the model is not offered to ask.
    asking = [ASK_USER_QUESTION, *PlanApproval(chat.store, chat.parts).tools()]
    asked = asking if chat.parts.ask else []
    every = toolbox(agent, *asked, *_skills(chat), *chat.servers.tools)
    offered = offered_tools(every, options.tools, options.deny)
    if chat.answer:
        chat.parts.demand = chat.answer.demand
        answering = chat.answer.tool()
        offered[answering.name] = answering
    return offered


def _states(found: Approved, failed: set[str]) -> list[Fields]:
    """Return each server with its status, in the client's words."""
    states = {name: "failed" if name in failed else "connected" for name in found.configs}
    states |= dict.fromkeys(found.pending, "pending")
    return [{"name": name, "status": status} for name, status in states.items()]
