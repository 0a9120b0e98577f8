"""Check the words and operators in `[[ … ]]` against bash's grammar."""

from turnlog.agent.permissions.bash.syntax import Word

SIGNS = frozenset(("&&", "||", "<", ">", "(", ")"))
BINARY = frozenset(
    "= == != =~ < > -eq -ne -lt -le -gt -ge -nt -ot -ef".split(),
)
UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuvwxzGLNORS")


def is_condition(words: tuple[Word, ...]) -> bool:
    """Return whether words form a valid condition.

    >>> texts = ("a == b && ( ! -f c )", "a", "a b", "a &&", "( a")
    >>> [is_condition(tuple(Word(word, source=word) for word in text.split())) for text in texts]
    [True, True, False, False, False]
    """
    end = _skip_expression([word.source for word in words], 0)
    return end == len(words)


def _skip_expression(words: list[str], place: int) -> int:
    """Return the index after the expression that starts at `place`; -1 if there is none."""
    while True:
        place = _skip_term(words, place)
        if place < 0 or words[place : place + 1] not in (["&&"], ["||"]):
            return place
        place += 1


def _skip_term(words: list[str], place: int) -> int:
    while words[place : place + 1] == ["!"]:
        place += 1
    if words[place : place + 1] == ["("]:
        end = _skip_expression(words, place + 1)
        return end + 1 if end >= 0 and words[end : end + 1] == [")"] else -1
    return _skip_test(words, place)


def _skip_test(words: list[str], place: int) -> int:
    """Return the index after `-f x`, `a == b` or a single word; -1 if there is none."""
    first, second, third = (words[place : place + 3] + [""] * 3)[:3]
    if not first or first in SIGNS:
        return -1
    if first in UNARY:
        return place + 2 if second and second not in SIGNS else -1
    if second in BINARY:
        return place + 3 if third and third not in SIGNS else -1
    return place + 1
