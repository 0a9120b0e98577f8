"""The lasting memory of a kind of sub-agent: a folder of notes that it keeps from task to task."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from turnlog.agent.config.definition_directories import read_text
from turnlog.agent.workspace.project_directories import CONFIG, is_within

FOLDERS = {"project": "agent-memory", "local": "agent-memory-local"}
"""Below `.claude` of the project; that of the user lies in the store (as documented)."""
PLAIN = re.compile(r"\w[\w .-]*")
LIST = "MEMORY.md"
MOST_LINES = 200
MOST_BYTES = 25_000
OFF = "CLAUDE_CODE_DISABLE_AUTO_MEMORY"
KEPT = """\
You have a memory that lasts from one task to the next: the notes in {folder}, which exists. Look \
there for what helps before you start, and write down what a later task should know and cannot \
learn from the files themselves: what the user wants, what was found out, what did not work. One \
subject to a file; {list} has a line for each, and its start is shown to you. Correct what has \
changed, remove what no longer counts, and keep no secrets there."""


def memory_folder(
    name: str,
    scope: str | None,
    home: Path,
    root: Path,
    environment: Mapping[str, str] = os.environ,
) -> Path | None:
    """Where a kind of sub-agent keeps its memory, if it has one; `home` is the store's folder."""
    if not PLAIN.fullmatch(name) or environment.get(OFF, "0") not in ("", "0", "false"):
        return None
    if scope == "user":
        return home / "agent-memory" / name
    if scope not in FOLDERS:
        return None
    place = Path(CONFIG, FOLDERS[scope], name)
    # Its files are written without asking: a link on the way could lead to ~/.ssh or .git/hooks.
    return root / place if (root / place).resolve() == root.resolve() / place else None


def memory_told(folder: Path) -> str:
    """What a sub-agent is told of its memory, with the start of the list of its notes."""
    path = folder / LIST
    listed = (read_text(path) or "") if is_within(path, [folder]) else ""
    raw = "\n".join(listed.splitlines()[:MOST_LINES]).encode()[:MOST_BYTES]
    start = raw.decode("utf-8", "ignore").strip()
    told = KEPT.format(folder=folder, list=LIST)
    if not start:
        return f"{told}\n\n{LIST} is empty."
    rest = "" if start == listed.strip() else "\n\n(This is only its start: make it shorter.)"
    return f"{told}\n\n{LIST} says:\n\n{start}{rest}"
