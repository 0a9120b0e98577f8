"""Hypothesis strategies: JSON values, lines as the types describe them, and damage of every kind.

A sound line fits its type: it decodes without a problem or a misfit, and validates.
"""

import json
import math
from collections.abc import Callable
from types import NoneType
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from turnlog.format.blocks import Block, UnknownPart
from turnlog.format.entries import Entry, ProgressData
from turnlog.format.fit import item_of, structs_of
from turnlog.format.kinds import ATTACHMENTS, KINDS
from turnlog.format.schema import known_parts

Draw = Callable[[SearchStrategy[Any]], Any]
Fields = dict[str, Any]

DEPTHS = (10, 100, 400, 480, 900, 990, 1000, 1100, 5000)
"""How deep values nest: around the limits of recursion of either decoder, and far beyond."""

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
keys = st.sampled_from(["type", "content", "message", "id", "newField", "ключ", ""]) | texts
numbers = (
    st.integers(-(1 << 70), 1 << 70)
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.none() | st.booleans() | numbers | texts
json_values: SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)
objects = st.dictionaries(keys, json_values, max_size=4)
new_fields = st.dictionaries(
    texts.map("new-".__add__) | st.just("newField"), json_values, max_size=2
)
kinds = st.sampled_from(sorted(KINDS))
invented_names = st.sampled_from(["sparkle", "user-2", "", "系统", "None", "user/x"])


@st.composite
def fitting(draw: Draw, type_: Any, depth: int = 3) -> Any:
    """A value that the type of a field admits."""
    choices: list[SearchStrategy[Any]] = [st.none()]
    for part, values in SCALARS.items():
        if part in _parts(type_):
            choices.append(values)
    structs = structs_of(type_)
    if UnknownPart in structs:
        choices = [tagged(structs, depth - 1)] if depth else [invented_parts]
    elif structs and depth:
        choices.append(struct_fields(structs[0], depth - 1))
    if (item := item_of(type_)) is not None and depth:
        items = json_values if item is Any else fitting(item, depth - 1)
        choices.append(st.lists(items, max_size=3))
    return draw(st.one_of(choices) if type_ is not Any else json_values)


@st.composite
def struct_fields(draw: Draw, kind: type[msgspec.Struct], depth: int = 3) -> Fields:
    """An object with some of the fields of a type, and some that it does not name."""
    named = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    chosen = draw(st.lists(st.sampled_from(sorted(named)), max_size=5, unique=True))
    found = {name: draw(fitting(named[name], depth)) for name in chosen}
    return {name: v for name, v in draw(new_fields).items() if name not in named} | found


@st.composite
def tagged(draw: Draw, structs: list[type[msgspec.Struct]], depth: int) -> Fields:
    """A content block, or the data of a progress entry, of a known kind or of an invented one."""
    kind = draw(st.sampled_from(structs))
    if kind is UnknownPart:
        return draw(invented_parts)
    return draw(struct_fields(kind, depth)) | {"type": kind.__struct_config__.tag}


@st.composite
def entries_of(draw: Draw, name: str) -> Fields:
    """The fields of an entry of a known kind."""
    kind, _, subtype = name.partition("/")
    fields: Fields = draw(struct_fields(KINDS[name])) | {"type": kind}
    if subtype:
        fields["subtype"] = subtype
    elif kind == "system":
        fields["subtype"] = draw(invented_names | st.none())
    if kind == "attachment":
        part: Fields = {"type": draw(st.sampled_from(sorted(ATTACHMENTS)) | invented_names)}
        fields["attachment"] = draw(objects) | part
    return fields


@st.composite
def misfitting(draw: Draw) -> Fields:
    """An entry of a known kind in which values of any type stand in known fields."""
    name = draw(kinds)
    fields: Fields = draw(entries_of(name))
    named = [field.encode_name for field in msgspec.structs.fields(KINDS[name])]
    chosen = draw(st.lists(st.sampled_from(named), min_size=1, max_size=3))
    return fields | {each: draw(json_values) for each in chosen}


@st.composite
def spelled(draw: Draw, value: Any) -> str:
    """A value as JSON text, in any of the ways that JSON allows."""
    space = draw(st.sampled_from(["", "", "", " ", "\t", "  "]))
    match value:
        case dict():
            pairs = [f"{draw(spelled(k))}{space}:{draw(spelled(v))}" for k, v in value.items()]  # pyright: ignore[reportUnknownVariableType]
            return "{" + space + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(draw(spelled(each)) for each in value) + space + "]"  # pyright: ignore[reportUnknownVariableType]
        case str():
            return draw(st.sampled_from([_escaped, _plain, _escaped_all]))(value)
        case float() if value.is_integer():
            return draw(st.sampled_from([repr(value), f"{value:e}", f"{value:E}"]))
        case _:
            return json.dumps(value)


known_entries = kinds.flatmap(entries_of)
unknown_entries = st.builds(lambda fields, name: fields | {"type": name}, objects, invented_names)
invented_parts = st.builds(
    lambda fields, name: fields | {"type": name}, objects, invented_names.filter(bool)
)
flat_entries = st.builds(
    lambda fields, role, content: fields | {"message": {"role": role, "content": content}},
    new_fields,
    st.sampled_from(["user", "assistant"]),
    texts | st.lists(st.just({"type": "text", "text": "x"}), max_size=2),
)
entries = known_entries | unknown_entries | flat_entries

compact_lines = entries.map(lambda fields: json.dumps(fields, ensure_ascii=False).encode())
odd_lines = entries.flatmap(spelled).map(str.encode)
sound_lines = compact_lines | odd_lines
"""Lines without a newline at the end; so are all the lines below."""


def _parts(type_: Any) -> tuple[Any, ...]:
    from typing import get_args, get_origin

    return tuple(get_origin(part) or part for part in get_args(type_) or (type_,))


def _plain(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return json.dumps(text).replace("/", "\\/")


def _escaped_all(text: str) -> str:
    units = text.encode("utf-16-be").hex("-", 2).split("-") if text else []
    return '"' + "".join(f"\\u{unit}" for unit in units) + '"'


SCALARS: dict[Any, SearchStrategy[Any]] = {
    str: texts,
    bool: st.booleans(),
    int: st.integers(-3, 1 << 70),
    float: st.floats(allow_nan=False, allow_infinity=False),
    dict: objects,
    NoneType: st.none(),
}
