"""`cost`, `turns`, `show` and `stats` count the same tokens and dollars."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, line, result, session, text, user
from turnlog.cli.root import samples_store

SAMPLES = sorted(path.stem for path in samples_store().session_files())
COUNTS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
}


def said(message_id: str, output: int = 100, **fields: Any) -> bytes:
    usage = {"input_tokens": 1000, "output_tokens": output, "cache_read_input_tokens": 7}
    body = {"model": "claude-opus-5", "usage": usage}
    return assistant(text("so"), message_id=message_id, message=body, **fields)


def repeated(message_id: str, output: int = 100) -> bytes:
    """A line in which a session repeats a message of its sub-agent."""
    inner = json.loads(said(message_id, output))
    data = {"type": "agent_progress", "agentId": "a9", "message": inner}
    return line("progress", data=data, version="2.1.45")


AGENT = [user("go"), said("a1"), said("a2", 40)]
STARTED = [user("q"), said("m1"), assistant(call("Agent", {"prompt": "go"}, "A"))]
CASES: dict[str, tuple[list[bytes], list[bytes]]] = {
    "no sub-agent": ([user("q"), said("m1"), said("m1", 300), user("r"), said("m2")], []),
    "only repeated": ([*STARTED, repeated("a1", 3), repeated("a1"), result("A"), said("m2")], []),
    "repeated, with a file": ([*STARTED, repeated("a1"), result("A"), said("m2")], AGENT),
    "one of two in the file": ([*STARTED, repeated("a1"), repeated("a7"), result("A")], AGENT),
    "repeated by the sub-agent": ([*STARTED, result("A")], [*AGENT, repeated("n1"), said("a3")]),
    "a synthetic one": (
        [
            *STARTED,
            repeated("a1").replace(b"claude-opus-5", b"<synthetic>"),
            repeated("a2"),
            result("A"),
        ],
        [],
    ),
}


def compared(turnlog: Run, *options: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures of a session by `cost`, and by `stats`."""
    cost = json.loads(turnlog(*options, "cost", name, "--json").out)
    rows = json.loads(turnlog(*options, "stats", "session", "--json").out)["rows"]
    (row,) = [each for each in rows if each["session"] == name]
    return cost, row


def require_agreement(cost: dict[str, Any], row: dict[str, Any]) -> None:
    models = cost["models"]
    assert cost["cost_usd"] == pytest.approx(row["cost_usd"], abs=1e-5)
    agents = sum(each["cost_usd"] or 0 for each in models if each["by_subagents"])
    assert agents == pytest.approx(row["agent_cost_usd"] or 0, abs=1e-5)
    for short, long in COUNTS.items():
        assert sum(each["usage"][long] for each in models) == row[short]


def require_same_turns(turnlog: Run, cost: dict[str, Any], *options: str, name: str) -> None:
    """Turns hold what the session's own messages took, on the branch that they are of."""
    turns = json.loads(turnlog(*options, "turns", name, "--json").out)
    own = [each["usage"] for each in cost["models"] if not each["by_subagents"]]
    for long in COUNTS.values():
        assert sum(turn["usage"][long] for turn in turns) == sum(each[long] for each in own)
    shown = turnlog(*options, "show", name).out
    tokens = [
        int(each.replace(",", "")) for each in re.findall(r"── turn .* ([\d,]+) tokens", shown)
    ]
    assert tokens == [sum(turn["usage"].values()) for turn in turns if sum(turn["usage"].values())]


@pytest.mark.parametrize("case", CASES)
def test_cost_turns_show_and_stats_agree(project: Path, turnlog: Run, case: str) -> None:
    lines, agent = CASES[case]
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))
    if agent:
        folder = project / SESSION / "subagents"
        folder.mkdir(parents=True)
        (folder / "agent-a9.jsonl").write_bytes(session(*agent, agent_id="a9"))
    cost, row = compared(turnlog, name=SESSION)
    require_agreement(cost, row)
    require_same_turns(turnlog, cost, name=SESSION)


@pytest.mark.parametrize("name", SAMPLES)
def test_they_agree_on_the_samples(project: Path, turnlog: Run, name: str) -> None:
    cost, row = compared(turnlog, "--samples", name=name)
    require_agreement(cost, row)


def test_a_message_that_only_a_session_repeats_is_of_its_sub_agents(
    project: Path, turnlog: Run
) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*CASES["only repeated"][0]))
    cost = json.loads(turnlog("cost", SESSION, "--json").out)
    assert [
        (each["messages"], each["usage"]["output_tokens"])
        for each in cost["models"]
        if each["by_subagents"]
    ] == [(1, 100)]
