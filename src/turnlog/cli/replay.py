"""turnlog replay: serve a recorded session as a Messages API."""

from shlex import quote
from typing import Any

import click
from click.core import ParameterSource

from turnlog.agent.replay.recorded_answers import RecordedAnswer, Track, tracks_of
from turnlog.cli.arguments import json_option, output_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json, plain
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.cli.terminal import echo, echo_masked, masked_value
from turnlog.conversation.session import Session
from turnlog.errors import NotFound, UsageError
from turnlog.format.json_values import Fields
from turnlog.store.stores import Stores

COLUMNS = (
    Column("conversation", look="dim"),
    Column("answer", is_number=True, look="dim"),
    Column("content"),
    Column("stop reason", expendable=1, look="dim"),
)


@click.command("replay")
@session_argument
@click.option("--serve", is_flag=True, help="Serve requests on localhost until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port; by default a free one."
)
@click.option(
    "--key",
    envvar="TURNLOG_REPLAY_KEY",
    help="Require this API key instead of a random one; or set TURNLOG_REPLAY_KEY.",
)
@click.option(
    "--strict", is_flag=True, help="Reject requests that differ from the recording (status 400)."
)
@output_option()
@reveal_switch
@json_option
@with_stores
def command(stores: Stores, session: str, serve: bool, as_json: bool, **options: Any) -> None:
    """Serve SESSION as a Messages API with the recorded responses.

    The nth request of a conversation gets its nth recorded message; sub-agents are recognized by
    their first prompt. Set ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY to the two lines that are
    printed. Differences from the recorded requests are printed to stderr. Without --serve, lists
    the recorded responses.

    \b
    Examples:
      turnlog replay last
      turnlog replay last --serve --port 8123
      turnlog replay 3f2a --serve --strict --key test
    """
    given = click.get_current_context().get_parameter_source("key")
    is_typed = given is ParameterSource.COMMANDLINE
    if (options["port"] or options["strict"] or is_typed) and not serve:
        raise UsageError(
            "--port, --key and --strict require --serve", "turnlog replay SESSION --serve"
        )
    opened = open_named(stores, session)
    if serve:
        _serve(opened, **options)
        return
    answers = [(track, rank) for track in tracks_of(opened) for rank in range(len(track.messages))]
    if not answers:
        raise NotFound(f"no answers in {opened.path.name}", f"turnlog show {quote(opened.id)}")
    if as_json:
        echo_json([_view(track, rank) for track, rank in answers])
        return
    echo_table(with_rows(COLUMNS, (_cells(track, rank) for track, rank in answers)))


def _serve(session: Session, port: int, strict: bool, key: str | None) -> None:
    """Answer requests until Ctrl-C."""
    import secrets

    from turnlog.agent.replay.replay_server import ReplayServer

    def report(text: str) -> None:
        for line in text.splitlines():
            echo(plain(line), err=True)

    key = key or f"replay-{secrets.token_hex(16)}"
    with ReplayServer(session, report, port, strict, key=key) as server:
        echo(server.url)
        echo_masked(key)  # the one secret that is meant to be seen
        server.serve_forever()


def _view(track: Track, rank: int) -> Fields:
    answer = track.answer(rank)
    body = answer.body if answer else {}
    return {
        "conversation": track.name,
        "n": rank + 1,
        "message": body,
    }


def _cells(track: Track, rank: int) -> list[str]:
    answer = track.answer(rank)
    reason = plain(str(answer.body["stop_reason"] or "")) if answer else ""
    content = _content_of(RecordedAnswer(masked_value(answer.body), None) if answer else None)
    return [plain(track.name)[:10], str(rank + 1), plain(content), reason]


def _content_of(answer: RecordedAnswer | None) -> str:
    return "  ".join(map(_block, answer.body["content"])) if answer else ""


def _block(block: Fields) -> str:
    if block.get("type") == "text":
        return str(block.get("text"))
    return f"[{block.get('name') or block.get('type')}]"
