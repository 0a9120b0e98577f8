"""Markdown exports contain no HTML and no images, whatever a session says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from turnlog.render.inert_markdown import inert

HOSTILE = "<img src=https://example.org/x onerror=alert(1)>"
MARKS = "` `` ``` ~~~ > 1. \\ | a <!-- --> </p> <? !".split()
SPACES = ["\n", "\n\n", "  ", "    ", "- ", "> ", "\t", "| a | b |\n|---|---|\n"]
PIECES = st.sampled_from([HOSTILE, "![a](https://b/c.png)", *MARKS, *SPACES])


def kinds(text: str) -> set[str]:
    """The kinds of tokens that a renderer which passes HTML through would see."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    blocks = parser.parse(text)
    return {token.type for block in blocks for token in [block, *(block.children or [])]}


@given(st.lists(PIECES, max_size=14).map("".join))
def test_no_text_leaves_a_tag_or_an_image(text: str) -> None:
    assert not kinds(inert(text)) & {"html_inline", "html_block", "image"}


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        f"a {HOSTILE}",
        f"\\\\{HOSTILE}",
        f"- ```\n  ```\n{HOSTILE}",
        f"```{HOSTILE}|a\n|---|---|\n",
        f"\\```<b>``{HOSTILE}``",
        f"~~~a|b\n|---|---|\n| {HOSTILE} | c |\n",
    ],
)
def test_without_it_a_tag_would_be_passed_on(text: str) -> None:
    assert kinds(text) & {"html_inline", "html_block"}
    assert not kinds(inert(text)) & {"html_inline", "html_block"}


@pytest.mark.parametrize(
    "text",
    [
        "`<b>` and ``a ` <i>``",
        "```html\n<p>![x](y)</p>\n```\nand 1 < 2",
        "<https://example.org/a?b=1>",
        "[a](https://example.org) a -> b",
    ],
)
def test_code_and_links_stay(text: str) -> None:
    assert inert(text) == text


def test_an_image_becomes_a_link() -> None:
    assert inert("![a](https://b/c.png)") == "[image: a](https://b/c.png)"
    assert re.search("link_open", str(kinds(inert("![](https://b/c.png)"))))
