"""turnlog plugin: install turnlog as a plugin of the client."""

import sys
from typing import Any

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.output import echo_json, plain
from turnlog.cli.terminal import dim, echo, echo_masked
from turnlog.store.paths import Store

ARCHIVERS = {
    "plugin": "when a session ends or is compacted",
    "settings": "when a session is compacted; otherwise by the hook of `turnlog archive --install`",
}
TRACERS = {
    "plugin": "after each turn",
    "settings": "by the hooks of `turnlog hook install`",
    "off": "off (to send them: trace = true in [plugin] of config.toml)",
}


@click.group("plugin")
def command() -> None:
    """Install turnlog as a plugin of the client.

    The plugin gives the client skills (recall, handoff, session-doctor), an agent that searches
    earlier sessions, the MCP server of `turnlog mcp`, a status line, and hooks that archive in the
    background.

    \b
    Examples:
      turnlog plugin install
      turnlog plugin status
      turnlog plugin uninstall
    """


@command.command("path")
def path() -> None:
    """Print the directory of the plugin, which is part of turnlog.

    The client runs this to update the plugin.

    \b
    Examples:
      turnlog plugin path
    """
    from turnlog.plugin.plugin_client import plugin_folder

    # The client opens this path, so nothing in it may be masked.
    echo_masked(str(plugin_folder()))


@command.command("install")
@json_option
@click.pass_obj
def install(store: Store, as_json: bool) -> None:
    """Install the plugin in the client, or update it.

    The client takes the plugin from this turnlog, so both always have the same version. An existing
    status line is kept. `turnlog plugin uninstall` restores the settings.

    \b
    Examples:
      turnlog plugin install
    """
    from turnlog.plugin.plugin_setup import install_plugin

    done = install_plugin(store)
    assert done.client
    if as_json:
        fields = {"client": done.client.version, "settings": done.settings, "kept": done.kept}
        echo_json({"is_installed": True, **fields})
        return
    echo(f"Installed in {done.settings}, for client {done.client.version}; restart running clients")
    _print_kept(done.kept)


@command.command("uninstall")
@json_option
@click.pass_obj
def uninstall(store: Store, as_json: bool) -> None:
    """Remove the plugin and restore the client's settings.

    The settings are restored byte for byte to their state before the installation. Changes that
    other programs made since then are kept and reported.

    \b
    Examples:
      turnlog plugin uninstall
    """
    from turnlog.plugin.plugin_setup import uninstall_plugin

    done = uninstall_plugin(store)
    if as_json:
        fields = {"settings": done.settings, "kept": done.kept, "is_restored": done.is_known}
        echo_json({"is_installed": False, **fields})
        return
    if not done.was_installed:
        echo(f"Not installed in {done.settings}")
        return
    echo(f"Removed from {done.settings}")
    _print_kept(done.kept)
    if not done.is_known:
        echo("No copy of the earlier settings: only the plugin's entries were removed", err=True)
    if done.client is None:
        echo("No client is installed; its plugin cache was not changed", err=True)


@command.command("status")
@json_option
@click.pass_obj
def status(store: Store, as_json: bool) -> None:
    """Show whether the plugin is installed and works.

    \b
    Examples:
      turnlog plugin status
      turnlog plugin status --json | jq .problems
    """
    from turnlog.plugin.plugin_status import plugin_status

    found = plugin_status(store)
    if as_json:
        echo_json(found)
    else:
        _print_status(found)


@command.command("run")
@click.argument("event")
@click.pass_obj
def run(store: Store, event: str) -> None:
    """Handle a hook call in the background; run by the plugin.

    Reads the hook's JSON payload from stdin.
    """
    from turnlog.plugin.plugin_events import handle_event, read_payload

    handle_event(store, event, read_payload(sys.stdin.buffer))


def _print_kept(kept: list[str]) -> None:
    if kept:
        names = ", ".join(map(plain, kept))
        echo(f"Kept settings that another program changed meanwhile: {names}", err=True)


def _print_status(status: dict[str, Any]) -> None:
    """Print the state of the plugin as text."""
    client = status["client"]
    echo(f"client       {client['version'] + '  ' + dim(client['path']) if client else 'none'}")
    state = "not installed (turnlog plugin install)"
    if status["is_installed"]:
        state = f"{plain(status['version'])}, {'enabled' if status['is_enabled'] else 'disabled'}"
    echo(f"plugin       {state}")
    echo(f"program      {plain(status['program'])}")
    echo(f"source       {plain(status['source'] or 'none')}")
    if status["is_installed"]:
        echo(f"archive      {ARCHIVERS[status['archive']]}")
        echo(f"traces       {TRACERS[status['trace']]}")
        echo(f"status line  {status['status_line']}")
    for problem in status["problems"]:
        echo(f"problem      {plain(problem)}")
