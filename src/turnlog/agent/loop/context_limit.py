"""How far a conversation may grow before it is compacted by itself: as settings and variables say.

Their names, bounds and order are documented of the client.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

RESERVE = 33_000
"""Tokens that are kept free: for an answer, and for the summary when it is time for one."""
SMALLEST, LARGEST = 100_000, 1_000_000
SET = ("1", "true", "yes", "on")


class Compacting(Struct, frozen=True):
    """Whether, and when, a conversation is compacted."""

    is_automatic: bool = True
    is_possible: bool = True
    """Whether the user may have it done."""
    window: int | None = None
    """Tokens to use, where they are to be fewer than the model has room for."""
    share: float = 1.0
    """How much of them may be used, if that is less than all but the reserve."""

    def limit(self, window: int) -> float:
        """The tokens above which a conversation is compacted, with a model that has a window."""
        used = min(self.window or window, window)
        return min(used - min(RESERVE, used // 4), used * self.share)

    def reserve(self, window: int) -> int:
        """The tokens of a window that are not used by a conversation."""
        return window - int(self.limit(window)) if self.is_automatic else 0


def compacting(
    is_enabled: bool | None, window: int | str | None, environment: Mapping[str, str]
) -> Compacting:
    """When to compact, by what the settings say and by the environment, which comes before them.

    >>> compacting(None, 150_000, {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}).limit(200_000)
    75000.0
    """
    is_possible = environment.get("DISABLE_COMPACT") not in SET
    is_kept_off = environment.get("DISABLE_AUTO_COMPACT") in SET or is_enabled is False
    told = environment.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW") or window
    return Compacting(
        is_possible and not is_kept_off,
        is_possible,
        _window(told),
        _share(environment.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "")),
    )


def _window(told: int | str | None) -> int | None:
    number = re.match(r"\d+", str(told))
    return min(max(int(number[0]), SMALLEST), LARGEST) if number else None


def _share(told: str) -> float:
    is_number = re.fullmatch(r"\d+(\.\d+)?", told) is not None
    return float(told) / 100 if is_number and 0 < float(told) <= 100 else 1.0
