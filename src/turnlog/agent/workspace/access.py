"""What permissions decide about: what a call would touch, the mode, and what a grant rests on."""

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct


class ApprovalMode(StrEnum):
    """How much is done without asking; values as the client has them."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    BYPASS = "bypassPermissions"


class Basis(StrEnum):
    """What an allowed call rests on, from the narrowest to the widest."""

    UNDERSTOOD = "understood"
    """Analyzed as reading only."""
    EDITS = "edits"
    """Writes in the working directories, in the mode acceptEdits."""
    RULE = "rule"
    HOOK = "hook"
    USER = "user"
    """A person confirmed this very call."""
    BYPASS = "bypass"


class DirectoryUse(Struct, frozen=True):
    """The directories that a command depends on."""

    places: tuple[Path, ...] = ()
    """Where its parts may run."""
    displaced: tuple[Path, ...] = ()
    """What it moves or removes."""


class Runs(Struct, frozen=True, tag=True):
    """A shell command."""

    command: str
    in_background: bool = False
    running: tuple[DirectoryUse, ...] = ()
    """Commands that run at the same time."""


class Reads(Struct, frozen=True, tag=True):
    """A file or folder that is read."""

    path: Path


class Writes(Struct, frozen=True, tag=True):
    """A file that is made, changed or removed."""

    path: Path


class Fetches(Struct, frozen=True, tag=True):
    """An address on the web."""

    url: str


class Uses(Struct, frozen=True, tag=True):
    """Nothing but the tool itself."""

    what: str | None = None
    """What a rule may name in brackets: an agent, a skill."""
    server: str | None = None
    """The MCP server that the tool belongs to, as tool names spell it."""


Access = Runs | Reads | Writes | Fetches | Uses


def targets_of(accesses: Iterable[Access]) -> dict[Path, Path]:
    """Resolve the paths that a call names: where each leads now."""
    paths = [access.path for access in accesses if isinstance(access, Reads | Writes)]
    return {path: Path(os.path.realpath(path)) for path in paths}


def with_targets(accesses: Iterable[Access], targets: dict[Path, Path]) -> list[Access]:
    """Add what the paths of a call lead to, so that the verdict is about that as well."""
    found: list[Access] = []
    for access in accesses:
        found.append(access)
        if isinstance(access, Reads | Writes) and targets[access.path] != access.path:
            found.append(type(access)(targets[access.path]))
    return found
