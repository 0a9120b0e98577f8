"""turnlog lake install: push when sessions end, or regularly by a timer."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, json_option
from turnlog.cli.output import echo_json, plain
from turnlog.cli.terminal import echo
from turnlog.errors import UsageError
from turnlog.format.jsonl import FileState
from turnlog.format.private_files import secure_folder
from turnlog.lake.lake_settings import lake_folder, parse_consents, read_settings
from turnlog.lake.lake_storage import require_dest
from turnlog.plugin.background_runs import run_in_background
from turnlog.plugin.client_hooks import LAKE_HOOK, program
from turnlog.store.paths import Store, expand_user

TIMER = "turnlog-lake"

SERVICE_TEXT = """\
[Unit]
Description=Push turnlog's figures to {dest}

[Service]
Type=oneshot
ExecStart={command}
"""
TIMER_TEXT = """\
[Unit]
Description=Push turnlog's figures every {every}

[Timer]
OnBootSec=5min
OnUnitActiveSec={every}
Persistent=true

[Install]
WantedBy=timers.target
"""


@click.command("install")
@click.argument("dest", required=False)
@click.option("--timer", is_flag=True, help="Push by a systemd timer instead of a client hook.")
@click.option(
    "--every", default="1h", show_default=True, metavar="TIME", help="How often the timer pushes."
)
@click.option("--with", "consents", multiple=True, metavar="WHAT", help="As for `lake push`.")
@dry_run_option
@json_option
@click.pass_obj
def install_command(store: Store, dest: str | None, as_json: bool, **given: Any) -> None:
    """Push to DEST whenever a session ends, or regularly.

    Installs a client hook, which pushes in the background, or the files of a systemd timer. Names
    and keys are read from [lake] in the configuration. `turnlog undo` reverts the installation.

    \b
    Examples:
      turnlog lake install s3://team/lake
      turnlog lake install s3://team/lake --timer --every 30min
    """
    target = dest or read_settings().dest
    if not target:
        raise UsageError("name a lake", "turnlog lake install s3://team/lake")
    parse_consents(given["consents"])
    require_dest(target)
    words = [_fixed(target), *(f"--with={each}" for each in given["consents"])]
    if given["dry_run"]:
        action = shlex.join([*program(), "lake", "push", *words])
        where = _timer_files()[0] if given["timer"] else store.settings
        _report(f"Would run {action}, from {where}", as_json, installed=False)
    elif given["timer"]:
        _install_timer(words, given["every"], as_json)
    else:
        is_new = LAKE_HOOK.install(store, words)
        verb = "Installed" if is_new else "Already installed"
        hint = "push existing sessions now: turnlog lake push"
        _report(f"{verb} in {store.settings} ({hint} {target})", as_json, installed=True)


@click.command("uninstall")
@json_option
@click.pass_obj
def uninstall_command(store: Store, as_json: bool) -> None:
    """Remove the client hook and the timer.

    \b
    Examples:
      turnlog lake uninstall
    """
    was_there = LAKE_HOOK.uninstall(store)
    files = [path for path in _timer_files() if path.exists()]
    if files:
        _apply("lake timer removed", dict.fromkeys(files))
    places = [f"from {store.settings}"] if was_there else []
    if files:
        places.append(f"{files[0].parent}/{TIMER}.* (then: systemctl --user daemon-reload)")
    message = "Removed " + " and ".join(places) if places else f"Not installed in {store.settings}"
    _report(message, as_json, installed=False)


def _fixed(dest: str) -> str:
    """Return a destination that does not depend on the directory that a hook runs in."""
    if "://" in dest:
        return dest
    return str(expand_user(dest).absolute())


def _report(message: str, as_json: bool, *, installed: bool) -> None:
    if as_json:
        echo_json({"installed": installed, "message": message})
    else:
        echo(plain(message))


def _timer_files() -> tuple[Path, Path]:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    folder = Path(base).expanduser() / "systemd" / "user"
    return folder / f"{TIMER}.service", folder / f"{TIMER}.timer"


def _install_timer(words: list[str], every: str, as_json: bool) -> None:
    if not every.isalnum():
        raise UsageError(
            f"--every {every!r} is not a time such as 30min", "turnlog lake install -h"
        )
    # systemd expands % and $ in commands: unescaped, a folder named 100% would be another path.
    command = shlex.join([*program(), "lake", "push", "--quiet", *words])
    command = command.replace("%", "%%").replace("$", "$$")
    service, timer = _timer_files()
    texts = {
        service: SERVICE_TEXT.format(dest=words[0].replace("%", "%%"), command=command),
        timer: TIMER_TEXT.format(every=every),
    }
    _apply("lake timer installed", {path: text.encode() for path, text in texts.items()})
    enable = f"systemctl --user enable --now {TIMER}.timer"
    _report(f"Installed {timer} (start it: {enable})", as_json, installed=True)


def _apply(title: str, contents: dict[Path, bytes | None]) -> None:
    """Write or delete files through the journal, so that `turnlog undo` can revert it."""
    from turnlog.edit.apply import Change, apply_changes
    from turnlog.edit.journal import open_journal

    for path in contents:
        path.parent.mkdir(parents=True, exist_ok=True)
    changes = [
        Change(
            path,
            None if content is None else [content],
            FileState.of(path) if path.exists() else None,
        )
        for path, content in contents.items()
    ]
    apply_changes(open_journal(), title, changes)


def push_in_background(ctx: click.Context, action: Callable[[], Any]) -> None:
    """Push in a detached process; if the previous push failed, print its error and exit with 1."""
    folder = lake_folder()
    secure_folder(folder)
    if failed := run_in_background(folder, action):
        echo(f"turnlog: the last push failed: {plain(failed)}", err=True)
        ctx.exit(1)
