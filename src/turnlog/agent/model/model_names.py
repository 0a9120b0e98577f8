"""Resolve model names: an id, or an alias for the newest model of a family."""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from turnlog.conversation.models import LONG_MARK, window_of

NEWEST = {
    "opus": "claude-opus-5-5",
    "fable": "claude-fable-5-2",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}
DEFAULT = "opus"
OPUS_PLAN = "opusplan"
"""Alias for two models: opus in plan mode, else sonnet."""
ALIASES = {"best": "opus", "default": DEFAULT, OPUS_PLAN: "sonnet"}
"""Other names for a family (2.1.325, observed)."""
# Two digits at most: `claude-opus-4-20250514` continues with a date, not with a minor version.
VERSION = re.compile(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?")
SMALLEST_ALWAYS = (5, 5)
"""The first version whose thinking cannot be turned off (2.1.325, observed)."""
EFFORT_VARIABLE = "CLAUDE_CODE_EFFORT_LEVEL"
FAST = ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")
ELSEWHERE = ("ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
"""Variables that select another server or provider."""


class ModelTuning(Struct, frozen=True):
    """Request parameters that do not depend on the model."""

    effort: str | None = None
    """low, medium, high, xhigh or max."""
    thinking: str | None = None
    """adaptive, enabled or disabled; None for the model's default."""
    display: str | None = None
    """The form in which thinking is returned: summarized, omitted or updates."""
    betas: tuple[str, ...] = ()
    task_budget: int | None = None
    """Token budget that is announced to the model."""
    fallback: str | None = None
    """The model to use while the usual one is overloaded."""


class ModelChoice(Struct, frozen=True):
    """A model and its request parameters."""

    model: str
    max_tokens: int = 32_000
    thinking_tokens: int = 0
    tuning: ModelTuning = ModelTuning()
    by_mode: tuple[str, str] | None = None
    """The models for work and for plan mode, if they differ; `model` is the current one."""

    @property
    def effort(self) -> str | None:
        """The effort to request; None if the model has no such setting."""
        return self.tuning.effort or usual_effort(self.model)

    @property
    def window(self) -> int:
        """Size of the context window in tokens."""
        return window_of(self.model)


def model_named(name: str, environment: Mapping[str, str] = {}) -> str:
    """Return the id of a named model; variables may set that of a family, as in the client.

    >>> model_named("sonnet[1m]"), model_named("claude-opus-4-8"), model_named("Best")
    ('claude-sonnet-5-5[1m]', 'claude-opus-4-8', 'claude-opus-5-5')
    """
    plain = name.removesuffix(LONG_MARK)
    mark = name[len(plain) :]
    family = ALIASES.get(plain.lower(), plain.lower())
    chosen = environment.get(f"ANTHROPIC_DEFAULT_{family.upper()}_MODEL")
    return (chosen or NEWEST.get(family, plain)) + mark


def fast_model(usual: str, environment: Mapping[str, str]) -> str:
    """Return a small model for side requests.

    Another server may lack a small model, so the main model is used there (2.1.325, observed).

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
    return version_of(model) >= (4, 6)


def thinks(model: str) -> bool:
    """Return whether a model can think; models that are not Claude count as unable.

    >>> thinks("claude-sonnet-4-5"), thinks("claude-3-5-haiku-20241022"), thinks("qwen3-coder")
    (True, False, False)
    """
    return version_of(model) >= (4, 0)


def always_thinks(model: str) -> bool:
    """Return whether thinking cannot be turned off for a model."""
    return version_of(model) >= SMALLEST_ALWAYS


def usual_effort(model: str) -> str | None:
    """Return the effort that the client requests by default (2.1.325, observed).

    >>> usual_effort("claude-opus-5-5"), usual_effort("claude-opus-4-6"), usual_effort("qwen3")
    ('medium', 'high', None)
    """
    if version_of(model) >= SMALLEST_ALWAYS:
        return "medium"
    return "high" if adapts(model) or model.startswith("claude-opus-4-5") else None


def version_of(model: str) -> tuple[int, int]:
    """Return the version in a Claude model's id; (0, 0) if it is another model or an old id."""
    found = VERSION.match(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def choose(
    name: str | None, environment: Mapping[str, str], tuning: ModelTuning | None = None
) -> ModelChoice:
    """Return the model and parameters; variables are named as the client documents them."""
    named = name or environment.get("ANTHROPIC_MODEL") or DEFAULT
    model = model_named(named, environment)
    wanted = tuning or ModelTuning()
    tokens = _number(environment.get("MAX_THINKING_TOKENS"))
    if tokens == 0 and not wanted.thinking:
        wanted = replace(wanted, thinking=None if always_thinks(model) else "disabled")
    if not wanted.effort:
        wanted = replace(wanted, effort=environment.get(EFFORT_VARIABLE) or None)
    choice = ModelChoice(model, thinking_tokens=tokens or 0, tuning=wanted)
    return with_model(choice, named, environment)


def with_model(choice: ModelChoice, name: str, environment: Mapping[str, str]) -> ModelChoice:
    """Return the choice with another model and that model's maximum answer length.

    >>> with_model(choose("opus", {}), "claude-sonnet-4-6", {}).max_tokens
    64000
    """
    model = model_named(name, environment)
    plain = name.removesuffix(LONG_MARK)
    mark = name[len(plain) :]
    is_pair = plain.lower() == OPUS_PLAN
    return replace(
        choice,
        model=model,
        max_tokens=longest_allowed(model, environment),
        by_mode=(model, model_named(f"opus{mark}", environment)) if is_pair else None,
    )


def for_mode(choice: ModelChoice, is_planning: bool, environment: Mapping[str, str]) -> ModelChoice:
    """Return the choice for the permission mode: `opusplan` stands for two models.

    >>> for_mode(choose("opusplan", {}), is_planning=True, environment={}).model
    'claude-opus-5-5'
    """
    if not choice.by_mode or choice.by_mode[is_planning] == choice.model:
        return choice
    model = choice.by_mode[is_planning]
    return replace(choice, model=model, max_tokens=longest_allowed(model, environment))


def longest_allowed(model: str, environment: Mapping[str, str]) -> int:
    """Return the maximum tokens of an answer, which an environment variable may set."""
    return _number(environment.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")) or longest_answer(model)


def longest_answer(model: str) -> int:
    """Return the maximum tokens of an answer that the client requests (2.1.325, observed).

    >>> longest_answer("claude-opus-5-5"), longest_answer("claude-opus-4-6"), longest_answer("a")
    (128000, 64000, 32000)
    """
    if version_of(model) >= SMALLEST_ALWAYS:
        return 128_000
    return 64_000 if adapts(model) else 32_000


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
