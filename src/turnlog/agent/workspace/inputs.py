"""Typed tool inputs and their JSON Schema."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from turnlog.agent.workspace.tool import ToolError
from turnlog.format.json_values import Fields, is_array, is_object

CONTENT = frozenset({"content", "old_string", "new_string", "new_source"})
"""Fields with content of files, which may contain any character."""


class Input(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Input of a tool; field names are those the model uses."""


Kind = TypeVar("Kind", bound=Struct)


def reader_of(kind: type[Kind]) -> Callable[[Fields], Kind]:
    """Return the function that decodes a call's input."""

    def read(value: Fields) -> Kind:
        try:
            _require_usable(value)
            # Not strict: models write `"5"` for 5, and `"true"` for true.
            return msgspec.convert(value, kind, strict=False)
        except ValueError as error:
            raise ToolError(f"InputValidationError: {error}") from error

    return read


def _require_usable(value: Fields) -> None:
    """Raise `ValueError` for a null character, which no file name can contain.

    Any text may become part of a path: `Glob` takes the directory to search from its pattern.
    """
    for name, text in value.items():
        if isinstance(text, str) and name not in CONTENT and b"\0" in os.fsencode(text):
            raise ValueError(f"{name} holds a null character")


def schema_of(kind: type[Struct]) -> Fields:
    """Return the JSON Schema of an input type, without references and null.

    >>> class Name(Input, frozen=True):
    ...     name: str
    ...     size: int | None = None
    >>> schema_of(Name)["properties"]
    {'name': {'type': 'string'}, 'size': {'type': 'integer'}}
    """
    whole = msgspec.json.schema(kind)
    schema = _inline(whole["$ref"], whole["$defs"])
    return {name: value for name, value in schema.items() if name not in ("title", "description")}


def _inline(value: Any, known: Fields) -> Any:
    if isinstance(value, str) and value.startswith("#/$defs/"):
        return _inline(known[value.removeprefix("#/$defs/")], known)
    if is_array(value):
        return [_inline(item, known) for item in value]
    if not is_object(value):
        return value
    if "$ref" in value:
        return _inline(value["$ref"], known)
    schema = {name: _inline(part, known) for name, part in value.items()}
    return _without_null(schema | ({"type": "string"} if "enum" in schema else {}))


def _without_null(schema: Fields) -> Fields:
    """Return the schema of an optional field without its null alternative."""
    if not is_array(schema.get("anyOf")):
        return schema
    kinds = [kind for kind in schema["anyOf"] if kind != {"type": "null"}]
    rest = {
        name: value
        for name, value in schema.items()
        if name != "anyOf" and (name, value) != ("default", None)
    }
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
