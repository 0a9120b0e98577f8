"""Errors of object stores: one line, with the command of the provider whose storage it is."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from turnlog.errors import Unavailable
from turnlog.lake.lake_schema import pyarrow
from turnlog.lake.lake_storage import LakeStorage, open_storage

AZURE = "abfs://lake@team.dfs.core.windows.net/x"
# As pyarrow reports them (observed, except for the missing container and bucket).
NO_TOKEN = (
    "Unknown error: AuthenticationException: Failed to get token from DefaultAzureCredential."
)
NO_OAUTH = "google::cloud::Status(UNAVAILABLE: Could not create a OAuth2 access token to auth…"
LOST = "google::cloud::Status(UNAVAILABLE: PerformWork() - CURL error [7]=Could not connect)"
LOGIN = "gcloud auth application-default login"
NEW_CONTAINER = "az storage container create --auth-mode login --account-name team --name lake"


@pytest.mark.parametrize(
    ("dest", "text", "line"),
    [
        (AZURE, NO_TOKEN, f"no permission to list {AZURE} (try: az login)"),
        (
            AZURE,
            "ContainerNotFound: The specified container does not exist.",
            f"{AZURE}: there is no container lake (try: {NEW_CONTAINER})",
        ),
        ("gs://team/x", NO_OAUTH, f"no permission to list gs://team/x (try: {LOGIN})"),
        (
            "gs://team/x",
            LOST,
            "lost the connection to gs://team/x, cannot list (try: gcloud storage ls gs://team/x)",
        ),
        (
            "gcs://team/x",
            "NOT_FOUND: The specified bucket does not exist.",
            "gcs://team/x: there is no bucket team (try: gcloud storage buckets create gs://team)",
        ),
        (
            "s3://team/x",
            "When listing: AWS Error NO_SUCH_BUCKET",
            "s3://team/x: there is no bucket team (try: aws s3 mb s3://team)",
        ),
    ],
)
def test_hints_name_the_tool_of_the_provider(dest: str, text: str, line: str) -> None:
    base = "lake/x" if dest == AZURE else "team/x"
    storage = LakeStorage(dest, None, base, is_local=False)
    error = storage.failure("list", "", OSError(text))
    assert error.line == line
    assert storage.is_outage(OSError(text)) == (text in (NO_TOKEN, NO_OAUTH, LOST))


def test_unknown_errors_of_azure_are_one_clear_line() -> None:
    class Files:
        def get_file_info(self, selector: Any) -> None:
            raise pyarrow().ArrowException(NO_TOKEN)

    storage = LakeStorage(AZURE, Files(), "lake/x", is_local=False)
    for action in (lambda: storage.walk("v1"), storage.names):
        with pytest.raises(Unavailable, match="no permission to list abfs://") as raised:
            action()
        assert raised.value.hint == "az login"


def test_a_url_without_an_account_is_answered_with_a_url_that_works() -> None:
    with pytest.raises(Unavailable, match="valid account name") as raised:
        open_storage("abfs://lake/x")
    dest = "abfs://container@account.dfs.core.windows.net/lake"
    assert raised.value.hint == f"turnlog lake push {dest}"
    assert open_storage(dest).base == "container/lake"


class _Refusal(BaseHTTPRequestHandler):
    """Answers every request as Google's storage does to those who have no permission."""

    def do_GET(self) -> None:
        body = b'{"error": {"code": 403, "message": "no storage.objects.list access"}}'
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def refusing_server() -> Generator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusal) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_refusal_of_googles_storage_names_its_login() -> None:
    with refusing_server() as port:
        dest = f"gs://anonymous@team/x?endpoint_override=localhost:{port}&scheme=http"
        with pytest.raises(Unavailable, match="no permission to list gs://") as raised:
            open_storage(dest).names()
    assert raised.value.hint == LOGIN
