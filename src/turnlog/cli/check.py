"""turnlog check: can the client resume a session, and in full?"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import Since, client_version_option, complete_session, json_option
from turnlog.cli.ls import chosen_sessions
from turnlog.cli.output import cells_of, echo_json, fit, plain, progress_bar, width, wrap_hint
from turnlog.cli.tables import GAP, READABLE
from turnlog.cli.terminal import Look, dim, echo, style
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.check.findings import ORDER, Finding, Severity
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store
from turnlog.store.session_lookup import find_session

COLOURS: dict[Severity, Look] = {
    Severity.FATAL: "red",
    Severity.LOSS: "yellow",
    Severity.OLD: "cyan",
    Severity.NOTE: "grey",
}
LEAD = 20
"""Cells of what stands before a finding's message."""
Report = tuple[Path, list[Finding]]


@click.command("check")
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=complete_session)
@click.option("--all", "every", is_flag=True, help="Check every session there is.")
@click.option("--project", metavar="TEXT", help="With --all: only projects that contain TEXT.")
@click.option("--since", type=Since(), help="With --all: only sessions active since then (3d).")
@click.option(
    "--severity",
    type=click.Choice([each.value for each in Severity]),
    default=Severity.NOTE.value,
    help="Show only findings that are at least this bad: fatal, loss, old, note.",
)
@client_version_option("Check for this client version; by default the newest that is known.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, sessions: tuple[str, ...], every: bool, as_json: bool, **options: Any
) -> None:
    """Report what keeps each SESSION from being resumed in full.

    Exits with 1 if the client would refuse a session, or resume it without a part of the
    conversation.
    """
    store: Store = ctx.obj
    if bool(sessions) == every:
        raise click.UsageError("name sessions, or check --all", ctx)
    project, since = options["project"], options["since"]
    if (project or since) and not every:
        raise click.UsageError("--project and --since need --all", ctx)
    if every:
        paths = [session.path for session in chosen_sessions(store, project, since)]
    else:
        paths = [find_session(store, text).path for text in sessions]
    checked = _checked(paths, options["client_version"])
    reports = sorted(checked, key=_weight) if every else list(checked)
    shown = [_at_least(Severity(options["severity"]), report) for report in reports]
    if as_json:
        echo_json([_as_json(path, findings) for path, findings in shown])
    else:
        _print(shown)
        all_findings = [findings for _, findings in reports]
        echo(_summary(all_findings) + dim(_hint(all_findings)))
    if any(finding.is_serious for _, findings in reports for finding in findings):
        ctx.exit(1)


def _weight(report: Report) -> int:
    """The order to show sessions in: by the worst finding of each; sound ones come last."""
    findings = report[1]
    return ORDER.index(findings[0].severity) if findings else len(ORDER)


def _at_least(severity: Severity, report: Report) -> Report:
    path, findings = report
    limit = ORDER.index(severity)
    return path, [each for each in findings if ORDER.index(each.severity) <= limit]


def _checked(paths: list[Path], client_version: str | None) -> Iterator[Report]:
    with progress_bar(len(paths), "checking") as bar:
        for path in paths:
            yield path, check_session(open_session(path), client_version)
            bar.update(1)


def _print(reports: list[Report]) -> None:
    for path, findings in reports:
        if findings:
            echo(_heading(path, width()))
            for finding in findings:
                for line in _lines(finding, width()):
                    echo(line)


def _heading(path: Path, room: int) -> str:
    """The path of a session, and of its title what fits beside it."""
    shown, title = plain(str(path)), plain(describe(locate_session(path)).title)
    left = room - cells_of(shown) - len(GAP)
    beside = fit(title, left).rstrip() if left >= READABLE else ""
    return f"{style(shown, 'bold')}{GAP}{dim(beside)}" if beside else style(shown, "bold")


def _lines(finding: Finding, room: int) -> Iterator[str]:
    """Draw a finding; what does not fit beside its severity and line continues below."""
    severity = style(f"{finding.severity:5}", COLOURS[finding.severity])
    place = dim(f"{f'line {finding.line}' if finding.line else '':>10}")
    fix = f"({plain(finding.fix)})" if finding.fix else ""
    lead = f"  {severity} {place}  "
    for line in wrap_hint(plain(finding.message), fix, room - LEAD):
        text = line.removesuffix(fix)
        yield f"{lead}{text}{dim(fix) if text != line else ''}"
        lead = " " * LEAD


def _summary(all_findings: list[list[Finding]]) -> str:
    """How many sessions are how bad, by the worst that each has.

    >>> _summary([[], []])
    '2 sessions: 2 sound'
    """
    worst = Counter(findings[0].severity if findings else "sound" for findings in all_findings)
    parts = [f"{worst[name]} {name}" for name in (*Severity, "sound") if worst[name]]
    count = len(all_findings)
    return f"{count} session{'' if count == 1 else 's'}: {', '.join(parts) or 'none'}"


def _hint(all_findings: list[list[Finding]]) -> str:
    """Return the command that fixes the worst that can be fixed; "" if several would be needed."""
    # Findings are sorted by severity: a loss that a repair mends must not hide a fatal finding.
    worst = (next((each.fix for each in findings if each.fix), None) for findings in all_findings)
    fixes = set(filter(None, worst))
    if len(fixes) == 1:
        return f"  ({plain(fixes.pop())})"
    is_repair = any(fix.endswith("--repair") for fix in fixes)
    return "  (turnlog edit SESSION --repair)" if is_repair else ""


def _as_json(path: Path, findings: list[Finding]) -> dict[str, Any]:
    return {"id": path.stem, "path": str(path), "findings": findings}
