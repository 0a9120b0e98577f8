"""The flame graph of carrying costs, a section of the cost page."""

import subprocess
from collections.abc import Sequence
from threading import Lock
from typing import Any

from turnlog.index.service import carrying_tree, index_generation
from turnlog.index.sync_policy import program_for
from turnlog.render.charts.flame_graph import FlameCell, flame_graph
from turnlog.render.charts.svg import ChartOptions
from turnlog.store.paths import Store
from turnlog.text import exact_money
from turnlog.web.report_data import (
    PageLinks,
    Params,
    address,
    filters_in,
    session_link,
    stats_command,
)

LONGEST = 600
"""Maximum seconds of the first computation."""
PATH_LEVELS = (1, 5)
"""Levels of the tree whose names are paths: projects and files."""
ANCHOR = "#carrying"
"""Added to links: without it, a click on a cell would scroll the graph out of view."""
NO_MODEL = "Carrying costs cannot be filtered by model."

_lock = Lock()
_computed: dict[tuple[Store, ...], int] = {}
"""For each set of stores, the generation of the index whose costs are all computed."""


def carrying_section(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    """Return the flame graph if the URL asks for it, else a link to it."""
    links = PageLinks("/cost", params)
    section = {
        "chart": "",
        "total": "",
        "link": links.to(carrying="1") + ANCHOR,
        "note": "",
        "command": stats_command("carrying", params),
    }
    if params.get("model"):
        return section | {"note": NO_MODEL, "link": ""}
    if params.get("carrying") != "1":
        return section
    _compute(tuple(stores))
    root = _cell(carrying_tree(stores, filters_in(params)))
    options = ChartOptions(
        "Carrying cost by project, session, turn, tool and file", show=exact_money
    )
    chart = flame_graph(root, options, lambda keys: _link(keys, links))
    return section | {"chart": chart, "total": exact_money(root.value)}


def _compute(stores: tuple[Store, ...]) -> None:
    """Compute missing costs in another process, unless nothing has changed."""
    # The computation forks, and a fork would copy locks that other threads of the server hold.
    with _lock:
        generation = index_generation(stores)
        if _computed.get(stores) == generation:
            return
        subprocess.run(
            [*program_for(stores), "stats", "carrying", "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST,
            check=False,
        )
        _computed[stores] = generation


def _cell(node: dict[str, Any], level: int = 0) -> FlameCell:
    children = tuple(_cell(child, level + 1) for child in node["children"])
    # The end of a path says more than its start, and a narrow cell has room for one of them.
    label = node["name"].rstrip("/").rpartition("/")[2] if level in PATH_LEVELS else None
    return FlameCell(node["name"], node["value"], children, node["key"], label)


def _link(keys: tuple[str, ...], links: PageLinks) -> str | None:
    """Return the link of a cell: a project filters the page, a file has its own page."""
    if not keys:
        return links.to(project=None) + ANCHOR if links.params.get("project") else None
    if not keys[-1]:
        return None
    if len(keys) == 1:
        return links.to(project=keys[0]) + ANCHOR
    if len(keys) == 5:
        return address("/files", path=keys[4])
    # The key below a session is the line of a turn, or a name such as that of the system prompt.
    line = next((key for key in keys[2:3] if key.isdecimal()), None)
    return session_link(keys[1], line)
