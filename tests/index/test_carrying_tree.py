"""Carrying costs as a tree: project, session, turn, tool, file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.build import SESSION, assistant, call, result, session, text, user
from turnlog.index.service import carrying_tree
from turnlog.store.paths import Store

SECRET = "tr0ub4dor&3"


@pytest.fixture
def written(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = store.projects / "-home-ada-shop"
    folder.mkdir()
    usage = {"usage": {"input_tokens": 1000, "output_tokens": 100}, "model": "claude-opus-5"}
    read = call("Read", {"file_path": "/home/ada/shop/cart.py"})
    lines = (
        user(f"Use password = '{SECRET}'"),
        assistant(read, message_id="m1", message=usage),
        result("toolu_1", "x" * 700),
        assistant(text("Done."), message_id="m2", message=usage),
    )
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    return store


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from walk(child)


def test_the_levels_are_project_session_turn_tool_and_file(written: Store) -> None:
    node = carrying_tree(written, least=0)
    keys: list[str] = []
    while node["children"]:
        node = next((c for c in node["children"] if c["name"] != SYSTEM), node["children"][0])
        keys.append(node["key"])
    assert keys == ["/home/ada/shop", SESSION, "1", "Read", "/home/ada/shop/cart.py"]


SYSTEM = "system prompt and tool definitions"


def test_the_value_of_a_node_is_the_sum_of_its_children(written: Store) -> None:
    whole = carrying_tree(written, least=0)
    assert whole["value"] == pytest.approx(2 * (1000 * 5 + 100 * 25) / 1e6)
    for node in walk(whole):
        assert list(node) == ["name", "key", "value", "children"]
        if node["children"]:
            values = [child["value"] for child in node["children"]]
            assert sum(values) <= node["value"] + 1e-12
            assert values == sorted(values, reverse=True)


def test_small_nodes_are_merged(written: Store) -> None:
    merged = [node for node in walk(carrying_tree(written, least=0.5)) if "more" in node["name"]]
    assert merged
    assert carrying_tree(written, least=0.5)["value"] == carrying_tree(written, least=0)["value"]


def test_names_are_masked(written: Store) -> None:
    assert SECRET not in str(carrying_tree(written, least=0))
