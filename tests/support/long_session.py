"""A session of any number of turns for the viewer, made up as it is asked for."""

from typing import Any

from support.viewer_server import Query
from turnlog.conversation.turn_blocks import BLOCK
from turnlog.render.html.session_pages import MOST_OUTLINED

Fields = dict[str, Any]
LARGE = 500
"""Every so many turns, one has LARGE rows."""


class LongSession:
    """A session of `count` turns, whose rows name their turn and place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[str] = []

    def answer(self, path: str, query: Query) -> Any:
        self.asked.append(path)
        first, last = int(query.get("first", 1)), int(query.get("last", 0))
        if path == "head":
            return self.head(int(query.get("since", 1)))
        if path == "turns":
            return [self.page(n, 0, 200) for n in range(first, min(last, self.count) + 1)]
        if path == "rows":
            return self.page(int(query["n"]), first, last)
        if path == "opening":
            turn = int(query.get("turn") or max(1, int(query.get("line", 0)) // 20))
            return {"head": self.head(1), "turns": [self.page(turn, 0, 200)]}
        if path == "outline":
            return outline_of(range(first, min(last, self.count) + 1))
        if path == "labelled":
            turns = [n for n in range(1, self.count + 1) if query["q"] in label_of(n)]
            return {"matches": [{"turn": n, "label": label_of(n)} for n in turns]}
        if path == "find":
            turns = [n for n in range(1, self.count + 1) if query["q"] == f"prompt of turn {n}"]
            matches = [{"turn": n, "row": 0, "line": n * 20, "field": "text"} for n in turns]
            return {"matches": matches, "is_complete": True}
        if path == "findings":
            return []
        raise KeyError(path)

    def head(self, since: int) -> Fields:
        is_long = self.count > MOST_OUTLINED
        turns = range(since, min(self.count, since + BLOCK - 1 if is_long else self.count) + 1)
        session: Fields = {"id": "long", "title": "a long session", "project": "/p", "branch": "b"}
        session |= {"models": [], "client_version": None, "started": None, "ended": None}
        session |= {"resume": "claude --resume long", "turns": self.count, "lines": 20 * self.count}
        session |= {"size": self.count, "calls": 0, "errors": 0, "edits": 0, "tokens": 0}
        session |= {"cost_usd": None, "slug": "", "leaf": None}
        head: Fields = {"session": session, "branches": [], "outline": outline_of(turns)}
        head |= {"blocks": self.blocks() if is_long else None, "agents": []}
        return head | {"masked": None, "findings": []}

    def blocks(self) -> Fields:
        starts = range(1, self.count + 1, BLOCK)
        names = ("errors", "edits", "compactions", "context", "window")
        columns: Fields = {name: [0 for _ in starts] for name in names}
        large = [[n - 1, LARGE] for n in range(LARGE, self.count + 1, LARGE)]
        columns |= {"size": BLOCK, "line": [n * 20 for n in starts], "long_turns": large}
        return columns | {"rows": 8 * self.count}

    def page(self, n: int, first: int, last: int) -> Fields:
        rows = [_row(n, place) for place in range(rows_of(n))]
        page: Fields = {"n": n, "first": first, "total": len(rows), "messages": []}
        ending = [{"index": place, "row": rows[place]} for place in (len(rows) - 2, len(rows) - 1)]
        return page | {"rows": rows[first:last]} | ({"ending": ending} if last < len(rows) else {})


def outline_of(turns: range) -> Fields:
    """The outline of some turns."""
    zeros = [0 for _ in turns]
    outline: Fields = dict.fromkeys(("errors", "edits", "compactions", "tokens"), zeros)
    outline |= {"n": list(turns), "line": [n * 20 for n in turns], "label": [*map(label_of, turns)]}
    outline |= {"time": [None for _ in turns], "kind": ["typed" for _ in turns]}
    outline |= {"calls": [rows_of(n) - 3 for n in turns], "rows": [rows_of(n) for n in turns]}
    return outline | {"cost": zeros, "context": zeros, "window": zeros}


def label_of(n: int) -> str:
    """The label of a turn."""
    return f"prompt of turn {n}"


def rows_of(n: int) -> int:
    """The number of rows of a turn."""
    return LARGE if n % LARGE == 0 else 4 + n % 9


def _row(n: int, place: int) -> Fields:
    last = rows_of(n) - 1
    line = n * 20 + min(place, 19)
    if place == 0:
        text = f"prompt of turn {n}"
        prompt: Fields = {"type": "prompt", "n": n, "text": text, "line": line, "time": None}
        return prompt | {"marks": [], "images": []}
    if place == last - 1:
        text = f"answer of turn {n}\n\n" + "word " * (n % 40)
        return {"type": "answer", "text": text, "html": f"<p>{text}</p>", "line": line}
    if place == last:
        end: Fields = {"type": "end", "n": n, "working_ms": 1000, "elapsed_ms": 1000}
        return end | {"tokens": 10, "cost_usd": 0.1, "line": None}
    call: Fields = {"type": "call", "name": "Bash", "title": f"call {place} of turn {n}"}
    call |= {"line": line, "result_line": line, "id": f"{n}-{place}", "outcome": "1 line"}
    call |= {"is_error": False, "is_edit": False, "duration_ms": 10, "size": 2, "style": "text"}
    rest: Fields = {"body": [], "input": {"command": "x"}, "result": "ok", "agent": None}
    return call | rest | {"images": list[str]()}
