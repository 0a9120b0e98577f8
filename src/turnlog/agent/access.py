"""What permissions decide about: what a call would touch, and in which mode."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct


class Mode(StrEnum):
    """How much is done without asking; values as the client has them."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    BYPASS = "bypassPermissions"


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
    server: str | None = None
    """The MCP server that the tool belongs to, as tool names spell it."""


Access = Runs | Reads | Writes | Fetches | Uses
