"""Laws of the conversation, for all session files and for every damage to one."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import assistant, result, session, user
from support.strategies import damaged_files, json_values, objects, sound_files
from turnlog.cli.output import to_json
from turnlog.conversation.call_titles import TITLES
from turnlog.conversation.nodes import AssistantNode
from turnlog.conversation.session import Session, open_session
from turnlog.format.blocks import ToolUseBlock
from turnlog.format.decode import read_entries
from turnlog.format.entries import Assistant
from turnlog.format.fields import given as held
from turnlog.render.costs import session_cost
from turnlog.render.json_views import turn_view
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import ViewOptions, rows_of
from turnlog.render.terminal_text import Terminal
from turnlog.render.tool_views import OUTCOMES
from turnlog.render.touched_files import touched_files
from turnlog.render.tree_drawing import draw_tree

COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
LONG = 200_000


def check_calls(whole: Session) -> None:
    """Each tool_use is in exactly one call; one that stands twice under one uuid is one."""
    uses: dict[tuple[str | int, str], None] = {}
    for rank, (_, entry) in enumerate(read_entries(whole.path)):
        blocks = entry.content if isinstance(entry, Assistant) else []
        for block in blocks:
            if isinstance(block, ToolUseBlock):
                uses[held(getattr(entry, "uuid", None)) or rank, held(block.id) or ""] = None
    assert Counter(call.id for call in whole.calls) == Counter(name for _, name in uses)
    answers = [
        id(call.result) for call in whole.calls if call.result and len(call.result.results) == 1
    ]
    assert len(answers) == len(set(answers))


def check_messages(whole: Session) -> None:
    """Each assistant line is in exactly one message, and no message has lines of two ids."""
    said = [node.index for node in whole.nodes if isinstance(node, AssistantNode)]
    assert sorted(node.index for one in whole.messages for node in one.nodes) == said
    assert all(len({node.message_id for node in one.nodes}) == 1 for one in whole.messages)


def recount(whole: Session) -> Counter[str]:
    """The tokens of a file, by another way: of each id the largest counts."""
    largest: dict[str, dict[str, int]] = {}
    last = ""
    for rank, (_, entry) in enumerate(read_entries(whole.path)):
        if not isinstance(entry, Assistant):
            last = ""
            continue
        name = held(entry.body.id) if entry.body else None
        last = "" if name else last or f"line {rank}"
        usage = held(entry.body.usage) if entry.body else None
        seen = largest.setdefault(name or last, dict.fromkeys(COUNTS, 0))
        for count in COUNTS:
            seen[count] = max(seen[count], held(getattr(usage, count, None)) or 0)
    return sum((Counter(each) for each in largest.values()), Counter[str]())


def check_usage(whole: Session) -> None:
    """Tokens are counted once for each message."""
    totals: Counter[str] = Counter()
    by_line: Counter[str] = Counter()
    for message in whole.messages:
        totals.update({name: getattr(message.usage, name) or 0 for name in COUNTS})
        for node in message.nodes:
            by_line.update({name: getattr(node.usage, name, 0) or 0 for name in COUNTS})
    assert +totals == recount(whole)
    assert totals <= by_line


def check_turns(whole: Session) -> None:
    """The turns of a branch hold each of its nodes once."""
    for leaf in [whole.tree.active_leaf, *whole.tree.leaves[:20]]:
        branch = [node.index for node in whole.branch_to(leaf)]
        turns = whole.turns_to(leaf)
        assert [node.index for turn in turns for node in turn.nodes] == branch
        assert len(set(branch)) == len(branch)
        assert [turn.n for turn in turns] == list(range(1, len(turns) + 1))
        assert all(turn.prompt is not None for turn in turns[1:])


def state_of(whole: Session) -> list[Any]:
    return [
        whole.nodes,
        whole.problems,
        whole.tree.parents,
        whole.tree.active_leaf,
        whole.messages,
        whole.calls,
        whole.orphans,
        whole.turns,
    ]


def check_appends(content: bytes, scratch: Path) -> None:
    """Check that a file reads the same after appends as when opened again, wherever it ended."""
    growing = scratch.with_name("growing.jsonl")
    growing.write_bytes(b"")
    whole = open_session(growing)
    for part in (1, 2, 3, 4):
        growing.write_bytes(content[: len(content) * part // 4])
        whole.refresh()
    assert state_of(whole) == state_of(open_session(growing))


def show_text(whole: Session, full: bool = False) -> Iterator[str]:
    rows = rows_of(whole, ViewOptions(full=full))
    return Terminal(lambda text, role: text, full).draw(rows)


def show_json(whole: Session) -> Iterator[str]:
    for turn in whole.turns:
        yield to_json(turn_view(whole, turn))


EXPORTS: dict[str, Callable[[Session], Any]] = {
    "text": lambda whole: "\n".join(show_text(whole)),
    "full": lambda whole: "\n".join(show_text(whole, full=True)),
    "md": lambda whole: "\n".join(to_markdown(rows_of(whole, ViewOptions()))),
    "json": lambda whole: "\n".join(show_json(whole)),
    "context": lambda whole: to_json(whole.context()),
    "history": lambda whole: to_json(whole.history()),
    "tree": lambda whole: "\n".join(draw_tree(whole)),
    "files": lambda whole: to_json(touched_files(whole)),
    "cost": lambda whole: to_json(session_cost(whole)),
    "links": lambda whole: to_json([whole.links.previous, whole.links.next]),
}


def check_exports(whole: Session) -> None:
    """Every export succeeds, and is text or JSON."""
    exported = {name: export(whole) for name, export in EXPORTS.items()}
    assert all(isinstance(each, str) for each in exported.values())
    assert all(one.startswith("{") for one in filter(None, exported["json"].split("\n")))
    msgspec.json.decode(exported["cost"])


@pytest.mark.parametrize("law", [check_calls, check_messages, check_usage, check_turns])
def test_every_session_keeps_the_law(session_file: Path, law: Callable[[Session], None]) -> None:
    law(open_session(session_file))


def test_read_on_after_an_append_a_session_is_as_if_opened_anew(
    session_file: Path, scratch: Path
) -> None:
    check_appends(session_file.read_bytes(), scratch)


def test_every_export_of_every_session_succeeds(session_file: Path) -> None:
    check_exports(open_session(session_file))


@given(damaged_files() | sound_files)
def test_so_it_is_with_files_of_any_kind(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    whole = open_session(scratch)
    check_calls(whole)
    check_messages(whole)
    check_usage(whole)
    check_turns(whole)
    check_exports(whole)


@given(sound_files)
def test_so_it_is_wherever_a_sound_file_is_torn(scratch: Path, content: bytes) -> None:
    check_appends(content, scratch)


names = st.sampled_from(sorted({*TITLES, *OUTCOMES, "NotebookEdit", "Odd"}))
fields = st.sampled_from(
    """file_path notebook_path path offset limit todos edits command pattern prompt description
    old_string new_string content structuredPatch file numLines numFiles totalTokens lines
    totalDurationMs durationMs agentId status interrupted backgroundTaskId type""".split()
)
tool_values = st.dictionaries(fields, json_values | st.lists(objects, max_size=2), max_size=4)


@given(names, tool_values | json_values, json_values, tool_values | json_values)
def test_so_it_is_whatever_a_tool_was_given_and_gave(
    scratch: Path, name: str, given: Any, content: Any, structured: Any
) -> None:
    asked = {"type": "tool_use", "id": "A", "name": name, "input": given}
    answered = result("A", content, tool_use_result=structured)
    scratch.write_bytes(session(user("q"), assistant(asked), answered))
    check_exports(open_session(scratch))


def test_a_very_long_chain_is_one_branch(scratch: Path) -> None:
    kinds = (b'user","message":{"content":"q"}', b'assistant","message":{"content":"a"}')
    chain = (
        b'{"uuid":"%d","parentUuid":"%d","type":"%b}\n' % (number, number - 1, kinds[number % 2])
        for number in range(1, LONG + 1)
    )
    scratch.write_bytes(b"".join(chain).replace(b'"parentUuid":"0"', b'"parentUuid":null', 1))
    whole = open_session(scratch)
    leaf = whole.tree.active_leaf
    assert leaf == LONG - 1
    assert len(whole.tree.path_to(leaf)) == LONG
    assert len(whole.branch_to(leaf)) == LONG
    assert len(whole.turns) == LONG // 2
