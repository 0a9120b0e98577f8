"""Check that the hooks are installed and executable, and that the target accepts a test span."""

import shlex
import shutil
from typing import Any

from turnlog.cli.hook_status import disabled_in, installed_places, settings_of
from turnlog.cli.output import plain
from turnlog.cli.terminal import echo, style
from turnlog.plugin.client_hooks import TRACE_HOOK
from turnlog.store.paths import Store
from turnlog.text import plural
from turnlog.trace.doctor import ProbeResult, send_test
from turnlog.trace.spool import Spool
from turnlog.trace.targets import backend_of


def examine(store: Store, options: dict[str, Any]) -> dict[str, Any]:
    """Return the diagnosis as JSON values."""
    answers = [
        send_test(backend_of(settings), settings.timeout)
        for settings in settings_of(store, options)
    ]
    installed = TRACE_HOOK.installed(store)
    missing = [event for event in TRACE_HOOK.events if event not in installed]
    commands = sorted(set(installed.values()))
    lost = [command for command in commands if not shutil.which(shlex.split(command)[0])]
    disabled = disabled_in(store)
    return {
        "is_well": all(each.is_taken for each in answers) and not (missing or lost or disabled),
        "answer": answers[0],
        "answers": answers,
        "settings": store.settings,
        "commands": commands,
        "missing_events": missing,
        "missing_programs": lost,
        "disabled_in": disabled,
        "waiting": len(Spool(installed_places(store)["spool"]).notes()),
    }


def print_examination(found: dict[str, Any]) -> None:
    """Print the diagnosis, one line per check."""
    for answer in found["answers"]:
        echo(_answer(answer))
    if found["missing_events"]:
        events = ", ".join(found["missing_events"])
        where = f"{events} in {found['settings']} (try: turnlog hook install)"
        echo(f"{_mark(is_well=False)} no hook at {where}")
    else:
        echo(f"{_mark(is_well=True)} hooks in {found['settings']}")
    for command in found["commands"]:
        is_there = command not in found["missing_programs"]
        text = plain(command) if is_there else f"no such program: {plain(command)}"
        echo(f"{_mark(is_there)} {text}")
    for path in found["disabled_in"]:
        echo(f"{_mark(is_well=False)} disableAllHooks is set in {path}")
    echo(f"{_mark(is_well=True)} {plural(found['waiting'], 'note')} waiting")


def _answer(answer: ProbeResult) -> str:
    text = f"{answer.url}: {answer.status or 'no answer'} after {answer.milliseconds} ms"
    why = f" ({plain(answer.reason)})" if answer.reason else ""
    return f"{_mark(answer.is_taken)} {text}{why}"


def _mark(is_well: bool) -> str:
    return style("ok ", "green") if is_well else style("bad", "red")
