"""Commands and skills as people write them, and the prompts that they expand to."""

import asyncio
from pathlib import Path

import pytest

from turnlog.agent.chat.prompt_expansion import run_injected
from turnlog.agent.config.command_expansion import CommandContext, expand, rules_of
from turnlog.agent.config.custom_commands import CustomCommand, load_commands, read_command
from turnlog.agent.config.definition_directories import DefinitionFiles
from turnlog.agent.config.settings import Settings
from turnlog.agent.config.skills import for_model, listing, skill_tool
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.consent import Consent
from turnlog.agent.workspace.tool import ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.store.paths import Store


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def command(body: str, **fields: object) -> CustomCommand:
    made = {"name": "c", "description": "d", "path": Path("/s/c/SKILL.md"), "origin": "user"}
    return CustomCommand(body=body, **(made | fields))  # pyright: ignore[reportArgumentType]


def filled(body: str, typed: str = "", **fields: object) -> str:
    async def run(text: str) -> str:
        return f"<{text}>"

    place = CommandContext("5e55", Path("/shop"), run)
    return asyncio.run(expand(command(body, **fields), typed, place)).text


def test_only_the_text_of_an_untrusted_command_is_used(store: Store, project: Path) -> None:
    head = "---\nallowed-tools: Bash\nhooks:\n  Stop:\n    - hooks:\n        - command: x\n---\n"
    path = write(project / ".claude" / "commands" / "do.md", f"{head}Do it.")
    own = write(store.root / "commands" / "mine.md", f"{head}Mine.")
    files = DefinitionFiles(store, project, is_trusted=lambda path: False)
    found = load_commands(store, project, files)
    assert (found["do"].body, found["do"].allowed_tools, found["do"].hooks) == ("Do it.", (), {})
    assert (found["mine"].path, found["mine"].allowed_tools) == (own, ("Bash",))
    assert files.ignored == [f"{path} (hooks, allowed-tools)"]


def test_a_command_that_a_rule_denies_reading_is_not_loaded(store: Store, project: Path) -> None:
    write(project / ".env", "KEY=1")
    (project / ".claude" / "commands").mkdir(parents=True)
    (project / ".claude" / "commands" / "x.md").symlink_to(project / ".env")
    files = DefinitionFiles(store, project, may_read=lambda path: path.resolve().name != ".env")
    assert (load_commands(store, project, files), len(files.problems)) == ({}, 1)


def test_a_file_defines_a_command(tmp_path: Path) -> None:
    text = """---
description: Fix an issue
argument-hint: [number] [branch]
allowed-tools: Bash(git add:*), Read
model: haiku
---
Fix #$ARGUMENTS.
"""
    path = write(tmp_path / "fix.md", text)
    assert read_command(path, "fix", "user") == CustomCommand(
        name="fix",
        description="Fix an issue",
        body="Fix #$ARGUMENTS.",
        path=path,
        origin="user",
        hint="[number] [branch]",
        allowed_tools=("Bash(git add:*)", "Read"),
        model="haiku",
    )


def test_a_command_without_a_description_is_told_by_its_first_words(tmp_path: Path) -> None:
    path = write(tmp_path / "x.md", "# Review the\ndiff\n\nThen more.")
    found = read_command(path, "x", "user")
    assert found
    assert found.description == "Review the diff"


def test_commands_in_folders_go_by_both_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    write(store.root / "commands" / "deploy.md", "user")
    write(tmp_path / ".claude" / "commands" / "web" / "test.md", "web")
    write(tmp_path / ".claude" / "commands" / "api" / "build.md", "api")
    found = load_commands(store, tmp_path)
    assert {name: each.body for name, each in found.items()} == {
        "deploy": "user",
        "web:test": "web",
        "api:build": "api",
        "test": "web",
        "build": "api",
    }
    assert found["test"].origin == "project:web"


def test_of_one_name_the_skill_and_the_user_count_more(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    write(tmp_path / ".claude" / "commands" / "a.md", "project command")
    write(store.root / "commands" / "a.md", "user command")
    assert load_commands(store, tmp_path)["a"].body == "user command"
    write(tmp_path / ".claude" / "skills" / "a" / "SKILL.md", "project skill")
    assert load_commands(store, tmp_path)["a"].body == "project skill"
    write(store.root / "skills" / "a" / "SKILL.md", "user skill")
    assert load_commands(store, tmp_path)["a"].body == "user skill"


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Fix $ARGUMENTS now", "1 2", "Fix 1 2 now"),
        ("$0 then $1", "a b", "a then b"),
        ("$ARGUMENTS[1]!", '"a b" c', "c!"),
        ("$0|$2", "a", "a|$2"),
        (r"costs \$1.00 for $0", "x", "costs $1.00 for x"),
        (r"\\$0", "x", r"\\x"),
        ("Nothing asked", "x", "Nothing asked\n\nARGUMENTS: x"),
        ("Nothing asked", "", "Nothing asked"),
        ("$ARGUMENTS", "it's $0", "it's $0"),
        ("${CLAUDE_SESSION_ID} ${CLAUDE_SKILL_DIR} ${CLAUDE_PROJECT_DIR}", "", "5e55 /s/c /shop"),
        ("$HOME $ARGUMENTSX", "", "$HOME $ARGUMENTSX"),
    ],
)
def test_arguments_are_put_in_their_places(body: str, arguments: str, expected: str) -> None:
    assert filled(body, arguments) == expected


def test_arguments_may_have_names() -> None:
    assert filled("$issue on $branch.", "12", arguments=("issue", "branch")) == "12 on ."


def test_rules_name_the_places_of_a_skill_but_no_arguments() -> None:
    async def run(text: str) -> str:
        return text

    allowed = ("Bash(${CLAUDE_SKILL_DIR}/x.sh *)", "Bash($ARGUMENTS)")
    rules = rules_of(command("", allowed_tools=allowed), CommandContext("5e55", Path("/shop"), run))
    assert rules == ("Bash(/s/c/x.sh *)", "Bash($ARGUMENTS)")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Now: !`git status`", "Now: <git status>"),
        ("KEY=!`no`", "KEY=!`no`"),
        ("```!\na\nb\n```\nend", "<a\nb>\nend"),
        ("!`echo $ARGUMENTS`", "<echo !`x`>"),
        ("$ARGUMENTS", "!`x`"),
    ],
)
def test_shell_commands_are_run_once_and_never_from_arguments(body: str, expected: str) -> None:
    assert filled(body, "!`x`" if "ARGUMENTS" in body else "") == expected


def injected(tmp_path: Path, text: str, *allowed: str) -> str:
    rules = Consent(Settings(tmp_path, ()), ApprovalMode.DEFAULT)
    rules.for_turn = allowed
    workspace = Workspace(tmp_path, tmp_path / "session", tmp_path)
    return asyncio.run(run_injected(text, workspace, rules))


def test_an_injected_command_runs_only_where_a_rule_allows_it(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="may not run"):
        injected(tmp_path, "touch made")
    assert not (tmp_path / "made").exists()
    assert injected(tmp_path, "touch made && echo done", "Bash(touch:*)", "Bash(echo:*)") == "done"
    with pytest.raises(ToolError, match="may not run"):
        injected(tmp_path, "touch made && rm made", "Bash(touch:*)")


def test_an_injected_command_that_fails_stops_everything(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="failed"):
        injected(tmp_path, "touch /nowhere/x", "Bash(touch:*)")


def test_the_model_is_told_of_skills_and_commands_that_it_may_call(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    write(store.root / "skills" / "pdf" / "SKILL.md", "---\ndescription: Fills forms\n---\nDo.")
    hidden = "---\ndescription: Ships\ndisable-model-invocation: true\n---\nDo."
    write(store.root / "skills" / "ship" / "SKILL.md", hidden)
    quiet = "---\ndescription: Knows\nuser-invocable: no\n---\nDo."
    write(store.root / "skills" / "know" / "SKILL.md", quiet)
    found = load_commands(store, tmp_path)
    assert listing(for_model(found).values()) == "- know: Knows\n- pdf: Fills forms"
    assert [each.name for each in found.values() if each.for_user] == ["pdf", "ship"]


def test_a_listing_keeps_all_names_where_there_is_no_room_for_more() -> None:
    several = [command("", name=name, description="x" * 100) for name in ("a", "b", "c")]
    assert listing(several, budget=150) == f"- a: {'x' * 100}\n- b\n- c"


def test_the_model_takes_up_a_skill(tmp_path: Path) -> None:
    async def fill(found: CustomCommand, arguments: str) -> str:
        return found.body.replace("$0", arguments)

    tool = skill_tool({"pdf": command("Fill $0.", name="pdf", is_skill=True)}, fill)

    async def call(**taken: str) -> ToolOutcome:
        workspace = Workspace(tmp_path, tmp_path, tmp_path)
        return await tool.run(tool.read(taken), workspace, lambda text: None)

    outcome = asyncio.run(call(skill="pdf", args="a.pdf"))
    assert outcome.content == "Base directory for this skill: /s/c\n\nFill a.pdf."
    with pytest.raises(ToolError, match="available: pdf"):
        asyncio.run(call(skill="doc"))
