"""Build the viewer's JSON of a session: a head with the outline, and turns on demand.

Pure. Apart from the prompts' labels, the head is built from nodes alone, so building it does not
depend on the size of results. All texts are masked.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from turnlog.conversation.calls import Call
from turnlog.conversation.cost import understates_output
from turnlog.conversation.milestones import Milestones
from turnlog.conversation.models import window_of
from turnlog.conversation.nodes import BoundaryNode, ChainNode
from turnlog.conversation.prompts import prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.turn_blocks import BLOCK, NEEDED, TurnBlock, blocks_of, total_cost
from turnlog.conversation.turn_figures import Outline, models_of, outline_of
from turnlog.conversation.turns import Turn
from turnlog.errors import NotFound
from turnlog.format.entries import User
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.render.html.page_rows import message_json, row_json
from turnlog.render.rows import AnswerRow, Row, RowBuilder, TurnEndRow, ViewOptions
from turnlog.render.session_facts import project_name
from turnlog.secrets import MASKED, mask, mask_start
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store
from turnlog.store.resume_command import file_command
from turnlog.text import one_line

CLIP = 50_000
"""Maximum characters of a text in a page; the rest is loaded on demand."""
LONGEST = 1_000_000
"""Maximum characters of a text to mask and send, unless complete texts are exported."""
MOST_ROWS = 200
"""Maximum number of rows of a turn in a page; the rest is loaded on demand."""
MOST_OUTLINED = 512
"""Maximum number of turns in the outline of the head; a longer outline comes in blocks."""
LABEL = 120
"""Characters of a turn's label in the outline."""
MOST_BRANCHES = 200
SCREEN_ROWS = 40
SCREEN_TURNS = 8
"""Rows that fill a screen, and the maximum number of turns to load for it."""
PLACEHOLDER = re.compile(MASKED)
COLUMNS = {
    "line": "line",
    "kind": "kind",
    "time": "started",
    "calls": "calls",
    "errors": "errors",
    "edits": "edits",
    "rows": "rows",
    "tokens": "tokens",
    "cost": "cost_usd",
    "context": "context",
    "compactions": "compactions",
}
"""Columns of the outline, and the figures that they show."""
BLOCK_COLUMNS = ("line", "errors", "edits", "compactions", "context")


@dataclass(frozen=True)
class PageOptions:
    """Options for the pages of a session."""

    leaf: str | None = None
    """uuid of the entry at which the branch ends; the active branch by default."""
    thinking: bool = True
    full: bool = False
    """Include injected texts."""
    clip: int | None = CLIP
    """Maximum characters of a text; None for whole texts, as in an exported file."""
    first: int = 0
    """The first row of a turn."""
    count: int | None = MOST_ROWS
    """The number of rows of a turn; None for all."""
    outline: int | None = MOST_OUTLINED
    """Maximum turns of a session whose whole outline is included; None for no limit."""
    store: Store | None = None
    """The session's store, which the resume command names unless the client reads it by default.

    None in exports, which have no such command and no path of the project: both are of no use
    elsewhere.
    """


class SessionPages:
    """The pages of one branch of a session; caches the data that they share."""

    def __init__(self, session: Session, options: PageOptions | None = None) -> None:
        self.session = session
        self.options = options or PageOptions()

    @cached_property
    def leaf(self) -> ChainNode | None:
        """The entry at which the branch ends; None if the session is empty."""
        active = self.session.active_leaf
        wanted = self.options.leaf
        # Do not read the tree of a large session unless another branch is requested.
        if wanted is None or (active and active.uuid == wanted):
            return active
        rank = self.session.tree.rank_of(wanted)
        if rank is None:
            raise NotFound(f"no entry {wanted!r} in {self.session.path}")
        return self.session.tree.chain[rank]

    @property
    def is_active(self) -> bool:
        """True for the branch that the client resumes."""
        return self.leaf == self.session.active_leaf

    @cached_property
    def turns(self) -> Sequence[Turn]:
        if self.is_active or self.leaf is None:
            return self.session.turns
        return self.session.turns_to(self.session.tree.rank_of(self.leaf.uuid))

    def head(self, since: int = 1) -> Fields:
        """Return the session's facts, its branches, its sub-agents and its outline.

        With `since`, the outline starts at that turn: the viewer of a live session has the earlier
        ones. In a long session, the outline has only the first turns, and `blocks` summarizes the
        others.
        """
        limit, count = self.options.outline, len(self.turns)
        first = min(max(1, since), max(1, count))
        is_long = limit is not None and count > limit
        last = min(count, first + BLOCK - 1) if is_long else count
        return {
            "session": self.facts(),
            "branches": branches_of(self.session),
            "outline": self.outline(first, last),
            "blocks": block_columns(self._blocks) if is_long else None,
            "agents": self.agents(),
            "masked": None,
            "findings": [],
            "reading": None,
        }

    def outline(self, first: int, last: int) -> Fields:
        """Return the outline of some turns, one list per column."""
        names = [*COLUMNS.values(), "model"]
        start = max(0, first - 1)
        if self.is_active:
            figures = self.session.outline(start, last, names)
        else:
            figures = outline_of(self.turns[start:last], names)
        return outline_columns(figures, start + 1) | {"label": self.labels(first, last)}

    @cached_property
    def _blocks(self) -> list[TurnBlock]:
        if self.is_active:
            return self.session.turn_blocks
        return blocks_of(outline_of(self.turns, NEEDED))

    def labels(self, first: int, last: int) -> list[str]:
        """Return the labels of some turns, one line each."""
        start = max(0, first - 1)
        if self.is_active:
            prompts = self.session.prompts(start, last)
        else:
            prompts = [turn.prompt for turn in self.turns[start:last]]
        entries = self.session.entries(filter(None, prompts))
        return [_label(next(entries)) if prompt else "" for prompt in prompts]

    def prompt_line(self, n: int) -> int:
        """Return the line of a turn's prompt."""
        chosen = self.session.outline(n - 1, n, ["line"]) if self.is_active else None
        return (chosen or outline_of(self.turns[n - 1 : n], ["line"]))["line"][0]

    def page(self, n: int, options: PageOptions | None = None) -> Fields:
        """Return the rows of a turn, or a range of them if the options set one."""
        if not 0 < n <= len(self.turns):
            raise NotFound(f"{self.session.path.name} has {len(self.turns)} turns, no turn {n}")
        chosen = options or self.options
        turn = self.turns[n - 1]
        last = None if chosen.count is None else chosen.first + chosen.count
        rows = list(self.rows(turn))
        shown = [row_json(row, chosen.clip) for row in islice(rows, chosen.first, last)]
        messages = self._number_messages(turn, shown)
        page = {
            "n": n,
            "first": chosen.first,
            "total": len(rows),
            "rows": shown,
            "messages": messages,
            "masked": count_masked(shown),
        }
        is_cut = last is not None and last < len(rows)
        return page | {"ending": _ending(rows, chosen)} if is_cut else page

    def screenful(self, first: int) -> list[Fields]:
        """Return pages of consecutive turns, from `first` on, that fill a screen."""
        found: list[Fields] = []
        start, count = max(1, min(first, len(self.turns))), len(self.turns)
        for n in range(start, min(start + SCREEN_TURNS, count + 1)):
            found.append(self.page(n))
            if sum(page["total"] for page in found) >= SCREEN_ROWS:
                break
        return found

    def rows(self, turn: Turn) -> Iterator[Row]:
        """Yield the rows of a turn."""
        return self._builder.turn(turn)

    def facts(self) -> Fields:
        """Return the facts of a session for the top of its page."""
        session, blocks = self.session, self._blocks
        about = describe(locate_session(session.path))
        cost = total_cost(blocks)
        project, store = mask(about.cwd or ""), self.options.store
        models = session.models if self.is_active else models_of(self.turns)
        return {
            "id": session.id,
            "title": mask(about.title or session.slug or session.id),
            "slug": mask(session.slug or ""),
            "project": project if store else project_name(project),
            "branch": mask(about.branch or ""),
            "models": sorted(map(mask, models)),
            "client_version": session.client_version,
            "started": next((turn.started for turn in self.turns if turn.started), None),
            "ended": next((t.last_time for t in reversed(self.turns) if t.last_time), None),
            "resume": file_command(session.path, project or None, store) if store else None,
            "turns": len(self.turns),
            "lines": session.last_line,
            "size": session.state.size,
            "calls": sum(block.calls for block in blocks),
            "errors": sum(block.errors for block in blocks),
            "edits": sum(block.edits for block in blocks),
            "tokens": sum(block.tokens for block in blocks),
            "cost_usd": None if cost is None else round(cost, 6),
            "is_understated": understates_output(session.client_version),
            "leaf": self.leaf.uuid if self.leaf else None,
        }

    def agents(self) -> list[Fields]:
        """Return the sub-agents of the session with their calls, without opening their files."""
        agents = self.session.subagents
        calls = [self.session.find_call(agent.call_id) for agent in agents]
        turns = map(self._turn_of, calls)
        return [_agent(*each) for each in zip(agents, calls, turns, strict=True)]

    def _turn_of(self, call: Call | None) -> int | None:
        return self.turn_at(call.use.line) if call else None

    def turn_at(self, line: int) -> int | None:
        """Return the turn that contains a line; None if the line is not on the branch."""
        return self.session.turn_at(line) if self.is_active else self._turns_by_line.get(line)

    @cached_property
    def _turns_by_line(self) -> dict[int, int]:
        return {node.line: turn.n for turn in self.turns for node in turn.nodes}

    @cached_property
    def _builder(self) -> RowBuilder:
        options = ViewOptions(
            full=self.options.full,
            thinking=self.options.thinking,
            details=True,
            longest=None if self.options.clip is None else LONGEST,
        )
        return RowBuilder(self.session, options, self.session.subagents, frozenset())

    def _number_messages(self, turn: Turn, rows: Iterable[Fields]) -> list[Fields]:
        """Set each row's `message` to an index into the returned list of messages."""
        by_line = {node.line: place for place, m in enumerate(turn.messages) for node in m.nodes}
        for row in rows:
            if row["type"] != "prompt" and row.get("line") in by_line:
                row["message"] = by_line[row["line"]]
        used = {row["message"] for row in rows if "message" in row}
        return [message_json(m) if i in used else {} for i, m in enumerate(turn.messages)]


def _ending(rows: Sequence[Row], options: PageOptions) -> list[Fields]:
    """Return the last answer and the end of a turn, which are shown while it is folded."""
    wanted = (AnswerRow, TurnEndRow)
    last = {type(row): place for place, row in enumerate(rows) if isinstance(row, wanted)}
    return [
        {"index": place, "row": row_json(rows[place], options.clip)}
        for place in sorted(last.values())
    ]


def session_head(session: Session, options: PageOptions | None = None) -> Fields:
    """Return the head of a session: its facts, branches, outline and sub-agents."""
    return SessionPages(session, options).head()


def turn_page(session: Session, turn: int, options: PageOptions | None = None) -> Fields:
    """Return the rows of a turn; for several turns, keep a `SessionPages`."""
    return SessionPages(session, options).page(turn)


def whole_page(session: Session, turn: int, options: PageOptions | None = None) -> Fields:
    """Return all rows of a turn with whole texts, as in an exported file."""
    return turn_page(session, turn, replace(options or PageOptions(), clip=None, count=None))


def count_masked(value: object) -> int:
    """Return the number of masked secrets in the JSON of a page."""
    count = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            count += len(PLACEHOLDER.findall(each)) if "[" in each else 0
        elif is_object(each):
            # `html` has the same text as its row, in another form.
            waiting += [inner for name, inner in each.items() if name != "html"]
        elif is_array(each):
            waiting += each
    return count


def outline_columns(figures: Outline, first: int = 1) -> Fields:
    """Return the outline of some turns, one list per column."""
    windows = _windows(figures["model"])
    columns: Fields = {"n": list(range(first, first + len(figures["line"])))}
    columns |= {name: figures[figure] for name, figure in COLUMNS.items()}
    return columns | {"window": [windows[model] for model in figures["model"]]}


def block_columns(blocks: Sequence[TurnBlock]) -> Fields:
    """Return the data that a viewer needs for turns whose outline is not loaded."""
    windows = _windows(block.model for block in blocks)
    columns: Fields = {name: [getattr(block, name) for block in blocks] for name in BLOCK_COLUMNS}
    return columns | {
        "size": BLOCK,
        "window": [windows[block.model] for block in blocks],
        "rows": sum(block.rows for block in blocks),
        "long_turns": [turn for block in blocks for turn in block.long_turns],
    }


def _windows(models: Iterable[str | None]) -> dict[str | None, int]:
    return {model: window_of(model) if model else 0 for model in set(models)}


def branches_of(session: Session) -> list[Fields]:
    """Return the branches of a session, each with the prompt it ends with."""
    stones = session.milestones
    ends = list(stones.ends[:MOST_BRANCHES])
    if session.active_leaf and not any(map(stones.is_active, ends)):
        # The active leaf is in the middle of other branches, as after a rewind, or beyond the
        # limit.
        active = stones.above(session.active_leaf)
        ends[:0] = [] if active is None else [active]
    return [_branch(session, stones, number) for number in ends]


def _branch(session: Session, stones: Milestones, number: int) -> Fields:
    node, is_active = stones.node(number), stones.is_active(number)
    leaf = session.active_leaf if is_active else stones.last_entry(number)
    return {
        "leaf": leaf.uuid if leaf else None,
        "line": node.line,
        "label": _milestone_label(session, node),
        "turns": stones.depth(number),
        "is_active": is_active,
    }


def _milestone_label(session: Session, node: ChainNode) -> str:
    return "compaction" if isinstance(node, BoundaryNode) else _label(session.entry(node))


def _label(entry: object) -> str:
    text = prompt_label(entry) if isinstance(entry, User) else ""
    # Mask before cutting: half a secret is not recognized.
    words = " ".join(one_line(mask_start(text, 4 * LABEL)).split())
    return words if len(words) <= LABEL else f"{words[: LABEL - 1]}…"


def find_masked(agents: Iterable[SubAgent], agent_id: str) -> SubAgent | None:
    """Return the sub-agent with a masked id, as pages show it."""
    return next((agent for agent in agents if mask(agent.id) == agent_id), None)


def _agent(agent: SubAgent, call: Call | None, turn: int | None) -> Fields:
    shown = call if turn else None
    return {
        "id": mask(agent.id),
        "label": mask(agent.description),
        "type": mask(str(agent.meta.get("agentType") or "")),
        "turn": turn,
        "line": shown.use.line if shown else None,
        "started": shown.use.time if shown else None,
        "ended": shown.result.time if shown and shown.result else None,
    }
