"""Cut the snippet around a match, with matches marked and secrets masked."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from msgspec import Struct

from turnlog.index.search.query import Query, Term
from turnlog.index.tokenizer import composed, folded, is_unspaced, tokens_of
from turnlog.secrets import Secret, find_secrets, mask, placeholder_for

LENGTH = 240
"""Length of a snippet in characters."""
LEAD = 60
"""Characters before the first match."""
MOST = 200
"""Maximum number of matches per term."""
AROUND = 16384
"""Characters on both sides of a snippet that are scanned for secrets reaching into it."""

Span = tuple[int, int]
Finder = Callable[[str], list[list[Span]]]
"""Returns the spans of each search term in a text."""


class Snippet(Struct, frozen=True):
    text: str
    marks: list[Span]
    """Spans of the matches in `text`."""


def finder_of(query: Query) -> Finder:
    """Return a function that finds the terms of a query in a text."""
    if query.pattern is not None:
        pattern = query.pattern
        return lambda text: [list(islice(_spans(pattern, text), MOST))]
    finders = [_term_finder(term) for term in dict.fromkeys(query.terms)]
    return lambda text: _places(finders, text)


def snippet_of(text: str, find: Finder, reveal: bool = False) -> Snippet:
    """Return the snippet around the matches of a text, or its start if nothing matches."""
    text = composed(text)
    places = find(text)
    first = _best_start(places)
    start = _word_start(text, max(0, first - LEAD), first)
    end = min(len(text), start + LENGTH)
    secrets = [] if reveal else list(_secrets_near(text, start, end))
    marks = [span for spans in places for span in spans if start <= span[0] < end]
    shown = _assembled(text, (start, end), _merged(marks), secrets)
    # Cutting can expose a secret that was not recognizable in its context: mask the result as well.
    # The offsets of the marks no longer fit then, so they are dropped.
    masked = shown.text if reveal else mask(shown.text)
    return shown if masked == shown.text else Snippet(masked, [])


def _places(finders: list[Callable[[str], list[Span]]], text: str) -> list[list[Span]]:
    plain = folded(text)
    return [find(plain) for find in finders]


def _term_finder(term: Term) -> Callable[[str], list[Span]]:
    """Return a function that finds a term in a folded text: verbatim, else as FTS5 matches it."""
    literal = re.compile(re.escape(folded(composed(term.text))))
    tokens = tokens_of(composed(term.text))
    phrase = re.compile(r"[\W_]*".join(map(re.escape, tokens)))

    def find(text: str) -> list[Span]:
        found = list(islice(_spans(literal, text), MOST)) if term.is_literal else []
        if found or not tokens:
            return found
        spans = (span for span in _spans(phrase, text) if _is_apart(text, span, term.is_prefix))
        return list(islice(spans, MOST))

    return find


def _is_apart(text: str, span: Span, is_prefix: bool) -> bool:
    """Return whether a span starts and ends at word boundaries."""
    start, end = span
    starts = start == 0 or _is_edge(text[start - 1], text[start])
    return starts and (is_prefix or end == len(text) or _is_edge(text[end - 1], text[end]))


def _is_edge(before: str, after: str) -> bool:
    letters = before.isalnum() and after.isalnum()
    return not letters or is_unspaced(before) or is_unspaced(after)


def _spans(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    return (found.span() for found in pattern.finditer(text) if found.end() > found.start())


def _best_start(places: list[list[Span]]) -> int:
    """Return the earliest position at which the most different terms occur close together."""
    spans = sorted((start, rank) for rank, found in enumerate(places) for start, _ in found)
    best, most = 0, 0
    for number, (start, _) in enumerate(spans):
        near = {rank for at, rank in spans[number : number + MOST] if at < start + LENGTH - LEAD}
        if len(near) > most:
            best, most = start, len(near)
        if most == len(places):
            break
    return best


def _word_start(text: str, start: int, limit: int) -> int:
    """Return the start of the next word before `limit`, or `start` if there is none."""
    if start == 0:
        return 0
    space = re.compile(r"\s\S").search(text, start - 1, limit + 1)
    return space.end() - 1 if space else start


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _secrets_near(text: str, start: int, end: int) -> Iterator[Secret]:
    """Yield the secrets that overlap a part of a text."""
    shift = max(0, start - AROUND)
    for secret in find_secrets(text[shift : end + AROUND]):
        kind, first, last = secret.kind, secret.start + shift, secret.end + shift
        if first < end and last > start:
            yield Secret(kind, first, last)


def _assembled(text: str, part: Span, marks: list[Span], secrets: list[Secret]) -> Snippet:
    """Return a part of a text with its marks shifted and its secrets replaced by placeholders."""
    start, end = part
    shown = "…" if start else ""
    kept: list[Span] = []
    # Each round copies the text up to the next secret, then the placeholder; None is the end.
    for secret in [*secrets, None]:
        until = secret.start if secret else end
        shift = len(shown) - start
        kept += [
            (max(first, start) + shift, min(last, until) + shift)
            for first, last in marks
            if first < until and last > start
        ]
        shown += text[start:until]
        if secret:
            shown += placeholder_for(secret.kind, text[secret.start : secret.end])
            start = max(start, secret.end)
    return Snippet(shown + ("…" if end < len(text) else ""), kept)
