"""Costs of a session."""

from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import SESSION, assistant, line, nth, session, text, user
from turnlog.render.costs import CostView, session_cost


def said(message_id: str | None = None, model: str = "claude-opus-5", **fields: Any) -> bytes:
    """A message of 1000 tokens in and 100 out: 0.0075 dollars with Opus 5."""
    usage = {"input_tokens": 1000, "output_tokens": 100}
    message: dict[str, Any] = {"model": model, "usage": usage, "id": message_id}
    return assistant(text("x"), message=message, **fields)


def write_agent(folder: Path, name: str, *lines: bytes) -> None:
    beneath = folder / SESSION / "subagents"
    beneath.mkdir(parents=True, exist_ok=True)
    (beneath / f"agent-{name}.jsonl").write_bytes(session(*lines, agent_id=name))


def by_model(view: CostView) -> list[tuple[str, int, float | None, bool]]:
    return [(one.model, one.messages, one.cost_usd, one.by_subagents) for one in view.models]


def test_each_message_is_counted_once_under_its_model(opened: Opened) -> None:
    view = session_cost(
        opened(user("q"), said("m1"), said("m1"), said("m2"), said("m3", "claude-haiku-4-5"))
    )
    assert by_model(view) == [
        ("claude-opus-5", 2, pytest.approx(0.015), False),
        ("claude-haiku-4-5", 1, pytest.approx(0.0015), False),
    ]
    assert view.cost_usd == pytest.approx(0.0165)
    assert view.models[0].usage.input_tokens == 2000


def test_sub_agents_are_counted_apart(opened: Opened, tmp_path: Path) -> None:
    write_agent(tmp_path, "a1", user("go"), said("m2"), said("m3"))
    view = session_cost(opened(user("q"), said("m1")))
    assert by_model(view) == [
        ("claude-opus-5", 1, pytest.approx(0.0075), False),
        ("claude-opus-5", 2, pytest.approx(0.015), True),
    ]
    assert view.cost_usd == pytest.approx(0.0225)


def test_so_are_those_in_the_session_itself(opened: Opened) -> None:
    side: dict[str, Any] = {"is_sidechain": True}
    whole = opened(user("q"), said("m1"), user("go", parent=None, **side), said("m2", **side))
    assert [one[3] for one in by_model(session_cost(whole))] == [False, True]


def test_a_message_that_a_sub_agent_took_over_is_not_counted_again(
    opened: Opened, tmp_path: Path
) -> None:
    write_agent(tmp_path, "a1", user("go"), said("m1"), said("m2"))
    write_agent(tmp_path, "a2", user("go"), said("m2"), said("m3"))
    assert [one[1] for one in by_model(session_cost(opened(user("q"), said("m1"))))] == [1, 2]


def test_messages_without_ids_are_all_counted(opened: Opened, tmp_path: Path) -> None:
    write_agent(tmp_path, "a1", user("go"), said(None))
    assert [one[1] for one in by_model(session_cost(opened(user("q"), said(None))))] == [1, 1]


def test_a_line_that_was_written_twice_is_the_sessions_own(opened: Opened) -> None:
    twice = said("m1", uuid=nth(2), parent=nth(1))
    view = session_cost(opened(user("q"), twice, twice))
    assert by_model(view) == [("claude-opus-5", 1, pytest.approx(0.0075), False)]


def test_models_without_a_price_are_named_and_not_in_the_total(opened: Opened) -> None:
    view = session_cost(opened(user("q"), said("m1"), said("m2", "sage-9"), said("m3", "sage-9")))
    assert view.unpriced == ["sage-9"]
    assert view.cost_usd == pytest.approx(0.0075)
    assert by_model(view)[1] == ("sage-9", 2, None, False)


def test_what_the_client_wrote_itself_is_not_counted(opened: Opened) -> None:
    whole = opened(user("q"), said("m1", "<synthetic>"), said("m2", is_api_error_message=True))
    assert session_cost(whole).models == []


def test_an_old_client_understates_its_output(opened: Opened) -> None:
    assert session_cost(opened(said("m1", version="2.1.29"))).output_understated
    assert not session_cost(opened(said("m1"))).output_understated


def test_the_clients_own_count_is_the_sum_over_its_processes(opened: Opened) -> None:
    def state(start: int, dollars: float) -> bytes:
        return line("cost-state", startTime=start, totalCostUSD=dollars)

    view = session_cost(opened(user("q"), state(1, 0.25), state(1, 0.5), state(2, 0.125)))
    assert view.client_cost_usd == 0.625
    assert session_cost(opened(user("q"))).client_cost_usd is None
