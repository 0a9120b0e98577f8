"""Every session becomes rows of plain values, and every export of it succeeds."""

from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

import turnlog
from turnlog.render.export import FORMATS

PLAIN = (str, int, float, bool, datetime, type(None))


def is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return all(type(name) is str and is_plain(each) for name, each in fields.items())
    if isinstance(value, list):
        return all(map(is_plain, cast("list[Any]", value)))
    return type(value) in PLAIN and (not isinstance(value, datetime) or value.tzinfo is not None)


@pytest.mark.parametrize("reveal", [False, True])
def test_rows_have_plain_values(session_file: Path, reveal: bool) -> None:
    session = turnlog.open(reveal=reveal).session(session_file)
    for name in ("turns", "messages", "calls", "files", "cost"):
        assert is_plain(getattr(session, name)), name
    assert is_plain(session.to_dict())
    assert is_plain(session.context())
    assert is_plain(session.check())


def test_every_export_succeeds(session_file: Path, tmp_path: Path) -> None:
    session = turnlog.open().session(session_file)
    for form in FORMATS:
        assert session.export(tmp_path / f"x.{form}", full=True).is_file()
