"""Convert decoded JSON to a typed view.

Fields that fit are kept; a field of an unexpected type stays UNSET and is reported as a misfit.
"""

import types
from functools import cache
from typing import Any, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, ValidationError

from turnlog.format.blocks import UnknownPart
from turnlog.format.fields import encode_raw
from turnlog.format.json_values import is_array, is_object


def fit(kind: Any, value: Any, misfits: list[str], path: str = "") -> Any:
    """Convert `value` to `kind`, adding the dotted names of values that do not fit to `misfits`.

    >>> from turnlog.format.blocks import Usage
    >>> odd = []
    >>> fit(Usage, {"input_tokens": 3, "speed": 7}, odd).input_tokens, odd
    (3, ['speed'])
    """
    if Raw in _parts_of(kind):
        return encode_raw(value)
    # Nearly every value fits as a whole. Only if one does not, take it apart field by field, so
    # that a single odd value (`"speed": 7`) does not cost the rest of its entry.
    try:
        return msgspec.convert(value, kind)
    except (ValidationError, UnicodeEncodeError):  # the latter for a lone surrogate in a name
        pass
    structs = structs_of(kind)
    if UnknownPart in structs:
        return _fit_block(structs, value, misfits, path)
    if is_object(value) and structs:
        return _fit_struct(structs[0], value, misfits, path)
    if is_array(value) and (item := item_of(kind)) is not None:
        fitted = [fit(item, element, misfits, path) for element in value]
        # A list has no absent elements: readers rely on the type of each.
        return [element for element in fitted if element is not UNSET]
    misfits.append(path)
    return UNSET


def _fit_struct(kind: type[Struct], value: dict[str, Any], misfits: list[str], path: str) -> Struct:
    fitted: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            name = f"{path}.{field.encode_name}" if path else field.encode_name
            fitted[field.name] = fit(field.type, value[field.encode_name], misfits, name)
    return kind(**fitted)


def _fit_block(
    kinds: tuple[type[Struct], ...], value: Any, misfits: list[str], path: str
) -> Struct:
    if is_object(value):
        for kind in kinds:
            if kind is not UnknownPart and kind.__struct_config__.tag == value.get("type"):
                return _fit_struct(kind, value, misfits, path)
    return UnknownPart(value=value)


@cache
def structs_of(kind: Any) -> tuple[type[Struct], ...]:
    """Return the struct types in a union, or the type itself if it is one."""
    parts = _parts_of(kind)
    return tuple(part for part in parts if isinstance(part, type) and issubclass(part, Struct))


@cache
def item_of(kind: Any) -> Any:
    """Return the item type of the list in a union, or None."""
    for part in _parts_of(kind):
        if get_origin(part) is list:
            return get_args(part)[0]
    return None


def _parts_of(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
