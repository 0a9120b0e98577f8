"""Save "don't ask again" rules in the settings of a project."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote

from turnlog.agent.workspace.project_directories import LARGEST
from turnlog.errors import UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import is_array, is_object
from turnlog.format.jsonl import FileState, replace_file
from turnlog.format.jsontext import put_last, take_out
from turnlog.format.regular_files import read_regular

EMPTY = "{\n}\n"


def edit_command(path: Path) -> str:
    """Return the command to open a file in the user's editor, as a hint."""
    return f"$EDITOR {quote(str(path))}"


def save_rules(path: Path, rules: Iterable[str], behavior: str = "allow") -> bool:
    """Add rules to a settings file; return False if it has them already."""
    return change_settings(path, lambda text: with_rules(text, rules, behavior))


def change_settings(path: Path, change: Callable[[str], str]) -> bool:
    """Apply a change to the text of a settings file; return False if nothing changes.

    A link is left alone: a repository could lead it to the user's own settings, and a rule for one
    project would then count for all.
    """
    if path.is_symlink() or path.parent.is_symlink():
        return False
    state = FileState.of(path) if path.exists() else None
    text = read_regular(path, LARGEST).decode() if state else EMPTY
    try:
        changed = change(text if text.strip() else EMPTY)
    except ValueError as error:
        raise UsageError(f"{path} is not valid: {error}", edit_command(path)) from error
    if changed == text:
        return False
    # Replaced only if the file is still as it was read: the user may be editing it.
    if state:
        replace_file(path, [changed.encode()], state)
    else:
        write_atomic(path, changed.encode())
    return True


def with_rules(text: str, rules: Iterable[str], behavior: str = "allow") -> str:
    r"""Return settings with additional rules that allow, deny or ask.

    >>> with_rules('{"permissions": {"allow": ["Bash(ls)"]}}', ["Bash(ls)", "WebSearch"])
    '{"permissions": {"allow": ["Bash(ls)", "WebSearch"]}}'
    """
    for rule in rules:
        settings = json.loads(text)
        permissions = settings.get("permissions", {}) if is_object(settings) else None
        present = permissions.get(behavior, []) if is_object(permissions) else None
        if not is_array(present):
            raise ValueError("its permissions are not as the client has them")
        if rule in present:
            continue
        if "permissions" not in settings:
            # Inserted into the text, which keeps the user's formatting and order.
            text = put_last(text, [], "permissions", {behavior: [rule]})
        elif behavior not in settings["permissions"]:
            text = put_last(text, ["permissions"], behavior, [rule])
        else:
            text = put_last(text, ["permissions", behavior], None, rule)
    return text


def with_name(text: str, key: str, name: str) -> str:
    r"""Return settings with another name in a list.

    >>> with_name('{"model": "opus"}', "enabledMcpjsonServers", "db")
    '{"model": "opus", "enabledMcpjsonServers": ["db"]}'
    """
    settings = json.loads(text)
    names = settings.get(key, []) if is_object(settings) else None
    if not is_array(names):
        raise ValueError(f"{key} is not a list")
    if name in names:
        return text
    return put_last(text, [key], None, name) if key in settings else put_last(text, [], key, [name])


def with_value(text: str, key: str, value: object) -> str:
    """Return settings with another value for a key; None removes it.

    >>> with_value('{"model": "opus", "a": 1}', "model", "haiku")
    '{"a": 1, "model": "haiku"}'
    """
    settings = json.loads(text)
    if not is_object(settings):
        raise ValueError("it is not an object")
    if settings.get(key) == value:
        return text
    rest = take_out(text, [key]) if key in settings else text
    return rest if value is None else put_last(rest, [], key, value)
