"""How to trace, from what was typed, the environment, and turnlog's configuration, in that order.

The variables are turnlog's own, as the client hides those of OpenTelemetry from its hooks.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.format.values import is_object
from turnlog.trace.content import MAX_CHARS, Mode
from turnlog.trace.note import spool_folder
from turnlog.trace.span import Layout

PREFIX = "TURNLOG_TRACE_"
NONE: Mapping[str, Any] = {}
ALIASES: dict[str, dict[str, tuple[str, ...]]] = {
    "langfuse": {
        "public_key": ("CC_LANGFUSE_PUBLIC_KEY", "LANGFUSE_PUBLIC_KEY"),
        "secret_key": ("CC_LANGFUSE_SECRET_KEY", "LANGFUSE_SECRET_KEY"),
        "host": ("CC_LANGFUSE_BASE_URL", "CC_LANGFUSE_HOST", "LANGFUSE_BASE_URL", "LANGFUSE_HOST"),
    },
    "phoenix": {
        "secret_key": ("PHOENIX_API_KEY",),
        "host": ("PHOENIX_COLLECTOR_ENDPOINT",),
        "project": ("PHOENIX_PROJECT_NAME",),
    },
    "mlflow": {"host": ("MLFLOW_TRACKING_URI",), "project": ("MLFLOW_EXPERIMENT_ID",)},
}
"""The names under which each backend's own tools know a setting."""


class Settings(Struct, frozen=True):
    """How to trace: each may be an option, a TURNLOG_TRACE_ variable, or in [trace]."""

    to: str | None = None
    """langfuse, phoenix, mlflow, an address, or a file."""
    layout: Layout = Layout.SIBLINGS
    content: Mode = Mode.REDACTED
    max_chars: int = MAX_CHARS
    user: str | None = None
    timeout: float = 10.0
    """Seconds to wait for the backend with each batch."""
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


def load_settings(
    typed: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    usual: Mapping[str, Any] = NONE,
) -> Settings:
    """The settings that hold: what was typed, then the environment, then the configuration.

    What none of them says is as usual.
    """
    chosen = {name: value for name, value in typed.items() if value is not None}
    configured = _configured(environment)
    told = _told(environment)
    to = (configured | told | chosen).get("to")
    of_target = configured.get(str(to))
    known = dict(usual) | configured | (of_target if is_object(of_target) else {})
    known |= _aliased(environment, str(to)) | told | chosen
    try:
        return msgspec.convert(known, Settings, strict=False)
    except msgspec.ValidationError as error:
        message = f"a setting of traces makes no sense: {error}"
        raise UsageError(message, "turnlog trace --help") from error


def _configured(environment: Mapping[str, str]) -> dict[str, Any]:
    path = config_file(environment)
    try:
        held = tomllib.loads(path.read_text("utf-8")).get("trace", {})
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UsageError(f"{path} is not valid: {error}", "correct it by hand") from error
    return held if is_object(held) else {}


def _told(environment: Mapping[str, str]) -> dict[str, Any]:
    names = {name: f"{PREFIX}{name.upper()}" for name in Settings.__struct_fields__}
    found: dict[str, Any] = {name: environment.get(told) for name, told in names.items()}
    if pairs := found["headers"]:
        split = (pair.partition("=") for pair in pairs.split(","))
        found["headers"] = {name.strip(): value.strip() for name, _, value in split}
    return {name: value for name, value in found.items() if value}


def _aliased(environment: Mapping[str, str], target: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, aliases in ALIASES.get(target, {}).items():
        if value := next(filter(None, map(environment.get, aliases)), None):
            found[name] = value
    return found


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """turnlog's configuration."""
    if home := environment.get("TURNLOG_HOME"):
        return Path(home) / "config.toml"
    folder = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "turnlog" / "config.toml"


def state_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where turnlog remembers what was sent."""
    return Path(spool_folder(environment)).parent
