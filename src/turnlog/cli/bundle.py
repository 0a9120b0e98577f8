"""turnlog bundle: pack sessions with all their files, to continue them elsewhere."""

import shlex
from functools import partial
from pathlib import Path
from typing import Any

import click

from turnlog.bundle.bundler import BundleOptions, BundleReport, write_bundle
from turnlog.bundle.container import MAGIC
from turnlog.bundle.manifest import BundledSession, BundleManifest
from turnlog.bundle.sealing import is_signature, signature_of
from turnlog.cli.arguments import dry_run_option, json_option, since_option
from turnlog.cli.completions import complete_project, complete_session
from turnlog.cli.output import echo_json, finish, local_time, plain, progress_bar, width, with_title
from turnlog.cli.output_file import require_outside_store
from turnlog.cli.passwords import password_file_option, password_from
from turnlog.cli.picking import named_or_picked
from turnlog.cli.sessions import only_store, own_files
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.terminal import echo, style
from turnlog.errors import NotFound
from turnlog.format.age_files import AGE
from turnlog.format.atomic import require_replaceable
from turnlog.store.catalog import select_sessions
from turnlog.store.paths import Store
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural, typeable

PASSWORD = "TURNLOG_BUNDLE_PASSWORD"
SUFFIX = ".turnlog"
MANY = 10
"""Maximum number of omitted files that are listed by name."""
AGREEING = "turnlog.bundle.agreeing"
PASSES = 2
"""Minimum number of times that `find_all` reads a file."""


class BundleCommand(click.Command):
    """A command that remembers its command line, for a hint that repeats it with --yes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # --yes comes first: after a `--`, it would be taken for the name of a session.
        ctx.meta[AGREEING] = shlex.join(["turnlog", "bundle", "--yes", *args])
        return super().parse_args(ctx, args)


@click.command("bundle", cls=BundleCommand)
@click.argument("sessions", metavar="[SESSION]...", nargs=-1, shell_complete=complete_session)
@click.option(
    "--project",
    metavar="DIR",
    shell_complete=complete_project,
    help="All sessions of the project in DIR.",
)
@since_option("sessions active")
@click.option(
    *("-o", "--output"),
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write, such as x.turnlog.",
)
@click.option("--as-is", is_flag=True, help="Keep secrets and files that cannot be searched.")
@click.option("--password", is_flag=True, help="Encrypt with a password (age); prompts for it.")
@password_file_option
@click.option(
    "--sign",
    "key",
    metavar="KEY",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sign with an SSH key: writes FILE.sig.",
)
@dry_run_option
@click.option("--yes", "-y", is_flag=True, help="Replace a file that turnlog did not write.")
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, sessions: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Pack sessions with all their files, to import them elsewhere.

    FILE contains the conversation, sub-agents, tool results, file history, to-do lists, plans and
    prompts, but no settings, credentials, hooks or programs. Secrets are replaced by placeholders,
    and the finished file is searched again: nothing is written if one is left. Your home and
    project directories are replaced by tokens. The same sessions yield the same bytes, unless
    encrypted.

    \b
    Examples:
      turnlog bundle last -o bug.turnlog
      turnlog bundle --project . --since 7d -o week.turnlog
      turnlog bundle 3f2a --password --sign ~/.ssh/id_ed25519 -o private.turnlog
    """
    is_selected = bool(given["project"] or given["since"])
    example = "turnlog bundle last -o session.turnlog"
    sessions = named_or_picked(ctx, sessions, is_selected, "--project or --since", example)
    output: Path = given["output"]
    require_outside_store(ctx, output)
    if not output.absolute().parent.is_dir():
        raise NotFound(
            f"{output.parent} is not a directory", f"mkdir -p {shlex.quote(str(output.parent))}"
        )
    # Before the prompt for a password: nobody should type one for a file that is then refused.
    require_replaceable(output, ctx.meta[AGREEING], given["yes"], partial(is_own_bundle, output))
    if given["key"]:
        signature = signature_of(output)
        require_outside_store(ctx, signature)
        require_replaceable(signature, ctx.meta[AGREEING], given["yes"], is_signature)
    password = password_from(given["password_file"], given["password"], PASSWORD, "turnlog bundle")
    options = BundleOptions(not given["as_is"], password, given["key"])
    store, paths = _chosen(stores_in(ctx), sessions, given)
    with progress_bar(PASSES * sum(path.stat().st_size for path in paths), "bundling") as bar:
        report = write_bundle(
            store, paths, output, options, dry_run=given["dry_run"], progress=bar.update
        )
        finish(bar)
    if as_json:
        echo_json(_as_json(report, given["dry_run"]))
    else:
        _print(report, given["dry_run"])
    if not report.manifest.is_redacted:
        warning = "not redacted: the file contains secrets and private data as they are"
        echo(style(f"turnlog: {warning}", "yellow"), err=True)


def is_own_bundle(path: Path, start: bytes) -> bool:
    """Return whether a file is a bundle, judging by its first bytes."""
    # An encrypted bundle cannot be told from any other age file, except by its name.
    return start.startswith((MAGIC, AGE) if path.suffix == SUFFIX else MAGIC)


def _chosen(
    stores: Stores, sessions: tuple[str, ...], given: dict[str, Any]
) -> tuple[Store, list[Path]]:
    if sessions:
        return own_files(stores, sessions, "bundle")
    store = only_store(stores, "bundle")
    found = select_sessions(store, given["project"], given["since"])
    if not found:
        what = f"of {given['project']} " if given["project"] else ""
        since = f" since {local_time(given['since'])}" if given["since"] else ""
        raise NotFound(f"no sessions {what}in {store.projects}{since}", "turnlog ls")
    return store, [session.path for session in found]


def _print(report: BundleReport, dry_run: bool) -> None:
    manifest = report.manifest
    verb = "Would write" if dry_run else "Wrote"
    sizes = f"{file_size(report.size)} from {file_size(sum(f.size for f in manifest.files))}"
    echo(f"{verb} {plain(str(report.path))}: {sizes}")
    print_contents(manifest)
    if report.signature:
        echo(f"  signature: {plain(str(report.signature))}")
    if not dry_run:
        echo(f"  turnlog unbundle {plain(typeable(shlex.quote(str(report.path))))}")


def print_contents(manifest: BundleManifest, err: bool = False) -> None:
    """Print what a bundle contains, what was masked and what was left out."""
    for session in manifest.sessions:
        count = sum(file.path.startswith(f"{session.id}/") for file in manifest.files)
        facts = f"{plural(session.lines, 'line')}, {plural(count, 'file')}"
        title = plain(_title(session, manifest))
        for line in with_title(f"  {session.id}  {facts}", title, width()):
            echo(line, err=err)
    if manifest.is_redacted:
        kinds = ", ".join(f"{plain(kind)} {count}" for kind, count in manifest.masked.items())
        echo(f"  masked: {kinds or 'nothing found'}", err=err)
    for omission in manifest.omitted[:MANY]:
        echo(f"  left out: {plain(omission.path)}: {plain(omission.reason)}", err=err)
    if len(manifest.omitted) > MANY:
        echo(f"  left out: {plural(len(manifest.omitted) - MANY, 'more file')}", err=err)


def _title(session: BundledSession, manifest: BundleManifest) -> str:
    """Return a title with its tokens replaced by readable names of directories."""
    title, prefix = session.title or "", manifest.tokens
    names = {"home": "~", "store": "~/.claude"}
    for number, project in enumerate(manifest.projects):
        names |= dict.fromkeys((f"project-{number}", f"folder-{number}"), project.name)
    for token, name in names.items():
        title = title.replace(f"{prefix}{token}}}", name)
    return title


def _as_json(report: BundleReport, dry_run: bool) -> dict[str, Any]:
    return {
        "file": report.path,
        "size": report.size,
        "signature": report.signature,
        "manifest": report.manifest,
        "done": not dry_run,
    }
