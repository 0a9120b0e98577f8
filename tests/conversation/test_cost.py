"""Tokens to dollars, with each figure worked out by hand."""

from typing import Any

import msgspec
import pytest

from turnlog.conversation.cost import (
    _price_table,
    cost_of,
    understates_output,
    unpriced_models,
)
from turnlog.format.blocks import Usage

MILLION = 1_000_000


def usage(**fields: Any) -> Usage:
    return msgspec.convert(fields, Usage)


def cost(model: str, when: str | None = None, /, **fields: Any) -> float | None:
    return cost_of(model, usage(**fields), when)


@pytest.mark.parametrize(
    ("field", "dollars"),
    [
        ("input_tokens", 5.0),
        ("output_tokens", 25.0),
        ("cache_creation_input_tokens", 6.25),
        ("cache_read_input_tokens", 0.5),
    ],
)
def test_each_kind_of_token_has_its_price(field: str, dollars: float) -> None:
    assert cost("claude-opus-5", **{field: MILLION}) == pytest.approx(dollars)


def test_a_message_costs_the_sum_of_its_tokens() -> None:
    # 12 x 5 + 340 x 25 + 2,000 x 6.25 + 50,000 x 0.5 = 46,060 millionths
    counts = {"input_tokens": 12, "output_tokens": 340, "cache_creation_input_tokens": 2000}
    found = cost("claude-opus-4-8", **counts, cache_read_input_tokens=50_000)
    assert found == pytest.approx(0.04606)


def test_cache_writes_are_priced_by_how_long_they_live() -> None:
    # 1,000 x 6.25 + 3,000 x 10 = 36,250 millionths
    split = {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 3000}
    found = cost("claude-opus-5", cache_creation_input_tokens=4000, cache_creation=split)
    assert found == pytest.approx(0.03625)


@pytest.mark.parametrize(
    "split", [None, {}, {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": None}]
)
def test_cache_writes_without_a_split_are_for_five_minutes(split: dict[str, Any] | None) -> None:
    found = cost("claude-opus-5", cache_creation_input_tokens=4000, cache_creation=split)
    assert found == pytest.approx(0.025)


def test_absent_and_null_counts_cost_nothing() -> None:
    assert cost("claude-opus-5") == 0
    assert cost("claude-opus-5", input_tokens=None, iterations=None, server_tool_use=None) == 0


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-fable-5-2", 116.4),
        ("claude-opus-5-5", 58.4),
        ("claude-opus-5", 73.5),
        ("claude-opus-4-8", 73.5),
        ("claude-opus-4-8-20260528", 73.5),
        ("claude-opus-4-7", 220.5),
        ("claude-sonnet-5", 14.7),
    ],
)
def test_fast_mode_doubles_opus_5_and_4_8_with_their_caches(model: str, dollars: float) -> None:
    kinds = ("input_tokens", "output_tokens", "cache_creation_input_tokens")
    counts = dict.fromkeys((*kinds, "cache_read_input_tokens"), MILLION)
    assert cost(model, **counts, speed="fast") == pytest.approx(dollars)


def test_standard_speed_costs_the_list_price() -> None:
    assert cost("claude-opus-5", output_tokens=MILLION, speed="standard") == pytest.approx(25)


@pytest.mark.parametrize(
    ("place", "dollars"), [("us", 27.5), ("global", 25), ("not_available", 25), (None, 25)]
)
def test_inference_kept_in_the_us_costs_a_tenth_more(place: str | None, dollars: float) -> None:
    found = cost("claude-opus-5", output_tokens=MILLION, inference_geo=place)
    assert found == pytest.approx(dollars)


def test_web_searches_cost_a_cent_each_wherever_and_however_fast() -> None:
    # 1,000 x 5 x 2 x 1.1 = 11,000 millionths, and three cents
    tools = {"web_search_requests": 3, "web_fetch_requests": 5}
    found = cost(
        "claude-opus-5", input_tokens=1000, speed="fast", inference_geo="us", server_tool_use=tools
    )
    assert found == pytest.approx(0.041)


def iteration(kind: str, model: str, **counts: int) -> dict[str, Any]:
    return {"type": kind, "model": model, **counts}


def test_an_advisor_is_added_under_its_own_model() -> None:
    # 1,000 x 2 + 100 x 10 for Sonnet, 2,000 x 10 + 300 x 50 for Fable = 38,000 millionths
    passes = [
        iteration("message", "claude-sonnet-5", input_tokens=400, output_tokens=60),
        iteration("advisor_message", "claude-fable-5", input_tokens=2000, output_tokens=300),
        iteration("fallback_message", "claude-sonnet-5", input_tokens=600, output_tokens=40),
    ]
    found = cost("claude-sonnet-5", input_tokens=1000, output_tokens=100, iterations=passes)
    assert found == pytest.approx(0.038)


def test_fast_mode_is_that_of_the_message_not_of_its_advisor() -> None:
    passes = [iteration("advisor_message", "claude-opus-4-8", output_tokens=1000)]
    found = cost("claude-opus-5", output_tokens=1000, speed="fast", iterations=passes)
    assert found == pytest.approx(0.050 + 0.025)


def test_an_advisor_without_a_price_leaves_the_message_without_one() -> None:
    passes = [iteration("advisor_message", "claude-sage-9", output_tokens=1000)]
    assert cost("claude-opus-5", output_tokens=1000, iterations=passes) is None
    assert unpriced_models("claude-opus-5", usage(iterations=passes)) == {"claude-sage-9"}


@pytest.mark.parametrize(
    ("when", "dollars"),
    [
        ("2026-03-12T23:59:59.999Z", 3.0),
        ("2026-03-13T00:00:00.000Z", 1.5),
        ("2026-03-12T20:00:00.000-05:00", 1.5),
        (None, 1.5),
        ("no time", 1.5),
    ],
)
def test_a_price_holds_from_its_day_on(when: str | None, dollars: float) -> None:
    assert cost("claude-opus-4-6", when, input_tokens=300_000) == pytest.approx(dollars)


@pytest.mark.parametrize(("when", "dollars"), [("2026-09-09", 0.325), ("2026-09-10", 0.65)])
def test_a_price_that_doubled(when: str, dollars: float) -> None:
    found = cost("glm-5.3-flash", when, input_tokens=MILLION, output_tokens=MILLION)
    assert found == pytest.approx(dollars)


@pytest.mark.parametrize(("read", "dollars"), [(99_000, 0.00109), (99_001, 0.00545005)])
def test_a_longer_prompt_may_make_every_token_dearer(read: int, dollars: float) -> None:
    # Haiku 5.5 has 0.1 for input and 0.01 for reads up to 100,000 tokens, then 0.5 and 0.05.
    found = cost("claude-haiku-5-5", input_tokens=1000, cache_read_input_tokens=read)
    assert found == pytest.approx(dollars)


def test_the_prompts_of_several_passes_do_not_make_a_long_one() -> None:
    passes = [iteration("message", "claude-haiku-5-5", input_tokens=60_000)] * 2
    found = cost("claude-haiku-5-5", input_tokens=120_000, iterations=passes)
    assert found == pytest.approx(0.012)


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5-latest",
        "claude-sonnet-4-5@20250929",
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "global.anthropic.claude-sonnet-4-5-20250929-v1:0[1m]",
        "anthropic/claude-sonnet-4-5",
        "anthropic/claude-sonnet-4.5",
        "claude-sonnet-4-5-20250929[1m]",
    ],
)
def test_one_model_has_many_ids(model: str) -> None:
    assert cost(model, output_tokens=1000) == pytest.approx(0.015)


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-opus-4-20250514", 75),
        ("claude-opus-4-0", 75),
        ("claude-opus-4-1-20250805", 75),
        ("claude-opus-4-5-20251101", 25),
        ("us.anthropic.claude-opus-4-6-v1", 25),
        ("claude-opus-5", 25),
        ("claude-opus-5-5", 20),
        ("claude-fable-5", 50),
        ("claude-haiku-4-5-20251001", 5),
        ("claude-3-5-haiku-20241022", 4),
        ("claude-3-5-sonnet-v2@20241022", 15),
        ("GLM-4.5-Air", 1.1),
        ("glm-5.1", 4.4),
        ("qwen/qwen3-coder", 1),
    ],
)
def test_models_of_near_names_keep_their_own_prices(model: str, dollars: float) -> None:
    assert cost(model, output_tokens=MILLION) == pytest.approx(dollars)


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-4-9",
        "claude-opus-5-1",
        "claude-opus-5-5-5",
        "claude-opus-50",
        "claude-opus-5-preview",
        "claude-opus-4-8-fast",
        "anthropic/claude-opus-4.8:batch",
        "my-claude-opus-5",
        "claude-opus",
        "opus",
        "qwen3-coder",
        "z-ai/glm-5",
        "",
    ],
)
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert cost(model, output_tokens=1000) is None
    assert unpriced_models(model, usage()) == ({model} if model else set())


def test_a_message_without_a_model_has_no_price() -> None:
    assert cost_of(None, usage(output_tokens=1000)) is None
    assert unpriced_models(None, usage()) == set()


def test_what_the_client_wrote_itself_is_free() -> None:
    assert cost("<synthetic>", output_tokens=1000) == 0
    assert unpriced_models("<synthetic>", usage()) == set()


def test_the_table_names_models_as_they_are_looked_up() -> None:
    models = _price_table().models
    assert list(models) == sorted(models)
    assert all(unpriced_models(name, usage()) == set() for name in models)
    assert all(rows[0].since is None and rows[0].above == 0 for rows in models.values())


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0.17", True),
        ("2.0.5", True),
        ("2.1.9", True),
        ("2.1.56", True),
        ("2.1.57", False),
        ("2.1.101", False),
        ("2.10.0", False),
        ("unknown", False),
        ("", False),
        (None, False),
    ],
)
def test_clients_that_stored_the_output_count_of_the_start(
    version: str | None, expected: bool
) -> None:
    assert understates_output(version) is expected
