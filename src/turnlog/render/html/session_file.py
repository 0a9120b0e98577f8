"""Write a session as one HTML file with the viewer: its turns, other branches and sub-agents."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import msgspec

from turnlog.conversation.session import Session
from turnlog.conversation.turn_blocks import BLOCK
from turnlog.conversation.turns import Turn
from turnlog.format.json_values import Fields
from turnlog.render.depth import Depth, page_at, view_at
from turnlog.render.html.encryption import PageKey
from turnlog.render.html.page_file import Frame, PageWriter, share_texts, slim_turn
from turnlog.render.html.script_bundle import bundle_scripts
from turnlog.render.html.session_pages import PageOptions, SessionPages, find_masked
from turnlog.render.json_views import turn_view
from turnlog.secrets import mask_value

VIEWER = Path(__file__).parent / "viewer"
STYLES = ("theme.css", "viewer.css", "file_page.css")
RECALLED = 4 << 20
"""Bytes of a turn whose entries are decoded once, for its page and its JSON."""
WITH_CALLS = (Depth.CALLS, Depth.FULL)
ENCRYPTED = "Encrypted session"
"""The title of a page with a password: that of the session may be confidential, too."""
BODY = '<main id="viewer"></main>\n<noscript>{}</noscript>'
NO_SCRIPT = "This page needs JavaScript; `turnlog export --no-js` writes one that does not."


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


def write_session_file(session: Session, file: BinaryIO, options: FileOptions) -> None:
    """Write the page of a session; secrets are masked, and the page says how many."""
    pages = SessionPages(session, page_options(options, options.leaf))
    head = _head_at(pages, options)
    title = ENCRYPTED if options.key else head["session"]["title"]
    frame = Frame(f"{title} · turnlog", viewer_style(), BODY.format(NO_SCRIPT), viewer_script())
    writer = _SessionWriter(PageWriter(file, frame, options.key), options)
    main = {"head": head, "pages": writer.add_turns(pages, with_json=True)}
    main["outlines"] = writer.add_outlines(pages, head)
    branches: Fields = {}
    if options.leaf is None and options.turn is None:
        for leaf in _other_leaves(head):
            other = SessionPages(session, page_options(options, leaf))
            branches[leaf] = writer.add_branch(other)
    agents = writer.add_agents() if options.depth in WITH_CALLS else {}
    writer.finish(main | {"branches": branches, "agents": agents, "depth": options.depth})


class _SessionWriter:
    """Adds the pages of branches and sub-agents; a page that branches share is added once."""

    def __init__(self, writer: PageWriter, options: FileOptions) -> None:
        self._writer = writer
        self._options = options
        self._numbers: dict[tuple[Path, int, int], int] = {}
        self._agents: dict[str, Session] = {}
        """Sub-agents to add, with the sessions whose calls started them."""
        self._masked = 0

    def add_branch(self, pages: SessionPages) -> Fields:
        """Add a branch and return the numbers of its documents."""
        head = _head_at(pages, self._options)
        outlines = self.add_outlines(pages, head)
        number = self._writer.add("pages", head)
        return {"head": number, "pages": self.add_turns(pages), "outlines": outlines}

    def add_outlines(self, pages: SessionPages, head: Fields) -> list[int]:
        """Add the blocks of a long outline and return their numbers."""
        count = head["session"]["turns"] if head["blocks"] else 0
        return [
            self._writer.add("pages", pages.outline(first, first + BLOCK - 1))
            for first in range(1, count + 1, BLOCK)
        ]

    def add_turns(self, pages: SessionPages, with_json: bool = False) -> list[int]:
        """Add the pages of a branch's turns and return their numbers."""
        chosen = [turn for turn in pages.turns if self._options.turn in (None, turn.n)]
        return [self._add_turn(pages, turn, with_json) for turn in chosen]

    def add_agents(self) -> Fields:
        """Add the sub-agents that the exported turns started, and theirs; return pages by id."""
        added: Fields = {}
        while self._agents:
            agent_id, parent = self._agents.popitem()
            agent = find_masked(parent.subagents, agent_id)
            # Sub-agents that start from a copy of the same context contain each other's calls.
            if agent and agent_id not in added:
                pages = SessionPages(parent.open_subagent(agent), page_options(self._options))
                added[agent_id] = [self._add_turn(pages, turn) for turn in pages.turns]
        return added

    def finish(self, head: Fields) -> None:
        """Write the head, with the number of masked secrets."""
        head["head"]["masked"] = self._masked
        self._writer.finish(head)

    def _add_turn(self, pages: SessionPages, turn: Turn, with_json: bool = False) -> int:
        session = pages.session
        key = (session.path, turn.nodes[0].index, turn.nodes[-1].index)
        if key not in self._numbers:
            with session.kept_open(RECALLED):
                self._numbers[key] = self._write_turn(pages, turn, with_json)
        return self._numbers[key]

    def _write_turn(self, pages: SessionPages, turn: Turn, with_json: bool) -> int:
        session, depth = pages.session, self._options.depth
        page = page_at(pages.page(turn.n), depth)
        self._masked += page["masked"]
        started = (row["agent"] for row in page["rows"] if row["type"] == "call" and row["agent"])
        self._agents |= dict.fromkeys(started, session)
        number = self._writer.add("pages", page)
        if with_json:
            view = view_at(msgspec.to_builtins(turn_view(session, turn, reveal=True)), depth)
            # Masked as a whole, because names of fields reveal more secrets than their values do.
            masked = mask_value(slim_turn(view, page, number))
            share_texts(masked, page)
            self._writer.add("turns", masked)
        return number


def page_options(options: FileOptions, leaf: str | None = None) -> PageOptions:
    """Return the options for complete pages of a depth."""
    return PageOptions(leaf, options.thinking, options.injected, None, count=None)


def _head_at(pages: SessionPages, options: FileOptions) -> Fields:
    """Return the head without turns and sub-agents that are not exported."""
    head = pages.head()
    agents = head["agents"]
    if options.turn is not None:
        only = pages.outline(options.turn, options.turn)
        head |= {"outline": only, "blocks": None}
        agents = [agent for agent in agents if agent["turn"] == options.turn]
    if options.turn is not None or options.leaf is not None:
        head["branches"] = []
    return head | {"agents": agents if options.depth in WITH_CALLS else []}


def _other_leaves(head: Fields) -> Iterator[str]:
    """Yield the leaves of the branches that the head offers beside its own."""
    own = head["session"]["leaf"]
    yield from dict.fromkeys(b["leaf"] for b in head["branches"] if b["leaf"] not in (None, own))


@cache
def viewer_script() -> str:
    """Return the viewer's modules as one script."""
    return bundle_scripts(VIEWER, "file_page.js")


@cache
def viewer_style() -> str:
    """Return the viewer's style sheets as one."""
    return "\n".join((VIEWER / name).read_text("utf-8") for name in STYLES)
