"""Options of `trace` and `hook` that say what traces contain and what they are marked with."""

from typing import Any

import click

from turnlog.trace.content import Mode
from turnlog.trace.settings import Temporality
from turnlog.trace.span import Layout

OPTIONS = (
    click.option(
        "--layout",
        type=click.Choice([each.value for each in Layout]),
        help="Where tools are in a trace.",
    ),
    click.option(
        "--content",
        type=click.Choice([each.value for each in Mode]),
        help="What of the content is sent.",
    ),
    click.option("--max-chars", type=click.IntRange(0), help="Cut longer texts; 0 cuts none."),
    click.option("--user", metavar="NAME", help="The user to put on the traces."),
    click.option(
        "--tag", "tags", metavar="TAG", multiple=True, help="A tag for the traces; repeatable."
    ),
    click.option("--environment", metavar="NAME", help="The environment, such as production."),
    click.option("--release", metavar="NAME", help="The release to put on the traces."),
    click.option(
        "--metrics",
        type=click.Choice([each.value for each in Temporality]),
        help="Send metrics as well.",
    ),
)


def span_options(command: Any) -> Any:
    """Add the options in the order of their list."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
