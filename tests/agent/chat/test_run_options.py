"""Run options of a chat: unrecorded, bare, in a worktree, with a debug log; in real processes."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from support.chat_process import NEW, SECONDS, ChatProcess
from support.pty_chat import pty_chat
from support.scripted_api import Reply, ScriptedApi, answered, called, refused, said
from turnlog.agent.workspace.repository import CEILINGS

SECRET = "sk-ant-api03-" + "Ab3" * 20
HOOK = {"type": "command", "command": "cat >> $HOOKED; echo >> $HOOKED"}


@pytest.fixture
def chat(tmp_path: Path, api: ScriptedApi) -> ChatProcess:
    found = ChatProcess(tmp_path.resolve(), api.url)
    found.store.root.mkdir()
    found.environment["HOOKED"] = str(tmp_path / "hooked")
    # Temporary folders of tests may lie in a repository, which must not get a worktree.
    found.environment[CEILINGS] = str(tmp_path.resolve())
    found.environment["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    return found


def system_of(api: ScriptedApi) -> str:
    return json.dumps(api.requests[0].body["system"])


def put(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def set_up(chat: ChatProcess) -> None:
    """Customize everything that belongs to the user."""
    settings = {"hooks": {"SessionStart": [{"hooks": [HOOK]}]}, "language": "Klingon"}
    put(chat.store.settings, json.dumps(settings))
    put(chat.store.root / "CLAUDE.md", "Remember the milk.")
    put(chat.store.root / "commands" / "greet.md", "Say hello to $ARGUMENTS.")
    put(chat.work / "CLAUDE.md", "Use tabs.")


def hooked(chat: ChatProcess) -> list[dict[str, str]]:
    file = Path(chat.environment["HOOKED"])
    return (
        [json.loads(line) for line in file.read_text().split("\n") if line] if file.exists() else []
    )


def test_an_unrecorded_chat_leaves_nothing_behind(chat: ChatProcess, api: ScriptedApi) -> None:
    long = {"command": "seq 1 30000"}
    api.replies[:] = [
        called(("t1", "Bash", long), ("t2", "Agent", {"description": "d", "prompt": "p"})),
        said("From the agent."),
        said("Done."),
    ]
    flags = ("-p", "--no-session-persistence", "--output-format", "json", *NEW)
    done = chat.run(*flags, "--permission-mode", "bypassPermissions", "Go")
    assert (done.code, json.loads(done.out)["result"]) == (0, "Done.")
    assert "Full output saved to" in json.dumps(api.requests[-1].body["messages"])
    assert [each for each in chat.store.root.rglob("*") if each.is_file()] == []
    assert list(Path(chat.environment["TMPDIR"]).iterdir()) == []


def test_an_unrecorded_chat_resumes_a_session_and_leaves_it_alone(
    chat: ChatProcess, api: ScriptedApi
) -> None:
    chat.run("-p", *NEW, "First")
    before = chat.session.read_bytes()
    done = chat.run("-p", "--no-session-persistence", "--resume", chat.session.stem, "Second")
    assert (done.code, chat.session.read_bytes()) == (0, before)
    told = json.dumps(api.requests[-1].body["messages"])
    assert "First" in told
    assert "Second" in told


def test_only_printed_chats_are_unrecorded(chat: ChatProcess) -> None:
    done = chat.run("--no-session-persistence", "Hi")
    assert (done.code, "needs -p" in done.err) == (2, True)


def test_a_bare_chat_uses_no_hooks_memory_and_preferences(
    chat: ChatProcess, api: ScriptedApi
) -> None:
    set_up(chat)
    done = chat.run("-p", "--bare", "/greet Ada")
    assert (done.code, done.out) == (0, "Done.\n")
    assert hooked(chat) == []
    assert not any(each in system_of(api) for each in ("milk", "tabs", "Klingon"))
    assert "Say hello" not in json.dumps(api.requests[0].body["messages"])
    assert {each["name"] for each in api.requests[0].body["tools"]} == {"Bash", "Edit", "Read"}


def test_safe_mode_also_leaves_out_commands(chat: ChatProcess, api: ScriptedApi) -> None:
    set_up(chat)
    chat.run("-p", "--safe-mode", "/greet Ada")
    assert hooked(chat) == []
    assert [each in system_of(api) for each in ("milk", "tabs", "Klingon")] == [False, False, True]
    assert "Say hello" not in json.dumps(api.requests[0].body["messages"])


def test_commands_alone_can_be_left_out(chat: ChatProcess, api: ScriptedApi) -> None:
    set_up(chat)
    chat.run("-p", "--disable-slash-commands", "/greet Ada")
    assert len(hooked(chat)) == 1
    assert "milk" in system_of(api)
    assert "Say hello" not in json.dumps(api.requests[0].body["messages"])


def test_deny_rules_hold_in_a_bare_chat(chat: ChatProcess, api: ScriptedApi) -> None:
    put(chat.store.settings, json.dumps({"permissions": {"deny": ["Bash"]}}))
    api.replies[:] = [called(("t1", "Bash", {"command": "ls"})), said("Done.")]
    for flag in ("--bare", "--safe-mode"):
        done = chat.run("-p", flag, "--output-format", "json", "Go")
        assert len(json.loads(done.out)["permission_denials"]) == 1
        api.replies[:] = [called(("t1", "Bash", {"command": "ls"})), said("Done.")]


def test_a_debug_log_names_what_happens_and_no_secret(chat: ChatProcess, api: ScriptedApi) -> None:
    set_up(chat)
    api.replies[:] = [called(("t1", "Bash", {"command": f"echo {SECRET}; x"})), said("Done.")]
    done = chat.run("-p", "--debug", "--verbose", *NEW, f"My key is {SECRET}")
    log = chat.store.logs / f"{chat.session.stem}.txt"
    assert str(log) in done.err
    text = log.read_text()
    assert all(f"[{each}] " in text for each in ("session", "api", "hooks", "permissions"))
    assert SECRET not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_debug_log_can_be_filtered_and_put_elsewhere(chat: ChatProcess, tmp_path: Path) -> None:
    set_up(chat)
    file = tmp_path / "logs" / "debug.txt"
    assert chat.run("-p", "--debug=!api,!session", "--debug-file", str(file), "Hi").code == 0
    assert {line.split()[2] for line in file.read_text().splitlines()} == {"[hooks]"}
    wrong = chat.run("-p", "--debug=nonsense", "Hi")
    assert (wrong.code, "no category 'nonsense'" in wrong.err) == (2, True)


def test_several_values_follow_one_option(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    one, two = (put(tmp_path / f"{name}.json", '{"mcpServers": {}}') for name in ("one", "two"))
    api.replies[:] = [
        called(("t1", "Bash", {"command": "npm test"}), ("t2", "Write", written(other))),
        said("Done."),
    ]
    flags = ("--mcp-config", str(one), str(two), "{}", "--allowedTools", "Bash(npm test)", "Write")
    done = chat.run("-p", "--output-format", "json", *flags, "--add-dir", str(other), "Go on")
    assert done.code == 2
    assert "--mcp-config {} names no servers" in done.err
    done = chat.run("-p", "--output-format", "json", *flags[:3], *flags[4:], "Go on")
    assert json.loads(done.out)["permission_denials"] == []
    assert "Go on" in json.dumps(api.requests[0].body["messages"])


def written(folder: Path) -> dict[str, str]:
    return {"file_path": str(folder / "x"), "content": "x"}


REVIEWER = """---
name: rev
description: Reviews
tools: Read, Grep
model: haiku
permissionMode: bypassPermissions
---
You review changes."""


def test_an_agent_can_be_the_session(chat: ChatProcess, api: ScriptedApi) -> None:
    put(chat.store.root / "agents" / "rev.md", REVIEWER)
    done = chat.run("-p", "--agent", "rev", *NEW, "Go")
    assert done.code == 0
    request = api.requests[0].body
    assert request["system"][0]["text"].startswith("You review changes.")
    assert {each["name"] for each in request["tools"]} == {"Read", "Grep"}
    assert "haiku" in request["model"]
    text = chat.session.read_text()
    assert '"agentSetting":"rev"' in text
    assert '"permissionMode":"default"' in text
    wrong = chat.run("-p", "--agent", "nope", "Go")
    assert (wrong.code, "no agent is named 'nope'" in wrong.err) == (2, True)


def test_agents_come_from_a_file_and_models_are_tried_in_order(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path
) -> None:
    file = put(tmp_path / "agents.json", json.dumps({"rev": {"prompt": "You review."}}))
    api.choose = lambda body: None if "third" in body["model"] else refused(529, "Overloaded")
    flags = ("--agents", str(file), "--agent", "rev", "--fallback-model", "second, third")
    done = chat.run("-p", *flags, "Go")
    assert (done.code, done.out) == (0, "Done.\n")
    assert list(dict.fromkeys(each.body["model"] for each in api.requests))[1:] == [
        "second",
        "third",
    ]


def test_the_mode_auto_accepts_edits_and_nothing_else(chat: ChatProcess, api: ScriptedApi) -> None:
    curl = {"command": "curl http://127.0.0.1:9/"}
    api.replies[:] = [
        called(("t1", "Write", written(chat.work)), ("t2", "Bash", curl)),
        said("Done."),
    ]
    done = chat.run("-p", "--permission-mode", "auto", "--output-format", "json", "Go")
    assert done.err.startswith("turnlog: auto is acceptEdits here: no model decides")
    assert [each["tool_use_id"] for each in json.loads(done.out)["permission_denials"]] == ["t2"]
    assert (chat.work / "x").exists()


def refusing() -> Reply:
    return answered({"type": "text", "text": "I can not."}, stop_reason="refusal")


def test_a_refusal_is_an_error(chat: ChatProcess, api: ScriptedApi) -> None:
    api.replies[:] = [refusing()]
    done = chat.run("-p", "Go")
    assert (done.code, len(api.requests)) == (1, 2)
    assert "claude-opus-5-5 refused to answer: I can not." in done.out
    done = chat.run("-p", "--output-format", "stream-json", "Go")
    *_, failure, result = map(json.loads, done.out.splitlines())
    names = ("subtype", "is_error", "stop_reason", "terminal_reason", "api_error_status")
    assert [result[each] for each in names] == ["success", True, "refusal", "api_error", None]
    assert (failure["type"], failure["is_api_error_message"]) == ("assistant", True)
    assert done.code == 1


def test_a_model_may_go_on_after_a_refusal(chat: ChatProcess, api: ScriptedApi) -> None:
    api.replies[:] = [refusing(), said("The rest is done.")]
    done = chat.run("-p", *NEW, "Go")
    assert (done.code, done.out) == (0, "The rest is done.\n")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(chat: ChatProcess) -> Path:
    git(chat.work, "init", "-q", "-b", "main")
    put(chat.work / "kept.txt", "kept")
    git(chat.work, "add", ".")
    git(chat.work, "commit", "-qm", "first")
    return chat.work


def test_a_printed_chat_leaves_its_worktree(
    chat: ChatProcess, api: ScriptedApi, repository: Path
) -> None:
    api.replies[:] = [called(("t1", "Bash", {"command": "pwd; ls"})), said("Done.")]
    done = chat.run("-p", "--worktree", "fix", "Go")
    assert (done.code, done.out) == (0, "Done.\n")
    place = repository / ".claude" / "worktrees" / "fix"
    told = json.dumps(api.requests[-1].body["messages"])
    assert (str(place) in told, "kept.txt" in told) == (True, True)
    assert git(place, "branch", "--show-current") == "worktree-fix"
    (session,) = chat.store.project_of(str(place)).glob("*.jsonl")
    lines = [json.loads(line) for line in session.read_text().splitlines()]
    (state,) = [each["worktreeSession"] for each in lines if each["type"] == "worktree-state"]
    assert (state["worktreePath"], state["originalCwd"]) == (str(place), str(repository))
    assert state["originalHeadCommit"] == git(repository, "rev-parse", "HEAD")


def test_work_in_a_worktree_is_not_asked_about(
    chat: ChatProcess, api: ScriptedApi, repository: Path
) -> None:
    place = repository / ".claude" / "worktrees" / "fix"
    api.replies[:] = [called(("t1", "Write", written(place))), said("Done.")]
    chat.run("-p", "-w", "fix", "--permission-mode", "acceptEdits", "--", "Go")
    assert (place / "x").read_text() == "x"
    assert not (repository / "x").exists()
    assert "worktree-fix" in git(repository, "branch", "--list")
    again = chat.run("-p", "--worktree", "fix", "Again")
    assert (again.code, (place / "x").exists()) == (0, True)


def test_hooks_make_and_remove_worktrees(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path
) -> None:
    made = tmp_path / "made"
    create = {"type": "command", "command": f"cat >> $HOOKED; mkdir {made}; echo {made}"}
    hooks = {"WorktreeCreate": [{"hooks": [create]}], "WorktreeRemove": [{"hooks": [HOOK]}]}
    put(chat.store.settings, json.dumps({"hooks": hooks}))
    api.replies[:] = [called(("t1", "Bash", {"command": "pwd"})), said("Done.")]
    with pty_chat(chat, "--worktree=fix", "Go") as running:
        running.see("Done.")
        running.type("/exit\r")
        running.see("lose what was changed there?")
        running.type("y\r")
        running.see("the worktree is removed")
        running.process.wait(SECONDS)
    assert str(made) in json.dumps(api.requests[-1].body["messages"])
    first, last = hooked(chat)
    assert (first["hook_event_name"], first["name"]) == ("WorktreeCreate", "fix")
    assert (last["hook_event_name"], last["worktree_path"]) == ("WorktreeRemove", str(made))


def test_a_worktree_that_was_there_before_stays(
    chat: ChatProcess, api: ScriptedApi, repository: Path
) -> None:
    hooks = {"WorktreeRemove": [{"hooks": [HOOK]}]}
    put(chat.store.settings, json.dumps({"hooks": hooks}))
    chat.run("-p", "--worktree=fix", "Go")
    with pty_chat(chat, "--worktree=fix", "Again") as running:
        running.see("Done.")
        running.type("/exit\r")
        running.see("the worktree stays")
    assert (repository / ".claude" / "worktrees" / "fix" / "kept.txt").exists()
    assert hooked(chat) == []


@pytest.mark.parametrize(
    ("answer", "is_left"),
    [("", False), ("n", True), ("y", False)],
    ids=["clean", "kept", "removed"],
)
def test_a_chat_on_the_screen_cleans_up(
    chat: ChatProcess, api: ScriptedApi, repository: Path, answer: str, is_left: bool
) -> None:
    place = repository / ".claude" / "worktrees" / "a+b"
    with pty_chat(chat, "--worktree", "a/b", "Hi") as running:
        running.see("Done.")
        if answer:
            (place / "new.txt").write_text("new")
        running.type("/exit\r")
        if answer:
            running.see("lose what was changed there?")
            running.type(f"{answer}\r")
        running.see("the worktree stays" if is_left else "the worktree is removed")
        running.process.wait(SECONDS)
    assert place.exists() == is_left
    assert ("worktree-a+b" in git(repository, "branch", "--list")) == is_left


@pytest.mark.parametrize("name", ["../up", ".git", "a b", "a/../../b", "a//b", "x" * 99])
def test_names_of_worktrees_are_checked(chat: ChatProcess, repository: Path, name: str) -> None:
    done = chat.run("-p", f"--worktree={name}", "Go")
    assert (done.code, "is not a valid worktree name" in done.err) == (2, True)


def test_a_worktree_needs_a_repository(chat: ChatProcess) -> None:
    done = chat.run("-p", "--worktree=fix", "Go")
    assert (done.code, "needs a git repository" in done.err) == (2, True)


def test_a_repository_runs_nothing_for_a_worktree(
    chat: ChatProcess, repository: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    hook = put(repository / ".git" / "hooks" / "post-checkout", f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    assert chat.run("-p", "--worktree=one", "Go").code == 0
    git(repository, "config", "filter.evil.smudge", f"touch {ran}; cat")
    done = chat.run("-p", "--worktree=two", "Go")
    assert (done.code, "would run programs" in done.err) == (2, True)
    assert not ran.exists()


def test_a_worktree_is_not_made_through_a_link(
    chat: ChatProcess, repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repository / ".claude").symlink_to(tmp_path / "elsewhere")
    done = chat.run("-p", "--worktree=fix", "Go")
    assert (done.code, "is a link" in done.err) == (2, True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_trust_in_a_project_covers_its_worktree(
    chat: ChatProcess, api: ScriptedApi, repository: Path, tmp_path: Path
) -> None:
    settings = {"hooks": {"SessionStart": [{"hooks": [HOOK]}]}}
    put(repository / ".claude" / "settings.json", json.dumps(settings))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "settings")
    assert "not trusted" in chat.run("-p", "--worktree=one", "Go").err
    assert hooked(chat) == []
    put(Path(chat.environment["TURNLOG_HOME"]) / "trusted.json", json.dumps([str(repository)]))
    assert "not trusted" not in chat.run("-p", "--worktree=two", "Go").err
    assert len(hooked(chat)) == 1


def commit_hooks(repository: Path, *events: str) -> None:
    """Commit hooks for some events to the repository."""
    settings = {"hooks": {event: [{"hooks": [HOOK]}] for event in events}}
    put(repository / ".claude" / "settings.json", json.dumps(settings))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "hooks")


def test_a_worktree_that_was_there_before_is_not_trusted_along(
    chat: ChatProcess, repository: Path
) -> None:
    put(Path(chat.environment["TURNLOG_HOME"]) / "trusted.json", json.dumps([str(repository)]))
    put(repository / ".claude" / "settings.json", "{}")
    assert chat.run("-p", "--worktree=review", "Go").code == 0
    # Somebody else's branch is looked at there.
    commit_hooks(repository / ".claude" / "worktrees" / "review", "SessionStart")
    done = chat.run("-p", "--worktree=review", "Go")
    assert (done.code, "not trusted" in done.err) == (0, True)
    assert hooked(chat) == []


def test_a_worktree_that_a_hook_made_is_not_trusted_along(
    chat: ChatProcess, repository: Path, tmp_path: Path
) -> None:
    put(Path(chat.environment["TURNLOG_HOME"]) / "trusted.json", json.dumps([str(repository)]))
    put(repository / ".claude" / "settings.json", "{}")
    # What the hook checks out may be anybody's.
    made = tmp_path / "made"
    settings = {"hooks": {"SessionStart": [{"hooks": [HOOK]}]}}
    put(made / ".claude" / "settings.json", json.dumps(settings))
    create = {"type": "command", "command": f"echo {made}"}
    put(chat.store.settings, json.dumps({"hooks": {"WorktreeCreate": [{"hooks": [create]}]}}))
    done = chat.run("-p", "--worktree=fix", "Go")
    assert (done.code, "not trusted" in done.err) == (0, True)
    assert hooked(chat) == []


def test_sources_that_are_named_are_asked_about_before_a_worktree_is_made(
    chat: ChatProcess, repository: Path
) -> None:
    commit_hooks(repository, "WorktreeCreate", "SessionStart")
    with pty_chat(chat, "--setting-sources", "user,project", "--worktree=fix", "Go") as running:
        running.see("can run commands")
    assert hooked(chat) == []


def test_no_git_of_the_project_makes_a_worktree(
    chat: ChatProcess, repository: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    put(repository / "git", f"#!/bin/sh\ntouch {ran}\n").chmod(0o755)
    chat.environment["PATH"] = f".:{repository}:{chat.environment['PATH']}"
    assert chat.run("-p", "--worktree=fix", "Go").code == 0
    assert not ran.exists()


STREAMED = ("--output-format", "stream-json", "--verbose")
ANSWERED = ["assistant", "assistant", "success"]
"""Thinking, the answer and the result."""


def kinds_of(lines: str) -> list[str]:
    """What a stream consists of: types, and the events of hooks."""
    messages = [json.loads(line) for line in lines.splitlines()]
    return [each.get("hook_event") or each.get("subtype") or each["type"] for each in messages]


def test_a_stream_shows_hooks_that_ran_before_it_and_others_if_asked_to(chat: ChatProcess) -> None:
    events = ("SessionStart", "UserPromptSubmit", "SessionEnd")
    hooks = {name: [{"hooks": [HOOK]}] for name in events}
    put(chat.store.settings, json.dumps({"hooks": hooks}))
    started = ["SessionStart", "SessionStart", "init"]
    assert kinds_of(chat.run("-p", "Go", *STREAMED).out) == [*started, *ANSWERED]
    shown = chat.run("-p", "Go", *STREAMED, "--include-hook-events")
    submitted = ["UserPromptSubmit", "UserPromptSubmit"]
    assert kinds_of(shown.out) == [*started, *submitted, *ANSWERED]
    assert chat.run("-p", "Go", "--include-hook-events").out == "Done.\n"


def test_a_program_may_drive_print_mode(chat: ChatProcess) -> None:
    flags = ("-p", "--input-format", "stream-json", *STREAMED, "--replay-user-messages")
    done = chat.run(*flags, prompts=["Go"])
    assert (done.code, done.err) == (0, "")
    assert kinds_of(done.out) == ["init", "user", *ANSWERED]
