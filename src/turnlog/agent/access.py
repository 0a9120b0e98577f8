"""What a call would touch: what permissions decide about."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct


class Runs(Struct, frozen=True, tag=True):
    """A shell command."""

    command: str


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
