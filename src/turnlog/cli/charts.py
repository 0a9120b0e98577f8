"""Charts for a terminal: bars, sparklines and a heat map of the week."""

from collections.abc import Sequence

EIGHTHS = " ▏▎▍▌▋▊▉█"
HEIGHTS = "▁▂▃▄▅▆▇█"
SHADES = "·░▒▓█"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def bar(value: float, largest: float, cells: int) -> str:
    """Return a bar in proportion to the largest value; a value above 0 is always visible.

    >>> bar(50, 100, 8), bar(1, 1000, 8), bar(0, 10, 8)
    ('████', '▏', '')
    """
    if value <= 0 or largest <= 0:
        return ""
    whole, rest = divmod(max(1, round(value / largest * cells * 8)), 8)
    return "█" * whole + EIGHTHS[rest].strip()


def sparkline(values: Sequence[float]) -> str:
    """Return a sparkline, one block per value; 0 is a space.

    >>> sparkline([0, 1, 4, 8])
    ' ▁▄█'
    """
    largest = max(values, default=0)
    return "".join(
        HEIGHTS[min(7, int(value / largest * 8 - 1e-9))] if value > 0 else " " for value in values
    )


def week_map(grid: Sequence[Sequence[float]], cells: int) -> list[str]:
    """Return seven rows of 24 hours, `cells` wide each, shaded by value."""
    largest = max(max(row) for row in grid)
    heads = "".join(f"{hour:02d}".ljust(cells * 3) for hour in range(0, 24, 3))
    rows = [
        f"{day}  {''.join(_shade(value, largest) * cells for value in row)}"
        for day, row in zip(DAYS, grid, strict=True)
    ]
    return [f"     {heads}".rstrip(), *rows]


def _shade(value: float, largest: float) -> str:
    return SHADES[0 if value <= 0 else min(4, 1 + int(value / largest * 4 - 1e-9))]
