"""How things stand with the hooks: what was sent, what waits, and what failed."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnlog.cli.client_hooks import ClientHook
from turnlog.cli.output import counted, plain
from turnlog.cli.terminal import dim, echo
from turnlog.errors import TurnlogError
from turnlog.format.timestamps import age, parse_timestamp
from turnlog.store.paths import Store
from turnlog.store.whole import read_object
from turnlog.trace.hook import backend_of, typed
from turnlog.trace.progress import Progress, all_progress
from turnlog.trace.settings import Settings, load_settings, state_folder
from turnlog.trace.spool import Note, Spool
from turnlog.trace.targets import target_of

HOOK = ClientHook(("hook", "run"), ("SessionStart", "Stop", "SubagentStop", "SessionEnd"))
SHOWN = 10
"""Sessions that are listed."""


def status_of(store: Store, spool: Spool) -> dict[str, Any]:
    """All that is known, as JSON has it."""
    installed = HOOK.installed(store)
    commands = sorted(set(installed.values()))
    return {
        "settings": store.settings,
        "events": list(installed),
        "commands": commands,
        "target": _target(commands),
        "sessions": [_sent(each) for _, each in all_progress(state_folder())],
        "waiting": [_waiting(note) for note in spool.notes()],
        "trouble": spool.trouble,
        "failures": spool.failures,
    }


def print_status(held: dict[str, Any]) -> None:
    """Tell it to a person."""
    echo(_installation(held))
    sessions: list[dict[str, Any]] = held["sessions"]
    spans = sum(each["spans"] for each in sessions)
    echo(f"sent     {counted(spans, 'span')} of {counted(len(sessions), 'session')}")
    for each in sessions[:SHOWN]:
        rest = f", {each['open']:,} open" if each["open"] else ""
        rest += f", {each['refused']:,} refused" if each["refused"] else ""
        told = f"{counted(each['turns'], 'turn')}, {counted(each['spans'], 'span')}{rest}"
        echo(f"         {each['session']}  {told}  {dim(_ago(each['updated']))}")
    echo(f"waits    {counted(len(held['waiting']), 'note')}{_why(held)}")
    for each in held["waiting"][:SHOWN]:
        echo(f"         {plain(each['session'])}  {each['event']}  {dim(_ago(each['since']))}")
    echo(f"failed   {len(held['failures']):,}")
    for each in held["failures"][-SHOWN:]:
        who = f"{plain(each.session)}  " if each.session else ""
        echo(f"         {who}{plain(each.reason)}  {dim(_ago(each.time))}")


def settings_of(store: Store, given: dict[str, Any]) -> Settings:
    """The settings that the installed hooks send with, or those given."""
    commands = HOOK.installed(store).values()
    arguments = HOOK.arguments(next(iter(commands))) if commands else []
    known = typed(arguments) | {name: value for name, value in given.items() if value is not None}
    return load_settings(known, usual={"timeout": 2.0})


def disabled_in(store: Store) -> list[Path]:
    """The settings that turn all hooks off, of those that hold here."""
    here = Path.cwd() / ".claude"
    files = [store.settings, here / "settings.json", here / "settings.local.json"]
    return [path for path in files if read_object(path).get("disableAllHooks") is True]


def _target(commands: list[str]) -> str | None:
    """Where the installed hooks send to, as far as this environment tells."""
    try:
        arguments = HOOK.arguments(commands[0]) if commands else []
        return backend_of(target_of(load_settings(typed(arguments)))).url
    except TurnlogError:
        return None


def _installation(held: dict[str, Any]) -> str:
    if not held["commands"]:
        return f"hooks    not installed in {held['settings']} (turnlog hook install --to TARGET)"
    missing = [event for event in HOOK.events if event not in held["events"]]
    lacks = f", without {', '.join(missing)}" if missing else ""
    return f"hooks    {held['settings']}{lacks}\ntarget   {held['target'] or 'not known here'}"


def _sent(each: Progress) -> dict[str, Any]:
    names = ("session", "path", "turns", "spans", "open", "refused", "reason", "updated")
    mark = each.mark
    at = {"offset": mark.offset, "turns_before": mark.turns} if mark else None
    return {name: getattr(each, name) for name in names} | {"read_from": at}


def _waiting(note: Note) -> dict[str, Any]:
    since = datetime.fromtimestamp(note.time, UTC).isoformat(timespec="seconds")
    told = {"session": note.session, "event": note.event, "since": since}
    return told | {"transcript": note.transcript}


def _why(held: dict[str, Any]) -> str:
    trouble = held["trouble"]
    return f": {plain(trouble.reason)} {dim(_ago(trouble.time))}" if trouble else ""


def _ago(moment: str) -> str:
    found = parse_timestamp(moment)
    return f"{age(found)} ago" if found else ""
