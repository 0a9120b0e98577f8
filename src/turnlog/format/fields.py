"""Field types of typed views: a field may be absent (`UNSET`) or null, which are distinct."""

import json
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

T = TypeVar("T")

Text = str | None | UnsetType
Flag = bool | None | UnsetType
Count = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None | UnsetType
"""Bounded: larger numbers fit neither a database column nor a float."""
Tokens = Annotated[int, Meta(ge=0, le=10**12)] | None | UnsetType
"""A billable count: negative values and those above 10^12 are misfits."""
BOUNDS = Meta(ge=-(10**15), le=10**15)
Number = Annotated[int, BOUNDS] | Annotated[float, BOUNDS] | None | UnsetType
"""Durations in milliseconds and the like, bounded to what a date can represent."""
Texts = list[str] | None | UnsetType
Object = dict[str, Any] | None | UnsetType
Items = list[Any] | None | UnsetType


def given(value: T | None | UnsetType) -> T | None:
    """Return the value of a field, or None if it is absent or null."""
    return None if value is UNSET else value


def decode_raw(raw: Raw) -> Any:
    """Return the value of a field that was left as JSON."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # a lone surrogate, which only the json module accepts
        return json.loads(bytes(raw))


def encode_raw(value: Any) -> Raw:
    """Return a value as JSON."""
    return Raw(json.dumps(value, separators=(",", ":")).encode())


class CamelView(Struct, rename="camel", kw_only=True):
    """A view of an object whose JSON names are camelCase."""


class SnakeView(Struct, kw_only=True):
    """A view of an object whose JSON names are snake_case, as in the Messages API."""
