"""Trace settings: options first, then the environment, then turnlog's configuration.

The variables are turnlog's own, because the client hides OpenTelemetry's from its hooks.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.format.values import is_object
from turnlog.trace.capture import config_path, find_variables
from turnlog.trace.content import MAX_CHARS, Mode
from turnlog.trace.note import spool_folder
from turnlog.trace.span import Layout


class Settings(Struct, frozen=True):
    """How to trace: each may be an option, a TURNLOG_TRACE_ variable, or in [trace]."""

    to: str | None = None
    """langfuse, phoenix, mlflow, an address, or a file."""
    layout: Layout = Layout.SIBLINGS
    content: Mode = Mode.REDACTED
    max_chars: int = MAX_CHARS
    user: str | None = None
    timeout: float = 60.0
    """Seconds to wait for the backend's answer to each batch."""
    headers: dict[str, str] = {}
    """Further headers; in a variable as NAME=VALUE, with commas between them."""
    host: str | None = None
    """Where Langfuse, Phoenix or MLflow is."""
    project: str | None = None
    """Phoenix's project, or MLflow's experiment."""
    public_key: str | None = None
    """Langfuse's."""
    secret_key: str | None = None
    """Langfuse's, or Phoenix's key."""
    proxy: str | None = None
    """The HTTP proxy; by default that of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."""
    no_proxy: str | None = None
    """Hosts that are reached without the proxy; by default those of NO_PROXY."""
    ca_file: str | None = None
    """Trusted certificates; by default those of REQUESTS_CA_BUNDLE."""


def load_settings(
    typed: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Resolve settings from options, environment and configuration."""
    chosen = {name: value for name, value in typed.items() if value is not None}
    configured = read_table(config_file(environment))
    to = str((configured | _from_environment(environment, "") | chosen).get("to"))
    own = table_of(configured, to)
    host = chosen.get("host") or own.get("host")
    known = own | _from_environment(environment, to, str(host or "")) | chosen
    return convert_settings(known)


def convert_settings(known: Mapping[str, Any]) -> Settings:
    """Return settings of the right types; raise UsageError if a value does not fit."""
    if isinstance(known.get("headers"), str):
        known = {**known, "headers": _parse_headers(known["headers"])}
    try:
        return msgspec.convert(known, Settings, strict=False)
    except msgspec.ValidationError as error:
        message = f"a trace setting is not valid: {error}"
        raise UsageError(message, "turnlog trace --help") from error


def read_table(path: Path) -> dict[str, Any]:
    """Return [trace] of the configuration; empty if there is none."""
    try:
        held = tomllib.loads(path.read_text("utf-8")).get("trace", {})
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{path} is not valid: {error}", "correct it by hand") from error
    return held if is_object(held) else {}


def table_of(configured: Mapping[str, Any], to: str) -> dict[str, Any]:
    """Return what the configuration says for one target: [trace], then [trace.TARGET]."""
    own = configured.get(to)
    return dict(configured) | (own if is_object(own) else {})


def _from_environment(environment: Mapping[str, str], to: str, host: str = "") -> dict[str, Any]:
    return {name: environment[each] for name, each in find_variables(environment, to, host).items()}


def _parse_headers(pairs: str) -> dict[str, str]:
    """Return headers as OTEL_EXPORTER_OTLP_HEADERS has them: values are percent-encoded.

    >>> _parse_headers("authorization=Basic%20YTpi, x-a=1")
    {'authorization': 'Basic YTpi', 'x-a': '1'}
    """
    split = (pair.partition("=") for pair in pairs.split(","))
    return {name.strip(): unquote(value.strip()) for name, _, value in split if name.strip()}


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of turnlog's configuration."""
    return Path(config_path(environment))


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where turnlog remembers what was sent."""
    return Path(spool_folder(environment)).parent
