"""A chat that is killed, or whose file is cut anywhere, resumes, and no backup is lost.

`TURNLOG_CRASHES` is the number of places at which a chat is killed and its file cut; with as many
as the file has lines, each line is one.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from support.chat_process import ChatProcess
from support.going_on import GO_ON, check_messages, check_told, go_on, is_json
from support.long_chat import PROMPTS, answer_to, files_before, files_in, kill_at, run_long
from support.scripted_api import ScriptedApi, said, scripted_api
from turnlog.agent.session.rewind import RewindScope, apply_rewind, plan_rewind, rewind_points
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.journal import Journal
from turnlog.errors import NotFound

PLACES = int(os.environ.get("TURNLOG_CRASHES", "8"))


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedApi]:
    """The model of the long chat."""
    with scripted_api(said("never")) as api:
        api.choose = answer_to
        yield api


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, model: ScriptedApi) -> ChatProcess:
    """The long chat, to its end."""
    chat = ChatProcess(tmp_path_factory.mktemp("finished"), model.url)
    told = run_long(chat)
    assert (told.code, files_in(chat.work)) == (0, files_before(len(PROMPTS) + 1)), told
    return chat


def test_the_long_chat_is_sound(finished: ChatProcess) -> None:
    session = open_session(finished.session)
    assert [finding for finding in check_session(session) if finding.is_serious] == []
    calls = [call for turn in session.turns for call in turn.calls]
    assert len(calls) == 40
    assert {call.name for call in calls} == {"Read", "Write", "Edit", "Bash", "Agent"}


@pytest.mark.parametrize("place", range(PLACES))
def test_a_chat_that_is_killed_goes_on_and_its_files_can_be_brought_back(
    place: int,
    finished: ChatProcess,
    model: ScriptedApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = finished.session.read_bytes().count(b"\n")
    chat = ChatProcess(tmp_path, model.url)
    kill_at(chat, 1 + place * (lines - 2) // max(1, PLACES - 1))
    before = chat.session.read_bytes()
    check_rewinds(chat, Journal(tmp_path / "journal"))
    if is_begun(before):
        check_told(before, go_on(chat, model, monkeypatch))


def is_begun(content: bytes) -> bool:
    """Return whether there is a conversation to resume: before a prompt there is none."""
    return any(b'"type":"user"' in raw and is_json(raw) for raw in content.splitlines())


def check_rewinds(chat: ChatProcess, journal: Journal) -> None:
    """Files can be brought back to each prompt, whatever was changed since."""
    if not is_begun(chat.session.read_bytes()):
        assert files_in(chat.work) == files_before(1)
        return
    session = open_session(chat.session)
    for turn, point in reversed(list(enumerate(rewind_points(session), start=1))):
        plan = plan_rewind(chat.store, session, point.uuid, chat.work)
        assert not any(file.is_lost for file in plan.files)
        # Of a call without a result nobody knows how it left its file.
        assert {file.path.name for file in plan.conflicts} <= open_files(session)
        apply_rewind(plan, RewindScope.FILES, session, journal, overwrite=True)
        assert files_in(chat.work) == files_before(turn)


def open_files(session: Session) -> set[str]:
    """The files of calls that have no result."""
    all_ = (session, *map(session.open_subagent, session.subagents))
    inputs = [each.detail(call).input for each in all_ for call in each.calls if not call.result]
    return {str(taken.get("file_path")) for taken in inputs}


def test_a_file_that_is_cut_off_anywhere_goes_on(
    finished: ChatProcess, model: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finished.session.read_bytes()
    chat = ChatProcess(tmp_path, model.url)
    chat.session.parent.mkdir(parents=True)
    for end in places_in(whole):
        chat.session.write_bytes(whole[:end])
        if is_begun(whole[:end]):
            check_told(whole[:end], go_on(chat, model, monkeypatch))
        else:
            with pytest.raises(NotFound, match="contains no conversation"):
                go_on(chat, model, monkeypatch)


def places_in(content: bytes) -> list[int]:
    """Some ends of lines, with the byte before each, and as many places inside of lines."""
    chance = Random(len(content))
    ends = [place for place, byte in enumerate(content, start=1) if byte == ord("\n")]
    some = chance.sample(ends, min(PLACES, len(ends)))
    inside = [chance.randrange(1, len(content)) for _ in some]
    return sorted({*some, *(end - 1 for end in some), *inside})


def test_a_session_that_was_killed_goes_on_from_the_command_line(
    model: ScriptedApi, tmp_path: Path
) -> None:
    chat = ChatProcess(tmp_path, model.url)
    kill_at(chat, 30)
    told = chat.run("-p", GO_ON, "--continue")
    assert (told.code, told.out) == (0, "Gone on.\n"), told
    check_messages(model.requests[-1].body["messages"])
