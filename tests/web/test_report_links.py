"""Every link on a report page leads to a page, with one store and with two."""

import re
from html import unescape
from pathlib import Path

import pytest

import turnlog
from support.build import SESSION, assistant, call, result, session, user
from support.web_server import running_server

SAMPLES = Path(turnlog.__file__).with_name("samples")
PAGES = [
    "/",
    "/?figure=sessions",
    *(
        f"/cost?by={by}"
        for by in ("day", "week", "month", "model", "project", "branch", "session", "block")
    ),
    "/cost?carrying=1",
    "/tools",
    "/files",
]


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store whose file names and directories need escaping in an address."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    root = tmp_path / "other"
    folder = root / "projects" / "-home-ada"
    folder.mkdir(parents=True)
    cwd = "/home/ada/a&b=c#d?e%20 f/日本"
    usage = {"model": "claude-opus-5", "usage": {"output_tokens": 10}}
    lines = [
        user("hi", cwd=cwd, git_branch="a&b#c"),
        assistant(
            call("Read", {"file_path": f"{cwd}/x y.py"}, "A"),
            message_id="m1",
            message=usage,
            cwd=cwd,
        ),
        result("A"),
    ]
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    (folder / "agent-a1.jsonl").write_bytes(session(*lines, session_id="", agent_id="a1"))
    return root


@pytest.mark.parametrize("count", [1, 2])
def test_every_link_leads_somewhere(other: Path, count: int) -> None:
    roots = [other, SAMPLES][:count]
    with running_server(*roots) as server:
        server.log_in()
        found: set[str] = set()
        for page in PAGES:
            answer = server.get(page)
            assert answer.status == 200, page
            found |= {unescape(each) for each in re.findall(r'href="(/[^"]*)"', answer.text)}
        links = {each for each in found if not each.startswith(("/live", "/viewer", "/static"))}
        assert len(links) > 60
        answers = {link: server.get(link).status for link in links}
    assert {link: status for link, status in answers.items() if status != 200} == {}
