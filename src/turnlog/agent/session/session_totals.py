"""Totals of a session over all processes that wrote it: cost, tokens, time and changed lines.

Recorded as `cost-state` lines. The client continues from the last one when it resumes a
session, and so does turnlog: `startTime` stays, every figure grows (2.1.325, observed).
"""

from collections.abc import Mapping
from time import monotonic, time
from typing import Any

from turnlog.format.json_values import Fields, is_array, is_object

KIND = "cost-state"
COST, OUTPUT = "costUSD", "outputTokens"
FIGURES = (
    *("totalCostUSD", "totalAPIDuration", "totalAPIDurationWithoutRetries", "totalToolDuration"),
    *("totalLinesAdded", "totalLinesRemoved", "totalDuration"),
)


class SessionTotals:
    """Counts cost, tokens, time and changed lines of a session."""

    def __init__(self) -> None:
        self._opened = monotonic()
        self._start = round(time() * 1000)
        self._figures: dict[str, float] = dict.fromkeys(FIGURES, 0)
        self._models: dict[str, dict[str, float]] = {}

    def continue_from(self, before: Mapping[str, Any] | None) -> None:
        """Continue from the last recorded totals, if any."""
        if before is None:
            return
        # The recorded duration includes the time of this process up to now: restart the clock.
        self._opened = monotonic()
        self._figures |= {name: _number(before.get(name)) for name in FIGURES}
        self._start = round(_number(before.get("startTime"))) or self._start
        models = before.get("modelUsage")
        for model, counts in models.items() if is_object(models) else ():
            if is_object(counts):
                self._models[model] = {name: _number(each) for name, each in counts.items()}

    @property
    def cost(self) -> float:
        """Cost of all turns in dollars."""
        return self._figures["totalCostUSD"]

    @property
    def api_milliseconds(self) -> int:
        """Time spent waiting for the API."""
        return round(self._figures["totalAPIDuration"])

    @property
    def models(self) -> Mapping[str, Mapping[str, float]]:
        """Tokens and dollars per model."""
        return self._models

    def add_turn(
        self, cost: float, api_seconds: float, models: Mapping[str, Mapping[str, float]]
    ) -> None:
        """Count the requests of a turn."""
        self._figures["totalCostUSD"] += cost
        # Only answered requests are timed, so both durations are equal.
        for name in ("totalAPIDuration", "totalAPIDurationWithoutRetries"):
            self._figures[name] += round(api_seconds * 1000)
        for model, counts in models.items():
            known = self._models.setdefault(model, {})
            for name, count in counts.items():
                known[name] = known.get(name, 0) + count

    def add_call(self, seconds: float, data: object) -> None:
        """Count a tool call and the lines that it changed, according to its structured result."""
        added, removed = changed_lines(data)
        self._figures["totalToolDuration"] += round(seconds * 1000)
        self._figures["totalLinesAdded"] += added
        self._figures["totalLinesRemoved"] += removed

    def line(self, session_id: str) -> Fields:
        """Return the entry that records the totals."""
        spent = round((monotonic() - self._opened) * 1000)
        figures = self._figures | {"totalDuration": self._figures["totalDuration"] + spent}
        # A model without a known price has a cost of 0.
        has_unknown = any(each.get(OUTPUT) and not each.get(COST) for each in self._models.values())
        return {
            "type": KIND,
            "sessionId": session_id,
            **figures,
            "startTime": self._start,
            "modelUsage": {model: dict(counts) for model, counts in self._models.items()},
            "hasUnknownModelCost": has_unknown,
        }


def changed_lines(data: object) -> tuple[int, int]:
    """Return how many lines a call added and removed.

    >>> changed_lines({"structuredPatch": [{"lines": [" a", "-b", "+c", "+d"]}]})
    (2, 1)
    >>> changed_lines({"type": "create", "content": "a\\nb\\n", "structuredPatch": []})
    (2, 0)
    """
    if not is_object(data):
        return 0, 0
    hunks = data.get("structuredPatch")
    if data.get("type") == "create" and not hunks:
        return len(str(data.get("content") or "").splitlines()), 0
    lines: list[str] = []
    for hunk in hunks if is_array(hunks) else []:
        shown = hunk.get("lines") if is_object(hunk) else None
        lines += map(str, shown if is_array(shown) else [])
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return added, removed


def _number(value: object) -> float:
    """Return a recorded figure, or 0 if it is negative or no number: anyone may edit the file."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return max(0, value)
