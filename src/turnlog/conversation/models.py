"""Models: one canonical name for each spelling of an id, and context window sizes.

Context windows follow the client (2.1.325, observed): 1M tokens for newer Claude models, 200k for
older ones unless the name ends with `[1m]`, and 200k for models of other vendors.
"""

import os
import re
from collections.abc import Mapping
from functools import cache

WINDOW = 200_000
LONG_WINDOW = 1_000_000
RESERVE = 33_000
"""Tokens of a context window that are kept free for an answer and for a summary."""
LONG_MARK = "[1m]"
"""Suffix that requests a model with its long context window."""
SHORT = frozenset(
    {
        "claude-3-5-haiku",
        "claude-3-5-sonnet",
        "claude-3-7-sonnet",
        "claude-3-haiku",
        "claude-3-opus",
        "claude-3-sonnet",
        "claude-haiku-4-5",
        "claude-opus-4",
        "claude-opus-4-1",
        "claude-opus-4-5",
        "claude-opus-4-6",
        "claude-sonnet-4",
        "claude-sonnet-4-5",
        "claude-sonnet-4-6",
    }
)
"""Claude models whose context window is long only with `[1m]`."""


def window_of(model: str, environment: Mapping[str, str] = os.environ) -> int:
    """Return the size of a model's context window in tokens.

    >>> window_of("claude-opus-5-5", {}), window_of("claude-sonnet-4-6-20260217", {})
    (1000000, 200000)
    >>> window_of("sonnet[1m]", {}), window_of("qwen3", {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "32768"})
    (1000000, 32768)
    """
    name = model_name(model)
    is_claude, is_marked = name.startswith("claude-"), LONG_MARK in model.lower()
    limit = environment.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "")
    if limit.isdecimal() and int(limit) and not is_claude and not is_marked:
        return int(limit)
    is_long = is_marked or (is_claude and name not in SHORT)
    holds_long = environment.get("CLAUDE_CODE_DISABLE_1M_CONTEXT") not in ("1", "true")
    return LONG_WINDOW if is_long and holds_long else WINDOW


def window_holding(model: str, tokens: int) -> int:
    """Return the size of the context window that a request with this many tokens was sent to.

    >>> window_holding("claude-sonnet-4-5", 90_000), window_holding("claude-sonnet-4-5", 250_000)
    (200000, 1000000)
    """
    # The model's id does not say whether its long window was requested (`[1m]`), but a context that
    # does not fit the short one does.
    usual = _usual_window(model)
    return LONG_WINDOW if tokens > usual >= WINDOW else usual


@cache
def _usual_window(model: str) -> int:
    # Ignore this environment: sessions of other machines are listed, too.
    return window_of(model, {})


def compaction_limit(window: int) -> int:
    """Return the number of tokens above which a client compacts by default.

    >>> compaction_limit(200_000), compaction_limit(1_000_000)
    (167000, 967000)
    """
    return window - min(RESERVE, window // 4)


# One model has many ids: plain, with a router's prefix (anthropic/…), on Bedrock
# (us.anthropic.…-v1:0), on Vertex (…@20250929), each with or without a date and [1m].
_CLAUDE_ID = re.compile(
    r"(?:anthropic/|(?:[a-z-]+\.)?anthropic\.)?"
    r"(?P<name>claude-[a-z0-9.-]+?)(?:[.-]0)?"
    r"(?:-v\d)?(?:[-@](?:\d{8}|latest|default))?(?:-v\d)?(?::\d)?"
    r"(?:\[1m\])?"
)


@cache
def model_name(model: str | None) -> str:
    """Return a model's name in lower case; for Claude models, without provider, date and version.

    >>> model_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), model_name("Qwen3")
    ('claude-sonnet-4-5', 'qwen3')
    """
    plain = (model or "").lower()
    found = _CLAUDE_ID.fullmatch(plain)
    return found["name"].replace(".", "-") if found else plain
