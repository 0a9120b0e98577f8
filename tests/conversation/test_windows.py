"""Context windows of models, in tokens."""

import pytest

from turnlog.conversation.models import window_of


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-opus-5-5", 1_000_000),
        ("claude-haiku-5-5", 1_000_000),
        ("claude-opus-4-7-20260401", 1_000_000),
        ("claude-of-tomorrow-9", 1_000_000),
        ("us.anthropic.claude-opus-4-8-v1:0", 1_000_000),
        ("anthropic/claude-opus-4.6", 200_000),
        ("claude-haiku-4-5-20251001", 200_000),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("gateway-alias", 200_000),
        ("gateway-alias[1M]", 1_000_000),
    ],
)
def test_the_window_is_that_of_the_model(model: str, window: int) -> None:
    assert window_of(model, {}) == window


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-4-5[1m]", "alias[1m]"])
def test_long_contexts_can_be_turned_off(model: str) -> None:
    assert window_of(model, {"CLAUDE_CODE_DISABLE_1M_CONTEXT": "1"}) == 200_000


def test_of_a_model_of_another_maker_the_window_can_be_told() -> None:
    told = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "32768"}
    assert window_of("qwen3", told) == 32_768
    assert window_of("claude-opus-5-5", told) == 1_000_000
    assert window_of("qwen3", {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "many"}) == 200_000
