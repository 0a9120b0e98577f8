"""Load trace settings: options take precedence over the environment, then the configuration.

The variables are turnlog's own, because the client hides OpenTelemetry's from its hooks.
"""

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Struct

from turnlog.errors import UsageError
from turnlog.format.json_values import as_object, is_array, is_object, parse_json
from turnlog.store.configuration import configuration_file, read_section
from turnlog.trace.content import MAX_CHARS, ContentMode
from turnlog.trace.note import spool_folder
from turnlog.trace.route_capture import (
    PREFIX,
    check_addresses,
    find_traceparent,
    find_variables,
    split_targets,
)
from turnlog.trace.span import ToolPlacement


class Temporality(StrEnum):
    """The period that a metric's value covers."""

    CUMULATIVE = "cumulative"
    """Everything since the start: sending it twice is harmless."""
    DELTA = "delta"
    """The change since the last export."""


class TraceSettings(Struct, frozen=True):
    """Trace settings: each may be an option, a TURNLOG_TRACE_ variable, or a key in [trace]."""

    to: str | None = None
    """A preset such as langfuse or phoenix, a URL, or a file."""
    layout: ToolPlacement = ToolPlacement.SIBLINGS
    content: ContentMode = ContentMode.REDACTED
    max_chars: Annotated[int, Meta(ge=0)] = MAX_CHARS
    user: str | None = None
    tags: tuple[str, ...] = ()
    """In a variable: comma-separated, or a JSON array."""
    environment: str | None = None
    """Langfuse's environment, and the resource's deployment.environment.name."""
    release: str | None = None
    version: str | None = None
    """Default: the client's version."""
    service_name: str | None = None
    resource_attributes: dict[str, str] = {}
    """Resource attributes; in a variable: in the format of OTEL_RESOURCE_ATTRIBUTES."""
    traceparent: str | None = None
    """The caller's span, parent of all turns, as a W3C trace context."""
    metrics: Temporality | None = None
    """The form in which metrics are sent; None turns metrics off."""
    timeout: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds to wait for the backend's response to each batch."""
    headers: dict[str, str] = {}
    """Additional headers; in a variable: NAME=VALUE, comma-separated."""
    host: str | None = None
    """The URL of a preset's backend."""
    project: str | None = None
    """The backend's project, experiment or dataset."""
    public_key: str | None = None
    """Langfuse's public key, or Grafana's instance id."""
    secret_key: str | None = None
    """The backend's key or token."""
    link: str | None = None
    """The URL of a trace in the backend's UI, with {trace_id}."""
    proxy: str | None = None
    """The HTTP proxy; default: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY."""
    no_proxy: str | None = None
    """Hosts that bypass the proxy; default: NO_PROXY."""
    ca_file: str | None = None
    """A file with trusted certificates; default: REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE."""

    @property
    def labels(self) -> dict[str, Any]:
        """The settings that label traces."""
        names = ("user", "tags", "environment", "release", "version")
        return {name: getattr(self, name) for name in names}


def load_targets(
    typed: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> list[TraceSettings]:
    """Return the settings of each target named by options, environment or configuration.

    >>> [found.to for found in load_targets({"to": ["phoenix", "x.json"]}, {"TURNLOG_HOME": "/no"})]
    ['phoenix', 'x.json']
    """
    chosen = {name: value for name, value in typed.items() if value not in (None, ())}
    configured = read_table(configuration_file(environment))
    named = chosen.get("to")
    if isinstance(named, str):  # a file's name may contain a comma
        named = [named]
    targets = split_targets(named or environment.get(f"{PREFIX}TO") or configured.get("to"))
    try:
        check_addresses(targets, environment, configured)
    except ValueError as error:
        raise UsageError(str(error), "turnlog trace --help") from error
    parent = {"traceparent": find_traceparent(environment) or None}
    is_only = len(targets) == 1
    found: list[TraceSettings] = []
    for to in targets:
        own = table_of(configured, to)
        host = str(chosen.get("host") or own.get("host") or "")
        variables = find_variables(environment, to, host, is_only)
        variables_set = {name: environment[variable] for name, variable in variables.items()}
        found.append(convert_settings(own | variables_set | parent | chosen | {"to": to or None}))
    return found


def convert_settings(
    known: Mapping[str, Any],
    where: str = "a trace setting",
    hint: str = "turnlog trace --help",
) -> TraceSettings:
    """Convert values to settings; raise UsageError if one is invalid."""
    for name, parse in PARSERS.items():
        if isinstance(known.get(name), str):
            known = {**known, name: parse(known[name])}
    try:
        # Not strict: in an environment variable, even a number is a string.
        return msgspec.convert(known, TraceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where} is not valid: {error}", hint) from error


def read_table(path: Path) -> dict[str, Any]:
    """Return [trace] of the configuration; raise UsageError if a setting in it is invalid."""
    table = read_section("trace", path)
    where, hint = f"{path}: [trace]", f"$EDITOR {path}"
    to = table.get("to", "")
    if not all(isinstance(each, str) for each in (to if is_array(to) else [to])):
        raise UsageError(f"{where} is not valid: `to` is not a target or a list of targets", hint)
    for target in ("", *split_targets(to)):
        convert_settings(table_of(table, target) | {"to": None}, where, hint)
    return table


def table_of(configured: Mapping[str, Any], to: str) -> dict[str, Any]:
    """Return the configuration for one target: [trace], overridden by [trace.TARGET]."""
    return dict(configured) | as_object(configured.get(to))


def _parse_tags(text: str) -> list[str]:
    """Parse comma-separated tags or a JSON array.

    >>> _parse_tags("a, team:b"), _parse_tags('["a", "b, c"]')
    (['a', 'team:b'], ['a', 'b, c'])
    """
    try:
        items = parse_json(text) if text.lstrip().startswith("[") else text.split(",")
    except ValueError:  # a tag may start with a bracket
        items = text.split(",")
    tags = (str(item).strip() for item in items)
    return list(dict.fromkeys(filter(None, tags)))


def _parse_attributes(text: str) -> dict[str, str]:
    """Parse attributes in the format of OTEL_RESOURCE_ATTRIBUTES, or a JSON object."""
    try:
        document = parse_json(text) if text.lstrip().startswith("{") else None
    except ValueError:
        document = None
    if is_object(document):
        return {name: str(value) for name, value in document.items()}
    return _parse_headers(text)


def _parse_headers(pairs: str) -> dict[str, str]:
    """Parse headers in the format of OTEL_EXPORTER_OTLP_HEADERS: values are percent-encoded.

    >>> _parse_headers("authorization=Basic%20YTpi, x-a=1")
    {'authorization': 'Basic YTpi', 'x-a': '1'}
    """
    split = (pair.partition("=") for pair in pairs.split(","))
    return {name.strip(): unquote(value.strip()) for name, _, value in split if name.strip()}


PARSERS: dict[str, Callable[[str], Any]] = {
    "headers": _parse_headers,
    "tags": _parse_tags,
    "resource_attributes": _parse_attributes,
}
"""Parsers for settings that are not plain strings or numbers."""


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where turnlog records what was sent."""
    return Path(spool_folder(environment)).parent
