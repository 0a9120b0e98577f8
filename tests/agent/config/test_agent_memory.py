"""The memory of an agent: its directory, and the prompt part that explains it."""

from pathlib import Path

import pytest

from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.config.agent_memory import memory_context, memory_folder


def place_of(
    name: str, scope: str, environment: dict[str, str] | None = None, *, is_project: bool = False
) -> Path | None:
    agent = AgentDefinition(name, "Develops", "", memory=scope, is_project=is_project)
    return memory_folder(agent, Path("home"), Path("root"), environment or {})


@pytest.mark.parametrize(
    ("scope", "place"),
    [
        ("user", "home/agent-memory/dev"),
        ("project", "root/.claude/agent-memory/dev"),
        ("local", "root/.claude/agent-memory-local/dev"),
    ],
)
def test_its_place_is_that_of_its_scope(scope: str, place: str) -> None:
    assert place_of("dev", scope) == Path(place)


@pytest.mark.parametrize("name", ["..", "../x", "a/b", ""])
def test_a_name_that_leads_elsewhere_has_none(name: str) -> None:
    assert place_of(name, "user") is None


def test_it_can_be_turned_off() -> None:
    off = {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
    assert place_of("dev", "user", off) is None


@pytest.mark.parametrize("listed", ["line\n" * 300, "x" * 30_000])
def test_of_a_long_list_the_start_is_told(tmp_path: Path, listed: str) -> None:
    (tmp_path / "MEMORY.md").write_text(listed)
    told = memory_context(tmp_path)
    assert told.endswith("(This is only its start: make it shorter.)")
    assert len(told) < 26_000
    assert told.count("line") < 210


def test_a_list_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert memory_context(tmp_path).endswith("MEMORY.md is empty.")
