"""JSON edited as text."""

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from turnlog.format.jsontext import find, put_last, take_out

names = st.text(max_size=4) | st.sampled_from(['"', "\\", "é", "a: {", "]"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
layouts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " :\t")]),
    }
)


@given(values, values, layouts, st.sampled_from(["", "\n", " \r\n"]))
def test_what_is_put_in_can_be_taken_out_again(
    held: Any, value: Any, layout: dict[str, Any], end: str
) -> None:
    text = json.dumps({"list": [held], "object": {"held": held}}, **layout) + end
    longer = put_last(text, ["list"], None, value)
    assert json.loads(longer) == {"list": [held, value], "object": {"held": held}}
    assert take_out(longer, ["list", 1]) == text
    longer = put_last(text, ["object"], "new", value)
    assert json.loads(longer) == {"list": [held], "object": {"held": held, "new": value}}
    assert take_out(longer, ["object", "new"]) == text
    assert json.loads(put_last(take_out(text, ["list", 0]), ["list"], None, held)) == (
        json.loads(text)
    )


@given(st.lists(values, min_size=1, max_size=4), layouts, st.data())
def test_any_member_can_be_taken_out(
    held: list[Any], layout: dict[str, Any], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(held) - 1))
    shorter = take_out(json.dumps(held, **layout), [place])
    assert json.loads(shorter) == held[:place] + held[place + 1 :]


def test_of_two_members_with_one_name_the_last_counts() -> None:
    text = '{"a": 1, "a": 2}'
    assert text[find(text, ["a"])] == "2"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_new_line_ends_as_the_others_do(newline: str) -> None:
    text = newline.join(["{", '    "a": 1', "}"])
    assert put_last(text, [], "b", 2) == newline.join(["{", '    "a": 1,', '    "b": 2', "}"])
