"""Sessions whose times contradict the order of their lines, and changes that are under way."""

import json
from pathlib import Path

import pytest

from support.build import assistant, call, encode, nth, result, session, text, user
from support.file_calls import UPDATED, Calls, full_path, recorded, state_of, worktree_of
from turnlog.conversation.session import open_session
from turnlog.worktree import background_tasks
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.worktree import Worktree, open_worktree

EXACT, DERIVED = Certainty.EXACT, Certainty.DERIVED
AGENT = "a0123456789abcdef"
NOTE = (
    "<task-notification>\n<task-id>{}</task-id>\n<status>{}</status>\n<summary>{}</summary>\n"
    "</task-notification>"
)


def at(time: str, lines: list[bytes]) -> list[bytes]:
    """The lines with a time of the day."""
    stamp = f"2026-11-15T{time}.000Z"
    return [encode(json.loads(raw) | {"timestamp": stamp}) for raw in lines]


def launch() -> list[bytes]:
    """A call that starts a sub-agent in the background."""
    done = {"status": "async_launched", "agentId": AGENT, "isAsync": True}
    return [
        assistant(call("Task", {"prompt": "p"}, "toolu_task")),
        result("toolu_task", "Async agent launched successfully.", tool_use_result=done),
    ]


def agent_edit(time: str) -> list[bytes]:
    path = full_path("a.txt")
    change = {"file_path": path, "old_string": "main", "new_string": "sub"}
    lines = [assistant(call("Edit", change, "toolu_s")), result("toolu_s", UPDATED.format(path))]
    return at(time, lines)


def with_agent(folder: Path, lines: list[bytes], inner: list[bytes]) -> Worktree:
    path = recorded(folder)
    path.write_bytes(session(*lines))
    below = path.with_suffix("") / "subagents"
    below.mkdir(parents=True, exist_ok=True)
    (below / f"agent-{AGENT}.jsonl").write_bytes(session(*inner, agent_id=AGENT))
    (below / f"agent-{AGENT}.meta.json").write_text('{"toolUseId":"toolu_task"}')
    return open_worktree(open_session(path))


def main_write(time: str) -> list[bytes]:
    return at(time, Calls().write("a.txt", "main\n"))


PROMPT = at("10:00:02", [user("p")])


def test_a_clock_that_was_set_before_a_sub_agent_started_does_not_matter(tmp_path: Path) -> None:
    start = at("11:59:00", [user("go")])
    lines = [*start, *at("10:00:01", launch()), *main_write("10:05:00")]
    worktree = with_agent(tmp_path, lines, [*PROMPT, *agent_edit("10:10:00")])
    state = state_of(worktree, "a.txt")
    assert (state.certainty, state.content) == (EXACT, b"sub\n")


@pytest.mark.parametrize(
    ("others", "inner"),
    [
        # Lines of another machine were merged in.
        (at("11:00:00", [user("there"), assistant(text("ok"))]), agent_edit("10:10:00")),
        # The clock was set back while the sub-agent worked.
        ([], agent_edit("09:10:00")),
        # It worked before the call that is known: another one started it.
        ([], [*at("09:00:00", [user("before")]), *agent_edit("10:10:00")]),
    ],
)
def test_changes_of_a_sub_agent_at_an_unknown_time_make_a_file_derived(
    tmp_path: Path, others: list[bytes], inner: list[bytes]
) -> None:
    start = at("09:00:00", [user("go")])
    lines = [*start, *at("10:00:01", launch()), *others, *main_write("10:05:00")]
    worktree = with_agent(tmp_path, lines, [*PROMPT, *inner])
    versions = worktree.versions(worktree.find("a.txt"))
    assert all(each.certainty is not EXACT for each in versions)
    assert state_of(worktree, "a.txt").certainty is DERIVED


def test_a_sub_agent_is_over_when_its_end_is_reported(tmp_path: Path) -> None:
    start = at("09:00:00", [user("go")])
    others = at("11:00:00", [user("there"), assistant(text("ok"))])
    end = at("10:20:00", [user(NOTE.format(AGENT, "completed", "Agent done"))])
    lines = [*start, *at("10:00:01", launch()), *others, *end, *main_write("10:30:00")]
    worktree = with_agent(tmp_path, lines, [*PROMPT, *agent_edit("10:10:00")])
    assert state_of(worktree, "a.txt").certainty is EXACT
    # Unless it worked after that.
    worktree = with_agent(tmp_path, lines, [*PROMPT, *agent_edit("10:40:00")])
    assert state_of(worktree, "a.txt").certainty is DERIVED


def test_a_command_of_a_sub_agent_at_an_unknown_time_is_a_hazard(tmp_path: Path) -> None:
    start = at("09:00:00", [user("go")])
    others = at("11:00:00", [user("there"), assistant(text("ok"))])
    lines = [*start, *at("10:00:01", launch()), *others, *main_write("10:05:00")]
    command = at("10:10:00", Calls().bash("make"))
    worktree = with_agent(tmp_path, lines, [*PROMPT, *command])
    assert state_of(worktree, "a.txt").certainty is DERIVED


def test_a_time_means_the_branch_that_was_active_then(tmp_path: Path) -> None:
    calls = Calls()
    path = recorded(tmp_path)
    path.write_bytes(
        session(
            *at("09:00:00", [user("start"), *calls.write("a.txt", "one\n")]),
            *at("11:00:00", [user("there", parent=nth(3)), assistant(text("ok"))]),
            *at("10:00:00", [user("here", parent=nth(3))]),
            *at("10:05:00", calls.write("a.txt", "two\n", "one\n")),
        )
    )
    worktree = open_worktree(open_session(path))
    state = state_of(worktree, "a.txt", "2026-11-15T10:30:00Z")
    assert (state.certainty, state.content) == (EXACT, b"two\n")
    assert state_of(worktree, "a.txt", "2026-11-15T09:30:00Z").content == b"one\n"
    assert state_of(worktree, "a.txt", "2026-11-15T11:30:00Z").content == b"one\n"


def test_a_time_that_may_mean_two_moments_of_a_branch_is_not_exact(tmp_path: Path) -> None:
    calls = Calls()
    worktree = worktree_of(
        tmp_path,
        *at("10:20:00", calls.write("a.txt", "one\n")),
        *at("10:40:00", calls.write("a.txt", "two\n", "one\n")),
        *at("10:10:00", calls.write("a.txt", "three\n", "two\n")),
        *at("10:50:00", calls.write("a.txt", "four\n", "three\n")),
    )
    assert state_of(worktree, "a.txt", "2026-11-15T10:30:00Z").certainty is DERIVED
    assert state_of(worktree, "a.txt", "2026-11-15T10:55:00Z").certainty is EXACT


@pytest.mark.parametrize("moment", ["line:4", "2026-11-15T10:00:25Z"])
def test_a_change_that_is_under_way_may_have_been_made(tmp_path: Path, moment: str) -> None:
    calls = Calls()
    first = at("10:00:00", calls.write("a.txt", "one\n"))
    use, done = calls.write("a.txt", "two\n", "one\n")
    change = [*at("10:00:10", [use]), *at("10:00:40", [done])]
    worktree = worktree_of(tmp_path, first, change)
    assert state_of(worktree, "a.txt", moment).certainty is DERIVED
    assert state_of(worktree, "a.txt", "line:3").certainty is EXACT
    assert state_of(worktree, "a.txt", "line:5").content == b"two\n"


STARTED = {"taskId": "w12345678", "status": "async_launched"}


@pytest.mark.parametrize(
    ("tool", "answer", "done"),
    [
        ("Monitor", "Monitor started (task b1)", {"taskId": "b1", "persistent": True}),
        ("Workflow", "Workflow launched in background. Task ID: w12345678", STARTED),
        ("Skill", "Launched in background. agentId: a01", {"status": "async_launched"}),
        ("SendMessage", "Agent resumed in background", {"success": True}),
        ("mcp__term__run", "ok", None),
        ("Task", "done", {"status": "completed", "agentId": "a01"}),
        ("SomethingNew", "ok", None),
    ],
)
def test_a_tool_that_may_have_started_something_is_not_over(
    tmp_path: Path, tool: str, answer: str, done: dict[str, object] | None
) -> None:
    calls = Calls()
    lines = calls.pair(tool, {}, answer, done), calls.write("a.txt", "one\n")
    assert state_of(worktree_of(tmp_path, *lines), "a.txt").certainty is DERIVED


@pytest.mark.parametrize("tool", ["Skill", "AskUserQuestion", "ExitPlanMode"])
def test_a_tool_of_the_client_is_over_at_its_result(tmp_path: Path, tool: str) -> None:
    calls = Calls()
    lines = calls.pair(tool, {}, "ok", None), calls.write("a.txt", "one\n")
    assert state_of(worktree_of(tmp_path, *lines), "a.txt").certainty is EXACT


@pytest.mark.parametrize(
    ("lines", "certainty"),
    [
        ([user("<bash-input>make watch &</bash-input>")], DERIVED),
        ([user("<bash-input>make</bash-input>")], EXACT),
        (
            [
                user("<bash-input>make</bash-input>"),
                user("<bash-stdout>running in the background</bash-stdout>"),
            ],
            DERIVED,
        ),
    ],
)
def test_a_command_of_the_user_may_go_on(
    tmp_path: Path, lines: list[bytes], certainty: Certainty
) -> None:
    worktree = worktree_of(tmp_path, lines, user("go"), Calls().write("a.txt", "one\n"))
    assert state_of(worktree, "a.txt").certainty is certainty


@pytest.mark.parametrize(
    ("note", "certainty"),
    [
        (NOTE.format("bash_1", "completed", "done"), EXACT),
        (NOTE.format("bash_1", "failed", "exit code 2"), EXACT),
        (NOTE.format("bash_1", "running", "so far"), DERIVED),
        (NOTE.format("bash_10", "completed", "done"), DERIVED),
        (NOTE.format("b2", "completed", "tail bash_1.output"), DERIVED),
        (
            NOTE.format("b2", "completed", "<task-id>bash_1</task-id><status>completed</status>"),
            DERIVED,
        ),
        (NOTE.format("bash_1", "", "<status>completed</status>"), DERIVED),
    ],
)
def test_only_the_final_report_of_a_task_ends_it(
    tmp_path: Path, note: str, certainty: Certainty
) -> None:
    calls = Calls()
    done = {"stdout": "", "stderr": "", "backgroundTaskId": "bash_1"}
    watch = calls.pair("Bash", {"command": "make", "run_in_background": True}, "started", done)
    worktree = worktree_of(tmp_path, watch, user(note), calls.write("a.txt", "one\n"))
    assert state_of(worktree, "a.txt").certainty is certainty


TORN = [b'{"type":"assistant","uuid":"4\n', b"\0" * 300 + b"\n"]


@pytest.mark.parametrize(
    ("torn", "is_answered"), [(b"", True), *((each, known) for each in TORN for known in (0, 1))]
)
def test_a_damaged_line_may_have_changed_any_file(
    tmp_path: Path, torn: bytes, is_answered: bool
) -> None:
    calls = Calls()
    lines = [user("go"), *calls.write("a.txt", "one\n"), *calls.write("a.txt", "two\n", "one\n")]
    whole = session(*lines).splitlines(keepends=True)
    path = recorded(tmp_path)
    path.write_bytes(b"".join(whole[:3]))
    assert state_of(open_worktree(open_session(path)), "a.txt").certainty is Certainty.EXACT
    path.write_bytes(b"".join([*whole[:3], torn, *whole[4 : 4 + is_answered]]))
    worktree = open_worktree(open_session(path))
    assert state_of(worktree, "a.txt").certainty is not Certainty.EXACT


def test_a_byte_order_mark_hides_nothing(tmp_path: Path) -> None:
    path = recorded(tmp_path, user("go"), *Calls().write("a.txt", "one\n"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert state_of(open_worktree(open_session(path)), "a.txt").certainty is Certainty.EXACT


@pytest.mark.parametrize(
    "said",
    [
        *('"status":"async_launched"', "Teammate_Spawned", "remote_launched", '"taskId" : "b1"'),
        *('"backgroundTaskId":"b1"', '"isAsync": true', "backgrounded by user with ID: b1"),
        *("running in background with ID: b1", "Resumed in the background", "nothing runs"),
    ],
)
def test_the_fast_search_for_running_tasks_finds_what_the_slow_one_finds(said: str) -> None:
    raw = f"x {said} y".encode()
    is_found = background_tasks.LEFT_RUNNING.search(raw) is not None
    assert background_tasks._says_running(raw) == is_found == (said != "nothing runs")
