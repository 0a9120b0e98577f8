"""Resolve the route of a hook call: its target, its settings and the sources of its credentials.

Options of the hook's command take precedence over its environment, and that over turnlog's
configuration. A credential is withheld if a project's settings could redirect it. The client waits
for the hook: this module imports only modules that Python has already loaded.
"""

import os

from turnlog.trace.note import END, write_private
from turnlog.trace.settings_folders import read_small
from turnlog.trace.variable_origin import HookPlaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

Fields = dict[str, str]
PREFIX = "TURNLOG_TRACE_"
PLAIN = (
    "to",
    "layout",
    "content",
    "max_chars",
    "user",
    "timeout",
    "host",
    "project",
    "public_key",
    "no_proxy",
    "ca_file",
    "tags",
    "environment",
    "release",
    "version",
    "service_name",
    "resource_attributes",
    "link",
    "metrics",
)
SECRET = ("secret_key", "headers", "proxy")
"""Settings that may contain credentials."""
ADDRESS = ("host", "project", "public_key", "secret_key", "headers", "link")
"""Settings that belong to one target and must never reach another."""
REPEATED = {"tag": "tags", "to": "to"}
"""Options that may be repeated, and the settings they add to."""
GENERAL: dict[str, tuple[str, ...]] = {
    "service_name": ("OTEL_SERVICE_NAME",),
    "resource_attributes": ("OTEL_RESOURCE_ATTRIBUTES",),
}
"""OpenTelemetry's own variables; the client removes them from the environment of its hooks."""
ALIASES: dict[str, dict[str, tuple[str, ...]]] = {
    "langfuse": {
        "public_key": ("CC_LANGFUSE_PUBLIC_KEY", "LANGFUSE_PUBLIC_KEY"),
        "secret_key": ("CC_LANGFUSE_SECRET_KEY", "LANGFUSE_SECRET_KEY"),
        "host": ("CC_LANGFUSE_BASE_URL", "CC_LANGFUSE_HOST", "LANGFUSE_BASE_URL", "LANGFUSE_HOST"),
        "tags": ("CC_LANGFUSE_TAGS", "LANGFUSE_TAGS"),
        "user": ("CC_LANGFUSE_USER_ID", "LANGFUSE_USER_ID"),
        "environment": (
            "CC_LANGFUSE_TRACING_ENVIRONMENT",
            "CC_LANGFUSE_ENVIRONMENT",
            "LANGFUSE_TRACING_ENVIRONMENT",
        ),
        "release": ("CC_LANGFUSE_RELEASE", "LANGFUSE_RELEASE"),
        "version": ("CC_LANGFUSE_VERSION", "LANGFUSE_VERSION"),
    },
    "phoenix": {
        "secret_key": ("PHOENIX_API_KEY",),
        "host": ("PHOENIX_COLLECTOR_ENDPOINT",),
        "project": ("PHOENIX_PROJECT_NAME",),
    },
    "mlflow": {"host": ("MLFLOW_TRACKING_URI",), "project": ("MLFLOW_EXPERIMENT_ID",)},
    "langsmith": {
        "secret_key": ("LANGSMITH_API_KEY",),
        "host": ("LANGSMITH_ENDPOINT",),
        "project": ("LANGSMITH_PROJECT",),
    },
    "weave": {"secret_key": ("WANDB_API_KEY",), "host": ("WF_TRACE_SERVER_URL",)},
    "logfire": {"secret_key": ("LOGFIRE_TOKEN",), "host": ("LOGFIRE_BASE_URL",)},
    "honeycomb": {
        "secret_key": ("HONEYCOMB_API_KEY",),
        "host": ("HONEYCOMB_API_ENDPOINT",),
        "project": ("HONEYCOMB_DATASET",),
    },
    "datadog": {"secret_key": ("DD_API_KEY",), "host": ("DD_SITE",)},
    "grafana": {
        "public_key": ("GRAFANA_CLOUD_INSTANCE_ID",),
        "secret_key": ("GRAFANA_CLOUD_API_KEY",),
        "host": ("GRAFANA_CLOUD_OTLP_ENDPOINT",),
    },
}
"""The variables that each backend's own tools use for a setting."""
PUBLIC = frozenset({"langfuse", "langsmith", "weave", "logfire", "honeycomb", "datadog"})
"""Presets whose default address is the vendor's service, over TLS."""
REACH = ("host", "headers", "proxy", "no_proxy", "ca_file")
"""Settings that decide who receives a credential, in addition to the target itself."""
TENANT = ("project", "public_key")
"""Settings that select an account or dataset at the same address."""
CACHE = "config.cache"


def capture(places: HookPlaces) -> "list[Fields]":
    """Return the complete route to each target, as the fields of a note."""
    environment = places.environment
    fields = {"project": places.project, "config": places.config, "store": places.store}
    if parent := find_traceparent(environment):
        fields["traceparent"] = parent
    try:
        if places.problem:
            raise ValueError(places.problem)
        options = parse_options(places.options)
        table = read_config(places.config, os.path.join(places.spool, CACHE))
        named = options.get("to") or environment.get(f"{PREFIX}TO") or table.get("to", "")
        targets = split_targets(named)
        check_addresses(targets, environment, table)
    except ValueError as error:
        return [fields | {"problem": str(error)}]
    is_only = len(targets) == 1
    return [_Resolution(to, is_only, places, options, table).fields(fields) for to in targets]


class _Resolution:
    """The route to one target, from options, environment and configuration."""

    def __init__(
        self, to: str, is_only: bool, places: HookPlaces, options: Fields, table: Fields
    ) -> None:
        self.to, self.places, self.options, self.table = to, places, options, table
        self.environment = places.environment
        self.configured = {
            name: table.get(
                f"{to}.{name}", table.get(name) if is_only or name not in ADDRESS else None
            )
            for name in (*PLAIN, *SECRET)
        }
        host = options.get("host") or self.configured["host"] or ""
        self.candidates = list_candidates(self.environment, to, host, is_only)
        self.variables = pick_variables(self.environment, self.candidates)
        self.chosen: Fields = {"to": to} if to else {}
        for name in PLAIN[1:]:
            variable = self.variables.get(name, "")
            value = options.get(name) or self.environment.get(variable) or self.configured[name]
            if value:
                self.chosen[name] = value

    def fields(self, known: Fields) -> Fields:
        """Return the fields of a note."""
        fields = known | {f"set.{name}": value for name, value in self.chosen.items()}
        fields["options"] = ",".join(self.options)
        for name in SECRET:
            if name in self.options:
                fields[f"secret.{name}.value"] = self.options[name]
            elif name in self.variables:
                fields |= self._from_variable(name, self.variables[name])
            elif self.configured[name] is not None:
                fields |= self._from_config(name)
        return fields

    def _from_variable(self, name: str, variable: str) -> Fields:
        if name != "proxy" and (why := self._foreign_to_variable(name, variable)):
            return {f"secret.{name}.withheld": f"{variable} is not sent: {why}"}
        return _credential(name, variable, self.places)

    def _from_config(self, name: str) -> Fields:
        config = self.places.config
        is_own = f"{self.to}.{name}" in self.table
        configured = self.configured | {"to": self.table.get("to")}
        if not is_same_address(self.chosen, configured, self.options, name, is_own):
            why = f"{name} in {config} is only sent to the target configured there"
            return {f"secret.{name}.withheld": why}
        blame = self._blame(*REACH, *TENANT)
        if not (is_own or self._is_named_by_user()):
            blame = self.places.variables.blame(f"{PREFIX}TO")
        if blame and name != "proxy":
            return {f"secret.{name}.withheld": f"{name} in {config} is not sent: {blame}"}
        return {f"secret.{name}.config": config}

    def _foreign_to_variable(self, name: str, variable: str) -> str:
        """Return why a credential from the environment must not be sent here; empty if it may.

        A key that the user's shell exports as LANGFUSE_SECRET_KEY must not be sent to the
        LANGFUSE_HOST set by a project. A project's own key may be sent wherever the project wants.
        """
        project = self.places.variables
        if project.holds(variable, self.environment[variable]):
            return ""
        if blame := self._blame(*REACH):
            return blame
        # LANGFUSE_SECRET_KEY may go to Langfuse's service, even if the project chose that target.
        # PHOENIX_API_KEY may not go to Phoenix's default address: anything may listen at
        # localhost:6006.
        is_of_backend = self.to in ALIASES and variable != f"{PREFIX}{name.upper()}"
        if is_of_backend and (self.to in PUBLIC or "host" in self.chosen):
            return ""
        return "" if self._is_named_by_user() else project.blame(f"{PREFIX}TO")

    def _is_named_by_user(self) -> bool:
        if "to" in self.options or self.to in split_targets(self.table.get("to")):
            return True
        return not self.places.variables.sets(f"{PREFIX}TO")

    def _blame(self, *names: str) -> str:
        """Return how the project changes any of the named settings; empty if it does not."""
        project = self.places.variables
        for name in names:
            for variable in () if name in self.options else self.candidates[name]:
                # An empty variable counts as well: with LANGFUSE_HOST="", the key for the user's
                # own host would be sent to the default host.
                if project.sets(variable):
                    return project.blame(variable)
                if self.environment.get(variable):
                    break
        return ""


def is_same_address(
    chosen: "Mapping[str, str | None]",
    configured: "Mapping[str, Any]",
    options: "Mapping[str, str] | Sequence[str]",
    name: str,
    is_own: bool,
) -> bool:
    """Return whether a credential from the configuration is meant for the chosen address.

    With to = "honeycomb" in the configuration, its key must not be sent to an address or preset
    that only the environment names. `is_own` means that the credential is in the target's own
    table, [trace.TARGET].
    """
    to = chosen.get("to") or ""
    named = split_targets(configured.get("to"))
    is_named = to in named and (len(named) == 1 or name not in ADDRESS)
    is_open = named == [""] and "://" not in to
    if not ("to" in options or is_own or is_named or is_open):
        return False
    return all(
        setting in options or chosen.get(setting) == (configured.get(setting) or None)
        for setting in ("host", "public_key")
        if setting == "host" or configured.get(setting)
    )


def parse_options(arguments: "Sequence[str]") -> Fields:
    """Return the options of the hook's command as settings; raise ValueError if invalid."""
    names, values = arguments[::2], arguments[1::2]
    if len(names) != len(values) or not all(name.startswith("--") for name in names):
        raise ValueError(f"the hook's options cannot be parsed: {' '.join(arguments)}")
    found: Fields = {}
    for name, value in zip(names, values, strict=True):
        setting = REPEATED.get(name[2:], name[2:].replace("-", "_"))
        is_more = setting in found and setting in REPEATED.values()
        found[setting] = f"{found[setting]},{value}" if is_more else value
    return found


def split_targets(named: "Sequence[str] | str | None") -> "list[str]":
    """Return the targets in a setting without duplicates; one empty name if there are none.

    >>> split_targets("langfuse, phoenix"), split_targets(["a", "b"]), split_targets(None)
    (['langfuse', 'phoenix'], ['a', 'b'], [''])
    """
    parts = named.split(",") if isinstance(named, str) else named or ()
    found = [str(part).strip() for part in parts]
    return list(dict.fromkeys(filter(None, found))) or [""]


def check_addresses(
    targets: "Sequence[str]", environment: "Mapping[str, str]", table: "Mapping[str, object]"
) -> None:
    """Raise ValueError if an address or key could be for any of several targets.

    With TURNLOG_TRACE_TO=langfuse,https://example.com, a key in TURNLOG_TRACE_HEADERS would
    otherwise be sent to both.
    """
    if len(targets) == 1:
        return
    for name in ADDRESS:
        if environment.get(f"{PREFIX}{name.upper()}"):
            owner = f"{PREFIX}{targets[0].upper()}_{name.upper()}"
            hint = owner if targets[0] in ALIASES else "turnlog's configuration"
            raise ValueError(f"{PREFIX}{name.upper()} would reach every target: use {hint}")
        if table.get(name) is not None:
            raise ValueError(f"with several targets, {name} belongs in [trace.{targets[0]}]")


def find_traceparent(environment: "Mapping[str, str]") -> str:
    """Return the caller's W3C trace context from the environment; empty if there is none."""
    names = (f"{PREFIX}TRACEPARENT", "CC_LANGFUSE_TRACEPARENT", "TRACEPARENT")
    return next((environment[name] for name in names if environment.get(name)), "")


def find_variables(
    environment: "Mapping[str, str]", to: str, host: str = "", is_only: bool = True
) -> Fields:
    """Return the settings that the environment sets, each with the name of its variable."""
    return pick_variables(environment, list_candidates(environment, to, host, is_only))


def pick_variables(
    environment: "Mapping[str, str]", candidates: "Mapping[str, Sequence[str]]"
) -> Fields:
    """Return the first non-empty variable of each setting."""
    found = {
        name: next((variable for variable in variables if environment.get(variable)), "")
        for name, variables in candidates.items()
    }
    return {name: variable for name, variable in found.items() if variable}


def list_candidates(
    environment: "Mapping[str, str]", to: str, host: str, is_only: bool
) -> "dict[str, tuple[str, ...]]":
    """Return the variables that may set each setting, in order of precedence.

    `to` and `host` decide which proxy applies. With several targets, an address or key is read only
    from variables that contain the target's name.
    """
    found: dict[str, tuple[str, ...]] = {}
    aliases = ALIASES.get(to, {})
    for name in (*PLAIN, *SECRET):
        candidates = (*aliases.get(name, ()), *GENERAL.get(name, ()))
        if is_only or name not in ADDRESS:
            candidates = (f"{PREFIX}{name.upper()}", *candidates)
        if to in ALIASES:
            candidates = (f"{PREFIX}{to.upper()}_{name.upper()}", *candidates)
        found[name] = candidates
    variable = pick_variables(environment, {"host": found["host"]}).get("host", "")
    address = environment.get(variable) or host or to
    is_plain = address.startswith("http://") or address in ("phoenix", "mlflow")
    scheme = "http" if is_plain else "https"
    found["proxy"] += (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
    found["no_proxy"] += ("no_proxy", "NO_PROXY")
    found["ca_file"] += ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return found


def read_config(path: str, cache: str) -> Fields:
    """Return the [trace] table of the configuration, flattened, with "" in place of credentials.

    Importing tomllib takes longer than starting Python, so the result is cached until the file
    changes. Raise ValueError if the file is not valid TOML.
    """
    try:
        state = os.stat(path)
    except OSError:
        return {}
    stamp = f"{path} {state.st_mtime_ns} {state.st_size} {state.st_ino}"
    try:
        with open(cache, "rb") as file:
            head, _, rest = file.read().partition(END)
    except OSError:
        head = rest = b""
    if head != os.fsencode(stamp):
        rest = "\0".join(f"{name}={value}" for name, value in _parsed_config(path)).encode()
        try:
            write_private(cache, os.fsencode(stamp) + END + rest)
        except OSError:  # the next hook parses the file again
            pass
    pairs = (field.partition("=") for field in rest.decode().split("\0") if field)
    return {name: value for name, _, value in pairs}


def _parsed_config(path: str) -> "list[tuple[str, str]]":
    from turnlog.format.json_values import is_object
    from turnlog.store.configuration import parse_toml

    try:
        trace = parse_toml(read_small(path)).get("trace")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not valid: {error}") from error
    found: list[tuple[str, str]] = []
    for name, value in trace.items() if is_object(trace) else ():
        if is_object(value) and name not in (*PLAIN, *SECRET):
            found += [(f"{name}.{key}", _shown(key, inner)) for key, inner in value.items()]
        else:
            found.append((name, _shown(name, value)))
    return found


def _shown(name: str, value: "Any") -> str:
    if name in SECRET:
        return ""
    from turnlog.format.json_values import is_array

    if is_array(value) and name == "to":
        return ",".join(str(item) for item in value)
    if isinstance(value, list | dict):
        import json

        return json.dumps(value)
    return str(value).replace("\0", "")


def _credential(name: str, variable: str, places: HookPlaces) -> Fields:
    """Return the fields that describe a credential: its source, or its value if there is no source.

    The client merges `env` of its settings files into the environment of hooks, so the value is
    usually in one of them. A value that exists only in the environment (exported in a shell) would
    be lost when the hook ends; it is stored in the note, which only the user can read.
    """
    value = places.environment[variable]
    for path in (*places.variables.files, os.path.join(places.store, "settings.json")):
        if _contains(path, variable, value):
            return {
                f"secret.{name}.file": path,
                f"secret.{name}.variable": variable,
                f"secret.{name}.fingerprint": fingerprint(value),
            }
    return {f"secret.{name}.value": value}


def _contains(path: str, variable: str, value: str) -> bool:
    """Return whether a JSON file contains a name with exactly this value."""
    try:
        content = read_small(path)
    except (OSError, ValueError):
        return False
    # A byte search instead of parsing: importing json takes too long. A value that is written with
    # escapes is not found, and is then stored in the note.
    key = f'"{variable}"'.encode("utf-8", "surrogateescape")
    expected = f'"{value}"'.encode("utf-8", "surrogateescape")
    for after in content.split(key)[1:]:
        colon = after.lstrip()
        if colon[:1] == b":" and colon[1:].lstrip().startswith(expected):
            return True
    return False


def fingerprint(value: str) -> str:
    """Return a digest that recognizes a credential without revealing it."""
    # hashlib would load OpenSSL, which takes a third as long as starting Python.
    from _blake2 import blake2b

    return blake2b(value.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
