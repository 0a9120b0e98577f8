"""Resolve a hook call's route: where its traces go, how, and where the credentials are.

Runs once, when the hook fires, on the options of its command, then the environment the client gave
it, then turnlog's configuration. Imports only what Python has loaded anyway: the client waits.
"""

import os

from turnlog.trace.note import END, write_private

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
"""Settings that belong to one target, and must never reach another."""
REPEATED = {"tag": "tags", "to": "to"}
"""Options that may be given several times, and the settings they add to."""
GENERAL: dict[str, tuple[str, ...]] = {
    "service_name": ("OTEL_SERVICE_NAME",),
    "resource_attributes": ("OTEL_RESOURCE_ATTRIBUTES",),
}
"""OpenTelemetry's own variables; the client hides them from its hooks."""
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
"""The variables under which each backend's own tools know a setting."""
CACHE = "config.cache"
SETTINGS_LIMIT = 1 << 20
"""Bytes of a client's settings file that are searched for a credential."""


def capture(
    arguments: "Sequence[str]", environment: "Mapping[str, str]", spool: str
) -> "list[Fields]":
    """Return the fields of a note for each target: the complete route of what it announces."""
    config = os.path.abspath(config_path(environment))
    store = environment.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    fields = {
        "project": os.path.realpath(environment.get("CLAUDE_PROJECT_DIR") or os.getcwd()),
        "config": config,
        "store": os.path.abspath(store),
    }
    if parent := find_traceparent(environment):
        fields["traceparent"] = parent
    try:
        options = parse_options(arguments)
        table = read_config(config, os.path.join(spool, CACHE))
        named = options.get("to") or environment.get(f"{PREFIX}TO") or table.get("to", "")
        targets = split_targets(named)
        check_addresses(targets, environment, table)
    except ValueError as error:
        return [fields | {"problem": str(error)}]
    is_only = len(targets) == 1
    return [_resolve(to, is_only, fields, options, environment, table) for to in targets]


def _resolve(
    to: str,
    is_only: bool,
    fields: Fields,
    options: Fields,
    environment: "Mapping[str, str]",
    table: Fields,
) -> Fields:
    """Return the fields of a note for one target."""
    config = fields["config"]
    configured = {
        name: table.get(f"{to}.{name}", table.get(name) if is_only or name not in ADDRESS else None)
        for name in (*PLAIN, *SECRET)
    }
    host = options.get("host") or configured["host"] or ""
    variables = find_variables(environment, to, host, is_only)
    chosen: Fields = {"to": to} if to else {}
    for name in PLAIN[1:]:
        value = options.get(name) or environment.get(variables.get(name, "")) or configured[name]
        if value:
            chosen[name] = value
    fields = fields | {f"set.{name}": value for name, value in chosen.items()}
    fields["options"] = ",".join(options)
    for name in SECRET:
        if name in options:
            fields[f"secret.{name}.value"] = options[name]
        elif name in variables:
            fields |= _credential(name, variables[name], environment, fields)
        elif configured[name] is not None:
            is_safe = is_same_address(chosen, configured, options)
            fields[f"secret.{name}.{'config' if is_safe else 'withheld'}"] = config
    return fields


def is_same_address(
    chosen: "Mapping[str, str | None]",
    configured: "Mapping[str, str | None]",
    options: "Mapping[str, str] | Sequence[str]",
) -> bool:
    """Return whether the configuration's credentials are meant for the chosen address.

    A project's settings may set TURNLOG_TRACE_TO or LANGFUSE_HOST. The key in the user's
    configuration must not follow to an address that only the environment names.
    """
    to = chosen.get("to") or ""
    if "://" in to and "to" not in options and to not in split_targets(configured.get("to")):
        return False
    names = ["host", "public_key"]
    return all(
        name in options or chosen.get(name) == (configured.get(name) or None)
        for name in names
        if name != "public_key" or configured.get(name)
    )


def parse_options(arguments: "Sequence[str]") -> Fields:
    """Return the options of the hook's command as settings; raise ValueError if they are odd."""
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
    """Return the targets that a setting names, each once; one empty name if there are none.

    >>> split_targets("langfuse, phoenix"), split_targets(["a", "b"]), split_targets(None)
    (['langfuse', 'phoenix'], ['a', 'b'], [''])
    """
    parts = named.split(",") if isinstance(named, str) else named or ()
    found = [str(part).strip() for part in parts]
    return list(dict.fromkeys(filter(None, found))) or [""]


def check_addresses(
    targets: "Sequence[str]", environment: "Mapping[str, str]", table: "Mapping[str, object]"
) -> None:
    """Raise ValueError if it is unclear which of several targets an address or key is for.

    With TURNLOG_TRACE_TO=langfuse,https://example.com, a key in TURNLOG_TRACE_HEADERS would
    otherwise go to both.
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
    """Return the W3C trace context that the environment names as the caller's."""
    names = (f"{PREFIX}TRACEPARENT", "CC_LANGFUSE_TRACEPARENT", "TRACEPARENT")
    return next((environment[name] for name in names if environment.get(name)), "")


def find_variables(
    environment: "Mapping[str, str]", to: str, host: str = "", is_only: bool = True
) -> Fields:
    """Return the name of the variable that holds each setting, for those the environment has.

    `to` and `host` are what else is known of the target: they decide which proxy applies. Of
    several targets, each has only variables that name it.
    """
    found: Fields = {}
    aliases = ALIASES.get(to, {})
    for name in (*PLAIN, *SECRET):
        candidates = (*aliases.get(name, ()), *GENERAL.get(name, ()))
        if is_only or name not in ADDRESS:
            candidates = (f"{PREFIX}{name.upper()}", *candidates)
        if to in ALIASES:
            candidates = (f"{PREFIX}{to.upper()}_{name.upper()}", *candidates)
        held = next((each for each in candidates if environment.get(each)), None)
        if held:
            found[name] = held
    address = environment.get(found.get("host", "")) or host or to
    is_plain = address.startswith("http://") or address in ("phoenix", "mlflow")
    scheme = "http" if is_plain else "https"
    network = {
        "proxy": (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"),
        "no_proxy": ("no_proxy", "NO_PROXY"),
        "ca_file": ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    }
    for name, candidates in network.items():
        held = next((each for each in candidates if environment.get(each)), None)
        if held:
            found.setdefault(name, held)
    return found


def config_path(environment: "Mapping[str, str]") -> str:
    """Return the path of turnlog's configuration."""
    if home := environment.get("TURNLOG_HOME"):
        return os.path.join(home, "config.toml")
    folder = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(folder, "turnlog", "config.toml")


def read_config(path: str, cache: str) -> Fields:
    """Return [trace] of the configuration, flat, with "" in place of credentials.

    Importing tomllib takes longer than Python's start, so the result is cached until the file
    changes. Raises ValueError if the file is not valid TOML.
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
    pairs = (each.partition("=") for each in rest.decode().split("\0") if each)
    return {name: value for name, _, value in pairs}


def _parsed_config(path: str) -> "list[tuple[str, str]]":
    import tomllib

    from turnlog.format.values import is_object

    try:
        with open(path, "rb") as file:
            trace = tomllib.load(file).get("trace")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not valid: {error}") from error
    found: list[tuple[str, str]] = []
    for name, value in trace.items() if is_object(trace) else ():
        if is_object(value) and name not in (*PLAIN, *SECRET):
            found += [(f"{name}.{key}", _shown(key, held)) for key, held in value.items()]
        else:
            found.append((name, _shown(name, value)))
    return found


def _shown(name: str, value: "Any") -> str:
    if name in SECRET:
        return ""
    from turnlog.format.values import is_array

    if is_array(value) and name == "to":
        return ",".join(str(each) for each in value)
    if isinstance(value, list | dict):
        import json

        return json.dumps(value)
    return str(value).replace("\0", "")


def _credential(
    name: str, variable: str, environment: "Mapping[str, str]", fields: "Mapping[str, str]"
) -> Fields:
    """Return where the value of a variable can be read again; the value itself if nowhere.

    The client merges `env` of its settings files into the environment of hooks, so the value is
    usually in one of them. A value that exists only in the environment (export in a shell) would
    be lost when the hook ends; it is stored in the note, which only the user can read.
    """
    value = environment[variable]
    folder = os.path.join(fields["project"], ".claude")
    places = (
        os.path.join(folder, "settings.local.json"),
        os.path.join(folder, "settings.json"),
        os.path.join(fields["store"], "settings.json"),
    )
    for path in places:
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
        # Without O_NONBLOCK, a FIFO in place of a project's settings would block the client.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        content = os.read(descriptor, SETTINGS_LIMIT)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    key = f'"{variable}"'.encode("utf-8", "surrogateescape")
    wanted = f'"{value}"'.encode("utf-8", "surrogateescape")
    for after in content.split(key)[1:]:
        colon = after.lstrip()
        if colon[:1] == b":" and colon[1:].lstrip().startswith(wanted):
            return True
    return False


def fingerprint(value: str) -> str:
    """Return a digest that recognizes a credential without revealing it."""
    # hashlib would load OpenSSL, a third of Python's own start.
    from _blake2 import blake2b

    return blake2b(value.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
