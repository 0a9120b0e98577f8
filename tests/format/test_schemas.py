"""The JSON Schema of the entry kinds."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from support.build import assistant, call, encode, line, result, system, text, user
from support.strategies import entries_of, kinds, known_entries, lines_of, misfitting_entries
from turnlog.format.decode import decode_line, values_of
from turnlog.format.json_values import is_array, is_object
from turnlog.format.jsonl import Line
from turnlog.format.kinds import KINDS
from turnlog.format.schema import known_parts, schema_of_kinds


@cache
def validator(*names: str) -> Validator:
    return Draft202012Validator(schema_of_kinds(list(names)))


def is_valid(value: Any, *names: str) -> bool:
    """Return whether a value validates against the schema of the named kinds, or of all."""
    return validator(*names).is_valid(value)


def value_of(raw: bytes) -> Any:
    (value,) = values_of(Line(raw, 0, 1))
    return value


def test_the_schema_is_one_of_its_dialect() -> None:
    schema = schema_of_kinds()
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)
    assert [kind["title"] for kind in schema["anyOf"]] == list(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_the_schema_of_each_kind_stands_alone(name: str) -> None:
    schema = schema_of_kinds([name])
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == name
    assert {each for each in schema["$defs"] if f"'#/$defs/{each}'" not in str(schema)} == set()
    kind, _, subtype = name.partition("/")
    sound = {"type": kind} | ({"subtype": subtype} if subtype else {})
    assert is_valid(sound, name)
    assert not is_valid({"type": "sparkle"}, name)
    assert not is_valid(sound | {"sessionId": 5}, name)
    assert not is_valid([sound], name)


@given(st.data())
def test_entries_of_each_kind_validate_against_its_own_schema(data: st.DataObject) -> None:
    name = data.draw(kinds)
    assert is_valid(data.draw(entries_of(name)), name)


@pytest.mark.parametrize(
    "raw",
    [
        user("hi"),
        assistant(text("a"), call("Bash", {"command": "ls"})),
        result("t1", [text("a"), {"type": "hologram", "z": 1}], tool_use_result="Error"),
        assistant({"type": "hologram"}, {"z": 1}, 7),  # pyright: ignore[reportArgumentType]
        system("turn_duration", duration_ms=1.5, new_field=1),
        system("sparkle"),
        line("progress", data={"type": "warp_progress"}),
        line("user", uuid=None, message="hi"),
        line("custom-title", custom_title="Shop"),
    ],
)
def test_lines_validate(raw: bytes) -> None:
    assert is_valid(value_of(raw))


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "user", "uuid": 7},
        {"type": "user", "message": {"role": []}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": 5}]}},
        {"type": "assistant", "message": {"usage": {"input_tokens": "3"}}},
        {"type": "progress", "data": {"type": "bash_progress", "output": 5}},
        {"type": "custom-title", "customTitle": 5},
        {"type": "sparkle"},
        7,
    ],
)
def test_a_misfit_does_not_validate(fields: Any) -> None:
    assert not is_valid(fields)


def test_a_misfit_of_a_subtype_does_not_validate_against_its_kind() -> None:
    fields = {"type": "system", "subtype": "turn_duration", "durationMs": "long"}
    assert not is_valid(fields, "system/turn_duration")


def test_several_kinds_may_be_asked_for() -> None:
    assert is_valid({"type": "user"}, "user", "mode")
    assert is_valid({"type": "mode"}, "user", "mode")
    assert not is_valid({"type": "assistant"}, "user", "mode")


def test_an_unknown_kind_has_no_schema() -> None:
    with pytest.raises(KeyError):
        schema_of_kinds(["sparkle"])


def test_known_parts_are_blocks_and_progress() -> None:
    assert {"text", "tool_use", "tool_result", "thinking", "bash_progress"} <= set(known_parts())
    assert "" not in known_parts()


@given(lines_of(known_entries))
def test_every_sound_line_validates(raw: bytes) -> None:
    assert is_valid(value_of(raw))


@given(misfitting_entries())
def test_a_line_validates_if_it_has_no_misfit_and_only_then(fields: dict[str, Any]) -> None:
    name = kind_name(fields)
    decoded = decode_line(Line(encode(fields), 0, 1))
    if name in KINDS and not (decoded.misfits and has_floats(fields)):
        # A float is left out because to a schema 1.0 is an integer, to the types it is not.
        assert is_valid(fields, name) == (not decoded.misfits)


def kind_name(fields: dict[str, Any]) -> str:
    name = f"{fields.get('type')}/{fields.get('subtype')}"
    return name if name in KINDS else str(fields.get("type"))


def has_floats(value: Any) -> bool:
    if is_object(value):
        return any(map(has_floats, value.values()))
    return any(map(has_floats, value)) if is_array(value) else isinstance(value, float)
