"""Persistent agent memory: a directory of notes per type of sub-agent."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.config.definition_directories import read_text
from turnlog.agent.workspace.project_directories import CONFIG, is_within, project_root

FOLDERS = {"project": "agent-memory", "local": "agent-memory-local"}
"""Directories below the project's `.claude`; user memory lies in the store (documented)."""
BY_PROJECT = "agent-memory-projects"
"""Directory in the store for user-level memory of agents that a project defines."""
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
    agent: AgentDefinition,
    home: Path,
    root: Path,
    environment: Mapping[str, str] = os.environ,
) -> Path | None:
    """Return the folder of an agent's memory, if it has one; `home` is the store's folder."""
    name, scope = agent.name, agent.memory
    if not PLAIN.fullmatch(name) or environment.get(OFF, "0") not in ("", "0", "false"):
        return None
    if scope == "user":
        # A project must not name its agent `reviewer` to get at the notes of the user's reviewer.
        return home / (_place_of(root) if agent.is_project else Path("agent-memory")) / name
    if scope not in FOLDERS:
        return None
    place = Path(CONFIG, FOLDERS[scope], name)
    # The agent writes there without asking: a link in the path could lead to ~/.ssh or .git/hooks.
    return root / place if (root / place).resolve() == root.resolve() / place else None


def _place_of(root: Path) -> Path:
    """Return a project's folder for user-level memory, named by a hash of its path.

    Escaped paths would be ambiguous: `/a/b-c` and `/a/b/c` could share a name.
    """
    project = project_root(root).resolve()
    return Path(BY_PROJECT, hashlib.sha256(os.fsencode(project)).hexdigest()[:16])


def memory_context(folder: Path) -> str:
    """Return the prompt part that explains the memory, with the start of its index."""
    path = folder / LIST
    # The agent writes to this folder without asking, so it could link to a file it may not read.
    listed = (read_text(path) or "") if is_within(path, [folder]) else ""
    raw = "\n".join(listed.splitlines()[:MOST_LINES]).encode()[:MOST_BYTES]
    start = raw.decode("utf-8", "ignore").strip()
    head = KEPT.format(folder=folder, list=LIST)
    if not start:
        return f"{head}\n\n{LIST} is empty."
    rest = "" if start == listed.strip() else "\n\n(This is only its start: make it shorter.)"
    return f"{head}\n\n{LIST} says:\n\n{start}{rest}"
