"""Raw ingestion from a bucket to a bucket: a real S3 server on loopback."""

import gzip
from collections.abc import Generator
from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from support.lake_machines import KEY, lake_totals, live_rows
from support.s3_server import CuttingProxy, S3Server, s3_server
from turnlog.errors import Unavailable
from turnlog.lake.lake_settings import LakeSettings
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.raw_files import RawFile, RawFolder
from turnlog.lake.raw_ingest import ingest_raw

OTHER = "5e551011-0000-4000-8000-00000000000b"


@pytest.fixture(scope="module")
def server() -> Generator[S3Server]:
    with s3_server() as found:
        yield found


def chat(name: str) -> bytes:
    return session(user("Hi"), assistant(text("Hello"), message_id=f"msg_{name}"))


@pytest.fixture
def bucket(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    found = f"s3://{server.new_bucket()}"
    put(found, f"ada/projects/-shop/{SESSION}.jsonl", chat("A") + b"{broken\n")
    put(found, f"grace/projects/-shop/{OTHER}.jsonl.gz", gzip.compress(chat("B")))
    put(found, "grace/projects/-shop/notes.txt", b"no session")
    return found


def put(bucket: str, name: str, content: bytes) -> None:
    storage = open_storage(f"{bucket}/raw")
    # By default pyarrow compresses what is written to a name with such an ending.
    with storage.files.open_output_stream(storage.full(name), compression=None) as file:
        file.write(content)


def test_objects_are_read_and_lines_counted(bucket: str, tmp_path: Path) -> None:
    key = tmp_path / "team.key"
    key.write_bytes(KEY)
    settings = LakeSettings(key=key)
    done = ingest_raw(f"{bucket}/raw", f"{bucket}/lake", settings)
    assert (done.machines, done.summary.files, done.summary.malformed) == (2, 2, 1)
    assert lake_totals(f"{bucket}/lake")["messages"] == 2
    assert {row["user"] for row in live_rows(f"{bucket}/lake", "sessions")} == {"ada", "grace"}
    again = ingest_raw(f"{bucket}/raw/", f"{bucket}/lake", settings)
    assert (again.summary.files, again.summary.parts) == (2, 0)


def test_the_whole_bucket_may_be_raw(bucket: str, tmp_path: Path) -> None:
    done = ingest_raw(bucket, str(tmp_path / "lake"), LakeSettings())
    assert {row["user"] for row in live_rows(done.dest, "sessions")} == {"raw"}


@pytest.mark.parametrize("limit", [20_000, 400_000])
def test_connection_lost_while_objects_are_read(
    server: S3Server, bucket: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = session(user("connect " * 100_000), assistant(text("Hello"), message_id="msg_C"))
    put(bucket, "lin/projects/-connect/5e551011-0000-4000-8000-00000000000c.jsonl", long)
    dest, settings = str(tmp_path / "lake"), LakeSettings()
    proxy = CuttingProxy(server.port, limit, of_responses=True)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(Unavailable, match=r"lost the connection to s3://\S+, cannot read lin"):
            ingest_raw(f"{bucket}/raw", dest, settings)
    assert proxy.is_cut
    done = ingest_raw(f"{bucket}/raw", dest, settings)
    assert (done.summary.files, done.summary.unreadable) == (3, 0)
    assert lake_totals(dest)["messages"] == 3


def test_object_that_is_gone_does_not_end_the_job(
    server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = RawFolder.list_files

    def list_one_more(self: RawFolder) -> list[RawFile]:
        return [*listed(self), RawFile("lin/projects/-connect/timeout.jsonl", 5, 1)]

    # An object that is deleted after it was listed; its name must not pass for a lost connection.
    monkeypatch.setattr(RawFolder, "list_files", list_one_more)
    done = ingest_raw(f"{bucket}/raw", str(tmp_path / "lake"), LakeSettings())
    assert (done.summary.files, done.summary.unreadable) == (2, 1)
