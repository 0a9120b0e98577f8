"""Totals of a session: counted over all processes, and continued as the client does."""

import asyncio
import json
from pathlib import Path

import pytest

from support.chatting import chat, make_parts, make_tool
from support.scripted_api import ScriptedApi, answered, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.loop import Loop
from turnlog.agent.session.resume import reopen
from turnlog.agent.session.session_totals import SessionTotals
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.session import open_session
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file
from turnlog.render.costs import session_cost
from turnlog.store.paths import Store

MODEL = "claude-opus-5-5"


def totals_in(path: Path) -> list[Fields]:
    values = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [value for value in values if value["type"] == "cost-state"]


def test_each_turn_ends_with_the_totals_of_the_session(parts: Parts, api: ScriptedApi) -> None:
    chat(parts, "one", "two")
    first, second = totals_in(parts.recorder.path)
    counts = first["modelUsage"][MODEL], second["modelUsage"][MODEL]
    assert counts[1]["outputTokens"] == 2 * counts[0]["outputTokens"] > 0
    assert second["totalCostUSD"] == pytest.approx(2 * first["totalCostUSD"])
    assert second["totalDuration"] >= first["totalDuration"]
    assert second["startTime"] == first["startTime"]
    view = session_cost(open_session(parts.recorder.path))
    assert view.client_cost_usd == pytest.approx(view.cost_usd)
    fields = survey_file(parts.recorder.path).count_fields()
    assert [place for place, is_known in fields if not is_known] == []


def test_totals_go_on_where_another_process_ended(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    async def send(resume: Path | None) -> Path:
        opened = await open_chat(store, ChatOptions(cwd=project, resume=resume))
        async for _ in opened.send("go"):
            pass
        await opened.close()
        return opened.parts.recorder.path

    path = asyncio.run(send(None))
    asyncio.run(send(path))
    first, second = totals_in(path)
    assert second["totalCostUSD"] == pytest.approx(2 * first["totalCostUSD"])
    assert second["startTime"] == first["startTime"]
    assert second["totalDuration"] > first["totalDuration"]


def test_a_compaction_on_request_is_counted(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hello."), answered({"type": "text", "text": "They said hello."})]
    chat(parts, "hello")

    async def compact() -> None:
        async for _ in Loop(parts).compact():
            pass
        await parts.model.close()

    asyncio.run(compact())
    first, second = totals_in(parts.recorder.path)
    assert second["totalCostUSD"] > first["totalCostUSD"]


def test_changed_lines_and_the_time_of_calls_are_counted(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    async def edit(value: Fields, output: object) -> ToolOutcome:
        return ToolOutcome("done", {"structuredPatch": [{"lines": [" a", "-b", "+c", "+d"]}]})

    parts = make_parts(store, project)
    parts.tools["Edit"] = make_tool("Edit", edit)
    api.replies[:] = [called(("t1", "Edit", {})), said("Done.")]
    chat(parts, "go")
    (line,) = totals_in(parts.recorder.path)
    assert (line["totalLinesAdded"], line["totalLinesRemoved"]) == (2, 1)
    assert line["totalToolDuration"] >= 0


def test_a_model_without_a_known_price_is_said_to_be_one() -> None:
    totals = SessionTotals()
    totals.add_turn(0.0, 1.0, {"some-model": {"outputTokens": 5, "costUSD": 0.0}})
    line = totals.line("s")
    assert line["hasUnknownModelCost"]
    assert line["totalAPIDuration"] == 1000


@pytest.mark.parametrize("value", [None, "many", -5, True, {"a": 1}])
def test_figures_that_are_none_count_as_nothing(value: object) -> None:
    totals = SessionTotals()
    before = {"totalCostUSD": value, "startTime": value, "modelUsage": {"m": value, "n": {"x": 1}}}
    totals.continue_from(before)
    line = totals.line("s")
    assert (line["totalCostUSD"], line["modelUsage"]["n"]) == (0, {"x": 1})
    assert line["startTime"] > 0


def test_a_fork_counts_from_the_start(store: Store, project: Path, api: ScriptedApi) -> None:
    parts = make_parts(store, project)
    chat(parts, "go")
    assert reopen(parts.recorder.path).totals is not None

    async def branch() -> Path:
        options = ChatOptions(cwd=project, resume=parts.recorder.path, is_fork=True)
        opened = await open_chat(store, options)
        await opened.close()
        return opened.parts.recorder.path

    assert reopen(asyncio.run(branch())).totals is None
