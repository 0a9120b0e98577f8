"""Compile a regular expression, and derive index queries that narrow down where it can match.

Every text that the expression matches also matches the derived queries; the reverse need not hold.
"""

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
"""Marks a position in a run where a word must end: a word boundary, or the end of the text."""
_SURE = re.compile(rf"[\0\x20-\x7e{UNSPACED}]+")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_RAW = re.compile(r"[\x20-\x7e]+")
_SPELT = re.compile(r'[^"/\\]+')
_CASELESS = re.compile(r"\(\?[a-zA-Z]*i")


def parse_pattern(text: str) -> Query:
    """Compile a regular expression and the queries derived from it.

    >>> parse_pattern(r"def test_(cart|shop)_total\\(").match
    '"test_" AND "total("'
    """
    if not text:
        raise UsageError("nothing to search for", "turnlog search --regex PATTERN")
    with catch_warnings():
        simplefilter("ignore")  # such as FutureWarning: Possible nested set
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
        raise UsageError(f"{text!r} is not a regular expression: {error}", hint) from error


def literal_query(text: str) -> Query:
    """Return a query for a text without any words, such as `=>`."""
    return Query(match=None, pattern=re.compile(re.escape(text)), needle=_needle([text]))


def _expression(runs: Iterable[str]) -> str | None:
    phrases = [phrase for run in runs for part in _SURE.findall(run) for phrase in _phrases(part)]
    return " AND ".join(dict.fromkeys(phrases)) or None


def _phrases(run: str) -> Iterator[str]:
    """Yield the phrase that the index must contain for a literal part of a pattern.

    The first word may be the tail of a longer word, which the index cannot find: it is dropped. The
    last word may be the head of one: it becomes a prefix.
    """
    # For example "st_total" also occurs in "test_total": only "total" can be queried, and as the
    # prefix total* since the text may continue with "totals".
    found = list(_WORD.finditer(run))
    if found and found[0].start() == 0 and not re.match(f"[{UNSPACED}]", run):
        del found[0]
    if found:
        yield quoted(run[found[0].start() :], is_prefix=found[-1].end() == len(run))


def _needle(runs: Iterable[str], is_caseless: bool = False) -> bytes | None:
    """Return the longest literal of a pattern that all JSON writers spell alike."""
    # Quotes, slashes, backslashes and non-ASCII characters can be escaped in JSON or not ("/" or
    # "\/"), so they end a part.
    parts = [part for run in runs for raw in _RAW.findall(run) for part in _SPELT.findall(raw)]
    return None if is_caseless or not parts else max(parts, key=len).encode()


def _runs_in(text: str) -> Iterator[str]:
    """Yield the literal parts that every match contains, as far as the parser shows them."""
    try:
        yield from _runs(parser.parse(text))
    except (AttributeError, RecursionError):
        # `re._parser` is private and may change: without runs, every text is scanned.
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
