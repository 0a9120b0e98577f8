"""What a call would touch: what permissions decide about."""

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
