"""What a command may do: derived from the basis it is allowed on, the rules and the settings.

A profile is pure data; `masks` looks up on disk what it hides, `bubblewrap` and `seatbelt` enforce
it.
"""

from pathlib import Path

from msgspec import Struct

from turnlog.agent.workspace.access import Basis
from turnlog.agent.workspace.sandbox.patterns import PathPattern
from turnlog.agent.workspace.sandbox.settings import Confinement

UNASKED = (Basis.READ, Basis.WRITE)
"""Bases of commands that run only because the sandbox contains them."""


class Profile(Struct, frozen=True):
    """The boundary of a command."""

    basis: Basis
    roots: tuple[Path, ...]
    """The working directories."""
    hidden: tuple[PathPattern, ...] = ()
    """Files that the command must not read, by rules and settings."""
    locked: tuple[PathPattern, ...] = ()
    """Files that it must not change."""
    shown: tuple[PathPattern, ...] = ()
    """Files outside of the working directories that rules allow reading."""
    programs: tuple[str, ...] = ()
    """Programs that deny rules name as a whole: `Bash(curl:*)`."""
    settings: Confinement = Confinement()
    is_bare: bool = False
    """True if the user confirmed to run it without a sandbox."""

    @property
    def is_unasked(self) -> bool:
        """True if it may run in a sandbox only."""
        return self.basis in UNASKED

    @property
    def is_needed(self) -> bool:
        """True if anything is to be enforced."""
        if self.is_bare or self.basis is Basis.LISTED:
            return False
        is_restricted = self.hidden or self.locked or self.programs
        return bool(self.is_unasked or self.settings.is_on or is_restricted) or (
            self.basis is Basis.RULE
        )

    @property
    def is_open(self) -> bool:
        """True if the command may write everywhere: the user confirmed it."""
        return not (self.is_unasked or self.basis is Basis.RULE or self.settings.is_on)

    @property
    def writes(self) -> bool:
        """True if the working directories can be written."""
        return self.basis is not Basis.READ

    @property
    def is_online(self) -> bool:
        """True if there is a network."""
        if self.settings.is_on:
            return self.settings.is_online
        return not self.is_unasked

    @property
    def has_sockets(self) -> bool:
        """True if services of this machine can be reached through unix sockets."""
        if self.is_unasked or self.settings.is_on:
            return self.settings.allows_sockets and self.basis is not Basis.READ
        return True

    @property
    def hides_home(self) -> bool:
        """True if files of the user outside of the working directories are hidden."""
        return self.is_unasked
