"""The client's settings: what the user, the project and the system say, taken together.

Lists are joined; of single values, the one of the highest source counts. A project's file that is
not trusted can only restrict.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.permissions import ApprovalMode, Policy, Rule, parse_rule, sound_rules
from turnlog.agent.permissions.server_approval import ServerChoice
from turnlog.agent.workspace.project_directories import (
    EVERY_SOURCE,
    LARGEST,
    LOCAL_SETTINGS,
    SETTINGS,
    SettingSource,
    local_folder,
    settings_files,
)
from turnlog.agent.workspace.project_environment import is_own, is_routing
from turnlog.agent.workspace.shell.sandbox_settings import (
    Confinement,
    Sandbox,
    SandboxEntry,
    confine,
    restricting,
)
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import Store, expand_user

MANAGED = Path("/etc/claude-code/managed-settings.json")
DISABLED = "disable"
GIVEN = "--settings"
"""Stands for the file of what the command line itself says."""
BY_HAND = "correct it by hand"
NOT_ASKED = ", so what it was to ask about is NOT asked about by it"
NOT_DENIED = ", so what it was to deny is NOT denied by it"


class Permissions(Struct, rename="camel"):
    """What may be done without asking, and what not at all."""

    allow: list[str] | None = None
    ask: list[str] | None = None
    deny: list[str] | None = None
    default_mode: str | None = None
    additional_directories: list[str] | None = None
    disable_bypass_permissions_mode: str | None = None


class SettingsContent(Struct, rename="camel"):
    """What a settings file says; what turnlog does not use is left alone."""

    permissions: Permissions | None = None
    hooks: dict[str, list[Fields]] | None = None
    disable_all_hooks: bool | None = None
    allow_managed_hooks_only: bool | None = None
    allowed_http_hook_urls: list[str] | None = None
    http_hook_allowed_env_vars: list[str] | None = None
    allow_managed_permission_rules_only: bool | None = None
    env: dict[str, Any] | None = None
    model: str | None = None
    auto_compact_enabled: bool | None = None
    auto_compact_window: int | str | None = None
    auto_memory_enabled: bool | None = None
    sandbox: Sandbox | None = None
    enable_all_project_mcp_servers: bool | None = None
    enabled_mcpjson_servers: list[str] | None = None
    disabled_mcpjson_servers: list[str] | None = None


class SettingsSource(Struct, frozen=True):
    """A settings file."""

    path: Path
    base: Path
    """What a leading slash stands for in its rules about files."""
    content: SettingsContent
    is_managed: bool = False
    is_given: bool = False
    """Whether the user named it for this session."""
    is_project: bool = False
    """Whether it lies among a project's files, so that others may have written it."""
    ignored: tuple[str, ...] = ()
    """What is left out of it because its directory is not trusted."""

    @property
    def permissions(self) -> Permissions:
        return self.content.permissions or Permissions()


class Settings(Struct, frozen=True):
    """The settings of all sources, the lowest first."""

    root: Path
    """The directory that the session was started in."""
    sources: tuple[SettingsSource, ...]
    skipped: tuple[str, ...] = ()
    """Files that are not loaded, and why."""

    @property
    def model(self) -> str | None:
        """The model that is asked where nothing else is said."""
        return self._highest(source.content.model for source in self.sources)

    @property
    def compacts_itself(self) -> bool | None:
        """Whether a conversation that fills up is compacted without being asked for."""
        return self._highest(source.content.auto_compact_enabled for source in self.sources)

    @property
    def compact_window(self) -> int | str | None:
        """The tokens of a conversation at which that is due, or "auto"."""
        return self._highest(source.content.auto_compact_window for source in self.sources)

    @property
    def keeps_memory(self) -> bool:
        """Whether sub-agents may keep notes from task to task."""
        said = self._highest(source.content.auto_memory_enabled for source in self.sources)
        return said is not False

    @property
    def env(self) -> dict[str, str]:
        """Variables for turnlog itself and for all that it runs."""
        return {
            name: value
            for source, name, value in self._variables()
            if not source.is_project or is_own(name)
        }

    @property
    def command_env(self) -> dict[str, str]:
        """Further variables that only the commands get which the session runs: the project's."""
        found: dict[str, str] = {}
        for source, name, value in self._variables():
            if not source.is_project:
                found.pop(name, None)
            elif not is_own(name) and not is_routing(name):
                found[name] = value
        return found

    def refused_variables(self, environment: Mapping[str, str] = os.environ) -> list[str]:
        """Variables a project may not set, each as `NAME in FILE`: they decide where a key is sent.

        One that only repeats what the user says elsewhere is not worth a line.
        """
        own = {**environment, **self.env}
        return [
            f"{name} in {source.path}"
            for source, name, value in self._variables()
            if source.is_project and is_routing(name) and own.get(name) != value
        ]

    @property
    def default_mode(self) -> ApprovalMode:
        """The mode that a session starts in; one that turnlog does not have is the default."""
        named = self._highest(source.permissions.default_mode for source in self.sources)
        known = named in list(ApprovalMode) and not (
            named == ApprovalMode.BYPASS and self.is_bypass_disabled
        )
        return ApprovalMode(named) if known else ApprovalMode.DEFAULT

    @property
    def is_bypass_disabled(self) -> bool:
        """Whether a source forbids the mode in which nothing is asked."""
        return any(
            source.permissions.disable_bypass_permissions_mode == DISABLED
            for source in self.sources
        )

    @property
    def hooks(self) -> dict[str, list[Fields]]:
        """The groups of hooks of each event, each with its `source`."""
        found: dict[str, list[Fields]] = {}
        for source in self._sources_of_hooks():
            for event, groups in (source.content.hooks or {}).items():
                marks = {"source": str(source.path), "is_project": source.is_project}
                found.setdefault(event, []).extend(group | marks for group in groups)
        return found

    @property
    def hook_urls(self) -> tuple[str, ...] | None:
        """Patterns of the addresses that hooks may be sent to; None for all."""
        return self._joined(source.content.allowed_http_hook_urls for source in self.sources)

    @property
    def hook_variables(self) -> tuple[str, ...] | None:
        """Variables whose values may be sent there in headers; None for all that a hook names."""
        return self._joined(source.content.http_hook_allowed_env_vars for source in self.sources)

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where work may be done: where the session was started, and what the settings add."""
        added = [
            _absolute(each, self.root)
            for source in self._sources_of_rules()
            for each in source.permissions.additional_directories or []
        ]
        return tuple(dict.fromkeys((self.root, *added)))

    @property
    def sandbox(self) -> Confinement:
        """How shell commands are run, by what the sources say together."""
        return confine(
            SandboxEntry(source.content.sandbox or Sandbox(), source.base, source.is_managed)
            for source in self.sources
        )

    @property
    def problems(self) -> list[str]:
        """Files that are not loaded, and rules that make no sense.

        Such rules are skipped, as the client does (2.1.325 observed).
        """
        senseless = [told for source in self._sources_of_rules() for told in _senseless(source)]
        return [*self.skipped, *senseless]

    @property
    def local_file(self) -> Path:
        """Where rules are saved: at the root of the repository, shared by its worktrees."""
        return local_folder(self.root) / LOCAL_SETTINGS

    @property
    def server_choices(self) -> list[ServerChoice]:
        """What each file says of the servers in `.mcp.json`, the lowest first."""
        return [
            ServerChoice(
                source.path,
                source.is_project,
                source.content.enable_all_project_mcp_servers,
                tuple(source.content.enabled_mcpjson_servers or ()),
                tuple(source.content.disabled_mcpjson_servers or ()),
            )
            for source in self.sources
        ]

    @property
    def ignored(self) -> list[str]:
        """What is left out because it is not trusted, each as `FILE (what)`."""
        return [
            f"{source.path} ({', '.join(source.ignored)})"
            for source in self.sources
            if source.ignored
        ]

    def mode(self, wanted: ApprovalMode | None = None) -> ApprovalMode:
        """The mode to start in: the one that is asked for, unless it is forbidden."""
        if wanted is ApprovalMode.BYPASS and self.is_bypass_disabled:
            raise UsageError(f"the settings forbid the mode {wanted.value}", "another mode")
        return wanted or self.default_mode

    def policy(
        self,
        mode: ApprovalMode,
        cwd: Path,
        directories: Iterable[Path] = (),
        extra_allow: Iterable[Rule] = (),
        extra_deny: Iterable[Rule] = (),
    ) -> Policy:
        """By what calls are decided; rules that no file has come on top."""
        sources = self._sources_of_rules()
        only_managed = len(sources) < len(self.sources)
        allowed = () if only_managed else extra_allow
        return Policy(
            deny=(*_rules(sources, lambda said: said.deny), *extra_deny),
            ask=tuple(_rules(sources, lambda said: said.ask)),
            allow=(*_rules(sources, lambda said: said.allow), *allowed),
            mode=mode,
            cwd=cwd,
            directories=tuple(dict.fromkeys((*self.directories, *directories))),
        )

    def _sources_of_rules(self) -> tuple[SettingsSource, ...]:
        managed = self._managed()
        only = any(source.content.allow_managed_permission_rules_only for source in managed)
        return managed if only else self.sources

    def _sources_of_hooks(self) -> tuple[SettingsSource, ...]:
        managed = self._managed()
        if any(source.content.disable_all_hooks for source in managed):
            return ()
        disabled = self._highest(source.content.disable_all_hooks for source in self.sources)
        only = any(source.content.allow_managed_hooks_only for source in managed)
        return managed if disabled or only else self.sources

    def _variables(self) -> Iterator[tuple[SettingsSource, str, str]]:
        for source in self.sources:
            for name, value in (source.content.env or {}).items():
                yield source, name, _shown(value)

    def _managed(self) -> tuple[SettingsSource, ...]:
        return tuple(source for source in self.sources if source.is_managed)

    @staticmethod
    def _joined(lists: Iterable[list[str] | None]) -> tuple[str, ...] | None:
        said = [each for each in lists if each is not None]
        return tuple(one for each in said for one in each) if said else None

    @staticmethod
    def _highest(values: Iterable[Any]) -> Any:
        said = [value for value in values if value is not None]
        return said[-1] if said else None


def load(
    store: Store,
    root: Path,
    managed: Path = MANAGED,
    given: str | None = None,
    sources: Iterable[SettingSource] = EVERY_SOURCE,
    is_trusted: Callable[[Path], bool] = lambda path: True,
) -> Settings:
    """Load the settings of a session started in a directory.

    `given` is a file or JSON that comes before all but what is managed, `sources` says whose files
    are read, and `is_trusted` which of the project's files may do more than restrict.
    """
    wanted = frozenset(sources)
    skipped: list[str] = []
    has_own = SettingSource.USER in wanted and _is_there(store.settings, skipped)
    own = [_read_own(store)] if has_own else []
    for path, _ in settings_files(root, wanted):
        # In the home directory, the project's `.claude` is the user's own.
        is_shared = path.parent != store.root
        if path != store.settings and _is_there(path, skipped):
            own.append(_project_source(path, root, is_shared, is_trusted(path) or not is_shared))
    own += [_given_source(given, root)] if given is not None else []
    dropped = sorted(managed.with_suffix(".d").glob("[!.]*.json"))
    theirs = [path for path in (managed, *dropped) if _is_there(path, skipped)]
    above = [SettingsSource(path, path.parent, read(path), is_managed=True) for path in theirs]
    return Settings(root, (*own, *above), tuple(skipped))


def _is_there(path: Path, skipped: list[str]) -> bool:
    """Return whether a settings file is to be read; note one that is no regular file.

    Opening a FIFO of that name would wait forever.
    """
    if path.is_file():
        return True
    if path.exists():
        skipped.append(f"{path} is not loaded: it is not a regular file")
    return False


def _read_own(store: Store) -> SettingsSource:
    return SettingsSource(store.settings, store.root, read(store.settings))


def _project_source(path: Path, root: Path, is_project: bool, is_trusted: bool) -> SettingsSource:
    content = read(path)
    if is_trusted:
        return SettingsSource(path, root, content, is_project=is_project)
    kept = _restricting(content)
    return SettingsSource(path, root, kept, is_project=True, ignored=tuple(_lost(content, kept)))


def _restricting(content: SettingsContent) -> SettingsContent:
    """The part of a file that can only forbid: what an untrusted project may still say."""
    permissions = content.permissions or Permissions()
    return SettingsContent(
        permissions=Permissions(
            ask=permissions.ask,
            deny=permissions.deny,
            disable_bypass_permissions_mode=permissions.disable_bypass_permissions_mode,
        ),
        disabled_mcpjson_servers=content.disabled_mcpjson_servers,
        sandbox=restricting(content.sandbox or Sandbox()),
    )


def _lost(content: SettingsContent, kept: SettingsContent) -> Iterator[str]:
    """The settings of a file that are left out, by their names."""
    said, rest = msgspec.to_builtins(content), msgspec.to_builtins(kept)
    for name, value in said.items():
        if name in ("permissions", "sandbox") and value:
            inner = rest[name]
            yield from (f"{name}.{each}" for each in value if _is_lost(value[each], inner[each]))
        elif _is_lost(value, rest[name]):
            yield name


def _is_lost(said: Any, kept: Any) -> bool:
    return said not in (None, {}, []) and said != kept


def _given_source(text: str, root: Path) -> SettingsSource:
    """What the command line says, or a file that it names."""
    if text.lstrip().startswith("{"):
        content = _decode(text, GIVEN, "a file, or JSON")
        return SettingsSource(Path(GIVEN), root, content, is_given=True)
    path = root / expand_user(text)
    return SettingsSource(path, root, read(path, Path.read_bytes), is_given=True)


def files_of(store: Store, root: Path, managed: Path = MANAGED) -> dict[Path, str]:
    """The files that settings of a directory are read from, by what hooks are told they are."""
    return {
        store.settings: "user_settings",
        root / SETTINGS: "project_settings",
        local_folder(root) / LOCAL_SETTINGS: "local_settings",
        managed: "policy_settings",
    }


def _read_bytes(path: Path) -> bytes:
    return read_regular(path, LARGEST)


def read(path: Path, read_bytes: Callable[[Path], bytes] = _read_bytes) -> SettingsContent:
    """Return what a settings file says; raise `UsageError` for one that is not valid.

    `Path.read_bytes` also reads pipes, which the user may name: `--settings <(make-settings)`.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid: {error}", BY_HAND) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return _decode(text, str(path), BY_HAND) if text.strip() else SettingsContent()


def _decode(text: str, name: str, hint: str) -> SettingsContent:
    try:
        return msgspec.json.decode(text, type=SettingsContent)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{name} is not valid: {error}", hint) from error


def _rules(
    sources: Iterable[SettingsSource], said: Callable[[Permissions], list[str] | None]
) -> Iterator[Rule]:
    for source in sources:
        yield from sound_rules(said(source.permissions) or [], source.base, str(source.path))


def _senseless(source: SettingsSource) -> Iterator[str]:
    """Of each rule of a file that makes no sense: what is wrong, and what comes of it."""
    said = source.permissions
    for rules, effect in ((said.allow, ""), (said.ask, NOT_ASKED), (said.deny, NOT_DENIED)):
        for rule in rules or []:
            try:
                parse_rule(rule, source.base, str(source.path))
            except UsageError as error:
                yield f"{error.message}; it is skipped{effect}"


def _absolute(written: str, root: Path) -> Path:
    return root / expand_user(written)


def _shown(value: Any) -> str:
    """A value as a variable has it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
