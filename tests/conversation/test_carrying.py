"""The cost of each part of a conversation, by figures worked out by hand."""

from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import SESSION, assistant, call, compaction, nth, result, session, text, user
from turnlog.conversation.block_sizes import size_of_block, size_of_image, size_of_text
from turnlog.conversation.carried_items import CarriedItem
from turnlog.conversation.carrying import Carrying, carrying_of
from turnlog.conversation.carrying_groups import group_items
from turnlog.format.blocks import DocumentBlock

MODEL = "claude-opus-5"
INPUT, OUTPUT, WRITE, WRITE_1H, READ = (each / 1e6 for each in (5, 25, 6.25, 10, 0.5))
"""Dollars per token."""


def said(
    message_id: str,
    *blocks: dict[str, Any],
    model: str = MODEL,
    parent: str | None = None,
    **n: Any,
) -> bytes:
    """A message, with its usage by short names."""
    names = {
        "fresh": "input_tokens",
        "output": "output_tokens",
        "read": "cache_read_input_tokens",
        "write": "cache_creation_input_tokens",
    }
    usage = {names.get(name, name): value for name, value in n.items()}
    fields = {"parent": parent} if parent else {}
    message = {"model": model, "usage": usage}
    return assistant(*blocks, message_id=message_id, message=message, **fields)


def words(tokens: int) -> str:
    """A text of an estimated number of tokens."""
    return "x" * int(tokens * 3.5)


def item(found: Carrying, kind: str, title: str = "") -> CarriedItem:
    (one,) = (each for each in found.items if each.kind == kind and each.title.startswith(title))
    return one


def system_cost(found: Carrying) -> float:
    """Return the cost of the system prompt and tool definitions in all turns."""
    return sum(each.carried for each in found.items if each.kind == "system")


def cost_by(found: Carrying, by: str) -> dict[str, float]:
    return {group.name: group.cost for group in group_items(found.items, by)}


def test_each_request_pays_for_what_came_before_it(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user(words(100)),
            said("m1", text("x"), fresh=1100, output=10),
            user(words(40)),
            said("m2", text("y"), read=1100, fresh=50, output=20),
        )
    )
    first, second = (each for each in found.items if each.kind == "prompt")
    # 1,000 tokens of the first request belong to no block; the second one read them from the cache.
    assert system_cost(found) == pytest.approx(1000 * INPUT + 1000 * READ)
    assert first.carried == pytest.approx(100 * INPUT + 100 * READ)
    assert (first.sent, second.sent) == (2, 1)
    # The answer and the second prompt are the 50 tokens that the prompt grew by.
    answers = [each for each in found.items if each.kind == "answer"]
    assert second.carried + answers[0].carried == pytest.approx(50 * INPUT)
    assert [each.own for each in answers] == pytest.approx([10 * OUTPUT, 20 * OUTPUT])
    assert answers[1].sent == 0


def test_cache_reads_come_first_then_writes_for_an_hour_then_for_five_minutes(
    opened: Opened,
) -> None:
    split = {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}
    found = carrying_of(
        opened(
            *(user(words(50)), user(words(50)), user(words(50)), user(words(50))),
            said("m1", text("x"), read=80, write=100, cache_creation=split, fresh=20),
        )
    )
    prompts = [each for each in found.items if each.kind == "prompt"]
    assert [each.carried for each in prompts] == pytest.approx(
        [
            50 * READ,
            30 * READ + 20 * WRITE_1H,
            40 * WRITE_1H + 10 * WRITE,
            30 * WRITE + 20 * INPUT,
        ]
    )


def test_a_call_and_its_result_are_one_item(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user("go"),
            said("m1", call("Read", {"file_path": "/a.py"}), fresh=1000, output=40),
            result("toolu_1", words(1000)),
            said("m2", text("done"), read=1000, write=1100),
        )
    )
    read = item(found, "call", "/a.py")
    assert (read.tool, read.file, read.sent, read.turn and read.turn.n) == ("Read", "/a.py", 1, 1)
    assert read.carried == pytest.approx(1100 * WRITE)
    assert read.own == pytest.approx(40 * OUTPUT)


def test_results_of_parallel_calls_are_carried_although_they_are_dead_ends(opened: Opened) -> None:
    one, two = (call("Bash", {"command": name}, name) for name in ("one", "two"))
    found = carrying_of(
        opened(
            user("go"),
            said("m1", one, fresh=10),
            said("m1", two, fresh=10),
            result("one", words(500), parent=nth(2)),
            result("two", words(500), parent=nth(3)),
            said("m2", text("done"), fresh=1020),
            user("more"),
            said("m3", text("done"), fresh=1030),
        )
    )
    assert [item(found, "call", name).sent for name in ("one", "two")] == [2, 2]
    assert item(found, "call", "one").carried == pytest.approx(
        item(found, "call", "two").carried, rel=0.01
    )


def test_nothing_before_a_compaction_is_carried_after_it(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user(words(1000)),
            said("m1", text("x"), fresh=1500),
            *compaction("So far: nothing."),
            user("more"),
            said("m2", text("y"), fresh=600),
        )
    )
    old = next(each for each in found.items if each.kind == "prompt")
    assert old.sent == 1
    assert old.carried == pytest.approx(1000 * INPUT)
    assert item(found, "summary").sent == 1
    assert found.cost == pytest.approx(2100 * INPUT)


@pytest.mark.parametrize(("last", "is_sent"), [(nth(2), True), (nth(44), False)])
def test_what_a_compaction_preserved_is_carried_if_all_of_it_is_there(
    opened: Opened, last: str, is_sent: bool
) -> None:
    kept = {"anchorUuid": nth(4), "uuids": [nth(1), last], "allUuids": [nth(1), last]}
    about = {"trigger": "manual", "preservedMessages": kept}
    found = carrying_of(
        opened(
            user(words(1000)),
            said("m1", text("x"), fresh=1500),
            *compaction("So far: nothing.", compact_metadata=about),
            user("more"),
            said("m2", text("y"), fresh=1600),
        )
    )
    old = next(each for each in found.items if each.kind == "prompt")
    assert old.sent == (2 if is_sent else 1)


def test_a_branch_carries_only_what_is_on_it(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user("start"),
            said("m1", text("x"), fresh=100),
            user("left " + words(300)),
            said("m2", text("y"), fresh=400),
            user("right " + words(300), parent=nth(2)),
            said("m3", text("z"), fresh=500),
        )
    )
    assert [item(found, "prompt", name).sent for name in ("start", "left", "right")] == [3, 1, 1]
    turns = [item(found, "prompt", name).turn for name in ("left", "right")]
    assert [turn and (turn.n, turn.line) for turn in turns] == [(2, 3), (2, 5)]
    assert found.cost == pytest.approx(1000 * INPUT)


def test_a_shrunk_prompt_shrinks_what_it_carried_not_the_system_prompt(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user(words(1000)),
            said("m1", text("x"), fresh=3000),
            user("more"),
            said("m2", text("y"), fresh=2500),
        )
    )
    assert system_cost(found) == pytest.approx(4000 * INPUT)
    assert found.cost == pytest.approx(5500 * INPUT)


def test_sub_agents_belong_to_the_turn_that_started_them(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    lines = (user("look", uuid=nth(101)), said("a1", text("found"), fresh=700, output=3))
    (folder / "agent-a.jsonl").write_bytes(session(*lines, agent_id="a"))
    (folder / "agent-a.meta.json").write_text('{"toolUseId": "toolu_1"}')
    found = carrying_of(
        opened(
            user("first"),
            said("m1", text("x"), fresh=100),
            user("second"),
            said("m2", call("Task", {"prompt": "look"}), fresh=100),
            result("toolu_1", "found"),
            said("m3", text("done"), fresh=200),
        )
    )
    inside = [each for each in found.items if each.agent == "a"]
    assert {each.kind for each in inside} == {"prompt", "answer", "system"}
    assert {each.turn.n for each in inside if each.turn} == {2}
    assert sum(each.cost for each in inside) == pytest.approx(700 * INPUT + 3 * OUTPUT)


def test_a_sub_agent_whose_call_is_unknown_belongs_to_no_turn(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    lines = (user("look", uuid=nth(101)), said("a1", text("found"), fresh=700))
    (folder / "agent-a.jsonl").write_bytes(session(*lines, agent_id="a"))
    found = carrying_of(opened(user("first"), said("m1", text("x"), fresh=100)))
    inside = [each for each in found.items if each.agent == "a"]
    assert {each.turn for each in inside} == {None}
    assert sum(each.cost for each in inside) == pytest.approx(700 * INPUT)


def test_a_model_without_a_price_is_excluded_and_named(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user("go"),
            said("m1", text("x"), fresh=100),
            said("m2", text("y"), fresh=100, model="sage-9"),
        )
    )
    assert (found.unpriced, found.requests) == (["sage-9"], 1)
    assert found.cost == pytest.approx(100 * INPUT)


def test_excluded_messages_are_carried_but_not_charged(opened: Opened) -> None:
    whole = opened(
        user(words(100)),
        said("m1", text("x"), fresh=100),
        user("more"),
        said("m2", text("y"), fresh=110),
    )
    found = carrying_of(whole, frozenset({"m1"}))
    assert found.cost == pytest.approx(110 * INPUT)
    assert item(found, "prompt", "xxx").sent == 1


def test_searches_and_advisors_are_charged_to_the_calls_of_the_api(opened: Opened) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    counts = {"web_search_requests": 2}
    found = carrying_of(
        opened(
            user("go"),
            said("m1", search, text("so"), fresh=100, output=50, server_tool_use=counts),
        )
    )
    assert item(found, "call").own > 0.02
    assert found.cost == pytest.approx(100 * INPUT + 50 * OUTPUT + 0.02)


def test_a_message_in_two_passes_sends_its_prompt_twice(opened: Opened) -> None:
    one = {"type": "message", "input_tokens": 100, "output_tokens": 5}
    advice = {"type": "advisor_message", "model": MODEL, "input_tokens": 40, "output_tokens": 4}
    found = carrying_of(
        opened(
            user(words(50)),
            said("m1", text("so"), fresh=200, output=10, iterations=[one, advice, one]),
        )
    )
    assert item(found, "prompt").sent == 2
    assert item(found, "prompt").carried == pytest.approx(2 * 50 * INPUT)
    assert item(found, "answer").own == pytest.approx(14 * OUTPUT + 40 * INPUT)


def test_groups_add_up_and_keep_the_system_prompt_apart(opened: Opened) -> None:
    found = carrying_of(
        opened(
            user("go"),
            said("m1", call("Read", {"file_path": "/a.py"}), fresh=1000),
            result("toolu_1", words(1000)),
            said("m2", call("Edit", {"file_path": "/a.py"}, "toolu_2"), fresh=2100),
            result("toolu_2", "ok"),
            said("m3", text("done"), fresh=2200, output=10),
        )
    )
    system = "system prompt and tool definitions"
    assert {"Read", "Edit", "prompts", "answers", system} == set(cost_by(found, "tool"))
    assert {"/a.py", "no file", system} == set(cost_by(found, "file"))
    assert {"1 go", system} == set(cost_by(found, "turn"))
    for by in ("call", "tool", "file", "turn"):
        assert sum(cost_by(found, by).values()) == pytest.approx(5300 * INPUT + 10 * OUTPUT)


def test_images_are_measured_in_pixels() -> None:
    gif = "R0lGODlh7gLuAgAA"  # 750 × 750 pixels
    assert size_of_image(gif).tokens == 750
    assert size_of_image("no image").tokens == 1600


def test_documents_are_measured_by_their_bytes_and_texts_by_their_letters() -> None:
    data = "QUJD" * 100
    pdf = DocumentBlock(source={"type": "base64", "data": data})
    plain = DocumentBlock(source={"type": "text", "data": data})
    assert size_of_block(pdf).bytes == 300
    assert size_of_block(plain) == size_of_text(data)


def test_a_hundred_thousand_requests_take_linear_time(opened: Opened) -> None:
    lines = [user("go")]
    for n in range(10_000):
        lines += [said(f"m{n}", call("Bash", {}, f"t{n}"), read=1000 + 9 * n), result(f"t{n}", "x")]
    found = carrying_of(opened(*lines))
    assert item(found, "prompt").sent == 10_000
    assert sum(each.sent for each in found.items if each.kind == "call") == 10_000 * 9_999 // 2
