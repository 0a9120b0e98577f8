"""Report the state of the plugin: client, versions, program, hooks and problems."""

from contextlib import suppress
from typing import Any

from turnlog import __version__
from turnlog.errors import Unavailable
from turnlog.format.json_values import is_object
from turnlog.format.regular_files import read_object
from turnlog.plugin.client_hooks import (
    ARCHIVE_HOOK,
    STATUS_LINE,
    TRACE_HOOK,
    not_valid,
    program,
)
from turnlog.plugin.plugin_client import (
    LAUNCHER,
    PluginClient,
    data_folder,
    marketplace_folder,
    path_command,
    plugin_folder,
)
from turnlog.plugin.plugin_events import wants_traces
from turnlog.store.paths import Store
from turnlog.store.plugin_settings import is_enabled, is_status_line_free, parse_settings


def plugin_status(store: Store) -> dict[str, Any]:
    """Return the state of the plugin as JSON values."""
    client = None
    with suppress(Unavailable):
        client = PluginClient(store)
    entry = client.plugin() if client else None
    settings = _settings(store)
    return {
        "settings": store.settings,
        "client": {"path": client.path, "version": client.version} if client else None,
        "is_installed": entry is not None,
        "is_enabled": bool(entry and is_enabled(settings)),
        "version": entry.get("version") if entry else None,
        "turnlog": __version__,
        "path": plugin_folder(),
        "source": _source(store),
        "program": " ".join(program()),
        "is_program_known": (data_folder(store) / LAUNCHER).is_file(),
        "archive": "settings" if "SessionEnd" in ARCHIVE_HOOK.installed(store) else "plugin",
        "trace": _tracer(store),
        "status_line": _status_line(settings),
        "problems": _problems(store, client, entry, settings),
    }


def _settings(store: Store) -> dict[str, Any]:
    try:
        return parse_settings(store.settings.read_bytes().decode())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise not_valid(store.settings, error) from error


def _source(store: Store) -> str | None:
    """Return the command or the path that the marketplace names."""
    catalog = read_object(marketplace_folder(store) / ".claude-plugin" / "marketplace.json")
    with suppress(KeyError, IndexError, TypeError):
        source = catalog["plugins"][0]["source"]
        return source["command"] if is_object(source) else source
    return None


def _tracer(store: Store) -> str:
    if "Stop" in TRACE_HOOK.installed(store):
        return "settings"
    return "plugin" if wants_traces() else "off"


def _status_line(settings: dict[str, Any]) -> str:
    if "statusLine" not in settings:
        return "none"
    return "turnlog" if is_status_line_free(settings, STATUS_LINE.is_ours) else "another program"


def _problems(
    store: Store,
    client: PluginClient | None,
    entry: dict[str, Any] | None,
    settings: dict[str, Any],
) -> list[str]:
    """Return problems that keep the plugin from working, most with a command that fixes them."""
    found: list[str] = []
    if entry is None:
        return found
    source = _source(store)
    if source is None:
        found.append("the marketplace is missing (turnlog plugin install)")
    elif not source.startswith("./") and source != path_command():
        found.append(f"the client takes the plugin from another program: {source}")
    if not str(entry.get("version", "")).startswith(__version__):
        found.append("the client has another version of the plugin (turnlog plugin install)")
    if not (data_folder(store) / LAUNCHER).is_file():
        found.append("the hooks look for turnlog in PATH only (turnlog plugin install)")
    if is_enabled(settings) is False:
        found.append("the plugin is disabled (claude plugin enable turnlog@turnlog)")
    if settings.get("disableAllHooks") is True:
        found.append(f"hooks are disabled in {store.settings}")
    return found
