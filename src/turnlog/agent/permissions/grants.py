"""Permissions that a hook or a program grants on behalf of the user, in the client's format."""

import re
from collections.abc import Iterable

from msgspec import Struct

from turnlog.format.json_values import Fields, is_array, objects_in

RULE = re.compile(r"(?s)([^()]+)(?:\((.*)\))?")
OF_PROJECT = "is_project"
"""The key that marks changes from a project's hook; `Hooks` sets it, never the hook itself."""
RULES = ("addRules", "replaceRules", "removeRules")
DIRECTORIES = ("addDirectories", "removeDirectories")
USER = "userSettings"
WIDEST = "bypassPermissions"
MODES = {"manual": "default"}
"""Aliases of modes."""


def suggestions(rules: Iterable[str]) -> list[Fields]:
    """Return the rules offered to the user as `permission_suggestions` for the hook payload.

    >>> suggestions(["Bash(npm test:*)"])[0]["rules"]
    [{'toolName': 'Bash', 'ruleContent': 'npm test:*'}]
    """
    written = [found for rule in rules if (found := RULE.fullmatch(rule))]
    named = [
        {"toolName": found[1]} | ({"ruleContent": found[2]} if found[2] is not None else {})
        for found in written
    ]
    # Reading outside of the working directories is offered for the session (2.1.325, observed).
    is_reading = all(each["toolName"] == "Read" for each in named)
    place = "session" if is_reading else "localSettings"
    about = {"behavior": "allow", "destination": place}
    return [{"type": "addRules", "rules": named} | about] if named else []


class PermissionChange(Struct, frozen=True):
    """A change to the permissions of a session."""

    kind: str
    """addRules, replaceRules, removeRules, setMode, addDirectories or removeDirectories."""
    destination: str = "session"
    """The place to save it: session, localSettings, projectSettings or userSettings."""
    behavior: str = "allow"
    """The list of rules to change: allow, deny or ask."""
    rules: tuple[str, ...] = ()
    mode: str = ""
    directories: tuple[str, ...] = ()
    is_project: bool = False
    """True if a hook of the project requested it."""

    @property
    def is_entitled(self) -> bool:
        """True if its sender may make this change.

        A trusted project may decide only for itself: its changes must not affect other projects,
        lift a denial, or turn off all prompts.
        """
        lifts = self.kind in ("replaceRules", "removeRules") and self.behavior != "allow"
        is_wide = self.destination == USER or self.mode == WIDEST
        return not (self.is_project and (lifts or is_wide))


def read_changes(updates: Iterable[Fields]) -> list[PermissionChange]:
    """Return the changes that a program or a hook sends along with an approval.

    >>> read_changes([{"type": "setMode", "mode": "manual", "destination": "session"}])[0].mode
    'default'
    """
    changes = [
        PermissionChange(
            kind=str(update.get("type")),
            destination=str(update.get("destination") or "session"),
            behavior=str(update.get("behavior") or "allow"),
            rules=tuple(_rule(each) for each in objects_in(update.get("rules"))),
            mode=MODES.get(mode := str(update.get("mode") or ""), mode),
            directories=tuple(map(str, given if is_array(given) else ())),
            is_project=update.get(OF_PROJECT) is True,
        )
        for update in updates
        for given in [update.get("directories")]
    ]
    return [change for change in changes if change.is_entitled]


def _rule(named: Fields) -> str:
    tool, content = str(named.get("toolName")), named.get("ruleContent")
    return tool if content is None else f"{tool}({content})"
