"""Report the state of the hooks: projects, targets, and sent, queued and failed notes."""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnlog.cli.output import plain, width
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import dim, echo, style
from turnlog.errors import TurnlogError, UsageError
from turnlog.format.regular_files import read_object
from turnlog.format.timestamps import age, parse_timestamp
from turnlog.plugin.client_hooks import TRACE_HOOK
from turnlog.store.configuration import configuration_file
from turnlog.store.paths import Store
from turnlog.text import plural
from turnlog.trace.ledger import Ledger, RouteRecord
from turnlog.trace.progress import SendProgress, all_progress
from turnlog.trace.queue import QueueState, all_queues
from turnlog.trace.route_capture import parse_options, split_targets
from turnlog.trace.spool import HookNote, Spool
from turnlog.trace.switch import Switches, read_switches
from turnlog.trace.targets import backend_of
from turnlog.trace.trace_settings import TraceSettings, load_targets, read_table
from turnlog.trace.variable_origin import PLACES, split_places

SHOWN = 10
"""Maximum number of rows to print of a list."""
INDENT = " " * 9
SENT = (
    Column("session"),
    Column("turns", is_number=True),
    Column("spans", is_number=True),
    Column("open", is_number=True),
    Column("refused", is_number=True, expendable=2),
    Column("age", is_number=True, expendable=1, look="dim"),
)
WAITING = (
    Column("session"),
    Column("event", is_whole=True),
    Column("age", is_number=True, look="dim"),
)


def status_of(store: Store, spool: Spool) -> dict[str, Any]:
    """Return the state of the hooks as JSON values."""
    installed = TRACE_HOOK.installed(store)
    commands = sorted(set(installed.values()))
    notes = spool.notes()
    return {
        "settings": store.settings,
        "events": list(installed),
        "commands": commands,
        "target": _target(commands),
        "sessions": [_sent(each) for _, each in all_progress(spool.folder.parent)],
        "projects": _projects(notes, spool.folder.parent, installed_places(store)["config"]),
        "queues": _queues(notes, all_queues(spool.folder)),
        "waiting": [_waiting(note) for note in notes],
        "failures": spool.failures,
    }


def print_status(status: dict[str, Any]) -> None:
    """Print the state of the hooks as text."""
    echo(_installation(status))
    for each in status["projects"]:
        _print_project(each)
    sessions: list[dict[str, Any]] = status["sessions"]
    spans = sum(each["spans"] for each in sessions)
    echo(f"sent     {plural(spans, 'span')} of {plural(len(sessions), 'session')}")
    _print_indented(SENT, [_sent_cells(each) for each in sessions[:SHOWN]])
    for link in filter(None, (each["link"] for each in sessions[:SHOWN])):
        echo(f"{INDENT}{plain(link)}")
    for each in sessions[:SHOWN]:
        for reason, numbers in each["withheld"].items():
            turns = ", ".join(map(str, numbers[:SHOWN])) + (", ..." if numbers[SHOWN:] else "")
            noun = "turn" if len(numbers) == 1 else "turns"
            echo(f"{INDENT}withheld: {noun} {turns} of {plain(each['session'])}, {plain(reason)}")
    for each in status["queues"]:
        _print_queue(each)
    echo(f"waits    {plural(len(status['waiting']), 'note')}")
    waiting = status["waiting"][:SHOWN]
    rows = [[plain(each["session"]), each["event"], _age(each["since"])] for each in waiting]
    _print_indented(WAITING, rows)
    echo(f"failed   {len(status['failures']):,}")
    for each in status["failures"][-SHOWN:]:
        who = f"{plain(each.session)}  " if each.session else ""
        echo(f"         {who}{plain(each.reason)}  {dim(_ago(each.time))}")


def _sent_cells(each: dict[str, Any]) -> list[str]:
    counts = [f"{each[name]:,}" if each[name] else "" for name in ("open", "refused")]
    totals = [f"{each['turns']:,}", f"{each['spans']:,}", *counts]
    return [plain(each["session"]), *totals, _age(each["updated"])]


def _print_indented(columns: Sequence[Column], rows: list[list[str]]) -> None:
    table = Table(with_rows(columns, rows), width() - len(INDENT))
    for line in table.lines() if rows else ():
        echo(f"{INDENT}{line}")


def settings_of(store: Store, given: dict[str, Any]) -> list[TraceSettings]:
    """Return the settings of the installed hooks in this environment; options override them."""
    commands = TRACE_HOOK.installed(store).values()
    known: dict[str, Any] = _options(next(iter(commands), None))
    known |= {name: value for name, value in given.items() if value not in (None, ())}
    return load_targets(known)


def disabled_in(store: Store) -> list[Path]:
    """Return the settings files that disable all hooks in the current directory."""
    here = Path.cwd() / ".claude"
    files = [store.settings, here / "settings.json", here / "settings.local.json"]
    return [path for path in files if read_object(path).get("disableAllHooks") is True]


def _target(commands: list[str]) -> str | None:
    """Return the target of the installed hooks; None if this environment does not define it.

    Raise UsageError if the configuration is invalid.
    """
    read_table(configuration_file())
    try:
        options = _options(commands[0] if commands else None)
        targets = [backend_of(each) for each in load_targets(options)]
        return " and ".join(target.address for target in targets)
    except TurnlogError:
        # The backend's variables may be set for the client only. Show everything else anyway.
        return None


def _installation(status: dict[str, Any]) -> str:
    if not status["commands"]:
        return f"hooks    not installed in {status['settings']} (turnlog hook install --to TARGET)"
    missing = [event for event in TRACE_HOOK.events if event not in status["events"]]
    lacks = f", without {', '.join(missing)}" if missing else ""
    return f"hooks    {status['settings']}{lacks}\ntarget   {status['target'] or 'not known here'}"


def _sent(each: SendProgress) -> dict[str, Any]:
    names = (
        "session",
        "path",
        "turns",
        "spans",
        "open",
        "refused",
        "reason",
        "withheld",
        "updated",
    )
    names = (*names, "link")
    mark = each.mark
    at = {"offset": mark.offset, "turns_before": mark.turns} if mark else None
    return {name: getattr(each, name) for name in names} | {"read_from": at}


def _waiting(note: HookNote) -> dict[str, Any]:
    since = datetime.fromtimestamp(note.time, UTC).isoformat(timespec="seconds")
    fields = {"session": note.session, "event": note.event, "since": since}
    fields["project"] = note.route.project
    return fields | {"transcript": note.transcript}


def _projects(notes: list[HookNote], state: Path, config: Path) -> list[dict[str, Any]]:
    """Return the state of every project with sent or queued notes, or with an on/off switch."""
    switches = read_switches(str(config))
    ledger = Ledger(state)
    # Projects whose first notes are still queued have no record yet: add one, in memory only.
    for note in notes:
        if note.route.key not in ledger.records:
            ledger.open(note.route, None)
    waiting = Counter(note.route.key for note in notes)
    found = [
        _project(record, switches) | {"waiting": waiting[key]}
        for key, record in ledger.records.items()
        if key in ledger.newest() or waiting[key]
    ]
    silent = switches.events.keys() - ledger.projects
    found += [
        {"project": folder, "is_on": switches.is_on(folder), "waiting": 0} for folder in silent
    ]
    return sorted(found, key=lambda each: each["project"])


def _project(record: RouteRecord, switches: Switches) -> dict[str, Any]:
    names = ("project", "target", "content", "sent", "failed", "reason", "withheld")
    fields = {name: getattr(record, name) for name in names}
    return fields | {"is_on": switches.is_on(record.project)}


def _queues(notes: list[HookNote], states: dict[str, QueueState]) -> list[dict[str, Any]]:
    """Return every target with queued notes or recent failures, and its next attempt."""
    waiting = Counter(note.route.queue for note in notes)
    addresses = {note.route.queue: note.route.settings.to or "" for note in notes}
    found: list[dict[str, Any]] = []
    for name in sorted(waiting.keys() | {key for key, each in states.items() if each.failures}):
        state = states.get(name, QueueState())
        fields = {"target": state.target or addresses.get(name, ""), "waiting": waiting[name]}
        fields |= {"failures": state.failures, "reason": state.reason}
        left = max(0.0, state.retry_at - time.time()) if state.retry_at else None
        found.append(fields | {"retry_in": None if left is None else round(left, 1)})
    return found


def _print_queue(status: dict[str, Any]) -> None:
    text = f"{plural(status['waiting'], 'note')} waiting"
    if status["failures"]:
        text += f", {plural(status['failures'], 'failed attempt')}"
        text += f", next attempt in {status['retry_in'] or 0:.0f}s"
    echo(f"queue    {plain(status['target'])}  {text}")


def _print_project(status: dict[str, Any]) -> None:
    state = style("on ", "green") if status["is_on"] else style("off", "red")
    target = plain(status.get("target")) or "no target yet"
    waits = plural(status["waiting"], "note") + (" waiting" if status["is_on"] else " held")
    echo(f"{state}      {plain(status['project'])}")
    if "content" in status:
        echo(f"         {target}  content {status['content']}  {waits}")
    if status.get("sent"):
        echo(f"         last sent {_ago(status['sent'])}")
    if status.get("withheld"):
        echo(f"         withheld: {plain(status['withheld'])}")
    if status.get("reason"):
        echo(f"         last error {_ago(status['failed'])}: {plain(status['reason'])}")


def installed_places(store: Store) -> dict[str, Path]:
    """Return the paths of the configuration and the spool that the installed hooks use."""
    command = next(iter(TRACE_HOOK.installed(store).values()), None)
    fixed, _ = split_places(TRACE_HOOK.arguments(command) if command else ())
    usual = {"config": configuration_file().absolute(), "spool": Spool().folder.absolute()}
    return usual | {name: Path(fixed[name]) for name in PLACES if name in fixed}


def _options(command: str | None) -> dict[str, Any]:
    try:
        words = split_places(TRACE_HOOK.arguments(command))[1] if command else []
        found: dict[str, Any] = parse_options(words)
        return found | ({"to": split_targets(found["to"])} if "to" in found else {})
    except ValueError as error:
        raise UsageError(str(error), "turnlog hook install --help") from error


def _age(moment: str) -> str:
    found = parse_timestamp(moment)
    return age(found) if found else ""


def _ago(moment: str) -> str:
    found = parse_timestamp(moment)
    return f"{age(found)} ago" if found else ""
