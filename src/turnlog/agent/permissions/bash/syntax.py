"""A bash command, split into the simple commands that it would run."""

from msgspec import Struct, field

HOLE = "\x00"
"""Stands for text that is only known when the command runs, such as the value of `$x`."""


class Word(Struct, frozen=True):
    """A word after quote removal, with a `HOLE` for each expansion."""

    text: str
    has_glob: bool = False
    """True if it has unquoted pattern characters."""
    has_tilde: bool = False
    """True if it starts with an unquoted tilde."""
    source: str = ""
    """The word as it was typed."""
    may_split: bool = False
    """True if it may become several arguments, or none, as an unquoted `$x` may."""

    @property
    def is_known(self) -> bool:
        """True if the program receives exactly `text`."""
        return HOLE not in self.text and not self.has_glob and not self.has_tilde

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-") and self.text != "-"


UNKNOWN = Word(HOLE, may_split=True)


class Assignment(Struct, frozen=True):
    """A variable that is set before a program starts, or for the rest of the script."""

    name: str
    value: Word


class Redirect(Struct, frozen=True):
    """A redirection to or from a file."""

    target: Word
    is_write: bool


class SimpleCommand(Struct, frozen=True):
    """One program with its arguments, or assignments and redirections without a program."""

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    source: str = ""
    is_test: bool = False
    """True if it is a `[[ … ]]` condition; its words are the operators and operands."""


class Script(Struct):
    """All simple commands of a command, nested ones included, in the order of their ends."""

    parts: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    problem: str = ""
    """Why the command could not be split with certainty; empty if it was."""
