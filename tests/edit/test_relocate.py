"""Directories are replaced where the client records them, and nowhere else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.build import assistant, call, encode, line, result, session, text, user
from turnlog.edit.relocate import Relocation, history_relocator, line_relocator
from turnlog.format.json_values import is_object

MOVE = Relocation("/home/ada/shop", "/srv/new shop")
rewrite = line_relocator(MOVE)


def rewritten(**fields: Any) -> dict[str, Any]:
    return json.loads(rewrite(line("note", **fields)))


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("/home/ada/shop", "/srv/new shop"),
        ("/home/ada/shop/web", "/srv/new shop/web"),
        ("/home/ada/shopping", None),
        ("/home/ada", None),
        ("shop", None),
    ],
)
def test_a_directory_moves_with_the_one_it_is_in(directory: str, expected: str | None) -> None:
    assert MOVE.of(directory) == expected


def test_the_root_holds_only_itself() -> None:
    assert Relocation("/", "/new").of("/") == "/new"
    assert Relocation("/", "/new").of("/etc") is None
    assert Relocation("/old", "/").of("/old/x") == "/x"
    assert Relocation("/old", "/").of("/old") == "/"


def test_a_directory_of_windows_becomes_one_of_this_machine() -> None:
    move = Relocation("C:\\work\\shop", "/srv/shop")
    assert move.of("C:\\work\\shop\\web\\js") == "/srv/shop/web/js"
    assert move.of("C:\\work\\shopping") is None
    raw = line_relocator(move)(encode({"cwd": "C:\\work\\shop\\web"}))
    assert json.loads(raw) == {"cwd": "/srv/shop/web"}


def test_the_working_directory_of_an_entry_changes_and_no_other_byte() -> None:
    raw = b'{ "a" :1.0, "cwd" : "/home/ada/shop/web" ,"u":"\\u00e9"}\r\n'
    assert rewrite(raw) == raw.replace(b"/home/ada/shop", b"/srv/new shop")


def test_what_was_said_and_done_stays_as_it_was() -> None:
    told = {"cwd": "/home/ada/shop", "file_path": "/home/ada/shop/a.py"}
    raw = session(
        user("look at /home/ada/shop", cwd="/elsewhere"),
        assistant(call("Run", told), text('{"cwd":"/home/ada/shop"}'), cwd="/elsewhere"),
        result("toolu_1", "/home/ada/shop", tool_use_result=told, cwd="/elsewhere"),
        line("attachment", attachment={"type": "environment", "cwd": "/home/ada/shop"}),
    )
    lines = raw.splitlines(keepends=True)
    lines[-1] = encode(json.loads(lines[-1]) | {"cwd": "/elsewhere"})
    assert [rewrite(each) for each in lines] == lines


def test_only_the_outermost_of_two_directories_changes() -> None:
    entry = {"message": {"content": [{"input": {"cwd": "/home/ada/shop"}}]}, "cwd": MOVE.old}
    assert json.loads(rewrite(encode(entry))) == entry | {"cwd": MOVE.new}


def test_a_relocation_and_a_work_tree_move_along() -> None:
    assert rewritten(relocated_cwd="/home/ada/shop/x")["relocatedCwd"] == "/srv/new shop/x"
    state = {"originalCwd": "/home/ada/shop", "worktreePath": "/tmp/tree", "worktreeName": "w"}
    assert rewritten(worktree_session=state)["worktreeSession"] == state | {
        "originalCwd": "/srv/new shop"
    }
    assert rewritten(worktree_path="/home/ada/shop/w")["worktreePath"] == "/srv/new shop/w"


def test_copies_of_files_are_restored_to_the_new_place() -> None:
    backup = {"backupFileName": "0123@v1", "realParentDir": "/home/ada/shop/web"}
    moved = backup | {"realParentDir": "/srv/new shop/web"}
    delta = rewritten(tracking_path="/home/ada/shop/web/a.js", backup=backup)
    assert (delta["trackingPath"], delta["backup"]) == ("/srv/new shop/web/a.js", moved)
    tracked = {"web/a.js": backup, "/home/ada/shop/b.js": {"backupFileName": None}}
    snapshot = rewritten(snapshot={"trackedFileBackups": tracked})["snapshot"]
    assert snapshot["trackedFileBackups"] == {
        "web/a.js": moved,
        "/srv/new shop/b.js": {"backupFileName": None},
    }


def test_a_name_beyond_ascii_is_found_however_it_is_spelled() -> None:
    move = line_relocator(Relocation("/tmp/é", "/tmp/日本"))
    assert move(b'{"cwd":"/tmp/\\u00e9"}') == '{"cwd":"/tmp/日本"}'.encode()
    assert move('{"cwd":"/tmp/é/x"}'.encode()) == '{"cwd":"/tmp/日本/x"}'.encode()


def test_a_name_that_is_not_utf8_is_escaped() -> None:
    raw = line_relocator(Relocation("/old", "/new\udce9"))(b'{"cwd":"/old"}')
    assert json.loads(raw) == {"cwd": "/new\udce9"}


def test_damaged_lines_are_borne() -> None:
    two = b'{"cwd":"/home/ada/shop"}{"cwd":"/home/ada/shop"}\n'
    assert rewrite(two).count(b"/srv/new shop") == 2
    for torn in (
        b'{"cwd":"/home/ada/sh',
        b'{"x":"\\"cwd\\":\\"/home/ada/shop',
        b"}]\x00/home/ada/shop",
    ):
        assert rewrite(torn) == torn
    assert rewrite(b'{"cwd":"/home/ada/shop\\q"}') == b'{"cwd":"/home/ada/shop\\q"}'


def test_a_torn_line_of_many_quotes_is_read_once() -> None:
    torn = b'{"x":"/home/ada/shop' + b'\\"' * 200_000
    assert rewrite(torn) == torn


def test_history_names_the_project() -> None:
    move = history_relocator(MOVE)
    told = {"display": "/home/ada/shop", "project": "/home/ada/shop/web", "cwd": "/home/ada/shop"}
    assert json.loads(move(encode(told))) == told | {"project": "/srv/new shop/web"}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text() | st.just(MOVE.old),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["cwd", "a", MOVE.old]), inner),
)


@given(json_values, st.booleans())
def test_it_agrees_with_a_change_of_the_decoded_entry(value: Any, escaped: bool) -> None:
    raw = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    expected = value
    if is_object(value) and isinstance(value.get("cwd"), str):
        expected = value | {"cwd": MOVE.of(value["cwd"]) or value["cwd"]}
    got = rewrite(raw)
    assert json.loads(got.decode("utf-8", "surrogatepass")) == expected
