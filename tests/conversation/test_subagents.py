"""Sub-agents, in each of the places where clients have kept them."""

from pathlib import Path
from typing import Any

from conversation.conftest import Opened
from support.build import SESSION, assistant, call, encode, nth, result, session, text, user
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent


def task(call_id: str = "T", prompt: str = "look around", **fields: Any) -> bytes:
    given = {"description": "Look", "prompt": prompt, "subagent_type": "Explore"}
    return assistant(call("Task", given, call_id), **fields)


def write_agent(folder: Path, name: str, *lines: bytes, **meta: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"agent-{name}.jsonl"
    path.write_bytes(session(*lines, agent_id=name))
    if meta:
        path.with_suffix(".meta.json").write_bytes(encode(meta))
    return path


def links(whole: Session) -> list[tuple[str, str | None]]:
    """The id of each sub-agent and that of the call which started it."""
    return [(agent.id, agent.call_id) for agent in whole.subagents]


def answers(whole: Session, agent: SubAgent) -> list[str]:
    inner = whole.open_subagent(agent)
    return [block["text"] for one in inner.context() for block in one["content"]]


SAID = (user("look around"), assistant(text("seen")))


def test_files_beneath_the_session_are_linked_by_their_meta(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "a1", *SAID, toolUseId="T", agentType="Explore", description="Look")
    whole = opened(user("q1"), task(), result("T"))
    assert links(whole) == [("a1", "T")]
    assert whole.subagents[0].description == "Look"
    assert answers(whole, whole.subagents[0]) == ["look around", "seen"]


def test_files_without_meta_are_linked_by_the_agent_that_a_result_names(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path / SESSION / "subagents", "a1", *SAID)
    whole = opened(user("q1"), task(), result("T", tool_use_result={"agentId": "a1"}))
    assert links(whole) == [("a1", "T")]
    assert whole.subagents[0].description == "a1"


def test_files_of_workflows_lie_deeper(opened: Opened, tmp_path: Path) -> None:
    write_agent(tmp_path / SESSION / "subagents" / "workflows" / "w1", "a2", *SAID)
    assert links(opened(user("q1"))) == [("a2", None)]


def test_files_beside_the_session_belong_to_the_session_that_they_name(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path, "b1", *SAID)
    other = tmp_path / "agent-b2.jsonl"
    other.write_bytes(session(*SAID, session_id="another", agent_id="b2"))
    whole = opened(user("q1"), task(), result("T", tool_use_result={"agentId": "b1"}))
    assert links(whole) == [("b1", "T")]


def test_sidechains_in_the_session_itself_are_linked_by_their_prompt(opened: Opened) -> None:
    side: dict[str, Any] = {"is_sidechain": True}
    whole = opened(
        user("q1"),
        task("T1", "look here"),
        task("T2", "look there"),
        user("look there", parent=None, **side),
        assistant(text("seen there"), **side),
        user("look here", parent=None, **side),
        assistant(text("seen here"), **side),
        result("T2", parent=nth(3)),
        result("T1", parent=nth(2)),
    )
    assert links(whole) == [(nth(4), "T2"), (nth(6), "T1")]
    assert [answers(whole, agent)[-1] for agent in whole.subagents] == ["seen there", "seen here"]


def test_calls_with_the_same_prompt_started_one_sidechain_each(opened: Opened) -> None:
    whole = opened(
        task("T1"),
        task("T2"),
        user("look around", parent=None, is_sidechain=True),
        user("look around", parent=None, is_sidechain=True),
    )
    assert links(whole) == [(nth(3), "T1"), (nth(4), "T2")]


def test_a_sidechain_that_no_call_started_stands_for_itself(opened: Opened) -> None:
    whole = opened(user("q1"), user("warm up", parent=None, is_sidechain=True))
    assert links(whole) == [(nth(2), None)]


def test_what_a_sidechain_said_is_not_said_in_the_session(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        user("warm up", parent=None, is_sidechain=True),
        assistant(text("warm"), is_sidechain=True),
    )
    assert [len(turn.messages) for turn in whole.turns] == [1]
    (inner,) = whole.subagents
    assert [len(turn.messages) for turn in whole.open_subagent(inner).turns] == [1]


def test_a_sub_agent_that_a_sub_agent_started_is_linked_to_its_call(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    write_agent(folder, "a1", user("look around"), task("inner"), toolUseId="T")
    write_agent(folder, "a2", *SAID, toolUseId="inner")
    whole = opened(user("q1"), task())
    assert links(whole) == [("a1", "T"), ("a2", "inner")]
    assert links(whole.open_subagent(whole.subagents[0])) == [("a2", "inner")]
    assert links(whole.open_subagent(whole.subagents[1])) == []


def test_a_meta_file_that_cannot_be_read_says_nothing(opened: Opened, tmp_path: Path) -> None:
    path = write_agent(tmp_path / SESSION / "subagents", "a1", *SAID)
    path.with_suffix(".meta.json").write_bytes(b"{torn")
    assert links(opened(user("q1"))) == [("a1", None)]


def test_a_meta_file_with_values_of_other_types_says_nothing(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path / SESSION / "subagents", "a1", *SAID, toolUseId=["T"], description=5)
    whole = opened(user("q1"), task(), result("T", tool_use_result={"agentId": "a1"}))
    assert links(whole) == [("a1", "T")]
    assert whole.subagents[0].description == "5"


def test_a_session_without_sub_agents_has_none(opened: Opened) -> None:
    assert opened(user("q1"), assistant(text("a1"))).subagents == []
