"""The slash command for output styles."""

from msgspec.structs import replace

from turnlog.agent.config.output_styles import DEFAULT, with_style
from turnlog.agent.permissions.saving import change_settings, with_value
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.errors import UsageError

KEY = "outputStyle"


async def choose_style(driver: ChatDriver, arguments: str) -> None:
    """Show or change the output style, and save it in the user's settings."""
    chat = driver.chat
    now = chat.preferences.output_style or DEFAULT
    name = arguments or await _pick(driver, now)
    if not name:
        return
    if name not in chat.styles:
        raise UsageError(f"there is no output style {name!r}", f"/output-style {DEFAULT}")
    if driver.options.system_prompt is None:
        chat.parts.system = with_style(chat.plain_system, chat.styles[name])
    chat.preferences = replace(chat.preferences, output_style=name)
    change_settings(driver.store.settings, lambda text: with_value(text, KEY, name))
    driver.refresh_status()
    driver.display.note(f"the output style is {name}")


async def _pick(driver: ChatDriver, now: str) -> str | None:
    styles = driver.chat.styles.values()
    items = [Item(style.name, style.name, style.description) for style in styles]
    menu = Choices(["Which output style?", f"now {now}"], items, "enter to choose · esc to keep it")
    return await driver.screen.choose(menu)
