"""Build SVG from strings: safe text, elements, and the frame that every chart has.

Charts contain no `style` attribute and no script, so that they work under a strict
Content-Security-Policy: classes and CSS variables set the colours. Every mark has a `<title>` and
its exact value in `data-value`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import Final
from unicodedata import east_asian_width

from turnlog.text import escaped, harmless

SERIES: Final = 8
"""Number of colours for series; further series are merged into one."""
WIDTH: Final = 720
"""Width of the coordinate system; pages scale a chart to the available space."""
BASE: Final = 22
"""Space above the base line of a clipped text, enough for the larger text on narrow screens."""
NARROW = frozenset("ijlftrI.,:;'!()[]/ -")
WIDE = frozenset("mwMW@%#+<=>^~…—")
PLAIN = re.compile(r"[\w .,:;/()$%+-]*", re.ASCII)
"""Text that escaping does not change."""
Value = float | int | None
"""None is an unknown value, such as the cost of a model without a price."""
Attribute = str | float | int | bool | None


def plain_number(value: float) -> str:
    """Return a number with thousands separators.

    >>> plain_number(12345), plain_number(0.25)
    ('12,345', '0.25')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


@dataclass(frozen=True)
class ChartOptions:
    """Title, number format and links of a chart."""

    title: str
    description: str = ""
    show: Callable[[float], str] = plain_number
    """Formats a value for people; `data-value` has the exact one."""
    tick: Callable[[float], str] | None = None
    """Formats the round numbers of an axis; by default, `show` does."""
    link: Callable[[str], str | None] | None = None
    """Returns the address that a mark's key leads to."""
    labels: Callable[[str], str] = str
    """Shortens a key for an axis."""

    def tick_text(self, value: float) -> str:
        """Format a number of an axis."""
        return (self.tick or self.show)(value)


def safe_text(text: str) -> str:
    r"""Return text for an element or an attribute: escaped, with unsafe characters spelled out.

    A project or a tool may have any name. Markup in it must stay text, and a bidi override must
    not reorder the label next to it. XML allows no control characters at all, even escaped.

    >>> safe_text('<b>"a' + chr(0x202E) + chr(0))
    '&lt;b&gt;&quot;a&lt;U+202E&gt;&lt;NUL&gt;'
    """
    # Fast path: a year of days has thousands of such texts. A test compares both paths.
    if PLAIN.fullmatch(text):
        return text
    return _escaped(text)


def _escaped(text: str) -> str:
    shown = re.sub("[\ufffe\uffff]", lambda found: escaped(found[0]), harmless(text, keep=" "))
    return escape(shown)


def element(name: str, *children: str, **attributes: Attribute) -> str:
    """Return an element; children are markup already, attributes are escaped here.

    None and False omit an attribute; `class_` and `data_key` become `class` and `data-key`.

    >>> element("text", "a", x=1.5, class_="tl-label")
    '<text x="1.5" class="tl-label">a</text>'
    """
    parts = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    content = "".join(children)
    return f"<{name}{parts}>{content}</{name}>" if content else f"<{name}{parts}/>"


def _attribute(value: str | float | bool) -> str:
    if isinstance(value, str):
        return safe_text(value)
    return str(value) if isinstance(value, int) else number(value)


def number(value: float) -> str:
    """Format a coordinate with two decimals, which is finer than any screen.

    >>> number(12.0), number(1 / 3)
    ('12', '0.33')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".")


def label(text: str, x: float, y: float, class_: str = "", **attributes: Attribute) -> str:
    """Return a text at a position."""
    classes = f"tl-label {class_}".rstrip()
    return element("text", safe_text(text), x=x, y=y, class_=classes, **attributes)


def clipped(text: str, x: float, y: float, width: float, class_: str = "") -> str:
    """Return a text that is cut off at a width; `y` is its base line."""
    # A nested <svg> clips what is outside of it, without ids that could collide in a page.
    inner = label(text, 0, BASE, class_)
    return element("svg", inner, x=x, y=y - BASE, width=max(width, 0.0), height=BASE + 8)


def text_width(text: str, size: float) -> float:
    """Return the width of a text at a font size in the widest of the usual fonts, DejaVu Sans."""
    return size * sum(map(_ems, text))


def _ems(character: str) -> float:
    """Return the width of a character, in units of the font size."""
    if east_asian_width(character) in "WF" or character in WIDE:
        return 1.02
    if character in NARROW:
        return 0.42
    return 0.79 if character.isupper() or character == "&" else 0.64


def mark(
    shape: str,
    key: str,
    value: Value,
    options: ChartOptions,
    tip: str | None = None,
    **attributes: Attribute,
) -> str:
    """Return a shape as a mark: with its exact value, a title, and a link if there is one.

    The title starts with the key, or with `tip` instead.
    """
    shown = "unknown" if value is None else options.show(value)
    title = element("title", safe_text(f"{key if tip is None else tip}: {shown}"))
    data = {"data_key": key, "data_value": exact(value)}
    address = options.link(key) if options.link else None
    return linked(element(shape, title, **attributes, **data), address)


def linked(drawn: str, address: str | None, name: str | None = None) -> str:
    """Wrap a drawing in a link, if there is an address; `name` is for marks without a title."""
    # Only addresses within the app: a name such as `javascript:alert(1)` must never become a link.
    if not address or not address.startswith("/") or address.startswith("//"):
        return drawn
    return element("a", drawn, href=address, class_="tl-link", aria_label=name)


def exact(value: Value) -> str:
    """Return a value as in JSON; empty if it is unknown.

    >>> exact(0.1 + 0.2), exact(3), exact(None)
    ('0.30000000000000004', '3', '')
    """
    return "" if value is None else repr(value)


def chart(
    kind: str, height: float, parts: Iterable[str], options: ChartOptions, width: float = WIDTH
) -> str:
    """Wrap the parts of a chart in its `<svg>` element."""
    content = "".join(parts)
    # A screen reader presents role="img" as one picture and hides the links inside of it.
    role = "group" if 'class="tl-link"' in content else "img"
    heading = element("title", safe_text(options.title))
    more = element("desc", safe_text(options.description)) if options.description else ""
    return element(
        "svg",
        heading,
        more,
        content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        class_=f"tl-chart tl-{kind}",
        role=role,
        data_chart=kind,
        aria_label=options.title,
    )


def empty_chart(kind: str, options: ChartOptions) -> str:
    """Return a placeholder for a chart without data."""
    return chart(kind, 60, [label("Nothing to show", WIDTH / 2, 34, "tl-middle")], options)
