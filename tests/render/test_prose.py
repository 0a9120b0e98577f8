"""Markdown as HTML: formatted, and inert whatever it contains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.render.html.prose import LONGEST, prose_html, rendered, sanitized
from turnlog.text import harmless


def test_markdown_is_formatted() -> None:
    html = prose_html("# T\n\n- a\n- `b`\n\n```py\nx < 1\n```\n~~no~~")
    assert html is not None
    for part in ("<h1>T</h1>", "<li>a</li>", "<code>b</code>", "x &lt; 1", "<s>no</s>"):
        assert part in html


def test_tables_keep_their_alignment_without_styles() -> None:
    html = prose_html("| a | b |\n|:--|--:|\n| 1 | 2 |")
    assert html is not None
    assert '<td align="right">2</td>' in html
    assert "style" not in html


def test_links_open_elsewhere_and_tell_nothing() -> None:
    html = prose_html("[x](https://example.com/?a=1&b=2) <mailto:a@example.com>")
    assert html is not None
    assert 'href="https://example.com/?a=1&amp;b=2"' in html
    assert 'rel="noopener noreferrer nofollow"' in html
    assert 'href="mailto:a@example.com"' in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
        "[a](javascript:alert(1))",
        "[a](JaVaScRiPt&colon;alert(1))",
        "[a](&#106;avascript:alert(1))",
        "[a](data:text/html;base64,PHNjcmlwdD4=)",
        "[a](vbscript:x)",
        "[a](file:///etc/passwd)",
        "![a](https://example.com/pixel.png)",
        "![<b>](x onerror=alert(1))",
        "<style>* { display: none }</style>",
        "<iframe src=https://example.com></iframe>",
        "<form action=https://example.com><button>x</button></form>",
        '[a](https://example.com "x\\" onmouseover=\\"alert(1)")',
        "```<img src=x onerror=alert(1)>\nx\n```",
        "<a href=x style=position:fixed>x</a>",
        "<base href=https://example.com>",
    ],
)
def test_nothing_runs_loads_or_styles(text: str) -> None:
    html = prose_html(text) or ""
    tags = html.lower().replace("&lt;", "").split("<")
    assert not [tag for tag in tags if tag.startswith(("script", "img", "svg", "style", "iframe"))]
    assert not [tag for tag in tags if tag.startswith(("form", "base", "button", "object", "link"))]
    for tag in tags:
        inside = tag.partition(">")[0]
        assert 'href="javascript' not in inside
        assert 'href="data:' not in inside
        assert 'href="file:' not in inside
        assert 'href="vbscript' not in inside
        assert " on" not in inside.partition(' title="')[0]
        assert "style=" not in inside.partition(' title="')[0]


def test_the_parser_alone_escapes_tags() -> None:
    html = rendered("<script>x</script> <img src=x onerror=y> ![a](https://example.com/p.png)")
    assert "<script" not in html
    assert "<img" not in html


def test_the_sanitizer_alone_drops_what_is_not_allowed() -> None:
    html = "<script>x</script><p onclick=x style=y>a</p><img src=x onerror=y><svg onload=x></svg>"
    links = "".join(f"<a href='{kind}:x'>l</a>" for kind in ("javascript", "data", "file"))
    assert sanitized(html) == "<p>a</p>"
    assert "href" not in sanitized(links)


def test_controls_and_overrides_are_spelled_out() -> None:
    html = prose_html("a\u202eb\x1b[31mc") or ""
    assert "a&lt;U+202E&gt;b&lt;ESC&gt;[31mc" in html


def test_a_very_long_text_is_not_rendered() -> None:
    assert prose_html("x" * LONGEST) is not None
    assert prose_html("x" * (LONGEST + 1)) is None


@given(st.text("aZ09 ,.():;?/'’“”–—…-*_`#>1.\n", max_size=30))
def test_plain_lines_need_no_parser(text: str) -> None:
    assert prose_html(text) == sanitized(rendered(harmless(text)))
