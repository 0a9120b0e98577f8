"""Type guards and lenient access for decoded JSON; does not import msgspec, which is slow to load.

Session files, settings and payloads are written by other programs, so no value can be relied on to
have its usual type.
"""

from typing import Any, TypeGuard

Fields = dict[str, Any]
"""A JSON object."""


def parse_json(raw: str | bytes) -> Any:
    """Decode JSON from another program; raise `ValueError` if it is invalid or nested too deeply.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deeply
    """
    import json  # hooks, which use other functions of this module, have no time to load it

    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a decoded value is a JSON array."""
    return isinstance(value, list)


def as_object(value: object) -> Fields:
    """Return a value that is an object; an empty object for anything else."""
    return value if is_object(value) else {}


def objects_in(value: object) -> list[Fields]:
    """Return the objects in an array; an empty list for any other value.

    >>> objects_in([{"a": 1}, None, "b"]), objects_in("text")
    ([{'a': 1}], [])
    """
    return [each for each in value if is_object(each)] if is_array(value) else []


def text_in(fields: Fields, name: str) -> str | None:
    """Return the value of a field if it is a string, else None."""
    value = fields.get(name)
    return value if isinstance(value, str) else None
