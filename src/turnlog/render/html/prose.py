"""Render the model's Markdown as HTML that is safe to insert into a page.

Two independent guards: the parser never passes HTML through, and a sanitizer removes everything
that is not on its allowlist. The result loads no resource, runs no script and sets no style.
"""

import re
from functools import cache
from typing import Any

from turnlog.text import harmless

LONGEST = 100_000
"""Maximum characters; longer texts are shown unrendered, because rendering would block the page."""
TAGS = frozenset(
    """a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead
    tr ul""".split()
)
# `javascript:` runs code on a click, `data:` may be a page with scripts, `file:` opens local files.
SCHEMES = frozenset({"http", "https", "mailto"})
PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ,.():;?/'’“”–—…-]*[A-Za-z0-9,.():;?…])?")
"""One line that neither the parser nor the sanitizer would change: `Now I run the tests.`"""
ALIGNED = frozenset({"left", "center", "right"})


def prose_html(text: str) -> str | None:
    """Return Markdown as safe HTML; None if the text is too long.

    >>> prose_html("**a** <script>x</script> [b](javascript:alert)")
    '<p><strong>a</strong> &lt;script&gt;x&lt;/script&gt; [b](javascript:alert)</p>\\n'
    """
    if len(text) > LONGEST:
        return None
    if PLAIN.fullmatch(text):
        return f"<p>{text}</p>\n"
    # Bidi overrides and escapes are spelled out: `a <U+202E>b` cannot pose as another text.
    return sanitized(rendered(harmless(text)))


def rendered(text: str) -> str:
    """Return Markdown as HTML; tags in the text are escaped."""
    return _parser().render(text)


def sanitized(html: str) -> str:
    """Remove all tags, attributes and URL schemes that are not allowed."""
    return _cleaner().clean(html)


@cache
def _cleaner() -> Any:
    import nh3

    return nh3.Cleaner(
        tags=set(TAGS),
        attributes={"a": {"href", "title"}, "ol": {"start"}, "td": {"align"}, "th": {"align"}},
        url_schemes=set(SCHEMES),
        # The page that a link opens gets neither the address of this page nor a handle to it.
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # `html: False` escapes tags instead of passing them through.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    parser.add_render_rule("th_open", _cell)
    parser.add_render_rule("td_open", _cell)
    return parser


def _image(self: Any, tokens: list[Any], idx: int, options: Any, env: Any) -> str:
    """Show only the description of an image: loading it would reveal the reader to its host."""
    from markdown_it.common.utils import escapeHtml

    token = tokens[idx]
    alt = self.renderInlineAsText(token.children or [], options, env)
    return escapeHtml(f"[image: {alt or 'without a description'}]")


def _cell(self: Any, tokens: list[Any], idx: int, options: Any, env: Any) -> str:
    """Align a cell with an attribute, because the page's security policy forbids inline styles."""
    token = tokens[idx]
    align = str(token.attrs.get("style", "")).removeprefix("text-align:")
    return f'<{token.tag} align="{align}">' if align in ALIGNED else f"<{token.tag}>"
