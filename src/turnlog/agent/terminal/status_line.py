"""Count usage from events and render the status line."""

from collections.abc import Sequence
from time import monotonic

from msgspec import Struct

from turnlog.agent.loop.events import Event, Inside, Streamed, TurnEnded
from turnlog.agent.loop.spending import COUNTED, price_of
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.terminal.styled_text import Style, cells, cut
from turnlog.format.json_values import Fields
from turnlog.text import duration, running_money, tokens_text

FRAMES = "·✢✳✶✻✽✻✶✳✢"
GAP = " · "
BY_TOKEN = 4
"""Average characters per token; estimates are replaced by the API's counts."""
MODES = {
    ApprovalMode.DEFAULT: "asks before changes",
    ApprovalMode.ACCEPT_EDITS: "accepts edits",
    ApprovalMode.PLAN: "plans only",
    ApprovalMode.BYPASS: "asks nothing",
    ApprovalMode.DONT_ASK: "denies instead of asking",
}
NOT_SENT = "output_tokens"


class UsageMeter:
    """Counts the usage of a turn and of the whole session."""

    def __init__(self) -> None:
        self.total = 0.0
        """Known cost of the session in dollars, without the running turn."""
        self.start()

    def start(self) -> None:
        """Start the clock of a turn."""
        self._started = monotonic()
        self._cost = 0.0
        self._usage: dict[str, Fields] = {}
        self._model = ""
        self._message = ""
        self._written = 0

    def take(self, event: Event) -> None:
        """Count an event."""
        match event:
            case Streamed():
                self._stream(event.event)
            # The cost of a sub-agent is part of the `TurnEnded` of the turn around it.
            case Inside() if not isinstance(event.event, TurnEnded):
                self.take(event.event)
            case TurnEnded():
                self.total += event.cost
                self._cost = 0.0
            case _:
                pass

    def settle(self) -> None:
        """End a turn, even if it had no `TurnEnded` event."""
        self.total += self._cost
        self.start()

    @property
    def seconds(self) -> float:
        """Seconds since the turn started."""
        return monotonic() - self._started

    @property
    def cost(self) -> float:
        """Cost of the session in dollars, including the running turn."""
        return self.total + self._cost

    @property
    def sent(self) -> int:
        """Tokens sent to the model in this turn."""
        return sum(
            usage.get(name) or 0
            for usage in self._usage.values()
            for name in COUNTED
            if name != NOT_SENT
        )

    @property
    def written(self) -> int:
        """Tokens written by the model in this turn."""
        counted = sum(usage.get(NOT_SENT) or 0 for usage in self._usage.values())
        return counted + self._written // BY_TOKEN

    def _stream(self, event: Fields) -> None:
        match event.get("type"):
            case "message_start":
                message: Fields = event["message"]
                self._message, self._model = str(message.get("id")), str(message.get("model"))
                # `message_delta` counts the first output tokens again.
                self._usage[self._message] = (message.get("usage") or {}) | {NOT_SENT: 0}
            case "content_block_delta":
                self._written += len(_written(event["delta"]))
            case "message_delta":
                usage = self._usage.setdefault(self._message, {})
                counted: Fields = event.get("usage") or {}
                usage |= {name: count for name, count in counted.items() if count}
                # The estimate is replaced by what the API counted.
                self._written = 0
                self._cost += price_of(self._model, usage)
            case _:
                pass


def _written(delta: Fields) -> str:
    names = ("text", "thinking", "partial_json")
    return next((str(delta[name]) for name in names if name in delta), "")


class StatusFacts(Struct, frozen=True):
    """The content of the status line."""

    model: str
    mode: ApprovalMode
    tokens: int
    window: int
    cost: float
    effort: str = ""
    """The effort, unless it is the model's default."""
    line: str = ""
    """Output of the user's own command; it replaces everything but the mode."""
    running: int = 0
    """Commands and agents in the background."""
    keys: str = ""
    """The vi mode, such as NORMAL; empty without vi keys."""
    has_stash: bool = False
    """True if a prompt was put aside."""
    hint: str = ""


def status_parts(facts: StatusFacts) -> list[str]:
    """Return the parts of the status line, the most important first."""
    share = f"{min(999, round(100 * facts.tokens / facts.window))}% of {tokens_text(facts.window)}"
    running = f"{facts.running} in the background" if facts.running else ""
    effort = f"{facts.effort} effort" if facts.effort else ""
    stash = "prompt stashed" if facts.has_stash else ""
    about = [share, running_money(facts.cost), facts.model, effort, facts.hint]
    parts = [
        MODES[facts.mode],
        facts.keys,
        stash,
        running,
        *([facts.line] if facts.line else about),
    ]
    return [*filter(None, parts)]


def status_row(facts: StatusFacts, style: Style, columns: int) -> str:
    """Return the status line; any permission mode but the default one is highlighted."""
    parts = status_parts(facts)
    line = fit_line(parts, columns - 3)
    head = line[: len(parts[0])]
    role = "dim" if facts.mode is ApprovalMode.DEFAULT else "mode"
    return f"  {style(head, role)}{style(line[len(head) :], 'dim')}"


def fit_line(parts: Sequence[str], room: int) -> str:
    """Join as many parts as fit, at least the first.

    >>> fit_line(["one", "two", "three"], 10)
    'one · two'
    """
    line = cut(parts[0], room)
    for part in parts[1:]:
        longer = f"{line}{GAP}{part}"
        if cells(longer) > room:
            break
        line = longer
    return line


def spinner(label: str, meter: UsageMeter, hints: Sequence[str], room: int) -> str:
    """Return the animated line that shows the current activity."""
    frame = FRAMES[int(meter.seconds * 8) % len(FRAMES)]
    parts = [f"{frame} {label}", duration(meter.seconds)]
    if meter.sent or meter.written:
        parts.append(f"↑ {tokens_text(meter.sent)} ↓ {tokens_text(meter.written)}")
    if meter.cost:
        parts.append(running_money(meter.cost))
    return fit_line([*parts, *hints], room)
