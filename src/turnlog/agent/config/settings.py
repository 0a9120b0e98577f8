"""Load and merge the client's settings of user, project and system.

Lists are concatenated; a single value comes from the source with the highest precedence. An
untrusted project's file can only restrict.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.config.installed_plugins import PluginChoice
from turnlog.agent.config.preferences import OwnedContent, Preferences, preferences_of
from turnlog.agent.config.settings_content import (
    Permissions,
    SettingsContent,
    decode_settings,
    lost_settings,
    read_settings,
    restrict,
)
from turnlog.agent.mcp.server_approval import ServerChoice
from turnlog.agent.permissions import ApprovalMode, Policy, Rule, sound_rules
from turnlog.agent.permissions.rules import NOT_DENIED, skipped_rules
from turnlog.agent.workspace.project_directories import (
    EVERY_SOURCE,
    LOCAL_SETTINGS,
    SETTINGS,
    SettingSource,
    local_folder,
    settings_files,
)
from turnlog.agent.workspace.project_environment import is_own, is_routing
from turnlog.agent.workspace.repository import repository_of
from turnlog.agent.workspace.sandbox.settings import (
    Confinement,
    Sandbox,
    SandboxEntry,
    confine,
)
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store, expand_user

MANAGED = Path("/etc/claude-code/managed-settings.json")
DISABLED = "disable"
GIVEN = "--settings"
"""Pseudo file of settings given on the command line."""
NOT_ASKED = ", so it does NOT ask about any call"


class SettingsSource(Struct, frozen=True):
    """A settings file."""

    path: Path
    base: Path
    """The directory that a leading slash in its file rules refers to."""
    content: SettingsContent
    is_managed: bool = False
    is_given: bool = False
    """True if it was given on the command line."""
    is_project: bool = False
    """True if it is part of a project, so that others may have written it."""
    ignored: tuple[str, ...] = ()
    """Settings ignored because its directory is not trusted."""

    @property
    def permissions(self) -> Permissions:
        return self.content.permissions or Permissions()


class Settings(Struct, frozen=True):
    """The settings of all sources, the lowest precedence first."""

    root: Path
    """The directory in which the session was started."""
    sources: tuple[SettingsSource, ...]
    skipped: tuple[str, ...] = ()
    """Files that are not loaded, and why."""
    user_file: Path | None = None
    """The user's own settings."""

    @property
    def model(self) -> str | None:
        """The default model."""
        return self._highest(source.content.model for source in self.sources)

    @property
    def preferences(self) -> Preferences:
        """Settings about answers and the screen."""
        running = self._sources_of_hooks()
        return preferences_of(
            [OwnedContent(each.content, each.is_project, each in running) for each in self.sources]
        )

    @property
    def compacts_itself(self) -> bool | None:
        """True if a conversation is compacted automatically."""
        return self._highest(source.content.auto_compact_enabled for source in self.sources)

    @property
    def compact_window(self) -> int | str | None:
        """The token count that triggers automatic compaction, or "auto"."""
        return self._highest(source.content.auto_compact_window for source in self.sources)

    @property
    def keeps_memory(self) -> bool:
        """True if sub-agents may have persistent memory."""
        setting = self._highest(source.content.auto_memory_enabled for source in self.sources)
        return setting is not False

    @property
    def env(self) -> dict[str, str]:
        """Variables for turnlog and everything it runs."""
        return {
            name: value
            for source, name, value in self._variables()
            if not source.is_project or is_own(name)
        }

    @property
    def command_env(self) -> dict[str, str]:
        """Variables of the project, for commands run by the session only."""
        found: dict[str, str] = {}
        for source, name, value in self._variables():
            if not source.is_project:
                # This source overrides the project's value, and its own value is already in `env`.
                found.pop(name, None)
            elif not is_own(name) and not is_routing(name):
                found[name] = value
        return found

    def refused_variables(self, environment: Mapping[str, str] = os.environ) -> list[str]:
        """Return the variables that a project may not set, each as `NAME in FILE`.

        They decide where an API key is sent. A value that the user has set as well is not listed.
        """
        own = {**environment, **self.env}
        return [
            f"{name} in {source.path}"
            for source, name, value in self._variables()
            if source.is_project and is_routing(name) and own.get(name) != value
        ]

    @property
    def default_mode(self) -> ApprovalMode:
        """The initial permission mode; an unknown one counts as the default."""
        named = self._highest(source.permissions.default_mode for source in self.sources)
        known = named in list(ApprovalMode) and not (
            named == ApprovalMode.BYPASS and self.is_bypass_disabled
        )
        return ApprovalMode(named) if known else ApprovalMode.DEFAULT

    @property
    def is_bypass_disabled(self) -> bool:
        """True if a source disables bypassPermissions."""
        return any(
            source.permissions.disable_bypass_permissions_mode == DISABLED
            for source in self.sources
        )

    @property
    def hooks(self) -> dict[str, list[Fields]]:
        """Hook groups of each event, with their `source`."""
        found: dict[str, list[Fields]] = {}
        for source in self._sources_of_hooks():
            for event, groups in (source.content.hooks or {}).items():
                marks = {"source": str(source.path), "is_project": source.is_project}
                found.setdefault(event, []).extend(group | marks for group in groups)
        return found

    @property
    def hook_urls(self) -> tuple[str, ...] | None:
        """URL patterns allowed for HTTP hooks; None for all."""
        return self._joined(source.content.allowed_http_hook_urls for source in self.sources)

    @property
    def hook_variables(self) -> tuple[str, ...] | None:
        """Variables allowed in HTTP hook headers; None for all that a hook names."""
        return self._joined(source.content.http_hook_allowed_env_vars for source in self.sources)

    @property
    def directories(self) -> tuple[Path, ...]:
        """The working directories: the session's, and additional ones."""
        added = [
            _absolute(each, self.root)
            for source in self._sources_of_rules()
            for each in source.permissions.additional_directories or []
        ]
        return tuple(dict.fromkeys((self.root, *added)))

    @property
    def sandbox(self) -> Confinement:
        """The merged sandbox settings."""
        return confine(
            SandboxEntry(source.content.sandbox or Sandbox(), source.base, source.is_managed)
            for source in self.sources
        )

    @property
    def problems(self) -> list[str]:
        """Files that are not loaded, and invalid rules.

        Invalid rules are skipped, as in the client (2.1.325, observed).
        """
        senseless = [
            problem for source in self._sources_of_rules() for problem in _senseless(source)
        ]
        return [*self.skipped, *senseless]

    @property
    def local_file(self) -> Path:
        """The file for saved rules, at the repository's root and shared by its worktrees."""
        return local_folder(self.root) / LOCAL_SETTINGS

    def file_of(self, destination: str) -> Path | None:
        """Return the file to save changed permissions in; None to change this session only."""
        files = {
            "localSettings": self.local_file,
            "projectSettings": self.root / SETTINGS,
            "userSettings": self.user_file,
        }
        return files.get(destination)

    @property
    def server_choices(self) -> list[ServerChoice]:
        """Approvals of `.mcp.json` servers per file, the lowest precedence first."""
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
    def plugin_choices(self) -> list[PluginChoice]:
        """Enabled plugins and declared marketplaces per file, the lowest precedence first."""
        return [
            PluginChoice(
                source.path,
                source.content.enabled_plugins or {},
                source.content.extra_known_marketplaces or {},
                source.is_project,
                source.is_managed,
                source.content.strict_known_marketplaces if source.is_managed else None,
                source.content.blocked_marketplaces if source.is_managed else None,
            )
            for source in self.sources
        ]

    def runs_hooks(self, is_managed: bool) -> bool:
        """Return whether hooks of a plugin run; `is_managed` if the organisation enables it."""
        sources = self._sources_of_hooks()
        return bool(sources or not self.sources) and (is_managed or sources == self.sources)

    @property
    def ignored(self) -> list[str]:
        """Settings ignored as untrusted, each as `FILE (what)`."""
        return [
            f"{source.path} ({', '.join(source.ignored)})"
            for source in self.sources
            if source.ignored
        ]

    def mode(self, wanted: ApprovalMode | None = None) -> ApprovalMode:
        """Return the mode to start in: the requested one unless it is disabled."""
        if wanted is ApprovalMode.BYPASS and self.is_bypass_disabled:
            raise UsageError(f"the settings disable the mode {wanted.value}", "turnlog chat")
        return wanted or self.default_mode

    def policy(
        self,
        mode: ApprovalMode,
        cwd: Path,
        directories: Iterable[Path] = (),
        extra_allow: Iterable[Rule] = (),
        extra_deny: Iterable[Rule] = (),
    ) -> Policy:
        """Return the permission policy, with additional rules on top."""
        sources = self._sources_of_rules()
        only_managed = len(sources) < len(self.sources)
        # `--allowedTools` must not widen what an organisation restricts; denials always count.
        allowed = () if only_managed else extra_allow
        return Policy(
            deny=(*_rules(sources, lambda permissions: permissions.deny), *extra_deny),
            ask=tuple(_rules(sources, lambda permissions: permissions.ask)),
            allow=(*_rules(sources, lambda permissions: permissions.allow), *allowed),
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
        # A user can turn off all hooks except those of the organisation.
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
        present = [each for each in lists if each is not None]
        return tuple(one for each in present for one in each) if present else None

    @staticmethod
    def _highest(values: Iterable[Any]) -> Any:
        present = [value for value in values if value is not None]
        return present[-1] if present else None


def load(
    store: Store,
    root: Path,
    managed: Path = MANAGED,
    given: str | None = None,
    sources: Iterable[SettingSource] = EVERY_SOURCE,
    is_trusted: Callable[[Path], bool] = lambda path: True,
) -> Settings:
    """Load the settings of a session started in a directory.

    `given` is a file or JSON that overrides everything but managed settings. `sources` selects
    whose files are read, and `is_trusted` which of the project's files may do more than restrict.
    """
    wanted = frozenset(sources)
    skipped: list[str] = []
    has_own = SettingSource.USER in wanted and _is_there(store.settings, skipped)
    own = [_read_own(store)] if has_own else []
    for path, _ in settings_files(root, wanted):
        # In the home directory, `.claude` belongs to the user, not a project, and needs no trust.
        is_shared = path.parent != store.root
        if path != store.settings and _is_there(path, skipped):
            base = _base_of(path, root)
            own.append(_project_source(path, base, is_shared, is_trusted(path) or not is_shared))
    own += [_given_source(given, root)] if given is not None else []
    dropped = sorted(managed.with_suffix(".d").glob("[!.]*.json"))
    theirs = [path for path in (managed, *dropped) if _is_there(path, skipped)]
    # Managed settings come last, as they take precedence over all others.
    above = [_managed_source(path) for path in theirs]
    return Settings(root, (*own, *above), tuple(skipped), store.settings)


def _is_there(path: Path, skipped: list[str]) -> bool:
    """Return whether a settings file can be read; record one that is not a regular file.

    Opening a FIFO of that name would wait forever.
    """
    if path.is_file():
        return True
    if path.exists():
        skipped.append(f"{path} is not loaded: it is not a regular file")
    return False


def _managed_source(path: Path) -> SettingsSource:
    return SettingsSource(path, path.parent, read_settings(path), is_managed=True)


def _read_own(store: Store) -> SettingsSource:
    return SettingsSource(store.settings, store.root, read_settings(store.settings))


def _base_of(path: Path, root: Path) -> Path:
    """Return the directory that a leading slash in a project's settings file refers to."""
    if path in (root / SETTINGS, root / LOCAL_SETTINGS):
        return root
    # The file at the repository's root serves sessions in all its directories and worktrees:
    # `Read(/app/.env)` in it means the same file for a session that was started in `app`.
    return repository_of(root) or root


def _project_source(path: Path, base: Path, is_project: bool, is_trusted: bool) -> SettingsSource:
    content = read_settings(path)
    if is_trusted:
        return SettingsSource(path, base, content, is_project=is_project)
    used = restrict(content)
    return SettingsSource(
        path, base, used, is_project=True, ignored=tuple(lost_settings(content, used))
    )


def _given_source(text: str, root: Path) -> SettingsSource:
    """Return the settings given on the command line, as JSON or a file."""
    if text.lstrip().startswith("{"):
        content = decode_settings(text, GIVEN, f"{GIVEN} FILE")
        return SettingsSource(Path(GIVEN), root, content, is_given=True)
    path = root / expand_user(text)
    return SettingsSource(path, root, read_settings(path, Path.read_bytes), is_given=True)


def files_of(store: Store, root: Path, managed: Path = MANAGED) -> dict[Path, str]:
    """Map the settings files of a directory to their names in the hook payload."""
    return {
        store.settings: "user_settings",
        root / SETTINGS: "project_settings",
        local_folder(root) / LOCAL_SETTINGS: "local_settings",
        managed: "policy_settings",
    }


def _rules(
    sources: Iterable[SettingsSource], select: Callable[[Permissions], list[str] | None]
) -> Iterator[Rule]:
    for source in sources:
        yield from sound_rules(select(source.permissions) or [], source.base, str(source.path))


def _senseless(source: SettingsSource) -> Iterator[str]:
    """Yield a message for each invalid rule."""
    permissions = source.permissions
    for rules, effect in (
        (permissions.allow, ""),
        (permissions.ask, NOT_ASKED),
        (permissions.deny, NOT_DENIED),
    ):
        yield from skipped_rules(rules or [], source.base, str(source.path), effect)


def _absolute(written: str, root: Path) -> Path:
    return root / expand_user(written)


def _shown(value: Any) -> str:
    """Format a value for an environment variable."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
