"""turnlog export: write sessions as HTML pages, Markdown, JSON or text."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import (
    all_option,
    json_option,
    leaf_option,
    project_option,
    since_option,
    until_option,
)
from turnlog.cli.completions import complete_session
from turnlog.cli.output import echo_json, plain, progress_bar
from turnlog.cli.output_file import STDOUT, require_outside_store
from turnlog.cli.passwords import password_file_option, password_from
from turnlog.cli.picking import SELECTING, named_or_picked
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.terminal import echo, style
from turnlog.errors import NotFound, UsageError
from turnlog.format.atomic import require_replaceable
from turnlog.render.depth import Depth
from turnlog.render.export import (
    FORMATS,
    ExportOptions,
    export_session,
    format_of,
    is_own_export,
    write_export,
)
from turnlog.render.export_folder import FolderOptions, FolderReport, export_folder
from turnlog.render.html.encryption import derive_key
from turnlog.store.catalog import SessionFile, locate_session, select_sessions
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural

PASSWORD = "TURNLOG_EXPORT_PASSWORD"
AGREEING = "turnlog.export.agreeing"
"""Key in `Context.meta` of the same command line with --yes."""


class ExportCommand(click.Command):
    """A command that remembers its command line, so that a hint can repeat it with --yes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # --yes comes first: after a `--`, it would be taken for the name of a session.
        ctx.meta[AGREEING] = shlex.join(["turnlog", "export", "--yes", *args])
        return super().parse_args(ctx, args)


@click.command("export", cls=ExportCommand)
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=complete_session)
@all_option("Export all sessions to a directory, with an index.")
@project_option
@since_option("sessions active")
@until_option("sessions last active")
@click.option(
    *("-o", "--output"),
    required=True,
    metavar="PATH",
    type=click.Path(allow_dash=True),
    help="File or directory to write; - is stdout.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format; by default that of the file's extension, else html.",
)
@click.option(
    "--depth",
    type=click.Choice([depth.value for depth in Depth]),
    help="How much of each turn; by default full for html and json, else calls.",
)
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Only turn N.")
@leaf_option
@click.option("--thinking/--no-thinking", default=True, help="Include the model's thinking.")
@click.option("--no-js", is_flag=True, help="Write HTML without scripts, for mail and print.")
@click.option("--password", is_flag=True, help="Encrypt HTML with a password; prompts for it.")
@password_file_option
@click.option("--yes", "-y", is_flag=True, help="Replace files that turnlog did not write.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Export sessions as HTML pages, Markdown, JSON or text.

    An HTML page is one file with everything in it: it loads nothing from the network, opens at once
    at any size, and has an outline, search, branches and sub-agents. Secrets are masked, and the
    page says how many. Several sessions, or --all, --project or --since, are written to a directory
    with an index; only what changed is rewritten.

    \b
    Examples:
      turnlog export last -o session.html
      turnlog export 3f2a --turn 2 --depth answers -o turn.md
      turnlog export last --password -o private.html
      turnlog export --all -o sessions/
    """
    stores = stores_in(ctx)
    output = given["output"]
    is_selected = bool(given["every"] or given["project"] or given["since"] or given["until"])
    example = "turnlog export last -o session.html"
    sessions = named_or_picked(ctx, sessions, is_selected, SELECTING, example)
    if output != STDOUT:
        require_outside_store(ctx, Path(output))
    password = password_from(given["password_file"], given["password"], PASSWORD, "turnlog export")
    is_single = len(sessions) == 1 and not Path(output).is_dir() and not output.endswith("/")
    if output == STDOUT and not is_single:
        hint = "turnlog export SESSION -o -"
        raise UsageError("several sessions cannot be written to stdout", hint)
    options = _options(given, Path(output) if is_single and output != STDOUT else None)
    if is_single:
        _export_file(ctx, sessions[0], options, password, as_json)
    else:
        _export_folder(ctx, _chosen(stores, sessions, given), options, password, as_json)


def _options(given: dict[str, Any], path: Path | None) -> ExportOptions:
    form = given["form"] or (format_of(path) if path else "html")
    is_encrypted = given["password"] or given["password_file"]
    for option, is_set in (("--no-js", given["no_js"]), ("--password", is_encrypted)):
        if is_set and form != "html":
            raise UsageError(f"{option} is for HTML, not {form}", "turnlog export --help")
    if given["no_js"] and is_encrypted:
        raise UsageError("--no-js cannot be combined with --password", "turnlog export --help")
    depth = Depth(given["depth"]) if given["depth"] else None
    return ExportOptions(
        form, depth, given["turn"], thinking=given["thinking"], is_static=given["no_js"]
    )


def _chosen(stores: Stores, sessions: tuple[str, ...], given: dict[str, Any]) -> list[SessionFile]:
    if given["turn"] or given["leaf"]:
        hint = "turnlog export SESSION --turn N -o FILE"
        raise UsageError("--turn and --leaf need one session and a file", hint)
    if sessions:
        paths = [find_session(stores, text).path for text in sessions]
        return [locate_session(path) for path in dict.fromkeys(paths)]
    return select_sessions(stores, given["project"], given["since"], given["until"])


def _export_file(
    ctx: click.Context, name: str, options: ExportOptions, password: str | None, as_json: bool
) -> None:
    session = open_named(stores_in(ctx), name)
    key = derive_key(password) if password is not None else None
    options = replace(options, leaf=leaf_of(session, ctx.params["leaf"]), key=key)
    if ctx.params["output"] == STDOUT:
        write_export(session, sys.stdout.buffer, options)
        return
    path = Path(ctx.params["output"])
    if not path.absolute().parent.is_dir():
        raise NotFound(
            f"{path.parent} is not a directory", f"mkdir -p {shlex.quote(str(path.parent))}"
        )
    require_replaceable(path, ctx.meta[AGREEING], ctx.params["yes"], is_own_export)
    export_session(session, path, options)
    size = path.stat().st_size
    if as_json:
        echo_json({"file": path, "format": options.format, "size": size})
    else:
        echo(f"{plain(str(path))}: {file_size(size)}")


def _export_folder(
    ctx: click.Context,
    sessions: list[SessionFile],
    options: ExportOptions,
    password: str | None,
    as_json: bool,
) -> None:
    given = ctx.params
    folder = Path(given["output"])
    # A filtered export must not remove the pages of the sessions that it leaves out.
    is_complete = given["every"] and not (given["project"] or given["since"] or given["until"])
    chosen = FolderOptions(options, password, is_complete, given["yes"])
    with progress_bar(sum(session.size for session in sessions), "exporting") as bar:
        report = export_folder(sessions, folder, chosen, bar.update)
    if as_json:
        echo_json(report)
    else:
        _print_report(report, folder)
    if report.failed:
        ctx.exit(1)


def _print_report(report: FolderReport, folder: Path) -> None:
    for reason in report.failed:
        echo(style(plain(reason), "red"), err=True)
    for name in report.kept:
        echo(style(plain(f"{name} was changed, and is kept"), "yellow"), err=True)
    facts = f"{plural(report.written, 'session')} written, {report.unchanged:,} unchanged"
    facts += f", {report.removed:,} removed" if report.removed else ""
    echo(f"{plain(str(folder))}: {facts}")
