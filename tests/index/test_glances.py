"""The fast path for figures yields what decoding whole lines does."""

import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from support.build import encode, line, system, user
from support.session_strategies import Files, damaged_sessions, sessions
from support.strategies import EXAMPLES, damaged_files, damaged_lines, files_of, sound_lines
from turnlog.index.ingest.fact_reader import read_facts
from turnlog.index.ingest.facts import Carry, FileFacts
from turnlog.index.ingest.partial_decode import Glance, glance


def facts_of(content: bytes, *, fast: bool) -> FileFacts:
    look = glance if fast else _look_at_nothing
    return read_facts("name", BytesIO(content), Carry(), "5e551011", 1 << 40, look)


def _look_at_nothing(raw: bytes) -> Glance | None:
    return None


def has_rejected_number(content: bytes) -> bool:
    """Whether Python rejects a number for its length, which a glance may skip."""
    return any(len(each) > sys.get_int_max_str_digits() for each in re.findall(rb"\d+", content))


def assert_same(content: bytes) -> None:
    assert facts_of(content, fast=True) == facts_of(content, fast=False)


def test_every_file_has_the_same_figures_both_ways(session_file: Path) -> None:
    assert_same(session_file.read_bytes())


@settings(max_examples=EXAMPLES, deadline=None)
@given(sessions() | damaged_sessions(wildly=True))
def test_every_session_has_the_same_figures_both_ways(files: Files) -> None:
    assume(not has_rejected_number(files.content))
    assert_same(files.content)


@settings(max_examples=EXAMPLES, deadline=None)
@given(damaged_files() | files_of(sound_lines | damaged_lines))
def test_every_line_has_the_same_figures_both_ways(content: bytes) -> None:
    assume(not has_rejected_number(content))
    assert_same(content)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.sampled_from([b"assistant", b"user", b"progress", b"system"]),
    st.binary(max_size=6) | st.sampled_from([rb"\x", rb"\ud800", b"\0", b"\x01", b"\xff", b"\\"]),
)
def test_whatever_a_skipped_text_holds_the_figures_are_the_same(kind: bytes, odd: bytes) -> None:
    content = b'[{"type":"tool_result","tool_use_id":"t","content":"%b"}]' % odd
    line = (
        b'{"type":"%b","timestamp":"2026-11-15T06:00:00.000Z","extra":"%b","message":'
        b'{"id":"m","usage":{"output_tokens":5},"content":%b}}\n'
    )
    assert_same(line % (kind, odd, content))


def test_a_line_without_a_time_has_that_of_its_message() -> None:
    message: dict[str, Any] = {"id": "m", "content": [], "timestamp": "2026-11-15T06:00:00Z"}
    content = encode({"type": "assistant", "message": message})
    assert facts_of(content, fast=True).started
    assert_same(content)


def test_only_the_length_of_a_turn_is_working_time() -> None:
    others = system("hook_duration", durationMs=200) + line("turn_duration", durationMs=400)
    content = user("hi") + system("turn_duration", durationMs=3000) + others
    assert [prompt.working for prompt in facts_of(content, fast=True).prompts] == [3]
    assert_same(content)
