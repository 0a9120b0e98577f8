"""DEST on an rclone remote: object stores, WebDAV, Google Drive and many more."""

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

import msgspec

from turnlog.errors import Damaged, Unavailable
from turnlog.exchange.transports import is_valid, run_program

MISSING = (3, 4)
"""rclone's exit codes for a missing directory or file."""


class _Listed(msgspec.Struct):
    Path: str
    Size: int


ROWS = msgspec.json.Decoder(list[_Listed])


class RcloneTransport:
    """Files below a path on a remote configured with `rclone config`."""

    def __init__(self, remote: str) -> None:
        self._remote = remote.rstrip("/")
        self._hint = f"rclone lsf {quote(self._remote)}"

    def list(self) -> dict[str, int]:
        flags = ("-R", "--files-only", "--no-mimetype", "--no-modtime")
        raw = run_program(
            ["rclone", "lsjson", *flags, self._remote], ignored=MISSING, hint=self._hint
        )
        try:
            rows = ROWS.decode(raw or b"[]")
        except msgspec.MsgspecError as error:
            raise Unavailable(f"rclone lsjson {self._remote}: {error}") from error
        return {row.Path: row.Size for row in rows if is_valid(row.Path)}

    def read(self, name: str, limit: int) -> bytes:
        path = f"{self._remote}/{name}"
        content = run_program(["rclone", "cat", path], limit=limit + 1, hint=self._hint)
        if len(content) > limit:
            raise Damaged(f"{path} is larger than {limit:,} bytes")
        return content

    def write(self, name: str, content: bytes) -> None:
        # Not `rclone rcat`: if turnlog is killed, rclone takes the end of its input for the end of
        # the file, and stores a truncated file under the final name.
        descriptor, temporary = tempfile.mkstemp(prefix="turnlog-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            target = f"{self._remote}/{name}"
            command = ["rclone", "copyto", "--ignore-times", temporary, target]
            run_program(command, hint=self._hint)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def remove(self, names: Iterable[str]) -> None:
        wanted = set(names)
        for name in wanted.intersection(self.list()) if wanted else ():
            run_program(["rclone", "deletefile", f"{self._remote}/{name}"], hint=self._hint)

    def finish(self) -> None:
        """Nothing to do: files are visible as soon as they are written."""
