"""Raw ingestion: a lake of raw files has the rows that their machines would have pushed."""

import gzip
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from support.build import SESSION, assistant, call, result, session, text, user
from support.lake_machines import KEY, PushingMachine, lake_totals, live_rows
from turnlog.errors import NotFound
from turnlog.lake.lake_forgetting import ForgetRequest, forget
from turnlog.lake.lake_schema import TABLES
from turnlog.lake.lake_settings import LakeSettings
from turnlog.lake.raw_files import RawFile, RawFolder, origin_of, share_out
from turnlog.lake.raw_ingest import Ingested, RawOptions, ingest_raw
from turnlog.store.deletion_consent import agreed

CHAT = session(
    user("Fix the shop"),
    assistant(text("I look"), call("Bash", {"command": "ls"}, "toolu_1"), message_id="msg_1"),
    result("toolu_1"),
    assistant(text("Done"), message_id="msg_2"),
)
OTHER = "5e551011-0000-4000-8000-00000000000b"
PLACES = {"machine", "file", "write_id", "path_key", "store_key", "user", "host"}
"""Columns that depend on where a file is."""


class RawArchive:
    """A raw folder and a lake."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.dest = folder / "raw", str(folder / "lake")
        self.folder.mkdir()
        self.settings = LakeSettings(key=folder / "team.key")
        (folder / "team.key").write_bytes(KEY)

    def write(self, content: bytes, machine: str = "ada", session: str = SESSION) -> Path:
        return self.put(f"{machine}/projects/-shop/{session}.jsonl", content)

    def put(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def ingest(self, **options: Any) -> Ingested:
        return ingest_raw(str(self.folder), self.dest, self.settings, RawOptions(**options))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the live rows, without the columns that depend on where a file is."""
        found = live_rows(self.dest, table)
        return [{k: v for k, v in row.items() if k not in PLACES} for row in found]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RawArchive:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return RawArchive(tmp_path)


def test_rows_are_those_of_a_push(archive: RawArchive, tmp_path: Path) -> None:
    machine = PushingMachine(tmp_path / "ada", str(tmp_path / "pushed"))
    machine.write(CHAT)
    agent = session(user("go"), assistant(text("ok"), message_id="msg_3"), agent_id="a1")
    below = machine.path().with_suffix("") / "subagents"
    below.mkdir(parents=True)
    (below / "agent-a1.jsonl").write_bytes(agent)
    machine.push()
    shutil.copytree(machine.store.projects, archive.folder / "ada" / "projects")
    archive.ingest()
    for table in TABLES:
        pushed = [
            {name: value for name, value in row.items() if name not in PLACES}
            for row in live_rows(machine.dest, table)
        ]
        assert sorted(map(repr, archive.rows(table))) == sorted(map(repr, pushed)), table
    assert lake_totals(archive.dest) == lake_totals(machine.dest)


def test_copies_on_two_machines_count_once(archive: RawArchive) -> None:
    archive.write(CHAT, "ada")
    archive.write(CHAT, "grace")
    done = archive.ingest()
    assert (done.machines, done.summary.files) == (2, 2)
    totals = lake_totals(archive.dest)
    assert (totals["messages"], totals["turns"], totals["calls"]) == (2, 1, 1)
    assert {row["user"] for row in live_rows(archive.dest, "sessions")} == {"ada", "grace"}


def test_a_second_run_writes_nothing(archive: RawArchive) -> None:
    archive.write(CHAT)
    archive.ingest()
    before = sorted(Path(archive.dest).rglob("*"))
    done = archive.ingest()
    assert (done.summary.files, done.summary.changed, done.summary.parts) == (1, 0, 0)
    assert sorted(Path(archive.dest).rglob("*")) == before


def test_a_grown_file_supersedes_its_rows(archive: RawArchive) -> None:
    path = archive.write(CHAT)
    archive.ingest()
    path.write_bytes(
        CHAT + assistant(text("More"), message_id="msg_3", uuid="u", sessionId=SESSION)
    )
    archive.ingest()
    assert sorted(row["key"] for row in archive.rows("messages")) == ["msg_1", "msg_2", "msg_3"]


def test_rows_that_a_file_no_longer_has_are_retracted(archive: RawArchive) -> None:
    path = archive.write(CHAT)
    archive.ingest()
    path.write_bytes(session(user("Fix the shop")))
    done = archive.ingest()
    assert done.summary.retracted == 2  # messages and calls of the day
    assert archive.rows("messages") == []
    assert len(archive.rows("turns")) == 1


def test_malformed_lines_are_counted_and_left_out(archive: RawArchive) -> None:
    broken = b'{"type":"user",\n' + b"5\n" + b"\xff\xfe\n" + b"\n"
    archive.write(CHAT + broken)
    archive.write(CHAT.replace(b"msg_", b"msg_B"), session=OTHER)
    done = archive.ingest().summary
    assert (done.malformed, done.malformed_files, done.files) == (3, 1, 2)
    assert done.problems == [(f"ada/projects/-shop/{SESSION}.jsonl", "malformed lines: 3")]
    assert lake_totals(archive.dest)["messages"] == 4


@pytest.mark.parametrize(("ending", "compress"), [(".gz", gzip.compress), (".zst", zstd.compress)])
def test_compressed_files_are_read(archive: RawArchive, ending: str, compress: Any) -> None:
    archive.put(f"ada/projects/-shop/{SESSION}.jsonl{ending}", compress(CHAT))
    archive.ingest()
    assert lake_totals(archive.dest)["messages"] == 2
    (row,) = archive.rows("sessions")
    assert (row["opened_by"], row["size"]) == (SESSION, len(CHAT))


def test_an_unreadable_file_does_not_end_the_job(archive: RawArchive) -> None:
    archive.put("ada/projects/-shop/broken.jsonl.gz", gzip.compress(CHAT * 50)[:-40])
    archive.put("ada/projects/-shop/text.jsonl.gz", b"no gzip at all")
    archive.write(CHAT)
    done = archive.ingest().summary
    assert (done.files, done.unreadable) == (1, 2)
    assert {path.rpartition("/")[2] for path, _ in done.problems} == {
        "broken.jsonl.gz",
        "text.jsonl.gz",
    }
    assert lake_totals(archive.dest)["messages"] == 2


def test_full_scratch_folder_ends_the_job(archive: RawArchive, tmp_path: Path) -> None:
    # Otherwise the file would count as unreadable, and be missing although the job succeeds.
    long = session(user("x" * 8_000_000), assistant(text("Hello"), message_id="msg_3"))
    archive.put(f"ada/projects/-shop/{OTHER}.jsonl.gz", gzip.compress(long))
    command = [sys.executable, "-m", "turnlog", "lake", "ingest", archive.folder, archive.dest]
    limit = (4_000_000, resource.RLIM_INFINITY)
    failed = subprocess.run(
        command,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert failed.stderr == (
        f"turnlog: no space left in {tmp_path} for a copy of ada/projects/-shop/{OTHER}.jsonl.gz"
        f" (try: df -h {tmp_path})\n"
    )
    archive.ingest()
    assert lake_totals(archive.dest)["messages"] == 1


def test_links_are_not_followed(archive: RawArchive, tmp_path: Path) -> None:
    outside = tmp_path / "boss" / "projects" / "-secret"
    outside.mkdir(parents=True)
    (outside / f"{OTHER}.jsonl").write_bytes(CHAT.replace(b"msg_", b"msg_B"))
    archive.write(CHAT)
    (archive.folder / "boss").symlink_to(tmp_path / "boss")
    (archive.folder / "ada/projects/-shop" / f"{OTHER}.jsonl").symlink_to(
        outside / f"{OTHER}.jsonl"
    )
    os.mkfifo(archive.folder / "pipe.jsonl")
    done = archive.ingest()
    assert lake_totals(archive.dest)["messages"] == 2
    assert {Path(path).name for path in done.skipped} == {f"{OTHER}.jsonl", "pipe.jsonl"}


def test_only_sessions_and_subagents_of_a_store_count(archive: RawArchive) -> None:
    archive.write(CHAT)
    archive.put(f"ada/projects/-shop/{SESSION}/tool-results/b1.jsonl", CHAT)
    archive.put("ada/projects/-shop/.hidden.jsonl", CHAT)
    archive.put("ada/history.jsonl", b'{"display":"x"}\n')
    names = {each.name for each in RawFolder(str(archive.folder)).list_files()}
    assert names == {f"ada/projects/-shop/{SESSION}.jsonl"}


def test_logs_of_agents_need_no_store(archive: RawArchive) -> None:
    archive.put(f"run-7/{SESSION}.jsonl", CHAT)
    archive.put(f"run-7/{SESSION}/subagents/agent-a1.jsonl", session(user("go"), agent_id="a1"))
    done = archive.ingest(user="ci")
    assert (done.machines, done.summary.files) == (1, 2)
    assert {row["session"] for row in live_rows(archive.dest, "sessions")} == {SESSION}
    assert {row["user"] for row in live_rows(archive.dest, "sessions")} == {"ci"}


def test_since_selects_by_the_time_of_the_file(archive: RawArchive) -> None:
    os.utime(archive.write(CHAT), (1000, 1000))
    archive.write(CHAT.replace(b"msg_", b"msg_B"), session=OTHER)
    assert archive.ingest(since=2000).summary.files == 1


def test_a_dry_run_writes_nothing(archive: RawArchive) -> None:
    archive.write(CHAT)
    done = archive.ingest(is_dry_run=True).summary
    assert (done.changed, done.rows, done.parts) == (1, 5, 0)
    assert not Path(archive.dest).exists()


def test_an_empty_folder_is_an_error(archive: RawArchive) -> None:
    with pytest.raises(NotFound, match="no session files below"):
        archive.ingest()
    with pytest.raises(NotFound, match="is not a directory"):
        ingest_raw(f"{archive.folder}/missing", archive.dest, archive.settings)


def test_tasks_have_about_equal_sizes() -> None:
    files = [RawFile(f"{number}.jsonl", 300_000, 0) for number in range(10)]
    files.append(RawFile("large.jsonl", 5_000_000, 0))
    tasks = share_out(files, 1_000_000)
    assert [len(task) for task in tasks] == [3, 3, 3, 1, 1]
    assert [each for task in tasks for each in task] == files


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("projects/-p/s.jsonl", "s"),
        ("a/b/projects/-p/agent-1.jsonl", None),
        ("projects/-p/subagents/agent-1.jsonl", None),
        ("projects/-p/s/subagents/w/agent-1.jsonl", "s"),
    ],
)
def test_paths_tell_the_session(name: str, owner: str | None) -> None:
    origin = origin_of(name)
    assert origin
    assert origin.owner == owner


def test_texts_need_consent_and_are_masked(archive: RawArchive) -> None:
    token = "ghp_Zq3mB7xW9kTnR5vL2pYc8dHf4sJg6aEuK1Qw"
    chat = session(
        user(f"My token is {token}"),
        assistant(text("I look"), call("Bash", {"command": "ls"}, "toolu_1"), message_id="msg_1"),
        result("toolu_1", "a.py"),
    )
    archive.put(f"ada/projects/-shop/{SESSION}.jsonl.gz", gzip.compress(chat))
    archive.ingest()
    assert archive.rows("texts") == []
    archive.settings = replace(archive.settings, consents=frozenset({"texts"}))
    archive.ingest()
    rows = [(row["role"], row["kind"], row["tool"], row["text"]) for row in archive.rows("texts")]
    (prompt, *others) = rows
    assert prompt[:2] == ("user", "prompt")
    assert prompt[3].startswith("My token is [github")
    assert others == [
        ("assistant", "answer", None, "I look"),
        ("assistant", "input", "Bash", '{"command":"ls"}'),
        ("user", "result", "Bash", "a.py"),
    ]


def test_a_session_that_is_there_compressed_as_well_counts_once(archive: RawArchive) -> None:
    archive.write(CHAT)
    for ending in (".gz", ".zst"):
        archive.put(f"ada/projects/-shop/{SESSION}.jsonl{ending}", b"older")
    archive.put(f"ada/projects/-shop/{OTHER}.jsonl.gz", gzip.compress(b""))
    done = archive.ingest()
    assert (done.summary.files, len(done.skipped), done.summary.unreadable) == (2, 2, 0)
    assert lake_totals(archive.dest)["messages"] == 2


def test_folders_may_be_nested_deeply(archive: RawArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(archive.folder)  # an absolute path could be too long
    for _ in range(1500):
        Path("d").mkdir()
        monkeypatch.chdir("d")
    Path(f"{SESSION}.jsonl").write_bytes(CHAT)
    monkeypatch.chdir(archive.folder)
    try:
        assert len(RawFolder(str(archive.folder)).list_files()) == 1
    finally:
        # pytest would delete it recursively, which Python does not allow for that many folders.
        subprocess.run(["rm", "-rf", archive.folder / "d"], check=True)


def test_forgotten_users_are_not_ingested_again(archive: RawArchive) -> None:
    archive.write(CHAT, "ada")
    archive.write(CHAT.replace(b"msg_", b"msg_B"), "grace")
    archive.ingest()
    forget(archive.dest, archive.settings, ForgetRequest("ada", consent=agreed))
    done = archive.ingest()
    assert (done.forgotten, done.summary.changed) == (1, 0)
    assert {row["user"] for row in live_rows(archive.dest, "sessions")} == {"grace"}
