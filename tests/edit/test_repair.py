"""Repairs remove faults, and lose nothing else."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.build import (
    SESSION,
    Fields,
    assistant,
    call,
    compaction,
    line,
    moment,
    nth,
    result,
    session,
    text,
    thinking,
    user,
)
from support.faults import PLANTED, SOUND, sound
from turnlog.cli.root import run
from turnlog.conversation.session import Session, open_session
from turnlog.edit.apply import require_sound
from turnlog.edit.check.check_rules import CLONE, MOVE, RULES
from turnlog.edit.check.checks import check_session
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import EditOptions, Prepared, prepared
from turnlog.edit.repair.repairs import GROUPS
from turnlog.store.paths import Store

HOPELESS = ("no-conversation", "lost-output", "lost-subagent")
MENDED = {name: fault for name, fault in PLANTED.items() if fault.kind not in HOPELESS}
Result = tuple[bytes, Prepared]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def repair(place: Path) -> Callable[[bytes], Result]:
    def repair_content(content: bytes) -> Result:
        place.write_bytes(content)
        with prepared(open_session(place), EditOptions(["repair"])) as ready:
            mended = b"".join(carry_out(ready.plan, ready.tally))
        place.write_bytes(mended)
        return mended, ready

    return repair_content


def said(content: bytes, place: Path) -> list[Fields]:
    """Return the messages of a session; calls are named by their order."""
    place.write_bytes(content)
    told = json.dumps(open_session(place).context())
    names = dict.fromkeys(call.id for call in open_session(place).calls)
    for number, name in enumerate(names):
        told = told.replace(json.dumps(name), f'"call {number}"')
    return json.loads(told)


def opened(content: bytes, place: Path) -> Session:
    place.write_bytes(content)
    return open_session(place)


@pytest.mark.parametrize("name", MENDED)
def test_a_planted_fault_is_mended_and_nothing_is_lost(repair: Any, place: Path, name: str) -> None:
    fault = MENDED[name]
    mended, ready = repair(fault.content)
    assert fault.kind in {finding.kind for finding in ready.mended}
    assert check_session(open_session(place)) == ready.left == []
    assert said(mended, place) == said(fault.whole, place)


@pytest.mark.parametrize("name", MENDED)
def test_a_repair_of_what_is_repaired_changes_no_byte(repair: Any, name: str) -> None:
    once, _ = repair(MENDED[name].content)
    assert repair(once)[0] == once


def test_two_repairs_give_a_call_the_same_new_id(repair: Any) -> None:
    content = MENDED["a call's id twice"].content
    one, other = repair(content)[0], repair(content)[0]
    assert one == other


@pytest.mark.parametrize("name", SOUND)
def test_a_repair_of_a_sound_session_changes_no_byte(repair: Any, name: str) -> None:
    mended, ready = repair(SOUND[name])
    assert (mended, ready.mended, ready.left) == (SOUND[name], [], [])


@pytest.mark.parametrize("name", PLANTED.keys() - MENDED.keys())
def test_what_is_gone_cannot_be_brought_back(repair: Any, name: str) -> None:
    fault = PLANTED[name]
    mended, ready = repair(fault.content)
    assert (mended, ready.mended) == (fault.content, [])
    assert [(each.kind, each.fix) for each in ready.left] == [(fault.kind, None)]


def test_every_rule_that_a_repair_can_mend_has_one() -> None:
    names = [name for group in GROUPS for name in group]
    other = (None, CLONE, MOVE)
    assert sorted(names) == sorted(name for name, rule in RULES.items() if rule.fix not in other)


@pytest.mark.parametrize("name", ["a call in the middle", "a second root", "no time at the end"])
def test_lines_not_concerned_keep_their_bytes(repair: Any, name: str) -> None:
    content = MENDED[name].content.replace(b'"userType":', b'"userType" :')
    mended, ready = repair(content)
    changed = sum(amount.entries for amount in ready.tally.effect().rewritten.values())
    kept = set(mended.splitlines()) & set(content.splitlines())
    assert len(kept) == len(content.splitlines()) - changed


def test_what_one_fault_hides_is_mended_too(repair: Any, place: Path) -> None:
    lines = [
        user("one"),
        assistant(thinking("hm", ""), message_id="m"),
        assistant(call("Read", call_id="lost"), message_id="m"),
        user(""),
        assistant(text("first")),
        user("again", parent=None),
        assistant(text("second")),
    ]
    mended, ready = repair(session(*lines).replace(b"again", b"ag\x01in"))
    assert check_session(opened(mended, place)) == []
    assert [each["role"][0] for each in said(mended, place)] == ["u", "a", "u", "a", "u", "a"]
    assert {each.kind: each.line for each in ready.mended} == {
        "unreadable-line": 6,
        "second-root": None,
        "unsigned-thinking": None,
        "unanswered-call": None,
        "empty-text": None,
        "thinking-only": None,
    }


def test_a_conversation_goes_on_behind_its_compaction(repair: Any, place: Path) -> None:
    lines = [*sound(), *compaction("what was"), user("four"), assistant(text("fourth"))]
    mended, _ = repair(session(*lines, user("over", parent=None), assistant(text("anew"))))
    whole = session(*lines, user("over"), assistant(text("anew")))
    assert said(mended, place) == said(whole, place)


def test_a_stray_line_goes_behind_the_compaction_that_it_hides(repair: Any, place: Path) -> None:
    lines = [*sound(), *compaction("what was"), user("four"), assistant(text("fourth"))]
    stray = user("lone", parent=nth(2))
    mended, _ = repair(session(*lines, line("last-prompt", leafUuid=nth(2)), stray))
    assert said(mended, place) == said(session(*lines, user("lone")), place)


def test_what_a_compaction_preserved_stays_when_its_summary_is_torn(
    repair: Any, place: Path
) -> None:
    raws = SOUND["preserving"].splitlines(keepends=True)
    raws[11] = raws[11][:50] + b"\n"
    mended, _ = repair(b"".join(raws))
    told = [block["text"] for each in said(mended, place) for block in each["content"]]
    assert told == ["three", "third", "four", "fourth"]


def test_entries_with_one_uuid_follow_on_each_other(repair: Any, place: Path) -> None:
    lines = [
        user("one", uuid="u"),
        assistant(text("first"), uuid="a", parent="u"),
        user("two", uuid="u", parent="a"),
        assistant(text("second"), uuid="b", parent="u"),
        line("last-prompt", leafUuid="u"),
        user("three", uuid="u", parent=None),
        assistant(text("third"), parent="u"),
    ]
    mended, _ = repair(session(*lines))
    told = [block["text"] for each in said(mended, place) for block in each["content"]]
    assert told == ["one", "first", "two", "second", "three", "third"]
    second = json.loads(mended.splitlines()[2])["uuid"]
    assert json.loads(mended.splitlines()[4])["leafUuid"] == second


def test_a_lost_uuid_is_that_which_the_next_line_names(repair: Any) -> None:
    fault = PLANTED["one line without a uuid"]
    mended, _ = repair(fault.content)
    assert sorted(map(json.loads, mended.splitlines()), key=str) == sorted(
        map(json.loads, fault.whole.splitlines()), key=str
    )


def test_the_tip_is_later_than_a_branch_that_was_left(repair: Any, place: Path) -> None:
    lines = [*sound(), user("other", parent=nth(2), timestamp=moment(99))]
    again = [user("again", parent=nth(10), timestamp=moment(20)), assistant(text("4th"))]
    mended, ready = repair(session(*lines, *again))
    assert [each.kind for each in ready.mended] == ["late-time"]
    tree = opened(mended, place).tree
    assert tree.newest_leaf == tree.active_leaf


def test_a_result_stands_behind_the_whole_message_of_its_call(repair: Any) -> None:
    mended, _ = repair(PLANTED["a call in the middle"].content)
    before, added, after = (json.loads(raw) for raw in mended.splitlines()[5:8])
    assert before["message"]["content"][0]["id"] == "toolu_1"
    assert added["message"]["content"][0]["tool_use_id"] == "toolu_9"
    assert (added["parentUuid"], after["parentUuid"]) == (before["uuid"], added["uuid"])
    assert before["timestamp"] < added["timestamp"] < after["timestamp"]
    assert {name: added[name] for name in ("cwd", "sessionId", "version")} == {
        name: before[name] for name in ("cwd", "sessionId", "version")
    }


def test_a_fork_still_tells_where_it_comes_from(repair: Any, place: Path) -> None:
    mended, _ = repair(session(*sound(), session_id=nth(9)))
    assert {json.loads(raw)["sessionId"] for raw in mended.splitlines()} == {SESSION}
    assert opened(mended, place).links.previous == nth(9)


def test_a_file_of_another_program_is_left_as_it_is(repair: Any) -> None:
    content = session(line("user", message={"parts": ["hi"]}), line("assistant", message={}))
    mended, ready = repair(content)
    assert (mended, [each.kind for each in ready.left]) == (content, ["no-message"])


def test_all_rounds_are_counted(repair: Any, place: Path) -> None:
    fault = PLANTED["a line cut short"].content
    content = fault + assistant(call("Bash", call_id="z"), uuid="z", parent=nth(10))
    content = content.replace(b'"uuid":"z"', f'"uuid":"z","timestamp":"{moment(12)}"'.encode())
    mended, ready = repair(content)
    effect = ready.tally.effect()
    assert (effect.entries_before, effect.entries_after) == (10, 11)
    assert (effect.bytes_before, effect.bytes_after) == (len(content), len(mended))
    assert (effect.added, effect.rewritten["assistant"].entries) == (1, 1)


def test_a_result_of_a_repair_is_taken_as_sound(repair: Any, place: Path, tmp_path: Path) -> None:
    for fault in MENDED.values():
        mended, _ = repair(fault.content)
        result = tmp_path / place.name
        result.write_bytes(mended)
        require_sound(opened(fault.content, place), result)


@pytest.fixture
def stored(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session with two faults that can be mended and one that cannot, of a while ago."""
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    path = store.project_of("/home/ada/shop") / f"{SESSION}.jsonl"
    path.parent.mkdir()
    lines = sound()
    lines[6] = result("toolu_1", "<persisted-output>\nFull output saved to: /x/b1.txt\n")
    lines[8] = user("three", parent=None)
    path.write_bytes(session(*lines, assistant(call("Bash", call_id="z"))))
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def test_the_command_tells_what_it_mends_and_what_is_left(
    stored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = stored.read_bytes()
    assert run(["edit", SESSION, "--repair", "--dry-run"]) == 0
    would = capfd.readouterr().out.splitlines()
    assert run(["edit", SESSION, "--repair"]) == 0
    done = capfd.readouterr().out.splitlines()
    assert would[0] == f"Would edit {SESSION}"
    assert done[0] == f"Edited {SESSION}"
    assert would[1:] == done[1:-1]
    assert done[1:4] == [
        "  repair  a line without a parent restarts the history: the client omits everything "
        "before it; 6 of 9 messages are lost",
        "  repair  the session ends with a call without a result: 2.1.325 closes it, older clients "
        "drop it",
        "  left    the saved output b1.txt is missing",
    ]
    assert [each.kind for each in check_session(open_session(stored))] == ["lost-output"]
    assert list((tmp_path / "tmp").iterdir()) == []
    os.utime(stored, (time.time() - 60, time.time() - 60))
    assert run(["edit", SESSION, "--repair"]) == 0
    assert capfd.readouterr().out.startswith("Nothing to change in")
    assert run(["undo"]) == 0
    assert stored.read_bytes() == before


def test_what_a_repair_tells_fits_a_narrow_terminal(
    stored: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert run(["edit", SESSION, "--repair", "--dry-run"]) == 0
    lines = capfd.readouterr().out.splitlines()[1:]
    assert lines[:3] == [
        "  repair  a line without a parent",
        "          restarts the history: the",
        "          client omits everything before",
    ]
    assert lines[8:10] == ["  left    the saved output b1.txt is", "          missing"]
    assert max(map(len, lines)) <= 40


def test_the_command_tells_what_mends_what_is_left(
    stored: Path, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    other = store.project_of("/elsewhere")
    other.mkdir()
    stored.rename(other / stored.name)
    assert run(["edit", SESSION, "--repair", "--dry-run"]) == 0
    (left,) = [line for line in capfd.readouterr().out.splitlines() if "ran in" in line]
    assert left.endswith(f"do not find it  (turnlog mv {SESSION[:8]} /home/ada/shop)")


def test_the_command_tells_it_as_json(stored: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["edit", SESSION, "--repair", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [each["kind"] for each in told["repaired"]] == ["second-root", "open-call"]
    assert [each["kind"] for each in told["left"]] == ["lost-output"]
    assert (told["effect"]["added"], bool(told["change"])) == (1, True)


def test_a_repair_comes_before_other_transforms(
    stored: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["edit", SESSION, "--strip-tools", "--repair", "--until", "2"]) == 0
    told = [block for each in open_session(stored).context() for block in each["content"]]
    texts = [block["text"] for block in told if block["type"] != "thinking"]
    assert texts == ["one", "first", "two", "calling", "second"]


def test_a_clone_is_repaired_and_its_source_is_not(
    stored: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = stored.read_bytes()
    named = stored.with_name("notes.jsonl")
    named.write_bytes(before.replace(SESSION.encode(), b"notes"))
    assert run(["clone", str(named), "--repair", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [each["kind"] for each in told["repaired"]] == ["second-root", "open-call", "not-a-uuid"]
    clone = open_session(Path(told["path"]))
    assert {each.kind for each in check_session(clone)} == {"lost-output"}
    assert clone.links.previous == "notes"
    assert named.read_bytes() == before.replace(SESSION.encode(), b"notes")


def test_messages_that_are_all_unreadable_are_mended(repair: Any, place: Path) -> None:
    content = session(user("one"), assistant(text("first")))
    mended, _ = repair(content.replace(b"one", b"o\x01ne").replace(b"first", b"fi\x01rst"))
    assert check_session(opened(mended, place)) == []
    assert [each["role"][0] for each in said(mended, place)] == ["u", "a"]
