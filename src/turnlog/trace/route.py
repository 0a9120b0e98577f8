"""A route: the project, target and settings with which the traces of a hook call are delivered.

A route is resolved when the hook fires and never changes. It contains the sources of its
credentials; their values are read when something is sent, and only for the address they belong to.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.errors import TurnlogError, UsageError
from turnlog.format.json_values import is_array, is_object, parse_json
from turnlog.trace.route_capture import PLAIN, SECRET, fingerprint, is_same_address
from turnlog.trace.targets import Target, backend_of
from turnlog.trace.trace_settings import TraceSettings, convert_settings, read_table, table_of

TRANSPORT = ("timeout", "no_proxy", "ca_file", "link")
"""Connection settings, taken from the newest note of a route, like credentials."""
OPTIONAL = frozenset(PLAIN[PLAIN.index("tags") :])
"""Settings that are part of a route's key only if set, so that routes without them keep theirs."""


class Credential(Struct, frozen=True):
    """The source of a secret setting: the note, the configuration or a settings file."""

    name: str
    value: str | None = None
    config: str | None = None
    file: str | None = None
    variable: str = ""
    fingerprint: str = ""
    withheld: str | None = None
    """The reason not to send the value on this route."""


class Route(Struct, frozen=True, dict=True):
    """The project, settings and paths of a delivery."""

    project: str
    settings: TraceSettings
    """Without credentials."""
    options: frozenset[str] = frozenset()
    """Names of the settings given as options of the hook's command."""
    config: str = ""
    """The path of turnlog's configuration, as the hook resolved it."""
    store: str = ""
    """The client's configuration directory."""

    @cached_property
    def key(self) -> str:
        """A key that notes share if they may be sent together: same project, target, content."""
        # Without credentials and connection settings: a rotated key or another proxy must not
        # separate a new note from older ones that still wait.
        names = (name for name in PLAIN if name not in TRANSPORT)
        values = {name: getattr(self.settings, name) for name in names}
        values = {name: value for name, value in values.items() if value or name not in OPTIONAL}
        return sha256(json.dumps([self.project, values]).encode()).hexdigest()[:16]

    @cached_property
    def queue(self) -> str:
        """A key that notes of any project share if they go to the same backend account."""
        parts = [self.settings.to, self.settings.host, self.settings.project]
        parts.append(self.settings.public_key)
        return sha256(json.dumps(parts).encode()).hexdigest()[:16]


def parse_route(fields: Mapping[str, str]) -> tuple[Route, tuple[Credential, ...]]:
    """Return the route and credentials of a note; raise UsageError if its route is invalid."""
    if problem := fields.get("problem"):
        raise UsageError(problem, "turnlog hook install --help")
    project = fields.get("project", "")
    if not project.startswith("/"):
        raise UsageError("the note contains no project", "turnlog hook doctor")
    known: dict[str, Any] = {
        name: fields[f"set.{name}"] for name in PLAIN if fields.get(f"set.{name}")
    }
    options = frozenset(filter(None, fields.get("options", "").split(",")))
    paths = fields.get("config", ""), fields.get("store", "")
    return Route(project, convert_settings(known), options, *paths), tuple(_credentials(fields))


def open_target(route: Route, credentials: Sequence[Credential]) -> tuple[TraceSettings, Target]:
    """Return the settings of a route with its credentials, and its target.

    Raise UsageError if the target is unusable, which no retry can change, and another TurnlogError
    if a credential cannot be read at the moment.
    """
    values = {
        secret.name: _value(route, secret) for secret in credentials if secret.withheld is None
    }
    settings = convert_settings(msgspec.to_builtins(route.settings) | values)
    try:
        return settings, backend_of(settings)
    except UsageError as error:
        if reasons := explain_withheld(credentials):
            raise UsageError(f"{error.message} ({reasons})", error.hint) from error
        raise


def explain_withheld(credentials: Sequence[Credential]) -> str:
    """Return why credentials are withheld from a route; empty if none are."""
    return "; ".join(secret.withheld for secret in credentials if secret.withheld is not None)


def _credentials(fields: Mapping[str, str]) -> Iterator[Credential]:
    kinds = ("value", "config", "file", "variable", "fingerprint", "withheld")
    for name in SECRET:
        values = {kind: fields.get(f"secret.{name}.{kind}") for kind in kinds}
        if found := {kind: value for kind, value in values.items() if value is not None}:
            yield Credential(name, **found)


def _value(route: Route, credential: Credential) -> Any:
    if credential.value is not None:
        return credential.value
    if credential.config is not None:
        return _from_config(route, credential.name, Path(credential.config))
    return _from_settings_file(credential)


def _from_config(route: Route, name: str, path: Path) -> Any:
    """Return the configuration's current value; raise if it now belongs to another address."""
    settings = route.settings
    try:
        configured = read_table(path)
    except UsageError as error:  # once it is corrected, the note can be sent
        raise TurnlogError(error.message, error.hint) from error
    table = table_of(configured, settings.to or "") | {"to": configured.get("to")}
    own = configured.get(settings.to or "")
    is_own = is_object(own) and name in own
    chosen = {setting: getattr(settings, setting) for setting in ("to", "host", "public_key")}
    # The configuration may have changed since the hook ran: its key could now be meant for another
    # address than the one in the note.
    if name not in table or not is_same_address(chosen, table, list(route.options), name, is_own):
        raise TurnlogError(
            f"{path} no longer has a {name} for the target of this note", "turnlog hook status"
        )
    return table[name]


def _from_settings_file(credential: Credential) -> str:
    """Return the value that the hook saw in a settings file; raise if it has changed.

    The fingerprint must match: after the hook, a branch switch may have replaced the file with one
    that contains another tenant's key. A rotated key arrives with the next hook.
    """
    try:
        document = parse_json(Path(credential.file or "").read_bytes())
    except (OSError, ValueError):
        document = None
    for value in _values_of(document, credential.variable):
        if fingerprint(value) == credential.fingerprint:
            return value
    raise TurnlogError(
        f"{credential.variable} in {credential.file} changed since the hook ran;"
        " the project's next hook brings the new value",
        "turnlog hook status",
    )


def _values_of(document: Any, name: str) -> Iterator[str]:
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if is_object(item):
            if isinstance(value := item.get(name), str):
                yield value
            waiting += item.values()
        elif is_array(item):
            waiting += item
