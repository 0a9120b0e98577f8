"""Searches find the right texts, and rank them first."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from support.build import START, assistant, call, line, result_block, session, system, text, user
from support.searched import AGENT, IDS, KEY, SECRET, fill, path_of
from turnlog.errors import UsageError
from turnlog.index.database import Index, open_index
from turnlog.index.ingest.sync import sync
from turnlog.index.known_files import File
from turnlog.index.search import candidates, word_search
from turnlog.index.search.hit_lines import OPEN, Reader
from turnlog.index.search.search import Hit, ResultLimits, SessionHits, search
from turnlog.index.search.selection import Selection
from turnlog.index.search.word_search import SearchTerms, begin, parse_search, rank
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.paths import Store

NAMES = {name: key for key, name in IDS.items()} | {AGENT: "agent"}

QUERIES = [
    # words, in any case and order
    ("shopping", "cart:1"),
    ("SHOPPING Cart", "cart:1"),
    ("wrong empty", "cart:1"),
    ("it's", "cart:1"),
    ("cargo", "rust:1"),
    ("mismatched", "rust:3"),
    ("libcurl", "login:1"),
    ("401", "login:1"),
    ("8.5.0", "login:1"),
    ("1.2.3", "login:5"),
    ("haystack", "long:2"),
    # phrases
    ('"crash looping"', "deploy:3"),
    ('"roll back"', "deploy:3"),
    ("“staging server”", "deploy:1"),
    ('"The total of the shopping cart"', "cart:1"),
    ('"type is Option"', "rust:4"),
    ('"unclosed staging server', None),
    ('"server staging"', None),
    # the start of a word
    ("shopp*", "cart:1"),
    ("kubec* rollo*", "deploy:4"),
    ('"crash loop"*', "deploy:3"),
    ("検索イン*", "japanese:1"),
    # OR, NOT, parentheses
    ("marzipan OR nothing_at_all", "long:7"),
    ("nosuchword OR shopping", "cart:1"),
    ("(cargo OR kubectl) undo", "deploy:4"),
    ("kubectl -undo", "deploy:2"),
    ("kubectl NOT undo", "deploy:2"),
    ("total -shopping -nothing", "cart:9"),
    ('login -"password test"', "login:1"),
    ("server NOT (staging OR nothing)", "plain:1"),
    ("cargo AND log", "rust:1"),
    # code, with signs
    ("foo.bar()", "login:2"),
    ("baz->qux()", "login:2"),
    ("C++", "login:1"),
    ("X-Api-Key", "login:2"),
    ("total_price", "cart:4"),
    ("total_price()", "cart:9"),
    ("sum_prices(items)", "cart:4"),
    ("--maxfail=1", "cart:7"),
    ("--release", "rust:2"),
    ("--dry-run", "deploy:2"),
    ("-x", "cart:7"),
    ("2>&1", "rust:2"),
    ("src/app/main.py", "rust:3"),
    ("src/app/main.py:120", "rust:3"),
    ("test_cart.py::test_empty", "cart:8"),
    ("error[E0308]", "rust:3"),
    ("Option<&str>", "rust:4"),
    ("#include <curl/curl.h>", "login:3"),
    ("@scope/pkg", "login:5"),
    ("~/.config", "login:5"),
    ("/api/v2/login.json", "login:1"),
    ("curl_easy_setopt", "login:4"),
    ("deployment/web", "deploy:4"),
    ("eu-west-1", "deploy:1"),
    ("->", "rust:4"),
    ("::", "cart:8"),
    # accents
    ("cafe", "accents:1"),
    ("CAFÉ", "accents:1"),
    ("resume", "accents:1"),
    ("zurich", "accents:1"),
    ("Ångström", "accents:1"),
    ("angstrom", "accents:1"),
    ("strasse", None),
    ("STRAßE", "accents:2"),
    ("koln", "accents:2"),
    ("москва", "accents:2"),
    ("αθηνα", "accents:2"),
    ("decomposed café", "accents:3"),
    # Chinese, Japanese, Korean, Thai
    ("搜索", "chinese:1"),
    ("修", "chinese:1"),
    ("修复", "chinese:1"),
    ("检索", "chinese:2"),
    ("数据库连接超时", "chinese:2"),
    ("数据库 超时", "chinese:2"),
    ("索搜", None),
    ("fix检索", "chinese:3"),
    ("检索 commit", "chinese:3"),
    ("検索", "japanese:1"),
    ("日本語", "japanese:2"),
    ("テスト", "japanese:2"),
    ("失敗", "japanese:2"),
    ("ひらがな", "japanese:3"),
    ("漢", "japanese:3"),
    ("が", "japanese:2"),
    ("오류", "korean:1"),
    ("로그인", "korean:1"),
    ("검색", "korean:2"),
    ("데이터베이스", "korean:2"),
    ("ค้นหา", "thai:1"),
    # what else there is to find
    ("division loop", "cart:2"),
    ('"Cart totals"', "cart:10"),
    ("Mismatched Rust", "rust:5"),
    ("ZeroDivisionError", "cart:8"),
    ("/home/ada/shop/src/cart.py", "cart:3"),
    ("replicas", "deploy:5"),
    ("aubergines", "long:4"),
    ("/compact short", "long:5"),
    ("oneline", "long:6"),
    ("marzipan", "long:7"),
    ("overloaded_error", "plain:3"),
    ("usages repository", "agent:1"),
    ("xylophone", "agent:3"),
    ("invoice module", "agent:4"),
]
PATTERNS = [
    (r"E\d{4}", "rust:3"),
    (r"total_\w+\(", "cart:4"),
    (r"\bcrash\b", "deploy:3"),
    (r"hopping car", "cart:1"),
    (r"(?i)KUBECTL\s+ROLLOUT", "deploy:4"),
    (r"(staging|production) server", "deploy:1"),
    (r"^Two usages", "agent:4"),
    (r"日本.テスト", "japanese:2"),
    (r"Z.rich", "accents:1"),
    (r"main\.py:\d+: error", "rust:3"),
    (r"a{50}", None),
    (r"x?", "cart:7"),
    (r'="?nothing', None),
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    folder = tmp_path_factory.mktemp("searched")
    store = Store(folder / "home")
    fill(store)
    with open_index(folder / "index.db") as index:
        sync(index, store)
        yield index.db


EVERYTHING = ResultLimits(turns=1000, hits=1000)


def found(db: sqlite3.Connection, query: str, is_regex: bool = False) -> list[SessionHits]:
    return list(
        search(db, SearchTerms(parse_search(query, is_regex), Selection(), 10), ResultLimits())
    )


def selected(
    db: sqlite3.Connection, query: str, selection: Selection, is_regex: bool = False
) -> set[str]:
    asked = parse_search(query, is_regex)
    return set(places(list(search(db, SearchTerms(asked, selection, 0), EVERYTHING))))


def places(sessions: list[SessionHits]) -> list[str]:
    """Return the hits as `session:line`, in their order."""
    return [
        f"{NAMES[_id_of(turn.id, each.id)]}:{hit.line}"
        for each in sessions
        for turn in each.turns
        for hit in turn.hits
    ]


def _id_of(shown: str, session_id: str) -> str:
    return AGENT if AGENT.startswith(shown) else session_id


def hits_of(sessions: list[SessionHits]) -> list[Hit]:
    return [hit for each in sessions for turn in each.turns for hit in turn.hits]


@pytest.mark.parametrize(("query", "place"), QUERIES)
def test_what_is_looked_for_is_among_the_first_five(
    db: sqlite3.Connection, query: str, place: str | None
) -> None:
    shown = places(found(db, query))
    assert place in shown[:5] if place else not shown


@pytest.mark.parametrize(("pattern", "place"), PATTERNS)
def test_a_pattern_finds_what_it_matches(
    db: sqlite3.Connection, pattern: str, place: str | None
) -> None:
    shown = places(found(db, pattern, is_regex=True))
    assert place in shown[:5] if place else not shown


@pytest.mark.parametrize("query", [query for query, place in QUERIES if place])
def test_every_hit_is_marked(db: sqlite3.Connection, query: str) -> None:
    for hit in hits_of(found(db, query)):
        assert hit.marks
        assert all(hit.text[start:end].strip() for start, end in hit.marks)


@pytest.mark.parametrize("query", [query for query, place in QUERIES if place])
def test_common_words_are_found_in_what_was_asked_first(
    db: sqlite3.Connection, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = places(found(db, query))
    monkeypatch.setattr(candidates, "COMMON", -1)
    assert sorted(places(found(db, query))) == sorted(whole)


def test_what_holds_the_signs_as_they_were_typed_comes_first(db: sqlite3.Connection) -> None:
    assert places(found(db, "foo.bar()")) == ["login:2", "login:4"]
    assert places(found(db, "foo bar"))[0] in ("login:2", "login:4")
    assert places(found(db, "C++"))[0] == "login:1"


def test_only_the_best_candidates_are_read_for_signs(
    fresh: tuple[Store, Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, index = fresh
    for number in range(7):
        name = f"{number}0000000-0000-4000-8000-000000000000"
        asked = "foo.bar()" if number == 6 else "foo bar"
        # The more words a text has, the lower it ranks.
        prompt = user(f"{asked}{' and more' * number}", uuid=name)
        write(store.projects / "-p" / f"{name}.jsonl", prompt, session_id=name)
    sync(index, store)
    terms = SearchTerms(parse_search("foo.bar()"), Selection(), 1)
    for depth, first in ((6, "0"), (7, "6")):
        monkeypatch.setattr(word_search, "LITERAL_DEPTH", depth)
        assert next(search(index.db, terms, ResultLimits())).id[0] == first


def test_ranking_stops_once_there_are_enough_sessions(
    fresh: tuple[Store, Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, index = fresh
    for number in range(word_search.SPARE + 2):
        name = f"{number}0000000-0000-4000-8000-000000000000"
        prompt = user(f"foo{' and more' * number}", uuid=name)
        write(store.projects / "-p" / f"{name}.jsonl", prompt, session_id=name)
    sync(index, store)
    terms = SearchTerms(parse_search("foo"), Selection(), 1)
    for enough, sessions in ((1, word_search.SPARE + 1), (200, word_search.SPARE + 2)):
        monkeypatch.setattr(word_search, "ENOUGH", enough)
        assert len(list(rank(index.db, terms, begin(index.db, terms)))) == sessions


def test_words_without_signs_are_ranked_without_reading_files(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Reader, "line")
    terms = SearchTerms(parse_search("shopping cart"), Selection(), 1)
    assert [row.line for [row, *_] in rank(db, terms, begin(db, terms))] == [1]


def test_lines_of_many_files_are_read_with_few_open_files(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(80)]
    with closing(Reader()) as reader:
        for number, path in enumerate(paths):
            path.write_bytes(f"line {number}".encode())
            file = File(
                number,
                str(path),
                "",
                "",
                None,
                is_subagent=False,
                project=None,
                title=None,
                ended=None,
            )
            assert reader.line(file, 5, 2) == str(number).encode()
            assert len(reader.opened) <= OPEN


def test_titles_and_prompts_come_before_answers_and_results(db: sqlite3.Connection) -> None:
    assert hits_of(found(db, "total"))[0].kind == "prompt"
    assert hits_of(found(db, "cart"))[0].kind == "title"
    kinds = [hit.kind for hit in hits_of(found(db, "error"))]
    assert kinds == sorted(kinds, key=["prompt", "answer", "result"].index)


def test_hits_are_grouped_by_session_and_turn(db: sqlite3.Connection) -> None:
    [deploy] = found(db, "kubectl")
    assert (deploy.id, deploy.project) == (IDS["deploy"], "/home/ada/shop")
    assert deploy.title == "deploy the staging server to eu-west-1"
    assert {turn.prompt for turn in deploy.turns} == {
        "deploy the staging server to eu-west-1",
        "Now roll back; the pods are crash looping",
    }


def test_a_hit_in_a_subagent_is_told_with_its_session(db: sqlite3.Connection) -> None:
    [cart] = found(db, "xylophone")
    [turn] = cart.turns
    assert (cart.id, cart.title) == (IDS["cart"], "Cart totals")
    assert (turn.id, turn.is_subagent) == (AGENT[:8], True)
    assert turn.prompt == "Look for usages of sum_prices in the repository"


SELECTED = [
    (Selection(project="NOTES"), "server", {"plain:1", "plain:2"}),
    (Selection(folder="-home-ada-shop"), "server", {"deploy:1"}),
    (Selection(tool="bash"), "cargo OR tests", {"cart:7", "cart:8", "rust:2"}),
    (Selection(tool="Grep"), "sum_prices", {"agent:2"}),
    (Selection(kinds=("result",)), "sum_prices", {"cart:4"}),
    (Selection(kinds=("input", "title")), "cart", {"cart:3", "cart:5", "cart:10"}),
    (Selection(errors=True), "error", {"rust:3", "plain:3"}),
    (Selection(file="cart.py"), "total", {"cart:4", "cart:5"}),
    (Selection(file="/home/ada/shop/src/cart.py"), "total", {"cart:4", "cart:5"}),
    (Selection(file="art.py"), "total", set[str]()),
    (Selection(model="HAIKU"), "error", {"rust:3"}),
    (Selection(branch="fix-cart"), "total", {"cart:1", "cart:4", "cart:5", "cart:9"}),
    (Selection(branch="main"), "sum_prices", {"agent:1", "agent:2"}),
    (Selection(session=IDS["cart"]), "repository", {"agent:1"}),
    (Selection(session=IDS["cart"], no_subagents=True), "module", set[str]()),
    (Selection(no_subagents=True), "sum_prices", {"cart:4", "cart:5"}),
    (Selection(since=START.timestamp() + 4), "kubectl", {"deploy:4"}),
    (Selection(until=START.timestamp() + 4), "kubectl", {"deploy:2"}),
]


@pytest.mark.parametrize(("selection", "query", "expected"), SELECTED)
def test_a_selection_leaves_out_the_rest(
    db: sqlite3.Connection, selection: Selection, query: str, expected: set[str]
) -> None:
    every = selected(db, query, Selection())
    assert selected(db, query, selection) == expected
    assert expected < every
    assert selected(db, ".", selection, is_regex=True) >= expected


def test_a_title_has_the_time_of_its_session(db: sqlite3.Connection) -> None:
    ended = START.timestamp() + 9
    assert selected(db, '"Cart totals"', Selection(since=ended)) == {"cart:10"}
    assert selected(db, '"Cart totals"', Selection(until=ended)) == set()


def test_secrets_are_masked_where_they_are_found(db: sqlite3.Connection) -> None:
    for query in ("warehouse", SECRET, f'"{SECRET}"'):
        [hit] = hits_of(found(db, query))
        assert SECRET not in hit.text
        assert "[password:" in hit.text
    assert KEY[:20] not in hits_of(found(db, "repository key"))[0].text
    asked = parse_search("warehouse")
    [open_] = search(db, SearchTerms(asked, Selection(), 10), ResultLimits(reveal=True))
    assert SECRET in hits_of([open_])[0].text


PARALLEL = (
    user("go"),
    assistant(
        call("mcp__db__connect", {"host": "walrus", "password": "q7Lm2ZxT9vKpR4sWn8Yd"}, "A"),
        call("Bash", {"command": "psql walrus"}, "B"),
    ),
    line("user", message={"role": "user", "content": [result_block("A"), result_block("B", "no")]}),
)
"""Two calls on one line, and their results on another."""


def test_calls_on_one_line_are_told_apart(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    write(store.projects / "-w" / f"{IDS['cart']}.jsonl", *PARALLEL, session_id=IDS["cart"])
    sync(index, store)
    shown = {hit.tool: hit.text for hit in hits_of(found(index.db, "walrus"))}
    assert shown.keys() == {"mcp__db__connect", "Bash"}
    assert shown["Bash"] == "psql walrus"
    for tool, told in shown.items():
        terms = SearchTerms(parse_search("walrus"), Selection(tool=tool), 10)
        [hit] = hits_of(list(search(index.db, terms, ResultLimits())))
        assert (hit.tool, hit.text) == (tool, told)
    [answer] = hits_of(found(index.db, "no"))
    assert (answer.tool, answer.text) == ("Bash", "no")


@pytest.mark.parametrize("query", ["q7Lm2ZxT9vKpR4sWn8Yd", "q7Lm2*", '"q7Lm2ZxT9vKpR4sWn8Yd"'])
@pytest.mark.parametrize("is_regex", [False, True])
def test_no_search_finds_what_only_the_name_of_its_field_marks_as_secret(
    fresh: tuple[Store, Index], query: str, is_regex: bool
) -> None:
    store, index = fresh
    write(store.projects / "-w" / f"{IDS['cart']}.jsonl", *PARALLEL, session_id=IDS["cart"])
    sync(index, store)
    terms = SearchTerms(parse_search(query, is_regex), Selection(), 10)
    assert not list(search(index.db, terms, ResultLimits(reveal=True)))
    texts = [hit.text for hit in hits_of(found(index.db, "walrus"))]
    assert sorted(texts)[1].startswith("walrus\n[password:")


def test_a_snippet_is_the_part_with_the_hit(db: sqlite3.Connection) -> None:
    [hit] = hits_of(found(db, "haystack"))
    assert len(hit.text) < 300
    assert [hit.text[start:end] for start, end in hit.marks] == ["haystack"]


def test_terms_that_match_the_same_word_mark_it_once(db: sqlite3.Connection) -> None:
    [hit] = hits_of(found(db, "hay* haystack"))
    assert [hit.text[start:end] for start, end in hit.marks] == ["haystack"]


@pytest.fixture
def fresh(store: Store, tmp_path: Path) -> Iterator[tuple[Store, Index]]:
    with open_index(tmp_path / "index.db") as index:
        yield store, index


def write(path: Path, *lines: bytes, session_id: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(session(*lines, session_id=session_id))


def test_what_a_fork_copied_is_shown_once(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    folder = store.projects / "-p"
    fork = {"sessionId": IDS["cart"]}
    asked, said = "Where is the walrus?", text("The walrus is here")
    write(folder / f"{IDS['cart']}.jsonl", user(asked), assistant(said), session_id=IDS["cart"])
    write(
        folder / f"{IDS['rust']}.jsonl",
        user(asked, forked_from=fork),
        assistant(said, forked_from=fork),
        user("Another walrus"),
        session_id=IDS["rust"],
    )
    sync(index, store)
    assert sorted(places(found(index.db, "walrus"))) == ["cart:1", "cart:2", "rust:3"]
    assert len(found(index.db, "here")) == 1


def test_a_text_that_was_sent_twice_is_shown_twice(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    asked = [user("Where is the walrus?"), assistant(text("Here")), user("Where is the walrus?")]
    write(store.projects / "-p" / f"{IDS['cart']}.jsonl", *asked, session_id=IDS["cart"])
    sync(index, store)
    assert sorted(places(found(index.db, "walrus"))) == ["cart:1", "cart:3"]


def test_of_equal_texts_the_newer_comes_first(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    for name, day in (("cart", "01"), ("rust", "09"), ("login", "05")):
        asked = user("the same words", uuid=name, timestamp=f"2026-{day}-01T00:00:00Z")
        write(store.projects / "-p" / f"{IDS[name]}.jsonl", asked, session_id=IDS[name])
    sync(index, store)
    assert places(found(index.db, "same words")) == ["rust:1", "login:1", "cart:1"]


def test_a_title_that_is_written_again_and_again_is_one_hit(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    titles = [line("ai-title", ai_title="Walrus")] * 300
    path = store.projects / "-p" / f"{IDS['cart']}.jsonl"
    write(path, user("a walrus"), *titles, session_id=IDS["cart"])
    sync(index, store)
    [session_] = found(index.db, "walrus")
    assert [hit.kind for hit in hits_of([session_])] == ["title", "prompt"]
    assert session_.more == 0


def test_what_a_slash_command_printed_is_found(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    printed = "<local-command-stdout>a walrus</local-command-stdout>"
    path = store.projects / "-p" / f"{IDS['cart']}.jsonl"
    write(path, user("hi"), system("local_command", content=printed), session_id=IDS["cart"])
    sync(index, store)
    [hit] = hits_of(found(index.db, "walrus"))
    assert (hit.kind, hit.line) == ("note", 2)


def test_what_is_gone_is_not_found(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    fill(store)
    sync(index, store)
    assert found(index.db, "shopping")
    path_of(store, "cart").unlink()
    assert not found(index.db, "shopping")
    sync(index, store)
    assert not found(index.db, "shopping OR fixed")


def test_what_is_gone_but_archived_is_found(fresh: tuple[Store, Index], tmp_path: Path) -> None:
    store, index = fresh
    archive = Archive(tmp_path / "archive")
    fill(store)
    archive_sessions(store, archive)
    path_of(store, "cart").unlink()
    sync(index, store, archive=archive)
    shown = search(
        index.db,
        SearchTerms(parse_search("shopping"), Selection(), 10, archive.folder),
        ResultLimits(),
    )
    assert places(list(shown)) == ["cart:1"]


def test_a_file_that_was_replaced_gives_no_wrong_text(fresh: tuple[Store, Index]) -> None:
    store, index = fresh
    fill(store)
    sync(index, store)
    path_of(store, "cart").write_bytes(b"\xff not a session " * 500)
    assert all(hit.kind != "prompt" for hit in hits_of(found(index.db, "shopping")))


def test_an_empty_query_is_no_query(db: sqlite3.Connection) -> None:
    for text_ in ("", "  ", "\0\n"):
        with pytest.raises(UsageError):
            found(db, text_)
    with pytest.raises(UsageError):
        found(db, "", is_regex=True)


SIGNS = st.text(st.sampled_from("ab ()\"*-:^+.{}[]?|\\/'_~!&<>=,;%\0\n検é“”"), max_size=12)
OPERATORS = st.lists(
    st.sampled_from(
        ["AND", "OR", "NOT", "(", ")", "-", '"', "NEAR", "a", "cart*", "*", "検索", "b:"]
    ),
    max_size=12,
)
TYPED = st.text(max_size=12) | SIGNS | OPERATORS.map(" ".join) | OPERATORS.map("".join)


@given(TYPED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_typed_is_answered_or_refused_in_words(
    db: sqlite3.Connection, query: str
) -> None:
    with suppress(UsageError):
        found(db, query)


@given(TYPED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_pattern_is_typed_is_answered_or_refused_in_words(
    db: sqlite3.Connection, pattern: str
) -> None:
    with suppress(UsageError):
        found(db, pattern, is_regex=True)


LITERALS = st.sampled_from(
    r"cart Cart total_price src/app \b ^ $ . \w+ (a|b) o* r? 検索 日 ZeroDivision Error \s [a-z]+"
    r" \( é \d (?i:CART) l{2}".split()
)


@given(st.lists(LITERALS, min_size=1, max_size=4).map("".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_pattern_finds_what_reading_every_text_would_find(
    db: sqlite3.Connection, pattern: str
) -> None:
    asked = parse_search(pattern, is_regex=True)
    fast = search(db, SearchTerms(asked, Selection(), 0), EVERYTHING)
    unaided = replace(asked, match=None, needle=None)
    slow = search(db, SearchTerms(unaided, Selection(), 0), EVERYTHING)
    assert places(list(fast)) == places(list(slow))
