"""Permissions that a hook or a program grants for the user, in the client's format."""

import re
from collections.abc import Iterable

from msgspec import Struct

from turnlog.agent.hooks.matchers import objects_in
from turnlog.format.json_values import Fields, is_array

RULE = re.compile(r"(?s)([^()]+)(?:\((.*)\))?")
KEPT = frozenset({"localSettings"})
"""Destinations that persist; turnlog writes to no other settings."""
PASSING = frozenset({"session"})


class Grants(Struct, frozen=True):
    """Rules that a hook grants."""

    saved: tuple[str, ...] = ()
    """Rules for this session and those to come."""
    passing: tuple[str, ...] = ()
    """Rules for this session."""
    mode: str | None = None


def suggestions(rules: Iterable[str]) -> list[Fields]:
    """Return the offered rules for the hook payload.

    >>> suggestions(["Bash(npm test:*)"])[0]["rules"]
    [{'toolName': 'Bash', 'ruleContent': 'npm test:*'}]
    """
    written = [found for rule in rules if (found := RULE.fullmatch(rule))]
    named = [
        {"toolName": found[1]} | ({"ruleContent": found[2]} if found[2] is not None else {})
        for found in written
    ]
    about = {"behavior": "allow", "destination": "localSettings"}
    return [{"type": "addRules", "rules": named} | about] if named else []


def read_grants(updates: Iterable[Fields]) -> Grants:
    """Return the rules that a hook grants; denials, replacements and removals are ignored."""
    saved: list[str] = []
    passing: list[str] = []
    mode: str | None = None
    for update in updates:
        place, kind = update.get("destination"), update.get("type")
        if kind == "setMode":
            mode = str(update.get("mode"))
        if kind == "addRules" and update.get("behavior") == "allow":
            rules = [_rule(each) for each in objects_in(update.get("rules"))]
            saved += rules if place in KEPT else []
            passing += rules if place in PASSING else []
    return Grants(tuple(saved), tuple(passing), mode)


class PermissionChange(Struct, frozen=True):
    """A change to the permissions of a session."""

    kind: str
    """addRules, replaceRules, removeRules, setMode, addDirectories or removeDirectories."""
    destination: str = "session"
    """Where it is saved: session, localSettings, projectSettings or userSettings."""
    behavior: str = "allow"
    """The list of rules that it is about: allow, deny or ask."""
    rules: tuple[str, ...] = ()
    mode: str = ""
    directories: tuple[str, ...] = ()


def read_changes(updates: Iterable[Fields]) -> list[PermissionChange]:
    """Return the changes that a program sends along with an approval.

    >>> read_changes([{"type": "setMode", "mode": "plan", "destination": "session"}])[0].mode
    'plan'
    """
    return [
        PermissionChange(
            kind=str(update.get("type")),
            destination=str(update.get("destination") or "session"),
            behavior=str(update.get("behavior") or "allow"),
            rules=tuple(_rule(each) for each in objects_in(update.get("rules"))),
            mode=str(update.get("mode") or ""),
            directories=tuple(map(str, given if is_array(given) else ())),
        )
        for update in updates
        for given in [update.get("directories")]
    ]


def _rule(named: Fields) -> str:
    tool, content = str(named.get("toolName")), named.get("ruleContent")
    return tool if content is None else f"{tool}({content})"
