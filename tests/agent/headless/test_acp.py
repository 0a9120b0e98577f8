"""Editors that speak the Agent Client Protocol, with the protocol's own client library."""

import asyncio
import base64
import json
import sys
from typing import Any

import pytest
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.helpers import (
    embedded_blob_resource,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
)
from acp.schema import EnvVariable, McpServerStdio

from support import mcp_server
from support.acp_client import AcpRig, Editor, ask, opened, play
from support.media import picture
from support.scripted_api import Reply, ScriptedApi, called, refused, said
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session

TOUCH = ("t1", "Bash", {"command": "touch new"})


def last_message(editor_api: ScriptedApi) -> str:
    """The last messages of the last request, as JSON."""
    return json.dumps(editor_api.requests[-1].body["messages"][-1])


def test_an_answer_is_streamed_and_recorded(rig: AcpRig, editor_api: ScriptedApi) -> None:
    found: list[str] = []

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        assert await ask(connection, session, "hi") == "end_turn"
        found.append(session)

    editor = play(rig, scene)
    assert (editor.text(), editor.text("agent_thought_chunk")) == ("Hello.", "hm")
    assert editor.of("usage_update")[-1]["size"] > 0
    (path,) = rig.sessions()
    assert [path.stem] == found
    session = open_session(path)
    assert [finding for finding in check_session(session) if finding.is_serious] == []
    assert [message["role"] for message in session.context()] == ["user", "assistant"]


@pytest.mark.parametrize("kind", ["allow_once", "allow_always", "reject_once", "nonsense", None])
def test_the_user_decides_about_calls(
    kind: str | None, rig: AcpRig, editor_api: ScriptedApi
) -> None:
    again = ("t2", "Bash", {"command": "touch new"})
    editor_api.replies[:] = [called(TOUCH), called(again), said("Done.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: kind
        session = await opened(connection, rig)
        assert await ask(connection, session, "go") == ("end_turn" if kind else "cancelled")

    editor = play(rig, scene)
    question = editor.questions[0]
    assert question["options"] == {
        "allow_once": "Allow",
        "allow_always": "Always allow Bash(touch new)",
        "reject_once": "Reject",
    }
    assert question["call"]["rawInput"] == TOUCH[2]
    is_allowed = kind in ("allow_once", "allow_always")
    assert (rig.work / "new").exists() == is_allowed
    assert len(editor.questions) == (1 if kind in ("allow_always", None) else 2)
    ending = ["in_progress", "completed"] if is_allowed else ["failed"]
    assert editor.statuses("t1") == ["pending", *ending]
    (started,) = [each for each in editor.of("tool_call") if each["toolCallId"] == "t1"]
    running = [each for each in editor.of("tool_call_update") if each["toolCallId"] == "t1"]
    # The reasons of the question do not stay.
    assert not is_allowed or running[0]["content"] == started["content"]


@pytest.mark.parametrize("chosen", ["option_1", "allow_once", "reject_once"])
def test_questions_of_the_model_are_answered_by_the_user(
    chosen: str, rig: AcpRig, editor_api: ScriptedApi
) -> None:
    options = [{"label": label, "description": f"{label}?"} for label in ("Red", "Blue\u202e")]
    asked = {"questions": [{"question": "Which colour?", "header": "Colour", "options": options}]}
    own = {"answers": {"Which colour?": "Red"}}
    editor_api.replies[:] = [called(("q", "AskUserQuestion", asked | own)), said("Done.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: chosen
        await ask(connection, await opened(connection, rig), "go")

    editor = play(rig, scene)
    named = {"option_0": "Red", "option_1": "Blue<U+202E>", "reject_once": "Reject"}
    assert [each["options"] for each in editor.questions] == [named]
    assert editor.questions[0]["call"]["title"] == "Which colour?"
    assert ('=\\"Blue' in last_message(editor_api)) is (chosen == "option_1")
    assert '=\\"Red' not in last_message(editor_api)


def test_a_question_hides_nothing_of_a_call(rig: AcpRig, editor_api: ScriptedApi) -> None:
    hidden = f"touch a\u202e{' ' * 300}; touch b"
    long = f"touch {'c' * 500}"
    calls = [("t1", "Bash", {"command": hidden}), ("t2", "Bash", {"command": long})]
    editor_api.replies[:] = [called(*calls), said("Done.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "reject_once"
        await ask(connection, await opened(connection, rig), "go")

    first, second = play(rig, scene).questions
    assert "touch a<U+202E><300 spaces>; touch b" in first["call"]["content"][0]["content"]["text"]
    assert "\u202e" not in str(first["options"])
    assert list(second["options"]) == ["allow_once", "reject_once"]


def test_a_question_shows_what_a_diff_does_not(rig: AcpRig, editor_api: ScriptedApi) -> None:
    """Zero-width letters, an edit of every place, a command that goes on in the background."""
    (rig.work / "a.txt").write_text("x\n")
    edit = {"file_path": "a.txt", "old_string": "x", "new_string": "\ty"}
    calls = [
        ("t1", "Write", {"file_path": "b.py", "content": "a = 'x\u200bx'"}),
        ("t2", "Edit", edit | {"replace_all": True}),
        ("t3", "Bash", {"command": "touch c", "run_in_background": True, "description": "see"}),
        ("t4", "Edit", edit | {"replace_all": False}),
    ]
    editor_api.replies[:] = [called(("r", "Read", {"file_path": "a.txt"}))]
    editor_api.replies += [called(*calls), said("Done.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "reject_once"
        await ask(connection, await opened(connection, rig), "go")

    shown = {
        each["call"]["toolCallId"]: json.dumps(each["call"]["content"])
        for each in play(rig, scene).questions
    }
    assert "x<U+200B>x" in shown["t1"]
    assert '\\n \\"replace_all\\": true\\n}' in shown["t2"]
    assert "run_in_background" in shown["t3"]
    assert "see" not in shown["t3"]
    assert "replace_all" not in shown["t4"]


def test_changes_are_shown_as_diffs_and_can_be_allowed_for_the_session(
    rig: AcpRig, editor_api: ScriptedApi
) -> None:
    file, new = rig.work / "a.txt", rig.work / "new.txt"
    file.write_text("one\ntwo\n")
    edit = {"file_path": str(file), "old_string": "two", "new_string": "2"}
    editor_api.replies[:] = [
        called(("r", "Read", {"file_path": str(file)})),
        called(("e", "Edit", edit)),
        called(("w", "Write", {"file_path": str(new), "content": "x\n"})),
        called(("o", "Write", {"file_path": str(file), "content": "y\n"})),
        said("Done."),
    ]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "allow_edits"
        await ask(connection, await opened(connection, rig), "go")

    editor = play(rig, scene)
    diffs = [each["content"][0] for each in editor.of("tool_call") if each["kind"] == "edit"]
    assert diffs == [
        {"type": "diff", "path": str(file), "oldText": "two", "newText": "2"},
        {"type": "diff", "path": str(new), "newText": "x\n"},
        {"type": "diff", "path": str(file), "oldText": "one\n2\n", "newText": "y\n"},
    ]
    read = editor.of("tool_call")[0]
    assert (read["kind"], read["locations"]) == ("read", [{"path": str(file)}])
    assert len(editor.questions) == 1
    assert [each["currentModeId"] for each in editor.of("current_mode_update")] == ["acceptEdits"]
    places = [each["locations"] for each in editor.of("tool_call_update") if "locations" in each]
    assert places[0] == [{"path": str(file), "line": 1}]
    assert (file.read_text(), new.read_text()) == ("y\n", "x\n")


def test_a_todo_list_is_a_plan(rig: AcpRig, editor_api: ScriptedApi) -> None:
    steps = [
        {"content": "Do A", "status": "completed", "activeForm": "Doing A"},
        {"content": "Do B", "status": "in_progress", "activeForm": "Doing B"},
        {"content": "Do C", "status": "pending", "activeForm": "Doing C"},
    ]
    editor_api.replies[:] = [called(("t", "TodoWrite", {"todos": steps})), said("Done.")]
    rig.environment |= {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "CLAUDE_CODE_ENABLE_TASKS": "0"}

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        await ask(connection, await opened(connection, rig), "go")

    editor = play(rig, scene)
    (plan,) = editor.of("plan")
    shown = [(each["content"], each["status"]) for each in plan["entries"]]
    assert shown == [("Do A", "completed"), ("Do B", "in_progress"), ("Do C", "pending")]
    assert editor.of("tool_call") == []


def test_the_task_list_is_a_plan(rig: AcpRig, editor_api: ScriptedApi) -> None:
    create = ("t1", "TaskCreate", {"subject": "Do A", "description": "d"})
    update = ("t2", "TaskUpdate", {"taskId": "1", "status": "in_progress"})
    editor_api.replies[:] = [called(create), called(update), said("Done.")]
    rig.environment["CLAUDE_CODE_ENABLE_TODO_TOOLS"] = "1"

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        await ask(connection, await opened(connection, rig), "go")

    editor = play(rig, scene)
    plans = [
        [(each["content"], each["status"]) for each in plan["entries"]]
        for plan in editor.of("plan")
    ]
    assert plans == [[("Do A", "pending")], [("Do A", "in_progress")]]
    assert editor.of("tool_call") == []


def test_prompts_have_files_and_images(rig: AcpRig, editor_api: ScriptedApi) -> None:
    linked = rig.work / "with space.txt"
    linked.write_text("the linked text\n")
    image = base64.b64encode(picture(2, 2)).decode()

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        link = resource_link_block("it", linked.as_uri())
        embedded = resource_block(embedded_text_resource("file:///b.txt", "the embedded text"))
        await ask(connection, session, "look at", link, embedded)
        blob = resource_block(embedded_blob_resource("file:///b.bin", "AAAA"))
        web = resource_link_block("page", "https://example.org/x")
        await ask(connection, session, "and", image_block(image, "image/png"), link, blob, web)
        with pytest.raises(RequestError, match="Invalid params"):
            await ask(connection, session)

    play(rig, scene)
    first, second = (json.dumps(request.body["messages"]) for request in editor_api.requests)
    for text in ("the linked text", "the embedded text", "[b.txt](file:///b.txt)"):
        assert text in first
    assert '"media_type": "image/png"' in second
    assert second.count("the linked text") == 2
    assert "binary and cannot be shown" in second
    assert "[page](https://example.org/x)" in second


def test_a_linked_file_needs_the_permission_of_read(rig: AcpRig, editor_api: ScriptedApi) -> None:
    secret = rig.home / "secret.txt"
    secret.write_text("the secret\n")

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "reject_once"
        link = resource_link_block("it", secret.as_uri())
        await ask(connection, await opened(connection, rig), "look at", link)

    editor = play(rig, scene)
    assert len(editor.questions) == 1
    assert "the secret" not in last_message(editor_api)


def test_a_turn_is_cancelled_while_the_model_answers(rig: AcpRig, editor_api: ScriptedApi) -> None:
    editor_api.replies[:] = [said("a long answer")._replace(hold_after=9), said("Again.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        running = asyncio.create_task(ask(connection, session, "go"))
        queued = asyncio.create_task(ask(connection, session, "and then"))
        await editor.until(lambda: bool(editor.text()))
        await connection.cancel(session_id=session)
        assert (await running, await queued) == ("cancelled", "cancelled")
        assert await ask(connection, session, "once more") == "end_turn"

    editor = play(rig, scene)
    assert editor.text().endswith("Again.")
    assert "and then" not in json.dumps(editor_api.requests[-1].body)


def test_a_turn_is_cancelled_while_the_user_is_asked(rig: AcpRig, editor_api: ScriptedApi) -> None:
    editor_api.replies[:] = [called(TOUCH), said("Done.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        unanswered = asyncio.Event()

        async def never(*_: Any, **__: Any) -> Any:
            editor.questions.append({})
            await unanswered.wait()

        editor.request_permission = never  # looked up for each request
        running = asyncio.create_task(ask(connection, session, "go"))
        await editor.until(lambda: bool(editor.questions))
        await connection.cancel(session_id=session)
        assert await running == "cancelled"

    play(rig, scene)
    assert not (rig.work / "new").exists()


def test_modes_and_models_are_switched(rig: AcpRig, editor_api: ScriptedApi) -> None:
    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        made = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
        session = made.session_id
        assert made.modes
        known = [each.id for each in made.modes.available_modes]
        assert known == ["default", "acceptEdits", "plan", "dontAsk"]
        await connection.set_session_mode(session_id=session, mode_id="plan")
        await editor.until(lambda: bool(editor.of("current_mode_update")))
        for mode in ("bypassPermissions", "nonsense"):
            with pytest.raises(RequestError, match="Invalid params"):
                await connection.set_session_mode(session_id=session, mode_id=mode)
        answer = await connection.set_config_option(
            config_id="model", session_id=session, value="haiku"
        )
        assert answer
        values = {each.id: each.current_value for each in answer.config_options}
        assert values == {"mode": "plan", "model": "haiku"}
        await connection.set_config_option(config_id="mode", session_id=session, value="default")
        for name, value in (("model", "nonsense"), ("colour", "red")):
            with pytest.raises(RequestError, match="Invalid params"):
                await connection.set_config_option(config_id=name, session_id=session, value=value)
        await ask(connection, session, "go")

    editor = play(rig, scene)
    modes = [each["currentModeId"] for each in editor.of("current_mode_update")]
    assert modes == ["plan", "default"]
    assert editor_api.requests[-1].body["model"] == "claude-haiku-5-5"


def test_bypassing_is_offered_where_the_command_line_allows_it(rig: AcpRig) -> None:
    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        made = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
        assert made.modes
        assert "bypassPermissions" in [each.id for each in made.modes.available_modes]

    play(rig, scene, "--allow-dangerously-skip-permissions")


def test_a_loaded_session_shows_the_images_of_prompts(rig: AcpRig, editor_api: ScriptedApi) -> None:
    image = base64.b64encode(picture(2, 2)).decode()

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        await ask(connection, session, "look at", image_block(image, "image/png"))
        await connection.close_session(session_id=session)
        shown = len(editor.of("user_message_chunk"))
        await connection.load_session(cwd=str(rig.work), session_id=session, mcp_servers=[])
        kinds = [each["content"]["type"] for each in editor.of("user_message_chunk")[shown:]]
        assert kinds == ["text", "image"]

    play(rig, scene)


def test_sessions_are_listed_loaded_resumed_forked_and_closed(
    rig: AcpRig, editor_api: ScriptedApi
) -> None:
    editor_api.replies[:] = [
        called(("r", "Glob", {"pattern": "*"}), text="Let me look."),
        said("Hello."),
    ]
    made: list[str] = []

    async def begin(connection: ClientSideConnection, editor: Editor) -> None:
        made.append(await opened(connection, rig))
        await ask(connection, made[0], "hi")

    async def go_on(connection: ClientSideConnection, editor: Editor) -> None:
        session, place = made[0], str(rig.work)
        listed = await connection.list_sessions(cwd=place)
        assert [(each.session_id, each.cwd) for each in listed.sessions] == [(session, place)]
        assert (await connection.list_sessions(cwd=str(rig.home))).sessions == []
        loaded = await connection.load_session(cwd=place, session_id=session, mcp_servers=[])
        assert loaded
        assert loaded.modes
        assert editor.text("user_message_chunk") == "hi"
        assert editor.text() == "Let me look.Hello."
        assert editor.statuses("r") == ["pending", "completed"]
        assert await ask(connection, session, "more") == "end_turn"
        copy = await connection.fork_session(session_id=session, cwd=place)
        assert copy.session_id != session
        await ask(connection, copy.session_id, "in the copy")
        await connection.close_session(session_id=session)
        with pytest.raises(RequestError, match="not found"):
            await ask(connection, session, "closed")
        shown = len(editor.of("user_message_chunk"))
        await connection.resume_session(session_id=session, cwd=place)
        assert len(editor.of("user_message_chunk")) == shown
        await ask(connection, session, "at last")

    play(rig, begin)
    play(rig, go_on)
    assert len(rig.sessions()) == 2
    texts = json.dumps(editor_api.requests[-1].body["messages"])
    assert all(text in texts for text in ("hi", "more", "at last"))
    assert "in the copy" not in texts


def test_sessions_are_found_by_their_id_only(rig: AcpRig, editor_api: ScriptedApi) -> None:
    elsewhere = rig.home / "elsewhere.jsonl"
    elsewhere.write_text("{}\n")

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        unknown = "5e551011-0000-4000-8000-000000000000"
        for name in (str(elsewhere), "../../elsewhere", "last", "", unknown):
            with pytest.raises(RequestError, match="not found"):
                await connection.load_session(cwd=str(rig.work), session_id=name, mcp_servers=[])
        for place in ("work", str(rig.home / "missing"), str(elsewhere)):
            with pytest.raises(RequestError, match="Invalid params"):
                await connection.new_session(cwd=place, mcp_servers=[])
        with pytest.raises(RequestError, match="Invalid params"):
            await connection.list_sessions(cursor="nonsense")
        with pytest.raises(RequestError, match="Invalid params"):
            await connection.authenticate(method_id="login")

    play(rig, scene)
    assert editor_api.requests == []


def record(rig: AcpRig, name: str, prompt: str) -> None:
    """Write a session with one prompt."""
    folder = rig.store.project_of(str(rig.work))
    folder.mkdir(parents=True, exist_ok=True)
    fields = {"type": "user", "uuid": name, "parentUuid": None, "sessionId": name}
    fields |= {"cwd": str(rig.work), "timestamp": "2026-01-01T00:00:00.000Z"}
    fields |= {"message": {"role": "user", "content": prompt}}
    (folder / f"{name}.jsonl").write_text(f"{json.dumps(fields)}\n")


def test_secrets_in_titles_are_masked(rig: AcpRig) -> None:
    """An editor lists the sessions of all projects."""
    key = f"sk-ant-api03-{'Ab1' * 31}-abcdefAA"
    record(rig, "5e551011-0000-4000-8000-000000000001", f"use {key}\x1b]0;x\x07 now")

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        (session,) = (await connection.list_sessions()).sessions
        assert session.title
        assert session.title.startswith("use ")
        assert key[:30] not in session.title
        assert session.title.isprintable()

    play(rig, scene)


def test_many_sessions_are_listed_page_by_page(rig: AcpRig) -> None:
    names = [f"5e551011-0000-4000-8000-{number:012}" for number in range(60)]
    for name in names:
        record(rig, name, f"prompt {name}")

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        first = await connection.list_sessions()
        second = await connection.list_sessions(cursor=first.next_cursor)
        assert (len(first.sessions), len(second.sessions)) == (50, 10)
        assert second.next_cursor is None
        assert sorted(each.session_id for each in [*first.sessions, *second.sessions]) == names
        assert first.sessions[0].title == f"prompt {first.sessions[0].session_id}"

    play(rig, scene)


def test_commands_are_announced_and_run(rig: AcpRig, editor_api: ScriptedApi) -> None:
    commands = rig.store.root / "commands"
    commands.mkdir(parents=True)
    text = "---\ndescription: Mend it\nargument-hint: WHAT\n---\nMend $ARGUMENTS thoroughly.\n"
    (commands / "mend.md").write_text(text)

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        await editor.until(lambda: bool(editor.of("available_commands_update")))
        await ask(connection, session, "/mend the cart")
        await ask(connection, session, "/compact")

    editor = play(rig, scene)
    (update,) = editor.of("available_commands_update")
    known = {each["name"]: each for each in update["availableCommands"]}
    assert known["mend"]["description"] == "Mend it"
    assert known["mend"]["input"] == {"hint": "WHAT"}
    assert "compact" in known
    assert "Mend the cart thoroughly." in json.dumps(editor_api.requests[0].body)
    assert b'"compact_boundary"' in rig.sessions()[0].read_bytes()


def test_servers_of_the_editor_are_used(rig: AcpRig, editor_api: ScriptedApi) -> None:
    editor_api.replies[:] = [called(("t", "mcp__shop__add", {"a": 1, "b": 2})), said("Done.")]
    server = McpServerStdio(
        name="shop",
        command=sys.executable,
        args=[mcp_server.__file__],
        env=[EnvVariable(name="GREETING", value="hello")],
    )

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "allow_once"
        session = await opened(connection, rig, mcp_servers=[server])
        await ask(connection, session, "go")

    editor = play(rig, scene)
    assert editor.statuses("t")[-1] == "completed"
    (call,) = editor.of("tool_call")
    assert (call["title"], call["kind"]) == ('mcp__shop__add {"a": 1, "b": 2}', "other")


def test_an_api_error_is_the_answer(rig: AcpRig, editor_api: ScriptedApi) -> None:
    editor_api.replies[:] = [refused(400, "no such thing", "invalid_request_error"), said("Hello.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        session = await opened(connection, rig)
        with pytest.raises(RequestError, match=r"400.*no such thing"):
            await ask(connection, session, "go")
        assert await ask(connection, session, "again") == "end_turn"

    play(rig, scene)


def test_a_missing_key_is_reported_before_anything_is_recorded(rig: AcpRig) -> None:
    del rig.environment["ANTHROPIC_API_KEY"]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        with pytest.raises(RequestError, match="Authentication required"):
            await opened(connection, rig)

    play(rig, scene)
    assert rig.sessions() == []


def test_output_goes_to_a_terminal_where_the_editor_shows_one(
    rig: AcpRig, editor_api: ScriptedApi
) -> None:
    editor_api.replies[:] = [
        called(("t", "Bash", {"command": "echo one; echo two"})),
        said("Done."),
    ]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        await ask(connection, await opened(connection, rig), "go")

    editor = play(rig, scene, meta={"terminal_output": True})
    (start,) = editor.of("tool_call")
    assert start["content"] == [{"type": "terminal", "terminalId": "t"}]
    assert start["_meta"]["terminal_info"] == {"terminal_id": "t", "cwd": str(rig.work)}
    metas = [each["_meta"] for each in editor.of("tool_call_update") if "_meta" in each]
    outputs = [each["terminal_output"]["data"] for each in metas if "terminal_output" in each]
    assert "".join(outputs).split() == ["one", "two"]
    assert metas[-1]["terminal_exit"] == {
        "terminal_id": "t",
        "exit_code": 0,
        "signal": None,
    }


def test_variables_of_a_project_are_not_for_the_next_session(
    rig: AcpRig, editor_api: ScriptedApi
) -> None:
    other = rig.home / "other"
    other.mkdir()
    (rig.work / ".claude").mkdir()
    settings = {"env": {"FROM_PROJECT": "secret"}}
    (rig.work / ".claude" / "settings.json").write_text(json.dumps(settings))
    show = called(("t", "Bash", {"command": "printenv FROM_PROJECT"}))
    editor_api.replies[:] = [show, said("Done."), show, said("Done.")]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "allow_once"
        await ask(connection, await opened(connection, rig), "go")
        assert editor.statuses("t")[-1] == "completed"
        next_one = (await connection.new_session(cwd=str(other), mcp_servers=[])).session_id
        await ask(connection, next_one, "go")
        assert editor.statuses("t")[-1] == "failed"

    play(rig, scene, "--trust")


def test_calls_of_a_sub_agent_name_the_call_that_started_it(
    rig: AcpRig, editor_api: ScriptedApi
) -> None:
    task = {"description": "look", "prompt": "look around", "subagent_type": "general-purpose"}
    inner = ("inner", "Glob", {"pattern": "*"})
    editor_api.replies[:] = [
        called(("a", "Agent", task)),
        called(inner),
        said("Found."),
        said("Done."),
    ]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        await ask(connection, await opened(connection, rig), "go")

    editor = play(rig, scene)
    about = {each["toolCallId"]: each["_meta"]["claudeCode"] for each in editor.of("tool_call")}
    assert about == {
        "a": {"toolName": "Agent"},
        "inner": {"toolName": "Glob", "parentToolUseId": "a"},
    }
    assert editor.text() == "Done."


def test_a_question_names_the_sub_agent_that_asks(rig: AcpRig, editor_api: ScriptedApi) -> None:
    task = {"description": "look", "prompt": "look around", "subagent_type": "general-purpose"}
    editor_api.replies[:] = [
        called(("a", "Agent", task)),
        called(TOUCH),
        said("Refused."),
        said("Done."),
    ]

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        editor.choose = lambda options: "reject_once"
        await ask(connection, await opened(connection, rig), "go")

    (question,) = play(rig, scene).questions
    assert question["call"]["title"].startswith("touch new (sub-agent general-purpose, ")
    assert "asked by sub-agent general-purpose" in json.dumps(question["call"]["content"])


def test_sessions_run_side_by_side(rig: AcpRig, editor_api: ScriptedApi) -> None:
    other = rig.home / "other"
    other.mkdir()
    held = said("a long answer")._replace(hold_after=9)

    def choose(body: dict[str, Any]) -> Reply:
        return held if "slow" in json.dumps(body["messages"]) else said("Quick.")

    editor_api.choose = choose

    async def scene(connection: ClientSideConnection, editor: Editor) -> None:
        slow = await opened(connection, rig)
        quick = (await connection.new_session(cwd=str(other), mcp_servers=[])).session_id
        running = asyncio.create_task(ask(connection, slow, "slow"))
        await editor.until(lambda: bool(editor.text()))
        assert await ask(connection, quick, "go") == "end_turn"
        await connection.cancel(session_id=slow)
        assert await running == "cancelled"

    editor = play(rig, scene)
    assert editor.text().endswith("Quick.")
