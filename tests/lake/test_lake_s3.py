"""A lake in an object store: a real S3 server on loopback."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from support.lake_machines import PushingMachine, lake_totals, numbered_turn
from support.s3_server import CuttingProxy, S3Server, free_port, s3_server
from turnlog.errors import NotFound, Unavailable
from turnlog.index.reports.reports import ReportRequest
from turnlog.lake.lake_compaction import CompactOptions, compact
from turnlog.lake.lake_forgetting import ForgetRequest, forget
from turnlog.lake.lake_reports import LakeSource, lake_report_batch
from turnlog.lake.lake_status import lake_status, pull
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.lake_verification import verify
from turnlog.store.deletion_consent import agreed

A = "5e551011-0000-4000-8000-00000000000a"


@pytest.fixture(scope="module")
def server() -> Generator[S3Server]:
    with s3_server() as found:
        yield found


@pytest.fixture(autouse=True)
def _variables(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def machine(server: S3Server, tmp_path: Path) -> PushingMachine:
    found = PushingMachine(tmp_path / "ada", f"s3://{server.new_bucket()}/team/lake")
    found.write(numbered_turn(1), A)
    return found


def test_everything_works_in_a_bucket(machine: PushingMachine, tmp_path: Path) -> None:
    dest = machine.dest
    assert machine.push().rows == 5
    machine.append(numbered_turn(2), A)
    assert machine.push().version == 2
    assert machine.push().parts == 0
    totals = lake_totals(dest)
    assert (totals["messages"], totals["turns"], totals["calls"]) == (4, 2, 2)
    with machine.environment():
        assert lake_status(dest).machines[0].files == 1
        assert verify(machine.store, dest, machine.settings).findings == []
        assert compact(dest, CompactOptions(grace=0)).deleted > 0
        assert lake_totals(dest) == totals
        pull(dest, str(tmp_path / "copy"))
        assert lake_totals(str(tmp_path / "copy")) == totals
        forget(dest, machine.settings, ForgetRequest(session=A, consent=agreed))
    assert lake_totals(dest)["messages"] == 0
    assert machine.push().forgotten == 1


@contextmanager
def through(port: int) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield


@pytest.mark.parametrize("limit", [0, 4_000, 12_000, 20_000, 30_000])
def test_connection_lost_half_way(server: S3Server, machine: PushingMachine, limit: int) -> None:
    machine.push()
    before = lake_totals(machine.dest)
    machine.write(numbered_turn(3) + numbered_turn(4), A)
    proxy = CuttingProxy(server.port, limit)
    with through(proxy.port), pytest.raises(Unavailable) as raised:
        machine.push()
    assert proxy.is_cut
    assert "lost the connection to s3://" in raised.value.line
    assert "\n" not in raised.value.line
    after = lake_totals(machine.dest)
    assert after == before
    machine.push()
    totals = lake_totals(machine.dest)
    assert (totals["messages"], totals["calls"]) == (4, 2)
    with machine.environment():
        assert verify(machine.store, machine.dest, machine.settings).findings == []


def test_missing_bucket_is_one_clear_line(machine: PushingMachine) -> None:
    machine.dest = "s3://no-such-bucket-here/lake"
    with pytest.raises(NotFound, match="there is no bucket no-such-bucket-here"):
        machine.push()


def test_server_that_is_down_is_one_clear_line(machine: PushingMachine) -> None:
    with through(free_port()), pytest.raises(Unavailable, match="lost the connection to s3://"):
        machine.push()


class _Refusal(BaseHTTPRequestHandler):
    """Answers every request as S3 does to those who have no permission."""

    code = "AccessDenied"

    def do_GET(self) -> None:
        body = f"<Error><Code>{self.code}</Code><Message>No.</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    do_HEAD = do_PUT = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_missing_permissions_are_one_clear_line(machine: PushingMachine, code: str) -> None:
    handler = type("_Coded", (_Refusal,), {"code": code})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as refusing:
        Thread(target=refusing.serve_forever, daemon=True).start()
        with through(refusing.server_port), pytest.raises(Unavailable) as raised:
            machine.push()
        refusing.shutdown()
    assert raised.value.line == (
        f"no permission to list {machine.dest} (try: aws s3 ls {machine.dest})"
    )


def test_parts_are_listed_by_prefix(machine: PushingMachine) -> None:
    machine.push()
    storage = open_storage(machine.dest)
    assert storage.names() == ["v1"]
    assert all(each.size > 0 for each in storage.walk("v1"))


def test_reports_read_a_bucket(machine: PushingMachine) -> None:
    machine.push()
    machine.append(numbered_turn(2), A)
    machine.push()
    requests = [ReportRequest(name) for name in ("model", "tool", "daily", "blocks")]
    model, tool, daily, blocks = lake_report_batch(LakeSource(machine.dest), requests)
    assert [row["turns"] for row in model.rows] == [2]
    assert [(row["name"], row["calls"]) for row in tool.rows] == [("Bash", 2)]
    assert daily.total["turns"] == 2
    assert blocks.total["messages"] == 4
