"""Handle the plugin's hooks, in a process that no client waits for.

Hooks in the user's settings take precedence: events that hooks of `archive --install` or `hook
install` handle are skipped here.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import IO

from turnlog.errors import TurnlogError
from turnlog.format.json_values import Fields, is_object, parse_json, text_in
from turnlog.plugin.background_runs import archive_silently
from turnlog.plugin.client_hooks import ARCHIVE_HOOK, TRACE_HOOK
from turnlog.store.archive.archive import open_archive
from turnlog.store.client_notifications import clear_notification, record_notification
from turnlog.store.configuration import configuration_file, read_configuration
from turnlog.store.paths import Store

LIMIT = 16 << 20
"""Maximum bytes of a payload."""


def handle_event(store: Store, event: str, payload: bytes) -> None:
    """Handle a hook call; unknown events and malformed payloads are ignored."""
    try:
        fields = parse_json(payload)
    except ValueError:
        return
    if is_object(fields) and event in EVENTS:
        EVENTS[event](store, fields, payload)


def archive_arguments(store: Store, event: str) -> list[str] | None:
    """Return the arguments of the archive's own hook; None if that hook handles the event."""
    installed = ARCHIVE_HOOK.installed(store)
    # Both hooks would archive the same session at the same time.
    if event in installed:
        return None
    return ARCHIVE_HOOK.arguments(next(iter(installed.values()))) if installed else []


def is_tracing(store: Store) -> bool:
    """Return whether the plugin traces: if config.toml says so, and no trace hook is installed."""
    return wants_traces() and "Stop" not in TRACE_HOOK.installed(store)


def wants_traces() -> bool:
    """Return whether config.toml has `trace = true` in its table [plugin]."""
    table = read_configuration(configuration_file()).get("plugin")
    return is_object(table) and table.get("trace") is True


def _archive(store: Store, fields: Fields, payload: bytes) -> None:
    arguments = archive_arguments(store, text_in(fields, "hook_event_name") or "")
    if arguments is not None:
        archive_silently(store, open_archive(_folder_in(arguments)))


def _folder_in(arguments: list[str]) -> Path | None:
    """Return the archive that an installed hook writes to; None for the default one."""
    named = [value for name, value in pairwise(arguments) if name == "--into"]
    return Path(named[0]) if named else None


def _end(store: Store, fields: Fields, payload: bytes) -> None:
    clear_notification(text_in(fields, "session_id") or "")
    _archive(store, fields, payload)


def _trace(store: Store, fields: Fields, payload: bytes) -> None:
    if is_tracing(store):
        from turnlog.trace.hook_run import run

        run([], payload)


def _notify(store: Store, fields: Fields, payload: bytes) -> None:
    kind = text_in(fields, "notification_type")
    if kind:
        record_notification(text_in(fields, "session_id") or "", kind)


def read_payload(stream: IO[bytes]) -> bytes:
    """Return the payload of a hook call; raise if it is too large."""
    payload = stream.read(LIMIT + 1)
    if len(payload) > LIMIT:
        raise TurnlogError(f"the hook's payload is larger than {LIMIT >> 20} MiB")
    return payload


EVENTS: dict[str, Callable[[Store, Fields, bytes], None]] = {
    "SessionEnd": _end,
    "PreCompact": _archive,
    "Stop": _trace,
    "Notification": _notify,
}
"""The function of each event that the plugin has a hook for."""
