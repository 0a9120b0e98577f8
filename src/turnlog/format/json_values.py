"""Type guards for decoded JSON; does not import msgspec, which is slow to load."""

from typing import Any, TypeGuard

Fields = dict[str, Any]
"""A JSON object."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a decoded value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Return whether a decoded value is a JSON array."""
    return isinstance(value, list)
