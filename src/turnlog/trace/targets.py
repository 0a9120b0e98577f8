"""Targets: presets for known backends, any OTLP address, or a file."""

import base64
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from turnlog.errors import UsageError
from turnlog.trace.settings import Settings

TRACES = "/v1/traces"
PERFETTO = "perfetto:"
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Target(Struct, frozen=True):
    """An address that takes OTLP, and what it wants to be told."""

    url: str
    project: str = ""
    """What tells apart those who share the address; not a secret."""
    headers: dict[str, str] = {}
    resource: dict[str, str] = {}
    """Attributes of the resource that all spans share."""
    proxy: str | None = None
    no_proxy: str = ""
    ca_file: str | None = None

    @property
    def name(self) -> str:
        """Tells one target from another."""
        return sha256(f"{self.url} {self.project}".encode()).hexdigest()[:16]

    @property
    def address(self) -> str:
        """The URL as it may be shown: without a user name and password."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class FileTarget(Struct, frozen=True):
    """A file to write."""

    path: Path
    is_perfetto: bool = False


def target_of(settings: Settings) -> Target | FileTarget:
    """The target that a user named: a preset, an address, or a file."""
    told = settings.to or ""
    if told in PRESETS:
        target = PRESETS[told](settings)
    elif told.startswith(("http://", "https://")):
        target = Target(_traces_url(told))
    elif told.startswith(PERFETTO):
        return FileTarget(Path(told.removeprefix(PERFETTO)), is_perfetto=True)
    elif told.endswith(".json"):
        return FileTarget(Path(told))
    else:
        what = f"turnlog knows no target {told!r}" if told else "say where to send the traces"
        raise UsageError(what, "--to langfuse|phoenix|mlflow|URL|FILE.json")
    return replace(
        target,
        headers=_checked(target.headers | settings.headers),
        proxy=settings.proxy,
        no_proxy=settings.no_proxy or "",
        ca_file=settings.ca_file,
    )


def _checked(headers: dict[str, str]) -> dict[str, str]:
    """Return headers, unless one could break the request: the error names no value."""
    for name, value in headers.items():
        if not HEADER.fullmatch(name) or not value.isprintable():
            raise UsageError(f"header {name!r} is not valid", "check TURNLOG_TRACE_HEADERS")
    return headers


def _langfuse(settings: Settings) -> Target:
    if not (settings.public_key and settings.secret_key):
        hint = "set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
        raise UsageError("Langfuse needs a public key and a secret key", hint)
    host = (settings.host or "https://cloud.langfuse.com").rstrip("/")
    keys = base64.b64encode(f"{settings.public_key}:{settings.secret_key}".encode()).decode()
    headers = {"authorization": f"Basic {keys}", "x-langfuse-ingestion-version": "4"}
    return Target(f"{host}/api/public/otel{TRACES}", settings.public_key, headers)


def _phoenix(settings: Settings) -> Target:
    url = _traces_url(settings.host or "http://localhost:6006")
    key = {"authorization": f"Bearer {settings.secret_key}"} if settings.secret_key else {}
    project = settings.project or "claude-code"
    return Target(url, project, key, {"openinference.project.name": project})


def _mlflow(settings: Settings) -> Target:
    url = _traces_url(settings.host or "http://localhost:5000")
    experiment = settings.project or "0"
    return Target(url, experiment, {"x-mlflow-experiment-id": experiment})


def _traces_url(url: str) -> str:
    """An address as it is, or with OTLP's own path where it has none.

    >>> _traces_url("http://localhost:4318")
    'http://localhost:4318/v1/traces'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=TRACES)) if parts.path in ("", "/") else url


PRESETS = {"langfuse": _langfuse, "phoenix": _phoenix, "mlflow": _mlflow}
