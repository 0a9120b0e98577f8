"""Each fault, planted alone in a sound session, is found, and nothing else is."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.build import (
    SESSION,
    START,
    assistant,
    attachment,
    compaction,
    encode,
    image,
    line,
    nth,
    result_block,
    session,
    stamp,
    text,
    user,
)
from support.faults import PLANTED, SOUND, png, put, sound
from turnlog.cli.check import COLOURS
from turnlog.cli.root import run
from turnlog.cli.terminal import style
from turnlog.conversation.session import open_session
from turnlog.edit.check import check_rules
from turnlog.edit.check.checks import check_session
from turnlog.edit.check.findings import Finding, Severity
from turnlog.format.image_size import pixels_of
from turnlog.store.paths import Store

DOCS = Path(__file__).parents[2] / "docs/check.md"


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., list[Finding]]:
    def check_one(
        content: bytes, name: str = SESSION, folder: str = "-home-ada-shop"
    ) -> list[Finding]:
        path = tmp_path / "projects" / folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return check_session(open_session(path))

    return check_one


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_session_has_no_findings(check: Any, name: str) -> None:
    assert check(SOUND[name]) == []


def test_a_finding_tells_the_command_that_mends_it(check: Any) -> None:
    (fixable,) = check(PLANTED["a second root"].content)
    (straight,) = check(PLANTED["results on their own calls"].content)
    (gone,) = check(PLANTED["a saved output that is gone"].content)
    (named,) = check(session(*sound(), session_id="my notes"), "my notes")
    (moved,) = check(session(*sound()), folder="-elsewhere")
    assert [each.fix for each in (fixable, straight, gone, named, moved)] == [
        f"turnlog edit {SESSION[:8]} --repair",
        f"turnlog edit {SESSION[:8]} --straighten",
        None,
        "turnlog clone 'my notes'",
        f"turnlog mv {SESSION[:8]} /home/ada/shop",
    ]


def test_a_session_outside_a_store_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(PLANTED["a second root"].content)
    (found,) = check_session(open_session(path))
    assert found.fix == f"turnlog edit {path} --repair"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_the_only_finding(check: Any, name: str) -> None:
    fault = PLANTED[name]
    found = [(each.kind, each.severity, each.line) for each in check(fault.content)]
    assert found == [(fault.kind, fault.severity, fault.line)]


def test_a_name_that_is_no_uuid(check: Any) -> None:
    content = session(*sound(), session_id="notes")
    assert [(f.kind, f.severity) for f in check(content, "notes")] == [("not-a-uuid", "fatal")]


def test_a_name_that_is_no_uuid_matters_less_outside_a_store(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(session(*sound(), session_id="notes"))
    found = check_session(open_session(path))
    assert [(each.kind, each.severity) for each in found] == [("not-a-uuid", "note")]


def test_a_session_in_another_project(check: Any) -> None:
    (found,) = check(session(*sound()), folder="-elsewhere")
    assert (found.kind, found.severity) == ("other-folder", "old")


def test_what_is_not_sent_cannot_be_refused(check: Any) -> None:
    lines = sound()
    lines[2] = user([image(png(9000))])
    content = session(*lines, *compaction("what was"), user("four"), assistant(text("4th")))
    assert check(content) == []


def test_faults_of_one_kind_are_one_finding_and_the_worst_comes_first(check: Any) -> None:
    lines = sound()
    lines[0] = user([text(""), text("one")])
    lines[2], lines[8] = user(""), user(" ")
    found = check(session(*lines))
    assert [(f.severity, f.line, f.count) for f in found] == [("fatal", 3, 2), ("old", 1, 1)]
    assert found[0].message.endswith("(2 times)")


def turns(count: int, *, apart: int = 60) -> list[bytes]:
    """Lines of prompts and answers in turn, too far apart in time to replace a missing parent."""
    at = [stamp(START + timedelta(seconds=apart * n)) for n in range(count)]
    lines = [
        assistant(text(f"a{n}"), timestamp=at[n]) if n % 2 else user(f"q{n}", timestamp=at[n])
        for n in range(count)
    ]
    return session(*lines).splitlines(keepends=True)


def tear(lines: list[bytes], number: int) -> None:
    lines[number - 1] = lines[number - 1][:40] + b"\n"


def set_parent(lines: list[bytes], number: int, parent: str | None) -> None:
    lines[number - 1] = encode(json.loads(lines[number - 1]) | {"parentUuid": parent})


def losses(found: list[Finding]) -> list[tuple[str, int | None, int, int]]:
    return [(each.kind, each.line, each.lost, each.messages) for each in found if each.is_serious]


def test_a_torn_line_tells_how_many_messages_the_client_omits(check: Any, tmp_path: Path) -> None:
    lines = turns(20)
    tear(lines, 16)
    found = check(b"".join(lines))
    assert losses(found) == [("unreadable-line", 16, 16, 20)]
    assert found[0].message.endswith("; 16 of 20 messages are lost")
    (path,) = tmp_path.rglob("*.jsonl")
    assert len(open_session(path).context()) == 20 - 16


def test_a_line_that_only_turnlog_can_read_loses_as_much_as_a_torn_one(check: Any) -> None:
    content = b"".join(turns(20)).replace(b'"a15"', b'"a\x0115"')
    assert losses(check(content)) == [("unreadable-line", 16, 16, 20)]


def test_a_torn_line_that_the_client_steps_over_is_the_only_message_lost(check: Any) -> None:
    lines = turns(20, apart=1)
    tear(lines, 16)
    (found,) = check(b"".join(lines))
    assert (found.lost, found.messages) == (1, 20)
    assert found.message.endswith("; 1 of 20 messages is lost")


def test_an_old_client_omits_everything_before_a_torn_line(check: Any, tmp_path: Path) -> None:
    lines = turns(20, apart=1)
    tear(lines, 16)
    check(b"".join(lines))
    (path,) = tmp_path.rglob("*.jsonl")
    assert losses(check_session(open_session(path), "2.1.45")) == [("unreadable-line", 16, 16, 20)]


def test_a_break_before_another_one_is_listed(check: Any) -> None:
    lines = turns(20)
    tear(lines, 16)
    set_parent(lines, 9, "gone")
    assert losses(check(b"".join(lines))) == [
        ("unreadable-line", 16, 16, 20),
        ("dangling-parent", 9, 8, 20),
    ]


def test_a_break_in_a_conversation_that_a_second_root_hides_is_listed(check: Any) -> None:
    lines = turns(20)
    set_parent(lines, 17, None)
    set_parent(lines, 9, "gone")
    assert losses(check(b"".join(lines))) == [
        ("second-root", 17, 16, 20),
        ("dangling-parent", 9, 8, 20),
    ]


def test_breaks_of_one_kind_name_their_lines(check: Any) -> None:
    lines = turns(20)
    set_parent(lines, 9, "gone")
    set_parent(lines, 17, "gone")
    (found,) = check(b"".join(lines))
    assert losses([found]) == [("dangling-parent", 9, 16, 20)]
    assert "(2 times: lines 9, 17); 16 of 20 messages are lost" in found.message


def test_messages_before_a_compaction_do_not_count_as_lost(check: Any) -> None:
    early = [user("one"), assistant(text("first")), *compaction("what was")]
    late = [user("two"), assistant(text("second")), user("three", parent="gone"), user("four")]
    at = [stamp(START + timedelta(minutes=n)) for n in range(8)]
    lines = [
        encode(json.loads(raw) | {"timestamp": time})
        for raw, time in zip((*early, *late), at, strict=True)
    ]
    found = check(session(*lines))
    assert losses(found) == [("dangling-parent", 7, 2, 3)]


def test_a_line_with_several_results_names_each_call(check: Any) -> None:
    content = put(7, user([result_block("toolu_1"), result_block("toolu_9")]))
    assert [(f.kind, f.line) for f in check(content)] == [("orphan-result", 7)]


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"GIF89a" + bytes([3, 0, 5, 0, 0, 0]), (3, 5)),
        (b"\xff\xd8\xff\xe0\0\x04JF\xff\xc0\0\x0b\x08\0\x05\0\x03\x01\x11\0", (3, 5)),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + bytes([2, 0, 0, 4, 0, 0]), (3, 5)),
        (
            b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + (2 | 4 << 14).to_bytes(4, "little") + bytes(9),
            (3, 5),
        ),
        (b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + bytes([3, 0, 5, 0]), (3, 5)),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff\xe0\xff", None),
        (b"BM1234", None),
    ],
)
def test_images_tell_their_size(head: bytes, size: tuple[int, int] | None) -> None:
    assert pixels_of(base64.b64encode(head).decode()) == size


def test_the_command_prints_findings_and_fails_if_any_is_serious(
    store: Store, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = store.project_of("/home/ada/shop")
    folder.mkdir()
    good, bad = folder / f"{SESSION}.jsonl", folder / f"{nth(7)}.jsonl"
    good.write_bytes(session(*sound())[:-1])
    assert run(["check", SESSION[:8]]) == 0
    bad.write_bytes(session(*sound()[:2], user(""), *sound()[3:], session_id=nth(7)))
    capfd.readouterr()
    assert run(["check", "--all", "--severity", "note"]) == 1
    printed = capfd.readouterr().out.splitlines()
    assert printed[-1] == "2 sessions: 1 fatal, 1 old  (turnlog edit SESSION --repair)"
    assert sorted(each for each in printed if each.startswith(" ")) == [
        "  fatal     line 3  an empty prompt is sent: the API refuses every request"
        f"  (turnlog edit {nth(7)[:8]} --repair)",
        "  old      line 10  the last line has no newline: clients up to 2.1.45 append their next "
        f"line to it  (turnlog edit {SESSION[:8]} --repair)",
    ]
    assert run(["check", str(bad), "--json"]) == 1
    (told,) = json.loads(capfd.readouterr().out)
    assert (told["id"], told["findings"][0]["severity"]) == (nth(7), "fatal")


def test_all_sessions_are_one_line_each_with_what_the_installed_client_loses(
    store: Store,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    folder = store.project_of("/home/ada/shop")
    folder.mkdir()
    torn = turns(20)
    tear(torn, 16)
    set_parent(torn, 9, "gone")
    (folder / f"{SESSION}.jsonl").write_bytes(b"".join(torn))
    (folder / f"{nth(7)}.jsonl").write_bytes(session(*sound(), session_id=nth(7))[:-1])
    clients = {version: tmp_path / "clients" / version for version in ("2.1.325", "2.1.45")}
    for client in clients.values():
        client.parent.mkdir(exist_ok=True)
        client.touch(mode=0o755)

    def check_all(version: str) -> list[str]:
        (tmp_path / "bin" / "claude").unlink(missing_ok=True)
        (tmp_path / "bin" / "claude").symlink_to(clients[version])
        assert run(["check", "--all"]) == 1
        return [" ".join(row.split()) for row in capfd.readouterr().out.splitlines()]

    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    loss = f"{SESSION[:8]} loss 16 of 20 the client cannot read this line: it is not JSON"
    head, *rows = check_all("2.1.325")
    assert head.split() == ["session", "severity", "lost", "finding"]
    assert rows[0] == loss
    assert rows[1].startswith("1 finding not shown")
    assert rows[2].startswith("2 sessions: 1 loss, 1 sound for client 2.1.325")
    _, *rows = check_all("2.1.45")
    assert rows[0] == loss
    assert rows[1].startswith(f"{nth(7)[:8]} loss the last line has no newline")


def test_the_summary_names_what_fixes_the_worst(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = store.project_of("/elsewhere")
    folder.mkdir()
    (folder / f"{SESSION}.jsonl").write_bytes(session(*sound())[:-1])
    assert run(["check", SESSION, "--for", "2.1.45"]) == 1
    summary = capfd.readouterr().out.splitlines()[-1]
    assert summary == f"1 session: 1 fatal  (turnlog mv {SESSION[:8]} /home/ada/shop)"


def test_every_severity_looks_different() -> None:
    assert len({style("x", COLOURS[severity]) for severity in Severity}) == len(Severity)


def test_the_command_wants_sessions_or_all(store: Store) -> None:
    assert (run(["check"]), run(["check", "last", "--all"]), run(["check", "--all"])) == (2, 2, 0)


def test_every_rule_is_tested_and_in_the_documents() -> None:
    documented = DOCS.read_text("utf-8")
    rules = check_rules.RULES.values()
    assert [rule.kind for rule in rules if f"`{rule.kind}`" not in documented] == []
    named = {fault.kind for fault in PLANTED.values()}
    apart = {"not-a-uuid", "other-folder"}
    assert {rule.kind for rule in rules} == named | apart


@pytest.mark.parametrize(
    ("name", "version", "severities"),
    [
        ("results on their own calls", "2.1.45", ["loss"]),
        ("results on their own calls", "2.1.100", ["loss"]),
        ("results on their own calls", "2.1.150", []),
        ("progress in the chain", "2.0.76", ["loss"]),
        ("progress in the chain", "2.1.29", []),
        ("a second root", "2.1.325", ["loss"]),
        ("a call at the end", "2.1.150", ["loss"]),
        ("a call at the end", "2.1.325", ["note"]),
        ("answers without a message id", "2.1.150", ["loss"]),
        ("answers without a message id", "2.1.325", ["note"]),
    ],
)
def test_a_check_for_a_client_tells_what_concerns_it(
    tmp_path: Path, name: str, version: str, severities: list[str]
) -> None:
    path = tmp_path / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(PLANTED[name].content)
    assert [each.severity for each in check_session(open_session(path), version)] == severities


@pytest.mark.parametrize(
    ("name", "last_refused", "first_resumed"),
    [
        ("an answer without a block", "2.1.150", "2.1.325"),
        ("an error without a block", "2.0.76", "2.1.45"),
        ("an answer of white space", "2.0.76", "2.1.45"),
        ("an answer of a bare text", "2.1.150", "2.1.325"),
        ("content that is null", "2.1.150", "2.1.325"),
        ("no message", "2.1.150", "2.1.325"),
        ("a message that is a text", "2.1.150", "2.1.325"),
        ("a circle", "2.0.76", "2.1.45"),
        ("a result without a call", "2.0.76", "2.1.45"),
        ("a call's id twice", "2.1.45", "2.1.150"),
        ("an empty text beside another", "2.1.150", "2.1.325"),
        ("an empty text in an answer", "2.0.76", "2.1.45"),
    ],
)
def test_a_check_for_a_client_predicts_that_it_refuses_the_session(
    tmp_path: Path, name: str, last_refused: str, first_resumed: str
) -> None:
    path = tmp_path / "projects" / "-home-ada-shop" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(PLANTED[name].content)

    def is_refused(version: str) -> bool:
        return any(each.severity == "fatal" for each in check_session(open_session(path), version))

    assert is_refused(last_refused)
    assert not is_refused(first_resumed)


def test_every_fault_of_old_clients_tells_when_it_was_mended() -> None:
    old = [rule for rule in check_rules.RULES.values() if rule.severity is Severity.OLD]
    assert [rule.kind for rule in old if rule.fixed_in is None] == []


def test_a_tip_that_the_client_recorded_is_not_stray(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    recorded = line("last-prompt", leafUuid=nth(11))
    later = [user("late", parent=nth(10)), assistant(text("x"))]
    path.write_bytes(session(*sound(), attachment("date", parent=nth(4)), recorded, *later))
    found = check_session(open_session(path))
    assert "stray-tip" not in [each.kind for each in found]


def test_messages_that_are_all_unreadable_are_fatal(tmp_path: Path) -> None:
    content = session(user("one"), assistant(text("first")))
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(content.replace(b"one", b"o\x01ne").replace(b"first", b"fi\x01rst"))
    worst = check_session(open_session(path))[0]
    assert (worst.kind, worst.severity.value, worst.line) == ("unreadable-line", "fatal", 1)
    path.write_bytes(content.replace(b"one", b"o\x01ne"))
    assert "fatal" not in {each.severity.value for each in check_session(open_session(path))}
