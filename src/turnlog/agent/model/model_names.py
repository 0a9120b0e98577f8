"""Resolve model names: an id, or an alias for the newest model of a family."""

import re
from collections.abc import Mapping

from msgspec import Struct

from turnlog.conversation.models import LONG_MARK, window_of

NEWEST = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}
DEFAULT = "opus"
VERSION = re.compile(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?")
FAST = ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
ELSEWHERE = ("ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
"""Variables that select another server or provider."""


class ModelTuning(Struct, frozen=True):
    """Request parameters that do not depend on the model."""

    effort: str | None = None
    """low, medium, high, xhigh or max."""
    thinking: str | None = None
    """adaptive, enabled or disabled; None to leave it to the variables."""
    display: str | None = None
    """How thinking is returned: summarized or omitted."""
    betas: tuple[str, ...] = ()
    task_budget: int | None = None
    """Tokens that the model is told it may spend."""
    fallback: str | None = None
    """The model to use while the usual one is overloaded."""


class ModelChoice(Struct, frozen=True):
    """A model and its request parameters."""

    model: str
    max_tokens: int = 32_000
    thinking_tokens: int = 0
    tuning: ModelTuning = ModelTuning()

    @property
    def window(self) -> int:
        """Size of the context window in tokens."""
        return window_of(self.model)


def model_named(name: str, environment: Mapping[str, str] = {}) -> str:
    """Return a model id; the environment may set a family's, as in the client.

    >>> model_named("sonnet[1m]"), model_named("claude-opus-4-8")
    ('claude-sonnet-5-5[1m]', 'claude-opus-4-8')
    """
    plain = name.removesuffix(LONG_MARK)
    mark = name[len(plain) :]
    chosen = environment.get(f"ANTHROPIC_DEFAULT_{plain.upper()}_MODEL")
    return (chosen or NEWEST.get(plain, plain)) + mark


def fast_model(usual: str, environment: Mapping[str, str]) -> str:
    """Return a small model for side requests.

    Another server may not have one: there the main model is used (2.1.325, observed).

    >>> fast_model("claude-opus-4-8", {}), fast_model("a", {"ANTHROPIC_BASE_URL": "http://b"})
    ('claude-haiku-5-5', 'a')
    """
    named = next((environment[name] for name in FAST if environment.get(name)), None)
    is_elsewhere = any(environment.get(name) for name in ELSEWHERE)
    return named or (usual if is_elsewhere else NEWEST["haiku"])


def adapts(model: str) -> bool:
    """Return whether a model decides by itself how much it thinks.

    >>> adapts("claude-opus-5-5"), adapts("claude-sonnet-4-6"), adapts("claude-sonnet-4-5")
    (True, True, False)
    """
    found = VERSION.match(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (4, 6)


def choose(
    name: str | None, environment: Mapping[str, str], tuning: ModelTuning | None = None
) -> ModelChoice:
    """Return the model and parameters; variables are named as the client documents them."""
    model = model_named(name or environment.get("ANTHROPIC_MODEL") or DEFAULT, environment)
    usual = ModelChoice(model)
    return ModelChoice(
        model,
        _number(environment.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")) or usual.max_tokens,
        _number(environment.get("MAX_THINKING_TOKENS")) or 0,
        tuning or usual.tuning,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
