"""The slash command that lists plugins with everything they contribute."""

from collections.abc import Iterable, Iterator, Mapping

from turnlog.agent.chat.opening import Chat
from turnlog.agent.config.plugins import Plugin
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.listings import show_rows
from turnlog.errors import UsageError
from turnlog.text import plural

NONE = "no plugins are loaded (try: turnlog chat --plugin-dir DIR)"


async def show_plugins(driver: ChatDriver, arguments: str) -> None:
    """List the loaded plugins; with a name, everything that one contributes."""
    plugins = {each.name: each for each in driver.chat.plugins}
    if not plugins:
        driver.display.note(NONE)
    elif not arguments:
        show_rows(driver, [(name, _summary(each, driver.chat)) for name, each in plugins.items()])
    elif arguments in plugins:
        named = contributions(plugins[arguments], driver.chat)
        rows = [(kind, ", ".join(names) or "none") for kind, names in named.items()]
        show_rows(driver, [("directory", str(plugins[arguments].root)), *rows])
    else:
        raise UsageError(f"no plugin {arguments!r} is loaded", "/plugin")


def contributions(plugin: Plugin, chat: Chat) -> Mapping[str, list[str]]:
    """Return the names of everything that a plugin contributes, by kind."""
    start = f"{plugin.name}:"
    own = {
        command.name: command
        for command in chat.prompts.commands.values()
        if command.origin.startswith(f"plugin:{plugin.name}") and command.name.startswith(start)
    }
    return {
        "commands": [name for name, each in own.items() if not each.is_skill],
        "skills": [name for name, each in own.items() if each.is_skill],
        "agents": list(_starting(start, chat.agents)),
        "hooks": list(plugin.hooks),
        "MCP servers": list(plugin.servers),
        "output styles": list(_starting(start, chat.styles)),
    }


def _starting(start: str, names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith(start))


def _summary(plugin: Plugin, chat: Chat) -> str:
    counts = {kind: len(names) for kind, names in contributions(plugin, chat).items()}
    listed = [plural(count, kind.removesuffix("s")) for kind, count in counts.items() if count]
    return f"{', '.join(listed) or 'nothing'} · {plugin.root}"
