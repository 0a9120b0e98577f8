"""Find the configuration of a chat: trust, settings, plugins and MCP servers."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from turnlog.agent.chat.assembly import INTERACTIVE, ChatOptions, memory_limits, tier_of
from turnlog.agent.chat.customizations import ALL, leave_out
from turnlog.agent.chat.host import plugin_servers
from turnlog.agent.chat.preferred_answers import KEYS
from turnlog.agent.config import settings as settings_files
from turnlog.agent.config.installed_plugins import find_plugins
from turnlog.agent.config.memory import MemoryFiles
from turnlog.agent.config.settings import Settings
from turnlog.agent.mcp.server_approval import Approved, find_servers, with_given
from turnlog.agent.mcp.server_config import given_servers
from turnlog.agent.model.streaming import Model
from turnlog.agent.permissions import ApprovalMode, Policy, is_readable, sound_rules
from turnlog.agent.permissions.consent import COMMAND_LINE
from turnlog.agent.permissions.policy import Ask
from turnlog.agent.permissions.rules import NOT_DENIED, skipped_rules
from turnlog.agent.permissions.trust import Trust, establish_trust, is_trusted
from turnlog.agent.workspace.project_directories import (
    SERVERS,
    SETTINGS,
    ConfigDirectory,
    SettingSource,
    config_directories,
)
from turnlog.store.paths import Store

UNTRUSTED = "ignored, as its directory is not trusted: {names} (try: --trust)"


async def starting_settings(store: Store, options: ChatOptions) -> tuple[Settings, Trust]:
    """Return the settings and trust that a chat would start with if nobody is asked."""
    # An interactive chat asks later: there, `--setting-sources` does not count as consent.
    is_asked = options.entrypoint == INTERACTIVE and not options.trusts_project
    directories = config_directories(store, options.cwd, options.sources)
    trust = (
        await establish_trust(store, directories, None)
        if is_asked
        else await decide_trust(store, options, None)
    )
    return load_settings(store, options, trust), trust


def require_key(store: Store, options: ChatOptions) -> None:
    """Raise `ModelError` if a chat would have no API key even in a trusted project."""
    trust = Trust(trusted=tuple(config_directories(store, options.cwd, options.sources)))
    settings = load_settings(store, options, trust)
    command = settings.preferences.key_command
    has_own = any(settings.env.get(name) for name in KEYS)
    # The key command is not run here: it may ask the user, so only the chat itself runs it.
    if not has_own and not (command and command.text):
        Model({**os.environ, **settings.env}).require_credentials()


def starting_policy(settings: Settings, options: ChatOptions) -> Policy:
    """Return the policy that a chat with these settings would start with."""
    allow, deny = (
        list(sound_rules(rules, options.cwd, COMMAND_LINE))
        for rules in (options.allow, options.deny)
    )
    mode = settings.mode(options.mode)
    policy = settings.policy(mode, options.cwd, options.directories, allow, deny)
    excluded = settings.sandbox.excluded if settings.sandbox.is_on else ()
    return replace(policy, tier=tier_of(options, settings.sandbox), excluded=excluded)


def untrusted_notes(ignored: Sequence[str]) -> list[str]:
    """Return a message that names the configuration ignored as untrusted, if there is any."""
    return [UNTRUSTED.format(names="; ".join(ignored))] if ignored else []


def rule_problems(options: ChatOptions) -> list[str]:
    """Return a message for each invalid rule of the command line; such rules are skipped."""
    allow = skipped_rules(options.allow, options.cwd, COMMAND_LINE)
    return [*allow, *skipped_rules(options.deny, options.cwd, COMMAND_LINE, NOT_DENIED)]


def load_settings(store: Store, options: ChatOptions, trust: Trust) -> Settings:
    """Return the settings of a chat, without the customizations that it leaves out."""
    settings = settings_files.load(
        store,
        options.cwd,
        given=options.settings,
        sources=options.sources,
        is_trusted=trust.covers,
    )
    return leave_out(settings, options.customizations)


async def decide_trust(store: Store, options: ChatOptions, approve: Ask | None) -> Trust:
    """Return which configuration of the project is trusted.

    Where nobody can be asked, `--setting-sources` counts as consent to the sources it names.
    """
    directories = config_directories(store, options.cwd, options.sources)
    is_named = approve is None and options.setting_sources is not None
    if options.trusts_project or is_named:
        return Trust(tuple(directories))
    return await establish_trust(store, directories, approve)


def outside_imports(store: Store, options: ChatOptions, settings: Settings) -> list[Path]:
    """Return the files outside the project that its memory imports, except denied ones."""
    policy = settings.policy(ApprovalMode.DEFAULT, options.cwd)
    excluded = settings.preferences.excluded_memory
    limits = memory_limits(store, options, lambda path: is_readable(path, policy), excluded)
    found = MemoryFiles(options.cwd, store.root, limits=limits).at_start()
    return [memory.path for memory in found if memory.needs_approval]


def with_plugins(
    store: Store, options: ChatOptions, settings: Settings, trust: Trust
) -> tuple[ChatOptions, tuple[str, ...]]:
    """Return options with the installed plugins, and messages about plugins not loaded."""
    if options.customizations != ALL:
        return options, ()

    def may_bring() -> bool:
        return trust.covers(options.cwd / SETTINGS) or _is_place_trusted(store, options)

    uses_user = SettingSource.USER in options.sources
    found = find_plugins(store, settings, options.plugins, uses_user, may_bring)
    return replace(options, plugins=found.plugins), found.problems


def _is_place_trusted(store: Store, options: ChatOptions) -> bool:
    return options.trusts_project or is_trusted(store, ConfigDirectory(options.cwd, ()))


def place_of_own_programs(store: Store, options: ChatOptions) -> Path:
    """Return the directory to start the user's servers and key command in.

    This is the project only if it is trusted.
    """
    if _is_place_trusted(store, options):
        return options.cwd
    # In the project, `npx` and `python -m` would run a stranger's program of the same name.
    return store.root if store.root.is_dir() else Path.home()


def servers_of(store: Store, options: ChatOptions, settings: Settings, trust: Trust) -> Approved:
    """Return the MCP servers of the chat."""
    environment = os.environ | settings.command_env
    given = given_servers(options.servers, options.cwd, environment)
    for plugin in options.plugins:
        theirs = plugin_servers(plugin, environment)
        given.configs.update(theirs.configs)
        given.problems.extend(theirs.problems)
    if options.has_only_these_servers or not options.customizations.has_servers:
        return with_given(Approved({}, {}, []), given)
    uses_project = SettingSource.PROJECT in options.sources
    is_trusted = trust.covers(options.cwd / SERVERS)
    found = find_servers(store, settings, environment, uses_project, is_trusted)
    return with_given(found, given)
