"""Write and Edit: which files may be changed, and that the rest of a file stays the same."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.tool_calls import Calls
from turnlog.agent.tools.files import changes
from turnlog.agent.tools.files.patch import NO_END, patch_of


def test_a_new_file_is_made_with_the_directories_above_it(calls: Calls) -> None:
    outcome = calls.run("Write", file_path="a/b/c.txt", content="hi\n")
    path = calls.root / "a/b/c.txt"
    assert path.read_text() == "hi\n"
    assert outcome.data == {
        "type": "create",
        "filePath": str(path),
        "content": "hi\n",
        "structuredPatch": [],
        "originalFile": None,
        "userModified": False,
    }


def test_a_new_file_has_the_mode_that_the_mask_gives(calls: Calls) -> None:
    mask = os.umask(0o027)
    try:
        calls.run("Write", file_path="a.txt", content="")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((calls.root / "a.txt").stat().st_mode) == 0o640


def test_a_file_that_was_not_read_is_not_overwritten(calls: Calls) -> None:
    path = calls.file("a.txt", "kept")
    assert "not been read" in calls.refusal("Write", file_path="a.txt", content="x")
    change = {"file_path": "a.txt", "old_string": "kept", "new_string": "x"}
    assert "not been read" in calls.refusal("Edit", **change)
    assert path.read_text() == "kept"


def test_a_file_that_was_read_is_replaced_and_its_changes_told(calls: Calls) -> None:
    calls.file("a.txt", "a\nb\nc\n")
    calls.run("Read", file_path="a.txt")
    outcome = calls.run("Write", file_path="a.txt", content="a\nB\nc\n")
    assert outcome.data["type"] == "update"
    assert outcome.data["originalFile"] == "a\nb\nc\n"
    assert outcome.data["structuredPatch"] == [
        {
            "oldStart": 1,
            "oldLines": 3,
            "newStart": 1,
            "newLines": 3,
            "lines": [" a", "-b", "+B", " c"],
        }
    ]


def test_the_model_learns_whether_a_file_is_new(calls: Calls) -> None:
    path = str(calls.root / "a.txt")
    assert calls.text("Write", file_path=path, content="a").endswith("has been created.")
    assert calls.text("Write", file_path=path, content="b").endswith("has been updated.")


def test_what_was_written_may_be_changed_without_reading_it(calls: Calls) -> None:
    calls.run("Write", file_path="a.txt", content="one two")
    calls.run("Edit", file_path="a.txt", old_string="two", new_string="2")
    calls.run("Edit", file_path="a.txt", old_string="one", new_string="1")
    assert (calls.root / "a.txt").read_text() == "1 2"


def test_a_file_that_changed_since_it_was_read_is_not_changed(calls: Calls) -> None:
    path = calls.file("a.txt", "one")
    calls.run("Read", file_path="a.txt")
    path.write_text("eins")
    change = {"file_path": "a.txt", "old_string": "eins", "new_string": "x"}
    assert "changed since" in calls.refusal("Edit", **change)
    assert "changed since" in calls.refusal("Write", file_path="a.txt", content="x")
    assert path.read_text() == "eins"


def test_a_change_of_the_first_letter_alone_is_seen(calls: Calls) -> None:
    path = calls.file("a.txt", "one")
    calls.run("Read", file_path="a.txt")
    path.write_text("One")
    os.utime(path, ns=(1, 1))
    change = {"file_path": "a.txt", "old_string": "ne", "new_string": "x"}
    assert "changed since" in calls.refusal("Edit", **change)


def test_a_change_that_keeps_size_and_time_is_seen_if_the_file_is_another(calls: Calls) -> None:
    path = calls.file("a.txt", "one")
    calls.run("Read", file_path="a.txt")
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    other = calls.file("b.txt", "two")
    other.rename(path)
    os.utime(path, ns=times)
    change = {"file_path": "a.txt", "old_string": "two", "new_string": "x"}
    assert "changed since" in calls.refusal("Edit", **change)


def test_a_file_that_was_only_touched_is_still_known(calls: Calls) -> None:
    path = calls.file("a.txt", "one")
    calls.run("Read", file_path="a.txt")
    os.utime(path, ns=(1, 1))
    calls.run("Edit", file_path="a.txt", old_string="one", new_string="two")
    assert path.read_text() == "two"


def test_a_piece_must_be_there_once(calls: Calls) -> None:
    path = calls.file("a.txt", "x y x")
    calls.run("Read", file_path="a.txt")
    missing = {"file_path": "a.txt", "old_string": "z", "new_string": "a"}
    twice = {"file_path": "a.txt", "old_string": "x", "new_string": "a"}
    same = {"file_path": "a.txt", "old_string": "y", "new_string": "y"}
    assert "not found" in calls.refusal("Edit", **missing)
    assert "2 times" in calls.refusal("Edit", **twice)
    assert "the same" in calls.refusal("Edit", **same)
    assert path.read_text() == "x y x"
    assert "in 2 places" in calls.text("Edit", **twice, replace_all=True)
    assert path.read_text() == "a y a"


def test_an_edit_tells_its_hunks(calls: Calls) -> None:
    calls.file("a.txt", "".join(f"{n}\n" for n in range(1, 31)))
    calls.run("Read", file_path="a.txt")
    outcome = calls.run("Edit", file_path="a.txt", old_string="10\n", new_string="ten\n10.5\n")
    [hunk] = outcome.data["structuredPatch"]
    assert hunk["lines"] == [" 7", " 8", " 9", "-10", "+ten", "+10.5", " 11", " 12", " 13"]
    starts = [hunk[name] for name in ("oldStart", "oldLines", "newStart", "newLines")]
    assert starts == [7, 7, 7, 8]


@pytest.mark.parametrize(
    ("raw", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nBB\r\nc\r\n"),
        (b"a\nb\nc\r\n", b"a\nB\nBB\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\nc", b"\xef\xbb\xbfa\nB\nBB\nc"),
        (b"\xe4\nb\nc", b"\xe4\nB\nBB\nc"),
        (
            b"\xff\xfe" + "a\nb\nc".encode("utf-16-le"),
            b"\xff\xfe" + "a\nB\nBB\nc".encode("utf-16-le"),
        ),
        (
            b"\xfe\xff" + "a\nb\nc".encode("utf-16-be"),
            b"\xfe\xff" + "a\nB\nBB\nc".encode("utf-16-be"),
        ),
    ],
)
def test_an_edit_keeps_line_ends_encoding_and_mark(calls: Calls, raw: bytes, after: bytes) -> None:
    path = calls.file("a.txt", raw)
    calls.run("Read", file_path="a.txt")
    calls.run("Edit", file_path="a.txt", old_string="\nb\n", new_string="\nB\nBB\n")
    assert path.read_bytes() == after


def test_lines_that_end_in_two_ways_can_be_matched(calls: Calls) -> None:
    path = calls.file("a.txt", b"a\r\nb\r\nc\nd\n")
    calls.run("Read", file_path="a.txt")
    calls.run("Edit", file_path="a.txt", old_string="a\nb", new_string="A\nB")
    assert path.read_bytes() == b"A\r\nB\r\nc\nd\n"


def test_writing_keeps_line_ends_and_mark(calls: Calls) -> None:
    path = calls.file("a.txt", b"\xef\xbb\xbfa\r\nb\r\n")
    calls.run("Read", file_path="a.txt")
    calls.run("Write", file_path="a.txt", content="x\ny\n")
    assert path.read_bytes() == b"\xef\xbb\xbfx\r\ny\r\n"


def test_a_text_that_the_files_encoding_has_no_room_for_is_refused(calls: Calls) -> None:
    path = calls.file("a.txt", b"caf\xe9")
    calls.run("Read", file_path="a.txt")
    change = {"file_path": "a.txt", "old_string": "caf", "new_string": "☕"}
    assert "latin-1" in calls.refusal("Edit", **change)
    assert path.read_bytes() == b"caf\xe9"


def test_the_mode_stays_and_a_link_stays_a_link(calls: Calls) -> None:
    path = calls.file("run.sh", "one")
    path.chmod(0o750)
    link = calls.root / "link.sh"
    link.symlink_to("run.sh")
    calls.run("Read", file_path="link.sh")
    calls.run("Edit", file_path="link.sh", old_string="one", new_string="two")
    assert link.is_symlink()
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert sorted(os.listdir(calls.root)) == ["link.sh", "run.sh"]


def test_a_file_is_told_before_it_changes(calls: Calls) -> None:
    before: list[tuple[str, str | None]] = []

    def told(path: Path) -> None:
        before.append((path.name, path.read_text() if path.exists() else None))

    calls.workspace.before_change = told
    calls.run("Write", file_path="a.txt", content="one")
    calls.run("Edit", file_path="a.txt", old_string="one", new_string="two")
    assert before == [("a.txt", None), ("a.txt", "one")]


def test_an_empty_piece_makes_a_new_file_and_only_that(calls: Calls) -> None:
    calls.run("Edit", file_path="new.txt", old_string="", new_string="hi")
    assert (calls.root / "new.txt").read_text() == "hi"
    change = {"file_path": "new.txt", "old_string": "", "new_string": "x"}
    assert "old_string is empty" in calls.refusal("Edit", **change)


def test_a_directory_cannot_be_written(calls: Calls) -> None:
    assert "is a directory" in calls.refusal("Write", file_path=".", content="")


def test_a_path_from_home_is_followed(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(calls.root))
    calls.run("Write", file_path="~/at-home.txt", content="x")
    assert (calls.root / "at-home.txt").read_text() == "x"


def test_a_file_too_large_to_be_changed_is_refused(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LARGEST", 10)
    calls.file("a.txt", "x" * 11)
    calls.run("Read", file_path="a.txt")
    change = {"file_path": "a.txt", "old_string": "x", "new_string": "y", "replace_all": True}
    assert "larger than" in calls.refusal("Edit", **change)


def test_the_text_of_a_large_file_is_not_kept_with_its_change(calls: Calls) -> None:
    calls.file("a.txt", "x\n" * 200_000 + "end\n")
    calls.run("Read", file_path="a.txt")
    outcome = calls.run("Edit", file_path="a.txt", old_string="end", new_string="END")
    assert outcome.data["originalFile"] is None
    assert outcome.data["structuredPatch"][0]["lines"] == [" x", " x", " x", "-end", "+END"]


texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"])).map("".join)


@example("c\na\nb\n\n", "b\na\n\n", "", "")
@given(texts, texts, st.sampled_from(["", "end"]), st.sampled_from(["", "end"]))
def test_hunks_lead_from_one_text_to_the_other(old: str, new: str, tail: str, other: str) -> None:
    before, after = old + tail, new + other
    assert patched(before, patch_of(before, after)) == after


def patched(text: str, hunks: list[dict[str, Any]]) -> str:
    """A text with hunks applied to it, each where it says."""
    lines = text.splitlines(keepends=True)
    result: list[str] = []
    place = 0
    for hunk in hunks:
        start = hunk["oldStart"] - 1 if hunk["oldLines"] else hunk["oldStart"]
        result += lines[place:start]
        assert len(result) == (hunk["newStart"] - 1 if hunk["newLines"] else hunk["newStart"])
        place = start + hunk["oldLines"]
        for line, following in zip(hunk["lines"], [*hunk["lines"][1:], ""], strict=True):
            if line[0] in " +":
                result.append(line[1:] + ("" if following == NO_END else "\n"))
    return "".join([*result, *lines[place:]])


def test_distant_changes_are_hunks_of_their_own() -> None:
    same = "x\n" * 20
    first, second = patch_of(f"a\n{same}b\n", f"A\n{same}B\n")
    assert first["lines"] == ["-a", "+A", " x", " x", " x"]
    assert second["lines"] == [" x", " x", " x", "-b", "+B"]
