"""The field types of typed views. A field may be absent (`UNSET`) or null, and the two differ."""

import json
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

T = TypeVar("T")

Text = str | None | UnsetType
Flag = bool | None | UnsetType
Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None | UnsetType
"""Larger numbers fit no database column and no float."""
Tokens = Annotated[int, Meta(ge=0, le=10**12)] | None | UnsetType
"""A count that can be billed; one below zero or beyond a million million is no count."""
BOUNDS = Meta(ge=-(10**15), le=10**15)
Number = Annotated[int, BOUNDS] | Annotated[float, BOUNDS] | None | UnsetType
"""Milliseconds and the like: within the years that a date can have."""
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
