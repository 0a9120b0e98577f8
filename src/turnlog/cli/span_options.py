"""Options of `trace` and `hook` for the content and labels of traces."""

from typing import Any

import click

from turnlog.trace.content import ContentMode
from turnlog.trace.span import ToolPlacement
from turnlog.trace.trace_settings import Temporality

OPTIONS = (
    click.option(
        "--layout",
        type=click.Choice([each.value for each in ToolPlacement]),
        help="Where to place tool spans in a trace.",
    ),
    click.option(
        "--content",
        type=click.Choice([each.value for each in ContentMode]),
        help="How much content to send.",
    ),
    click.option("--max-chars", type=click.IntRange(0), help="Truncate longer texts; 0 keeps all."),
    click.option("--user", metavar="NAME", help="User name for the traces."),
    click.option(
        "--tag", "tags", metavar="TAG", multiple=True, help="Tag for the traces; repeatable."
    ),
    click.option("--environment", metavar="NAME", help="Environment, such as production."),
    click.option("--release", metavar="NAME", help="Release for the traces."),
    click.option(
        "--metrics",
        type=click.Choice([each.value for each in Temporality]),
        help="Send metrics as well.",
    ),
)


def span_options(command: Any) -> Any:
    """Add the span options to a command, in order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
