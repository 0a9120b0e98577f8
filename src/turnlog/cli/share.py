"""turnlog share: publish a session as a page or a bundle, and revoke it."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from turnlog.bundle.sharing.share import (
    FORMS,
    PreparedShare,
    Published,
    ShareTarget,
    prepared_share,
    publish,
    share_target,
    unshare,
)
from turnlog.bundle.sharing.share_records import ShareRecord, read_shares
from turnlog.cli.arguments import dry_run_option, json_option, yes_option
from turnlog.cli.bundle import PASSWORD, print_contents
from turnlog.cli.completions import complete_session
from turnlog.cli.output import echo_json, plain
from turnlog.cli.output_file import require_outside_store
from turnlog.cli.passwords import password_file_option, password_from
from turnlog.cli.picking import named_or_picked
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.cli.terminal import echo, echo_masked, style
from turnlog.errors import UsageError
from turnlog.store.session_lookup import find_in_store
from turnlog.text import file_size, short_id

COLUMNS = (
    Column("share", is_whole=True),
    Column("time", look="dim"),
    Column("session"),
    Column("as"),
    Column("address"),
    Column("revoked", look="dim"),
)


@click.command("share")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option(
    "--to",
    "target",
    metavar="TARGET",
    help="gist, s3://BUCKET/PREFIX, a signed upload address (https://…) or a file.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="A page to read, or a bundle to continue with.",
)
@click.option("--public", is_flag=True, help="Make a gist public instead of unlisted.")
@click.option("--endpoint", metavar="URL", help="Address of S3-compatible storage.")
@click.option(
    "--days",
    type=click.IntRange(1, 7),
    default=7,
    show_default=True,
    help="How long a link to S3 storage is valid.",
)
@click.option("--password", is_flag=True, help="Encrypt with a password; prompts for it.")
@password_file_option
@click.option("--unshare", "revoked", metavar="SHARE", help="Remove what was shared as SHARE.")
@click.option("--list", "is_list", is_flag=True, help="List what was shared.")
@dry_run_option
@yes_option
@json_option
@store_option
@click.pass_context
def command(ctx: click.Context, session: str | None, as_json: bool, **given: Any) -> None:
    """Publish SESSION as a page or a bundle, after asking.

    Shows what was masked, what becomes public and who can read it, then asks. Secrets are masked as
    by `turnlog bundle`, and your home directory is shown as `~`. For S3 storage, set
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; gists need GitHub's `gh`. turnlog remembers what
    was shared: --unshare removes it again.

    \b
    Examples:
      turnlog share last --to gist
      turnlog share 3f2a --as bundle --password --to s3://team/sessions
      turnlog share --list
      turnlog share --unshare 9c41d2aa
    """
    if given["is_list"] and given["revoked"] is not None:
        raise UsageError("--list cannot be combined with --unshare", "turnlog share --list")
    is_other = given["is_list"] or given["revoked"] is not None
    named = (session,) if session else ()
    example = "turnlog share last --to gist"
    sessions = named_or_picked(ctx, named, is_other, "--unshare or --list", example)
    if given["is_list"]:
        _print_list(read_shares(), as_json)
    elif given["revoked"] is not None:
        _revoke(given["revoked"], given, as_json)
    else:
        _share(ctx, sessions[0], given, as_json)


def _share(ctx: click.Context, name: str, given: dict[str, Any], as_json: bool) -> None:
    if not given["target"]:
        raise UsageError("no target", f"turnlog share {shlex.quote(name)} --to gist")
    target = share_target(
        given["target"],
        is_public=given["public"],
        endpoint=given["endpoint"],
        days=given["days"],
    )
    if target.kind == "file":
        require_outside_store(ctx, Path(target.place), f"{shlex.quote(name)} --to")
    store, path = find_in_store(stores_in(ctx), name)
    password = password_from(given["password_file"], given["password"], PASSWORD, "turnlog share")
    with prepared_share(store, path, given["form"], password) as prepared:
        _print_preview(prepared, target)
        if given["dry_run"]:
            if as_json:
                echo_json(_as_json(prepared, target, None))
            return
        _require_consent(
            given["yes"], shlex.join(["turnlog", "share", name, "--to", given["target"], "--yes"])
        )
        published = publish(prepared, target)
        if as_json:
            echo_json(_as_json(prepared, target, published))
            return
    # A signed link contains its signature, which looks like a secret and is meant to be passed on.
    echo_masked(published.link)
    echo(f"  turnlog share --unshare {published.record.id}", err=True)


def _print_preview(prepared: PreparedShare, target: ShareTarget) -> None:
    kind = "page" if prepared.form == "html" else "bundle"
    sealed = ", encrypted" if prepared.is_encrypted else ""
    size = file_size(prepared.path.stat().st_size)
    echo(f"A {kind} of {size}{sealed}, with:", err=True)
    print_contents(prepared.manifest, err=True)
    echo(f"  readable by: {target.audience}", err=True)


def _require_consent(is_agreed: bool, command_line: str) -> None:
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise UsageError("no terminal to ask for consent; nothing was sent", command_line)
    if not click.confirm("Publish?", err=True):
        raise click.exceptions.Exit(1)


def _revoke(text: str, given: dict[str, Any], as_json: bool) -> None:
    if given["dry_run"]:
        raise UsageError("--unshare cannot be combined with --dry-run", "turnlog share --list")
    record = unshare(text)
    if as_json:
        echo_json(record)
    else:
        echo(f"Removed {plain(record.address)}")


def _print_list(records: list[ShareRecord], as_json: bool) -> None:
    if as_json:
        echo_json(records)
        return
    if not records:
        echo(style("nothing was shared", "dim"), err=True)
        return
    rows = [
        (
            each.id,
            each.time[:16].replace("T", " "),
            short_id(each.session),
            each.form,
            plain(each.address),
            (each.revoked or "")[:10],
        )
        for each in reversed(records)
    ]
    echo_table(with_rows(COLUMNS, rows))


def _as_json(
    prepared: PreparedShare, target: ShareTarget, published: Published | None
) -> dict[str, Any]:
    return {
        "session": prepared.session,
        "form": prepared.form,
        "size": prepared.path.stat().st_size,
        "masked": prepared.manifest.masked,
        "omitted": prepared.manifest.omitted,
        "audience": target.audience,
        "share": published.record if published else None,
        "link": published.link if published else None,
        "done": published is not None,
    }
