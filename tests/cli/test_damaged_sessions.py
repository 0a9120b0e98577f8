"""Commands that store what they read, on content that no client writes: no command crashes."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, compaction, nth, result, session, text, user

HALF = "\ud800"
"""Half a surrogate pair: valid in JSON, without a form in UTF-8."""


def halved(content: bytes) -> bytes:
    """Put half a surrogate pair into titles, directories, models, tools and paths."""
    return content.replace(b"HALF", json.dumps(HALF).strip('"').encode())


@pytest.mark.parametrize(
    "command",
    [
        "archive",
        "archive --list",
        "stats carrying",
        "stats carrying --by file",
        "export --all -o x",
    ],
)
def test_half_a_surrogate_pair_is_stored_as_a_replacement(
    project: Path, turnlog: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    used = {"model": "HALF", "usage": {"input_tokens": 5, "output_tokens": 5}}
    priced = used | {"model": "claude-opus-5"}
    content = session(
        user("HALF hello", cwd="/HALF"),
        assistant(call("HALF", {"file_path": "/x/HALF"}), message_id="m1", message=priced),
        result("toolu_1", "HALF"),
        assistant(text("HALF"), message_id="m2", message=used),
    )
    (project / f"{SESSION}.jsonl").write_bytes(halved(content))
    assert turnlog("archive").code == 0
    outcome = turnlog(*command.split())
    assert outcome.code == 0, outcome.err


def test_a_compaction_that_names_itself_is_shown_and_exported(
    project: Path, turnlog: Run, tmp_path: Path
) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(
        session(user("first"), *compaction("so far", logical_parent_uuid=nth(2)), user("second"))
    )
    tree = turnlog("tree", SESSION)
    assert [line.split()[1] for line in tree.out.splitlines()] == ["first", "──", "second"]
    assert turnlog("export", SESSION, "-o", str(tmp_path / "page.html")).code == 0


ESCAPED = [r"\ud800", r"a\"b", r"\u00e9", r"\\"]
"""Ids in JSON, none of them a UUID."""


@pytest.mark.parametrize("name", ESCAPED)
def test_a_session_with_escaped_ids_is_cloned_with_new_ones(
    project: Path, turnlog: Run, name: str
) -> None:
    content = session(user("hi"), assistant(text("hello")))
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(content.replace(nth(1).encode(), name.encode()))
    done = turnlog("clone", SESSION, "--json")
    assert done.code == 0, done.err
    (clone,) = (each for each in project.glob("*.jsonl") if each != path)
    first, second = map(json.loads, clone.read_bytes().splitlines())
    assert UUID(first["uuid"]) == UUID(second["parentUuid"])
