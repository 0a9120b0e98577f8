"""Store a lake in a directory or an object store; explain every error in one line.

A file appears whole or not at all: locally by renaming it, in object stores by a single upload.
"""

import errno
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from turnlog.errors import NotFound, Unavailable, UsageError
from turnlog.format.atomic import NO_SPACE
from turnlog.lake.lake_schema import pyarrow
from turnlog.lake.local_files import delete_file, require_regular, walk_files, write_file
from turnlog.store.paths import expand_user

T = TypeVar("T")

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "file")
NAMED_SCHEMES = ("s3", "gs", "abfs")
PATIENCE = 20
"""Seconds to wait for a response from an object store."""
ATTEMPTS = 3
TEMPORARY = re.compile(r"\.part-[0-9a-f]+.*\.tmp")
"""Names of files that are being written to a directory."""
UPLOADS = 8
"""Files that are written at the same time."""
REFUSED = re.compile(
    r"INVALID_ACCESS_KEY|SIGNATURE|EXPIRED_TOKEN|INVALID_CLIENT_TOKEN|ExpiredToken"
    r"|UNAUTHENTICATED|OAuth2 access token|AuthenticationException|AuthenticationFailed"
)
"""Errors of servers about credentials that are invalid or have expired."""
DENIED = re.compile(
    r"ACCESS_DENIED|FORBIDDEN|Forbidden|PermissionDenied|PERMISSION_DENIED|AuthorizationFailure|"
    + REFUSED.pattern
)
LOST = re.compile(r"NETWORK_CONNECTION|connect|timed? ?out|Timeout|INTERNAL_FAILURE|UNAVAILABLE")
NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|(?:bucket|container) does not exist", re.IGNORECASE)
QUOTED = re.compile(r"'[^']*'")
"""Names of buckets and files in pyarrow's messages."""


class StorageHints(NamedTuple):
    """Commands to suggest for an object store, with its `dest`, `bucket` and `account`."""

    bucket: str
    """The provider's word for a bucket."""
    login: str
    """Obtain the credentials that pyarrow looks for."""
    look: str
    create: str


# pyarrow finds credentials where the provider's own tools keep them: AWS variables and profiles,
# Google's application default credentials, and Azure's default credential, such as `az login`.
AZURE = StorageHints(
    "container",
    "az login",
    "az storage container list --auth-mode login --account-name {account}",
    "az storage container create --auth-mode login --account-name {account} --name {bucket}",
)
GOOGLE = StorageHints(
    "bucket",
    "gcloud auth application-default login",
    "gcloud storage ls {dest}",
    "gcloud storage buckets create gs://{bucket}",
)
HINTS = {
    "s3": StorageHints("bucket", "aws s3 ls {dest}", "aws s3 ls {dest}", "aws s3 mb s3://{bucket}"),
    "gs": GOOGLE,
    "gcs": GOOGLE,
    "abfs": AZURE,
    "abfss": AZURE,
}


class PartGone(NotFound):
    """A part was deleted since it was listed: a compaction has replaced it."""


def retried(action: Callable[[], T]) -> T:
    """Run an action that lists and reads parts; retry once if a compaction replaced one meanwhile.

    Compactions are rare and leave replaced parts for an hour, so a second failure is an error.
    """
    try:
        return action()
    except PartGone:
        return action()


class StoredFile(NamedTuple):
    """A file of a lake."""

    path: str
    """Relative to the lake."""
    size: int
    mtime: float


class LakeStorage:
    """The files of a lake; paths are relative and have forward slashes."""

    def __init__(self, dest: str, files: Any, base: str, is_local: bool) -> None:
        self.dest = dest
        """The lake as the user named it."""
        self.base = base
        """Its path within the file system."""
        self.is_local = is_local
        self.files = files
        """The pyarrow file system."""

    def full(self, path: str) -> str:
        """Return the path within the file system."""
        return f"{self.base}/{path}" if path else self.base

    def walk(self, folder: str) -> list[StoredFile]:
        """Return all files below a folder; none if it is missing."""
        fs = pyarrow("fs")
        with self._explained("list", folder):
            if self.is_local:
                return [StoredFile(*each) for each in walk_files(self.base, folder)]
            selector = fs.FileSelector(self.full(folder), recursive=True, allow_not_found=True)
            found = self.files.get_file_info(selector)
        start = len(self.base) + 1
        return [
            StoredFile(each.path[start:], each.size, each.mtime_ns / 1e9 if each.mtime_ns else 0)
            for each in found
            if each.type == fs.FileType.File
        ]

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the entries in a folder."""
        fs = pyarrow("fs")
        place = self.full(folder) if folder else self.base
        with self._explained("list", folder):
            found = self.files.get_file_info(fs.FileSelector(place, allow_not_found=True))
        return sorted(each.base_name for each in found)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        self.require_own([path])
        with self._explained("read", path), self.files.open_input_stream(self.full(path)) as file:
            return file.read()

    def require_own(self, paths: Sequence[str]) -> None:
        """Raise `Damaged` if one of the lake's paths is a symbolic link or below one."""
        with self._explained("read", paths[0]):
            if self.is_local:
                require_regular(self.base, paths)

    def write(self, path: str, content: bytes) -> None:
        """Create a file, whole or not at all."""
        with self._explained("write", path):
            if self.is_local:
                write_file(self.base, path, content)
            else:
                with self.files.open_output_stream(self.full(path)) as file:
                    file.write(content)

    def write_all(self, contents: Mapping[str, bytes]) -> None:
        """Create several files at a time; raise the first error once all attempts have ended."""
        with ThreadPoolExecutor(UPLOADS) as pool:
            done = [pool.submit(self.write, path, content) for path, content in contents.items()]
        # Raise only now: a failed upload must not leave others running behind the caller's back.
        for each in done:
            each.result()

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Read files concurrently; yield each path and content, in the given order."""
        with ThreadPoolExecutor(UPLOADS) as pool:
            known = list(paths)
            # A few at a time: a lake is larger than the memory of the machine that reads it.
            for start in range(0, len(known), UPLOADS):
                some = known[start : start + UPLOADS]
                yield from zip(some, pool.map(self.read, some), strict=True)

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it is gone."""
        with self._explained("delete", path), suppress(FileNotFoundError):
            if self.is_local:
                delete_file(self.base, path)
            else:
                self.files.delete_file(self.full(path))

    @contextmanager
    def _explained(self, verb: str, path: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError as error:
            # Only a read expects the file to exist: in a write, the bucket or folder is missing.
            if verb == "read":
                hint = f"turnlog lake verify {quote(self.dest)}"
                raise PartGone(f"{path} is gone from {self.dest}", hint) from error
            raise self.failure(verb, path, error) from error
        except OSError as error:
            raise self.failure(verb, path, error) from error
        except pyarrow().ArrowException as error:
            # Azure's errors about credentials are unknown ones to pyarrow, not errors of a file.
            raise self.failure(verb, path, OSError(str(error))) from error

    def is_outage(self, error: OSError) -> bool:
        """Return whether other files would fail the same way: no connection or no credentials."""
        # Ignore quoted names: a project may be called `connect`.
        text = QUOTED.sub("", str(error))
        return not self.is_local and bool(REFUSED.search(text) or LOST.search(text))

    def failure(self, verb: str, path: str, error: OSError) -> Unavailable | NotFound:
        """Return the error that explains why a file system failed."""
        text = " ".join(str(error).split())
        where = f"{self.dest}/{path}" if path else self.dest
        hints = self._hints()
        look = hints.look
        if NO_BUCKET.search(text) and not self.is_local:
            name = self.base.partition("/")[0]
            return NotFound(f"{self.dest}: there is no {hints.bucket} {name}", hints.create)
        if isinstance(error, PermissionError) or DENIED.search(text):
            return Unavailable(f"no permission to {verb} {where}", hints.login)
        if error.errno in NO_SPACE:
            return Unavailable(f"no space left to {verb} {where}", f"df -h {quote(self.base)}")
        if error.errno == errno.EROFS:
            return Unavailable(f"cannot {verb} {where}: it is read-only", look)
        if not self.is_local and LOST.search(text):
            what = f"cannot {verb} {path}".rstrip()
            return Unavailable(f"lost the connection to {self.dest}, {what}", look)
        reason = error.strerror or text.rpartition(" operation: ")[2].partition(" (Request ID")[0]
        return Unavailable(f"cannot {verb} {where}: {reason[:200]}", look)

    def _hints(self) -> StorageHints:
        """Return the commands to suggest for this lake."""
        if self.is_local:
            return StorageHints("", *[f"ls -ld {quote(self.base)}"] * 3)
        values = {
            "dest": quote(self.dest),
            "bucket": quote(self.base.partition("/")[0]),
            "account": quote(azure_account(self.dest)),
        }
        return StorageHints(*(each.format(**values) for each in HINTS[scheme_of(self.dest)]))


def scheme_of(dest: str) -> str:
    """Return the scheme of a URL; empty for a directory."""
    return dest.partition("://")[0] if "://" in dest else ""


def azure_account(dest: str) -> str:
    """Return the storage account in one of the forms of URL that pyarrow accepts.

    >>> azure_account("abfs://lake@team.dfs.core.windows.net/x"), azure_account("abfs://team@lake/x")
    ('team', 'team')
    """
    place = urlsplit(dest)
    host = place.hostname or ""
    return host.partition(".")[0] if "." in host else place.username or host


def open_storage(dest: str, environment: Mapping[str, str] = os.environ) -> LakeStorage:
    """Return the storage of a lake: a directory, or a URL of an object store."""
    require_dest(dest)
    scheme, colon, rest = dest.partition("://")
    if not colon:
        folder = Path(os.path.abspath(expand_user(dest)))  # noqa: PTH100
        return LakeStorage(dest, pyarrow("fs").LocalFileSystem(), folder.as_posix(), is_local=True)
    if scheme == "file":
        return open_storage(urlsplit(dest).path, environment)
    if scheme == "s3":
        return LakeStorage(dest, _s3(environment), rest.strip("/"), is_local=False)
    limit = f"{'&' if '?' in dest else '?'}retry_limit_seconds={PATIENCE}"
    is_limited = scheme in ("gs", "gcs") and "retry_limit_seconds=" not in dest
    try:
        # Without a limit, a lost connection or missing credentials would block for 15 minutes.
        files, base = pyarrow("fs").FileSystem.from_uri(f"{dest}{limit}" if is_limited else dest)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise Unavailable(f"cannot open {dest}: {reason}", _example(scheme)) from error
    return LakeStorage(dest, files, base.rstrip("/"), is_local=False)


def _example(scheme: str) -> str:
    url = "gs://bucket/lake"
    if scheme.startswith("abfs"):
        url = "abfs://container@account.dfs.core.windows.net/lake"
    return f"turnlog lake push {url}"


def open_existing(dest: str) -> LakeStorage:
    """Return the storage of an existing lake; raise `NotFound` if its directory does not exist.

    In an object store, an empty lake and a missing one look the same.
    """
    storage = open_storage(dest)
    if storage.is_local and not Path(storage.base).exists():
        raise NotFound(f"{dest} does not exist", f"turnlog lake push {quote(dest)}")
    return storage


def no_lake(dest: str) -> NotFound:
    """Return the error for a destination without a lake."""
    return NotFound(f"there is no lake in {dest}", f"turnlog lake push {quote(dest)}")


def require_dest(dest: str) -> None:
    """Raise `UsageError` if a text names neither a directory nor an object store."""
    scheme, colon, rest = dest.partition("://")
    is_printable = all(sign.isprintable() for sign in dest)
    if not dest.strip() or not is_printable or (colon and not _is_known(scheme, rest)):
        known = ", ".join(f"{each}://" for each in NAMED_SCHEMES)
        hint = "turnlog lake push s3://bucket/lake"
        raise UsageError(f"{dest!r} is not a directory or a URL with {known}", hint)


def _is_known(scheme: str, rest: str) -> bool:
    return scheme in SCHEMES and bool(rest.strip("/"))


def _s3(environment: Mapping[str, str]) -> Any:
    """Return an S3 file system, configured by the usual AWS variables."""
    fs = pyarrow("fs")
    options: dict[str, Any] = {}
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if endpoint:
        place = urlsplit(endpoint)
        options |= {"endpoint_override": place.netloc, "scheme": place.scheme or "https"}
    if region or endpoint:
        # Servers other than AWS ignore the region, but signing a request requires one.
        options["region"] = region or "us-east-1"
    # Without limits, a lost connection would block a hook for many minutes.
    return fs.S3FileSystem(
        connect_timeout=PATIENCE,
        request_timeout=PATIENCE,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        **options,
    )
