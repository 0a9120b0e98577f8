"""turnlog where: print every path that turnlog reads or writes."""

from pathlib import Path

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.output import echo_json
from turnlog.cli.terminal import dim, echo
from turnlog.index.database import index_path
from turnlog.store.paths import Store, archive_folder, journal_folder


@click.command("where")
@json_option
@click.pass_obj
def command(store: Store, as_json: bool) -> None:
    """Print the paths of sessions, settings, index and archive.

    \b
    Examples:
      turnlog where
      turnlog where --json | jq -r .projects.path
    """
    places = _places(store)
    if as_json:
        echo_json({name: {"path": path, "exists": path.exists()} for name, path in places.items()})
        return
    for name, path in places.items():
        echo(f"{name:13}  {path}{'' if path.exists() else dim('  (missing)')}")


def _places(store: Store) -> dict[str, Path]:
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
        "index": index_path(store),
        "journal": journal_folder(),
        "archive": archive_folder(),
    }
