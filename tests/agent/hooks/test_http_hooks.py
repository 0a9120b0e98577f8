"""Hooks that are addresses, against a real server."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hook_server import HookServer, Reply, hook_server
from turnlog.agent.hooks.hook_entries import attachment_lines
from turnlog.agent.hooks.hooks import Hooks
from turnlog.agent.hooks.http_hooks import ANYTHING, Allowed, reaches
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.hooks.payload import SessionFacts
from turnlog.format.json_values import Fields

BASH: Fields = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1"}
DENY = {"permissionDecision": "deny", "permissionDecisionReason": "not today"}


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as running:
        yield running


def fire(
    folder: Path, event: str, url: str, allowed: Allowed = ANYTHING, **handler: object
) -> HookOutcome:
    facts = SessionFacts("5e551011", folder / "5e551011.jsonl", folder, folder)
    groups = {event: [{"hooks": [{"type": "http", "url": url, **handler}]}]}
    hooks = Hooks(groups, facts, allowed=allowed)
    matched = "Bash" if "Tool" in event else None
    return asyncio.run(hooks.fire(event, matched, BASH if matched else {}))


def test_what_happened_is_posted_as_json(tmp_path: Path, server: HookServer) -> None:
    fire(tmp_path, "PreToolUse", f"{server.url}/check")
    (posted,) = server.posted
    assert (posted.path, posted.headers["Content-Type"]) == ("/check", "application/json")
    assert posted.body == {
        "session_id": "5e551011",
        "transcript_path": str(tmp_path / "5e551011.jsonl"),
        "cwd": str(tmp_path),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        **BASH,
    }


def test_the_answer_counts_as_that_of_a_command(tmp_path: Path, server: HookServer) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **DENY}}
    server.replies["/"] = Reply(json.dumps(said))
    outcome = fire(tmp_path, "PreToolUse", f"{server.url}/")
    assert (outcome.decision, outcome.reason, outcome.errors) == ("deny", "not today", [])


def test_an_empty_answer_is_no_answer(tmp_path: Path, server: HookServer) -> None:
    outcome = fire(tmp_path, "UserPromptSubmit", server.url)
    assert (outcome.context, outcome.errors, outcome.block) == ([], [], False)
    assert attachment_lines(outcome, "id") == []


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply("remember this"), "is not JSON: remember this"),
        (Reply('["a"]'), 'is not JSON: ["a"]'),
        (Reply("{broken"), "is not JSON: {broken"),
        (Reply('{"decision": "maybe"}'), "its output is invalid"),
        (Reply("no", 500), "HTTP 500 from"),
        (Reply("", 404), "HTTP 404 from"),
    ],
)
def test_any_other_answer_is_an_error_that_stops_nothing(
    tmp_path: Path, server: HookServer, reply: Reply, told: str
) -> None:
    server.replies["/"] = reply
    outcome = fire(tmp_path, "UserPromptSubmit", f"{server.url}/")
    assert (outcome.block, outcome.context) == (False, [])
    assert told in outcome.errors[0]
    assert outcome.errors[0].startswith("UserPromptSubmit hook error: ")
    (line,) = attachment_lines(outcome, "id")
    assert line["attachment"]["type"] == "hook_non_blocking_error"
    assert line["attachment"]["exitCode"] == reply.status


@pytest.mark.parametrize(
    "answer",
    [
        '{"decision": "block", "reason": "' + "x" * (1 << 20) + '"}',
        '{"decision": "block", "reason": "a\nb"}',
        '\ufeff{"decision": "block"}',
    ],
)
def test_no_denial_is_lost_because_it_cannot_be_read(
    tmp_path: Path, server: HookServer, answer: str
) -> None:
    server.replies["/"] = Reply(answer)
    outcome = fire(tmp_path, "UserPromptSubmit", f"{server.url}/")
    assert (outcome.block, outcome.context) == (True, [])


def test_no_redirection_is_followed(tmp_path: Path, server: HookServer) -> None:
    server.replies["/a"] = Reply("", 302, (("Location", f"{server.url}/b"),))
    assert "HTTP 302" in fire(tmp_path, "Stop", f"{server.url}/a").errors[0]
    assert [posted.path for posted in server.posted] == ["/a"]


def test_where_nothing_listens_is_an_error_that_stops_nothing(
    tmp_path: Path, server: HookServer
) -> None:
    outcome = fire(tmp_path, "Stop", "http://127.0.0.1:1/")
    assert not outcome.block
    assert "http://127.0.0.1:1/" in outcome.errors[0]


@pytest.mark.parametrize("url", ["", "no address", "ftp://example.com/"])
def test_what_is_no_address_is_an_error_that_stops_nothing(tmp_path: Path, url: str) -> None:
    outcome = fire(tmp_path, "Stop", url)
    assert (outcome.block, len(outcome.errors)) == (False, 1)


def test_an_answer_that_does_not_come_is_not_waited_for(tmp_path: Path, server: HookServer) -> None:
    server.silent.add("/slow")
    outcome = fire(tmp_path, "PreToolUse", f"{server.url}/slow", timeout=0.3)
    assert not outcome.block
    assert "timed out after 0.3 s" in outcome.errors[0]


def test_headers_hold_only_variables_that_the_hook_names(
    tmp_path: Path, server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOKEN", "OTHER", "SECRET", "TOKENS"):
        monkeypatch.setenv(name, f"<{name.lower()}>")
    headers = {"Authorization": "Bearer $TOKEN ${OTHER} $SECRET$TOKENS.", "X-Plain": "a\r\nB: é"}
    named = ["TOKEN", "OTHER", "NOT_SET"]
    fire(tmp_path, "Stop", server.url, headers=headers, allowedEnvVars=named)
    sent = server.posted[0].headers
    assert sent["Authorization"] == "Bearer <token> <other> ."
    assert sent["X-Plain"].encode("latin-1").decode() == "aB: é"
    assert "B" not in sent


def test_the_settings_may_allow_fewer_variables(
    tmp_path: Path, server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "t")
    monkeypatch.setenv("OTHER", "o")
    hook = {"headers": {"X": "$TOKEN|$OTHER"}, "allowedEnvVars": ["TOKEN", "OTHER"]}
    fire(tmp_path, "Stop", server.url, Allowed(variables=("OTHER",)), **hook)
    assert server.posted[0].headers["X"] == "|o"


def test_only_addresses_that_the_settings_allow_are_reached(
    tmp_path: Path, server: HookServer
) -> None:
    allowed = Allowed((f"{server.url}/good/*",))
    fire(tmp_path, "Stop", f"{server.url}/good/one", allowed)
    outcome = fire(tmp_path, "Stop", f"{server.url}/bad", allowed)
    assert "allowedHttpHookUrls" in outcome.errors[0]
    assert [posted.path for posted in server.posted] == ["/good/one"]


@pytest.mark.parametrize(
    ("url", "pattern", "expected"),
    [
        ("https://hooks.example.com/a/b?c=1", "https://hooks.example.com/*", True),
        ("https://HOOKS.example.com./a", "https://hooks.example.com/*", True),
        ("https://hooks.example.com/a", "https://Hooks.Example.com./*", True),
        ("https://hooks.example.com/A", "https://hooks.example.com/a", False),
        ("http://hooks.example.com/a", "https://hooks.example.com/*", False),
        ("http://localhost:8080/a", "http://localhost:*", True),
        ("http://localhost/a", "http://localhost:*", True),
        ("http://localhost:80/a", "http://localhost/*", True),
        ("https://a.example.com/x", "https://*.example.com/*", True),
        ("https://evil.com/?.example.com/", "https://*.example.com/*", False),
        ("http://localhost:1@evil.com/a", "http://localhost:*", False),
        ("http://localhost:80\\@evil.com/a", "http://localhost:*", False),
        ("https://anything.com/", "*", True),
        ("https://example.com/", "https://example.com", True),
        ("https://example.com/a", "https://example.com", False),
    ],
)
def test_addresses_are_compared_as_they_are_connected_to(
    url: str, pattern: str, expected: bool
) -> None:
    assert reaches(url, (pattern,)) is expected


def test_an_empty_list_allows_no_address() -> None:
    assert not reaches("http://localhost/", ())


@pytest.mark.parametrize(
    "host",
    ["10.0.0.1", "169.254.169.254", "192.168.1.1", "100.100.100.200", "0.0.0.0", "[fd00::1]",
     "[fe80::1]", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[fec0::1]", "2852039166"],
)  # fmt: skip
def test_a_private_network_is_not_posted_to(tmp_path: Path, host: str) -> None:
    outcome = fire(tmp_path, "Stop", f"http://{host}/latest/meta-data", timeout=5)
    assert "is in a private network" in outcome.errors[0]


def test_a_name_that_leads_elsewhere_a_moment_later_is_looked_up_once(
    tmp_path: Path, server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(server.url.rpartition(":")[2])
    found = iter([("127.0.0.1", port), ("127.0.0.1", 1)])

    def lookup(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", next(found))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    outcome = fire(tmp_path, "Stop", f"http://rebinding.example:{port}/a")
    assert outcome.errors == []
    assert server.posted[0].headers["Host"] == f"rebinding.example:{port}"


def test_a_name_with_a_private_address_among_its_addresses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup(*_: object, **__: object) -> list[tuple[object, ...]]:
        places = [("93.184.216.34", 80), ("10.0.0.1", 80)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    outcome = fire(tmp_path, "Stop", "http://both.example/")
    assert "both.example is in a private network" in outcome.errors[0]


@pytest.mark.parametrize(("is_project", "sent"), [(True, ""), (False, "key")])
def test_a_hook_of_a_project_cannot_send_the_key(
    tmp_path: Path,
    server: HookServer,
    monkeypatch: pytest.MonkeyPatch,
    is_project: bool,
    sent: str,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    name = "ANTHROPIC_API_KEY"
    handler = {"type": "http", "url": server.url, "headers": {"X-Key": f"${name}"}}
    group = {"hooks": [handler | {"allowedEnvVars": [name]}], "is_project": is_project}
    facts = SessionFacts("5e551011", tmp_path / "5e551011.jsonl", tmp_path, tmp_path)
    asyncio.run(Hooks({"UserPromptSubmit": [group]}, facts).fire("UserPromptSubmit", None, {}))
    assert server.posted[0].headers["X-Key"] == sent
