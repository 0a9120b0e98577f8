"""turnlog tree: draw the branches, sub-agents and compactions of a session."""

import re

import click
import msgspec

from turnlog.cli.arguments import json_option, output_option, reveal_option, session_argument
from turnlog.cli.output import echo_json, fit, plain_masked, width
from turnlog.cli.sessions import open_lazily
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import dim, echo
from turnlog.conversation.continuations import previous_of
from turnlog.conversation.nodes import BoundaryNode
from turnlog.conversation.session import Session
from turnlog.render.text_layout import cells_of
from turnlog.render.tree_drawing import draw_tree, milestones
from turnlog.store.stores import Stores

UUID_START = re.compile(r"  \[[0-9A-Za-z-]{1,8}\]$")


class StoneView(msgspec.Struct):
    """A prompt or a compaction in the tree, as JSON."""

    uuid: str | None
    kind: str
    line: int
    active: bool
    trigger: str | None
    """Of a compaction: `manual` or `auto`."""
    pre_tokens: int | None
    """Of a compaction: tokens of the context before it."""
    next: list[str | None]
    agents: list[str]


@click.command("tree")
@session_argument
@output_option()
@reveal_option
@json_option
@with_stores
def command(stores: Stores, session: str, reveal: bool, as_json: bool) -> None:
    """Draw SESSION as a tree of prompts, branches and sub-agents.

    ● marks the active branch, which the client resumes. Brackets contain the start of a prompt's
    uuid, for `show --leaf`, `context --at` or `clone --keep-until`.

    \b
    Examples:
      turnlog tree last
      turnlog tree 3f2a --json
    """
    opened = open_lazily(stores, session)
    if as_json:
        echo_json(_views(opened))
        return
    if previous := previous_of(opened.path):
        echo(dim(f"continues {previous}"))
    for line in draw_tree(opened, reveal):
        echo(_fitted(plain_masked(line, keep_indent=True), width()))
    # Last, because a search through all lines of a large session takes a while.
    for follower in opened.links.next:
        echo(dim(f"continued in {follower}"))


def _fitted(line: str, room: int) -> str:
    """Cut a line to the terminal's width; the id for --leaf is never cut.

    >>> _fitted("● Fix the total  [3157a819]", 22)
    '● Fix the…  [3157a819]'
    """
    mark = UUID_START.search(line)
    kept = mark[0] if mark else ""
    text = line[: len(line) - len(kept)]
    return fit(text, min(cells_of(text), room - len(kept))) + kept


def _views(session: Session) -> list[StoneView]:
    stones, _ = milestones(session)
    return [
        StoneView(
            uuid=stone.node.uuid,
            kind=stone.node.kind,
            line=stone.node.line,
            active=stone.is_active,
            trigger=stone.node.trigger if isinstance(stone.node, BoundaryNode) else None,
            pre_tokens=stone.node.pre_tokens if isinstance(stone.node, BoundaryNode) else None,
            next=[stones[rank].node.uuid for rank in stone.next],
            agents=[agent.id for agent in stone.agents],
        )
        for stone in stones.values()
    ]
