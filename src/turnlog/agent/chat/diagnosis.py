"""Examine a chat and what it depends on: programs, key, store, settings, servers, rules, session.

The checks are independent and repair nothing. They only read files, except that the sandbox is
tested with an empty command.
"""

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from turnlog import __version__
from turnlog.agent.chat.opening import Chat
from turnlog.agent.chat.rule_doubts import RuleNames, rule_doubts
from turnlog.agent.config.settings import MANAGED
from turnlog.agent.config.settings_content import read_settings
from turnlog.agent.mcp.connections import spelt
from turnlog.agent.model.messages_api import KEYS
from turnlog.agent.model.providers import ANTHROPIC, provider_of
from turnlog.agent.tools.files.ripgrep import program as ripgrep
from turnlog.agent.workspace.programs import find_program
from turnlog.agent.workspace.project_directories import LARGEST, SERVERS, settings_files
from turnlog.agent.workspace.sandbox.bubblewrap import sandbox_notes, why_unavailable
from turnlog.agent.workspace.tool import ToolError
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.errors import TurnlogError, UsageError
from turnlog.format.json_values import parse_json
from turnlog.format.regular_files import read_regular
from turnlog.secrets import mask
from turnlog.store.paths import Store
from turnlog.text import file_size, plural

LITTLE = 100 << 20
"""Bytes of free space below which the store is reported."""


class Health(StrEnum):
    """The outcome of a check."""

    WELL = "ok"
    DOUBTFUL = "note"
    ILL = "error"


class Diagnosis(Struct, frozen=True):
    """The outcome of one check."""

    area: str
    health: Health
    text: str


Check = Callable[[Chat], Iterator[Diagnosis]]


def examine_chat(chat: Chat) -> list[Diagnosis]:
    """Return the outcomes of all checks, in order; a check that raises counts as an error."""
    found: list[Diagnosis] = []
    for area, check in CHECKS.items():
        try:
            found += check(chat)
        # The worse the state of a machine, the more the other checks are needed.
        except (TurnlogError, OSError, ValueError) as error:
            text = error.line if isinstance(error, TurnlogError) else str(error)
            found.append(Diagnosis(area, Health.ILL, text))
    return found


def _installation(chat: Chat) -> Iterator[Diagnosis]:
    area = "installation"
    python = f"Python {platform.python_version()} in {sys.prefix}"
    yield Diagnosis(area, Health.WELL, f"turnlog {__version__}, {python}")
    if not find_program("git", chat.parts.workspace.folders):
        yield Diagnosis(area, Health.DOUBTFUL, "git is not installed: /diff needs it")
    try:
        ripgrep()
    except ToolError as error:
        yield Diagnosis(area, Health.ILL, f"{error}: Grep and Glob need it")


def _key(chat: Chat) -> Iterator[Diagnosis]:
    area, provider = "key", provider_of(os.environ)
    if provider is not ANTHROPIC:
        yield Diagnosis(area, Health.WELL, f"{provider.name}, with its own credentials")
        return
    named = [name for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN") if os.environ.get(name)]
    if not named:
        yield Diagnosis(area, Health.ILL, f"no key for the Messages API (try: {KEYS})")
        return
    where = os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
    helper = " from apiKeyHelper or the environment" if chat.preferences.key_command else ""
    # Masked: the address of a gateway may hold a password.
    yield Diagnosis(area, Health.WELL, f"{' and '.join(named)}{helper}, sent to {mask(where)}")


def _store(chat: Chat) -> Iterator[Diagnosis]:
    area, store = "store", chat.store
    if not store.root.is_dir():
        yield Diagnosis(area, Health.DOUBTFUL, f"{store.root} does not exist yet")
        return
    count = sum(1 for _ in store.session_files())
    yield Diagnosis(area, Health.WELL, f"{store.root}, {plural(count, 'session')}")
    if not os.access(store.root, os.W_OK):
        yield Diagnosis(area, Health.ILL, f"{store.root} cannot be written to")
    free = shutil.disk_usage(store.root).free
    if free < LITTLE:
        yield Diagnosis(area, Health.DOUBTFUL, f"only {file_size(free)} are free on its disk")


def _settings(chat: Chat) -> Iterator[Diagnosis]:
    """Report each file that cannot be read, not only the first."""
    area, broken = "settings", False
    for path, read in _configuration(chat.store, chat.parts.workspace.root):
        try:
            read(path)
        except (UsageError, OSError, ValueError, RecursionError) as error:
            broken = True
            text = error.line if isinstance(error, UsageError) else f"{path}: {error}"
            yield Diagnosis(area, Health.ILL, text)
    if broken:
        return
    settings = chat.reload()
    files = ", ".join(str(each.path) for each in settings.sources) or "none"
    yield Diagnosis(area, Health.WELL, files)
    for problem in settings.skipped:
        yield Diagnosis(area, Health.DOUBTFUL, problem)
    for ignored in settings.ignored:
        yield Diagnosis(area, Health.DOUBTFUL, f"not trusted, so it can only restrict: {ignored}")


def _configuration(store: Store, root: Path) -> Iterator[tuple[Path, Callable[[Path], object]]]:
    """Yield the configuration files that exist, each with the function that reads it."""
    settings = [store.settings, *(path for path, _ in settings_files(root)), MANAGED]
    for path in dict.fromkeys(settings):
        if path.exists():
            yield path, read_settings
    for path in (store.client_state(), root / SERVERS):
        if path.exists():
            yield path, lambda each: parse_json(read_regular(each, LARGEST))


def _servers(chat: Chat) -> Iterator[Diagnosis]:
    area = "MCP servers"
    states = {str(each["name"]): str(each["status"]) for each in chat.server_states}
    if not states:
        yield Diagnosis(area, Health.WELL, "none")
    for name, status in states.items():
        tools = sum(1 for tool in chat.servers.tools if tool.server == spelt(name))
        is_well = status == "connected"
        text = f"{name}: {plural(tools, 'tool')}" if is_well else f"{name}: {status}"
        yield Diagnosis(area, Health.WELL if is_well else Health.DOUBTFUL, text)
    for problem in chat.servers.problems:
        yield Diagnosis(area, Health.ILL, problem)


def _sandbox(chat: Chat) -> Iterator[Diagnosis]:
    area, rules = "sandbox", chat.parts.workspace.confinement
    if why := why_unavailable():
        yield Diagnosis(area, Health.ILL if rules.is_on else Health.DOUBTFUL, why)
    else:
        yield Diagnosis(area, Health.WELL, f"works; unasked: {chat.parts.workspace.tier.value}")
    for note in sandbox_notes(rules):
        yield Diagnosis(area, Health.DOUBTFUL, note)


def _rules(chat: Chat) -> Iterator[Diagnosis]:
    area, parts = "permissions", chat.parts
    policy = parts.rules.standing(parts.workspace)
    known = RuleNames(
        parts.tools,
        [*map(spelt, chat.servers.servers), *(spelt(each["name"]) for each in chat.server_states)],
        chat.agents,
        chat.prompts.commands,
    )
    count = len(policy.deny) + len(policy.ask) + len(policy.allow)
    yield Diagnosis(area, Health.WELL, f"{plural(count, 'rule')}, mode {policy.mode.value}")
    for doubt in (*chat.reload().problems, *rule_doubts(policy, known)):
        yield Diagnosis(area, Health.DOUBTFUL, doubt)


def _session(chat: Chat) -> Iterator[Diagnosis]:
    area, path = "session", chat.parts.recorder.path
    if not path.exists():
        yield Diagnosis(area, Health.WELL, "nothing is recorded yet")
        return
    found = check_session(open_session(path))
    serious = [each for each in found if each.is_serious]
    if not serious:
        size = file_size(path.stat().st_size)
        yield Diagnosis(area, Health.WELL, f"{path.stem} resumes in full, {size}")
    for each in serious:
        fix = f" (try: {each.fix})" if each.fix else ""
        yield Diagnosis(area, Health.ILL, f"line {each.line}: {each.message}{fix}")


CHECKS: dict[str, Check] = {
    "installation": _installation,
    "key": _key,
    "store": _store,
    "settings": _settings,
    "MCP servers": _servers,
    "sandbox": _sandbox,
    "permissions": _rules,
    "session": _session,
}
