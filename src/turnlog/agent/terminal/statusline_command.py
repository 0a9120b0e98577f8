"""The slash command for the user's status line: show, set up or remove its command."""

from msgspec.structs import replace

from turnlog.agent.config.preferences import COMMAND
from turnlog.agent.permissions.saving import save_value
from turnlog.agent.terminal.call_preview import spelled_lines
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.agent.terminal.screen_protocol import ScrollbackItem
from turnlog.store.paths import short_path

KEY = "statusLine"
REMOVING = ("remove", "off", "none")
HINT = "/statusline COMMAND"
NO, YES = "No", "Yes, run it from now on"


async def set_status_line(driver: ChatDriver, arguments: str) -> None:
    """Show the command of the status line, replace it or remove it."""
    if arguments in REMOVING:
        was_there = _save(driver, None)
        place = short_path(driver.store.settings)
        driver.display.note(f"removed from {place}" if was_there else f"{place} has none")
    elif arguments:
        await _set_up(driver, arguments)
    else:
        _show(driver)


def _show(driver: ChatDriver) -> None:
    command = driver.chat.preferences.status_command
    if command is None:
        driver.display.note(f"the status line has no command (try: {HINT})")
        return
    whose = "the project's settings" if command.is_project else "your settings"
    shown = "\n".join(spelled_lines(command.text))
    driver.display.note(f"the command of the status line, from {whose}: {shown}")


async def _set_up(driver: ChatDriver, text: str) -> None:
    """Save a command once the user has confirmed it: it runs after every change on the screen."""
    shown = ScrollbackItem([f"  {line}" for line in spelled_lines(text)])
    head = ["Let this command write the status line?", "it runs after each turn, unasked"]
    menu = Choices(head, [Item(NO, NO), Item(YES, YES)], "enter to choose · esc to cancel")
    if await driver.screen.ask(menu, [shown]) != YES:
        driver.display.note("the status line stays as it is")
        return
    _save(driver, text)
    place = short_path(driver.store.settings)
    driver.display.note(f"saved in {place}; remove it with /statusline remove")


def _save(driver: ChatDriver, text: str | None) -> bool:
    """Save or remove the command and run the one now in effect; return True if it was changed."""
    line = {"type": COMMAND, "command": text} if text else None
    has_changed = save_value(driver.store.settings, KEY, line)
    counts = driver.chat.reload().preferences.status_command
    driver.chat.preferences = replace(driver.chat.preferences, status_command=counts)
    driver.restart_status()
    if text and (counts is None or counts.text != text):
        driver.display.note("another settings file overrides the status line (try: /config)")
    return has_changed
