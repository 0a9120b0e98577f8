"""Find the plugins that the client has installed and that settings enable.

The client's files list what is installed (2.1.325, observed): `plugins/installed_plugins.json` has
the directory of each plugin, `plugins/known_marketplaces.json` that of each marketplace. Settings
can only choose among them, except that a trusted project may contain a marketplace of its own.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from turnlog.agent.config.plugins import NAME, Plugin, PluginSource, read_plugin
from turnlog.agent.workspace.project_directories import LARGEST, is_within, project_root
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_object, objects_in, parse_json
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import Store

FOLDER = "plugins"
INSTALLED, MARKETPLACES = "installed_plugins.json", "known_marketplaces.json"
MARKETPLACE = Path(".claude-plugin", "marketplace.json")
USER_SCOPES = ("user", "managed")
DIRECTORY = "directory"
LOCAL_SOURCES = (DIRECTORY, "file")
"""Marketplaces that lie on this machine."""
NOT_TRUSTED = (
    "plugin {id} is not loaded: it lies in the project, which is not trusted (try: --trust)"
)
NOT_ALLOWED = "plugin {id} is not loaded: the organisation's settings do not allow its marketplace"
TAKEN = "plugin {id} is not loaded: another plugin has the name {name}"


class PluginChoice(Struct, frozen=True):
    """The plugins that a settings file enables and disables."""

    path: Path
    enabled: Fields
    """True or false for each `NAME@MARKETPLACE`."""
    marketplaces: Fields
    """Marketplaces that it declares, by name."""
    is_project: bool = False
    is_managed: bool = False
    allowed: list[Fields] | None = None
    """Allowlist of marketplace sources, in the organisation's settings."""
    blocked: list[Fields] | None = None


class PluginSettings(Protocol):
    """The part of the settings that plugins depend on."""

    @property
    def root(self) -> Path: ...
    @property
    def plugin_choices(self) -> list[PluginChoice]: ...


class FoundPlugins(Struct, frozen=True):
    """The plugins of a session."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()
    """Plugins that are not loaded, and why."""


class _Candidate(Struct, frozen=True):
    """A plugin that could be loaded."""

    id: str
    root: Path
    enabled_by: PluginChoice | None
    """None if it is enabled by default."""
    linked: Path | None = None
    entry: Fields = {}
    """The plugin's entry in its marketplace."""
    is_brought: bool = False
    """True if a project's settings declare its marketplace."""


class _Marketplace(Struct, frozen=True):
    """A marketplace on this machine, with its entry for one plugin."""

    folder: Path
    entry: Fields
    is_directory: bool = False

    def folder_of_plugin(self) -> Path | None:
        """Return the directory of the plugin, if it lies in the marketplace."""
        source = self.entry.get("source")
        if not isinstance(source, str) or not source.startswith("./") or "\0" in source:
            return None
        root = self.folder / source
        return root if root.is_dir() and is_within(root, [self.folder]) else None


def find_plugins(
    store: Store,
    settings: PluginSettings,
    given: Iterable[Plugin] = (),
    uses_user: bool = True,
    is_trusted: Callable[[], bool] = lambda: False,
) -> FoundPlugins:
    """Return the plugins named on the command line, then the enabled ones of other names.

    `uses_user` is false if the user's own settings are left out. A plugin inside the project is
    loaded only if the project is trusted, and never replaces a plugin of the user.
    """
    known = {plugin.name: plugin for plugin in given}
    problems: list[str] = []
    found = list(_candidates(store, settings, uses_user, problems))
    # The user's plugins first: a project must not displace one whose hooks deny calls.
    for each in sorted(found, key=lambda one: one.is_brought or _is_inside(store, settings, one)):
        try:
            plugin = _load(store, settings, each, is_trusted)
        except UsageError as error:
            problems.append(f"plugin {each.id} is not loaded: {error.message}")
            continue
        if isinstance(plugin, str):
            problems.append(plugin)
        elif plugin.name not in known:
            known[plugin.name] = plugin
        elif known[plugin.name].source.id:  # a plugin named on the command line wins silently
            problems.append(TAKEN.format(id=each.id, name=plugin.name))
    return FoundPlugins(tuple(known.values()), tuple(problems))


def _load(
    store: Store, settings: PluginSettings, each: _Candidate, is_trusted: Callable[[], bool]
) -> Plugin | str:
    """Return a plugin, or why it is not loaded."""
    is_inside = _is_inside(store, settings, each)
    if (is_inside or each.is_brought) and not is_trusted():
        return NOT_TRUSTED.format(id=each.id)
    if each.is_brought and not is_inside:
        return f"plugin {each.id} is not loaded: {each.root} is outside of the project"
    by = each.enabled_by
    data = store.root / FOLDER / "data" / re.sub(r"[^A-Za-z0-9_-]", "-", each.id)
    source = PluginSource(
        each.id,
        str(by.path) if by else "its own default",
        data,
        each.linked,
        is_project=is_inside,
        is_managed=bool(by and by.is_managed),
    )
    return read_plugin(each.root, source, each.entry)


def _is_inside(store: Store, settings: PluginSettings, each: _Candidate) -> bool:
    """Return whether a plugin lies in the project."""
    # The store may lie in the project, as with `~/.git`; its plugins are still the user's.
    place = project_root(settings.root)
    return is_within(each.root, [place]) and not is_within(each.root, [store.root])


def _candidates(
    store: Store, settings: PluginSettings, uses_user: bool, problems: list[str]
) -> Iterator[_Candidate]:
    folder = store.root / FOLDER
    installed = _read(folder / INSTALLED, problems).get("plugins")
    markets = _read(folder / MARKETPLACES, problems)
    records = installed if is_object(installed) else {}
    choices = settings.plugin_choices
    chosen = _chosen(choices)
    # An installed plugin is enabled by default. A plugin that settings enable without an
    # installation must come from a declared marketplace.
    for name in sorted({*records, *chosen}):
        by = chosen.get(name)
        # Only `true` enables: a string such as "false" does not.
        if (by and by.enabled[name] is not True) or not _is_id(name):
            continue
        record = _record(records.get(name), settings.root, uses_user or by is not None)
        found = (
            _installed(name, record, by, _market(store, settings, markets, name))
            if record
            else _brought(name, by, choices)
            if by and name not in records
            else None
        )
        if found is None or (by is None and not _is_on_by_default(found, problems)):
            continue
        if not _is_allowed(name, markets, choices):
            problems.append(NOT_ALLOWED.format(id=name))
            continue
        yield found


def _chosen(choices: Iterable[PluginChoice]) -> dict[str, PluginChoice]:
    """Map each plugin to the settings file that decides about it: the last one that names it."""
    return {name: choice for choice in choices for name in choice.enabled}


def _record(records: Any, root: Path, uses_user: bool) -> Fields | None:
    """Return the installation of a plugin that applies in a directory.

    An installation for a project applies only there: the user has not agreed to it elsewhere.
    """
    listed = objects_in(records)
    here = {str(root), str(project_root(root))}
    own = [each for each in listed if each.get("projectPath") in here]
    everywhere = [each for each in listed if each.get("scope") in USER_SCOPES and uses_user]
    return next(iter([*own, *everywhere]), None)


def _market(
    store: Store, settings: PluginSettings, markets: Fields, name: str
) -> _Marketplace | None:
    """Return a plugin's marketplace; None if it lies in the project.

    The user agreed to the plugin as it was when installed, not to later changes of a marketplace in
    the project, for example by `git pull`.
    """
    known = markets.get(_market_of(name))
    market: Fields = known if is_object(known) else {}
    place = market.get("installLocation")
    if not isinstance(place, str) or not Path(place).is_absolute():
        return None
    folder = Path(place)
    is_inside = is_within(folder, [project_root(settings.root)])
    if is_inside and not is_within(folder, [store.root]):
        return None
    return _Marketplace(folder, _entry(folder, name), _kind_of(market) == DIRECTORY)


def _installed(
    name: str, record: Fields, by: PluginChoice | None, market: _Marketplace | None
) -> _Candidate | None:
    path, linked = record.get("installPath"), record.get("sourceProducerPath")
    if not isinstance(path, str) or not Path(path).is_absolute():
        return None
    producer = Path(linked) if isinstance(linked, str) and Path(linked).is_absolute() else None
    # A plugin of a marketplace in a directory is read there, not in the cache (2.1.325, observed).
    inner = market.folder_of_plugin() if market and market.is_directory else None
    return _Candidate(name, inner or Path(path), by, producer, market.entry if market else {})


def _brought(name: str, by: PluginChoice, choices: list[PluginChoice]) -> _Candidate | None:
    """Return a plugin of a marketplace on this machine that settings declare."""
    market = _market_of(name)
    declared = [each for each in choices if market in each.marketplaces]
    # A project may enable plugins of its own marketplaces, but not of the user's.
    if not declared or (by.is_project and not declared[-1].is_project):
        return None
    owner = declared[-1]
    value = owner.marketplaces[market]
    source = value.get("source") if is_object(value) else None
    if not is_object(source) or source.get("source") not in LOCAL_SOURCES:
        return None
    place = _base(owner) / str(source.get("path", ""))
    # A source of type "file" names `.claude-plugin/marketplace.json` itself.
    folder = place if source["source"] == DIRECTORY else place.parent.parent
    if not folder.is_absolute():
        return None
    found = _Marketplace(folder, _entry(folder, name))
    root = found.folder_of_plugin()
    brought = owner.is_project or by.is_project
    return _Candidate(name, root, by, None, found.entry, brought) if root else None


def _kind_of(market: Fields) -> Any:
    source = market.get("source")
    return source.get("source") if is_object(source) else None


def _base(owner: PluginChoice) -> Path:
    """Return the base of relative paths in a settings file: the project's directory, if any."""
    return owner.path.parent.parent if owner.is_project else Path()


def _market_of(name: str) -> str:
    return name.partition("@")[2]


def _entry(folder: Path, name: str) -> Fields:
    """Return a marketplace's entry for a plugin; empty if there is none or it is unreadable."""
    listed = _read(folder / MARKETPLACE, []).get("plugins")
    title = name.partition("@")[0]
    named = [each for each in objects_in(listed) if each.get("name") == title]
    return named[0] if named else {}


def _is_on_by_default(found: _Candidate, problems: list[str]) -> bool:
    manifest = _read(found.root / ".claude-plugin" / "plugin.json", problems)
    return (manifest | found.entry).get("defaultEnabled") is not False


def _is_allowed(name: str, markets: Fields, choices: list[PluginChoice]) -> bool:
    """Return whether the organisation allows a plugin's marketplace.

    Entries that turnlog cannot evaluate, such as patterns, count as a refusal.
    """
    market = markets.get(_market_of(name))
    source = market.get("source") if is_object(market) else None
    given: Fields = source if is_object(source) else {}
    for choice in choices:
        if choice.allowed is not None and not any(_is_same(each, given) for each in choice.allowed):
            return False
        if any(_is_same(each, given) or _is_pattern(each) for each in choice.blocked or ()):
            return False
    return True


def _is_same(entry: Fields, source: Fields) -> bool:
    return bool(entry) and all(source.get(name) == value for name, value in entry.items())


def _is_pattern(entry: Fields) -> bool:
    return any("attern" in name or "*" in str(value) for name, value in entry.items())


def _is_id(name: str) -> bool:
    plugin, mark, market = name.partition("@")
    return bool(mark and NAME.fullmatch(plugin) and NAME.fullmatch(market))


def _read(path: Path, problems: list[str]) -> Fields:
    """Return the JSON object in a file, or an empty one; add a problem if it is unreadable."""
    try:
        value = parse_json(read_regular(path, LARGEST))
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(f"{path} is not loaded: {error.strerror}")
        return {}
    except ValueError as error:
        problems.append(f"{path} cannot be read: {error}")
        return {}
    return value if is_object(value) else {}
