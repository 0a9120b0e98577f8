"""The client's settings: what the user, the project and the system say, taken together.

Lists are joined; of single values, the one of the highest source counts.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.permissions import Mode, Policy, Rule, parse_rule
from turnlog.agent.repository import repository_of
from turnlog.agent.tool import Fields
from turnlog.errors import UsageError
from turnlog.store.paths import Store

MANAGED = Path("/etc/claude-code/managed-settings.json")
LOCAL = Path(".claude", "settings.local.json")
PROJECT = Path(".claude", "settings.json")
DISABLED = "disable"
COMMAND_LINE = "command line"


class Permissions(Struct, rename="camel"):
    """What may be done without asking, and what not at all."""

    allow: list[str] | None = None
    ask: list[str] | None = None
    deny: list[str] | None = None
    default_mode: str | None = None
    additional_directories: list[str] | None = None
    disable_bypass_permissions_mode: str | None = None


class SandboxFiles(Struct, rename="camel"):
    """Where commands in the sandbox may write besides the working directories."""

    allow_write: list[str] | None = None


class SandboxNetwork(Struct, rename="camel"):
    """Which hosts commands in the sandbox may reach."""

    allowed_domains: list[str] | None = None


class Sandbox(Struct, rename="camel"):
    """Whether shell commands run in a sandbox."""

    enabled: bool | None = None
    fail_if_unavailable: bool | None = None
    filesystem: SandboxFiles | None = None
    network: SandboxNetwork | None = None


class Content(Struct, rename="camel"):
    """What a settings file says; what turnlog does not use is left alone."""

    permissions: Permissions | None = None
    hooks: dict[str, list[Fields]] | None = None
    disable_all_hooks: bool | None = None
    allow_managed_hooks_only: bool | None = None
    allow_managed_permission_rules_only: bool | None = None
    env: dict[str, Any] | None = None
    model: str | None = None
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
    def directories(self) -> tuple[Path, ...]:
        """Where work may be done: where the session was started, and what the settings add."""
        added = [
            _absolute(each, self.root)
            for source in self._sources_of_rules()
            for each in source.permissions.additional_directories or []
        ]
        return tuple(dict.fromkeys((self.root, *added)))

    @property
    def sandbox(self) -> Sandbox:
        """What the sources say of the sandbox, taken together."""
        said = [source.content.sandbox or Sandbox() for source in self.sources]
        writable = [each.filesystem.allow_write or [] for each in said if each.filesystem]
        domains = [each.network.allowed_domains or [] for each in said if each.network]
        return Sandbox(
            self._highest(each.enabled for each in said),
            self._highest(each.fail_if_unavailable for each in said),
            SandboxFiles([str(_absolute(path, self.root)) for paths in writable for path in paths]),
            SandboxNetwork([domain for each in domains for domain in each]),
        )

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
        extra_allow: Iterable[str] = (),
        extra_deny: Iterable[str] = (),
    ) -> Policy:
        """By what calls are decided; rules of the command line come on top."""
        sources = self._sources_of_rules()
        only_managed = len(sources) < len(self.sources)
        allowed = () if only_managed else extra_allow
        return Policy(
            deny=(*_rules(sources, lambda said: said.deny), *self._given(extra_deny)),
            ask=tuple(_rules(sources, lambda said: said.ask)),
            allow=(*_rules(sources, lambda said: said.allow), *self._given(allowed)),
            mode=mode,
            cwd=cwd,
            directories=tuple(dict.fromkeys((*self.directories, *directories))),
        )

    def _given(self, rules: Iterable[str]) -> Iterator[Rule]:
        return (parse_rule(rule, self.root, COMMAND_LINE) for rule in rules)

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
    def _highest(values: Iterable[Any]) -> Any:
        said = [value for value in values if value is not None]
        return said[-1] if said else None


def load(store: Store, root: Path, managed: Path = MANAGED) -> Settings:
    """The settings that count for a session started in a directory."""
    local = [local_folder(root) / LOCAL, root / LOCAL]
    dropped = sorted(managed.with_suffix(".d").glob("[!.]*.json"))
    places = [
        (store.settings, store.root, False),
        (root / PROJECT, root, False),
        *((path, root, False) for path in dict.fromkeys(local)),
        *((path, path.parent, True) for path in (managed, *dropped)),
    ]
    files = dict.fromkeys(place for place in places if place[0].is_file())
    return Settings(
        root, tuple(Source(path, base, read(path), is_managed) for path, base, is_managed in files)
    )


def read(path: Path) -> Content:
    """What a settings file says; one that is not valid is a `UsageError`."""
    try:
        text = path.read_text("utf-8-sig")
        return msgspec.json.decode(text, type=Content) if text.strip() else Content()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid: {error}", "correct it by hand") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


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
        for rule in said(source.permissions) or []:
            yield parse_rule(rule, source.base, str(source.path))


def _absolute(written: str, root: Path) -> Path:
    return root / Path(written).expanduser()


def _shown(value: Any) -> str:
    """A value as a variable has it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
