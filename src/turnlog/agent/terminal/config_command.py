"""The slash command for settings: show those in force with their files, and change the user's own.

Changes go into the user's settings file only. Settings of the project and of the organisation take
precedence; if one of their files overrides a change, a note names it.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from turnlog.agent.config.preferences import EDITOR_MODES, EFFORTS
from turnlog.agent.config.settings_in_force import (
    MODE,
    SettingInForce,
    later_files,
    settings_in_force,
)
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.saving import save_value
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item, Menu
from turnlog.agent.terminal.model_commands import choose_effort, choose_model
from turnlog.agent.terminal.style_commands import (
    EDITOR_KEY,
    STYLE_KEY,
    THEME_KEY,
    choose_editor_mode,
    choose_style,
    choose_theme,
)
from turnlog.agent.terminal.styled_text import one_line
from turnlog.agent.terminal.themes import THEMES
from turnlog.errors import UsageError

UNSET = "default"
"""Typed in place of a value to remove the setting."""
SWITCH = ("true", "false")
NEXT_TIME = "it takes effect in the next session"
FOOT = "type to search · enter to change it · esc to leave"

Apply = Callable[[ChatDriver, str], Awaitable[None]]


class ChangeableSetting(Struct, frozen=True):
    """A setting that can be changed in a chat."""

    help: str
    values: Sequence[str] = ()
    """Values to choose from; empty if any text will do."""
    is_number: bool = False
    apply: Apply | None = None
    """Saves a value and applies it at once; None if it takes effect in the next session."""

    def read(self, key: str, text: str) -> str | bool | int:
        """Return a typed value; raise if it is not valid for this setting."""
        if self.is_number:
            if not text.isdecimal() or len(text) > 9:
                raise UsageError(f"{key} takes a number", f"/config {key} 30")
            return int(text)
        if self.values and text not in self.values:
            known = "|".join([*self.values, UNSET])
            raise UsageError(f"{text!r} is not a valid value for {key}", f"/config {key} {known}")
        return text == SWITCH[0] if self.values is SWITCH else text


async def change_config(driver: ChatDriver, arguments: str) -> None:
    """Show the settings, or change one: `/config KEY VALUE`."""
    key, _, value = arguments.partition(" ")
    key = key or await _choose_setting(driver) or ""
    if not key:
        return
    if key not in CHANGEABLE:
        _show(driver, key)
        return
    value = value.strip() or await _choose_value(driver, key) or ""
    if value:
        await _change(driver, key, value)


def _show(driver: ChatDriver, key: str) -> None:
    found = settings_in_force(driver.chat.reload()).get(key)
    if found is None:
        raise UsageError(f"no settings file has {key!r}", "/config")
    files = ", ".join(map(str, found.paths))
    driver.display.note(f"{key}: {one_line(found.shown)} ({files}); edit the file to change it")


async def _choose_setting(driver: ChatDriver) -> str | None:
    found = settings_in_force(driver.chat.reload())
    known = [*CHANGEABLE, *(key for key in found if key not in CHANGEABLE)]
    items = [
        Item(_label(key, found.get(key)), key, _source(driver, found.get(key))) for key in known
    ]
    return await driver.screen.choose(Menu(["Settings"], items, FOOT, is_narrowed=True))


def _label(key: str, found: SettingInForce | None) -> str:
    help_text = CHANGEABLE[key].help if key in CHANGEABLE else ""
    value = found.shown if found else f"not set; {help_text}" if help_text else "not set"
    return f"{key}: {value}"


def _source(driver: ChatDriver, found: SettingInForce | None) -> str:
    if found is None:
        return ""
    path = found.paths[-1]
    return "your settings" if path == driver.store.settings else str(path)


async def _choose_value(driver: ChatDriver, key: str) -> str | None:
    """Let the user choose a value; free text is typed after the command instead."""
    setting = CHANGEABLE[key]
    values = list(driver.chat.styles) if key == STYLE_KEY else setting.values
    if not values:
        driver.screen.type_in(f"/config {key} ")
        return None
    items = [*(Item(value, value) for value in values), Item(UNSET, UNSET, "remove the setting")]
    menu = Choices([key, setting.help], items, "enter to choose · esc to cancel")
    return await driver.screen.choose(menu)


async def _change(driver: ChatDriver, key: str, value: str) -> None:
    setting = CHANGEABLE[key]
    path = driver.store.settings
    if value == UNSET:
        save_value(path, key, None)
        driver.display.note(f"{key} is removed from {path}; {NEXT_TIME}")
    elif setting.apply:
        setting.read(key, value)
        await setting.apply(driver, value)
    else:
        save_value(path, key, setting.read(key, value))
        driver.display.note(f"{key} is {one_line(value)} in {path}; {NEXT_TIME}")
    # Otherwise the user would wonder why the change has no effect.
    for other in later_files(settings_in_force(driver.chat.reload()).get(key), path):
        driver.display.note(f"{other} takes precedence", is_error=True)


CHANGEABLE = {
    "model": ChangeableSetting("the model to use", apply=choose_model),
    "effortLevel": ChangeableSetting(
        "how much effort the model makes",
        tuple(each for each in EFFORTS if each != "max"),
        apply=choose_effort,
    ),
    STYLE_KEY: ChangeableSetting("how the model writes", apply=choose_style),
    THEME_KEY: ChangeableSetting("colours of the screen", tuple(THEMES), apply=choose_theme),
    EDITOR_KEY: ChangeableSetting("keys of the prompt", EDITOR_MODES, apply=choose_editor_mode),
    MODE: ChangeableSetting(
        "the permission mode at the start",
        # Not bypassPermissions: no key pressed in a menu should turn off all questions for good.
        tuple(each.value for each in ApprovalMode if each is not ApprovalMode.BYPASS),
    ),
    "language": ChangeableSetting("the language of answers"),
    "alwaysThinkingEnabled": ChangeableSetting("think before answering", SWITCH),
    "showThinkingSummaries": ChangeableSetting("summaries of thinking with -p", SWITCH),
    "autoCompactEnabled": ChangeableSetting("compact a full conversation automatically", SWITCH),
    "autoMemoryEnabled": ChangeableSetting("sub-agents may keep notes", SWITCH),
    "includeCoAuthoredBy": ChangeableSetting("name the model in commits", SWITCH),
    "fallbackModel": ChangeableSetting("the model if the usual one is overloaded"),
    "cleanupPeriodDays": ChangeableSetting("days Claude Code keeps sessions", is_number=True),
}
"""Settings that can be changed here; all others only in their files."""
