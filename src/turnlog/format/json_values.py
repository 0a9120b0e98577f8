"""What decoded JSON is, told without what decodes it: that takes long to load."""

from typing import Any, TypeGuard

Fields = dict[str, Any]
"""A JSON object."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a decoded value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a JSON array."""
    return isinstance(value, list)
