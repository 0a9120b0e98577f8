"""Laws of straightening: older clients read all of a straightened session.

They start at the latest timestamp and follow `parentUuid` alone, up to a compaction, a missing
parent or, in 2.0.76, a progress entry (observed: 2.0.76, 2.1.45).
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from support.faults import PLANTED, SOUND
from support.session_strategies import Files, damaged_sessions, sessions
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session, open_session
from turnlog.conversation.tree import is_compaction, is_progress
from turnlog.edit.check.checks import check_session
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import EditOptions, prepared
from turnlog.edit.transforms import blocks_of
from turnlog.format.json_values import Fields

OLD = "2.0.76"
REMINDER = "<system-reminder>"
FILLERS = ("", "(no content)", "[Orphaned tool result removed due to conversation resume]")


def path_of_old_client(session: Session) -> list[ChainNode]:
    """The entries that an older client reads, the last first."""
    found: list[ChainNode] = []
    rank = session.tree.newest_leaf
    while rank is not None and session.tree.chain[rank] not in found:
        node = session.tree.chain[rank]
        if is_progress(node):
            break
        found.append(node)
        rank = None if is_compaction(node) else session.tree.rank_of(node.parent)
    return found


def essentials(messages: Iterable[Fields]) -> set[str]:
    """Calls that have a result, results, and what the user said."""
    blocks = [(m.get("role"), block) for m in messages for block in _blocks(m)]
    results = {str(b.get("tool_use_id")) for _, b in blocks if b.get("type") == "tool_result"}
    calls = {str(b.get("id")) for _, b in blocks if b.get("type") == "tool_use"}
    texts = {str(b.get("text")).strip() for r, b in blocks if r == "user" and "text" in b}
    prompts = {text for text in texts if text not in FILLERS and REMINDER not in text}
    return {f"call {each}" for each in calls & results} | {*results} | prompts


def _blocks(message: Fields) -> list[Fields]:
    content = message.get("content")
    return blocks_of(message) or [{"type": "text", "text": content}]


def straightened(session: Session) -> Session:
    project = session.path.parent
    path = project.parents[1] / "after" / "projects" / project.name / session.path.name
    with prepared(session, EditOptions(["straighten"])) as ready:
        content = b"".join(carry_out(ready.plan, ready.tally))
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return open_session(path)


def is_told(session: Session) -> bool:
    """Return whether a check reports that the old client does not read all of a session."""
    return any(each.is_serious for each in check_session(session, OLD))


def check_nothing_is_lost(files: Files) -> None:
    """Check that an old client reads all of a straightened session, or that a check reports it."""
    with TemporaryDirectory() as home:
        before = open_session(files.write(Path(home, "projects", "-home-ada-shop")))
        after = straightened(before)
        if is_told(after):
            return
        values = after.values(path_of_old_client(after)[::-1])
        read = [value["message"] for value in values if "message" in value]
        notes = {str(v.get("content")).strip() for v in after.values(_notes(after))}
        assert essentials(before.context()) - notes <= essentials(read)


def _notes(session: Session) -> list[ChainNode]:
    """Commands of the client's own, which are no prompts."""
    return [node for node in session.tree.chain if node.kind == "system/local_command"]


@given(sessions() | damaged_sessions() | damaged_sessions(wildly=True))
def test_an_old_client_reads_all_of_a_straightened_session(files: Files) -> None:
    check_nothing_is_lost(files)


def test_an_old_client_reads_all_of_every_session_file_once_straightened(
    session_file: Path,
) -> None:
    check_nothing_is_lost(Files(session_file.read_bytes()))


@pytest.mark.parametrize("content", [*SOUND.values(), *(each.content for each in PLANTED.values())])
def test_an_old_client_reads_all_of_every_sample_once_straightened(content: bytes) -> None:
    check_nothing_is_lost(Files(content))


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_session_is_sound_for_an_old_client_once_straightened(
    tmp_path: Path, name: str
) -> None:
    session = open_session(Files(SOUND[name]).write(tmp_path / "projects" / "-home-ada-shop"))
    assert not is_told(straightened(session))
