"""Prepare text for the screen: masked, sanitized, on one line, cut to a width in terminal cells.

Widths are those of prompt_toolkit, which draws the text. Combining characters are dropped, and
composed emoji are cut to their first part: terminals disagree on their width, and one wrong width
shifts everything to its right.
"""

import re
from functools import lru_cache

from prompt_toolkit.utils import get_cwidth

from turnlog.secrets import mask
from turnlog.text import one_line

_COMBINING = re.compile(
    # The emoji of a family is several people with joiners between them; some terminals draw one
    # person, some all of them.
    r"(?:\u200d[\u2190-\u2bff\U0001f000-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]?)+"
    r"|[\u0300-\u036f\u200b-\u200f\u20d0-\u20ff\u2060-\u2064\ufe00-\ufe0f]"
    r"|[\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)


def without_combining(text: str) -> str:
    """Remove combining characters, so that all terminals draw a text equally wide.

    >>> without_combining("a\u0301 \U0001f469\u200d\U0001f469\u200d\U0001f467 b")
    'a 👩 b'
    """
    return text if text.isascii() else _COMBINING.sub("", text)


@lru_cache(4096)
def shown(text: str) -> str:
    """Return a text masked and sanitized, on one line."""
    return " ".join(without_combining(one_line(mask(text))).split())


def width_of(text: str) -> int:
    """Return the width of a text in cells.

    >>> width_of("日本"), width_of("ab")
    (4, 2)
    """
    return len(text) if text.isascii() else sum(map(get_cwidth, text))


def fit(text: str, cells: int, *, is_right: bool = False) -> str:
    """Cut or pad a text to exactly this many cells; `is_right` aligns it at the right.

    >>> fit("日本語", 5), fit("ab", 4), fit("ab", 4, is_right=True)
    ('日本…', 'ab  ', '  ab')
    """
    if cells <= 0:
        return ""
    if width_of(text) > cells:
        text = f"{_start(text, cells - 1)}…"
    space = " " * (cells - width_of(text))
    return space + text if is_right else text + space


def fit_end(text: str, cells: int) -> str:
    """Cut a text, such as a path, at its start, or pad it to exactly this many cells.

    >>> fit_end("/home/ada/shop", 9), fit_end("/srv", 6)
    ('…ada/shop', '/srv  ')
    """
    if width_of(text) > cells > 0:
        text = f"…{_start(text[::-1], cells - 1)[::-1]}"
    return fit(text, cells)


def _start(text: str, cells: int) -> str:
    """Return the longest start of a text that fits into some cells."""
    used = 0
    for place, character in enumerate(text):
        used += width_of(character)
        if used > cells:
            return text[:place]
    return text
