"""The session files to test against: samples, those in this folder, and a corpus if named."""

import os
from pathlib import Path

HERE = Path(__file__).parent
SAMPLES = HERE.parent.parent / "src" / "turnlog" / "samples"

CLIENT_FILES = sorted([*HERE.glob("client/*.jsonl"), *SAMPLES.glob("projects/**/*.jsonl")])
"""Files as clients write them, without damage."""


def session_files() -> list[Path]:
    """Every file; `TURNLOG_CORPUS` names a folder with more of them."""
    folders = [SAMPLES, HERE]
    if corpus := os.environ.get("TURNLOG_CORPUS"):
        folders.append(Path(corpus))
    return sorted(path for folder in folders for path in folder.rglob("*.jsonl"))
