"""Arguments told apart: which options are harmless, which arguments are paths."""

import re

from msgspec import Struct

from turnlog.agent.permissions.words import Word

NUMBER = re.compile(r"[-+]?\d+")


class Usage(Struct, frozen=True):
    """How a command may be called so that its operands are all that it touches."""

    flags: str = ""
    """Single letters without a value."""
    valued: str = ""
    """Single letters with a value that is no path."""
    names: tuple[str, ...] = ()
    """Long options, without a value or with one that is no path."""
    others: int = 0
    """Operands in front that are no paths."""
    most: int | None = None
    """Operands that it may have: one more would be written to."""
    takes_numbers: bool = False
    allows_globs: bool = True
    """Whether a name that a pattern finds could do no harm as an option."""


class Operands(Struct, frozen=True):
    """The arguments of a call, told apart."""

    paths: tuple[Word, ...]
    others: tuple[Word, ...]
    letters: frozenset[str]
    """Options that were given, by letter or name."""


def read_operands(arguments: tuple[Word, ...], usage: Usage) -> Operands | None:
    """Tell the arguments of a command apart; None if one of them may do more than is known."""
    found: list[Word] = []
    given: set[str] = set()
    rank, ended = 0, False
    while rank < len(arguments):
        word = arguments[rank]
        rank += 1
        if ended or not word.text.startswith("-") or word.text == "-":
            if not (word.is_known or (word.has_glob and usage.allows_globs)):
                return None
            found.append(word)
        elif word.text == "--":
            ended = True
        else:
            options = _options(word, usage)
            if options is None:
                return None
            given |= options
            rank += _takes_next(word.text, usage)
    if usage.most is not None and len(found) > usage.most:
        return None
    # With these, what would be a pattern is given as an option, or is not needed.
    others = 0 if given & {"e", "--regexp", "--files"} else usage.others
    return Operands(tuple(found[others:]), tuple(found[:others]), frozenset(given))


def loose_paths(arguments: tuple[Word, ...], usage: Usage) -> tuple[Word, ...]:
    """All arguments that may be paths, whatever the options are."""
    return tuple(word for word in arguments if not word.is_option)[usage.others :]


def _options(word: Word, usage: Usage) -> set[str] | None:
    text = word.text
    if not word.is_known:
        return None
    if text.startswith("--"):
        name = text.partition("=")[0]
        return {name} if name in usage.names else None
    if usage.takes_numbers and NUMBER.fullmatch(text):
        return set()
    letters: set[str] = set()
    for letter in text[1:]:
        letters.add(letter)
        if letter in usage.valued:
            return letters
        if letter not in usage.flags:
            return None
    return letters


def _takes_next(text: str, usage: Usage) -> int:
    """1 if the next argument is an option's value."""
    if text.startswith("--") or (usage.takes_numbers and NUMBER.fullmatch(text)):
        return 0
    for place, letter in enumerate(text[1:], 2):
        if letter in usage.valued:
            return int(place == len(text))
    return 0
