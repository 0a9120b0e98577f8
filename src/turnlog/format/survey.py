"""The drift report: count kinds, fields, blocks and tools in session files; flag unknown ones.

Counts shapes of objects instead of single fields, so that a survey is as fast as reading.
"""

from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.format.blocks import Block, UnknownPart
from turnlog.format.decode import Problem, decode_line, values_of
from turnlog.format.entries import Assistant, Entry, HookProgress, ProgressData
from turnlog.format.fields import given
from turnlog.format.fit import item_of, structs_of
from turnlog.format.json_values import is_array, is_object
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.kinds import ATTACHMENTS, KINDS, kind_of, type_for
from turnlog.format.tools import INPUTS, KNOWN_TOOLS, result_type_of

NO_REASON = "(none)"
"""For a line or message without a stop reason: usual for messages up to 2.1.56."""
SPOKEN = frozenset({"user.message.content", "assistant.message.content"})
"""Locations of the blocks that are counted: not those inside results, attachments or progress."""
Shape = tuple[str, type[Struct] | None, tuple[str, ...]]
"""The location of an object, its type if it has one, and its keys."""


@dataclass
class Survey:
    """Counts over any number of files; `add` merges another survey into this one."""

    files: int = 0
    lines: int = 0
    bytes: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    versions: Counter[str] = field(default_factory=Counter[str])
    blocks: Counter[str] = field(default_factory=Counter[str])
    tools: Counter[str] = field(default_factory=Counter[str])
    line_stops: Counter[str] = field(default_factory=Counter[str])
    """Stop reasons, one per assistant entry."""
    message_stops: Counter[str] = field(default_factory=Counter[str])
    """Stop reasons, one per message: the last that its lines state."""
    misfits: Counter[str] = field(default_factory=Counter[str])
    shapes: Counter[Shape] = field(default_factory=Counter[Shape])
    problems: list[Problem] = field(default_factory=list[Problem])

    def add(self, other: "Survey") -> None:
        for item in fields(self):
            mine, more = getattr(self, item.name), getattr(other, item.name)
            if hasattr(mine, "update"):  # `mine + more` would copy both counters
                mine.update(more)
            else:
                setattr(self, item.name, mine + more)

    def count_fields(self) -> dict[tuple[str, bool], int]:
        """Return how often each field occurs, by its location and whether a type names it."""
        counts: Counter[tuple[str, bool]] = Counter()
        for (location, kind, keys), count in self.shapes.items():
            known = _field_types(kind) if kind else {}
            for key in keys:
                counts[f"{location}.{key}", key in known] += count
        return counts


def survey_file(path: Path) -> Survey:
    """Survey one file."""
    survey = Survey(files=1)
    stops: dict[str, str] = {}
    for line in read_lines(path):
        survey.lines += 1
        survey.bytes += len(line.raw)
        decoded = decode_line(line)
        survey.problems += [
            Problem(path, line.number, line.offset, why) for why in decoded.problems
        ]
        survey.misfits.update(decoded.misfits)
        survey.kinds.update(map(kind_of, decoded.entries))
        for entry in decoded.entries:
            _record_stop_reason(survey, stops, line, entry)
        try:
            _count_values(survey, line, decoded.entries)
        # A line may be nested more deeply than Python can recurse; its kind is counted all the
        # same.
        except RecursionError:
            survey.problems.append(Problem(path, line.number, line.offset, "nested too deeply"))
    survey.message_stops.update(stops.values())
    return survey


def _record_stop_reason(survey: Survey, stops: dict[str, str], line: Line, entry: Entry) -> None:
    """Count the reason of an entry; record it for its message, whose last reason counts."""
    body = entry.body if isinstance(entry, Assistant) else None
    if body is not None:
        key, reason = given(body.id) or f"line {line.number}", given(body.stop_reason)
        stops[key] = reason or stops.get(key, NO_REASON)
        survey.line_stops[reason or NO_REASON] += 1


def _count_values(survey: Survey, line: Line, entries: tuple[Entry, ...]) -> None:
    objects = (value for value in values_of(line) if is_object(value))
    # Not strict: a number with thousands of digits may make `values_of` skip an entry's value.
    for entry, value in zip(entries, objects, strict=False):
        if version := value.get("version"):
            survey.versions[str(version)] += 1
        _walk(survey, kind_of(entry).partition("/")[0], type_for(value), value)


def is_known_kind(name: str) -> bool:
    """Return whether a kind is in turnlog's tables."""
    entry_type, _, variant = name.partition("/")
    if entry_type == "attachment" and variant:
        return variant in ATTACHMENTS
    if entry_type == "progress" and variant:
        return variant in _tags(ProgressData)
    return name in KINDS


def is_known_block(name: str) -> bool:
    """Return whether turnlog has a type for a content block."""
    return name in _tags(Block)


def is_known_tool(name: str) -> bool:
    """Return whether a tool is built into the client or provided by an MCP server."""
    return name in KNOWN_TOOLS or name.startswith("mcp__")


def _walk(survey: Survey, location: str, kind: type[Struct], value: dict[str, Any]) -> None:
    survey.shapes[location, kind, tuple(value)] += 1
    for name, part_type in _inner_types(kind).items():
        if name in value:
            _walk_part(survey, f"{location}.{name}", part_type, value[name])
    if result := value.get("toolUseResult"):
        _walk_result(survey, result)


def _walk_part(survey: Survey, location: str, part_type: Any, value: Any) -> None:
    if part_type is None:
        return
    if is_array(value):
        for item in value:
            _walk_part(survey, location, item_of(part_type), item)
    elif is_object(value):
        candidates = structs_of(part_type)
        if UnknownPart in candidates:
            _walk_tagged(survey, location, candidates, value)
        elif candidates:
            _walk(survey, location, candidates[0], value)


def _walk_tagged(
    survey: Survey, within: str, kinds: tuple[type[Struct], ...], value: dict[str, Any]
) -> None:
    tag = str(value.get("type"))
    if HookProgress in kinds:
        location, kind = f"progress/{tag}", _tags(ProgressData).get(tag)
    else:
        location, kind = f"block/{tag}", _tags(Block).get(tag)
        if within in SPOKEN:
            survey.blocks[tag] += 1
    if kind is None:
        survey.shapes[location, None, tuple(value)] += 1
        return
    _walk(survey, location, kind, value)
    if tag == "tool_use":
        tool = str(value.get("name"))
        if within in SPOKEN:
            survey.tools[tool] += 1
        _walk_input(survey, tool, value.get("input"))


def _walk_input(survey: Survey, tool: str, value: Any) -> None:
    kind = INPUTS.get(tool)
    if kind and is_object(value):
        _walk(survey, f"input/{tool}", kind, value)


def _walk_result(survey: Survey, value: Any) -> None:
    kind = result_type_of(value) if is_object(value) else None
    if kind:
        _walk(survey, f"result/{kind.__name__.removesuffix('Result')}", kind, value)


@cache
def _tags(union: Any) -> dict[str, type[Struct]]:
    kinds = [kind for kind in structs_of(union) if kind is not UnknownPart]
    return {str(kind.__struct_config__.tag): kind for kind in kinds}


@cache
def _field_types(kind: type[Struct]) -> dict[str, Any]:
    types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    # msgspec does not list the tag among the fields, but it is one in the file.
    return types | {"type": str} if kind.__struct_config__.tag else types


@cache
def _inner_types(kind: type[Struct]) -> dict[str, Any]:
    """Return the fields whose values are typed objects or lists."""
    types = _field_types(kind)
    return {name: type_ for name, type_ in types.items() if structs_of(type_) or item_of(type_)}
