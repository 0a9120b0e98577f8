"""Install and remove the plugin, leaving no trace in the client's settings.

Turnlog edits the settings itself, recorded in the journal, and then calls the client. The client
finds its entries in place but reformats the file, so turnlog restores its own text.
"""

import shlex
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

from turnlog.edit.apply import Change, apply_changes
from turnlog.edit.journal import Journal, Record, open_journal
from turnlog.errors import TurnlogError, Unavailable
from turnlog.format.jsonl import FileState, replace_file
from turnlog.plugin.client_hooks import EMPTY, STATUS_LINE, not_valid, program
from turnlog.plugin.plugin_client import (
    LAUNCHER,
    PluginClient,
    data_folder,
    marketplace_folder,
    write_launcher,
    write_marketplace,
)
from turnlog.store.client_notifications import notification_folder
from turnlog.store.paths import Store
from turnlog.store.plugin_settings import (
    PluginEntries,
    add_plugin,
    adopt_changes,
    changed_keys,
    is_enabled,
    parse_settings,
    remove_plugin,
)

INSTALLED = "plugin installed"
REMOVED = "plugin removed"


class PluginChange(NamedTuple):
    """The outcome of an installation or a removal."""

    settings: Path
    client: PluginClient | None
    """The client that was called; None if it is no longer installed."""
    kept: list[str]
    """Settings that another program changed meanwhile; they are left as they are."""
    is_known: bool = True
    """False if the journal has no copy of the settings from before the installation."""
    was_installed: bool = True
    """False if a removal found neither settings nor a marketplace of the plugin."""


def install_plugin(store: Store) -> PluginChange:
    """Install the plugin, or update it; raise and change nothing if the client refuses."""
    client = PluginClient(store)
    folder = marketplace_folder(store)
    path, journal = store.settings, open_journal()
    text = _read(path)
    try:
        command = shlex.join([*program(), "statusline"])
        wanted = add_plugin(text or EMPTY, PluginEntries(folder, command), STATUS_LINE.is_ours)
    except ValueError as error:
        raise not_valid(path, error) from error
    write_marketplace(folder, client.has_command_source)
    write_launcher(folder, data_folder(store))
    # Record the change before calling the client, which rewrites the whole file: a copy made later
    # would already be reformatted.
    record = apply_changes(journal, INSTALLED, [_change(path, wanted, text)])
    try:
        client.install(folder)
    except TurnlogError:
        if record:
            with suppress(TurnlogError):
                client.uninstall()
        _settle(path, wanted)
        if record:
            journal.roll_back(record)
            _clear(store)
        raise
    return PluginChange(path, client, _settle(path, wanted))


def uninstall_plugin(store: Store) -> PluginChange:
    """Remove the plugin and restore the settings from before its installation.

    Settings that another program changed since then stay as they are, and are returned.
    """
    client = None
    with suppress(Unavailable):
        client = PluginClient(store)
    path, journal = store.settings, open_journal()
    text = _read(path)
    before, is_known = _before(journal, path)
    try:
        content, kept = _restored(text, before, is_known)
    except ValueError as error:
        raise not_valid(path, error) from error
    was_installed = content != text or marketplace_folder(store).exists()
    if content != text:
        apply_changes(journal, REMOVED, [_change(path, content, text)])
    try:
        if client:
            client.uninstall()
    finally:
        kept += [name for name in _settle(path, content) if name not in kept]
        _clear(store)
    return PluginChange(path, client, kept, is_known, was_installed)


def _restored(text: str | None, before: str | None, is_known: bool) -> tuple[str | None, list[str]]:
    """Return the settings without the plugin, and the keys that others changed meanwhile."""
    if text is None:
        return None, []
    content = remove_plugin(text, STATUS_LINE.is_ours)
    if not is_known:
        return content, []
    kept = changed_keys(parse_settings(before or EMPTY), parse_settings(content))
    # Restore the exact previous text, with its comments, order and blanks, only if nobody else
    # changed anything.
    return (content, kept) if kept else (before, [])


def _before(journal: Journal, path: Path) -> tuple[str | None, bool]:
    """Return the settings from before the installation, and whether the journal has them."""
    for record in journal.records():
        if record.title == INSTALLED and _names(record, path):
            content = journal.content_before(record, path)
            text = None if content is None else content.decode()
            # Skip updates: they changed settings that already had the plugin.
            if text is None or is_enabled(parse_settings(text)) is None:
                return text, True
    return None, False


def _names(record: Record, path: Path) -> bool:
    return any(file.path == str(path.absolute()) for file in record.files)


def _settle(path: Path, content: str | None) -> list[str]:
    """Restore settings after the client rewrote them; return keys that another program changed."""
    now = _read(path)
    if now == content:
        return []
    try:
        changed = changed_keys(parse_settings(content or EMPTY), parse_settings(now or EMPTY))
        if changed:
            content = adopt_changes(content or EMPTY, parse_settings(now or EMPTY), changed)
    except ValueError as error:
        raise not_valid(path, error) from error
    if content is None:
        path.unlink()
    elif now is not None:
        replace_file(path, [content.encode()], FileState.of(path))
    else:
        path.write_bytes(content.encode())
    return changed


def _clear(store: Store) -> None:
    """Remove the marketplace, the launchers and the notifications."""
    folder = marketplace_folder(store)
    rmtree(folder, ignore_errors=True)
    (data_folder(store) / LAUNCHER).unlink(missing_ok=True)
    with suppress(OSError):
        data_folder(store).rmdir()
    with suppress(OSError):  # the plugin is installed in another store
        folder.parent.rmdir()
        rmtree(notification_folder(), ignore_errors=True)


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise not_valid(path, error) from error


def _change(path: Path, content: str | None, text: str | None) -> Change:
    state = None if text is None else FileState.of(path)
    return Change(path, None if content is None else [content.encode()], state)
