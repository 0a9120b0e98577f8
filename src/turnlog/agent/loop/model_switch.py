"""Switch the model of a conversation; hooks may prevent it, or add context for the new model.

Field names follow the client's hook payloads (2.1.325, documented).
"""

import os
import time
from typing import Literal

from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.spending import context_tokens
from turnlog.agent.model.model_names import ModelChoice, for_mode, version_of
from turnlog.agent.tools.task_tracking import offers_tracking
from turnlog.agent.workspace.access import ApprovalMode
from turnlog.conversation.cost import cost_of
from turnlog.conversation.models import LONG_MARK
from turnlog.format.blocks import Usage
from turnlog.format.json_values import Fields
from turnlog.format.timestamps import parse_timestamp

Source = Literal["command", "picker", "sdk", "auto", "resume"]
CACHED = 300.0
"""Seconds that the API keeps a prompt in its cache."""
LIFETIME = "5m"


class SwitchRefused(Exception):
    """A hook prevents a switch; the message says why."""


async def ask_to_switch(
    parts: Parts, choice: ModelChoice, requested: str | None, source: Source
) -> HookOutcome:
    """Run PreModelSwitch hooks; raise `SwitchRefused` if one of them prevents the switch.

    The outcome's decision is "ask" if the user has to confirm the switch.
    """
    if choice.model == parts.choice.model:
        return HookOutcome()
    fields = switch_fields(parts, choice, requested, source)
    outcome = await parts.hooks.fire("PreModelSwitch", _plain(choice), fields)
    if outcome.block or outcome.stop or outcome.decision == "deny":
        raise SwitchRefused(outcome.reason or outcome.stop_reason or "a hook does not allow it")
    return outcome


def switch(parts: Parts, choice: ModelChoice, requested: str | None, source: Source) -> None:
    """Switch the model, and run PostModelSwitch hooks in the background."""
    fields = switch_fields(parts, choice, requested, source)
    is_other = choice.model != parts.choice.model
    parts.choice = choice
    fit_tracking(parts)
    if is_other:
        parts.hooks.announce("PostModelSwitch", _plain(choice), fields)


def follow_mode(parts: Parts) -> None:
    """Select the model for the current permission mode, if plan mode has its own model."""
    choice = for_mode(parts.choice, parts.rules.mode is ApprovalMode.PLAN, os.environ)
    if choice is not parts.choice:
        parts.choice = choice
        fit_tracking(parts)


def fit_tracking(parts: Parts) -> None:
    """Offer the tools of the task list only to models that need them, as the client does."""
    is_offered = offers_tracking(version_of(parts.choice.model))
    for name, tool in parts.tracking.items():
        if is_offered:
            parts.tools[name] = tool
        else:
            parts.tools.pop(name, None)


def announce_restored(parts: Parts, usual: ModelChoice) -> None:
    """Run PostModelSwitch hooks if resuming a session restored another model than the usual one."""
    if usual.model != parts.choice.model:
        # Set the usual model for a moment, so that the payload shows a switch from it.
        now, parts.choice = parts.choice, usual
        switch(parts, now, now.model, "resume")


def switch_fields(
    parts: Parts, choice: ModelChoice, requested: str | None, source: Source
) -> Fields:
    """Return the payload about a switch: both models, and the cost of caching the context."""
    tokens = context_tokens(parts.recorder.chain)
    price = cost_of(_plain(choice), Usage(cache_creation_input_tokens=tokens))
    return {
        "from_model": parts.choice.model,
        "to_model": choice.model,
        "requested_model": requested,
        "source": source,
        "context_tokens": tokens,
        "prompt_cache_warm": _is_warm(parts),
        "cache_ttl": LIFETIME,
        "estimated_cache_write_usd": round(price or 0.0, 4),
        "pricing": "default" if price is None else "catalog",
    }


def _plain(choice: ModelChoice) -> str:
    return choice.model.removesuffix(LONG_MARK)


def _is_warm(parts: Parts) -> bool:
    """Return whether the last answer is recent enough for its prompt to be cached."""
    answers = (each for each in reversed(parts.recorder.chain) if each.get("type") == "assistant")
    at = parse_timestamp(next((each.get("timestamp") for each in answers), None))
    return at is not None and time.time() - at.timestamp() < CACHED
