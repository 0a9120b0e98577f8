"""Whether what a directory brings along may be honoured: its settings can run commands here.

Asked once for each directory that brings anything. What the client was told counts as well.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnlog.agent.permissions import Kind, Verdict
from turnlog.agent.turn.asking import Ask, Question
from turnlog.errors import UsageError
from turnlog.format.fields import is_array, is_object
from turnlog.store.objects import write_whole
from turnlog.store.paths import Store, trust_file

TRUST = "Trust"
"""What the question is asked about, in the place of a tool."""
BROUGHT = (".claude", ".mcp.json")


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


def is_trusted(store: Store, root: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user trusts a directory, or one above it."""
    places = [str(place) for place in (root, *root.parents)]
    known = _trusted_here(trust_file(environment))
    projects = _held(store.client_state(environment)).get("projects")
    projects = projects if is_object(projects) else {}
    return any(place in known or _is_accepted(projects.get(place)) for place in places)


def _is_accepted(project: Any) -> bool:
    return is_object(project) and project.get("hasTrustDialogAccepted") is True


def _trusted_here(path: Path) -> list[str]:
    with suppress(OSError, ValueError):
        held = json.loads(path.read_bytes())
        return [each for each in held if isinstance(each, str)] if is_array(held) else []
    return []


def _held(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        held = json.loads(path.read_bytes())
        return held if is_object(held) else {}
    return {}
