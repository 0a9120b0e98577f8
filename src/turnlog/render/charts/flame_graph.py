"""Flame graphs, drawn from the top down: the width of a cell is its share of the whole."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from turnlog.render.charts.svg import (
    SERIES,
    WIDTH,
    ChartOptions,
    chart,
    element,
    empty_chart,
    exact,
    linked,
    safe_text,
)

CELL = 26
"""Height of a level."""
NARROWEST = 3.0
"""Cells below this width are merged into one."""
TEXT_FROM = 34.0
"""Cells from this width on have a label."""
LEVELS = 6
XHTML = "http://www.w3.org/1999/xhtml"
PathLink = Callable[[tuple[str, ...]], str | None]


@dataclass(frozen=True)
class FlameCell:
    """A part of the whole with its own parts, whose sum may be smaller than its value."""

    name: str
    value: float
    children: Sequence["FlameCell"] = field(default_factory=tuple["FlameCell", ...])
    key: str | None = None
    """Value for the link; by default the name."""
    label: str | None = None
    """Shorter label, for names that are too long for most cells."""

    @property
    def key_or_name(self) -> str:
        return self.name if self.key is None else self.key


@dataclass(frozen=True)
class _FlameLayout:
    options: ChartOptions
    link: PathLink | None
    total: float
    levels: int


def flame_graph(
    root: FlameCell, options: ChartOptions, link: PathLink | None = None, levels: int = LEVELS
) -> str:
    """Return a flame graph of a tree; `link` returns the address for the keys down to a cell."""
    if root.value <= 0:
        return empty_chart("flame", options)
    frame = _FlameLayout(options, link, root.value, levels)
    drawn = [*_draw(root, (0.0, float(WIDTH)), 0, (), frame)]
    return chart("flame", _depth(root, levels) * CELL, drawn, options)


def _depth(cell: FlameCell, most: int) -> int:
    if most == 1:
        return 1
    return 1 + max((_depth(child, most - 1) for child in cell.children), default=0)


def _draw(
    cell: FlameCell,
    span: tuple[float, float],
    level: int,
    path: tuple[str, ...],
    frame: _FlameLayout,
) -> Iterable[str]:
    left, width = span
    yield _cell(cell, span, level, path, frame)
    if level + 1 >= frame.levels or cell.value <= 0:
        return
    x = left
    for child in _visible(cell.children, NARROWEST * cell.value / width):
        room = width * child.value / cell.value
        yield from _draw(child, (x, room), level + 1, (*path, child.key_or_name), frame)
        x += room


def _visible(children: Sequence[FlameCell], least: float) -> list[FlameCell]:
    """Return children, the largest first, with those below a value merged into one."""
    large = sorted((each for each in children if each.value >= least), key=lambda c: -c.value)
    small = [each for each in children if 0 < each.value < least]
    if len(small) <= 1:
        return [*large, *small]
    merged = FlameCell(f"other ({len(small)})", sum(each.value for each in small))
    return [*large, merged]


def _cell(
    cell: FlameCell,
    span: tuple[float, float],
    level: int,
    path: tuple[str, ...],
    frame: _FlameLayout,
) -> str:
    left, width = span
    share = cell.value / frame.total
    shown = f"{cell.name}: {frame.options.show(cell.value)} ({share:.1%})"
    # Colours distinguish levels rather than tools or files, because readers compare cells of a
    # level.
    shape = element(
        "rect",
        element("title", safe_text(shown)),
        x=left,
        y=level * CELL,
        width=max(width - 1, 0.3),
        height=CELL - 1,
        class_=f"tl-mark tl-flame-{level % SERIES + 1}",
        data_key=cell.name,
        data_value=exact(cell.value),
        data_level=level,
    )
    link = frame.link(path) if frame.link else None
    # Put the text beside the link: an accessible link name must contain its text, which may be cut.
    return linked(shape, link) + (_label(cell, span, level) if width >= TEXT_FROM else "")


def _label(cell: FlameCell, span: tuple[float, float], level: int) -> str:
    """Return the label of a cell as HTML, which CSS can shorten in any font, unlike text in SVG."""
    left, width = span
    box = element("div", safe_text(cell.label or cell.name), xmlns=XHTML, class_="tl-in-cell")
    place = {"x": left + 5, "y": level * CELL, "width": width - 9, "height": CELL - 1}
    return element("foreignObject", box, **place)
