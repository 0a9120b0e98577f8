"""turnlog unbundle: import the sessions of a bundle."""

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from turnlog.bundle.importer import (
    ImportedSession,
    ImportOptions,
    import_bundle,
    summarise_import,
)
from turnlog.bundle.merge import Relation
from turnlog.bundle.sealing import signature_of, verify
from turnlog.bundle.validation import needs_password, private_copy
from turnlog.cli.arguments import dry_run_option, json_option
from turnlog.cli.bundle import PASSWORD
from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_command, echo_json, plain, width, with_title
from turnlog.cli.passwords import password_file_option, password_from
from turnlog.cli.restore import parse_size
from turnlog.cli.store_options import store_option
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import echo, style
from turnlog.edit.check.findings import Severity
from turnlog.store.paths import Store
from turnlog.store.resume_command import resume_command
from turnlog.text import plural


@click.command("unbundle")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The project's directory here; of several projects, the directory that contains them.",
)
@password_file_option
@click.option(
    "--verify",
    "signers",
    metavar="SIGNERS",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Require FILE.sig to be signed by one of SIGNERS (an SSH allowed_signers file).",
)
@click.option(
    "--max-size",
    callback=parse_size,
    metavar="SIZE",
    help="Allow files of up to SIZE (500M, 2G) in total instead of the default limit.",
)
@click.option("--allow-broken", is_flag=True, help="Import sessions that no client would resume.")
@dry_run_option
@json_option
@store_option
@click.pass_obj
def command(store: Store, file: Path, as_json: bool, dry_run: bool, **given: Any) -> None:
    """Import the sessions of a bundle.

    FILE is not trusted: names, sizes, checksums and contents are validated before anything is
    written. Paths are changed to your home directory and to the project's directory: DIR, else the
    same place below your home, else the current directory. If you have the session already, new
    lines are appended to it; if you continued it as well, both are kept, the new one as a fork.
    The store may be a new directory.
    `turnlog undo` reverts an import.

    \b
    Examples:
      turnlog unbundle bug.turnlog --dry-run
      turnlog unbundle bug.turnlog --into ~/src/shop
      turnlog unbundle private.turnlog --verify ~/.ssh/allowed_signers
    """
    with private_copy(file) if given["signers"] else nullcontext() as content:
        # Verify first: nobody should type a password for a file of an unknown sender.
        signer = verify(file, given["signers"], content) if given["signers"] else None
        options = _options(file, content, given)
        plan = import_bundle(store, file, options, dry_run=dry_run)
    if as_json:
        echo_json({**summarise_import(plan, is_done=not dry_run), "signer": signer})
        return
    if signer:
        echo(f"Signed by {plain(signer)}")
    elif signature_of(file).is_file():
        hint = to_type(f"turnlog unbundle {shlex.quote(str(file))} --verify SIGNERS")
        echo(f"turnlog: the signature was not verified (try: {hint})", err=True)
    for session in plan.sessions:
        _print(session, store, dry_run)
    for path in plan.kept:
        echo(f"  kept, though the bundle has another version: {plain(str(path))}")
    for path in plan.asides:
        echo(f"  the bundle's version: {plain(str(path))}")
    for name in sorted(plan.untracked):
        echo(f"  /rewind will not touch {plain(name)}: not an ordinary file of the project")
    if plan.prompts:
        echo(f"  {plural(plan.prompts, 'prompt')} of the history")
    if not plan.manifest.is_redacted:
        echo(style("turnlog: the bundle is not redacted", "yellow"), err=True)
    print_undo(plan.record)


def _options(file: Path, content: Path | None, given: dict[str, Any]) -> ImportOptions:
    is_encrypted = needs_password(file, content)
    password = password_from(
        given["password_file"],
        is_encrypted,
        PASSWORD,
        f"turnlog unbundle {shlex.quote(str(file))}",
        confirm=False,
    )
    return ImportOptions(
        given["into"],
        password=password if is_encrypted else None,
        max_size=given["max_size"],
        allow_broken=given["allow_broken"],
        content=content,
    )


def _print(session: ImportedSession, store: Store, dry_run: bool) -> None:
    would = "Would import" if dry_run else "Imported"
    lines = plural(session.added_lines, "line")
    match session.relation:
        case Relation.SAME:
            echo(f"{session.id} is here already{f', as {session.new_id}' * session.is_fork}")
        case Relation.BEHIND:
            echo(f"{session.id} is here already, and longer than in the bundle")
        case Relation.AHEAD:
            echo(_update(session, dry_run))
        case Relation.DIVERGED:
            echo(f"{would} {session.id} as {session.new_id}: {lines}")
            echo("  a fork: this session and the one in the bundle were both continued")
        case Relation.NEW:
            other = f" as {session.new_id}, because files of that id exist" * session.is_fork
            head = f"{would} {session.id}{other}: {lines}"
            for line in with_title(head, plain(session.title), width()):
                echo(line)
    if not session.is_kept:
        _print_command(session, store)
    elif session.files:
        verb = "would add" if dry_run else "added"
        echo(f"  {verb} {plural(session.files, 'file')} missing here")


def _print_command(session: ImportedSession, store: Store) -> None:
    """Print the findings about a session, and the command that resumes or checks it."""
    for finding in session.findings:
        echo(f"  {finding.severity}: {plain(finding.message)}")
    command = resume_command(session.new_id, session.directory, store)
    if any(finding.severity is Severity.FATAL for finding in session.findings):
        command = to_type(f"turnlog check {shlex.quote(session.new_id)}")
    echo_command(plain(command))


def _update(session: ImportedSession, dry_run: bool) -> str:
    """Return the line about a session that the bundle continues."""
    append, update = ("Would append", "update") if dry_run else ("Appended", "updated")
    if not session.added_lines:
        verb = "Would update" if dry_run else "Updated"
        return f"{verb} {plural(session.files, 'file')} of {session.id}"
    lines, others = plural(session.added_lines, "line"), session.files - 1
    more = f", and {update} {plural(others, 'other file')}" if others else ""
    return f"{append} {lines} to {session.id}{more}"
