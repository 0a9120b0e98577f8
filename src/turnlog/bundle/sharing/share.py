"""Share a session: write a redacted page or bundle, publish it on request, revoke it later.

A page is exported from the redacted bundle, not from the session: content that a bundle may not
contain cannot reach the page, and the sender's home directory is `~`.
"""

import base64
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace as replaced

from turnlog.bundle.bundler import BundleOptions, write_bundle
from turnlog.bundle.layout import lay_out
from turnlog.bundle.manifest import BundledProject, BundleManifest
from turnlog.bundle.path_tokens import PathTokens
from turnlog.bundle.sharing.gists import create_gist, delete_gist
from turnlog.bundle.sharing.object_storage import (
    delete_object,
    find_storage,
    put_object,
    put_presigned,
    require_safe_address,
    signed_link,
)
from turnlog.bundle.sharing.share_records import (
    ShareRecord,
    find_share,
    new_share_id,
    save_share,
)
from turnlog.bundle.validation import ARMOR, open_bundle, private_folder
from turnlog.conversation.session import open_session
from turnlog.errors import Conflict, NotFound, TurnlogError, Unavailable, UsageError
from turnlog.format.atomic import write_atomic
from turnlog.render.export import ExportOptions, export_session
from turnlog.render.html.encryption import derive_key
from turnlog.store.paths import Store

HTML, BUNDLE = FORMS = ("html", "bundle")
GIST = "gist"
KINDS = {HTML: "text/html; charset=utf-8", BUNDLE: "application/zstd"}
AUDIENCES = {
    "gist": "anyone who has the link, and GitHub",
    "public gist": "everyone: a public gist is listed and found by search engines",
    "s3": "anyone who has the link, for {days} days, and whoever may read the bucket",
    "url": "whoever may read that address",
    "file": "whoever may read the file",
}


@dataclass(frozen=True)
class ShareTarget:
    """A place to publish a file."""

    kind: str
    """`gist`, `s3`, `url` or `file`."""
    place: str
    is_public: bool = False
    endpoint: str | None = None
    days: int = 7

    @property
    def audience(self) -> str:
        """The people who will be able to read the file."""
        name = "public gist" if self.is_public else self.kind
        return AUDIENCES[name].format(days=self.days)


class PreparedShare(NamedTuple):
    """A file that is ready to be shared."""

    path: Path
    form: str
    manifest: BundleManifest
    is_encrypted: bool

    @property
    def session(self) -> str:
        return self.manifest.sessions[0].id


class Published(NamedTuple):
    """A file that was shared."""

    record: ShareRecord
    link: str
    """The address to pass on."""


def share_target(
    text: str, *, is_public: bool = False, endpoint: str | None = None, days: int = 7
) -> ShareTarget:
    """Return the target that a user named: `gist`, `s3://bucket/prefix`, an address or a file."""
    if text == GIST:
        return ShareTarget("gist", "", is_public)
    if is_public:
        raise UsageError("--public is for gists", "turnlog share SESSION --to gist --public")
    if text.startswith("s3://"):
        bucket, _, _ = text.removeprefix("s3://").partition("/")
        if not bucket:
            raise UsageError(f"{text} names no bucket", "turnlog share --to s3://BUCKET/PREFIX")
        return ShareTarget("s3", text, endpoint=endpoint, days=days)
    if "://" in text:
        if not text.startswith(("https://", "http://")):
            message = f"{text} is none of gist, s3://BUCKET/PREFIX, https://ADDRESS or a file"
            raise UsageError(message, "turnlog share SESSION --to FILE")
        require_safe_address(text)
        return ShareTarget("url", text)
    return ShareTarget("file", str(Path(text).absolute()))


@contextmanager
def prepared_share(
    store: Store, session: Path, form: str, password: str | None = None
) -> Generator[PreparedShare]:
    """Write a redacted page or bundle of a session to a temporary directory."""
    with private_folder() as folder:
        name = f"session-{session.stem[:8]}"
        path = folder / f"{name}.turnlog"
        is_page = form == HTML
        options = BundleOptions(password=None if is_page else password)
        report = write_bundle(store, [session], path, options)
        if is_page:
            path = _write_page(path, folder, name, password)
        yield PreparedShare(path, form, report.manifest, password is not None)


def _write_page(bundle: Path, folder: Path, name: str, password: str | None) -> Path:
    with open_bundle(bundle) as opened:
        session = opened.manifest.sessions[0]
        prefix = opened.manifest.tokens
        shown = _shown_directory(opened.manifest.projects[session.project], prefix)
        tokens = PathTokens(prefix, "~", "~/.claude", {session.project: shown})
        laid = lay_out(opened, session, folder / "store", tokens)
        path = folder / f"{name}.html"
        key = derive_key(password) if password is not None else None
        export_session(open_session(laid.transcript), path, ExportOptions("html", key=key))
    return path


def _shown_directory(project: BundledProject, prefix: str) -> str:
    return project.path.replace(f"{prefix}home}}", "~") or f"/{project.name}"


def publish(prepared: PreparedShare, target: ShareTarget) -> Published:
    """Publish a prepared file, and record it so that it can be revoked."""
    content = prepared.path.read_bytes()
    address, link = PUBLISHERS[target.kind](prepared, target, content)
    record = ShareRecord(
        new_share_id(),
        datetime.now(UTC).isoformat(timespec="seconds"),
        prepared.session,
        prepared.form,
        target.kind,
        address,
        hashlib.sha256(content).hexdigest(),
        _endpoint_of(target),
    )
    try:
        save_share(record)
    except OSError as error:
        # The file is public by now: without its address, nobody could remove it.
        message = f"shared as {address}, but not recorded: {error.strerror or error}"
        raise Unavailable(message) from error
    return Published(record, link)


def _endpoint_of(target: ShareTarget) -> str | None:
    """Return the S3 endpoint to record: the environment may name another one later."""
    if target.kind != "s3":
        return None
    bucket, _, _ = target.place.removeprefix("s3://").partition("/")
    return find_storage(bucket, target.endpoint).endpoint


def unshare(text: str) -> ShareRecord:
    """Remove a shared file, given the id of its record or its address."""
    record = find_share(text)
    if record.revoked:
        raise Conflict(f"{record.id} was revoked at {record.revoked}", "turnlog share --list")
    REVOKERS[record.target](record)
    done = replaced(record, revoked=datetime.now(UTC).isoformat(timespec="seconds"))
    save_share(done)
    return done


def _publish_gist(prepared: PreparedShare, target: ShareTarget, content: bytes) -> tuple[str, str]:
    path = prepared.path
    if prepared.form == BUNDLE:
        # Gists are text: gh refuses binary files.
        path = path.with_name(f"{path.name}.txt")
        path.write_bytes(ARMOR + base64.encodebytes(content))
    address = create_gist(path, "A Claude Code session, shared with turnlog", target.is_public)
    return address, address


def _publish_s3(prepared: PreparedShare, target: ShareTarget, content: bytes) -> tuple[str, str]:
    bucket, _, prefix = target.place.removeprefix("s3://").partition("/")
    storage = find_storage(bucket, target.endpoint)
    # A random name: in a public bucket, knowing a session's id must not be enough.
    folder = f"{prefix.rstrip('/')}/" if prefix else ""
    key = f"{folder}{new_share_id()}{new_share_id()}-{prepared.path.name}"
    put_object(storage, key, content, KINDS[prepared.form])
    return f"s3://{bucket}/{key}", signed_link(storage, key, target.days)


def _publish_url(prepared: PreparedShare, target: ShareTarget, content: bytes) -> tuple[str, str]:
    put_presigned(target.place, content, KINDS[prepared.form])
    address = urlsplit(target.place)._replace(query="", fragment="").geturl()
    return address, address


def _publish_file(prepared: PreparedShare, target: ShareTarget, content: bytes) -> tuple[str, str]:
    path = Path(target.place)
    if path.is_dir():
        path /= prepared.path.name
    if not path.parent.is_dir():
        raise NotFound(f"{path.parent} is not a directory", f"mkdir -p {quote(str(path.parent))}")
    if os.path.lexists(path):
        raise Conflict(f"{path} exists", f"ls -l {quote(str(path))}")
    write_atomic(path, content)
    return str(path), str(path)


def _revoke_gist(record: ShareRecord) -> None:
    delete_gist(record.address)


def _revoke_s3(record: ShareRecord) -> None:
    bucket, _, key = record.address.removeprefix("s3://").partition("/")
    delete_object(find_storage(bucket, record.endpoint), key)


def _revoke_url(record: ShareRecord) -> None:
    host = urlsplit(record.address).hostname
    raise TurnlogError(f"a signed upload address cannot delete the file: delete it at {host}")


def _revoke_file(record: ShareRecord) -> None:
    path = Path(record.address)
    if not path.parent.is_dir():
        # The directory may be on an unmounted network drive: others may still read the file.
        raise NotFound(f"{path.parent} does not exist", f"ls -d {quote(str(path.parent))}")
    if not os.path.lexists(path):
        return
    # Someone else's file may have taken the name since.
    if hashlib.sha256(path.read_bytes()).hexdigest() != record.sha256:
        raise Conflict(f"{path} has changed since it was shared", f"ls -l {quote(str(path))}")
    path.unlink()


PUBLISHERS = {
    "gist": _publish_gist,
    "s3": _publish_s3,
    "url": _publish_url,
    "file": _publish_file,
}
REVOKERS = {
    "gist": _revoke_gist,
    "s3": _revoke_s3,
    "url": _revoke_url,
    "file": _revoke_file,
}
