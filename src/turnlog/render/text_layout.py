"""Lay out text for a width in terminal cells: wrap prose between words, align tables."""

import re
from collections.abc import Iterator, Sequence

NARROW = re.compile(r"[\x20-\x7e\xa1-\xac\xae-\u02ff…❯→•–—‘’“”]*")
LEAD = re.compile(r"\s*(?:[-*•] +|\d{1,3}[.)] +|> ?)*")
"""Indentation, list mark or quote mark of a line; wrapped lines align with the text after it."""
SHELL_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+""")
AND = "&&"
"""A shell command continues after a line that ends with `&&`, as after a backslash."""
TABLE_ROW = re.compile(r"\s*\|.*\|\s*$")
RULE = re.compile(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*$")
CELL_END = re.compile(r"(?<!\\)\|")
NARROWEST = 4
"""Minimum width of a table column, in cells."""


def cells_of(text: str) -> int:
    """Return the width of a text in terminal cells; wide characters take two.

    >>> cells_of("日本"), cells_of("ab")
    (4, 2)
    """
    # Importing rich would take longer than the rest of most commands, and nearly all text is
    # narrow.
    if NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrap_line(line: str, width: int) -> list[str]:
    """Break a line between words to fit a width; a longer word, such as a URL, stays whole.

    >>> wrap_line("- one two three", 9)
    ['- one two', '  three']
    """
    if width <= 0 or cells_of(line) <= width:
        return [line]
    lead = LEAD.match(line)
    start = lead[0] if lead else ""
    # A deep quote in a narrow terminal would leave no room for the text itself.
    indent = " " * cells_of(start) if cells_of(start) < width // 2 else ""
    lines: list[str] = []
    shown = start
    is_empty = True
    for word in line[len(start) :].split(" "):
        wider = shown + word if is_empty else f"{shown} {word}"
        if is_empty or cells_of(wider) <= width:
            shown, is_empty = wider, False
        else:
            lines.append(shown)
            shown = indent + word
    return [*lines, shown]


def wrap_command(command: str, width: int) -> list[str]:
    r"""Break a shell command to fit a width; a shell still reads it as one command.

    >>> wrap_command("cd '/my shop' && claude --resume 5e55", 20)
    ["cd '/my shop' &&", '  claude --resume \\', '  5e55']
    """
    if width <= 0 or cells_of(command) <= width:
        return [command]
    words = SHELL_WORD.findall(command)
    if " ".join(words) != command:  # an open quote, or blanks that may matter
        return [command]
    lines: list[str] = []
    shown = ""
    for place, word in enumerate(words):
        wider = f"{shown} {word}" if shown else f"{'  ' if lines else ''}{word}"
        is_end = word == AND or place == len(words) - 1
        if shown and cells_of(wider) > (width if is_end else width - 2):
            lines.append(f"{shown} \\")
            wider = f"  {word}"
        shown = "" if word == AND else wider
        lines += [wider] if is_end else []
    return lines


def is_table(lines: Sequence[str], place: int) -> bool:
    """Return whether a Markdown table starts at a line: a row, then a rule."""
    following = lines[place + 1] if place + 1 < len(lines) else ""
    return bool(TABLE_ROW.match(lines[place]) and RULE.match(following))


def table_at(lines: Sequence[str], place: int) -> list[list[str]]:
    """Return the rows of the table that starts at a line, without its rule."""
    rows = [_cells(lines[place])]
    for line in lines[place + 2 :]:
        if not TABLE_ROW.match(line):
            break
        rows.append(_cells(line))
    return rows


def _cells(line: str) -> list[str]:
    inner = line.strip()[1:-1]
    return [cell.strip().replace("\\|", "|") for cell in CELL_END.split(inner)]


def lay_out_table(
    rows: Sequence[Sequence[str]], width: int, gap: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Yield the row number and padded cells of each line of a table; a width of 0 means no limit.

    Cells that do not fit are wrapped between words.

    >>> rows = [["a", "b"], ["one", "two words"]]
    >>> [" ".join(line).rstrip() for _, line in lay_out_table(rows, 9)]
    ['a   b', 'one two', '    words']
    """
    count = max(map(len, rows))
    filled = [[*row, *[""] * (count - len(row))] for row in rows]
    widths = [max(cells_of(row[i]) for row in filled) for i in range(count)]
    room = width - gap * (count - 1) if width else sum(widths)
    # Shrink only the widest column, so that short ones, such as numbers, stay on one line.
    while sum(widths) > room and max(widths) > NARROWEST:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    for number, row in enumerate(filled):
        wrapped = [wrap_line(cell, size) for cell, size in zip(row, widths, strict=True)]
        for place in range(max(map(len, wrapped))):
            parts = [cell[place] if place < len(cell) else "" for cell in wrapped]
            yield (
                number,
                [
                    part + " " * (size - cells_of(part))
                    for part, size in zip(parts, widths, strict=True)
                ],
            )
