"""Scripts for a model: a prompt names one, and each answer is its next step.

The newest prompt that holds a script's name chooses it, the answers behind that prompt the step.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import count

from support.scripted_api import Fields, Reply, answered

Script = list[list[Fields]]
"""For each answer its blocks; the last one is given again and again."""


def text(said: str) -> Fields:
    return {"type": "text", "text": said}


def use(name: str, **given: object) -> Fields:
    """A call of a tool; of several names (`A|B`) that which the client has."""
    return {"type": "tool_use", "name": name, "input": given}


def play(scripts: Mapping[str, Script]) -> Callable[[Fields], Reply | None]:
    """By what a scripted API chooses its replies; None for what no script is for."""
    numbers = count(1)

    def choose(body: Fields) -> Reply | None:
        tools = {tool["name"] for tool in body.get("tools", [])}
        blocks = [
            _called(block, tools, f"toolu_{next(numbers):05}")
            for block in _next_step(scripts, body["messages"])
        ]
        has_calls = any(block["type"] == "tool_use" for block in blocks)
        stop_reason = "tool_use" if has_calls else "end_turn"
        return answered(*blocks, stop_reason=stop_reason) if blocks else None

    return choose


def _next_step(scripts: Mapping[str, Script], messages: list[Fields]) -> list[Fields]:
    step = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            step += 1
            continue
        asked = " ".join(_texts(message["content"]))
        if script := next((script for name, script in scripts.items() if name in asked), None):
            return script[min(step, len(script) - 1)]
    return []


def _called(block: Fields, tools: set[str], name: str) -> Fields:
    if block["type"] != "tool_use":
        return block
    tool = next((each for each in block["name"].split("|") if each in tools), block["name"])
    return block | {"name": tool, "id": name}


def _texts(content: str | list[Fields]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block["text"] for block in content if block["type"] == "text")
