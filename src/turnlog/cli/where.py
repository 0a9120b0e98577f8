"""turnlog where: print every path that turnlog reads or writes."""

from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.output import echo_json
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import dim, echo, style
from turnlog.index.database import index_path
from turnlog.store.configuration import configuration_file
from turnlog.store.paths import Store, archive_folder, journal_folder
from turnlog.store.stores import Stores


@click.command("where")
@json_option
@with_stores
def command(stores: Stores, as_json: bool) -> None:
    """Print the paths of sessions, settings, index and archive.

    \b
    Examples:
      turnlog where
      turnlog where --json | jq -r .projects.path
    """
    places = _places(stores)
    if as_json:
        echo_json(_as_json(stores, places))
        return
    for name, path in places.items():
        echo(f"{name:13}  {path}{'' if path.exists() else dim('  (missing)')}")
    for store in stores[1:]:
        echo(style(str(store.root), "bold"))
        for name, path in _places_in(store).items():
            echo(f"  {name:13}  {path}{'' if path.exists() else dim('  (missing)')}")


def _as_json(stores: Stores, places: dict[str, Path]) -> dict[str, Any]:
    found: dict[str, Any] = {name: _place(path) for name, path in places.items()}
    found["stores"] = [
        {name: _place(path) for name, path in _places_in(store).items()} for store in stores
    ]
    return found


def _place(path: Path) -> dict[str, Any]:
    return {"path": path, "exists": path.exists()}


def _places(stores: Stores) -> dict[str, Path]:
    return {
        **_places_in(stores[0]),
        "index": index_path(stores),
        "journal": journal_folder(),
        "archive": archive_folder(),
        "configuration": configuration_file(),
    }


def _places_in(store: Store) -> dict[str, Path]:
    return {
        "config": store.root,
        "projects": store.projects,
        "this project": store.project_of(str(Path.cwd())),
        "history": store.history,
        "file history": store.file_history,
        "live sessions": store.registry,
        "todos": store.todos,
        "plans": store.plans,
        "settings": store.settings,
    }
