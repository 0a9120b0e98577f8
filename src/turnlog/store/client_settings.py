"""Hooks in the client's settings, put in and taken out."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from turnlog.format.json_values import is_array, is_object
from turnlog.format.jsontext import Keys, put_last, take_out

IsOurs = Callable[[str], bool]
"""Tells whether a command is one that turnlog put there."""


class Hook(NamedTuple):
    """A command in the settings, and what to take out to be rid of it."""

    event: str
    command: str
    keys: Keys


def add_hooks(text: str, events: Iterable[str], command: str, is_ours: IsOurs) -> str:
    """Settings in which a command runs at each event, and no other of ours."""
    for event in events:
        ours = [hook.command for hook in hooks_in(text, is_ours) if hook.event == event]
        if ours != [command]:
            text = _with_hook(remove_hooks(text, is_ours, event), event, command)
    return text


def remove_hooks(text: str, is_ours: IsOurs, event: str | None = None) -> str:
    """Settings without our commands, at one event or at all."""
    while ours := [hook for hook in hooks_in(text, is_ours) if event in (None, hook.event)]:
        text = take_out(text, ours[0].keys)
    return text


def hooks_in(text: str, is_ours: IsOurs) -> Iterator[Hook]:
    """Our commands in settings; those that are not as the client has them are a `ValueError`."""
    settings = json.loads(text)
    events = settings.get("hooks", {}) if is_object(settings) else None
    if not is_object(events) or not all(map(is_array, events.values())):
        raise ValueError("its hooks are not as the client has them")
    for event, groups in events.items():
        for rank, group in enumerate(groups):
            hooks: list[Any] = group.get("hooks") or [] if is_object(group) else []
            for place, hook in enumerate(hooks):
                command = hook.get("command") if is_object(hook) else None
                if isinstance(command, str) and is_ours(command):
                    # What would be left empty goes as well.
                    counts = (len(events), len(groups), 1, len(hooks))
                    keys = _without_empty(["hooks", event, rank, "hooks", place], counts)
                    yield Hook(event, command, keys)


def _with_hook(text: str, event: str, command: str) -> str:
    groups = [{"hooks": [{"type": "command", "command": command}]}]
    settings = json.loads(text)
    if "hooks" not in settings:
        return put_last(text, [], "hooks", {event: groups})
    if event not in settings["hooks"]:
        return put_last(text, ["hooks"], event, groups)
    return put_last(text, ["hooks", event], None, groups[0])


def _without_empty(keys: Keys, counts: tuple[int, ...]) -> Keys:
    """The shortest way that takes along what has no other member."""
    while len(keys) > 1 and counts[len(keys) - 2] == 1:
        keys = keys[:-1]
    return keys
