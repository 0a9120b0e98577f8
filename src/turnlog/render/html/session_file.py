"""Write a session as one HTML file with the viewer: its turns, other branches and sub-agents."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any, BinaryIO

from turnlog.conversation.session import Session
from turnlog.conversation.turn_blocks import BLOCK
from turnlog.conversation.turns import Turn
from turnlog.format.json_values import Fields
from turnlog.render.depth import Depth
from turnlog.render.html.page_file import Frame, PageWriter, encode_json
from turnlog.render.html.script_bundle import bundle_scripts
from turnlog.render.html.session_pages import SessionPages
from turnlog.render.html.turn_documents import (
    AgentPath,
    DocumentMaker,
    FileOptions,
    TurnDocuments,
)
from turnlog.store.helper_process import Mapper, sharing

VIEWER = Path(__file__).parent / "viewer"
STYLES = ("theme.css", "viewer.css", "file_page.css")
SHARED = 4 << 20
"""Minimum bytes of a session file for which a second process pays off."""
WITH_CALLS = (Depth.CALLS, Depth.FULL)
ENCRYPTED = "Encrypted session"
"""Title of an encrypted page: the session's own title may be confidential, too."""
BODY = '<main id="viewer"></main>\n<noscript>{}</noscript>'
NO_SCRIPT = "This page needs JavaScript; `turnlog export --no-js` writes one that does not."


def write_session_file(session: Session, file: BinaryIO, options: FileOptions) -> None:
    """Write the page of a session, with secrets masked; the page says how many."""
    maker = DocumentMaker(session, options)
    pages = maker.pages(options.leaf)
    head = _head_at(pages, options)
    # Fork after the session is read, and before the page's writer starts a thread.
    with sharing(maker.make, session.state.size >= SHARED) as make_all:
        title = ENCRYPTED if options.key else head["session"]["title"]
        frame = Frame(f"{title} · turnlog", viewer_style(), BODY.format(NO_SCRIPT), viewer_script())
        writer = _SessionWriter(PageWriter(file, frame, options.key), options, make_all)
        main = {"head": head, "pages": writer.add_turns(pages, options.leaf, with_json=True)}
        main["outlines"] = writer.add_outlines(pages, head)
        branches: Fields = {}
        if options.leaf is None and options.turn is None:
            for leaf in _other_leaves(head):
                branches[leaf] = writer.add_branch(maker.pages(leaf), leaf)
        agents = writer.add_agents() if options.depth in WITH_CALLS else {}
        writer.finish(main | {"branches": branches, "agents": agents, "depth": options.depth})


class _SessionWriter:
    """Adds the pages of branches and sub-agents; a page that branches share is added once."""

    def __init__(self, writer: PageWriter, options: FileOptions, make_all: Mapper) -> None:
        self._writer = writer
        self._options = options
        self._make_all = make_all
        self._numbers: dict[tuple[int, int], int] = {}
        """Numbers of pages, by the indexes of the first and the last node of a turn."""
        self._agents: dict[str, AgentPath] = {}
        """Sub-agents that still have to be added."""
        self._masked = 0

    def add_branch(self, pages: SessionPages, leaf: str) -> Fields:
        """Add a branch and return the numbers of its documents."""
        head = _head_at(pages, self._options)
        outlines = self.add_outlines(pages, head)
        number = self._writer.add("pages", encode_json(head))
        return {"head": number, "pages": self.add_turns(pages, leaf), "outlines": outlines}

    def add_outlines(self, pages: SessionPages, head: Fields) -> list[int]:
        """Add the blocks of a long outline and return their numbers."""
        count = head["session"]["turns"] if head["blocks"] else 0
        return [
            self._writer.add("pages", encode_json(pages.outline(first, first + BLOCK - 1)))
            for first in range(1, count + 1, BLOCK)
        ]

    def add_turns(
        self, pages: SessionPages, leaf: str | None, with_json: bool = False
    ) -> list[int]:
        """Add the pages of a branch's turns and return their numbers."""
        chosen = [turn for turn in pages.turns if self._options.turn in (None, turn.n)]
        added = [turn for turn in chosen if _key(turn) not in self._numbers]
        # The main branch is added first, so its pages are numbered from 0.
        tasks = [
            ("turn", leaf, turn.n, place if with_json else None) for place, turn in enumerate(added)
        ]
        for turn, made in zip(added, self._make_all(tasks), strict=True):
            (self._numbers[_key(turn)],) = self._add(made, ())
        return [self._numbers[_key(turn)] for turn in chosen]

    def add_agents(self) -> Fields:
        """Add the sub-agents that the exported turns started, recursively; return pages by id."""
        added: Fields = {}
        while self._agents:
            # Skip known ones: sub-agents that start from a copy of the same context contain each
            # other's calls.
            found = {name: path for name, path in self._agents.items() if name not in added}
            self._agents = {}
            tasks = [("agent", *path) for path in found.values()]
            for (name, path), made in zip(found.items(), self._make_all(tasks), strict=True):
                if made is not None:
                    added[name] = self._add(made, path)
        return added

    def finish(self, head: Fields) -> None:
        """Write the head, with the number of masked secrets."""
        head["head"]["masked"] = self._masked
        self._writer.finish(head)

    def _add(self, made: Iterable[tuple[Any, ...]], path: AgentPath) -> list[int]:
        """Add the documents of turns, and note the sub-agents that they started."""
        numbers: list[int] = []
        for documents in starmap(TurnDocuments, made):
            self._masked += documents.masked
            self._agents |= {name: (*path, name) for name in documents.agents}
            numbers.append(self._writer.add("pages", documents.page))
            if documents.json is not None:
                self._writer.add("turns", documents.json)
        return numbers


def _key(turn: Turn) -> tuple[int, int]:
    return turn.nodes[0].index, turn.nodes[-1].index


def _head_at(pages: SessionPages, options: FileOptions) -> Fields:
    """Return the head with only the turns, branches and sub-agents that are exported."""
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
    """Yield the leaves of the head's other branches."""
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
