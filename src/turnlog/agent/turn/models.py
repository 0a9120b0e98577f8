"""Which model is asked: by its id, or by a name that stands for the newest of a family."""

from collections.abc import Mapping

from turnlog.agent.turn.parts import LONG_MARK, Choice

NEWEST = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
}
DEFAULT = "opus"


def model_named(name: str, environment: Mapping[str, str] = {}) -> str:
    """The id of a model; a family's may be set by the environment, as for the client.

    >>> model_named("sonnet[1m]"), model_named("claude-opus-4-8")
    ('claude-sonnet-5-5[1m]', 'claude-opus-4-8')
    """
    plain = name.removesuffix(LONG_MARK)
    mark = name[len(plain) :]
    chosen = environment.get(f"ANTHROPIC_DEFAULT_{plain.upper()}_MODEL")
    return (chosen or NEWEST.get(plain, plain)) + mark


def choose(name: str | None, environment: Mapping[str, str]) -> Choice:
    """The model to ask, and how: by the names that the client's documents give to variables."""
    model = model_named(name or environment.get("ANTHROPIC_MODEL") or DEFAULT, environment)
    usual = Choice(model)
    return Choice(
        model,
        _number(environment.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")) or usual.max_tokens,
        _number(environment.get("MAX_THINKING_TOKENS")) or 0,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
