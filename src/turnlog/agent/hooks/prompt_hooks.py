"""Hooks that ask a model whether something may go ahead: what it is asked, and what it answers."""

import re
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from turnlog.agent.hooks.runs import Failed, Firing, HookReply
from turnlog.format.json_values import Fields, is_object

PLACE = re.compile(r"\\\$|\$ARGUMENTS\b")
STOPS = frozenset({"Stop", "SubagentStop"})
GOES_ON = STOPS | {"PostToolUseFailure"}
"""Events at which the model hears why not, and works on."""
NO_EFFECT = frozenset({"PermissionRequest"})
"""Events at which such a hook decides nothing."""


class Judgement(Struct, frozen=True):
    """What a model says."""

    ok: bool
    reason: str = ""
    impossible: bool = False
    """Whether what a hook waits for can never be."""


class Means(Protocol):
    """What a conversation lends to its hooks: its model, and the tools of its servers.

    Each raises `Failed` where it comes to nothing.
    """

    async def ask(self, question: str, model: str, is_about_conversation: bool) -> str:
        """What a model answers to one question."""
        ...

    async def examine(self, question: str, model: str) -> str:
        """What a model answers that may use tools to find out."""
        ...

    async def call(self, server: str, tool: str, given: Fields) -> str:
        """What a tool of a server says."""
        ...


async def judge(firing: Firing, means: Means) -> HookReply:
    """Let a model decide; what a command would have printed to say the same."""
    question, model = question_of(firing), firing.text("model")
    if firing.kind == "agent":
        said = await means.examine(question, model)
    else:
        said = await means.ask(question, model, firing.event in STOPS)
    judgement = read_judgement(said)
    if judgement is None:
        raise Failed("the model gave no decision", HookReply(said))
    return HookReply(_answer(firing, judgement))


def question_of(firing: Firing) -> str:
    """The prompt of a hook, with what happened in its place, or at its end."""
    prompt, told = firing.text("prompt"), msgspec.json.encode(firing.told).decode()
    places = {"$ARGUMENTS": told, "\\$": "$"}
    question = PLACE.sub(lambda found: places[found[0]], prompt)
    has_place = any(found[0] == "$ARGUMENTS" for found in PLACE.finditer(prompt))
    return question if has_place else f"{question}\n\nARGUMENTS: {told}"


def read_judgement(text: str) -> Judgement | None:
    """What a model decided, if its answer says so; words around the JSON do no harm.

    >>> read_judgement('```json\\n{"ok": false, "reason": "no tests"}\\n```')
    Judgement(ok=False, reason='no tests', impossible=False)
    """
    start, end = text.find("{"), text.rfind("}")
    try:
        value: Any = msgspec.json.decode(text[start : end + 1]) if 0 <= start < end else None
        return msgspec.convert(value, Judgement) if is_object(value) else None
    except msgspec.MsgspecError:
        return None


def _answer(firing: Firing, judgement: Judgement) -> str:
    """What a command would print; nothing where all may go ahead."""
    is_agent = firing.kind == "agent"
    is_hopeless = judgement.impossible and firing.event in STOPS and not is_agent
    if judgement.ok or is_hopeless or firing.event in NO_EFFECT:
        return ""
    # Worded as the client does, for models that know it.
    met = "Agent hook condition was not met: " if is_agent else f"[{firing.text('prompt')}]: "
    answer: Fields = {"decision": "block", "reason": met + judgement.reason}
    if not (is_agent or firing.event in GOES_ON or firing.handler.get("continueOnBlock")):
        answer |= {"continue": False, "stopReason": judgement.reason}
    return msgspec.json.encode(answer).decode()
