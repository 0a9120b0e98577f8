"""Models by one name each, however an id spells them."""

import re
from functools import cache

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
