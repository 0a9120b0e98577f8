"""search --like: these sessions, this question, this output."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, session, text, user
from support.mcp_peer import put

BREAD = "07e40000-0000-4000-8000-000000000002"
OVEN = "0be40000-0000-4000-8000-000000000003"


@pytest.fixture(autouse=True)
def sessions(tmp_path: Path, project: Path) -> None:
    talks = {
        SESSION: ("Users are logged out every few minutes", "The cookie is renewed now."),
        BREAD: ("How long does bread bake?", "A loaf takes forty minutes at 220 degrees."),
        OVEN: ("Preheat the oven for the dough", "It needs a quarter of an hour."),
    }
    for id_, (asked, answered) in talks.items():
        lines = session(user(asked), assistant(text(answered)), session_id=id_)
        put(tmp_path, "/home/ada/shop", lines, id_)


def test_a_question_in_other_words_finds_a_session(turnlog: Run) -> None:
    out = turnlog("search", "--like", "log in with a credential", "-n", "1").out
    assert out.splitlines()[0].startswith(SESSION[:8])
    assert "Users are logged out every few minutes" in out
    assert f"claude --resume {SESSION}" in out


def test_json_has_the_form_of_every_search(turnlog: Run) -> None:
    like = json.loads(turnlog("search", "--like", "loaf in the oven", "--json").out)
    words = json.loads(turnlog("search", "loaf", "--json").out)
    assert like[0]["id"] in (BREAD, OVEN)
    assert like[0].keys() == words[0].keys()
    assert SESSION not in {each["id"] for each in like[:2]}


@pytest.mark.parametrize("name", [BREAD, BREAD[:8]])
def test_a_session_finds_others_like_it(turnlog: Run, name: str) -> None:
    found = json.loads(turnlog("search", "--like", name, "--json").out)
    assert found[0]["id"] == OVEN
    assert BREAD not in {each["id"] for each in found}


def test_the_id_of_a_session_that_is_gone_is_no_text(turnlog: Run) -> None:
    ran = turnlog("search", "--like", "0fe40000-0000-4000-8000-000000000009")
    assert ran.code == 1
    assert ran.err.startswith("turnlog: no session")
    # Hexadecimal words are text.
    assert "nothing is similar to 'facade'" in turnlog("search", "--like", "facade").err


def test_filters_narrow_it_down(turnlog: Run) -> None:
    ran = turnlog("search", "--like", "loaf in the oven", "--project", "elsewhere")
    assert ran.code == 1
    assert ran.err.startswith("turnlog: nothing is similar to 'loaf in the oven' (try: ")


@pytest.mark.parametrize("more", [["bread"], ["--regex"]])
def test_it_takes_the_place_of_a_query(turnlog: Run, more: list[str]) -> None:
    ran = turnlog("search", "--like", "loaf", *more)
    assert ran.code == 2
    assert ran.err.startswith("turnlog: --like cannot be combined with QUERY or --regex (try: ")


def test_a_blank_text_is_a_usage_error(turnlog: Run) -> None:
    ran = turnlog("search", "--like", " ")
    assert (ran.code, ran.out) == (2, "")
    assert "--like needs a text or a session" in ran.err


def test_an_endpoint_that_is_down_is_one_line(turnlog: Run, tmp_path: Path) -> None:
    own = tmp_path / "turnlog"
    own.mkdir(exist_ok=True)
    endpoint = "http://127.0.0.1:9/v1/embeddings"
    (own / "config.toml").write_text(f'[semantic]\nendpoint = "{endpoint}"\nmodel = "m"\n')
    ran = turnlog("search", "--like", "loaf")
    assert ran.code == 1
    assert ran.err.startswith(f"turnlog: cannot reach {endpoint}: ")
    assert ran.err.endswith(f"(try: $EDITOR {own / 'config.toml'})\n")
    assert turnlog("search", "loaf").code == 0
