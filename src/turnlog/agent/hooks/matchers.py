"""Match hook groups to events: by tool name, pattern or permission rule."""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from turnlog.format.json_values import Fields, is_object, objects_in
from turnlog.format.tools import RENAMED

EXACT = re.compile(r"[\w\- ,|]*", re.ASCII)
"""A matcher of only these characters is a list of names; any other is a regex."""
IDENTITY = (
    *("type", "command", "args", "shell", "url", "server", "tool", "input", "prompt", "if"),
    "callback",
)
"""Fields that identify a hook: hooks that agree in all of them are duplicates."""

Groups = Mapping[str, Iterable[Fields]]
"""Hook settings: for each event, objects with a `matcher` and `hooks`."""
Applies = Callable[[str, Fields], bool]
"""Checks whether a permission rule matches a call, given as `tool_name` and `tool_input`."""
HandlerKey = bytes
NAMED_BY = {
    "command": ("command",),
    "http": ("url",),
    "mcp_tool": ("server", "tool"),
    "prompt": ("prompt",),
    "agent": ("prompt",),
}
SWITCHES = ("async", "asyncRewake", "continueOnBlock", "once")
NUMBERS = ("timeout",)


def key_of(group: Fields, handler: Fields) -> HandlerKey:
    """Return the identity of a hook, which includes the skill or plugin that it comes from."""
    owner = [group.get("skill"), group.get("plugin")]
    return msgspec.json.encode([*owner, *(handler.get(name) for name in IDENTITY)])


def shown(handler: Fields) -> str:
    """Return the display name of a hook: its command, URL, tool or prompt.

    >>> shown({"type": "mcp_tool", "server": "db", "tool": "check"})
    'db/check'
    """
    kind = str(handler.get("type", "command"))
    names = NAMED_BY.get(kind, ())
    return "/".join(str(handler.get(name) or "") for name in names) or kind


def matches(matcher: object, value: str | None) -> bool:
    """Return whether a matcher fits a value: a list of names, or a regex found anywhere in it.

    A renamed tool matches by its old and its new name, as in the client (2.1.325, observed).

    >>> matches("Edit|Write", "Write"), matches("Edit", "NotebookEdit"), matches("^Note", "Notes")
    (True, False, True)
    >>> matches("Task", "Agent"), matches("^Task$", "Agent"), matches("Tas", "Agent")
    (True, True, False)
    """
    if not isinstance(matcher, str) or matcher in ("", "*") or value is None:
        return True
    names = [value, *(old for old, new in RENAMED.items() if new == value)]
    if EXACT.fullmatch(matcher):
        listed = [name.strip() for name in re.split(r"[|,]", matcher)]
        return any(name in listed for name in names)
    try:
        return any(re.search(matcher, name) for name in names)
    except re.error:
        # An invalid pattern matches nothing: it must not end the session.
        return False


def groups_of(
    head: object, skill: str | None = None, is_project: bool = False
) -> dict[str, list[Fields]]:
    """Return the hooks in the frontmatter of a Markdown file, where all values are strings.

    >>> groups_of({"Stop": [{"hooks": [{"command": "true", "timeout": "5"}]}]})
    {'Stop': [{'hooks': [{'command': 'true', 'timeout': 5.0}]}]}
    """
    marks: Fields = {"skill": skill} if skill else {}
    marks |= {"is_project": True} if is_project else {}
    return {
        event: [
            group | marks | {"hooks": [_typed(each) for each in objects_in(group.get("hooks"))]}
            for group in objects_in(groups)
        ]
        for event, groups in (head.items() if is_object(head) else ())
    }


def _typed(handler: Fields) -> Fields:
    typed = dict(handler)
    for name in SWITCHES:
        if name in handler:
            typed[name] = str(handler[name]).lower() == "true"
    for name in NUMBERS:
        if name in handler and str(handler[name]).replace(".", "", 1).isdecimal():
            typed[name] = float(handler[name])
    return typed
