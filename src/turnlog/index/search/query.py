"""What a user types, as the index is asked: words, phrases, prefixes, OR, NOT, parentheses.

Whatever is typed has a meaning: what reaches SQLite is made of quoted words alone.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.index.tokenizer import searchable, tokens_of

DEEPEST = 50
"""How deep parentheses may nest."""
QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»"}
_SPACE = re.compile(r"[\s\0]*")
_WORD = re.compile(r"[^\s\0]+")
_EXCLUDED = re.compile(r'-(?=["“„«(]|[^\W\d_][^\s)])')


class Term(Struct, frozen=True):
    """A word or a phrase, as it was typed."""

    text: str
    is_prefix: bool = False

    @property
    def is_literal(self) -> bool:
        """Whether it holds signs that the index does not keep."""
        return not all(sign.isalnum() or sign.isspace() for sign in self.text)


class QueryGroup(Struct, frozen=True):
    """Parts that must all occur, or of which one must."""

    operator: str
    """AND or OR."""
    parts: "tuple[Node, ...]"


class Negation(Struct, frozen=True):
    part: "Node"


Node = Term | QueryGroup | Negation


class Query(Struct, frozen=True):
    """A query, understood."""

    match: str | None
    """As the index is asked; None if it cannot tell, so that every text must be looked through."""
    terms: tuple[Term, ...] = ()
    """What a hit has, or some of it."""
    literals: tuple[str, ...] = ()
    """Texts with signs in them: hits that have them as they are come first."""
    pattern: re.Pattern[str] | None = None
    """What a text must match as well."""
    needle: bytes | None = None
    """What is in every line that has such a text."""


def parse_query(text: str) -> Query:
    """Understand what was typed.

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
        # Signs or operators alone: they are what is looked for.
        tree = _plain(text)
    terms = tuple(_terms(tree))
    literals = tuple(term.text for term in terms if term.is_literal)
    worded = _worded(tree)
    return Query(_expression(worded) if worded else None, terms, literals)


def quoted(text: str, is_prefix: bool = False) -> str:
    """Words as a phrase in the language of the index."""
    words = searchable(text.replace('"', " ").replace("\0", " ")).split()
    return f'"{" ".join(words)}"{"*" if is_prefix else ""}'


def _plain(text: str) -> Node:
    words = tuple(Term(word) for word in _WORD.findall(text))
    return words[0] if len(words) == 1 else QueryGroup("AND", words)


# From text to pieces: terms, and the signs ( ) AND OR NOT.

Piece = Term | str


def _lex(text: str) -> Iterator[Piece]:
    place, depth = 0, 0
    while (place := _skip(_SPACE, text, place)) < len(text):
        sign = text[place]
        if sign in "()":
            depth += 1 if sign == "(" else -1
            place += 1
            yield sign
        elif excluded := _EXCLUDED.match(text, place):
            place = excluded.end()
            yield "NOT"
        elif sign in QUOTES:
            place, phrase = _phrase(text, place)
            yield phrase
        else:
            word = text[place : _skip(_WORD, text, place)]
            word = word[: len(word) - min(_unopened(word), max(0, depth))]
            place += len(word)
            yield word if word in ("AND", "OR", "NOT") else _term(word)


def _skip(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


def _phrase(text: str, place: int) -> tuple[int, Term]:
    end = text.find(QUOTES[text[place]], place + 1)
    end = len(text) if end < 0 else end
    is_prefix = text[end + 1 : end + 2] == "*"
    return end + 1 + is_prefix, Term(text[place + 1 : end], is_prefix)


def _unopened(word: str) -> int:
    """How many parentheses at a word's end close what the word did not open.

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


# From pieces to a tree.


class _Parser:
    """Reads pieces; those that make no sense where they stand are passed over."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces[::-1]
        self.depth = 0

    def parse(self) -> Node | None:
        parts: list[Node] = []
        while self.pieces:
            parts += self._either()
            if self.pieces:
                self.pieces.pop()  # a parenthesis that nothing opened
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
            raise UsageError("the parentheses nest too deeply", "turnlog search WORD")
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
        return [Negation(node) for node in found] if times % 2 else found


def _joined(operator: str, parts: list[Node]) -> Node | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return QueryGroup(operator, tuple(parts))


# From a tree to what the index is asked.


def _terms(node: Node) -> Iterator[Term]:
    """The terms that a hit may have."""
    if isinstance(node, Term):
        yield node
    elif isinstance(node, QueryGroup):
        for part in node.parts:
            yield from _terms(part)


def _worded(node: Node) -> Node | None:
    """A tree without the terms that hold no word."""
    match node:
        case Term():
            return node if tokens_of(node.text) else None
        case Negation():
            held = _worded(node.part)
            return Negation(held) if held else None
        case QueryGroup():
            return _joined(node.operator, [held for part in node.parts if (held := _worded(part))])


def _expression(node: Node) -> str:
    match node:
        case Term():
            return quoted(node.text, node.is_prefix)
        case Negation():
            raise UsageError(
                "NOT takes away from what else is looked for", "turnlog search 'WORD NOT OTHER'"
            )
        case QueryGroup():
            kept = [part for part in node.parts if not isinstance(part, Negation)]
            dropped = [part.part for part in node.parts if isinstance(part, Negation)]
            if not kept or (dropped and node.operator == "OR"):
                return _expression(Negation(node))
            wanted = f" {node.operator} ".join(map(_nested, kept))
            if not dropped:
                return wanted
            wanted = wanted if len(kept) == 1 else f"({wanted})"
            return f"{wanted} NOT {_nested(_joined('OR', dropped) or dropped[0])}"


def _nested(node: Node) -> str:
    inner = _expression(node)
    return inner if isinstance(node, Term) else f"({inner})"
