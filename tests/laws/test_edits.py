"""Laws of editing, for generated sessions of every shape and for all session files."""

import json
import re
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.build import Fields
from support.session_strategies import MENTIONED, Files, damaged_sessions, sessions
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session, open_session
from turnlog.edit.apply import replace_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.clone import plan_clone
from turnlog.edit.journal import Journal
from turnlog.edit.plan import Plan, carry_out
from turnlog.edit.plan_builder import REPAIR, TRANSFORMS, EditOptions, build_plan, prepared
from turnlog.edit.transforms import PREVIEW, TransformOptions
from turnlog.errors import Unresumable
from turnlog.format.decode import values_of
from turnlog.format.json_values import is_array, is_object
from turnlog.format.jsonl import Line, read_lines
from turnlog.store.paths import Store

NAMES = sorted({*TRANSFORMS, REPAIR})
THINKING = ("thinking", "redacted_thinking")
FILLERS = (
    "",
    "No response requested.",
    "(no content)",
    "[Tool use interrupted]",
    "Tool loaded.",
    "[Orphaned tool result removed due to conversation resume]",
)
"""Placeholders of the client for missing content."""

Told = list[tuple[str, Fields]]
"""Blocks that are sent, each with the role of its message."""

choices = st.builds(TransformOptions, st.integers(0, 2), st.sampled_from([2000, 300, 10]))


def wishes(names: list[str]) -> st.SearchStrategy[EditOptions]:
    return st.builds(EditOptions, st.lists(st.sampled_from(names), unique=True), choices)


likely_sessions = sessions() | damaged_sessions()
all_sessions = sessions() | damaged_sessions() | damaged_sessions(wildly=True)


@contextmanager
def opened(files: Files) -> Generator[Session]:
    """Open a session in a store of its own, for the duration of a block."""
    with TemporaryDirectory() as home:
        yield open_session(files.write(Path(home, "projects", "-home-ada-shop")))


def carried(session: Session, wanted: EditOptions) -> bytes:
    with prepared(session, wanted) as ready:
        return b"".join(carry_out(ready.plan, ready.tally))


def edited(session: Session, wanted: EditOptions) -> Session:
    """The session as it would be, in a folder of its own."""
    after = session.path.parent.parent / "after" / session.path.name
    content = carried(session, wanted)
    after.parent.mkdir(exist_ok=True)
    after.write_bytes(content)
    return open_session(after)


# What must not come about


def half_pairs(session: Session) -> Counter[str]:
    """Calls without results and results without calls."""
    calls = [call.id for call in session.calls if call.result is None]
    return Counter([*calls, *(orphan.call_id for orphan in session.orphans)])


def serious(session: Session) -> set[str]:
    return {finding.kind for finding in check_session(session) if finding.is_serious}


def check_pairs(before: Session, wanted: EditOptions) -> None:
    """No call loses its result alone, and no result its call."""
    assert not half_pairs(edited(before, wanted)) - half_pairs(before)


def check_findings(before: Session, wanted: EditOptions) -> None:
    """A result has no fault that keeps it from being resumed whole, if its source has none."""
    is_talk = any(block["type"] in ("text", "image") for _, block in told(before))
    known = serious(before) | (set[str]() if is_talk else {"no-conversation"})
    assert not serious(edited(before, wanted)) - known


def check_twice(before: Session, wanted: EditOptions) -> None:
    """Applied again, a change changes no byte."""
    once = edited(before, wanted)
    assert carried(once, wanted) == once.path.read_bytes()


def check_undo(before: Session, wanted: EditOptions) -> None:
    """Undone, or refused, a change leaves every byte as it was."""
    content, journal = before.path.read_bytes(), Journal(before.path.parents[2] / "journal")
    with prepared(before, wanted) as ready:
        lines = carry_out(ready.plan, ready.tally)
        try:
            record = replace_session(journal, "edit", before, lines)
        except Unresumable:
            record = None
    if record:
        assert before.path.read_bytes() != content
        journal.undo()
    assert before.path.read_bytes() == content


# What must stay


def told(session: Session) -> Told:
    """Return the messages for the model, without the client's fillers."""
    blocks = [(m["role"], dict(b)) for m in session.context() for b in m["content"]]
    for _, block in blocks:
        if block["type"] == "text":
            block["text"] = block["text"].strip()
    return [(role, each) for role, each in blocks if each.get("text") not in FILLERS]


def without(*types: str) -> Callable[[Told], Told]:
    return lambda blocks: [(role, each) for role, each in blocks if each["type"] not in types]


def with_words_for_images(blocks: Told) -> Told:
    return [(role, _with_words(each)) for role, each in blocks]


def _with_words(value: Any) -> Any:
    if is_array(value):
        return [_with_words(each) for each in value]
    if is_object(value) and value.get("type") == "image":
        return {"type": "text", "text": "[image removed]"}
    if is_object(value):
        return {key: _with_words(each) for key, each in value.items()}
    return value


def with_heads_of_results(blocks: Told) -> Told:
    """Of texts in results only the start, whether they were shortened or not."""
    return [
        (role, each | {"content": _head(each.get("content"))})
        if each["type"] == "tool_result"
        else (role, each)
        for role, each in blocks
    ]


def _head(value: Any) -> Any:
    if is_array(value):
        return [_head(each) for each in value]
    if is_object(value) and "text" in value:
        return value | {"text": _head(value["text"])}
    return value[:PREVIEW] if isinstance(value, str) else value


PROMISES: dict[str, Callable[[Told], Told]] = {
    "strip_tools": without("tool_use", "tool_result", *THINKING),
    "strip_thinking": without(*THINKING),
    "strip_images": with_words_for_images,
    "stub_results": with_heads_of_results,
    "strip_progress": list,
    "straighten": list,
}
"""The messages that each transform leaves unchanged."""


def check_promise(before: Session, wanted: EditOptions) -> None:
    """Check that only what was to be stripped is missing from the messages of the source."""
    one, other = told(before), told(edited(before, wanted))
    for name, kept in PROMISES.items():
        if name in wanted.transforms:
            one, other = kept(one), kept(other)
    assert other == one


def check_bytes(before: Session, wanted: EditOptions) -> None:
    """Lines that a plan does not name keep their bytes, and so do those that it does not change."""
    plan = build_plan(before, wanted)
    plan.ids.clear()  # what names another entry is changed wherever it stands
    lines = {line.number: line.raw for line in read_lines(before.path)}
    named = {node.line for node in before.nodes if node.index in plan.touched}
    after = list(carry_out(plan))
    left = iter(after)
    for number, raw in lines.items():
        if number not in named:
            assert any(line.strip() == raw.strip() for line in left), f"line {number}"
    known = {raw.strip() for raw in lines.values()}
    values = [_values(lines[number]) for number in named]
    assert not [line for line in after if line.strip() not in known and _values(line) in values]


def _values(raw: bytes) -> list[Any]:
    return values_of(Line(raw, 0, 0))


def ends_with_orphan(session: Session) -> bool:
    """Return whether the tip is a result without a call; removing it uncovers what it hid."""
    leaf = session.tree.active_leaf
    tip = session.tree.chain[leaf] if leaf is not None else None
    return any(orphan.result is tip for orphan in session.orphans)


# Clones


def check_clone(before: Session, wanted: EditOptions) -> None:
    """A clone is the edited session, and its sub-agents, under other names."""
    store, numbers = Store(before.path.parents[2]), count()
    with prepared(before, wanted) as ready:
        made = plan_clone(store, before, ready.plan, None, lambda: _name(next(numbers)))
        for path, content in made.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(content))
    clone = open_session(made.path)
    check_same_shape(edited(before, wanted), clone)
    agents = opened_agents(before)
    if not wanted.transforms:
        for one, other in zip(agents, opened_agents(clone), strict=True):
            check_same_shape(one, other)
    old = names_of(before).union(*map(names_of, agents))
    assert not names_of(clone) & old
    old = {name for name in old if re.fullmatch(r"[0-9a-f-]{36}", name)}
    for path in made.files:
        # The origin of the first entry, and of messages that nothing else identifies.
        held = re.sub(rb'"messageUuid":"[^"]+"', b"", path.read_bytes())
        assert not [name for name in old if f'"{name}"'.encode() in held]


def _name(number: int) -> str:
    return str(uuid5(NAMESPACE_OID, str(number)))


def names_of(session: Session) -> set[str]:
    """The uuids in a file."""
    return {node.uuid for node in session.nodes if isinstance(node, ChainNode) and node.uuid}


def opened_agents(session: Session) -> list[Session]:
    """Its sub-agents, in an order that does not depend on their names."""
    found = sorted(session.subagents, key=lambda agent: str(agent.call_id))
    return [session.open_subagent(agent) for agent in found]


def check_same_shape(one: Session, other: Session) -> None:
    assert [node.kind for node in other.nodes] == [node.kind for node in one.nodes]
    assert other.tree.parents == one.tree.parents
    assert other.tree.active_leaf == one.tree.active_leaf
    assert [call.id for call in other.calls] == [call.id for call in one.calls]
    assert len(other.turns) == len(one.turns)
    assert json.dumps(other.context()).replace(other.id, one.id) == json.dumps(one.context())


# Generated sessions


@given(all_sessions)
def test_an_empty_plan_changes_no_byte(files: Files) -> None:
    with opened(files) as before:
        assert b"".join(carry_out(Plan(before))) == files.content


@pytest.mark.parametrize("name", NAMES)
@given(files=all_sessions, choice=choices)
def test_a_transform_applied_again_changes_no_byte(
    name: str, files: Files, choice: TransformOptions
) -> None:
    # A tip that stands before its own ancestors may come to stand behind others when straightened.
    assume(name != "straighten" or not files.is_wild)
    with opened(files) as before:
        check_twice(before, EditOptions([name], choice))


@given(all_sessions, wishes(NAMES))
def test_no_half_pair_comes_about(files: Files, wanted: EditOptions) -> None:
    with opened(files) as before:
        check_pairs(before, wanted)


@given(all_sessions, wishes(NAMES))
def test_no_serious_finding_comes_about(files: Files, wanted: EditOptions) -> None:
    with opened(files) as before:
        check_findings(before, wanted)


@given(all_sessions, wishes(NAMES))
def test_an_edit_undone_leaves_no_trace(files: Files, wanted: EditOptions) -> None:
    with opened(files) as before:
        check_undo(before, wanted)


@given(all_sessions, wishes(sorted(TRANSFORMS)))
def test_lines_that_an_edit_does_not_concern_keep_their_bytes(
    files: Files, wanted: EditOptions
) -> None:
    with opened(files) as before:
        check_bytes(before, wanted)


@given(likely_sessions, wishes(sorted(PROMISES)))
def test_what_is_not_to_be_stripped_stays(files: Files, wanted: EditOptions) -> None:
    # An image that was mentioned goes with the line before it, whichever that is after an accident.
    assume(MENTIONED not in files.content or not files.is_damaged)
    with opened(files) as before:
        assume(not ends_with_orphan(before))
        check_promise(before, wanted)


@given(all_sessions, wishes(NAMES))
def test_a_clone_is_the_edited_session_under_other_names(files: Files, wanted: EditOptions) -> None:
    with opened(files) as before:
        check_clone(before, wanted)


# Every session file there is

ALL: tuple[EditOptions, ...] = (
    *(EditOptions([name]) for name in NAMES),
    EditOptions(["strip_tools", "strip_thinking", "strip_progress"], TransformOptions(keep_last=1)),
    EditOptions(
        ["stub_results", "strip_images", "straighten"],
        TransformOptions(keep_last=1, larger_than=10),
    ),
    EditOptions(["repair", "compress"], TransformOptions(keep_last=1)),
)
LAWS: dict[Callable[[Session, EditOptions], None], set[str]] = {
    check_pairs: {*NAMES},
    check_findings: {*NAMES},
    check_twice: {*NAMES},
    check_undo: {*NAMES},
    check_bytes: {*TRANSFORMS},
    check_promise: {*PROMISES},
    check_clone: {*NAMES},
}
"""Each law, and the transforms that it holds for."""


@pytest.mark.parametrize("law", LAWS)
def test_every_session_file_keeps_the_law(
    session_file: Path, law: Callable[[Session, EditOptions], None]
) -> None:
    for wanted in ALL:
        if LAWS[law].issuperset(wanted.transforms):
            with opened(Files(session_file.read_bytes())) as before:
                law(before, wanted)
