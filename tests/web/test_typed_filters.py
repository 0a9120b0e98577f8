"""Filters typed into the search box of the web app: the same grammar as in the picker."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from support.build import SESSION, assistant, line, session, text, user
from support.web_server import WebServer, running_server
from turnlog.store.paths import Store

OTHER = "0e551011-0000-4000-8000-000000000000"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for id_, project, cost in ((SESSION, "shop", 2_000_000), (OTHER, "depot", 10)):
        path = tmp_path / "projects" / f"-home-ada-{project}" / f"{id_}.jsonl"
        path.parent.mkdir(parents=True)
        usage = {"usage": {"input_tokens": 10, "output_tokens": cost}}
        said = assistant(
            text(f"A needle in {project}."), message=usage, message_id=f"m-{id_}", cwd=project
        )
        tag = [line("tag", tag="release")] if id_ == OTHER else []
        prompt = user("Look", cwd=project, uuid=id_)
        path.write_bytes(session(prompt, said, *tag, session_id=id_))
    return Store(tmp_path)


def found(server: WebServer, typed: str) -> list[str]:
    rows = json.loads(server.get(f"/api/search?q={quote(typed)}").text)["rows"]
    return sorted(row["key"] for row in rows)


def test_the_search_box_takes_filters_with_and_without_words(store: Store) -> None:
    with running_server(store.root) as server:
        server.log_in()
        assert found(server, "needle") == [OTHER, SESSION]
        assert found(server, "needle cost:>1") == [SESSION]
        assert found(server, "cost:<1") == [OTHER]
        assert found(server, "project:depot") == [OTHER]
        assert found(server, "project:depot cost:>1") == []
        assert found(server, "live:") == []
        assert found(server, "tag:release") == found(server, "needle tag:Release") == [OTHER]
        assert found(server, "tag:other") == []
        assert server.get(f"/api/search?q={quote('cost:dear')}").status == 400
        assert server.get("/api/search?q=").status == 400
