"""Models: one name each, however an id spells it, and the size of their context.

Context windows follow the client (2.1.325, observed): 1M tokens for newer Claude models, for older
ones only if the name ends with a mark, else 200k. Models of other makers count as 200k.
"""

import os
import re
from collections.abc import Mapping
from functools import cache

WINDOW = 200_000
LONG_WINDOW = 1_000_000
LONG_MARK = "[1m]"
"""Ends the name of a model that is asked with a long context."""
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
"""The Claude models whose context is long only with the mark."""


def window_of(model: str, environment: Mapping[str, str] = os.environ) -> int:
    """The tokens that a conversation with a model can have.

    >>> window_of("claude-opus-5-5", {}), window_of("claude-sonnet-4-6-20260217", {})
    (1000000, 200000)
    >>> window_of("sonnet[1m]", {}), window_of("qwen3", {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "32768"})
    (1000000, 32768)
    """
    name = model_name(model)
    is_claude, is_marked = name.startswith("claude-"), LONG_MARK in model.lower()
    told = environment.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "")
    if told.isdecimal() and int(told) and not is_claude and not is_marked:
        return int(told)
    is_long = is_marked or (is_claude and name not in SHORT)
    holds_long = environment.get("CLAUDE_CODE_DISABLE_1M_CONTEXT") not in ("1", "true")
    return LONG_WINDOW if is_long and holds_long else WINDOW


# The forms of one model's id: plain, of a router (anthropic/…), of Bedrock (us.anthropic.…-v1:0),
# of Vertex (…@20250929); with a date or without; with the client's mark of a long context.
_CLAUDE_ID = re.compile(
    r"(?:anthropic/|(?:[a-z-]+\.)?anthropic\.)?"
    r"(?P<name>claude-[a-z0-9.-]+?)(?:[.-]0)?"
    r"(?:-v\d)?(?:[-@](?:\d{8}|latest|default))?(?:-v\d)?(?::\d)?"
    r"(?:\[1m\])?"
)


@cache
def model_name(model: str | None) -> str:
    """A model's name in lower case; of a Claude model, the plain one.

    >>> model_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), model_name("Qwen3")
    ('claude-sonnet-4-5', 'qwen3')
    """
    plain = (model or "").lower()
    found = _CLAUDE_ID.fullmatch(plain)
    return found["name"].replace(".", "-") if found else plain
