"""Texts become vectors: with the table, or by a server that the user configured."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import SESSION, session, user
from support.mcp_peer import put
from turnlog.errors import Unavailable, UsageError
from turnlog.index.semantic import endpoint_model
from turnlog.index.semantic.embedding_models import configured_model
from turnlog.index.semantic.endpoint_model import EndpointModel
from turnlog.index.semantic.static_model import (
    DIMENSIONS,
    FOLDER,
    HEAD,
    LONGEST,
    NUMBERS,
    ROW,
    StaticModel,
)
from turnlog.index.semantic.vector_codes import (
    cosines,
    distances,
    nearest_places,
    quantize,
    values_of,
)
from turnlog.index.semantic.word_pieces import words_of
from turnlog.index.similarity import LikeRequest, like_sessions
from turnlog.store.paths import Store

MODEL = StaticModel()
TABLE = (FOLDER / "rows.int4").read_bytes()
SECRET = "ghp_" + "Zk3Jq8LwN5vT2yRb7XcM1dPf6HsG9aUe4oKi"
Answer = Callable[[dict[str, Any]], Any]


def sums(text: str) -> list[int]:
    """Add up the rows of a text's tokens, one number after the other."""
    tokens = [token for word in words_of(text) for token in MODEL.vocabulary.split_word(word)]
    return [sum(column) for column in zip(*map(numbers, tokens[:LONGEST]), strict=True)]


def numbers(token: int) -> list[int]:
    """Return the numbers of a token, each looked up in the scale of its row."""
    scale, *row = TABLE[HEAD + token * ROW :][:ROW]
    scaled = values_of(TABLE[scale * NUMBERS :][:NUMBERS])
    return [scaled[place] for packed in row for place in (packed & 15, packed >> 4)]


def test_the_table_is_small_and_complete() -> None:
    assert len(TABLE) == HEAD + len(MODEL.vocabulary.numbers) * ROW
    assert len(TABLE) < 3_000_000


@pytest.mark.parametrize(
    "text", ["fix the login", "Kubernetes pods crash-loop", "Café 検索 naïve", "zzqx " * 40]
)
def test_adding_in_lanes_equals_adding_number_by_number(text: str) -> None:
    assert MODEL.embed_texts([text]) == [quantize(sums(text))]


def test_an_unknown_word_is_split_into_pieces() -> None:
    names = {number: name for name, number in MODEL.vocabulary.numbers.items()}
    pieces = [names[number] for number in MODEL.vocabulary.split_word("refactorability")]
    assert len(pieces) > 1
    assert "".join(piece.removeprefix("##") for piece in pieces) == "refactorability"
    assert not pieces[0].startswith("##")
    assert all(piece.startswith("##") for piece in pieces[1:])


def test_only_the_first_tokens_of_a_long_text_count() -> None:
    long = "login " * LONGEST
    assert MODEL.embed_texts([long]) == MODEL.embed_texts([long + "bread " * 1000])


def test_similar_texts_have_similar_vectors() -> None:
    texts = ["the user cannot log in", "sign-in fails for people", "bake a loaf of bread"]
    a, b, c = (each.row for each in MODEL.embed_texts(texts) if each)
    near, far = cosines(values_of(a), [b, c])
    assert near > far + 0.2


@pytest.mark.parametrize("text", ["", "!!!", "🎉", "\0"])
def test_a_text_without_words_has_no_vector(text: str) -> None:
    assert MODEL.embed_texts([text]) == [None]


@given(st.text(max_size=300))
def test_any_text_can_be_embedded(text: str) -> None:
    (vector,) = MODEL.embed_texts([text])
    assert vector is None or (len(vector.row), len(vector.code)) == (DIMENSIONS, DIMENSIONS // 8)


@given(st.data(), st.sampled_from([1, 3, 24, 31, 32, 63, 96]))
def test_distances_count_differing_bits(data: st.DataObject, size: int) -> None:
    code = data.draw(st.binary(min_size=size, max_size=size))
    codes = data.draw(st.lists(st.binary(min_size=size, max_size=size), max_size=9))
    codes += [code, bytes(each ^ 255 for each in code)]
    expected = [sum((a ^ b).bit_count() for a, b in zip(each, code, strict=True)) for each in codes]
    assert distances(code, b"".join(codes)) == expected
    assert distances(code, b"") == []


@given(st.lists(st.integers(0, 9)), st.integers(0, 20), st.integers(0, 20))
def test_nearest_places_are_those_of_a_sorted_list(
    numbers: list[int], start: int, count: int
) -> None:
    expected = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert nearest_places(numbers, start, start + count) == expected[start : start + count]


class EmbeddingServer:
    """A scripted server that records requests."""

    def __init__(self) -> None:
        self.answer: Answer = lambda body: {"embeddings": [vector(each) for each in body["input"]]}
        self.status = 200
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                outer.headers.append(dict(self.headers))
                found = outer.answer(body)
                content = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(outer.status)
                if outer.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/embeddings"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def vector(text: str) -> list[float]:
    """Tell texts about bread from all others."""
    return [1.0, -0.5, 0.2] if "bread" in text or "loaf" in text else [-1.0, 0.5, 0.1]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    found = EmbeddingServer()
    yield found
    found.close()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the configuration."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


def configure(own: Path, url: str, more: str = "", model: str = "bge") -> None:
    text = f'[semantic]\nendpoint = "{url}"\nmodel = "{model}"\n{more}'
    (own / "config.toml").write_text(text)


def test_without_a_configuration_nothing_is_sent(own: Path, server: EmbeddingServer) -> None:
    assert isinstance(configured_model(), StaticModel)
    (own / "config.toml").write_text('stores = ["~/.claude"]\n[semantic]\n')
    assert isinstance(configured_model(), StaticModel)
    assert server.bodies == []


def test_an_endpoint_embeds_texts_and_questions(
    own: Path, server: EmbeddingServer, tmp_path: Path
) -> None:
    configure(own, server.url, 'key_env = "MY_KEY"\n')
    store = Store(tmp_path / "store")
    put(store.root, "/p", session(user(f"Bake some bread, {SECRET}")), SESSION)
    with pytest.raises(UsageError, match="MY_KEY"):
        configured_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", "k-1")
        assert [hits.id for hits in like_sessions(store, LikeRequest("a loaf"))] == [SESSION]
        sent = len(server.bodies)
        assert [hits.id for hits in like_sessions(store, LikeRequest("a loaf"))] == [SESSION]
    assert {each["Authorization"] for each in server.headers} == {"Bearer k-1"}
    assert {each["model"] for each in server.bodies} == {"bge"}
    assert SECRET not in json.dumps(server.bodies)
    texts = [text for each in server.bodies[sent:] for text in each["input"]]
    assert not any("Bake" in text for text in texts)  # it has a vector already


def test_answers_in_the_form_of_openai_are_sorted_by_index(
    own: Path, server: EmbeddingServer
) -> None:
    def answer(body: dict[str, Any]) -> Any:
        items = [{"index": n, "embedding": vector(t)} for n, t in enumerate(body["input"])]
        return {"object": "list", "data": items[::-1]}

    server.answer = answer
    configure(own, server.url)
    bread, other = configured_model().embed_texts(["bread", "login"])
    assert (bread, other) == (quantize(vector("bread")), quantize(vector("login")))


def test_answers_without_an_index_are_in_the_order_of_the_texts(
    own: Path, server: EmbeddingServer
) -> None:
    server.answer = lambda body: {"data": [{"embedding": vector(t)} for t in body["input"]]}
    configure(own, server.url)
    bread, other = configured_model().embed_texts(["bread", "login"])
    assert (bread, other) == (quantize(vector("bread")), quantize(vector("login")))


def test_another_model_makes_all_vectors_again(
    own: Path, server: EmbeddingServer, tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    put(store.root, "/p", session(user("Bake some bread for us")), SESSION)
    found = [[hits.id for hits in like_sessions(store, LikeRequest("a loaf of bread"))]]
    for model in ("bge", "nomic"):
        configure(own, server.url, model=model)
        found.append([hits.id for hits in like_sessions(store, LikeRequest("a loaf of bread"))])
    (own / "config.toml").unlink()
    found.append([hits.id for hits in like_sessions(store, LikeRequest("a loaf of bread"))])
    assert found == [[SESSION]] * 4
    sent = [each["model"] for each in server.bodies if "Bake some bread for us" in each["input"]]
    assert sent == ["bge", "nomic"]


BAD: dict[str, Any] = {
    "something other than JSON": b"<html>",
    "0 vectors for 1 texts": {"error": "no such model"},
    "something other than vectors": {"embeddings": [["a"]]},
    "something other": {"embeddings": [[]]},
    "something other than": {"embeddings": [[1e400, 2.0]]},
    "0 vectors": [1, 2],
    "2 vectors for 1 texts": {"embeddings": [[1.0], [2.0]]},
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_answer_is_one_error(own: Path, server: EmbeddingServer, reason: str) -> None:
    server.answer = lambda body: BAD[reason]
    configure(own, server.url)
    with pytest.raises(Unavailable, match=reason) as caught:
        configured_model().embed_texts(["bread"])
    assert caught.value.hint == f"$EDITOR {own / 'config.toml'}"
    assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_refusal_is_an_error_and_redirects_are_not_followed(
    own: Path, server: EmbeddingServer, status: int
) -> None:
    server.status = status
    configure(own, server.url)
    with pytest.raises(Unavailable, match=f"status {status}"):
        configured_model().embed_texts(["bread"])
    assert len(server.bodies) == 1


def test_vectors_of_another_size_are_an_error(own: Path, server: EmbeddingServer) -> None:
    sizes = iter([3, 4])
    server.answer = lambda body: {"embeddings": [[1.0] * next(sizes)]}
    configure(own, server.url)
    model = configured_model()
    model.embed_texts(["bread"])
    with pytest.raises(Unavailable, match="vectors of 4 and 3 numbers"):
        model.embed_texts(["bread"])


def test_a_server_that_is_down_is_an_error(own: Path, server: EmbeddingServer) -> None:
    server.close()
    configure(own, server.url)
    with pytest.raises(Unavailable, match="cannot reach"):
        configured_model().embed_texts(["bread"])


def test_a_server_that_never_answers_is_given_up(
    own: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    server.answer = lambda body: released.wait(60) and {}
    monkeypatch.setattr(endpoint_model, "PATIENCE", 0.2)
    configure(own, server.url)
    with pytest.raises(Unavailable, match="timed out"):
        configured_model().embed_texts(["bread"])
    released.set()


@pytest.mark.parametrize(
    "settings",
    [
        'semantic = "x"',
        "[semantic]\nendpoint = 5",
        '[semantic]\nendpoint = "ftp://x"\nmodel = "m"',
        '[semantic]\nendpoint = "http://127.0.0.1:9"',
        '[semantic]\nendpoint = "http://127.0.0.1:9"\nmodel = ["m"]',
    ],
)
def test_a_wrong_configuration_is_named(own: Path, settings: str) -> None:
    (own / "config.toml").write_text(settings)
    with pytest.raises(UsageError, match="semantic"):
        configured_model()


def test_a_model_is_named_after_server_model_and_size(own: Path, server: EmbeddingServer) -> None:
    configure(own, server.url)
    model = configured_model()
    assert isinstance(model, EndpointModel)
    assert model.name == f"{server.url} bge 3"
