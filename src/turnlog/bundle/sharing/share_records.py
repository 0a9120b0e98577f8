"""Records of shared files, in turnlog's own directory; `unshare` needs them."""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from turnlog.errors import Ambiguous, Damaged, NotFound
from turnlog.format.atomic import write_atomic
from turnlog.format.locks import lock
from turnlog.format.private_files import open_private, secure_folder
from turnlog.store.directories import data_directory


class ShareRecord(Struct, frozen=True):
    """One file that was shared."""

    id: str
    time: str
    session: str
    form: str
    """`html` or `bundle`."""
    target: str
    """`gist`, `s3`, `url` or `file`."""
    address: str
    """Its address without a signature, which would let anyone read it."""
    sha256: str
    endpoint: str | None = None
    """The endpoint of S3-compatible storage."""
    revoked: str | None = None
    """When the file was removed again."""


def new_share_id() -> str:
    """Return a short random id."""
    return secrets.token_hex(4)


def records_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file with all records."""
    return Path(data_directory(environment)) / "shares.json"


def read_shares() -> list[ShareRecord]:
    """Return all records, oldest first."""
    path = records_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[ShareRecord])
    except FileNotFoundError:
        return []
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}", f"mv {path} {path}.old") from error


def save_share(record: ShareRecord) -> None:
    """Add a record, or replace the one with its id."""
    path = records_file()
    secure_folder(path.parent)
    guard = open_private(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        # Two shares at the same time: each must keep the record of the other.
        with suppress(OSError):  # some file systems have no locks
            lock(guard)
        others = [each for each in read_shares() if each.id != record.id]
        found = msgspec.json.format(msgspec.json.encode([*others, record]))
        write_atomic(path, found + b"\n")
    finally:
        os.close(guard)


def find_share(text: str) -> ShareRecord:
    """Return the record that an id, the start of one, or an address names."""
    shares = read_shares()
    matches = [each for each in shares if text and each.id.startswith(text)]
    matches = matches or [each for each in shares if each.address == text.partition("?")[0]]
    active = [each for each in matches if not each.revoked] or matches
    if not active:
        raise NotFound(f"nothing was shared as {text!r}", "turnlog share --list")
    if len(active) > 1:
        rows = [f"{each.id}  {each.address}" for each in active]
        raise Ambiguous(f"{text!r} matches {len(active)} shares", rows)
    return active[0]
