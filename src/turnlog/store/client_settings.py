"""Add and remove hooks in the client's settings without changing the rest of the text.

Also read how long the client keeps sessions.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from turnlog.format.json_values import is_array, is_object, parse_json
from turnlog.format.jsontext import Keys, put_last, take_out
from turnlog.format.regular_files import read_object
from turnlog.store.paths import Store

KEPT_DAYS = 30
"""Default number of days after which the client deletes a session."""

IsOurs = Callable[[str], bool]
"""Returns whether a command was added by turnlog."""


class Hook(NamedTuple):
    """A hook command in the settings, and the JSON path to delete in order to remove it."""

    event: str
    command: str
    keys: Keys


def add_hooks(text: str, events: Iterable[str], command: str, is_ours: IsOurs) -> str:
    """Return settings in which `command` is turnlog's only hook for each event."""
    for event in events:
        ours = [hook.command for hook in hooks_in(text, is_ours) if hook.event == event]
        if ours != [command]:
            text = _with_hook(remove_hooks(text, is_ours, event), event, command)
    return text


def remove_hooks(text: str, is_ours: IsOurs, event: str | None = None) -> str:
    """Return settings without turnlog's hooks, for one event or for all."""
    while ours := [hook for hook in hooks_in(text, is_ours) if event in (None, hook.event)]:
        text = take_out(text, ours[0].keys)
    return text


def hooks_in(text: str, is_ours: IsOurs) -> Iterator[Hook]:
    """Yield turnlog's hooks in settings; raise `ValueError` if hooks have an unknown format."""
    settings = parse_json(text)
    events = settings.get("hooks", {}) if is_object(settings) else None
    if not is_object(events) or not all(map(is_array, events.values())):
        raise ValueError("its hooks are not in the client's format")
    for event, groups in events.items():
        for rank, group in enumerate(groups):
            hooks: list[Any] = group.get("hooks") or [] if is_object(group) else []
            for position, hook in enumerate(hooks):
                command = hook.get("command") if is_object(hook) else None
                if isinstance(command, str) and is_ours(command):
                    # Removing the only hook of a group would leave `{"hooks": []}` behind, so
                    # containers that become empty are removed as well.
                    counts = (len(events), len(groups), 1, len(hooks))
                    keys = _without_empty(["hooks", event, rank, "hooks", position], counts)
                    yield Hook(event, command, keys)


def _with_hook(text: str, event: str, command: str) -> str:
    groups = [{"hooks": [{"type": "command", "command": command}]}]
    settings = parse_json(text)
    if "hooks" not in settings:
        return put_last(text, [], "hooks", {event: groups})
    if event not in settings["hooks"]:
        return put_last(text, ["hooks"], event, groups)
    return put_last(text, ["hooks", event], None, groups[0])


def _without_empty(keys: Keys, counts: tuple[int, ...]) -> Keys:
    """Return the shortest path whose removal leaves no empty container behind."""
    while len(keys) > 1 and counts[len(keys) - 2] == 1:
        keys = keys[:-1]
    return keys


def kept_days(store: Store) -> int:
    """Return the number of days after which the client deletes a session."""
    days = read_object(store.settings).get("cleanupPeriodDays")
    return days if isinstance(days, int) else KEPT_DAYS
