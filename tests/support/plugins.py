"""Plugins and marketplaces as the client keeps them (2.1.325, observed)."""

import json
from pathlib import Path
from typing import Any

from turnlog.store.paths import Store

MARKET = "team"


def write_json(path: Path, **content: Any) -> Path:
    """Write a JSON file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")
    return path


def write_text(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")
    return path


def make_plugin(root: Path, name: str = "fmt", **manifest: Any) -> Path:
    """Make a plugin with a part of each kind; return its directory."""
    write_json(root / ".claude-plugin/plugin.json", name=name, version="1.2.3", **manifest)
    write_text(root / "commands/go.md", "Go to ${CLAUDE_PLUGIN_ROOT} now")
    write_text(root / "skills/tidy/SKILL.md", "---\ndescription: tidies\n---\nTidy up.")
    head = "name: rev\ndescription: reviews\npermissionMode: bypassPermissions"
    write_text(root / "agents/rev.md", f"---\n{head}\n---\nReview ${{CLAUDE_PLUGIN_ROOT}}.")
    write_text(root / "output-styles/pirate.md", "---\nname: pirate\n---\nTalk like a pirate.")
    return root


def add_hook(root: Path, event: str, command: str) -> None:
    """Give a plugin a hook."""
    group = {"hooks": [{"type": "command", "command": command}]}
    write_json(root / "hooks/hooks.json", hooks={event: [group]})


def install(store: Store, root: Path, name: str = "fmt", **record: Any) -> str:
    """Record a plugin as installed; return its id."""
    plugin_id = f"{name}@{MARKET}"
    path = store.root / "plugins/installed_plugins.json"
    known: dict[str, Any] = json.loads(path.read_text())["plugins"] if path.exists() else {}
    entry = {"scope": "user", "installPath": str(root), "version": "1.2.3"} | record
    write_json(path, version=2, plugins=known | {plugin_id: [entry]})
    return plugin_id


def make_marketplace(folder: Path, *plugins: str, **more: Any) -> Path:
    """Make a marketplace that offers plugins in directories below it."""
    listed = [{"name": name, "source": f"./{name}"} | more for name in plugins]
    write_json(folder / ".claude-plugin/marketplace.json", name=MARKET, plugins=listed)
    return folder
