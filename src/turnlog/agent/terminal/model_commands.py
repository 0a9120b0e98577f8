"""Slash commands about the model: which one answers, and with how much effort."""

import os

from msgspec.structs import replace

from turnlog.agent.config.preferences import EFFORTS
from turnlog.agent.loop.model_switch import Source, SwitchRefused, ask_to_switch, switch
from turnlog.agent.model.model_names import NEWEST, choose, model_named, usual_effort
from turnlog.agent.permissions.saving import change_settings, save_value, with_value
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.errors import UsageError
from turnlog.text import visible

AUTO = "auto"
UNSET = "default"
"""Stands for the default model; choosing it removes the setting."""
PASSING = "max"
"""The effort that applies to one session only, as in the client."""
HINT = f"/effort {'|'.join(EFFORTS)}|{AUTO}"


async def choose_model(driver: ChatDriver, arguments: str) -> None:
    """Show or change the model, and save it for new sessions, as the client does."""
    parts = driver.chat.parts
    named = arguments
    source: Source = "command" if arguments else "picker"
    if not named:
        known = {name: model_named(name, os.environ) for name in NEWEST}
        items = [Item(name, name, model) for name, model in known.items()]
        menu = Choices(
            ["Which model, here and in new sessions?", f"now {parts.choice.model}"],
            [*items, Item(UNSET, UNSET, "remove the setting")],
            "enter to choose · esc to keep it · or type /model ID",
        )
        models = list(known.values())
        menu.index = models.index(parts.choice.model) if parts.choice.model in models else 0
        named = await driver.screen.choose(menu)
    if not named:
        return
    wanted = None if named == UNSET else named
    choice = choose(wanted, os.environ, parts.choice.tuning)
    try:
        outcome = await ask_to_switch(parts, choice, named, source)
    except SwitchRefused as error:
        driver.display.note(f"the model stays {parts.choice.model}: {error}", is_error=True)
        return
    if outcome.decision == "ask" and not await _confirms(driver, choice.model, outcome.reason):
        driver.display.note(f"the model stays {parts.choice.model}")
        return
    switch(parts, choice, named, source)
    driver.display.note(f"the model is {parts.choice.model}, here and in new sessions")
    save_value(driver.store.settings, "model", wanted)


async def _confirms(driver: ChatDriver, model: str, reason: str) -> bool:
    """Ask the user to confirm a switch, as a hook requested."""
    items = [Item("Yes", value=True), Item("No", value=False)]
    head = [f"Switch to {model}?", *([visible(reason)] if reason else [])]
    menu = Choices(head, items, "enter to choose · esc to keep the model")
    return bool(await driver.screen.choose(menu))


async def choose_effort(driver: ChatDriver, arguments: str) -> None:
    """Show or change the effort of the model; all levels but `max` are saved for later sessions."""
    choice = driver.chat.parts.choice
    usual = usual_effort(choice.model)
    if usual is None:
        raise UsageError(f"{choice.model} has no effort levels", "/model opus")
    level = arguments or await _pick_effort(driver, usual, choice.effort or usual)
    if not level:
        return
    if level not in (*EFFORTS, AUTO):
        raise UsageError(f"{level!r} is not an effort level", HINT)
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
