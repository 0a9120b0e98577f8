"""Queries are parsed as users mean them, never as SQLite syntax."""

import sqlite3
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import UsageError
from turnlog.index.search.pattern import parse_pattern
from turnlog.index.search.query import DEEPEST, parse_query
from turnlog.index.tokenizer import composed, folded, searchable, tokens_of

UNDERSTOOD = {
    "word": '"word"',
    "two words": '"two" AND "words"',
    "and or not": '"and" AND "or" AND "not"',
    "a AND b": '"a" AND "b"',
    '"a phrase" c': '"a phrase" AND "c"',
    '"not closed': '"not closed"',
    "«guillemets too»": '"guillemets too"',
    "pre*": '"pre"*',
    '"a phr"*': '"a phr"*',
    "snake_*": '"snake_"',
    "*.py": '"*.py"',
    "a OR b": '"a" OR "b"',
    "a OR b c": '"a" OR ("b" AND "c")',
    "(a OR b) c": '("a" OR "b") AND "c"',
    "((a))": '"a"',
    "a b -cc": '("a" AND "b") NOT "cc"',
    "a NOT b": '"a" NOT "b"',
    "a -b -c": '"a" AND "-b" AND "-c"',
    "a -bb -cc": '"a" NOT ("bb" OR "cc")',
    'a -"b c"': '"a" NOT "b c"',
    "a -(bb cc)": '"a" NOT ("bb" AND "cc")',
    "NOT NOT a": '"a"',
    "a OR": '"a"',
    "OR a": '"a"',
    "a AND": '"a"',
    "a NOT": '"a"',
    "AND OR": '"AND" AND "OR"',
    "NOT": '"NOT"',
    "(a": '"a"',
    "a) b": '"a)" AND "b"',
    "(a b": '"a" AND "b"',
    "a ) b": '"a" AND "b"',
    "foo.bar()": '"foo.bar()"',
    "(foo())": '"foo()"',
    "f(x) OR g(y)": '"f(x)" OR "g(y)"',
    "--flag": '"--flag"',
    "ls -l": '"ls" AND "-l"',
    "a && b": '"a" AND "b"',
    "a != b": '"a" AND "b"',
    'say"hi"': '"say hi"',
    "NEAR(a b)": '"NEAR(a" AND "b)"',
    "asked: x": '"asked:" AND "x"',
    "{asked} : x": '"{asked}" AND "x"',
    "^a + b": '"^a" AND "b"',
    "検索": '"検 索"',
    "fix検索": '"fix 検 索"',
    "a\0b": '"a" AND "b"',
}
REFUSED = ["-word", "NOT word", "a OR NOT b", "a OR -bb", "(NOT a) OR b", "(" * 60 + "a", " ", "\0"]


@pytest.mark.parametrize(("typed", "match"), UNDERSTOOD.items())
def test_what_is_typed_is_understood(typed: str, match: str) -> None:
    assert parse_query(typed).match == match


@pytest.mark.parametrize("typed", REFUSED)
def test_what_makes_no_sense_is_refused(typed: str) -> None:
    with pytest.raises(UsageError):
        parse_query(typed)


@pytest.mark.parametrize("typed", ["!=", "->", "...", "()", "?", "-- --", "\U0001f600"])
def test_signs_alone_are_no_words(typed: str) -> None:
    assert parse_query(typed).match is None


def test_literals_are_what_has_signs_but_is_not_excluded() -> None:
    assert parse_query("plain snake_case C++ -a.b").literals == ("snake_case", "C++")


PATTERNS = {
    "abc": None,
    r"\babc": '"abc"*',
    r"abc\b": None,
    r"\babc\b": '"abc"',
    r"^abc": '"abc"*',
    "a/b/c": '"b/c"*',
    "a/b/c/": '"b/c/"',
    r"a\.b\(": '"b("',
    "x(a b c)y": '"b c"*',
    "a (b|c) d e": '"d e"*',
    "(a b )?c d": '"d"*',
    "(a b )+c d": '"b" AND "d"*',
    "検索.日": '"検 索"* AND "日"*',
    "(?x) a b": None,
    "(": UsageError,
    "a{99999999999}": UsageError,
}


@pytest.mark.parametrize(("pattern", "match"), PATTERNS.items())
def test_a_pattern_tells_what_words_a_text_must_have(pattern: str, match: object) -> None:
    if match is UsageError:
        with pytest.raises(UsageError):
            parse_pattern(pattern)
    else:
        assert parse_pattern(pattern).match == match


def test_the_needle_of_a_pattern_is_its_longest_plain_part() -> None:
    assert parse_pattern(r'ab"longer/longest text\d').needle == b"longest text"
    assert parse_pattern("(?i)text").needle is None
    assert parse_pattern("x(?i:text)").needle is None
    assert parse_pattern("検索").needle is None


@pytest.fixture(scope="module")
def words() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute(
        "CREATE VIRTUAL TABLE words USING fts5 (text, content = '',"
        " tokenize = \"unicode61 remove_diacritics 2 categories 'L* N* Co'\")"
    )
    return db


@given(st.text(max_size=30))
def test_sqlite_takes_whatever_is_understood(words: sqlite3.Connection, typed: str) -> None:
    with suppress(UsageError):
        match = parse_query(typed).match or '"a"'
        words.execute("SELECT rowid FROM words WHERE words MATCH ?", (match,)).fetchall()


LETTERS = st.text(
    st.characters(max_codepoint=0x17F, categories=("L", "N", "P", "Zs"))
    | st.sampled_from("検索한ไ"),
    min_size=1,
    max_size=12,
)


@given(LETTERS)
def test_words_are_what_sqlite_makes_of_a_text(text: str) -> None:
    db = sqlite3.connect(":memory:")
    options = "tokenize = \"unicode61 remove_diacritics 2 categories 'L* N* Co'\""
    db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, {options})")
    db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (words, instance)")
    db.execute("INSERT INTO words VALUES (?)", (searchable(text),))
    terms = [term for (term,) in db.execute('SELECT term FROM terms ORDER BY "offset"')]
    db.close()
    assert tokens_of(composed(text)) == terms


@given(st.text(st.sampled_from("検索한ไé→ a\ud800") | st.characters(), max_size=20))
def test_few_letters_are_set_apart_as_many_are(text: str) -> None:
    mostly_ascii = text + "x" * 9 * len(text)
    found = searchable(mostly_ascii)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("turnlog.index.tokenizer.FEW", -1)
        assert searchable(mostly_ascii) == found


@given(st.text())
def test_folding_keeps_every_character_in_its_place(text: str) -> None:
    assert len(folded(text)) == len(text)


def test_closed_parentheses_leave_no_room_for_deeper_ones() -> None:
    with pytest.raises(UsageError, match="nested"):
        parse_query("(a) " * 5 + "(" * (DEEPEST + 1) + "b")
    assert parse_query("(a) " * 5 + "(" * DEEPEST + "b").match
