"""Build the documents of an exported page: the encoded page and JSON of each turn.

Pure. A task consists of numbers and strings only, so that a second process can run it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.render.depth import Depth, page_at, view_at
from turnlog.render.html.encryption import PageKey
from turnlog.render.html.page_file import encode_json, share_texts, slim_turn
from turnlog.render.html.session_pages import PageOptions, SessionPages, find_masked
from turnlog.render.json_views import turn_view
from turnlog.secrets import mask_value

RECALLED = 4 << 20
"""Entries of turns up to this many bytes are cached, so that page and JSON decode them once."""
MOST_OPENED = 8
"""Maximum number of sub-agents kept open, in case they started others."""

AgentPath = tuple[str, ...]
"""The id of a sub-agent, after those of the sub-agents that it is nested in, outermost first."""


@dataclass(frozen=True)
class FileOptions:
    """Options for an HTML file."""

    depth: Depth
    turn: int | None
    """Only this turn."""
    leaf: str | None
    """uuid of the entry at which the branch ends; only this branch is exported."""
    thinking: bool
    injected: bool
    """Include texts that the client injected."""
    key: PageKey | None
    """Encrypt the page."""


class TurnDocuments(NamedTuple):
    """The documents of a turn."""

    page: bytes
    json: bytes | None
    """The turn as `turnlog show` prints it, for turns of the main branch."""
    masked: int
    """Number of secrets masked on the page."""
    agents: list[str]
    """Ids of the sub-agents that its calls started, as the page shows them."""


class DocumentMaker:
    """Builds the documents of turns and sub-agents."""

    def __init__(self, session: Session, options: FileOptions) -> None:
        self._options = options
        self._branches = {options.leaf: SessionPages(session, page_options(options, options.leaf))}
        self._opened: dict[AgentPath, Session | None] = {(): session}

    def pages(self, leaf: str | None) -> SessionPages:
        """Return the pages of the branch that ends at an entry."""
        if leaf not in self._branches:
            options = page_options(self._options, leaf)
            self._branches[leaf] = SessionPages(self._root, options)
        return self._branches[leaf]

    def make(self, task: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
        """Return the documents of a turn, `(leaf, n, number)`, or of a sub-agent, given by a path.

        `number` is the number of the turn's page, for a reference in the JSON; None omits the JSON.
        Return None if there is no such sub-agent.
        """
        kind, *names = task
        if kind == "turn":
            leaf, n, number = names
            pages = self.pages(leaf)
            return [tuple(self._documents(pages, pages.turns[int(n) - 1], number))]
        session = self._open(tuple(names))
        if session is None:
            return None
        pages = SessionPages(session, page_options(self._options))
        return [tuple(self._documents(pages, turn)) for turn in pages.turns]

    @property
    def _root(self) -> Session:
        root = self._opened[()]
        assert root, "the session itself stays open"
        return root

    def _open(self, path: AgentPath) -> Session | None:
        if path not in self._opened:
            parent = self._open(path[:-1])
            agent = find_masked(parent.subagents, path[-1]) if parent else None
            if len(self._opened) > MOST_OPENED:
                self._opened = {(): self._root}
            self._opened[path] = parent.open_subagent(agent) if parent and agent else None
        return self._opened[path]

    def _documents(
        self, pages: SessionPages, turn: Turn, number: int | None = None
    ) -> TurnDocuments:
        with pages.session.kept_open(RECALLED):
            page = page_at(pages.page(turn.n), self._options.depth)
            json = None if number is None else self._json(pages.session, turn, page, number)
        agents = [row["agent"] for row in page["rows"] if row["type"] == "call" and row["agent"]]
        return TurnDocuments(encode_json(page), json, page["masked"], agents)

    def _json(self, session: Session, turn: Turn, page: dict[str, Any], number: int) -> bytes:
        view = msgspec.to_builtins(turn_view(session, turn, reveal=True))
        # Mask the whole object: some values are recognized as secrets only by the names of their
        # fields.
        masked = mask_value(slim_turn(view_at(view, self._options.depth), page, number))
        share_texts(masked, page)
        return encode_json(masked)


def page_options(options: FileOptions, leaf: str | None = None) -> PageOptions:
    """Return the options for complete pages of a depth."""
    return PageOptions(leaf, options.thinking, options.injected, None, count=None)
