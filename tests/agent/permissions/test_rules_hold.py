"""Rules hold for every tool, under every spelling, in a running chat."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.chat_process import ANYTHING, ChatProcess
from support.scripted_api import ScriptedApi, called, said, scripted_api
from turnlog.agent.permissions import ApprovalMode, Policy, VerdictKind, decide, parse_rule
from turnlog.agent.workspace.access import Reads, Uses
from turnlog.errors import UsageError

EDITS = ("--permission-mode", "acceptEdits")
Call = tuple[str, dict[str, Any]]


class Running:
    """A chat without a screen whose model makes calls that a test chooses."""

    def __init__(self, home: Path, api: ScriptedApi) -> None:
        self.api = api
        self.chat = ChatProcess(home, api.url)
        self.work = self.chat.work
        self.chat.store.root.mkdir()

    def settings(self, **permissions: list[str]) -> None:
        content = json.dumps({"permissions": permissions})
        self.chat.store.settings.write_text(content)

    def call(self, *calls: Call, options: tuple[str, ...] = ()) -> list[str]:
        """Let the model make calls, one after the other; return their results."""
        made = [called((f"t{rank}", *each)) for rank, each in enumerate(calls)]
        self.api.replies[:] = [*made, said("Done.")]
        done = self.chat.run("-p", "go", *options)
        assert done.code == 0, done.err
        bodies = [request.body["messages"][-1]["content"] for request in self.api.requests[1:]]
        return [
            str(block["content"]) for blocks in bodies for block in blocks if "content" in block
        ]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with scripted_api(said("Done.")) as api:
        yield Running(tmp_path, api)


@pytest.mark.parametrize(
    "given",
    [
        {"pattern": "KEY", "output_mode": "content"},
        {"pattern": ".", "glob": ".env", "output_mode": "content"},
        {"pattern": "KEY"},
        {"pattern": "KEY", "output_mode": "count"},
    ],
)
def test_a_search_leaves_out_files_that_a_rule_asks_about(
    running: Running, given: dict[str, Any]
) -> None:
    running.settings(ask=["Read(.env)"])
    (running.work / ".env").write_text("KEY=canary\n")
    (running.work / "plain").write_text("KEY=other\n")
    [found] = running.call(("Grep", given))
    assert "canary" not in found
    assert ".env" not in found


def test_a_search_in_a_directory_that_a_rule_asks_about_shows_it_once_allowed(
    running: Running,
) -> None:
    running.settings(ask=["Read(secrets/**)"])
    (running.work / "secrets").mkdir()
    (running.work / "secrets" / "a").write_text("KEY=canary\n")
    search = ("Grep", {"pattern": "KEY", "path": "secrets", "output_mode": "content"})
    [found] = running.call(search)
    assert "canary" not in found
    running.api.requests.clear()
    hook = {"matcher": "Grep", "hooks": [{"type": "command", "command": f"echo '{ALLOW}'"}]}
    settings = {
        "permissions": {"ask": ["Read(secrets/**)"]},
        "hooks": {"PermissionRequest": [hook]},
    }
    running.chat.store.settings.write_text(json.dumps(settings))
    [found] = running.call(search)
    assert "canary" in found


ALLOW = json.dumps(
    {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "allow"},
        }
    }
)


@pytest.mark.parametrize("name", ["deploy", "/deploy", "//deploy", " /deploy "])
def test_a_denied_skill_does_not_run_under_any_spelling(running: Running, name: str) -> None:
    running.settings(deny=["Skill(deploy)"])
    folder = running.chat.store.root / "skills" / "deploy"
    folder.mkdir(parents=True)
    head = "---\nname: deploy\ndescription: ships it\nallowed-tools: Bash\n---\n"
    (folder / "SKILL.md").write_text(f"{head}Ship.\n!`touch ran`\n")
    [told] = running.call(("Skill", {"skill": name}), options=ANYTHING)
    assert not (running.work / "ran").exists()
    assert "denies" in told


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions", "default"])
def test_an_agent_does_not_leave_plan_mode(running: Running, mode: str) -> None:
    folder = running.chat.store.root / "agents"
    folder.mkdir()
    head = f"---\nname: writer\ndescription: writes\npermissionMode: {mode}\n---\n"
    (folder / "writer.md").write_text(f"{head}Write.\n")
    start = {"description": "d", "prompt": "p", "subagent_type": "writer"}
    write = {"file_path": "planned.txt", "content": "x"}
    running.call(("Agent", start), ("Write", write), options=("--permission-mode", "plan"))
    assert not (running.work / "planned.txt").exists()


@pytest.mark.parametrize("tool", ["Write", "MultiEdit", "NotebookEdit", "Edit"])
def test_a_rule_that_names_any_editing_tool_protects_a_file(running: Running, tool: str) -> None:
    running.settings(deny=[f"{tool}(docs/**)"])
    (running.work / "docs").mkdir()
    write = ("Write", {"file_path": "docs/keep.md", "content": "x"})
    running.call(write, ("Bash", {"command": "touch docs/keep.md"}), options=EDITS)
    assert not (running.work / "docs" / "keep.md").exists()


def test_a_rule_that_would_protect_nothing_is_reported(running: Running) -> None:
    running.settings(deny=["Grep(.env)"])
    running.api.replies[:] = [said("Done.")]
    assert "'Grep(.env)' has no effect" in running.chat.run("-p", "go").err


def test_a_search_rule_with_a_path_names_the_rule_that_works() -> None:
    with pytest.raises(UsageError) as error:
        parse_rule("Glob(src/**)", Path("/work"), "settings.json")
    assert error.value.hint == "Read(src/**)"


@pytest.mark.parametrize("text", ["/a\0b/*.py", "\0", "a\0*"])
@pytest.mark.parametrize("tool", ["Glob", "Grep"])
def test_a_null_character_in_a_pattern_is_refused(running: Running, tool: str, text: str) -> None:
    [told] = running.call((tool, {"pattern": text}))
    assert "null character" in told


def policy(
    root: Path, *others: Path, deny: tuple[str, ...], mode: ApprovalMode = ApprovalMode.BYPASS
) -> Policy:
    rules = tuple(parse_rule(text, root, "settings.json") for text in deny)
    return Policy(rules, (), (), mode, root, (root, *others))


@pytest.mark.parametrize("rule", ["Read(.env)", "Read(./.env)", "Read(**/.env)"])
def test_a_rule_holds_in_additional_directories(tmp_path: Path, rule: str) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    work.mkdir()
    for path in (other / ".env", other / "deep" / ".env"):
        verdict = decide("Read", [Reads(path)], policy(work, other, deny=(rule,)))
        assert verdict.kind is VerdictKind.DENY


@pytest.mark.parametrize("rule", ["mcp__my.server", "mcp__my.server__drop", "mcp__my.server__*"])
def test_a_rule_names_a_server_as_its_configuration_does(tmp_path: Path, rule: str) -> None:
    used = [Uses(server="my_server")]
    verdict = decide("mcp__my_server__drop", used, policy(tmp_path, deny=(rule,)))
    assert verdict.kind is VerdictKind.DENY
