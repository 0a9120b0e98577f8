"""Targets of traces: presets for known backends, any OTLP address, or a file."""

import base64
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from turnlog.errors import UsageError
from turnlog.format.atomic import require_replaceable
from turnlog.trace.trace_settings import TraceSettings

TRACES = "/v1/traces"
METRICS = "/v1/metrics"
GRPC = ("grpc://", "grpcs://")
"""URL schemes for OTLP over gRPC, unencrypted or over TLS."""
PERFETTO = "perfetto:"
FILE_URL = "file:"
OWN_EVENTS = re.compile(
    rb'\{"traceEvents":\[(?:\]|\n\{"name":"process_name","args":\{"name":"[^"]*"\},"ph":"M",)'
)
"""The start of Perfetto files written by turnlog."""
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class Target(Struct, frozen=True):
    """An address that accepts OTLP, with headers and connection settings."""

    url: str
    project: str = ""
    """Distinguishes accounts or datasets at the same address; not a secret."""
    headers: dict[str, str] = {}
    resource: dict[str, str] = {}
    """Attributes of the OpenTelemetry resource of all spans."""
    proxy: str | None = None
    no_proxy: str = ""
    ca_file: str | None = None
    link: str | None = None
    """The URL of a trace in the backend's UI, with {trace_id}."""

    @property
    def name(self) -> str:
        """A short hash that identifies the target, used in file names."""
        # Headers are left out: after a key is rotated, the target still has the spans sent before.
        return sha256(f"{self.url} {self.project}".encode()).hexdigest()[:16]

    @property
    def address(self) -> str:
        """The URL without user name and password, safe to display."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def link_to(self, trace_id: str) -> str | None:
        """Return the URL of a trace in the backend's UI, if known."""
        return self.link.replace("{trace_id}", trace_id) if self.link else None


class FileTarget(Struct, frozen=True):
    """A file to write traces to."""

    path: Path
    is_perfetto: bool = False

    def require_replaceable(self, command: str, is_agreed: bool) -> None:
        """Raise UsageError if writing would replace a file that is not one of turnlog's traces."""
        require_replaceable(self.path, command, is_agreed, _is_own_trace)


def _is_own_trace(start: bytes) -> bool:
    """Return whether a file starts like a trace that turnlog wrote."""
    is_otlp = start.startswith(b'{"resourceSpans":[') and b'"scope":{"name":"turnlog"' in start
    return is_otlp or OWN_EVENTS.match(start) is not None


def backend_of(settings: TraceSettings) -> Target:
    """Return the backend that hooks send to; raise UsageError for a file or an unknown name."""
    target = target_of(settings, is_for_hooks=True)
    if isinstance(target, FileTarget):
        raise UsageError("hooks send to a backend, not to a file", "turnlog hook install --to URL")
    return target


def target_of(settings: TraceSettings, *, is_for_hooks: bool = False) -> Target | FileTarget:
    """Return the target that the settings name; raise UsageError if it is unknown or incomplete."""
    try:
        target = _target_of(settings, is_for_hooks)
        if isinstance(target, Target):
            _ = urlsplit(target.url).port
    except ValueError as error:
        # The address itself may contain a password.
        message = f"the address of the traces is not valid: {error}"
        raise UsageError(message, "turnlog trace --help") from error
    return target


def _target_of(settings: TraceSettings, is_for_hooks: bool) -> Target | FileTarget:
    name = settings.to or ""
    if name in PRESETS:
        target = PRESETS[name](settings)
    elif name.startswith(("http://", "https://")):
        target = Target(_traces_url(name))
    elif name.startswith(GRPC):
        target = Target(name)
    elif name.startswith(PERFETTO):
        return FileTarget(Path(name.removeprefix(PERFETTO)), is_perfetto=True)
    elif name.startswith(FILE_URL):
        return FileTarget(Path(unquote(urlsplit(name).path)))
    elif name.endswith(".json"):
        return FileTarget(Path(name))
    else:
        raise _unknown_target(name, is_for_hooks)
    return replace(
        target,
        headers=_checked(target.headers | settings.headers),
        # The preset's attributes win: Phoenix and Weave choose the project by them.
        resource=resource_attributes(settings) | target.resource,
        link=settings.link or target.link,
        proxy=settings.proxy,
        no_proxy=settings.no_proxy or "",
        ca_file=settings.ca_file,
    )


def _unknown_target(name: str, is_for_hooks: bool) -> UsageError:
    what = f"unknown target {name!r}" if name else "no target for the traces"
    presets = ", ".join(PRESETS)
    if is_for_hooks:
        hint = "turnlog hook install --to langfuse"
        return UsageError(f"{what}: expected {presets} or a URL", hint)
    hint = "turnlog trace last --to trace.json"
    return UsageError(f"{what}: expected {presets}, a URL or FILE.json", hint)


def resource_attributes(settings: TraceSettings) -> dict[str, str]:
    """Return the resource attributes from the settings."""
    found = dict(settings.resource_attributes)
    if settings.environment:
        found.setdefault("deployment.environment.name", settings.environment)
    if settings.service_name:
        found["service.name"] = settings.service_name
    return found


def _checked(headers: dict[str, str]) -> dict[str, str]:
    """Return headers; raise UsageError, without showing the value, if one is invalid."""
    for name, value in headers.items():
        if not HEADER.fullmatch(name) or not value.isprintable():
            raise UsageError(
                f"header {name!r} is not valid", "export TURNLOG_TRACE_HEADERS=NAME=VALUE"
            )
    return headers


def _langfuse(settings: TraceSettings) -> Target:
    if not (settings.public_key and settings.secret_key):
        hint = "export LANGFUSE_PUBLIC_KEY=KEY LANGFUSE_SECRET_KEY=KEY"
        raise UsageError("Langfuse needs a public key and a secret key", hint)
    host = _host(settings, "https://cloud.langfuse.com")
    headers = _basic(settings.public_key, settings.secret_key)
    headers["x-langfuse-ingestion-version"] = "4"
    url = f"{host}/api/public/otel{TRACES}"
    return Target(url, settings.public_key, headers, link=f"{host}/trace/{{trace_id}}")


def _phoenix(settings: TraceSettings) -> Target:
    host = _host(settings, "http://localhost:6006")
    key = {"authorization": f"Bearer {settings.secret_key}"} if settings.secret_key else {}
    project = settings.project or "claude-code"
    link = f"{host.removesuffix(TRACES)}/redirects/traces/{{trace_id}}"
    named = {"openinference.project.name": project}
    return Target(_traces_url(host), project, key, named, link=link)


def _mlflow(settings: TraceSettings) -> Target:
    host = _host(settings, "http://localhost:5000")
    experiment = settings.project or "0"
    page = f"{host.removesuffix(TRACES)}/#/experiments/{experiment}/traces"
    link = f"{page}?startTimeLabel=ALL&selectedEvaluationId=tr-{{trace_id}}"
    headers = {"x-mlflow-experiment-id": experiment}
    return Target(_traces_url(host), experiment, headers, link=link)


def _langsmith(settings: TraceSettings) -> Target:
    key = _key(settings, "LangSmith", "LANGSMITH_API_KEY")
    host = _host(settings, "https://api.smith.langchain.com")
    headers = {"x-api-key": key}
    if settings.project:
        headers["Langsmith-Project"] = settings.project
    return Target(f"{host}/otel{TRACES}", settings.project or "", headers)


def _weave(settings: TraceSettings) -> Target:
    key = _key(settings, "Weave", "WANDB_API_KEY")
    entity, _, project = (settings.project or "").partition("/")
    if not (entity and project):
        hint = "export TURNLOG_TRACE_WEAVE_PROJECT=ENTITY/PROJECT"
        raise UsageError("Weave needs an entity and a project", hint)
    named = {"wandb.entity": entity, "wandb.project": project}
    host = _host(settings, "https://trace.wandb.ai")
    return Target(f"{host}/otel{TRACES}", f"{entity}/{project}", {"wandb-api-key": key}, named)


def _logfire(settings: TraceSettings) -> Target:
    token = _key(settings, "Logfire", "LOGFIRE_TOKEN")
    # A write token names its region: pylf_v1_eu_….
    region = "eu" if re.match(r"pylf_v\d+_eu_", token) else "us"
    host = _host(settings, f"https://logfire-{region}.pydantic.dev")
    return Target(f"{host}{TRACES}", "", {"authorization": token})


def _honeycomb(settings: TraceSettings) -> Target:
    headers = {"x-honeycomb-team": _key(settings, "Honeycomb", "HONEYCOMB_API_KEY")}
    if settings.project:
        headers["x-honeycomb-dataset"] = settings.project
    host = _host(settings, "https://api.honeycomb.io")
    return Target(f"{host}{TRACES}", settings.project or "", headers)


def _datadog(settings: TraceSettings) -> Target:
    key = _key(settings, "Datadog", "DD_API_KEY")
    host = _host(settings, "datadoghq.com")
    # DD_SITE names a site, not an address: datadoghq.eu.
    base = host if "://" in host else f"https://otlp.{host}"
    return Target(f"{base}{TRACES}", "", {"dd-api-key": key, "dd-otlp-source": "llmobs"})


def _grafana(settings: TraceSettings) -> Target:
    token = _key(settings, "Grafana", "GRAFANA_CLOUD_API_KEY")
    if not (settings.host and settings.public_key):
        hint = "export GRAFANA_CLOUD_OTLP_ENDPOINT=URL GRAFANA_CLOUD_INSTANCE_ID=ID"
        raise UsageError("Grafana Cloud needs its OTLP endpoint and an instance id", hint)
    url = f"{_host(settings, '')}{TRACES}"
    return Target(url, settings.public_key, _basic(settings.public_key, token))


def _host(settings: TraceSettings, usual: str) -> str:
    return (settings.host or usual).rstrip("/")


def _key(settings: TraceSettings, backend: str, variable: str) -> str:
    if not settings.secret_key:
        raise UsageError(f"{backend} needs a key", f"export {variable}=KEY")
    return settings.secret_key


def _basic(user: str, password: str) -> dict[str, str]:
    keys = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {keys}"}


def _traces_url(url: str) -> str:
    """Return a URL with OTLP's default path added if it has none.

    >>> _traces_url("http://localhost:4318")
    'http://localhost:4318/v1/traces'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=TRACES)) if parts.path in ("", "/") else url


PRESETS = {
    "langfuse": _langfuse,
    "phoenix": _phoenix,
    "mlflow": _mlflow,
    "langsmith": _langsmith,
    "weave": _weave,
    "logfire": _logfire,
    "honeycomb": _honeycomb,
    "datadog": _datadog,
    "grafana": _grafana,
}
