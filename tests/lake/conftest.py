from pathlib import Path

import pytest


@pytest.fixture
def dest(tmp_path: Path) -> str:
    """A directory for a lake."""
    return str(tmp_path / "lake")
