"""A directory for tools to work in; results must fit the format's types."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tool_calls import Calls


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    calls = Calls(tmp_path)
    yield calls
    assert calls.unknown(tmp_path / "kept.jsonl") == []
