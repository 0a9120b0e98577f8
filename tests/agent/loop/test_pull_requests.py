"""A session is linked to the pull requests that its commands make."""

from pathlib import Path

import pytest

from support.chatting import hold_chat, lines_in
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.loop.turn_records import find_pull_request
from turnlog.agent.session.entry_builders import PullRequest
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

SHOP = "https://github.com/octo/shop/pull"


@pytest.fixture
def gh(tmp_path: Path) -> Path:
    """A gh that prints its last argument, and fails with `--fail`."""
    program = tmp_path / "gh"
    program.write_text('#!/bin/sh\nfor last; do :; done; echo "$last"\n[ "$3" != --fail ]\n')
    program.chmod(0o755)
    return program


def run(store: Store, project: Path, api: ScriptedApi, *commands: str) -> list[Fields]:
    """Run commands in a chat; return the lines of its session."""
    calls = [called((f"t{n}", "Bash", {"command": each})) for n, each in enumerate(commands)]
    api.replies[:] = [*calls, said("Done.")]
    return send(store, project)


def send(store: Store, project: Path) -> list[Fields]:
    return lines_in(hold_chat(store, ChatOptions(cwd=project, allow=("Bash",)), "go"))


def links_in(lines: list[Fields]) -> list[str]:
    return [line["prUrl"] for line in lines if line["type"] == "pr-link"]


def test_a_pull_request_is_linked_before_the_result_of_the_command_that_made_it(
    store: Store, project: Path, api: ScriptedApi, gh: Path
) -> None:
    lines = run(store, project, api, f"{gh} pr create --title x --body {SHOP}/7")
    (place,) = [place for place, line in enumerate(lines) if line["type"] == "pr-link"]
    link, result = lines[place : place + 2]
    assert list(link) == "type sessionId prNumber prUrl prRepository timestamp".split()
    assert link | {"timestamp": ""} == {
        "type": "pr-link",
        "sessionId": result["sessionId"],
        "prNumber": 7,
        "prUrl": f"{SHOP}/7",
        "prRepository": "octo/shop",
        "timestamp": "",
    }
    assert lines[place - 1]["timestamp"] < link["timestamp"] < result["timestamp"]
    assert result["parentUuid"] == lines[place - 1]["uuid"]


def test_each_pull_request_is_linked_once(
    store: Store, project: Path, api: ScriptedApi, gh: Path
) -> None:
    commands = [f"{gh} pr create {SHOP}/{number}" for number in (7, 8, 7)]
    assert links_in(run(store, project, api, *commands)) == [f"{SHOP}/7", f"{SHOP}/8"]


def test_a_command_that_fails_links_nothing(
    store: Store, project: Path, api: ScriptedApi, gh: Path
) -> None:
    lines = run(store, project, api, f"{gh} pr create --fail 'already exists: {SHOP}/7'")
    assert links_in(lines) == []


def test_a_pull_request_of_a_sub_agent_is_linked_in_the_session(
    store: Store, project: Path, api: ScriptedApi, gh: Path
) -> None:
    task = {"description": "Go", "prompt": "make it", "subagent_type": "general-purpose"}
    api.replies[:] = [
        called(("t1", "Agent", task)),
        called(("s1", "Bash", {"command": f"{gh} pr create {SHOP}/7"})),
        said("Made."),
        said("Done."),
    ]
    assert links_in(send(store, project)) == [f"{SHOP}/7"]
    (agent,) = store.root.glob("projects/*/*/subagents/agent-*.jsonl")
    assert b"pr-link" not in agent.read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        "gh pr create",
        "git push && gh pr create --fill 2>&1 | tail -1",
        "(cd web; /usr/bin/gh  pr \\\n create)",
    ],
)
def test_a_command_that_makes_a_pull_request_is_known(command: str) -> None:
    printed = f"see {SHOP}/3\n{SHOP}/7\n"
    made = find_pull_request(command, printed)
    assert made == PullRequest(7, f"{SHOP}/7", "octo/shop")


@pytest.mark.parametrize(
    "command", ["gh pr view 7", "gh pr list", "gh pr created", "xgh pr create", "curl x"]
)
def test_a_command_that_only_shows_an_address_makes_no_pull_request(command: str) -> None:
    assert find_pull_request(command, f"{SHOP}/7") is None


@pytest.mark.parametrize("printed", ["", "done", "https://github.com/octo/shop/issues/7", "pull/7"])
def test_nothing_is_linked_without_an_address(printed: str) -> None:
    assert find_pull_request("gh pr create", printed) is None
