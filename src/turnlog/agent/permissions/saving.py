"""Edit settings files, such as to save "don't ask again" rules; the user's formatting is kept."""

import json
from collections.abc import Callable, Collection, Iterable
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
    """Return a command that opens a file in the user's editor, to use as a hint."""
    return f"$EDITOR {quote(str(path))}"


def save_rules(path: Path, rules: Iterable[str], behavior: str = "allow") -> bool:
    """Add rules to a settings file; return False if it has them already."""
    return change_settings(path, lambda text: with_rules(text, rules, behavior))


def change_settings(path: Path, change: Callable[[str], str]) -> bool:
    """Apply a change to the text of a settings file; return False if nothing changes.

    A link is not followed: a repository could point it to the user's own settings, and a rule for
    one project would then apply to all.
    """
    if path.is_symlink() or path.parent.is_symlink():
        return False
    state = FileState.of(path) if path.exists() else None
    try:
        text = read_regular(path, LARGEST).decode() if state else EMPTY
        changed = change(text if text.strip() else EMPTY)
    except OSError as error:
        raise UsageError(f"{path} is not changed: {error.strerror}", edit_command(path)) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid: {error}", edit_command(path)) from error
    if changed == text:
        return False
    # Replaced only if the file is still as it was read: the user may be editing it.
    if state:
        replace_file(path, [changed.encode()], state)
    else:
        write_atomic(path, changed.encode())
    return True


def save_value(path: Path, key: str, value: object) -> bool:
    """Set a value in the user's own settings, or remove it if None; return False if unchanged.

    A key with a dot names a value within an object: `permissions.defaultMode`.
    """
    if path.is_symlink() or path.parent.is_symlink():
        raise UsageError(f"{path} is a link, so it is not changed", edit_command(path))
    outer, dot, inner = key.partition(".")
    if not dot:
        return change_settings(path, lambda text: with_value(text, key, value))
    return change_settings(path, lambda text: with_inner_value(text, outer, inner, value))


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
            raise ValueError("its permissions are not in the client's format")
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


def without_rules(text: str, rules: Collection[str] | None, behavior: str = "allow") -> str:
    r"""Return settings without the given rules; None removes all rules of that behavior.

    >>> without_rules('{"permissions": {"allow": ["Bash(ls)", "WebSearch"]}}', ["Bash(ls)"])
    '{"permissions": {"allow": ["WebSearch"]}}'
    """
    settings = json.loads(text)
    permissions = settings.get("permissions") if is_object(settings) else None
    present = permissions.get(behavior) if is_object(permissions) else None
    for place, rule in reversed([*enumerate(present if is_array(present) else [])]):
        if rules is None or rule in rules:
            text = take_out(text, ["permissions", behavior, place])
    return text


def with_mode(text: str, mode: str) -> str:
    """Return settings with `mode` as the permission mode that sessions start in.

    >>> with_mode('{"permissions": {"defaultMode": "plan"}}', "acceptEdits")
    '{"permissions": {"defaultMode": "acceptEdits"}}'
    """
    settings = json.loads(text)
    permissions = settings.get("permissions", {}) if is_object(settings) else None
    if not is_object(permissions):
        raise ValueError("its permissions are not in the client's format")
    if "permissions" not in settings:
        return put_last(text, [], "permissions", {"defaultMode": mode})
    if "defaultMode" in permissions:
        text = take_out(text, ["permissions", "defaultMode"])
    return put_last(text, ["permissions"], "defaultMode", mode)


def with_name(text: str, key: str, name: str) -> str:
    r"""Return settings with a name added to the list under `key`.

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
    """Return settings with a key set to a value; None removes the key.

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


def with_inner_value(text: str, outer: str, key: str, value: object) -> str:
    """Return settings with a key of the object `outer` set to a value; None removes the key.

    >>> with_inner_value('{"permissions": {"allow": []}}', "permissions", "defaultMode", "plan")
    '{"permissions": {"allow": [], "defaultMode": "plan"}}'
    """
    settings = json.loads(text)
    inside = settings.get(outer, {}) if is_object(settings) else None
    if not is_object(inside):
        raise ValueError(f"{outer} is not an object")
    if inside.get(key) == value:
        return text
    if outer not in settings:
        return put_last(text, [], outer, {key: value})
    rest = take_out(text, [outer, key]) if key in inside else text
    return rest if value is None else put_last(rest, [outer], key, value)
