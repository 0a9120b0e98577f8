"""Agents and the loose YAML that people define them with."""

from pathlib import Path

import pytest

from turnlog.agent.config.agent_definitions import AgentDefinition, load_agents, read_agent
from turnlog.agent.config.frontmatter import split_head
from turnlog.store.paths import Store


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def agent(name: str, description: str = "d", **fields: str) -> str:
    head = {"name": name, "description": description} | fields
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in head.items()) + "---\nDo it.\n"


def test_a_file_says_what_an_agent_is_and_may_do(tmp_path: Path) -> None:
    text = agent(
        "reviewer",
        "Reviews code",
        tools="Read, Grep, Bash(git diff:*)",
        disallowedTools="Write",
        model="sonnet",
        permissionMode="plan",
        maxTurns="5",
        skills="[style, tests]",
    )
    path = write(tmp_path / "a.md", text)
    assert read_agent(path) == AgentDefinition(
        name="reviewer",
        description="Reviews code",
        prompt="Do it.",
        tools=("Read", "Grep", "Bash(git diff:*)"),
        disallowed_tools=("Write",),
        model="sonnet",
        permission_mode="plan",
        max_turns=5,
        skills=("style", "tests"),
        path=path,
    )


@pytest.mark.parametrize(
    "text",
    [
        "Just notes.",
        "---\nname: a\n---\nx",
        "---\ndescription: d\n---\nx",
        agent("a:b"),
        agent("-a"),
    ],
)
def test_a_file_without_a_sound_name_or_description_is_no_agent(tmp_path: Path, text: str) -> None:
    assert read_agent(write(tmp_path / "a.md", text)) is None


def test_the_nearest_definition_counts(tmp_path: Path) -> None:
    store, repository = Store(tmp_path / "home"), tmp_path / "repo"
    (repository / ".git").mkdir(parents=True)
    write(store.root / "agents" / "x.md", agent("x", "user"))
    write(store.root / "agents" / "y.md", agent("y", "user"))
    write(repository / ".claude" / "agents" / "deep" / "x.md", agent("x", "project"))
    write(repository / "sub" / ".claude" / "agents" / "x.md", agent("x", "nested"))
    write(tmp_path / ".claude" / "agents" / "z.md", agent("z", "outside the repository"))
    found = load_agents(store, repository / "sub")
    assert found["x"].description == "nested"
    assert found["y"].description == "user"
    assert load_agents(store, repository)["x"].description == "project"
    assert "z" not in found


def test_built_in_agents_can_be_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert {"general-purpose", "Explore"} <= set(load_agents(store, tmp_path))
    write(store.root / "agents" / "e.md", agent("Explore", "mine", model="haiku"))
    assert load_agents(store, tmp_path / "p")["Explore"].model == "haiku"


@pytest.mark.parametrize(
    ("tools", "disallowed", "allowed", "refused"),
    [
        (None, (), ["Read", "mcp__a__b"], []),
        (("Read", "Bash(git:*)"), (), ["Read", "Bash"], ["Write"]),
        (("Agent(worker)",), (), ["Task", "Agent"], ["Read"]),
        (None, ("Write", "mcp__github"), ["Read", "mcp__a__b"], ["Write", "mcp__github__pr"]),
        (("Read",), ("Read",), [], ["Read"]),
        (("mcp__a__*",), (), ["mcp__a__b"], ["mcp__ab__b", "Read"]),
        (None, ("mcp__*",), ["Read"], ["mcp__a__b"]),
        (("*",), (), ["Read", "Write"], []),
    ],
)
def test_an_agent_may_use_what_its_lists_say(
    tools: tuple[str, ...] | None,
    disallowed: tuple[str, ...],
    allowed: list[str],
    refused: list[str],
) -> None:
    definition = AgentDefinition("a", "d", "p", tools, disallowed)
    assert [tool for tool in allowed + refused if definition.may_use(tool)] == allowed


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ("description: Use when: asked", {"description": "Use when: asked"}),
        (
            "argument-hint: [file] [mode]\nmodel: haiku",
            {"argument-hint": "[file] [mode]", "model": "haiku"},
        ),
        ("tools:\n  - Read\n  - Bash\nbad: 'it", {"tools": ["Read", "Bash"], "bad": "it"}),
        ('description: "say "hi" now"', {"description": 'say "hi" now'}),
        ("description: <example>\n  user: hi\n</example>\nname: x", {"name": "x"}),
        ("flag: yes\nn: 010", {"flag": "yes", "n": "010"}),
        ("", {}),
        ("- a\n- b", {}),
    ],
)
def test_loose_fields_are_read_as_they_were_meant(head: str, fields: dict[str, object]) -> None:
    found, body = split_head(f"---\n{head}\n---\nBody")
    assert body == "Body"
    assert {name: found[name] for name in fields} == fields


@pytest.mark.parametrize(
    "text", ["No head.", "--- \nname: a\nnever closed", "\n---\nname: a\n---\n"]
)
def test_a_text_without_a_head_is_all_body(text: str) -> None:
    assert split_head(text) == ({}, text)


def test_line_ends_of_windows_and_a_mark_at_the_start_do_no_harm() -> None:
    assert split_head("\ufeff---\r\nname: a\r\n---\r\nBody\r\n") == ({"name": "a"}, "Body\r\n")
