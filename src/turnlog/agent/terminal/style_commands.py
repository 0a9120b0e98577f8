"""Slash commands for how answers are written, how the screen looks and its keys."""

import os
from collections.abc import Sequence

from msgspec.structs import replace

from turnlog.agent.config.output_styles import DEFAULT, with_style
from turnlog.agent.config.preferences import USUAL_KEYS, VI_KEYS
from turnlog.agent.permissions.saving import change_settings, save_value, with_value
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.agent.terminal.themes import DARK, THEMES, theme_named
from turnlog.errors import UsageError

STYLE_KEY = "outputStyle"
THEME_KEY = "theme"
EDITOR_KEY = "editorMode"


async def choose_style(driver: ChatDriver, arguments: str) -> None:
    """Show or change the output style, and save it in the user's settings."""
    chat = driver.chat
    now = chat.preferences.output_style or DEFAULT
    items = [Item(style.name, style.name, style.description) for style in chat.styles.values()]
    name = arguments or await _pick(driver, "Which output style?", items, now)
    if not name:
        return
    if name not in chat.styles:
        raise UsageError(f"there is no output style {name!r}", f"/output-style {DEFAULT}")
    if driver.options.system_prompt is None:
        chat.parts.system = with_style(chat.plain_system, chat.styles[name])
    chat.preferences = replace(chat.preferences, output_style=name)
    change_settings(driver.store.settings, lambda text: with_value(text, STYLE_KEY, name))
    driver.refresh_status()
    driver.display.note(f"the output style is {name}")


async def choose_theme(driver: ChatDriver, arguments: str) -> None:
    """Show or change the theme, and save it in the user's settings, as the client does."""
    now = driver.chat.preferences.theme or DARK
    items = [Item(name, name) for name in THEMES]
    name = arguments or await _pick(driver, "Which theme?", items, now)
    if not name:
        return
    if name not in THEMES:
        raise UsageError(f"there is no theme {name!r}", f"/theme {'|'.join(THEMES)}")
    save_value(driver.store.settings, THEME_KEY, name)
    driver.chat.preferences = replace(driver.chat.preferences, theme=name)
    driver.screen.style.use(theme_named(name, os.environ))
    driver.screen.redraw()
    driver.display.note(f"the theme is {name}")


async def choose_editor_mode(driver: ChatDriver, name: str) -> None:
    """Change the key bindings of the prompt, and save them in the user's settings."""
    driver.chat.preferences = replace(driver.chat.preferences, editor_mode=name)
    is_on = driver.chat.preferences.uses_vi
    driver.screen.use_vi(is_on)
    driver.display.note(f"vi keys are {'on' if is_on else 'off'}")
    save_value(driver.store.settings, EDITOR_KEY, name)


async def switch_vi(driver: ChatDriver, arguments: str) -> None:
    """Switch the prompt between the usual key bindings and vi's."""
    is_on = driver.chat.preferences.uses_vi
    await choose_editor_mode(driver, USUAL_KEYS if is_on else VI_KEYS)


async def _pick(driver: ChatDriver, head: str, items: Sequence[Item], now: str) -> str | None:
    """Let the user choose; the menu starts at the current choice."""
    menu = Choices([head, f"now {now}"], items, "enter to choose · esc to keep it")
    names = [item.value for item in items]
    menu.index = names.index(now) if now in names else 0
    return await driver.screen.choose(menu)
