"""turnlog and the Agent SDK's readers agree, or the page about the format explains why not."""

from pathlib import Path

import pytest

from data.files import session_files
from support.sdk_agreement import REASONS, disagreements, placed, reason_for

PAGE = Path(__file__).parents[2] / "docs" / "session-format.md"
NASTY = "nasty.jsonl"
"""Bytes that are not UTF-8, at which the SDK raises an error."""
FILES = [path for path in session_files() if path.stat().st_size and path.name != NASTY]


@pytest.mark.parametrize("path", FILES, ids=[f"{path.parent.name}/{path.name}" for path in FILES])
def test_differences_have_a_documented_reason(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    with placed(content, tmp_path) as session:
        found = list(disagreements(session))
    assert [each for each in found if reason_for(each, content) is None] == []


def test_the_page_explains_each_reason() -> None:
    page = PAGE.read_text("utf-8")
    assert [name for name in REASONS if f"| `{name}` |" not in page] == []
