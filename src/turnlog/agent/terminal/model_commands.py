"""Slash commands about the model: which one answers, and with how much effort."""

import os

from msgspec.structs import replace

from turnlog.agent.config.preferences import EFFORTS
from turnlog.agent.model.model_names import NEWEST, choose, model_named, usual_effort
from turnlog.agent.permissions.saving import change_settings, with_value
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.errors import UsageError

AUTO = "auto"
PASSING = "max"
"""The effort that holds for one session only, as in the client."""
HINT = f"/effort {'|'.join(EFFORTS)}|{AUTO}"


async def choose_model(driver: ChatDriver, arguments: str) -> None:
    """Show or change the model."""
    parts = driver.chat.parts
    named = arguments
    if not named:
        known = {name: model_named(name, os.environ) for name in NEWEST}
        items = [Item(name, name, model) for name, model in known.items()]
        menu = Choices(
            ["Which model?", f"now {parts.choice.model}"],
            items,
            "enter to choose · esc to keep it · or type /model ID",
        )
        named = await driver.screen.choose(menu)
    if named:
        parts.choice = choose(named, os.environ, parts.choice.tuning)
        driver.display.note(f"the model is {parts.choice.model}")


async def choose_effort(driver: ChatDriver, arguments: str) -> None:
    """Show or change the effort that the model makes; all but `max` count in later sessions."""
    choice = driver.chat.parts.choice
    usual = usual_effort(choice.model)
    if usual is None:
        raise UsageError(f"{choice.model} takes no effort", "/model opus")
    level = arguments or await _pick_effort(driver, usual, choice.effort or usual)
    if not level:
        return
    if level not in (*EFFORTS, AUTO):
        raise UsageError(f"{level!r} is not an effort", HINT)
    wanted = None if level == AUTO else level
    driver.chat.parts.choice = replace(choice, tuning=replace(choice.tuning, effort=wanted))
    if level != PASSING:
        change_settings(driver.store.settings, lambda text: with_value(text, "effortLevel", wanted))
    driver.display.note(f"the effort is {wanted or usual}")
    driver.screen.redraw()


async def _pick_effort(driver: ChatDriver, usual: str, now: str) -> str | None:
    items = [Item(level, level, "usual" if level == usual else "") for level in EFFORTS]
    head = ["How much effort should the model make?", f"now {now}"]
    menu = Choices(head, items, "enter to choose · esc to keep it")
    menu.index = EFFORTS.index(now) if now in EFFORTS else 0
    return await driver.screen.choose(menu)
