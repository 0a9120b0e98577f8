"""A clone equals its source, under new ids."""

import json
from pathlib import Path

from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    line,
    nth,
    result,
    session,
    text,
    user,
)
from turnlog.conversation.session import Session, open_session
from turnlog.edit.clone import Clone, plan_clone
from turnlog.edit.plan import Plan
from turnlog.store.paths import Store

AGENT = "a0123456789abcdef"


def cloned(store: Store, content: bytes) -> tuple[Session, Session, Clone]:
    path = store.projects / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    source = open_session(path)
    clone = plan_clone(store, source, Plan(source))
    for each, lines in clone.files.items():
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(b"".join(lines))
    return source, open_session(clone.path), clone


CONTENT = session(
    user("first"),
    assistant(call("Agent", {"prompt": "look"}, "T"), message_id="m1"),
    result("T", "done", tool_use_result={"agentId": AGENT}),
    assistant(text("fine"), message_id="m2"),
    line("sparkle", about=nth(2), nested={"deep": [nth(4)]}),
    line("last-prompt", last_prompt="first", leaf_uuid=nth(4)),
)


def test_a_clone_says_the_same_under_new_ids(tmp_path: Path) -> None:
    source, clone, made = cloned(Store(tmp_path), CONTENT)
    assert clone.id == made.id != source.id
    assert clone.context() == source.context()
    assert not {node.uuid for node in source.tree.chain} & {node.uuid for node in clone.tree.chain}
    assert clone.tree.parents == source.tree.parents


def test_every_reference_is_remapped_in_unknown_entries_too(tmp_path: Path) -> None:
    _, clone, _ = cloned(Store(tmp_path), CONTENT)
    uuids = [node.uuid for node in clone.tree.chain]
    sparkle, note = (json.loads(raw) for raw in clone.path.read_bytes().splitlines()[-2:])
    assert (sparkle["about"], sparkle["nested"]["deep"]) == (uuids[1], [uuids[3]])
    assert note["leafUuid"] == uuids[3]
    assert sparkle["sessionId"] == clone.id


def test_sub_agents_large_outputs_and_backups_come_along(tmp_path: Path) -> None:
    store = Store(tmp_path)
    sidecar = store.projects / "-home-ada-shop" / SESSION
    (sidecar / "subagents").mkdir(parents=True)
    (sidecar / "subagents" / f"agent-{AGENT}.jsonl").write_bytes(session(user("look")))
    (sidecar / "subagents" / f"agent-{AGENT}.meta.json").write_bytes(b'{"agentType":"x"}')
    (sidecar / "tool-results").mkdir()
    (sidecar / "tool-results" / "b.txt").write_bytes(b"whole output")
    (store.file_history / SESSION).mkdir(parents=True)
    (store.file_history / SESSION / "0123@v1").write_bytes(b"backup")
    _, clone, made = cloned(store, CONTENT)
    (agent,) = clone.subagents
    (told,) = map(json.loads, agent.path.read_bytes().splitlines())
    assert (agent.id, agent.description, told["sessionId"]) == (AGENT, "x", made.id)
    assert told["message"]["content"] == "look"
    assert (clone.path.with_suffix("") / "tool-results" / "b.txt").read_bytes() == b"whole output"
    assert (store.file_history / made.id / "0123@v1").read_bytes() == b"backup"


def test_a_clone_knows_its_origin(tmp_path: Path) -> None:
    source, clone, _ = cloned(Store(tmp_path), CONTENT)
    assert clone.links.previous == source.id
    assert source.links.next == [clone.id]


def test_paths_of_itself_in_texts_are_those_of_the_clone(tmp_path: Path) -> None:
    told = f"read the full transcript at: /x/{SESSION}.jsonl"
    _, clone, made = cloned(Store(tmp_path), session(user("q"), *compaction(told)))
    assert made.id.encode() in clone.path.read_bytes()
    origins = clone.path.read_bytes().count(f'"forkedFrom":{{"sessionId":"{SESSION}"'.encode())
    assert clone.path.read_bytes().count(SESSION.encode()) == origins, "only as the origin"


def test_sub_agents_have_new_uuids_wherever_they_lie(tmp_path: Path) -> None:
    store = Store(tmp_path)
    project = store.projects / "-home-ada-shop"
    beneath = project / SESSION / "subagents" / f"agent-{AGENT}.jsonl"
    beneath.parent.mkdir(parents=True)
    beneath.write_bytes(session(user("look", uuid="b1"), assistant(text("seen"), uuid="b2")))
    beside = project / "agent-fedcba00.jsonl"
    beside.write_bytes(session(user("look", uuid="c1"), agent_id="fedcba00"))
    beside.with_suffix(".meta.json").write_bytes(b'{"agentType":"Explore"}')
    _, clone, made = cloned(store, CONTENT)
    content = b"".join(path.read_bytes() for path in made.files)
    named = [f'"{name}"'.encode() for name in ("b1", "b2", "c1")]
    assert [content.count(name) for name in named] == [1, 0, 1], "only as the origin"
    (agent,) = [each for each in clone.subagents if each.id == AGENT]
    assert clone.open_subagent(agent).tree.parents == [-1, 0]
    assert b"fedcba00" not in content
    (meta,) = [path for path in made.files if path.suffix == ".json"]
    assert project / meta.name.replace(".meta.json", ".jsonl") in made.files
    assert meta.read_bytes() == b'{"agentType":"Explore"}'


def test_the_origin_is_noted_where_the_first_line_is_damaged_as_well(tmp_path: Path) -> None:
    source, clone, _ = cloned(Store(tmp_path), b"\xef\xbb\xbf" + CONTENT)
    assert clone.links.previous == source.id
    joined = CONTENT.replace(b"}\n", b"}", 1)
    _, clone, _ = cloned(Store(tmp_path / "other"), joined)
    assert clone.links.previous == source.id
