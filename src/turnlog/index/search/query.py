"""Parse what a user types into an FTS5 query: words, phrases, prefixes, OR, NOT, parentheses.

Any input is valid: only quoted words reach SQLite, so no FTS5 syntax can leak through.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.index.tokenizer import searchable, tokens_of

DEEPEST = 50
"""Maximum nesting of parentheses."""
QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»"}
_SPACE = re.compile(r"[\s\0]*")
_WORD = re.compile(r"[^\s\0]+")
_EXCLUDED = re.compile(r'-(?=["“„«(]|[^\W\d_][^\s)])')


class Term(Struct, frozen=True):
    """A word or phrase as it was typed."""

    text: str
    is_prefix: bool = False

    @property
    def is_literal(self) -> bool:
        """True if the term contains characters that the index does not store, as in "C++"."""
        return not all(sign.isalnum() or sign.isspace() for sign in self.text)


class QueryGroup(Struct, frozen=True):
    """Parts joined by AND or OR."""

    operator: str
    """AND or OR."""
    parts: "tuple[Node, ...]"


class Negation(Struct, frozen=True):
    """A part that must not occur."""

    part: "Node"


Node = Term | QueryGroup | Negation


class Query(Struct, frozen=True):
    """A parsed query."""

    match: str | None
    """The FTS5 expression; None if the index cannot help and every text must be scanned."""
    terms: tuple[Term, ...] = ()
    """The terms to mark in hits."""
    literals: tuple[str, ...] = ()
    """Terms with punctuation: hits that contain them verbatim come first."""
    pattern: re.Pattern[str] | None = None
    """A regular expression that the text must match as well."""
    needle: bytes | None = None
    """Bytes that every matching line contains."""


def parse_query(text: str) -> Query:
    """Parse a query as the user typed it.

    >>> parse_query('fix* "a phrase" -old').match
    '("fix"* AND "a phrase") NOT "old"'
    >>> parse_query("C++ OR (src/a.py --flag)").match
    '"C++" OR ("src/a.py" AND "--flag")'
    """
    text = text.encode("utf-8", "replace").decode()
    if not text.replace("\0", " ").strip():
        raise UsageError("nothing to search for", "turnlog search WORD")
    tree = _Parser(list(_lex(text))).parse()
    if tree is None:
        # Only punctuation or operators, such as "OR": search for them literally.
        tree = _plain(text)
    terms = tuple(_terms(tree))
    literals = tuple(term.text for term in terms if term.is_literal)
    worded = _worded(tree)
    return Query(_expression(worded) if worded else None, terms, literals)


def quoted(text: str, is_prefix: bool = False) -> str:
    """Return words as a quoted FTS5 phrase."""
    words = searchable(text.replace('"', " ").replace("\0", " ")).split()
    return f'"{" ".join(words)}"{"*" if is_prefix else ""}'


def _plain(text: str) -> Node:
    words = tuple(Term(word) for word in _WORD.findall(text))
    return words[0] if len(words) == 1 else QueryGroup("AND", words)


# Lexer: text to terms and the operators ( ) AND OR NOT.

Piece = Term | str


def _lex(text: str) -> Iterator[Piece]:
    position, depth = 0, 0
    while (position := _skip(_SPACE, text, position)) < len(text):
        sign = text[position]
        if sign in "()":
            depth += 1 if sign == "(" else -1
            position += 1
            yield sign
        elif excluded := _EXCLUDED.match(text, position):
            position = excluded.end()
            yield "NOT"
        elif sign in QUOTES:
            position, phrase = _phrase(text, position)
            yield phrase
        else:
            word = text[position : _skip(_WORD, text, position)]
            # "(a OR foo())" closes one group: the last parenthesis is an operator, "foo()" a word.
            word = word[: len(word) - min(_unopened(word), max(0, depth))]
            position += len(word)
            yield word if word in ("AND", "OR", "NOT") else _term(word)


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _phrase(text: str, position: int) -> tuple[int, Term]:
    end = text.find(QUOTES[text[position]], position + 1)
    end = len(text) if end < 0 else end
    is_prefix = text[end + 1 : end + 2] == "*"
    return end + 1 + is_prefix, Term(text[position + 1 : end], is_prefix)


def _unopened(word: str) -> int:
    """Count the closing parentheses at the end of a word that the word did not open.

    >>> _unopened("b)"), _unopened("foo()"), _unopened("foo())")
    (1, 0, 1)
    """
    closing = len(word) - len(word.rstrip(")"))
    return max(0, min(closing, word.count(")") - word.count("(")))


def _term(word: str) -> Term:
    body = word.rstrip("*")
    if not body or body == word:
        return Term(word)
    return Term(body, is_prefix=body[-1].isalnum())


# Parser: tokens to a tree.


class _Parser:
    """A recursive-descent parser that skips tokens it cannot place, such as a trailing OR."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces[::-1]
        self.depth = 0

    def parse(self) -> Node | None:
        parts: list[Node] = []
        while self.pieces:
            parts += self._either()
            if self.pieces:
                self.pieces.pop()  # an unmatched closing parenthesis
        return _joined("AND", parts)

    def _either(self) -> list[Node]:
        choices = [self._all()]
        while self.pieces and self.pieces[-1] == "OR":
            self.pieces.pop()
            choices.append(self._all())
        found = [node for parts in choices if (node := _joined("AND", parts))]
        node = _joined("OR", found)
        return [node] if node else []

    def _all(self) -> list[Node]:
        parts: list[Node] = []
        while self.pieces and self.pieces[-1] not in ("OR", ")"):
            parts += self._one()
        return parts

    def _one(self) -> list[Node]:
        piece = self.pieces.pop()
        match piece:
            case "(":
                return self._group()
            case "NOT":
                return self._negated()
            case "AND":
                return []
            case _:
                return [piece] if isinstance(piece, Term) else []

    def _group(self) -> list[Node]:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UsageError(
                f"parentheses are nested more than {DEEPEST} levels deep", "turnlog search WORD"
            )
        found = self._either()
        if self.pieces:
            self.pieces.pop()
        self.depth -= 1
        return found

    def _negated(self) -> list[Node]:
        times = 1
        while self.pieces and self.pieces[-1] == "NOT":
            self.pieces.pop()
            times += 1
        found = self._one() if self.pieces and self.pieces[-1] not in ("OR", ")") else []
        # An even number of NOTs cancels out.
        return [Negation(node) for node in found] if times % 2 else found


def _joined(operator: str, parts: list[Node]) -> Node | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return QueryGroup(operator, tuple(parts))


# Generator: tree to FTS5 expression.


def _terms(node: Node) -> Iterator[Term]:
    """Yield the terms that a hit may contain, omitting negated ones."""
    if isinstance(node, Term):
        yield node
    elif isinstance(node, QueryGroup):
        for part in node.parts:
            yield from _terms(part)


def _worded(node: Node) -> Node | None:
    """Return the tree without terms that contain no word; None if nothing remains."""
    match node:
        case Term():
            return node if tokens_of(node.text) else None
        case Negation():
            inner = _worded(node.part)
            return Negation(inner) if inner else None
        case QueryGroup():
            parts = [worded for part in node.parts if (worded := _worded(part))]
            return _joined(node.operator, parts)


def _expression(node: Node) -> str:
    match node:
        case Term():
            return quoted(node.text, node.is_prefix)
        case Negation():
            raise UsageError("NOT needs a word to exclude from", "turnlog search 'WORD NOT OTHER'")
        case QueryGroup():
            kept = [part for part in node.parts if not isinstance(part, Negation)]
            dropped = [part.part for part in node.parts if isinstance(part, Negation)]
            # FTS5's NOT is binary, "a NOT b": there is no way to express "everything but b".
            if not kept or (dropped and node.operator == "OR"):
                return _expression(Negation(node))
            required = f" {node.operator} ".join(map(_nested, kept))
            if not dropped:
                return required
            required = required if len(kept) == 1 else f"({required})"
            return f"{required} NOT {_nested(_joined('OR', dropped) or dropped[0])}"


def _nested(node: Node) -> str:
    inner = _expression(node)
    return inner if isinstance(node, Term) else f"({inner})"
