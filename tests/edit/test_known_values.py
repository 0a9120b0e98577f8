"""Many known values are found at once."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.edit.redact.known_values import KnownValues


def find_one_by_one(values: dict[str, str], text: str) -> Iterator[tuple[int, str, str]]:
    for form, value in values.items():
        at = text.find(form)
        while at >= 0:
            yield at, form, value
            at = text.find(form, at + len(form))


FORMS = st.dictionaries(st.text("ab\\\né", min_size=1, max_size=9), st.text("v"), max_size=9)
TEXTS = st.text("ab\\\né", max_size=60)


@given(FORMS, TEXTS)
def test_all_occurrences_are_found_in_text_and_in_bytes(forms: dict[str, str], text: str) -> None:
    expected = sorted(find_one_by_one(forms, text))
    assert sorted(KnownValues(forms).find(text)) == expected
    raw = KnownValues({form.encode(): value for form, value in forms.items()})
    in_bytes = [(len(text[:at].encode()), form.encode(), value) for at, form, value in expected]
    assert sorted(raw.find(text.encode())) == sorted(in_bytes)


class _Counting(dict[str, str]):
    lookups = 0

    def __contains__(self, key: object) -> bool:
        self.lookups += 1
        return super().__contains__(key)


@pytest.mark.parametrize("count", [100, 1_000])
def test_each_line_is_compared_with_few_values(count: int) -> None:
    random = Random(count)
    values = ["sk-ant-api03-" + f"{random.getrandbits(160):040x}" for _ in range(count)]
    forms = _Counting((value, value) for value in values)
    known = KnownValues(forms)
    assert [list(known.find(f"a {value} b")) for value in values] == [
        [(2, value, value)] for value in values
    ]
    assert forms.lookups <= 2 * count
