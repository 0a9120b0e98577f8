"""Slash commands that a chat without a terminal answers itself.

The model is not asked, and nothing is recorded. The set of commands, and refusing those that need a
terminal instead of sending them to the model, follow the client (2.1.325, observed).
"""

import re
from collections.abc import Awaitable, Callable
from uuid import uuid4

from msgspec.structs import replace

from turnlog.agent.chat.opening import Chat
from turnlog.agent.config.preferences import EFFORTS
from turnlog.agent.headless.control_channel import ControlError
from turnlog.agent.headless.control_requests import ControlRequests, context_usage
from turnlog.agent.loop.events import TurnEnded
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.loop.spending import Spending
from turnlog.agent.model.model_names import NEWEST
from turnlog.agent.session.entry_builders import synthetic
from turnlog.format.json_values import Fields
from turnlog.text import short_count

COMMAND = re.compile(r"/([\w-]+)(?:\s+(.*))?", re.DOTALL)
REFUSED = frozenset(
    """add-dir agents branch btw clear config diff doctor exit export help hooks login logout mcp
    memory output-style permissions plan plugin quit rename resume rewind status statusline tasks
    theme vim""".split()
)
"""Commands that need a terminal."""
NOT_HERE = "/{name} isn't available in this environment."


async def local_answer(chat: Chat, prompt: Prompt) -> str | None:
    """Return the answer to a local command; None for prompts and custom commands."""
    found = COMMAND.fullmatch(prompt.strip()) if isinstance(prompt, str) else None
    if not found or not isinstance(prompt, str) or chat.prompts.find(prompt):
        return None
    name, arguments = found[1], (found[2] or "").strip()
    if command := LOCAL.get(name):
        return await command(chat, arguments)
    return NOT_HERE.format(name=name) if name in REFUSED else None


def local_messages(text: str) -> tuple[Fields, TurnEnded]:
    """Return an answer as a message, and the end of its turn."""
    message = synthetic(text, f"msg_{uuid4().hex}")["message"]
    answer = {"type": "assistant", "message": message, "parent_tool_use_id": None}
    return answer, Spending().ended("done", text)


async def _context(chat: Chat, arguments: str) -> str:
    usage = context_usage(chat)
    most: int = usage["maxTokens"]
    rows = [
        f"| {each['name']} | {short_count(each['tokens'])} | {100 * each['tokens'] / most:.1f}% |"
        for each in usage["categories"]
    ]
    head = (
        f"## Context Usage\n\n**Model:** {usage['model']}  \n"
        f"**Tokens:** {short_count(usage['totalTokens'])} / {short_count(most)}"
        f" ({usage['percentage']}%)\n\n"
    )
    return head + "\n".join(["| Category | Tokens | Percentage |", "|---|---|---|", *rows])


async def _cost(chat: Chat, arguments: str) -> str:
    recorder = chat.parts.recorder
    totals = recorder.totals.line(recorder.facts.session_id)
    seconds = [round(totals[name] / 1000) for name in ("totalAPIDuration", "totalDuration")]
    changed = (totals["totalLinesAdded"], totals["totalLinesRemoved"])
    rows = [
        f"Total cost:            ${totals['totalCostUSD']:.4f}",
        f"Total duration (API):  {seconds[0]}s",
        f"Total duration (wall): {seconds[1]}s",
        f"Total code changes:    {changed[0]:.0f} lines added, {changed[1]:.0f} lines removed",
    ]
    return "\n".join(rows)


async def _model(chat: Chat, arguments: str) -> str:
    if not arguments:
        known = ", ".join(NEWEST)
        return f"Current model: {chat.parts.choice.model}\nUsage: /model <name>. Available: {known}"
    try:
        await ControlRequests(chat, lambda message: None).set_model({"model": arguments})
    except ControlError as error:
        return str(error)
    return f"Set model to {chat.parts.choice.model} for this session only"


async def _effort(chat: Chat, arguments: str) -> str:
    choice = chat.parts.choice
    if arguments not in EFFORTS:
        return f"Usage: /effort <{'|'.join(EFFORTS)}>"
    chat.parts.choice = replace(choice, tuning=replace(choice.tuning, effort=arguments))
    return f"Set effort level to {arguments} (this session only)"


LOCAL: dict[str, Callable[[Chat, str], Awaitable[str]]] = {
    "context": _context,
    "cost": _cost,
    "effort": _effort,
    "model": _model,
    "usage": _cost,
}
