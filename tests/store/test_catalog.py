"""Sessions described from the head and the tail of their files."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.build import (
    SESSION,
    assistant,
    compaction,
    encode,
    line,
    moment,
    result,
    session,
    text,
    user,
)
from turnlog.format.timestamps import parse_timestamp
from turnlog.store.catalog import (
    FAR_REACH,
    REACH,
    Description,
    count_adjacent,
    count_subagents,
    describe,
    list_sessions,
    live_sessions,
    locate_session,
    names_of,
    title_of,
)
from turnlog.store.paths import Store, title_file

PADDING = line("sparkle", text="x" * REACH)
PICKER = 65_536
"""Bytes that the client's picker reads of head and tail (2.1.325)."""
ENVIRONMENT = "<ide_opened_file>The user opened a.py</ide_opened_file>"


@pytest.fixture
def path(store: Store) -> Path:
    found = store.project_of("/home/ada/shop") / f"{SESSION}.jsonl"
    found.parent.mkdir()
    return found


def described(path: Path, *lines: bytes) -> Description:
    path.write_bytes(session(*lines))
    found = describe(locate_session(path))
    assert names_of(path) == (found.title, found.tag)
    return found


def save_title(path: Path, value: Any) -> None:
    title_file(path).parent.mkdir(exist_ok=True)
    title_file(path).write_text(json.dumps(value))


# Titles

HEAD = {
    "command": user("<command-name>/init</command-name>\n<command-args>all</command-args>"),
    "prompt": user("first prompt"),
    "ai head": line("ai-title", ai_title="ai head"),
    "custom head": line("custom-title", custom_title="custom head"),
}
TAIL = {
    "last prompt": line("last-prompt", last_prompt="last prompt"),
    "summary": line("summary", summary="summary"),
    "ai tail": line("ai-title", ai_title="ai tail"),
    "custom tail": line("custom-title", custom_title="custom tail"),
}
PRECEDENCE = [
    ("custom tail", "custom tail"),
    ("saved", "saved"),
    ("custom head", "custom head"),
    ("ai tail", "ai tail"),
    ("ai head", "ai head"),
    ("summary", "summary"),
    ("last prompt", "last prompt"),
    ("prompt", "first prompt"),
    ("command", "/init all"),
]


@pytest.mark.parametrize("rank", range(len(PRECEDENCE)))
def test_of_several_titles_the_one_of_the_picker_is_taken(path: Path, rank: int) -> None:
    there = {name for name, _ in PRECEDENCE[rank:]}
    if "saved" in there:
        save_title(path, {"customTitle": "saved"})
    head = [raw for name, raw in HEAD.items() if name in there]
    tail = [raw for name, raw in TAIL.items() if name in there]
    assert described(path, *head, PADDING, PADDING, *tail).title == PRECEDENCE[rank][1]


def test_a_small_file_is_head_and_tail_at_once(path: Path) -> None:
    assert described(path, *HEAD.values(), *TAIL.values()).title == "custom tail"
    assert described(path, user("hi"), TAIL["summary"], user("again")).title == "summary"


def test_a_file_without_a_title_has_none(path: Path) -> None:
    assert described(path).title is None
    assert described(path, assistant(text("a")), line("sparkle")).title is None
    assert described(path, b"oops\n", b"\0\0\n").title is None


def test_an_empty_name_in_the_tail_takes_the_name_back(path: Path) -> None:
    save_title(path, {"customTitle": "saved"})
    lines = (HEAD["prompt"], HEAD["custom head"], PADDING, PADDING)
    taken_back = line("custom-title", custom_title="")
    assert described(path, *lines).title == "saved"
    assert described(path, *lines, taken_back).title == "first prompt"
    assert described(path, *lines, taken_back, TAIL["custom tail"]).title == "custom tail"


def test_of_several_titles_of_a_kind_the_last_one_counts(path: Path) -> None:
    first, second = (line("ai-title", ai_title=name) for name in ("first", "second"))
    assert described(path, first, second, user("hi")).title == "second"
    assert described(path, first, second, PADDING, PADDING, user("hi")).title == "second"


@pytest.mark.parametrize("title", [HEAD["custom head"], HEAD["ai head"], TAIL["last prompt"]])
def test_a_title_in_the_middle_of_a_large_file_does_not_count(path: Path, title: bytes) -> None:
    assert described(path, user("hi"), PADDING, title, PADDING, user("b")).title == "hi"


def test_a_summary_or_last_prompt_in_the_head_does_not_count(path: Path) -> None:
    lines = (user("hi"), TAIL["summary"], TAIL["last prompt"], PADDING, PADDING)
    assert described(path, *lines).title == "hi"


@pytest.mark.parametrize(("shift", "title"), [(0, "custom head"), (1, "hi")])
def test_the_head_ends_at_its_reach(path: Path, shift: int, title: str) -> None:
    prompt, name = session(user("hi")), session(HEAD["custom head"])
    gap = PICKER - len(prompt) - len(name.rstrip()) + shift
    path.write_bytes(prompt + b" " * (gap - 1) + b"\n" + name + PADDING + PADDING)
    assert describe(locate_session(path)).title == title


@pytest.mark.parametrize(("shift", "title"), [(0, "custom tail"), (1, "hi")])
def test_the_tail_starts_at_its_reach(path: Path, shift: int, title: str) -> None:
    name = session(TAIL["custom tail"])
    rest = b" " * (PICKER - len(name) - 1 + shift) + b"\n"
    path.write_bytes(session(user("hi"), PADDING) + name + rest)
    assert describe(locate_session(path)).title == title


def test_a_last_line_longer_than_the_reach_is_read(path: Path) -> None:
    found = described(path, user("hi"), PADDING, user("x" * (2 * REACH), git_branch="dev"))
    assert found.branch == "dev"
    assert locate_session(path).last_active == parse_timestamp(moment(3))


@pytest.mark.parametrize("saved", [{"customTitle": 5}, {}, [], "x", None])
def test_a_saved_title_that_is_none_does_not_disturb(path: Path, saved: Any) -> None:
    save_title(path, saved)
    assert described(path, user("hi")).title == "hi"


def test_a_title_is_one_short_line(path: Path) -> None:
    assert described(path, user("  two\n\nlines\tand  tab ")).title == "two lines and tab"
    assert described(path, user("日" * 300)).title == "日" * 200


# The first prompt


@pytest.mark.parametrize(
    "raw",
    [
        user("Caveat: The messages below were generated by the user"),
        user("<local-command-stdout>done</local-command-stdout>"),
        user("[Request interrupted by user]"),
        user("injected", is_meta=True),
        user("to the sub-agent", is_sidechain=True),
        compaction("summary of before")[1],
        result("t1", "output"),
        user([text(ENVIRONMENT)]),
        user(""),
        assistant(text("not of the user")),
    ],
)
def test_what_was_not_typed_is_no_prompt(path: Path, raw: bytes) -> None:
    assert described(path, raw).title is None
    assert described(path, raw, user("typed")).first_prompt == "typed"


@pytest.mark.parametrize(
    "content",
    [
        "typed",
        [text("typed")],
        [text(ENVIRONMENT), text("typed")],
        f"{ENVIRONMENT}\n<system-reminder>x</system-reminder>\ntyped",
    ],
)
def test_a_prompt_is_what_was_typed(path: Path, content: Any) -> None:
    assert described(path, user(content), user("later")).first_prompt == "typed"


def test_a_prompt_may_come_far_behind_injected_context(path: Path) -> None:
    context = [user("x" * REACH, is_meta=True)] * 3
    assert described(path, *context, user("typed"), PADDING, PADDING).title == "typed"


def test_a_prompt_too_far_from_the_start_is_not_looked_for(path: Path) -> None:
    context = [user("x" * REACH, is_meta=True)] * (FAR_REACH // REACH)
    assert described(path, *context, user("typed"), PADDING, PADDING).title is None


def test_a_command_counts_only_without_a_prompt(path: Path) -> None:
    found = described(path, HEAD["command"], user("typed"))
    assert (found.title, found.first_command) == ("typed", "/init all")
    bare = user("<command-name>/clear</command-name>")
    assert described(path, bare, HEAD["command"]).title == "/clear"


# Other facts


def test_a_session_starts_where_it_started_and_is_what_it_is_now(path: Path) -> None:
    found = described(
        path,
        user("hi", cwd="/first", git_branch="main", version="2.0.0"),
        assistant(text("a"), message={"model": "old"}),
        PADDING,
        PADDING,
        user("again", cwd="/later", git_branch="dev", version="2.1.0"),
        assistant(text("b"), message={"model": "new"}, git_branch="dev", version="2.1.0"),
        assistant(text("c"), message={"model": "<synthetic>"}, git_branch=None, version=None),
        assistant(text("d"), is_api_error_message=True, git_branch=None, version=None),
    )
    assert (found.cwd, found.branch) == ("/first", "dev")
    assert (found.version, found.model) == ("2.1.0", "new")
    assert found.started == parse_timestamp(moment(1))


def test_the_flat_shape_is_described_too(path: Path) -> None:
    path.write_bytes(
        line(message={"role": "user", "content": "hi", "timestamp": "2026-11-15T06:00:00Z"})
    )
    found = locate_session(path)
    assert found.last_active == datetime(2026, 11, 15, 6, tzinfo=UTC)
    assert describe(found).title == "hi"


def test_sessions_are_sorted_by_the_times_in_their_files(store: Store, path: Path) -> None:
    times = {"a": "2026-11-10T00:00:00Z", "b": "2026-11-12T00:00:00Z", "c": "2026-11-11T00:00:00Z"}
    for age, (name, when) in enumerate(times.items()):
        file = path.with_name(f"{name}.jsonl")
        file.write_bytes(session(user("hi", timestamp=when), line("mode", mode="plan")))
        os.utime(file, (age, age))
    assert [found.id for found in list_sessions(store)] == ["b", "c", "a"]


def test_a_file_without_times_goes_by_its_own(path: Path) -> None:
    path.write_bytes(line("mode"))
    os.utime(path, (1000, 1000))
    assert locate_session(path).last_active == datetime.fromtimestamp(1000, UTC)


def test_the_time_of_a_snapshot_counts(path: Path) -> None:
    snapshot = line("file-history-snapshot", snapshot={"timestamp": "2026-11-20T00:00:00Z"})
    path.write_bytes(session(user("hi"), snapshot))
    assert locate_session(path).last_active == datetime(2026, 11, 20, tzinfo=UTC)


def test_an_impossible_time_is_passed_over(path: Path) -> None:
    path.write_bytes(
        session(
            user("hi"), user("b", timestamp="0001-01-01T00:00:00+23:59"), user("c", timestamp=5)
        )
    )
    assert locate_session(path).last_active == parse_timestamp(moment(1))


def test_an_empty_file_is_a_session_without_content(path: Path) -> None:
    path.touch()
    found = locate_session(path)
    assert (found.id, found.size, describe(found)) == (SESSION, 0, Description())


def test_what_was_appended_since_a_session_was_located_does_not_disturb(path: Path) -> None:
    path.write_bytes(session(user("hi")))
    found = locate_session(path)
    path.write_bytes(session(user("hi"), PADDING, PADDING, TAIL["custom tail"]))
    assert describe(found).first_prompt == "hi"


# Sub-agents


def test_subagents_are_counted_in_both_layouts(path: Path) -> None:
    path.write_bytes(session(user("hi")))
    nested = path.with_suffix("") / "subagents"
    (nested / "workflows" / "w1").mkdir(parents=True)
    for file in (nested / "agent-a1.jsonl", nested / "workflows" / "w1" / "agent-a2.jsonl"):
        file.write_bytes(session(user("go"), agent_id="a"))
    for name, owner in (("b1", SESSION), ("b2", SESSION), ("b3", "other")):
        file = path.with_name(f"agent-{name}.jsonl")
        file.write_bytes(session(user("go"), session_id=owner, agent_id=name))
    path.with_name("agent-empty.jsonl").touch()
    path.with_name("agent-torn.jsonl").write_bytes(b'{"type":"us')
    adjacent = count_adjacent(path.parent)
    assert adjacent == {SESSION: 2, "other": 1}
    assert count_subagents(locate_session(path), adjacent) == 4
    assert count_subagents(locate_session(path), {}) == 2


# Live sessions


@pytest.fixture
def process() -> Any:
    """Start a process that runs until it is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def register(store: Store, pid: int | str, **fields: Any) -> None:
    store.registry.mkdir(exist_ok=True)
    (store.registry / f"{pid}.json").write_bytes(encode({"pid": pid, "sessionId": "s1"} | fields))


def test_a_session_is_live_while_its_process_runs(
    store: Store, process: subprocess.Popen[bytes]
) -> None:
    register(store, process.pid)
    assert live_sessions(store) == {"s1"}
    process.kill()
    process.wait()
    assert live_sessions(store) == set()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="tells when a process started")
def test_a_process_that_started_at_another_time_is_another(
    store: Store, process: subprocess.Popen[bytes]
) -> None:
    status = Path(f"/proc/{process.pid}/stat").read_text()
    started = status.rpartition(")")[2].split()[19]
    register(store, process.pid, procStart=started)
    assert live_sessions(store) == {"s1"}
    register(store, process.pid, procStart=str(int(started) + 1))
    assert live_sessions(store) == set()


def test_processes_of_others_run_too(store: Store) -> None:
    register(store, 1)
    assert live_sessions(store) == {"s1"}


@pytest.mark.parametrize("pid", ["x", "99999999999999999999", "4194305"])
def test_a_file_that_names_no_process_does_not_disturb(store: Store, pid: str) -> None:
    register(store, pid)
    register(store, os.getpid(), sessionId="s2")
    assert live_sessions(store) == {"s2"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"{}", b'{"sessionId":null}'])
def test_a_damaged_registry_does_not_disturb(store: Store, content: bytes) -> None:
    store.registry.mkdir()
    (store.registry / f"{os.getpid()}.json").write_bytes(content)
    assert live_sessions(store) == set()


def test_a_store_without_registry_has_no_live_sessions(store: Store) -> None:
    assert live_sessions(store) == set()


def test_the_title_alone_is_that_of_the_description(session_file: Path) -> None:
    about = describe(locate_session(session_file))
    assert names_of(session_file) == (about.title, about.tag)
    assert title_of(session_file) == about.title


def test_a_title_of_a_million_words_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(session(user("  word " * 1_000_000)))
    assert title_of(path) == "word " * 40
