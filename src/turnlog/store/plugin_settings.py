"""The plugin's entries in the client's settings, preserving the rest of the text.

The client reformats its settings whenever it writes them, and drops entries it considers outdated.
Settings are therefore compared by value, ignoring the plugin's own entries.
"""

from pathlib import Path
from typing import Any, NamedTuple

from turnlog.format.json_values import Fields, is_object, parse_json
from turnlog.format.jsontext import put_last, take_out
from turnlog.store.client_settings import IsOurs

MARKETPLACE = "turnlog"
PLUGIN = f"turnlog@{MARKETPLACE}"
MARKETPLACES = "extraKnownMarketplaces"
ENABLED = "enabledPlugins"
STATUS_LINE = "statusLine"
OWN = ((MARKETPLACES, MARKETPLACE), (ENABLED, PLUGIN))
"""The entries that register and enable the plugin."""


class PluginEntries(NamedTuple):
    """The values to add to the settings."""

    marketplace: Path
    status_line: str
    """The command of the status line."""


def add_plugin(text: str, entries: PluginEntries, is_ours: IsOurs) -> str:
    """Return settings with the plugin; keep the status line of another program."""
    source = {"source": "directory", "path": str(entries.marketplace)}
    text = _put(text, MARKETPLACES, MARKETPLACE, value={"source": source})
    text = _put(text, ENABLED, PLUGIN, value=True)
    settings = parse_settings(text)
    status_line = {"type": "command", "command": entries.status_line}
    if status_line == settings.get(STATUS_LINE) or not is_status_line_free(settings, is_ours):
        return text
    if STATUS_LINE in settings:
        text = take_out(text, [STATUS_LINE])
    return put_last(text, [], STATUS_LINE, status_line)


def remove_plugin(text: str, is_ours: IsOurs) -> str:
    """Return settings without the plugin and its status line."""
    settings = parse_settings(text)
    for outer, inner in OWN:
        held = settings.get(outer)
        if is_object(held) and inner in held:
            # An object that held nothing else is removed as well, as it was most likely added with
            # the plugin.
            text = take_out(text, [outer, inner] if len(held) > 1 else [outer])
    if STATUS_LINE in settings and is_status_line_free(settings, is_ours):
        text = take_out(text, [STATUS_LINE])
    return text


def is_status_line_free(settings: Fields, is_ours: IsOurs) -> bool:
    """Return whether the status line is turnlog's, or there is none."""
    status_line = settings.get(STATUS_LINE)
    if not is_object(status_line):
        return STATUS_LINE not in settings
    command = status_line.get("command")
    return isinstance(command, str) and is_ours(command)


def is_enabled(settings: Fields) -> bool | None:
    """Return whether the plugin is enabled; None if the settings do not mention it."""
    plugins = settings.get(ENABLED)
    value = plugins.get(PLUGIN) if is_object(plugins) else None
    return None if value is None else bool(value)


def changed_keys(before: Fields, now: Fields) -> list[str]:
    """Return the settings that differ, apart from the plugin's own entries."""
    first, second = _without_own(before), _without_own(now)
    names = dict.fromkeys([*first, *second])
    # `...` stands for an absent name, because None is the value of a JSON null.
    return [name for name in names if first.get(name, ...) != second.get(name, ...)]


def adopt_changes(text: str, now: Fields, names: list[str]) -> str:
    """Return settings in which `names` have the values that another program set."""
    for name in names:
        if name in parse_settings(text):
            text = take_out(text, [name])
        if name in now:
            text = put_last(text, [], name, now[name])
    return text


def parse_settings(text: str) -> Fields:
    """Return settings as JSON values; raise `ValueError` if they are not one object."""
    settings = parse_json(text)
    if not is_object(settings):
        raise ValueError("it is not one JSON object")
    return settings


def _put(text: str, outer: str, inner: str, *, value: Any) -> str:
    held = parse_settings(text).get(outer, ...)
    if held is ...:
        return put_last(text, [], outer, {inner: value})
    if not is_object(held):
        raise ValueError(f"{outer} is not an object")
    if inner in held:
        if held[inner] == value:
            return text
        text = take_out(text, [outer, inner])
    return put_last(text, [outer], inner, value)


def _without_own(settings: Fields) -> Fields:
    """Return settings without the plugin; the client may leave an empty object behind."""
    found = dict(settings)
    for outer, inner in OWN:
        held = found.get(outer)
        if is_object(held):
            rest = {name: value for name, value in held.items() if name != inner}
            found[outer] = rest
            if not rest:
                del found[outer]
    return found
