"""Assemble the parts of a chat from settings, configuration files and options."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.chat.customizations import ALL, Customizations
from turnlog.agent.chat.preferred_answers import preferred_prompts
from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.config.memory import Memory, MemoryFiles, MemoryLimits
from turnlog.agent.config.plugins import Plugin
from turnlog.agent.config.settings import Settings
from turnlog.agent.hooks.command_hooks import fresh_env_file
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.http_hooks import Allowed
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.agent.loop.answering import ask_for_tool
from turnlog.agent.loop.call_hooks import review_task
from turnlog.agent.loop.context_limit import compacting
from turnlog.agent.loop.conversation import Emit, Parts, TurnLimits
from turnlog.agent.loop.events import Notice
from turnlog.agent.loop.system_prompt import ROLE, memory_prompt, surroundings
from turnlog.agent.model.model_names import (
    EFFORT_VARIABLE,
    ModelChoice,
    ModelTuning,
    always_thinks,
    choose,
)
from turnlog.agent.model.streaming import Model
from turnlog.agent.permissions import ApprovalMode, is_readable
from turnlog.agent.permissions.consent import Consent
from turnlog.agent.permissions.hook_filter import rule_filter
from turnlog.agent.permissions.policy import Ask
from turnlog.agent.permissions.trust import ImportChoices, ask_for_imports, import_choices
from turnlog.agent.session.entry_builders import EntryDefaults, new_slug
from turnlog.agent.session.file_history import FileHistory
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.session.resume import Resumed, continue_session
from turnlog.agent.session.rewind import OUTSIDE, why_apart
from turnlog.agent.subagents.hook_evaluation import ConversationResources
from turnlog.agent.workspace.access import Tier
from turnlog.agent.workspace.project_directories import EVERY_SOURCE, SettingSource
from turnlog.agent.workspace.sandbox.bubblewrap import why_unavailable
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.agent.workspace.task_list import TaskList, task_folder
from turnlog.agent.workspace.tool import Tool
from turnlog.agent.workspace.web_pages import Pages
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store, real_path, sidecar_folder

NOT_APPROVED = (
    "{path} is not loaded: {importer} imports it, from outside of the project (try: turnlog chat)"
)
INTERACTIVE, PRINTED = "cli", "sdk-cli"


class ChatOptions(Struct, frozen=True, kw_only=True):
    """Options of a chat."""

    cwd: Path
    entrypoint: str = INTERACTIVE
    start: str = "startup"
    """Start source in the hook payload: startup or clear."""
    resume: Path | None = None
    """The session to resume."""
    is_fork: bool = False
    """Resume a copy and leave the original untouched."""
    session_id: str | None = None
    name: str | None = None
    """Session title, set with the next prompt."""
    settings: str | None = None
    """Additional settings: a file or JSON."""
    setting_sources: frozenset[SettingSource] | None = None
    """Setting sources to load; None for all."""
    trusts_project: bool = False
    """Trust the project for this session without asking."""
    model: str | None = None
    mode: ApprovalMode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    directories: tuple[Path, ...] = ()
    system_prompt: str | None = None
    more_system_prompt: str | None = None
    servers: tuple[str, ...] = ()
    """Additional MCP servers: files or JSON."""
    has_only_these_servers: bool = False
    allows_private_pages: bool = False
    """Allow WebFetch to reach private networks and this machine."""
    limits: TurnLimits = TurnLimits()
    tools: tuple[str, ...] | None = None
    """Built-in tools to offer; None for all."""
    tuning: ModelTuning = ModelTuning()
    thinking_tokens: int | None = None
    schema: Fields | None = None
    """JSON Schema that the answer has to follow."""
    resume_at: str | None = None
    """Id of the last entry of the resumed session to keep."""
    drops_turn: str | None = None
    """The prompt whose turn `resume_at` may drop; dropping anything else is an error."""
    plugins: tuple[Plugin, ...] = ()
    agents: dict[str, AgentDefinition] = {}
    """Agents defined on the command line."""
    allows_bypass: bool = False
    """Allow a program to switch to bypassPermissions later."""
    customizations: Customizations = ALL
    is_recorded: bool = True
    """False to keep the session in memory only."""
    compact_window: str | None = None
    """Tokens at which the conversation is compacted, or "auto"."""
    agent: str | None = None
    """The agent whose instructions, tools and model the session uses."""
    opening_lines: tuple[Fields, ...] = ()
    """Lines about the session, such as its worktree, to write with the first prompt."""
    moves_surroundings: bool = False
    """Send machine-dependent context with the first prompt, not in the system prompt."""
    setup: str | None = None
    """Run Setup hooks first: init or maintenance."""

    @property
    def sources(self) -> frozenset[SettingSource]:
        """The setting sources in effect."""
        return EVERY_SOURCE if self.setting_sources is None else self.setting_sources


def tier_of(options: ChatOptions, rules: Confinement) -> Tier:
    """Return what commands may do unasked in a chat."""
    if why_unavailable():
        return Tier.NONE
    if rules.is_on and rules.auto_allow:
        return Tier.WRITE
    is_watched = options.entrypoint == INTERACTIVE
    return Tier.READ if is_watched and rules.auto_run_reads else Tier.LISTED


def assemble(
    store: Store,
    options: ChatOptions,
    settings: Settings,
    path: Path,
    resumed: Resumed,
    notify: Callable[[str], None],
) -> Parts:
    """Return the parts of a chat without its tools; `notify` gets messages for the user."""
    cwd, mode = options.cwd, starting_mode(options, settings, resumed)
    choice = starting_model(options, resumed, settings)
    # The first one is the session's own directory, which is the root of the workspace.
    places = [*settings.directories[1:], *options.directories]
    consent = Consent(settings, mode, options.allow, options.deny, options.allows_bypass)
    # The callbacks refer to variables assigned below: tools call them only once the chat runs.
    workspace = Workspace(
        cwd,
        sidecar_folder(path),
        cwd,
        places,
        pages=Pages(allows_private=options.allows_private_pages),
        environment=settings.command_env,
        before_change=lambda path: history.before_change(path) if history else None,
        may_read=lambda path, searched=None: is_readable(path, consent.policy(workspace), searched),
        confinement=settings.sandbox,
        tier=tier_of(options, settings.sandbox),
        ask=lambda question, tools: ask_for_tool(parts, question, tools),
        todos=resumed.todos,
        tasks=TaskList(task_folder(store, path.stem, os.environ), store.root),
        review_task=lambda event, about: review_task(parts, event, about),
    )
    recorder = _recorder(options, path, resumed, workspace)
    history = _history(store, options, recorder, workspace)
    facts = _hook_facts(path, options, settings, mode, _env_file(store, options, path))
    files = _memory_files(store, options, settings, workspace)
    tools: dict[str, Tool] = {}
    hooks = Hooks(settings.hooks, facts, rule_filter(tools, workspace), _allowed(settings))
    found = files.at_start()
    memory = _remembered(found, hooks)
    for problem in (*files.problems, *_left_out(store, cwd, found)):
        notify(problem)
    parts = Parts(
        choice=choice,
        model=Model(),
        recorder=recorder,
        tools=tools,
        workspace=workspace,
        hooks=hooks,
        rules=consent,
        ask=None,
        system=_system(options, settings, [surroundings(cwd, places)], memory),
        memory=memory,
        memory_files=_approved(found),
        recall=partial(_recall, store, files, hooks),
        limits=_limits(options, settings),
        backups=history,
    )
    # Set last, as the two refer to each other.
    parts.hooks.resources = ConversationResources(parts)
    return parts


def starting_model(options: ChatOptions, resumed: Resumed, settings: Settings) -> ModelChoice:
    """Return the model that a chat starts with."""
    named = options.model or resumed.model or settings.model
    wanted, preferred = options.tuning, settings.preferences
    # The client documents this precedence: option, variable, setting.
    effort = wanted.effort or os.environ.get(EFFORT_VARIABLE) or preferred.effort
    is_watched = options.entrypoint == INTERACTIVE or preferred.shows_thinking
    display = wanted.display or ("summarized" if is_watched else "omitted")
    fallback = wanted.fallback or preferred.fallback
    tuning = replace(wanted, effort=effort, display=display, fallback=fallback)
    choice = choose(named, os.environ, tuning)
    if preferred.thinks is False and not wanted.thinking and not always_thinks(choice.model):
        choice = replace(choice, tuning=replace(tuning, thinking="disabled"))
    tokens = options.thinking_tokens
    return choice if tokens is None else replace(choice, thinking_tokens=tokens)


def _hook_facts(
    path: Path, options: ChatOptions, settings: Settings, mode: ApprovalMode, env_file: Path | None
) -> SessionFacts:
    return SessionFacts(
        path.stem,
        path,
        options.cwd,
        options.cwd,
        mode.value,
        entrypoint=options.entrypoint,
        env_file=env_file,
        variables=settings.command_env,
    )


def _env_file(store: Store, options: ChatOptions, path: Path) -> Path:
    return fresh_env_file(store, path.stem) if options.is_recorded else path.with_suffix(".sh")


def _history(
    store: Store, options: ChatOptions, recorder: Recorder, workspace: Workspace
) -> FileHistory | None:
    """Return the backups of changed files; None if the session is not recorded."""
    may_copy = partial(_may_copy, workspace)
    return FileHistory(store, recorder, options.cwd, may_copy) if options.is_recorded else None


def _may_copy(workspace: Workspace, path: Path) -> bool:
    """Return whether a file named by a resumed session may be backed up."""
    return why_apart(path, workspace.folders) != OUTSIDE and workspace.may_read(path)


def _memory_files(
    store: Store, options: ChatOptions, settings: Settings, workspace: Workspace
) -> MemoryFiles:
    excluded = settings.preferences.excluded_memory
    limits = memory_limits(store, options, workspace.may_read, excluded)
    return MemoryFiles(options.cwd, store.root, limits=limits)


def memory_limits(
    store: Store,
    options: ChatOptions,
    may_read: Callable[[Path], bool],
    excluded: tuple[str, ...] = (),
) -> MemoryLimits:
    """Return which memory files a chat loads."""
    has_memory = options.customizations.has_memory
    return MemoryLimits(
        # Read again for each file, as the user may approve imports in the middle of a chat.
        is_approved=lambda path: path in import_choices(store, options.cwd).approved,
        may_read=may_read,
        uses_user=has_memory and SettingSource.USER in options.sources,
        uses_project=has_memory and SettingSource.PROJECT in options.sources,
        excluded=excluded,
    )


async def _recall(
    store: Store, files: MemoryFiles, hooks: Hooks, place: Path, ask: Ask | None, emit: Emit
) -> list[str]:
    """Return the memory that applies to a file, and report memory files that were not loaded.

    Ask about imports from outside the project that the user has not been asked about yet.
    """
    before = len(files.problems)
    found = files.for_file(place)
    outside = [memory.path for memory in found if memory.needs_approval]
    if outside and ask:
        await ask_for_imports(store, files.cwd, outside, ask)
        approved = import_choices(store, files.cwd).approved
        found = [
            replace(memory, needs_approval=False) if real_path(memory.path) in approved else memory
            for memory in found
        ]
    for problem in (*files.problems[before:], *_left_out(store, files.cwd, found)):
        emit(Notice(problem, is_error=True))
    return _remembered(found, hooks)


def _left_out(store: Store, cwd: Path, memories: list[Memory]) -> list[str]:
    """Return a message for each import left out because nobody could be asked."""
    waiting = [memory for memory in memories if memory.needs_approval]
    choices = import_choices(store, cwd) if waiting else ImportChoices()
    return [
        NOT_APPROVED.format(path=real_path(memory.path), importer=memory.loaded.parent)
        for memory in waiting
        if not choices.is_known(memory.path)
    ]


def starting_mode(options: ChatOptions, settings: Settings, resumed: Resumed) -> ApprovalMode:
    """Return the mode that a chat starts in.

    Only an interactive chat restores the mode stored in the session: a session file from elsewhere
    must not decide what `-p` runs without asking.
    """
    left_in = resumed.mode if options.entrypoint == INTERACTIVE else None
    return settings.mode(options.mode or left_in)


def _recorder(options: ChatOptions, path: Path, resumed: Resumed, workspace: Workspace) -> Recorder:
    facts = EntryDefaults(path.stem, resumed.slug or new_slug(), options.entrypoint)
    recorder = Recorder(path, facts, lambda: workspace.cwd, is_kept=options.is_recorded)
    continue_session(recorder, resumed)
    return recorder


def _limits(options: ChatOptions, settings: Settings) -> TurnLimits:
    window = options.compact_window or settings.compact_window
    when = compacting(settings.compacts_itself, window, os.environ)
    return replace(options.limits, compacting=when)


def _allowed(settings: Settings) -> Allowed:
    return Allowed(settings.hook_urls, settings.hook_variables)


def _remembered(memories: list[Memory], hooks: Hooks) -> list[str]:
    """Return the approved memory files for the system prompt, firing a hook for each."""
    approved = [memory for memory in memories if not memory.needs_approval]
    for memory in approved:
        hooks.announce("InstructionsLoaded", memory.loaded.reason, _about(memory))
    return memory_prompt(approved)


def _approved(memories: list[Memory]) -> list[tuple[str, str, str]]:
    """Return path, kind and text of the memory files that the model sees."""
    approved = [memory for memory in memories if not memory.needs_approval]
    return [(str(each.path), each.kind.value, each.text) for each in approved]


def _about(memory: Memory) -> Fields:
    why = memory.loaded
    about = {"file_path": memory.path, "memory_type": memory.kind, "load_reason": why.reason}
    about |= {"trigger_file_path": why.trigger, "parent_file_path": why.parent}
    fields = {name: str(value) for name, value in about.items() if value is not None}
    return fields | ({"globs": list(why.globs)} if why.globs else {})


def _system(
    options: ChatOptions, settings: Settings, place: list[str], memory: list[str]
) -> list[str]:
    parts = [*place, *preferred_prompts(settings.preferences), *memory]
    more = [options.more_system_prompt] if options.more_system_prompt else []
    # An empty prompt also replaces the role: programs send it for an agent without instructions.
    role = ROLE if options.system_prompt is None else options.system_prompt
    return [role, *parts, *more]
