"""The client's settings: what the user, the project and the system say, taken together.

Lists are joined; of single values, the one of the highest source counts.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.permissions import Mode, Policy, Rule, parse_rule, sound_rules
from turnlog.agent.repository import repository_of
from turnlog.agent.sandbox.confinement import Confinement, Said, Sandbox, confine
from turnlog.errors import UsageError
from turnlog.format.values import Fields
from turnlog.store.paths import Store

MANAGED = Path("/etc/claude-code/managed-settings.json")
LOCAL = Path(".claude", "settings.local.json")
PROJECT = Path(".claude", "settings.json")
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


class Content(Struct, rename="camel"):
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


class Source(Struct, frozen=True):
    """A settings file."""

    path: Path
    base: Path
    """What a leading slash stands for in its rules about files."""
    content: Content
    is_managed: bool = False
    is_given: bool = False
    """Whether the user named it for this session."""

    @property
    def permissions(self) -> Permissions:
        return self.content.permissions or Permissions()


class Settings(Struct, frozen=True):
    """The settings of all sources, the lowest first."""

    root: Path
    """The directory that the session was started in."""
    sources: tuple[Source, ...]

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
        """Variables for the session and for all that it runs."""
        found = [(source.content.env or {}).items() for source in self.sources]
        return {name: _shown(value) for items in found for name, value in items}

    @property
    def default_mode(self) -> Mode:
        """The mode that a session starts in; one that turnlog does not have is the default."""
        named = self._highest(source.permissions.default_mode for source in self.sources)
        known = named in list(Mode) and not (named == Mode.BYPASS and self.is_bypass_disabled)
        return Mode(named) if known else Mode.DEFAULT

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
                found.setdefault(event, []).extend(
                    {**group, "source": str(source.path)} for group in groups
                )
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
            Said(source.content.sandbox or Sandbox(), source.base, source.is_managed)
            for source in self.sources
        )

    @property
    def problems(self) -> list[str]:
        """Rules that make no sense; they are skipped, as the client does (2.1.325 observed)."""
        return [told for source in self._sources_of_rules() for told in _senseless(source)]

    @property
    def local_file(self) -> Path:
        """Where rules are saved: at the root of the repository, shared by its worktrees."""
        return local_folder(self.root) / LOCAL

    def mode(self, wanted: Mode | None = None) -> Mode:
        """The mode to start in: the one that is asked for, unless it is forbidden."""
        if wanted is Mode.BYPASS and self.is_bypass_disabled:
            raise UsageError(f"the settings forbid the mode {wanted.value}", "another mode")
        return wanted or self.default_mode

    def policy(
        self,
        mode: Mode,
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

    def _sources_of_rules(self) -> tuple[Source, ...]:
        managed = self._managed()
        only = any(source.content.allow_managed_permission_rules_only for source in managed)
        return managed if only else self.sources

    def _sources_of_hooks(self) -> tuple[Source, ...]:
        managed = self._managed()
        if any(source.content.disable_all_hooks for source in managed):
            return ()
        disabled = self._highest(source.content.disable_all_hooks for source in self.sources)
        only = any(source.content.allow_managed_hooks_only for source in managed)
        return managed if disabled or only else self.sources

    def _managed(self) -> tuple[Source, ...]:
        return tuple(source for source in self.sources if source.is_managed)

    @staticmethod
    def _joined(lists: Iterable[list[str] | None]) -> tuple[str, ...] | None:
        said = [each for each in lists if each is not None]
        return tuple(one for each in said for one in each) if said else None

    @staticmethod
    def _highest(values: Iterable[Any]) -> Any:
        said = [value for value in values if value is not None]
        return said[-1] if said else None


def load(store: Store, root: Path, managed: Path = MANAGED, given: str | None = None) -> Settings:
    """The settings that count for a session started in a directory; `given` is a file or JSON that
    comes before all but what is managed."""
    local = [local_folder(root) / LOCAL, root / LOCAL]
    dropped = sorted(managed.with_suffix(".d").glob("[!.]*.json"))
    places = [(store.settings, store.root), (root / PROJECT, root)]
    places += [(path, root) for path in dict.fromkeys(local)]
    files = [(path, base) for path, base in dict.fromkeys(places) if path.is_file()]
    own = [Source(path, base, read(path)) for path, base in files]
    own += [_given_source(given, root)] if given is not None else []
    theirs = [path for path in (managed, *dropped) if path.is_file()]
    above = [Source(path, path.parent, read(path), is_managed=True) for path in theirs]
    return Settings(root, (*own, *above))


def _given_source(text: str, root: Path) -> Source:
    """What the command line says, or a file that it names."""
    if text.lstrip().startswith("{"):
        content = _decode(text, GIVEN, "a file, or JSON")
        return Source(Path(GIVEN), root, content, is_given=True)
    path = root / Path(text).expanduser()
    return Source(path, root, read(path), is_given=True)


def files_of(store: Store, root: Path, managed: Path = MANAGED) -> dict[Path, str]:
    """The files that settings of a directory are read from, by what hooks are told they are."""
    return {
        store.settings: "user_settings",
        root / PROJECT: "project_settings",
        local_folder(root) / LOCAL: "local_settings",
        managed: "policy_settings",
    }


def read(path: Path) -> Content:
    """What a settings file says; one that is not valid is a `UsageError`."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid: {error}", BY_HAND) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    return _decode(text, str(path), BY_HAND) if text.strip() else Content()


def _decode(text: str, name: str, hint: str) -> Content:
    try:
        return msgspec.json.decode(text, type=Content)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{name} is not valid: {error}", hint) from error


def local_folder(root: Path) -> Path:
    """Where the local settings of a directory lie: in its repository's main checkout, if any."""
    repository = repository_of(root)
    found = _main_checkout(repository) if repository else root
    return root if found == Path.home() else found


def _main_checkout(folder: Path) -> Path:
    """The checkout that a worktree belongs to; any other is its own."""
    link = folder / ".git"
    if not link.is_file():
        return folder
    _, _, named = link.read_text("utf-8", "replace").partition("gitdir:")
    common = folder / named.strip() / "commondir"
    if not named.strip() or not common.is_file():
        return folder
    shared = (common.parent / common.read_text("utf-8", "replace").strip()).resolve()
    return shared.parent if shared.name == ".git" else folder


def _rules(
    sources: Iterable[Source], said: Callable[[Permissions], list[str] | None]
) -> Iterator[Rule]:
    for source in sources:
        yield from sound_rules(said(source.permissions) or [], source.base, str(source.path))


def _senseless(source: Source) -> Iterator[str]:
    """Of each rule of a file that makes no sense: what is wrong, and what comes of it."""
    said = source.permissions
    for rules, effect in ((said.allow, ""), (said.ask, NOT_ASKED), (said.deny, NOT_DENIED)):
        for rule in rules or []:
            try:
                parse_rule(rule, source.base, str(source.path))
            except UsageError as error:
                yield f"{error.message}; it is skipped{effect}"


def _absolute(written: str, root: Path) -> Path:
    return root / Path(written).expanduser()


def _shown(value: Any) -> str:
    """A value as a variable has it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
