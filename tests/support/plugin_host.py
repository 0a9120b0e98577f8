"""A client's `plugin` commands, as 2.1.325 and 2.1.150 were observed to change files.

It writes settings in its own format and order, drops a model that it takes for outdated, and leaves
empty objects behind. Run as a program, it is that client; `write_client` makes one.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

OUTDATED = "claude-opus-4-1"
PLUGIN = "turnlog@turnlog"


def write_client(folder: Path, version: str) -> Path:
    """Write the program `claude` of a version into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "claude"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" {version} "$@"\n')
    path.chmod(0o755)
    package = {"name": "@anthropic-ai/claude-code", "version": version}
    (folder / "package.json").write_text(json.dumps(package))
    return path


class PluginHost:
    """The files of a client that its plugin commands change."""

    def __init__(self, root: Path, version: str) -> None:
        self.root, self.version = root, version
        self.has_commands = version == "2.1.325"
        self.settings = root / "settings.json"
        self.known = root / "plugins" / "known_marketplaces.json"
        self.installed = root / "plugins" / "installed_plugins.json"

    def add(self, marketplace: str) -> None:
        source = {"source": "directory", "path": marketplace}
        self._change(self.known, "turnlog", {"source": source})
        self._set("extraKnownMarketplaces", "turnlog", value={"source": source})

    def install(self) -> None:
        if os.environ.get("CLIENT_REFUSES"):
            sys.exit("✘ Failed to install plugin: managed settings forbid it")
        folder = self._produce()
        manifest = json.loads((folder / ".claude-plugin" / "plugin.json").read_text())
        digest = hashlib.sha256(b"".join(sorted(map(read, folder.rglob("*.md"))))).hexdigest()
        version = (
            f"{manifest['version']}-{digest[:12]}" if self.has_commands else manifest["version"]
        )
        target = self.root / "plugins" / "cache" / "turnlog" / "turnlog" / version
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, target)
        entry = {"scope": "user", "installPath": str(target), "version": version}
        self._change(self.installed, PLUGIN, [entry], "plugins")
        self._set("enabledPlugins", PLUGIN, value=True)

    def uninstall(self) -> None:
        self._change(self.installed, PLUGIN, None, "plugins")
        self._set("enabledPlugins", PLUGIN, value=None)
        shutil.rmtree(self.root / "plugins" / "data" / "turnlog-turnlog", ignore_errors=True)

    def remove(self) -> None:
        self._change(self.known, "turnlog", None)
        settings = read_json(self.settings)
        settings.get("extraKnownMarketplaces", {}).pop("turnlog", None)
        self._write_settings(settings)

    def list(self) -> list[dict[str, Any]]:
        found = read_json(self.installed).get("plugins", {})
        return [{"id": name, **entries[0]} for name, entries in found.items()]

    def _produce(self) -> Path:
        """Return the folder of the plugin, as the marketplace names it."""
        place = Path(read_json(self.known)["turnlog"]["source"]["path"])
        (entry,) = read_json(place / ".claude-plugin" / "marketplace.json")["plugins"]
        if isinstance(entry["source"], str):
            return place / entry["source"]
        if not self.has_commands:
            sys.exit("✘ This plugin uses a source type your version does not support.")
        done = subprocess.run(
            ["sh", "-c", entry["source"]["command"]], capture_output=True, text=True, check=True
        )
        (line,) = done.stdout.splitlines()
        assert Path(line).is_absolute()
        return Path(line)

    def _set(self, outer: str, inner: str, *, value: Any) -> None:
        settings = read_json(self.settings)
        put(settings.setdefault(outer, {}), inner, value)
        self._write_settings(settings)

    def _write_settings(self, settings: dict[str, Any]) -> None:
        if settings.get("model") == OUTDATED:
            del settings["model"]
        self.settings.write_text(json.dumps(dict(sorted(settings.items())), indent=2) + "\n")

    def _change(self, path: Path, name: str, value: Any, inside: str | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        listed = read_json(path)
        put(listed.setdefault(inside, {}) if inside else listed, name, value)
        path.write_text(json.dumps(listed))


def put(held: dict[str, Any], name: str, value: Any) -> None:
    """Set a member, or remove it with None."""
    held.pop(name, None)
    if value is not None:
        held[name] = value


def read(path: Path) -> bytes:
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def main(version: str, *arguments: str) -> None:
    host = PluginHost(Path(os.environ["CLAUDE_CONFIG_DIR"]), version)
    match arguments:
        case ("--version",):
            print(f"{version} (Claude Code)")
        case ("plugin", "list", "--json"):
            print(json.dumps(host.list()))
        case ("plugin", "marketplace", "add", folder):
            host.add(folder)
        case ("plugin", "marketplace", "remove", "turnlog"):
            host.remove()
        case ("plugin", "uninstall", "turnlog@turnlog"):
            host.uninstall()
        case ("plugin", "install" | "update", *options, "turnlog@turnlog"):
            assert options == (["--yes"] if host.has_commands else [])
            host.install()
        case _:
            sys.exit(f"error: unknown command {arguments}")


if __name__ == "__main__":
    main(*sys.argv[1:])
