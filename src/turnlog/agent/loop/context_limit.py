"""Decide at how many tokens a conversation is compacted automatically.

Names, bounds and precedence of settings and variables follow the client's documentation.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

from turnlog.conversation.models import compaction_limit

SMALLEST, LARGEST = 100_000, 1_000_000
SET = ("1", "true", "yes", "on")


class Compacting(Struct, frozen=True):
    """Settings for automatic and manual compaction."""

    is_automatic: bool = True
    is_possible: bool = True
    """True if `/compact` is allowed."""
    window: int | None = None
    """Limit in tokens, if below the model's context window."""
    share: float = 1.0
    """Compact when this share of the window is used, if the usual limit is not reached before."""

    def limit(self, window: int) -> float:
        """Return the number of tokens above which a conversation is compacted."""
        used = min(self.window or window, window)
        return min(compaction_limit(used), used * self.share)

    def reserve(self, window: int) -> int:
        """Return the tokens of a context window that a conversation leaves unused."""
        return window - int(self.limit(window)) if self.is_automatic else 0


def compacting(
    is_enabled: bool | None, window: int | str | None, environment: Mapping[str, str]
) -> Compacting:
    """Return the compaction settings; environment variables take precedence over settings.

    >>> compacting(None, 150_000, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}).limit(200_000)
    75000.0
    """
    is_possible = environment.get("DISABLE_COMPACT") not in SET
    is_kept_off = environment.get("DISABLE_AUTO_COMPACT") in SET or is_enabled is False
    wanted = environment.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW") or window
    return Compacting(
        is_possible and not is_kept_off,
        is_possible,
        _window(wanted),
        _share(environment.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "")),
    )


def _window(setting: int | str | None) -> int | None:
    number = re.match(r"\d+", str(setting))
    return min(max(int(number[0]), SMALLEST), LARGEST) if number else None


def _share(percent: str) -> float:
    is_number = re.fullmatch(r"\d+(\.\d+)?", percent) is not None
    return float(percent) / 100 if is_number and 0 < float(percent) <= 100 else 1.0
