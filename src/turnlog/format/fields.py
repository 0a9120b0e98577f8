"""The field types of typed views. A field may be absent (`UNSET`) or null, and the two differ."""

import json
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

T = TypeVar("T")

Text = str | None | UnsetType
Flag = bool | None | UnsetType
Count = int | None | UnsetType
Number = int | float | None | UnsetType
Texts = list[str] | None | UnsetType
Object = dict[str, Any] | None | UnsetType
Items = list[Any] | None | UnsetType


def given(value: T | None | UnsetType) -> T | None:
    """The value of a field, or None where it is absent or null."""
    return None if value is UNSET else value


def decode_raw(raw: Raw) -> Any:
    """A value that was left as JSON."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # half of a surrogate pair
        return json.loads(bytes(raw))


def encode_raw(value: Any) -> Raw:
    """A value as JSON."""
    return Raw(json.dumps(value, separators=(",", ":")).encode())


class CamelView(Struct, rename="camel", kw_only=True):
    """A view of an object whose JSON names are camelCase."""


class SnakeView(Struct, kw_only=True):
    """A view of an object whose JSON names are snake_case, as those of the Messages API are."""
