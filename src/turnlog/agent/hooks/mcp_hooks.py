"""Build the input of hooks that call an MCP tool."""

import re
from typing import Any

import msgspec

from turnlog.format.json_values import Fields, is_array, is_object

PLACE = re.compile(r"\$\{([\w.-]+)\}")


def filled(given: Any, payload: Fields) -> Any:
    """Return an input with `${…}` placeholders replaced by fields of the payload.

    >>> filled({"path": "${tool_input.file_path}"}, {"tool_input": {"file_path": "/a"}})
    {'path': '/a'}
    """
    if isinstance(given, str):
        return PLACE.sub(lambda found: _text(_part(payload, found[1])), given)
    if is_array(given):
        return [filled(each, payload) for each in given]
    if is_object(given):
        return {name: filled(value, payload) for name, value in given.items()}
    return given


def _part(value: Any, path: str) -> Any:
    for name in path.split("."):
        if is_array(value) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if is_object(value) else None
    return value


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
