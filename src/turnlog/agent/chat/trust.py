"""Whether what a directory brings along may be honoured: its settings can run commands here, its
memory files can import others from outside.

Asked once for each directory that brings anything. What the client was told counts as well.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnlog.agent.custom.memory import MemoryFiles
from turnlog.agent.permissions import Kind, Verdict
from turnlog.agent.permissions.asking import Ask, Question
from turnlog.agent.repository import repository_of
from turnlog.errors import UsageError
from turnlog.format.values import is_array, is_object
from turnlog.store.paths import Store, imports_file, trust_file
from turnlog.store.whole import read_object, write_whole

TRUST = "Trust"
"""What the question is asked about, in the place of a tool."""
BROUGHT = (".claude", ".mcp.json")
IMPORTS = "Imports"
APPROVED, ASKED = "hasClaudeMdExternalIncludesApproved", "hasClaudeMdExternalIncludesWarningShown"


async def require_trust(
    store: Store, root: Path, ask: Ask, environment: Mapping[str, str] = os.environ
) -> None:
    """Ask whether a directory is trusted, unless it is known to be, or brings nothing along."""
    brought = [name for name in BROUGHT if (root / name).exists()]
    if not brought or is_trusted(store, root, environment):
        return
    reason = f"what it brings along can run commands: {', '.join(brought)}"
    asked = Question(TRUST, TRUST, {"description": str(root)}, Verdict(Kind.ASK, reason))
    if (await ask(asked)).kind != "allow":
        raise UsageError(f"{root} is not trusted", "start in a folder whose files you trust")
    path = trust_file(environment)
    known = sorted({*_trusted_here(path), str(root)})
    write_whole(path, json.dumps(known, indent=1).encode())


async def ask_for_imports(
    store: Store, root: Path, ask: Ask, environment: Mapping[str, str] = os.environ
) -> None:
    """Ask whether memory files may import what is not of their project, where some do."""
    if _said_of_imports(store, root, environment) is not None:
        return
    found = MemoryFiles(root, store.root).at_start()
    outside = ", ".join(str(memory.path) for memory in found if memory.needs_approval)
    if not outside:
        return
    reason = "they are not of this project, and the model would be shown them"
    asked = Question(IMPORTS, IMPORTS, {"description": outside}, Verdict(Kind.ASK, reason))
    reply = await ask(asked)
    path = imports_file(environment)
    known = read_object(path) | {str(_project_of(root)): reply.kind == "allow"}
    write_whole(path, json.dumps(known, indent=1).encode())


def may_import(store: Store, root: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user agreed that memory files import what is not of their project."""
    return _said_of_imports(store, root, environment) is True


def _said_of_imports(store: Store, root: Path, environment: Mapping[str, str]) -> bool | None:
    """What the user said here, else what the client was told (by the repository: observed)."""
    place = str(_project_of(root))
    own = read_object(imports_file(environment)).get(place)
    if isinstance(own, bool):
        return own
    told = _client_projects(store, environment).get(place)
    held: dict[str, Any] = told if is_object(told) else {}
    return held.get(APPROVED) is True if held.get(APPROVED) or held.get(ASKED) else None


def _project_of(root: Path) -> Path:
    return repository_of(root) or root


def is_trusted(store: Store, root: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user trusts a directory, or one above it."""
    places = [str(place) for place in (root, *root.parents)]
    known = _trusted_here(trust_file(environment))
    projects = _client_projects(store, environment)
    return any(place in known or _is_accepted(projects.get(place)) for place in places)


def _client_projects(store: Store, environment: Mapping[str, str]) -> dict[str, Any]:
    projects = read_object(store.client_state(environment)).get("projects")
    return projects if is_object(projects) else {}


def _is_accepted(project: Any) -> bool:
    return is_object(project) and project.get("hasTrustDialogAccepted") is True


def _trusted_here(path: Path) -> list[str]:
    with suppress(OSError, ValueError):
        held = json.loads(path.read_bytes())
        return [each for each in held if isinstance(each, str)] if is_array(held) else []
    return []
