"""A session is linked to the pull requests that its commands make."""

from pathlib import Path

import pytest

from chatting import hold_chat, lines_in
from scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import Options
from turnlog.agent.turn.pull_requests import created_pull_request
from turnlog.format.values import Fields
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
    """Run commands in a chat; gives the lines of its session."""
    calls = [called((f"t{n}", "Bash", {"command": each})) for n, each in enumerate(commands)]
    api.replies[:] = [*calls, said("Done.")]
    return send(store, project)


def send(store: Store, project: Path) -> list[Fields]:
    return lines_in(hold_chat(store, Options(cwd=project, allow=("Bash",)), "go"))


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
    done = {"number": 7, "url": f"{SHOP}/7", "action": "created"}
    assert result["toolUseResult"]["gitOperation"] == {"pr": done}
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


BODY = "\"$(cat <<'EOF'\nFollows {SHOP}/3. Run `gh pr create`.\nEOF\n)\""


@pytest.mark.parametrize(
    "command",
    [
        "gh pr create",
        "gh pr new --fill",
        f"git push -u origin topic 2>&1 && gh pr create --title 'a b' --body {BODY} 2>&1 | tail -1",
        "cd web && GH_TOKEN=x gh  pr \\\n create",
        "gh -R octo/shop pr create",
        "command gh pr create; echo done",
        "timeout 60 /usr/bin/gh pr create",
        "bash -c 'gh pr create --fill'",
        "url=$(gh pr create --fill); echo $url",
        "if git push; then gh pr create; fi",
        "for each in a b; do gh pr create --head $each; done",
        "gh pr create --body 'unfinished",
    ],
)
def test_a_command_that_makes_a_pull_request_is_known(command: str) -> None:
    made = created_pull_request(command, f"Creating pull request\n\n{SHOP}/7\n")
    assert made
    assert made.url == f"{SHOP}/7"


@pytest.mark.parametrize(
    "command",
    [
        "gh pr view --json url",
        "gh pr list",
        "gh issue create",
        "gh pr create --dry-run",
        "echo gh pr create",
        "grep -rn 'gh pr create' docs",
        "cat <<EOF\ngh pr create\nEOF",
        "git log  # gh pr create",
        "./release.sh",
        "",
    ],
)
def test_a_command_that_only_shows_an_address_makes_no_pull_request(command: str) -> None:
    assert created_pull_request(command, f"{SHOP}/7") is None


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (f"{SHOP}/7", (7, f"{SHOP}/7", "octo/shop")),
        (f"{SHOP}/7\n{SHOP}/8", (8, f"{SHOP}/8", "octo/shop")),
        (f"\x1b[32m{SHOP}/7/files\x1b[0m", (7, f"{SHOP}/7", "octo/shop")),
        (f"see ({SHOP}/7).", (7, f"{SHOP}/7", "octo/shop")),
        (
            "https://git.example.com:8443/team/app.js/pull/12#top",
            (12, "https://git.example.com:8443/team/app.js/pull/12", "team/app.js"),
        ),
        (
            "https://gitlab.com/a/b/c/-/merge_requests/5",
            (5, "https://gitlab.com/a/b/c/-/merge_requests/5", "a/b/c"),
        ),
        (f"{SHOP}/new/topic", None),
        (f"{SHOP}/7x", None),
        (f"{SHOP}/{'9' * 40}", None),
        ("https://me:secret@github.com/octo/shop/pull/7", None),
        ("https://github.com/shop/pull/7", None),
        ("file:///octo/shop/pull/7", None),
        ("a pull request", None),
    ],
)
def test_an_address_tells_number_and_repository(
    printed: str, expected: tuple[int, str, str] | None
) -> None:
    made = created_pull_request("gh pr create", printed)
    assert (made and (made.number, made.url, made.repository)) == expected


def test_an_output_full_of_addresses_is_read_at_once() -> None:
    printed = "https://a/" + "b/" * 15_000 + " https://a" * 3_000
    assert created_pull_request("gh pr create", printed) is None
