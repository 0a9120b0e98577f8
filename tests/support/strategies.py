"""Hypothesis strategies: JSON values, lines as the types describe them, and damage of every kind.

A sound line fits its type: it decodes without a problem or a misfit, and validates. Lines have no
newline at their end; files put it there.
"""

import json
import os
from types import NoneType
from typing import Any, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from turnlog.format.blocks import UnknownPart
from turnlog.format.entries import Unknown
from turnlog.format.fit import item_of, structs_of
from turnlog.format.json_values import is_array, is_object
from turnlog.format.kinds import ATTACHMENTS, KINDS

Fields = dict[str, Any]

EXAMPLES = int(os.environ.get("TURNLOG_EXAMPLES", "500"))
"""Examples for each property."""
MARK = b"\xef\xbb\xbf"
DEPTHS = (10, 100, 400, 480, 900, 990, 1000, 1100, 5000)
"""Nesting depths of values: around the limits of recursion, and far beyond."""
NESTS = (
    (b"[", b"]"),
    (b'{"a":', b"}"),
    (b'[{"type":"tool_result","content":', b"}]"),
    (b'[{"type":"tool_result","tool_use_id":5,"content":', b"}]"),
)
NOT_ESCAPED, ESCAPED, ALL_ESCAPED = range(3)


def spell(value: Any, style: int) -> str:
    """A value as JSON text, in one of the ways that JSON allows; `style` is any number."""
    escapes, gap = style % 3, " " if style & 4 else ""
    if is_object(value):
        pairs = [f"{spell(key, style)}{gap}:{spell(v, style)}" for key, v in value.items()]
        return "{" + gap + f"{gap},".join(pairs) + "}"
    if is_array(value):
        return "[" + f",{gap}\t".join(spell(each, style) for each in value) + gap + "]"
    if isinstance(value, str):
        return _spell_text(value, escapes)
    if isinstance(value, float) and style & 8:
        return f"{value:E}" if style & 16 else f"{value:e}"
    if value == 0 and value is not False and style & 8:
        return "-0"
    return json.dumps(value)


def _spell_text(text: str, escapes: int) -> str:
    if escapes == ALL_ESCAPED and text:
        units = text.encode("utf-16-be").hex("-", 2).split("-")
        return '"' + "".join(f"\\u{unit}" for unit in units) + '"'
    plain = json.dumps(text, ensure_ascii=escapes == ESCAPED)
    return plain.replace("/", "\\/") if escapes == ESCAPED else plain


# Values

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
keys = st.sampled_from(["type", "content", "message", "id", "newField", "ключ", ""]) | texts
integers = st.integers(-5, 5) | st.integers(-(1 << 70), 1 << 70)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
objects: SearchStrategy[Fields] = st.dictionaries(keys, json_values, max_size=4)

# Entries

COMMON = {field.encode_name for field in msgspec.structs.fields(Unknown)}
"""Fields that any entry may have, so that an unknown one has them typed."""
kinds = st.sampled_from(sorted(KINDS))
invented_names = st.sampled_from(["sparkle", "user-2", "None", "系统", "user/x"])
new_fields: SearchStrategy[Fields] = st.dictionaries(
    texts.map("new-".__add__), json_values, max_size=2
)


def _with_type(fields: Fields, name: str) -> Fields:
    return {key: value for key, value in fields.items() if key not in COMMON} | {"type": name}


def _without_type(fields: Fields, role: str, content: Any) -> Fields:
    return fields | {"message": {"role": role, "content": content}}


unknown_entries = st.builds(_with_type, objects, invented_names)
"""Of types that turnlog does not know; content blocks of unknown kinds look the same."""


@st.composite
def fitting(draw: DrawFn, field_type: Any, depth: int) -> Any:
    """A value that the type of a field admits."""
    if field_type is Any or msgspec.Raw in get_args(field_type):
        return draw(json_values)
    parts = [get_origin(part) or part for part in get_args(field_type) or (field_type,)]
    choices = [values for part, values in SCALARS.items() if part in parts]
    structs = structs_of(field_type)
    if UnknownPart in structs:
        choices.append(_tagged(structs, depth - 1) if depth else unknown_entries)
    elif structs and depth:
        choices.append(fields_of(structs[0], depth - 1))
    if (item := item_of(field_type)) is not None:
        choices.append(st.lists(fitting(item, depth - 1), max_size=3 if depth else 0))
    return draw(st.one_of(choices))


@st.composite
def fields_of(draw: DrawFn, kind: type[msgspec.Struct], depth: int = 4) -> Fields:
    """An object with some of the fields of a type, and some that the type does not name."""
    named = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    chosen = draw(st.lists(st.sampled_from(sorted(named)), max_size=5, unique=True))
    return draw(new_fields) | {name: draw(fitting(named[name], depth)) for name in chosen}


@st.composite
def _tagged(draw: DrawFn, structs: tuple[type[msgspec.Struct], ...], depth: int) -> Fields:
    """A content block, or the data of a progress entry."""
    kind = draw(st.sampled_from(structs))
    if kind is UnknownPart:
        return draw(unknown_entries)
    return draw(fields_of(kind, depth)) | {"type": kind.__struct_config__.tag}


@st.composite
def entries_of(draw: DrawFn, name: str) -> Fields:
    """The fields of an entry of a known kind."""
    kind, _, subtype = name.partition("/")
    fields = draw(fields_of(KINDS[name])) | {"type": kind}
    if kind == "system":
        fields["subtype"] = subtype or draw(invented_names)
    if kind == "attachment":
        part = draw(st.sampled_from(sorted(ATTACHMENTS)) | invented_names)
        fields["attachment"] = draw(objects) | {"type": part}
    return fields


@st.composite
def misfitting_entries(draw: DrawFn) -> Fields:
    """An entry of a known kind with values of any type in its known fields."""
    name = draw(kinds)
    named = [field.encode_name for field in msgspec.structs.fields(KINDS[name])]
    chosen = draw(st.lists(st.sampled_from(named), min_size=1, max_size=3))
    return draw(entries_of(name)) | {each: draw(json_values) for each in chosen}


SCALARS: dict[Any, SearchStrategy[Any]] = {
    NoneType: st.none(),
    str: texts,
    bool: st.booleans(),
    int: integers,
    float: floats,
    dict: objects,
}
known_entries = kinds.flatmap(entries_of)
flat_entries = st.builds(
    _without_type,
    new_fields,
    st.sampled_from(["user", "assistant"]),
    texts | st.lists(st.just({"type": "text", "text": "x"}), max_size=2),
)
entries = known_entries | unknown_entries | flat_entries

# Lines


@st.composite
def lines_of(draw: DrawFn, fields: SearchStrategy[Any]) -> bytes:
    """Values as lines, as the client spells them or in other ways."""
    return spell(draw(fields), draw(st.just(0) | st.integers(0, 31))).encode()


sound_lines = lines_of(entries)
small_lines = lines_of(st.builds(_with_type, objects, kinds))


@st.composite
def nested_lines(draw: DrawFn) -> bytes:
    """Values in values in values; some are never closed."""
    opening, closing = draw(st.sampled_from(NESTS))
    depth = draw(st.sampled_from(DEPTHS))
    field = draw(st.sampled_from([b"newField", b"content"]))
    closings = draw(st.sampled_from([depth, depth, depth - 1, 0]))
    inner = opening * depth + b"1" + closing * closings
    return b'{"type":"user","' + field + b'":' + inner + b"}"


@st.composite
def dirty_lines(draw: DrawFn) -> bytes:
    """A line with bytes in it that do not belong there."""
    raw = draw(small_lines)
    position = draw(st.integers(0, len(raw)))
    dirt = draw(st.sampled_from(DIRT) | st.binary(max_size=4).map(_without_newlines))
    return raw[:position] + dirt + raw[position:]


@st.composite
def torn_lines(draw: DrawFn) -> bytes:
    """The start of a line."""
    raw = draw(sound_lines)
    return raw[: draw(st.integers(0, len(raw)))]


def _without_newlines(raw: bytes) -> bytes:
    return raw.replace(b"\n", b"")


DIRT = (b"\0", b"\0" * 50, MARK, b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\r", b"\\ud83d", b"\t")
NUMBERS = (b"NaN", b"-Infinity", b"1e999", b"-0", b"1E5", b"1.0", b"0.10e+1", b"01", b"+1", b".5")
odd_numbers = st.sampled_from(NUMBERS) | st.integers(20, 6000).map(lambda digits: b"7" * digits)
number_lines = st.builds(
    b'{"type":"system","subtype":"turn_duration","%b":%b}'.__mod__,
    st.tuples(st.sampled_from([b"durationMs", b"messageCount", b"newField"]), odd_numbers),
)
surrogate_lines = st.sampled_from(["\\ud83d", "\\ude00\\ud83d", "x\\uDFFF"]).map(
    lambda escape: b'{"type":"user","message":{"content":"' + escape.encode() + b'"}}'
)
glued_lines = st.builds(
    bytes.join,
    st.sampled_from([b"", b" ", b",", b"\r"]),
    st.lists(small_lines | torn_lines(), min_size=2, max_size=3),
)
damaged_lines: SearchStrategy[bytes] = st.one_of(
    st.sampled_from([b"", b" ", b"\r", b"\t \r", b"\0" * 9, MARK, b"null", b"[]", b'"x"', b"1 2"]),
    lines_of(json_values),
    lines_of(misfitting_entries()),
    surrogate_lines,
    number_lines,
    glued_lines,
    torn_lines(),
    dirty_lines(),
    nested_lines(),
    st.binary(max_size=20).map(_without_newlines),
)

# Files


@st.composite
def files_of(draw: DrawFn, lines: SearchStrategy[bytes], max_size: int = 8) -> bytes:
    """Whole files, whose last line has its newline."""
    newline = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    return b"".join(raw + newline for raw in draw(st.lists(lines, max_size=max_size)))


@st.composite
def damaged_files(draw: DrawFn) -> bytes:
    """Files with sound and damaged lines, which may start with a mark and end in the middle."""
    mark = draw(st.sampled_from([b"", b"", MARK]))
    content = draw(files_of(small_lines | sound_lines | damaged_lines))
    end = draw(st.just(b"") | torn_lines() | damaged_lines)
    return mark + content + end


sound_files = files_of(sound_lines)
