"""turnlog lake ingest and ddl: convert raw session files, declare tables in a warehouse."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from turnlog.cli.arguments import dry_run_option, json_option, since_option
from turnlog.cli.output import echo_json, plain, progress_bar
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import dim, echo
from turnlog.lake.lake_settings import LakeSettings, parse_consents, read_settings
from turnlog.lake.raw_ingest import ENGINES, TASK_SIZE, Ingested, RawOptions, ingest_raw
from turnlog.lake.scout_export import export_scout
from turnlog.lake.warehouse_ddl import DIALECTS, warehouse_ddl
from turnlog.store.paths import expand_user
from turnlog.text import file_size, plural

MOST_NAMED = 5


@click.command("ingest")
@click.argument("raw")
@click.argument("dest")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="local",
    show_default=True,
    help="Convert here, or on a Spark cluster.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark cluster, such as spark://host:7077; by default that of spark-submit.",
)
@click.option(
    "--task-size",
    type=click.IntRange(1),
    metavar="MB",
    default=TASK_SIZE >> 20,
    show_default=True,
    help="Size of the raw files that one task reads.",
)
@since_option("changes of the file")
@click.option(
    "--user", metavar="NAME", help="User of all sessions, instead of their folder's name."
)
@click.option(
    "--with",
    "consents",
    multiple=True,
    metavar="WHAT",
    help="Include paths, commands or texts; texts are redacted.",
)
@click.option(
    "--names", type=click.Choice(["plain", "hash"]), help="Store names as they are, or hashed."
)
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the key that names are hashed with.",
)
@dry_run_option
@json_option
def ingest_command(raw: str, dest: str, as_json: bool, **given: Any) -> None:
    """Convert the raw session files below RAW to the lake DEST.

    RAW and DEST are directories or URLs of object stores. A folder with `projects` in it is the
    store of one machine, whose user is named by its folder; other .jsonl files are sessions, too.
    Files may be compressed (.gz, .zst). Malformed lines are counted and left out. Running it again
    writes only what has changed.

    With --engine spark, the files are distributed to the workers of a cluster, which all need
    access to RAW and DEST.

    \b
    Examples:
      turnlog lake ingest /archive/claude s3://team/lake
      turnlog lake ingest s3://ci/logs s3://team/lake --engine spark --master spark://head:7077
      turnlog lake ingest /archive/claude /srv/lake --since 2d --json
    """
    settings, since = _settings(given), given["since"]
    # The length 1 is a placeholder: the number of tasks is known once the files are listed.
    with progress_bar(1, "tasks") as bar:
        options = RawOptions(
            engine=given["engine"],
            master=given["master"],
            since=since and since.timestamp(),
            user=given["user"],
            task_size=given["task_size"] << 20,
            is_dry_run=given["dry_run"],
            step=lambda done, total: _advance(bar, done, total),
        )
        found = ingest_raw(raw, dest, settings, options)
    if as_json:
        summary = msgspec.structs.asdict(found.summary)
        echo_json(asdict(found) | {"summary": summary})
    else:
        _print(found, is_dry_run=options.is_dry_run)
    _print_problems(found)


def _settings(given: dict[str, Any]) -> LakeSettings:
    settings = read_settings()
    if given["consents"]:
        settings = replace(settings, consents=parse_consents(given["consents"]))
    if given["names"]:
        settings = replace(settings, is_hashed=given["names"] == "hash")
    key = given["key"] and expand_user(str(given["key"])).absolute()
    return replace(settings, key=key) if key else settings


def _advance(bar: Any, done: int, total: int) -> None:
    bar.length = total
    bar.update(done - bar.pos)


def _print(found: Ingested, *, is_dry_run: bool) -> None:
    done = found.summary
    would = "would be " if is_dry_run else ""
    size = file_size(done.bytes)
    echo(f"{plural(done.files, 'file')} of {plural(found.machines, 'machine')} read, {size}")
    if done.changed:
        rows = plural(done.rows, "row")
        written = "" if is_dry_run else dim(f", {file_size(done.written)}")
        echo(f"{rows} of {plural(done.changed, 'file')} {would}written{written}")
    else:
        echo("the lake has everything already")
    if done.retracted:
        echo(f"{plural(done.retracted, 'unit')} {would}retracted")
    if found.forgotten:
        echo(f"{plural(found.forgotten, 'forgotten file')} left out")
    speed = done.bytes / 1e6 / max(found.seconds, 0.001)
    tasks = plural(found.tasks, "task")
    echo(dim(f"{tasks} in {found.seconds:.1f} s, {speed:.1f} MB/s ({found.engine})"))


def _print_problems(found: Ingested) -> None:
    done = found.summary
    if done.malformed:
        count, files = (
            plural(done.malformed, "malformed line"),
            plural(done.malformed_files, "file"),
        )
        echo(f"turnlog: {count} in {files}", err=True)
    if done.unreadable:
        echo(f"turnlog: {plural(done.unreadable, 'file')} could not be read", err=True)
    named = [*done.problems, *found.skipped.items()]
    for path, reason in named[:MOST_NAMED]:
        echo(f"turnlog: {plain(path)}: {plain(reason)}", err=True)
    if len(named) > MOST_NAMED:
        echo(f"turnlog: … and {len(named) - MOST_NAMED:,} more (try: --json)", err=True)


@click.command("ddl")
@click.argument("dialect", type=click.Choice(list(DIALECTS)))
@click.argument("dest")
def ddl_command(dialect: str, dest: str) -> None:
    """Print DDL that declares the tables of DEST in a warehouse.

    The statements create external tables on the parts, and a view live_TABLE of the live rows of
    each table.

    \b
    Examples:
      turnlog lake ddl bigquery gs://team/lake
      turnlog lake ddl clickhouse s3://team/lake | clickhouse-client --multiquery
    """
    echo(warehouse_ddl(dialect, dest).rstrip())


@click.command("scout")
@click.argument("dest")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--again", is_flag=True, help="Replace the transcripts of an earlier export.")
@json_option
def scout_command(dest: str, folder: Path, again: bool, as_json: bool) -> None:
    """Write the sessions of DEST as inspect_scout transcripts.

    Run `scout scan -T FOLDER` on the result. Each session and each sub-agent is a transcript.
    Transcripts have messages only if the lake has texts (`turnlog lake push --with texts`);
    secrets in them are masked.

    \b
    Examples:
      turnlog lake scout s3://team/lake transcripts
      turnlog lake scout s3://team/lake transcripts --again
    """
    done = export_scout(dest, folder, again=again)
    if as_json:
        echo_json(done._asdict())
        return
    what = f"{plural(done.transcripts, 'transcript')}, {plural(done.messages, 'message')}"
    echo(f"{what}: {plain(done.path)}")
    if not done.messages:
        hint = to_type("turnlog lake push DEST --with texts")
        echo(f"turnlog: the lake has no texts (try: {hint})", err=True)
