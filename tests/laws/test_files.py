"""Laws of reading and writing, for all session files and for every damage to one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from data.files import CLIENT_FILES
from support.strategies import EXAMPLES, damaged_files, sound_files
from turnlog.format.decode import decode_line, values_of
from turnlog.format.entries import Unknown
from turnlog.format.jsonl import Line, append_lines, read_lines, read_lines_backwards, replace_file
from turnlog.format.kinds import kind_of
from turnlog.format.schema import schema_of_kinds
from turnlog.format.survey import is_known_kind, survey_file
from turnlog.format.timestamps import parse_timestamp

VALIDATOR: Validator = Draft202012Validator(schema_of_kinds())
SPACE = b" \t\r\n"


def check_reading_and_writing(path: Path, scratch: Path) -> None:
    """Read and written again, forwards or backwards, a file is the same."""
    content = path.read_bytes()
    lines = list(read_lines(path))
    assert b"".join(line.raw for line in lines) == content
    back = list(read_lines_backwards(path))[::-1]
    assert [placed(line) for line in back] == [placed(line) for line in lines]
    copy = scratch.with_name("copy.jsonl")
    copy.touch()
    replace_file(copy, (line.raw for line in back))
    assert copy.read_bytes() == content


def check_prefix_and_suffix(path: Path) -> None:
    """A file cut at any line start is its two parts."""
    content = path.read_bytes()
    lines = list(read_lines(path))
    # Of a long file, which would take quadratic time, only some starts are tried.
    for line in lines[:: 1 + len(lines) // 50]:
        rest = list(read_lines(path, line.offset))
        assert content[: line.offset] + b"".join(each.raw for each in rest) == content
        assert [placed(each) for each in rest] == [
            placed(each) for each in lines[line.number - 1 :]
        ]


def check_decoding(path: Path) -> None:
    """Check that a line without problems is blank or one entry, whose properties can be read."""
    for line in read_lines(path):
        decoded = decode_line(line)
        if not decoded.problems:
            assert len(decoded.entries) == (1 if line.raw.strip(SPACE) else 0)
        for entry in decoded.entries:
            assert kind_of(entry)
            parse_timestamp(entry.when)


def is_valid_if_known(line: Line) -> bool:
    """Return whether a line validates, if it has an entry of a known kind that fits its type."""
    decoded = decode_line(line)
    if decoded.problems or decoded.misfits or not decoded.entries:
        return True
    value: Any = values_of(line)[0] if values_of(line) else None
    return isinstance(decoded.entries[0], Unknown) or value is None or VALIDATOR.is_valid(value)


def placed(line: Line) -> tuple[bytes, int]:
    """A line and where it is; its number is known only when reading starts at the start."""
    return line.raw, line.offset


def test_read_and_written_again_a_file_is_the_same(session_file: Path, scratch: Path) -> None:
    check_reading_and_writing(session_file, scratch)


def test_a_prefix_and_its_suffix_are_the_whole_file(session_file: Path) -> None:
    check_prefix_and_suffix(session_file)


def test_every_line_is_decoded(session_file: Path) -> None:
    check_decoding(session_file)


def test_every_line_of_a_known_kind_validates(session_file: Path) -> None:
    invalid = [line.number for line in read_lines(session_file) if not is_valid_if_known(line)]
    assert invalid == []


def test_every_file_can_be_surveyed(session_file: Path) -> None:
    assert survey_file(session_file).bytes == session_file.stat().st_size


@pytest.mark.parametrize("path", CLIENT_FILES, ids=lambda path: path.stem)
def test_everything_that_a_client_wrote_is_known(path: Path) -> None:
    found = survey_file(path)
    assert [kind for kind in found.kinds if not is_known_kind(kind)] == []
    assert [name for name, is_known in found.count_fields() if not is_known] == []
    assert (found.problems, found.misfits) == ([], {})


@settings(max_examples=EXAMPLES)
@given(damaged_files())
def test_a_damaged_file_is_read_and_written_like_any_other(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    check_reading_and_writing(scratch, scratch)
    check_prefix_and_suffix(scratch)
    check_decoding(scratch)


@given(damaged_files())
def test_what_is_appended_to_a_damaged_file_is_a_line_of_its_own(
    scratch: Path, content: bytes
) -> None:
    scratch.write_bytes(content)
    append_lines(scratch, [b'{"type":"mode"}'])
    *before, last = read_lines(scratch)
    assert last.raw == b'{"type":"mode"}\n'
    assert b"".join(line.raw for line in before) in (content, content + b"\n")
    assert all(line.is_whole for line in before)


@given(sound_files)
def test_a_sound_file_has_an_entry_for_each_line(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    for line in read_lines(scratch):
        decoded = decode_line(line)
        assert (len(decoded.entries), decoded.problems, decoded.misfits) == (1, (), ())
        assert is_valid_if_known(line)
