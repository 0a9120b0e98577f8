"""Run the installed client's `plugin` commands, and write the marketplace with turnlog's plugin.

The marketplace is a folder in turnlog's data directory. For clients since 2.1.229, it names a
command that prints the plugin's folder in the installed package; clients run it in every session.
For older clients, it contains a link to that folder.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnlog.errors import TurnlogError, Unavailable
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import is_array, is_object, parse_json
from turnlog.format.private_files import create_private_folder
from turnlog.format.regular_files import read_object
from turnlog.plugin.client_hooks import program
from turnlog.store.directories import data_directory
from turnlog.store.paths import Store
from turnlog.store.plugin_settings import MARKETPLACE, PLUGIN
from turnlog.store.resume_command import (
    VARIABLE,
    VERSION,
    client_version,
    find_client,
    is_clients_store,
)

COMMAND_SOURCE = (2, 1, 229)
"""The first client whose marketplaces may name a command (documented; observed: 2.1.325)."""
TIMEOUT = 120.0
"""Seconds for a command of the client; most take less than three."""
LINK = "turnlog"
"""Name of the link in the marketplace."""
LAUNCHER = "program.sh"


def plugin_folder() -> Path:
    """Return the plugin's folder in the installed package; raise if it is incomplete."""
    folder = Path(__file__).parent / "files"
    if not (folder / ".claude-plugin" / "plugin.json").is_file():
        raise TurnlogError(f"{folder} is incomplete", "pip install --force-reinstall turnlog")
    return folder


def marketplace_folder(store: Store, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the marketplace for a store, which need not exist."""
    # One per store, because stores may have different client versions, and be uninstalled
    # separately.
    name = hashlib.sha256(os.fsencode(os.path.realpath(store.root))).hexdigest()[:12]
    return Path(data_directory(environment)).absolute() / "plugin" / name


def data_folder(store: Store) -> Path:
    """Return the folder that the client keeps for the plugin's own data."""
    return store.root / "plugins" / "data" / re.sub(r"[^A-Za-z0-9_-]", "-", PLUGIN)


class PluginClient:
    """The client of a store, called to change its plugins."""

    def __init__(self, store: Store, path: str | None = None) -> None:
        found = path or find_client()
        if found is None:
            raise Unavailable("no client is installed", "npm install -g @anthropic-ai/claude-code")
        self.path = found
        self._environment = dict(os.environ)
        if not is_clients_store(store):
            self._environment[VARIABLE] = str(store.root)
        self._store = store
        # Not the working directory: a client reads the settings of the project that it starts in.
        self._folder = store.root if store.root.is_dir() else Path(os.sep)
        self.version = client_version(found) or self._asked_version()

    @property
    def has_command_source(self) -> bool:
        """True if the client runs the command that a marketplace names."""
        return tuple(map(int, self.version.split("."))) >= COMMAND_SOURCE

    def plugin(self) -> dict[str, Any] | None:
        """Return the client's entry for the installed plugin; None if it is not installed."""
        listed = parse_json(self._run("plugin", "list", "--json"))
        entries = listed if is_array(listed) else []
        return next((each for each in entries if is_object(each) and each["id"] == PLUGIN), None)

    def install(self, marketplace: Path) -> None:
        """Add the marketplace, and install the plugin or its new version."""
        self._run("plugin", "marketplace", "add", str(marketplace))
        # Running `turnlog plugin install` is consent to the command, which is turnlog itself.
        consent = ["--yes"] if self.has_command_source else []
        verb = "update" if self.plugin() else "install"
        self._run("plugin", verb, *consent, PLUGIN)

    def uninstall(self) -> None:
        """Remove the plugin and the marketplace."""
        if self.plugin():
            self._run("plugin", "uninstall", PLUGIN)
        if MARKETPLACE in read_object(self._store.root / "plugins" / "known_marketplaces.json"):
            self._run("plugin", "marketplace", "remove", MARKETPLACE)

    def _asked_version(self) -> str:
        found = VERSION.search(self._run("--version"))
        if found is None:
            raise Unavailable(f"{self.path} reports no version", f"{self.path} --version")
        return found[0]

    def _run(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self.path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
                check=False,
                cwd=self._folder,
                env=self._environment,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{self.path} cannot be run: {error}") from error
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
            command = shlex.join(["claude", *arguments])
            raise TurnlogError(f"the client failed: {said}", command)
        return done.stdout


def write_marketplace(folder: Path, has_command_source: bool) -> None:
    """Write the marketplace for a client that knows the `command` source, or for an older one."""
    command = path_command()
    source: Any = {"source": "command", "command": command}
    if not (has_command_source and _is_acceptable(command)):
        source = f"./{LINK}"
        _link(folder / LINK)
    entry = {"name": "turnlog", "description": _manifest()["description"], "source": source}
    catalog = {
        "name": MARKETPLACE,
        "description": "The plugin of the turnlog that is installed on this machine",
        "owner": _manifest()["author"],
        "plugins": [entry],
    }
    content = json.dumps(catalog, indent=2, ensure_ascii=False) + "\n"
    write_atomic(folder / ".claude-plugin" / "marketplace.json", content.encode())


def write_launcher(*folders: Path) -> None:
    """Write the script with which the plugin starts this program."""
    words = program()
    # Sourced by `bin/turnlog`: if this program is gone, the script continues and looks in PATH.
    text = f'[ -x {shlex.quote(words[0])} ] && exec {shlex.join(words)} "$@"\n'
    for folder in folders:
        write_atomic(folder / LAUNCHER, text.encode())


def path_command() -> str:
    """Return the command that prints the plugin's folder."""
    return shlex.join([*program(), "plugin", "path"])


def _manifest() -> dict[str, Any]:
    return read_object(plugin_folder() / ".claude-plugin" / "plugin.json")


def _is_acceptable(command: str) -> bool:
    """Return whether a client accepts a command: it must be readable for users (documented)."""
    return (
        command.isascii()
        and command.isprintable()
        and len(command) <= 500
        and " " * 4 not in command
    )


def _link(path: Path) -> None:
    create_private_folder(path.parent)
    # Check for a link first: rmtree refuses links, and `exists` is false if the target is gone.
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
    try:
        path.symlink_to(plugin_folder())
    except OSError:  # a file system, or Windows, without links
        shutil.copytree(plugin_folder(), path)
