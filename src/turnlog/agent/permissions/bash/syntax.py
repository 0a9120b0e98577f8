"""The syntax tree of a bash command, flattened into the programs that it would run.

A word holds the text that the program receives, with a `HOLE` for what is only known at run time.
"""

from msgspec import Struct, field
from msgspec.structs import replace

HOLE = "\x00"
"""Stands for text that is only known when the command runs, such as the value of `$x`."""


class Word(Struct, frozen=True):
    """A word after quote removal."""

    text: str
    glob: str | None = None
    """The word as a pattern, quoted characters escaped, if it has unquoted glob characters."""
    has_tilde: bool = False
    """True if it starts with an unquoted tilde."""
    source: str = ""
    """The word as it was typed."""
    start: int = -1
    """Offset of `source` in the command; -1 for a word in backticks or in a here-document."""
    may_split: bool = False
    """True if it may become several arguments, or none, as an unquoted `$x` may."""
    is_input: bool = False
    """True if it is exactly one `<(…)`: the name of a pipe with the output of a command."""

    @property
    def has_glob(self) -> bool:
        return self.glob is not None

    @property
    def is_known(self) -> bool:
        """True if the program receives exactly `text`."""
        return HOLE not in self.text and self.glob is None and not self.has_tilde

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
    is_fed: bool = False
    """True if a pipe, a here-document or a redirection gives it input."""
    copies: tuple[Word, ...] = ()
    """The targets of redirections that copy or close a descriptor, such as `1` in `2>&1`."""


class Script(Struct):
    """All parts of a command, in the order in which they are written."""

    parts: list[SimpleCommand] = field(default_factory=list[SimpleCommand])
    unclear: list[str] = field(default_factory=list[str])
    """Reasons why the parser is not certain what would run."""
    is_misread: bool = False
    """True if the parts may not be what would run: the parser failed, or bash disagrees."""
    inputs: list[str] = field(default_factory=list[str])
    """The texts of here-documents and here-strings."""
    backticked: list[str] = field(default_factory=list[str])
    """The commands between backticks, which bash parses only when it runs them."""
    evaluated: list[str] = field(default_factory=list[str])
    """The sources of arithmetic, of subscripts and of expansions other than `${name}`.

    In some of them, bash evaluates the values of variables as code.
    """
    loop_words: dict[str, list[Word]] = field(default_factory=dict[str, list[Word]])
    """The words that the variables of `for` and `select` take as values."""
    has_loop: bool = False
    """True if a part may run more than once."""
    has_background: bool = False
    """True if a part runs in the background, by `&`."""
    is_concurrent: bool = False
    """True if parts may run at the same time: in a pipeline, in the background or in `<(…)`."""

    @property
    def is_ordered(self) -> bool:
        """True if each part ends before the next one starts, in the order of `parts`.

        An unclear script has no order: the body of a function precedes code that runs before it.
        """
        return not (self.is_concurrent or self.has_loop or self.unclear)


def detached(parts: list[SimpleCommand]) -> list[SimpleCommand]:
    """Return the parts of a nested text, without word offsets: they do not fit the command."""
    return [
        replace(part, words=tuple(replace(word, start=-1) for word in part.words)) for part in parts
    ]
