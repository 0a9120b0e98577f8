"""Sessions are found by subject, in whatever words."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnlog
from support.build import SESSION, assistant, line, result, session, text, user
from support.mcp_peer import put
from support.paraphrases import (
    HELD_OUT,
    TUNED,
    Paraphrase,
    content_words,
    paraphrases,
    unrelated_questions,
    write_sessions,
)
from turnlog.errors import NotFound, UsageError
from turnlog.index.database import index_path
from turnlog.index.search.selection import Selection
from turnlog.index.semantic.static_model import NAME
from turnlog.index.service import SearchRequest, recall_sessions, search_sessions
from turnlog.index.similarity import LikeRequest, like_sessions, session_named
from turnlog.index.sync_policy import sync_index
from turnlog.store.paths import Store

SAMPLES = Path(turnlog.__file__).parent / "samples"
PROJECT = "/home/ada/shop"
OTHER = "07e40000-0000-4000-8000-000000000002"
MOST = 10
Vectors = list[tuple[str, int, str, bytes, bytes]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, list[Paraphrase]]]:
    """A store of a hundred sessions, indexed with vectors."""
    root = tmp_path_factory.mktemp("paraphrases")
    found = write_sessions(root / "store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        patch.setenv("TURNLOG_HOME", str(root / "own"))
        yield Store(root / "store"), found


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store with an index of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    (tmp_path / "store" / "projects").mkdir(parents=True)
    return Store(tmp_path / "store")


def talk(store: Store, id_: str, *lines: bytes) -> Path:
    return put(store.root, PROJECT, session(*lines, session_id=id_), id_)


def like(store: Store, text: str = "", **named: object) -> list[str]:
    request = LikeRequest(text)._replace(**named)
    return [hits.id for hits in like_sessions(store, request)]


def vectors(store: Store) -> Vectors:
    """All vectors of an index, each with the line and the kind of its text."""
    db = sqlite3.connect(index_path(store))
    places = {
        doc: place
        for doc, *place in db.execute(
            "SELECT d.id, f.path, d.line, d.kind FROM docs d JOIN files f ON f.id = d.file"
        )
    }
    found: Vectors = []
    for docs, codes, rows in db.execute("SELECT docs, codes, rows FROM vectors"):
        numbers = memoryview(docs).cast("q").tolist()
        code, row = len(codes) // len(numbers), len(rows) // len(numbers)
        found += [
            (*places[doc], codes[n * code :][:code], rows[n * row :][:row])
            for n, doc in enumerate(numbers)
        ]
    db.close()
    return sorted(found)


@pytest.mark.parametrize("name", [TUNED, HELD_OUT])
def test_questions_share_no_content_word_with_their_session(name: str) -> None:
    found = paraphrases(name)
    assert len(found) == 100
    shared = {
        each.question: words
        for each in found
        if (words := content_words(each.question) & content_words(f"{each.prompt} {each.answer}"))
    }
    assert shared == {}


def test_a_question_in_other_words_finds_its_session(
    world: tuple[Store, list[Paraphrase]],
) -> None:
    store, found = world
    ranks = [
        ids.index(each.id) + 1 if each.id in (ids := like(store, each.question)) else 99
        for each in found
    ]
    assert sum(rank <= MOST for rank in ranks) >= 92
    assert sum(rank == 1 for rank in ranks) >= 56


def test_questions_that_no_weight_was_chosen_with_find_their_sessions(small: Store) -> None:
    found = write_sessions(small.root, HELD_OUT)
    assert sum(each.id in like(small, each.question) for each in found) >= 86
    assert worse_by_meaning(small, found) == []


def test_unrelated_questions_find_nothing(small: Store) -> None:
    shutil.copytree(SAMPLES / "projects", small.projects, dirs_exist_ok=True)
    answered = [question for question in unrelated_questions() if like(small, question)]
    assert len(answered) <= 10
    assert like(small, "people had to log in again") == []
    assert like(small, "kubernetes pod crash loop") == []


def test_scores_tell_how_similar_sessions_are(small: Store) -> None:
    shutil.copytree(SAMPLES / "projects", small.projects, dirs_exist_ok=True)
    first, *others = like_sessions(small, LikeRequest("bills were off by a cent"))
    assert first.title == "Fix the rounding bug in invoices"
    assert first.score
    assert first.score > 2 * max(each.score or 0 for each in others)
    exact, *_ = like_sessions(small, LikeRequest("rounding bug in invoices"))
    assert (exact.id, exact.score) == (first.id, 1)


def test_words_alone_do_not_find_it(world: tuple[Store, list[Paraphrase]]) -> None:
    store, found = world
    asked = ((each, SearchRequest(each.question)) for each in found[:40])
    hits = [
        each.id in [found.hits.id for found in recall_sessions(store, request)]
        for each, request in asked
    ]
    assert sum(hits) <= 4


def worse_by_meaning(store: Store, found: list[Paraphrase]) -> list[str]:
    """Return the queries of two words whose session is further down by meaning than by words."""
    worse: list[str] = []
    for each in found[::2]:
        words = sorted(each.prompt.rstrip(".?").split(), key=len)[-2:]
        query = " ".join(words)
        by_words = [hits.id for hits in search_sessions(store, SearchRequest(query))]
        by_meaning = like(store, query)
        assert each.id in by_words
        if by_meaning.index(each.id) > by_words.index(each.id):
            worse.append(query)
    return worse


def test_queries_that_work_with_words_work_as_well_by_meaning(
    world: tuple[Store, list[Paraphrase]],
) -> None:
    assert worse_by_meaning(*world) == []


def test_the_sentences_of_a_session_find_it_first(world: tuple[Store, list[Paraphrase]]) -> None:
    store, found = world
    firsts = [like(store, each.prompt, limit=1) == [each.id] for each in found[::4]]
    answers = [like(store, each.answer, limit=1) == [each.id] for each in found[1::4]]
    assert all(firsts)
    assert all(answers)


def test_filters_apply(world: tuple[Store, list[Paraphrase]]) -> None:
    store, found = world
    school = {each.id for each in found[2::3]}
    ids = like(store, found[0].question, selection=Selection(project="school"))
    assert len(ids) == MOST
    assert set(ids) <= school
    answers = Selection(kinds=("answer",))
    kinds = [
        hit.kind
        for hits in like_sessions(store, LikeRequest(found[0].question, selection=answers))
        for turn in hits.turns
        for hit in turn.hits
    ]
    assert set(kinds) == {"answer"}


def test_sessions_like_another_one_leave_it_out(world: tuple[Store, list[Paraphrase]]) -> None:
    store, found = world
    by_prompt = {each.prompt: each for each in found}
    calendar = next(e for p, e in by_prompt.items() if p.startswith("The calendar shows"))
    path = session_named(store, calendar.id)
    ids = like(store, session=path, limit=20)
    assert calendar.id not in ids
    assert by_prompt["The chart shows the wrong day for users in Tokyo."].id in ids


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("5e551003", True),
        ("last", True),
        ("5e551003-0000-4000-8000-000000000000", True),
        ("the last deploy", False),
        ("facade", False),
        ("deadbeef", False),
        ("", False),
    ],
)
def test_ids_and_last_name_a_session_and_prose_does_not(
    world: tuple[Store, list[Paraphrase]], text: str, is_found: bool
) -> None:
    assert (session_named(world[0], text) is not None) == is_found


def test_a_missing_file_is_an_error(world: tuple[Store, list[Paraphrase]]) -> None:
    with pytest.raises(NotFound):
        session_named(world[0], "nowhere/x.jsonl")


def test_an_index_has_no_vectors_before_they_are_asked_for(small: Store) -> None:
    talk(small, SESSION, user("Users are logged out every few minutes"))
    sync_index(small)
    assert vectors(small) == []
    assert like(small, "people had to sign in again") == [SESSION]
    assert len(vectors(small)) == 1


def test_vectors_are_the_same_whenever_they_are_made(small: Store) -> None:
    lines = [
        user("Users are logged out every few minutes"),
        assistant(text("The cookie had a lifetime of five minutes."), text("It is renewed now.")),
        line("custom-title", custom_title="Cookies that expire too soon"),
        line("custom-title", custom_title="Cookies that expire too soon"),
        user("検索インデックスを修正してください"),
        assistant(text("ok")),
        assistant(text("Café crème: l'élève naïf a fixé le bogue")),
    ]
    talk(small, SESSION, *lines[:3])
    sync_index(small)
    like(small, "anything at all")  # made from the files, after the words
    talk(small, SESSION, *lines)
    like(small, "anything at all")  # made along with the words of appended lines
    grown = vectors(small)
    index_path(small).unlink()
    like(small, "anything at all")  # made along with all words
    kinds = [each[2] for each in vectors(small)]
    assert kinds == "prompt answer answer title prompt answer".split()
    # A title that the client wrote again counts once for each time that the file was read.
    assert [each for each in grown if each[1] != 4] == vectors(small)


def test_texts_indexed_by_a_process_without_vectors_get_theirs(small: Store) -> None:
    path = talk(small, SESSION, user("Users are logged out every few minutes"))
    like(small, "anything at all")
    db = sqlite3.connect(index_path(small))
    db.execute("UPDATE about SET value = 'another' WHERE name = 'vectors_model'")
    db.commit()
    talk(
        small, SESSION, *path.read_bytes().splitlines(keepends=True), user("Bake some bread for us")
    )
    sync_index(small)
    assert len(vectors(small)) == 1
    assert like(small, "loaf from the oven") == [SESSION]
    assert len(vectors(small)) == 2
    (name,) = db.execute("SELECT value FROM about WHERE name = 'vectors_model'").fetchone()
    db.close()
    assert name == NAME


def test_vectors_are_deleted_with_their_session(small: Store) -> None:
    path = talk(small, SESSION, user("Users are logged out every few minutes"))
    talk(small, OTHER, user("Bake some bread for the family"))
    assert like(small, "loaf from the oven")[0] == OTHER
    path.unlink()
    assert SESSION not in like(small, "people had to sign in again", limit=0)
    assert {Path(each[0]).stem for each in vectors(small)} == {OTHER}


def test_a_rewritten_session_has_the_vectors_of_its_new_text(small: Store) -> None:
    path = talk(small, SESSION, user("Users are logged out every few minutes"))
    like(small, "anything at all")
    path.unlink()
    talk(small, SESSION, user("Bake some bread for the family, please, and a cake"))
    like(small, "anything at all")
    assert [each[:3] for each in vectors(small)] == [(str(path), 1, "prompt")]
    assert like(small, "loaf from the oven") == [SESSION]


def test_copies_of_a_text_are_shown_once(small: Store) -> None:
    lines = (user("Users are logged out every few minutes"), assistant(text("Renewed the cookie.")))
    talk(small, SESSION, *lines)
    raw = session(*lines, session_id=SESSION).replace(SESSION.encode(), OTHER.encode())
    put(small.root, PROJECT, raw, OTHER)
    assert len(like(small, "people had to sign in again")) == 1


@pytest.mark.parametrize("blank", ["", "   ", "\n"])
def test_a_blank_text_is_refused(small: Store, blank: str) -> None:
    with pytest.raises(UsageError):
        like(small, blank)


@pytest.mark.parametrize(
    "odd",
    [
        "🎉🎉🎉",
        "検索の問題",
        "\0\0",
        "\ud800 lone",
        "???",
        "x" * 200_000,
        "word " * 50_000,
        '"(OR -',
    ],
)
def test_any_text_can_be_asked(small: Store, odd: str) -> None:
    talk(small, SESSION, user("Users are logged out every few minutes"))
    written = odd.encode("utf-8", "replace").decode()
    talk(small, OTHER, user(written), assistant(text(written)))
    assert set(like(small, odd)) <= {SESSION, OTHER}


def test_characters_without_words_are_compared_too(small: Store) -> None:
    talk(small, SESSION, user("検索の結果が正しくない"))
    talk(small, OTHER, user("Bake some bread for the family"))
    assert like(small, "検索の問題", limit=1) == [SESSION]


def test_a_session_without_text_is_like_nothing(small: Store) -> None:
    path = talk(small, SESSION, result("c1", "output only"))
    talk(small, OTHER, user("Bake some bread for the family"))
    with pytest.raises(NotFound, match="no text"):
        like(small, session=path)


def test_an_empty_store_has_nothing(small: Store) -> None:
    assert like(small, "anything at all") == []


def test_secrets_are_masked(small: Store) -> None:
    secret = "ghp_" + "Zk3Jq8LwN5vT2yRb7XcM1dPf6HsG9aUe4oKi"
    talk(small, SESSION, user(f"Sign in with the token {secret} please"))
    (hits,) = like_sessions(small, LikeRequest("log in with a credential"))
    assert secret not in json.dumps([hit.text for turn in hits.turns for hit in turn.hits])
