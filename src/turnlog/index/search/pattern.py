"""A regular expression, and what can be told from it about the texts that it matches."""

import re
from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Any
from warnings import catch_warnings, simplefilter

from turnlog.errors import UsageError
from turnlog.index.search.query import Query, quoted
from turnlog.index.tokenizer import UNSPACED

try:
    from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
except ImportError:
    parser: Any = None
EDGE = "\0"
"""Where a word cannot go on."""
_SURE = re.compile(rf"[\0\x20-\x7e{UNSPACED}]+")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_RAW = re.compile(r"[\x20-\x7e]+")
_SPELT = re.compile(r'[^"/\\]+')
_CASELESS = re.compile(r"\(\?[a-zA-Z]*i")


def parse_pattern(text: str) -> Query:
    """Understand a regular expression.

    >>> parse_pattern(r"def test_(cart|shop)_total\\(").match
    '"test_" AND "total("'
    """
    if not text:
        raise UsageError("nothing to search for", "turnlog search --regex PATTERN")
    with catch_warnings():
        simplefilter("ignore")  # such as that [[ may come to mean something else
        pattern = _compiled(text)
        runs = list(_runs_in(text))
    return Query(
        match=_expression(runs), pattern=pattern, needle=_needle(runs, bool(_CASELESS.search(text)))
    )


def _compiled(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        hint = f"turnlog search {quote(text)}"
        raise UsageError(f"{text!r} is no regular expression: {error}", hint) from error


def literal_query(text: str) -> Query:
    """A query for a text that has no word in it."""
    return Query(match=None, pattern=re.compile(re.escape(text)), needle=_needle([text]))


def _expression(runs: Iterable[str]) -> str | None:
    phrases = [phrase for run in runs for part in _SURE.findall(run) for phrase in _phrases(part)]
    return " AND ".join(dict.fromkeys(phrases)) or None


def _phrases(run: str) -> Iterator[str]:
    """What the index must have of a text that is part of a longer one.

    A word at its start may be the end of a longer one, which the index does not find; a word at its
    end may be the start of one.
    """
    found = list(_WORD.finditer(run))
    if found and found[0].start() == 0 and not re.match(f"[{UNSPACED}]", run):
        del found[0]
    if found:
        yield quoted(run[found[0].start() :], is_prefix=found[-1].end() == len(run))


def _needle(runs: Iterable[str], is_caseless: bool = False) -> bytes | None:
    """The longest text that a line must have, as every writer of JSON spells it."""
    parts = [part for run in runs for raw in _RAW.findall(run) for part in _SPELT.findall(raw)]
    return None if is_caseless or not parts else max(parts, key=len).encode()


def _runs_in(text: str) -> Iterator[str]:
    """The texts that every match holds, as far as they are plain to see."""
    try:
        yield from _runs(parser.parse(text))
    except (AttributeError, RecursionError):
        return


def _runs(parsed: Any) -> Iterator[str]:
    run = ""
    for operator, argument in parsed:
        name = str(operator)
        if name == "LITERAL":
            run += chr(argument)
            continue
        if name == "AT" and str(argument) != "AT_NON_BOUNDARY":
            run += EDGE
            continue
        yield run
        run = ""
        if name == "SUBPATTERN":
            yield from _runs(argument[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] > 0:
            yield from _runs(argument[2])
    yield run
