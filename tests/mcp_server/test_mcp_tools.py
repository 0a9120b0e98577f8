"""The answers of the tools, word by word: models cite them, and continue from what they advise."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, call, nth, result, session, text, user
from support.mcp_peer import FIRST, SHOP, put
from turnlog.mcp_server.protocol import VERSIONS, Dispatcher
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.mcp_server.tool_table import TOOLS, list_tools
from turnlog.store.paths import Store

TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
QUOTED = re.compile(r"Between the marks .*\n<quoted-(\w+)>\n((?:.*\n)*?)</quoted-\1>\n?")
OTHER = "0b000000-0000-4000-8000-000000000003"


def ask(root: Path, tool: str, /, **given: Any) -> str:
    """Return an answer without the frame of quotations, and with T for each time."""
    answer = ToolRuns([Store(root)], Path(SHOP)).run(tool, given, {})[0]
    return TIME.sub("T", QUOTED.sub(r"\2", answer))


def test_sessions_are_listed_with_their_figures(root: Path) -> None:
    assert ask(root, "sessions") == (
        "sessions in project /home/ada/shop: 1 of 1, newest first\n"
        "5e551011 · T · Should we use Postgres or SQLite for orders? · 3 turns, 1 failed call ·"
        " $0.0026 · branch main · /home/ada/shop\n"
        'For prompts, files and outcome: sessions(session="ID").'
    )


@pytest.mark.parametrize(
    "filters",
    [
        {"since": "2100-01-01"},
        {"until": "2020-01-01"},
        {"branch": "other"},
        {"model": "haiku"},
        {"tool": "WebFetch"},
        {"file": "b.py"},
    ],
)
def test_filters_leave_sessions_out(root: Path, filters: dict[str, str]) -> None:
    kept = {"since": "2020-01-01", "until": "2100-01-01", "branch": "main", "model": "opus"}
    kept |= {"tool": "Bash", "file": "a.py"}
    (name,) = filters
    assert ": 1 of 1," in ask(root, "sessions", **{name: kept[name]})
    assert ": 0 of 0," in ask(root, "sessions", **filters)


def test_the_overview_of_a_session_begins_with_how_it_ended(root: Path) -> None:
    answer = ask(root, "sessions", session="last").splitlines()
    assert answer[0] == f"session {FIRST} in project {SHOP}"
    assert answer[2:] == [
        "Started T · 5 calls · 180 tokens · 0 sub-agents · claude-opus-5-5",
        "Ended with [5e551011:15 · turn 3 · T]: All tests pass.",
        "[5e551011:1 · turn 1 · T] Should we use Postgres or SQLite for orders?",
        "[5e551011:3 · turn 2 · T] Write a.py",
        "[5e551011:8 · turn 3 · T] Run the tests",
        "Files (calls):",
        "- /home/ada/shop/a.py (2)",
        "Calls: Bash 3, Edit 1, Write 1",
        'To read a turn: read(ref="5e551011", turn=N).',
    ]


@pytest.mark.parametrize(
    ("given", "turns"),
    [
        ({}, "turns 1-3"),
        ({"to_turn": 2}, "turns 1-2"),
        ({"turn": 2}, "turn 2"),
        ({"turn": 2, "to_turn": 2}, "turn 2"),
        ({"turn": 2, "to_turn": 9}, "turns 2-3"),
    ],
)
def test_a_transcript_has_the_turns_that_are_asked_for(
    root: Path, given: dict[str, int], turns: str
) -> None:
    head = ask(root, "read", ref=FIRST, **given).splitlines()[0]
    assert head == f"session {FIRST}, {turns} of 3, project {SHOP}"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"turn": 4}, f"{FIRST} has 3 turns, not 4"),
        ({"turn": 2, "to_turn": 1}, "to_turn comes before turn"),
    ],
)
def test_turns_that_are_not_there_are_refused(
    root: Path, given: dict[str, int], problem: str
) -> None:
    assert ask(root, "read", ref=FIRST, **given) == problem


def test_a_long_transcript_names_the_call_that_continues_it(root: Path) -> None:
    turns = [each for n in range(1, 33) for each in (user(f"Question {n}"), assistant(text("Yes")))]
    put(root, SHOP, session(*turns, session_id=OTHER), OTHER)
    whole = ask(root, "read", ref=OTHER)
    assert "turns 1-30 of 32" in whole
    assert whole.endswith(" Later turns: turn=31, to_turn=32.")
    assert "Later turns" not in ask(root, "read", ref=OTHER, turn=3)


def test_the_context_is_listed_with_sizes(root: Path) -> None:
    head, *lines = ask(root, "context", session="last").splitlines()
    assert head == (
        f"context of {FIRST} on resume, project {SHOP}: 14 messages, about 163 tokens, from 3 turns"
    )
    assert lines[4] == "5. user tool_result, ~1 tokens: ok"
    assert lines[7] == "7. user text, ~5 tokens: Run the tests"
    assert lines[8] == '8. assistant tool_use Bash, ~8 tokens: {"command": "pytest -q"}'


def write(content: str, call_id: str, **fields: Any) -> tuple[bytes, bytes]:
    given = {"file_path": f"{SHOP}/b.py", "content": content}
    shown = {"type": "create", "filePath": f"{SHOP}/b.py", "content": content}
    return assistant(call("Write", given, call_id), **fields), result(
        call_id, tool_use_result=shown
    )


def test_changes_on_an_abandoned_branch_are_marked(root: Path) -> None:
    lines = [
        user("First try"),
        *write("one\n", "w1"),
        user("Second try", parent=None),
        *write("two\n", "w2"),
        assistant(text("Done"), parent=nth(6)),
    ]
    put(root, SHOP, session(*lines, session_id=OTHER), OTHER)
    changes = [line for line in ask(root, "files", path="b.py").splitlines() if "Write" in line]
    assert [("abandoned branch" in each, "0b000000:3" in each) for each in changes] == [
        (False, False),
        (True, True),
    ]


def test_a_report_covers_the_period_that_is_asked_for(root: Path) -> None:
    whole = ask(root, "usage", since="2020-01-01", until="2100-01-01")
    assert "since 2020-01-01 until 2100-01-01\nTotal: turns 3, calls 5, errors 1," in whole
    assert "day | sessions | turns | calls | errors | tokens | input | output | cost_usd" in whole
    for period in ({"since": "2100-01-01"}, {"until": "2020-01-01"}):
        assert "Total" not in ask(root, "usage", **period)


def test_a_failure_is_shown_with_what_fixed_it(root: Path) -> None:
    assert ask(root, "errors", command="pytest").splitlines() == [
        "errors like 'pytest' in project /home/ada/shop: 1, 1 of them fixed",
        "[5e551011:9 · turn 3 · T] failed: Bash pytest -q",
        "  in 5e551011 · Should we use Postgres or SQLite for orders?",
        "  error: ModuleNotFoundError: No module named 'attrs'",
        "  in between:",
        "    [5e551011:11] Bash pip install attrs",
        "  [5e551011:13] T then worked: Bash pytest -q",
    ]


def test_a_fix_in_a_file_is_shown_with_its_change(root: Path) -> None:
    path = f"{SHOP}/shop.yaml"
    long = "\n".join(f"port: {n}" for n in range(30))
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq2" * 3 + "\n"
    lines = [
        user("Deploy it"),
        assistant(call("Bash", {"command": "kubectl apply"}, "k1")),
        result("k1", "unknown field spec.replica", is_error=True),
        assistant(
            call("Edit", {"file_path": path, "old_string": "replica", "new_string": key}, "k2")
        ),
        result("k2"),
        assistant(call("Write", {"file_path": path, "content": long}, "k3")),
        result("k3"),
        assistant(call("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, "k4")),
        result("k4", "String to replace not found", is_error=True),
        assistant(call("Bash", {"command": "kubectl apply"}, "k5")),
        result("k5", "configured"),
    ]
    put(root, SHOP, session(*lines, session_id=OTHER), OTHER)
    shown = ask(root, "errors", command="kubectl apply").splitlines()
    start = shown.index("  in between:")
    assert shown[start + 1 : start + 4] == [
        f"    [0b000000:4] Edit {path}",
        "      @@ -1 +1,2 @@",
        "      -replica",
    ]
    assert re.fullmatch(r"      \+\[private-key:\w+\]", shown[start + 4])
    rest = shown[start + 5 :]
    assert rest[0] == f"    [0b000000:6] Write {path}"
    assert rest[1:3] == ["      @@ -0,0 +1,30 @@", "      +port: 0"]
    assert rest[12:15] == [
        "      +port: 10",
        "      … 19 more lines of this change",
        f"    [0b000000:8] Edit {path} → failed: String to replace not found",
    ]
    assert rest[15] == "  [0b000000:10] T then worked: Bash kubectl apply"


def test_a_turn_without_a_prompt_is_listed_too(root: Path) -> None:
    lines = [assistant(text("Hello.")), user("Then this"), assistant(text("Done."))]
    put(root, SHOP, session(*lines, session_id=OTHER), OTHER)
    shown = ask(root, "sessions", session=OTHER)
    assert "turn 1" in shown
    assert "Then this" in shown


def test_no_more_failures_are_shown_than_asked_for(root: Path) -> None:
    lines = [user("Build it")]
    for number, goal in enumerate(("shop", "docs", "wheel")):
        lines.append(assistant(call("Bash", {"command": f"make {goal}"}, f"m{number}")))
        lines.append(result(f"m{number}", f"no rule for {goal}", is_error=True))
    put(root, SHOP, session(*lines, session_id=OTHER), OTHER)
    shown = [
        ask(root, "errors", command="make", limit=limit).count("] failed: ") for limit in (1, 2, 9)
    ]
    assert shown == [1, 2, 3]


def test_hits_name_the_tool_and_what_failed(root: Path) -> None:
    assert ask(root, "search", query="attrs").splitlines() == [
        "search 'attrs' in project /home/ada/shop: 1 of at most 6 sessions",
        "## 5e551011 · Should we use Postgres or SQLite for orders? · /home/ada/shop"
        " · last active T",
        "[5e551011:11 · turn 3 · T] prompt: Run the tests",
        "  [5e551011:11] Bash input: pip install attrs",
        "  [5e551011:12] Bash result: Successfully installed attrs",
        "  [5e551011:15] the turn ended: All tests pass.",
        '(1 more hits: search with session="5e551011")',
        'To read on: read(ref="…") with a reference from above.',
    ]
    failed = ask(root, "search", query="attrs", errors=True)
    assert "[5e551011:10] Bash result (failed): ModuleNotFoundError" in failed


LIMITS: dict[str, dict[str, int]] = {
    "search": {"query": 1_000, "kinds": 8, "tool": 100, "file": 1_000, "branch": 400, "limit": 25},
    "sessions": {"branch": 400, "model": 100, "tool": 100, "file": 1_000, "limit": 200},
    "read": {"ref": 240, "turn": 1_000_000, "to_turn": 1_000_000},
    "files": {"path": 1_000, "at": 60, "limit": 200},
    "usage": {"by": 7, "model": 100},
    "context": {},
    "errors": {"command": 2_000, "message": 4_000, "limit": 25},
}
SHARED = {"session": 240, "since": 40, "until": 40, "cursor": 40}


@pytest.mark.parametrize("name", TOOLS)
def test_arguments_have_the_published_limits(name: str) -> None:
    properties = TOOLS[name].schema["properties"]
    limits = {
        each: about[limit]
        for each, about in properties.items()
        for limit in ("maxLength", "maximum", "maxItems")
        if limit in about
    }
    shared = {each: most for each, most in SHARED.items() if each in properties}
    assert limits == LIMITS[name] | shared
    assert not TOOLS[name].schema["additionalProperties"]


def test_clients_learn_that_the_tools_only_read() -> None:
    hints = [tool["annotations"] for tool in list_tools()]
    assert hints == [{"readOnlyHint": True, "openWorldHint": False}] * len(TOOLS)


def answer(root: Path, message: Any) -> dict[str, Any]:
    found = Dispatcher(ToolRuns([Store(root)], Path(SHOP))).answer(message)
    assert found
    return found


@pytest.mark.parametrize(
    ("wanted", "spoken"), [*((each, each) for each in VERSIONS), ("1999-01-01", VERSIONS[0])]
)
def test_a_known_version_of_the_protocol_is_spoken(root: Path, wanted: str, spoken: str) -> None:
    params = {"protocolVersion": wanted}
    found = answer(root, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    assert found["result"]["protocolVersion"] == spoken


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("no/such", {}, -32601),
        ("tools/call", {"name": "rm"}, -32602),
        ("resources/read", {"uri": f"turnlog://session/{OTHER}"}, -32002),
        (7, {}, -32600),
    ],
)
def test_errors_have_the_codes_of_the_protocol(
    root: Path, method: Any, params: dict[str, str], code: int
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert answer(root, message)["error"]["code"] == code
