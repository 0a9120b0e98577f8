"""turnlog check: report what keeps sessions from being resumed in full."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from turnlog.cli.arguments import (
    all_option,
    client_version_option,
    json_option,
    output_option,
    project_option,
    since_option,
    until_option,
)
from turnlog.cli.completions import complete_session
from turnlog.cli.ls import SessionSelection
from turnlog.cli.output import echo_json, fit, plain, progress_bar, styled_hint, width
from turnlog.cli.picking import SELECTING, named_or_picked
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.suggested_commands import store_of, to_type
from turnlog.cli.tables import GAP, READABLE, Column, echo_table, with_rows
from turnlog.cli.terminal import Look, dim, echo, style
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session, name_of
from turnlog.edit.check.findings import ORDER, Finding, Severity
from turnlog.edit.resume_preparation import resume_program
from turnlog.render.text_layout import cells_of
from turnlog.store.catalog import describe, locate_session, select_sessions
from turnlog.store.paths import short_path
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores, find_holder
from turnlog.text import plural

COLOURS: dict[str, Look] = {
    Severity.FATAL: "red",
    Severity.LOSS: "yellow",
    Severity.OLD: "cyan",
    Severity.NOTE: "grey",
}
WORST = (
    Column("session", is_whole=True),
    Column("severity", look=COLOURS.get),
    Column("lost", is_whole=True),
    Column("finding", width=READABLE),
)
LEAD = 20
"""Cells before a finding's message."""
Report = tuple[Path, list[Finding]]


@click.command("check")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=complete_session)
@all_option("Check all sessions.")
@project_option
@since_option("sessions active")
@until_option("sessions last active")
@click.option(
    "--severity",
    type=click.Choice([each.value for each in Severity]),
    help="List each finding of at least this severity: fatal, loss, old, note.",
)
@client_version_option(
    "Check for this client version, by default the newest known; with --all, the installed one."
)
@output_option()
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, sessions: tuple[str, ...], every: bool, as_json: bool, **options: Any
) -> None:
    """Report what keeps each SESSION from being resumed in full.

    Severities: `fatal` (the client refuses the session), `loss` (it omits part of the
    conversation), `old` (an older client would), `note`. Exits with 1 if a finding is fatal or a
    loss.

    --project, --since and --until imply --all. With these, only the worst finding of each session
    that is fatal or a loss is printed, unless --severity or --json is given.

    \b
    Examples:
      turnlog check last
      turnlog check --all --severity note
      turnlog check --project shop --since 7d --json
    """
    stores = stores_in(ctx)
    selection = SessionSelection(options["project"], options["since"], options["until"])
    every = every or selection != SessionSelection()
    sessions = named_or_picked(ctx, sessions, every, SELECTING, "turnlog check last")
    if every:
        paths = [session.path for session in select_sessions(stores, *selection)]
    else:
        paths = [find_session(stores, text).path for text in sessions]
    version = options["client_version"] or (resume_program().version if every else None)
    checked = _checked(stores, paths, version)
    reports = sorted(checked, key=_weight) if every else list(checked)
    least = options["severity"]
    shown = [_at_least(Severity(least or Severity.NOTE), report) for report in reports]
    if as_json:
        echo_json([_as_json(stores, path, findings) for path, findings in shown])
    else:
        _print_worst(reports) if every and not least else _print(shown)
        all_findings = [findings for _, findings in reports]
        client = f" for client {version}" if every and version else ""
        echo(_summary(all_findings) + client + dim(_hint(all_findings)))
    if any(finding.is_serious for _, findings in reports for finding in findings):
        ctx.exit(1)


def _weight(report: Report) -> int:
    """Return the sort key of a session: its worst finding; sound sessions come last."""
    findings = report[1]
    return ORDER.index(findings[0].severity) if findings else len(ORDER)


def _at_least(severity: Severity, report: Report) -> Report:
    path, findings = report
    limit = ORDER.index(severity)
    return path, [each for each in findings if ORDER.index(each.severity) <= limit]


def _checked(stores: Stores, paths: list[Path], client_version: str | None) -> Iterator[Report]:
    with progress_bar(len(paths), "checking") as bar:
        for path in paths:
            found = check_session(open_session(path), client_version)
            yield path, [_typed(stores, path, finding) for finding in found]
            bar.update(1)


def _typed(stores: Stores, path: Path, finding: Finding) -> Finding:
    """Return a finding with a fix to type, which names the store if there are several."""
    if finding.fix is None:
        return finding
    store = store_of(stores, path) if find_holder(stores, path) else ""
    return replace(finding, fix=to_type(f"{finding.fix}{store}"))


def _print(reports: list[Report]) -> None:
    for path, findings in reports:
        if findings:
            echo(_heading(path, width()))
            for finding in findings:
                for line in _lines(finding, width()):
                    echo(line)


def _print_worst(reports: list[Report]) -> None:
    """Print one line for each session that cannot be resumed in full, and count the rest."""
    worst = [(path, found[0]) for path, found in reports if found and found[0].is_serious]
    rows = [_worst_cells(path, finding) for path, finding in worst]
    echo_table(with_rows(WORST, rows))
    rest = sum(len(found) for _, found in reports) - len(rows)
    if rest:
        echo(dim(f"{plural(rest, 'finding')} not shown (--severity note shows all)"))


def _worst_cells(path: Path, finding: Finding) -> list[str]:
    lost = f"{finding.lost} of {finding.messages}" if finding.lost else ""
    what = finding.message.partition("; ")[0] if lost else finding.message
    return [plain(name_of(path)), finding.severity, lost, plain(what)]


def _heading(path: Path, room: int) -> str:
    """Return the path of a session, and as much of its title as fits."""
    shown, title = plain(short_path(path)), plain(describe(locate_session(path)).title)
    left = room - cells_of(shown) - len(GAP)
    beside = fit(title, left).rstrip() if left >= READABLE else ""
    return f"{style(shown, 'bold')}{GAP}{dim(beside)}" if beside else style(shown, "bold")


def _lines(finding: Finding, room: int) -> Iterator[str]:
    """Yield the lines of a finding; a message that does not fit continues below."""
    severity = style(f"{finding.severity:5}", COLOURS[finding.severity])
    place = dim(f"{f'line {finding.line}' if finding.line else '':>10}")
    fix = f"({plain(finding.fix)})" if finding.fix else ""
    lead = f"  {severity} {place}  "
    for line in styled_hint(plain(finding.message), fix, room - LEAD):
        yield f"{lead}{line}"
        lead = " " * LEAD


def _summary(all_findings: list[list[Finding]]) -> str:
    """Count sessions by the severity of their worst finding.

    >>> _summary([[], []])
    '2 sessions: 2 sound'
    """
    worst = Counter(findings[0].severity if findings else "sound" for findings in all_findings)
    parts = [f"{worst[name]} {name}" for name in (*Severity, "sound") if worst[name]]
    count = len(all_findings)
    return f"{count} session{'' if count == 1 else 's'}: {', '.join(parts) or 'none'}"


def _hint(all_findings: list[list[Finding]]) -> str:
    """Return the command that fixes the worst findings; "" if there is no single one."""
    # Findings are sorted by severity: a loss that a repair mends must not hide a fatal finding.
    worst = (next((each.fix for each in findings if each.fix), None) for findings in all_findings)
    fixes = set(filter(None, worst))
    if len(fixes) == 1:
        return f"  ({plain(fixes.pop())})"
    is_repair = any("--repair" in fix for fix in fixes)
    return f"  ({to_type('turnlog edit SESSION --repair')})" if is_repair else ""


def _as_json(stores: Stores, path: Path, findings: list[Finding]) -> dict[str, Any]:
    holder = find_holder(stores, path)
    store = str(holder.root) if holder else None
    return {"id": path.stem, "path": str(path), "store": store, "findings": findings}
