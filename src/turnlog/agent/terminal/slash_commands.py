"""Built-in slash commands, in one table."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from msgspec import Struct

from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.session.recorder import name_session
from turnlog.agent.terminal import listings
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.completer import KnownCommand
from turnlog.agent.terminal.config_command import change_config
from turnlog.agent.terminal.diff_command import show_diff
from turnlog.agent.terminal.doctor_command import examine
from turnlog.agent.terminal.memory_commands import edit_memory
from turnlog.agent.terminal.model_commands import choose_effort, choose_model
from turnlog.agent.terminal.plugin_listing import show_plugins
from turnlog.agent.terminal.rewind_menu import rewind
from turnlog.agent.terminal.session_commands import (
    ask_on_the_side,
    branch,
    init,
    plan,
    review,
    review_security,
    show_status,
)
from turnlog.agent.terminal.statusline_command import set_status_line
from turnlog.agent.terminal.style_commands import choose_style, choose_theme, switch_vi
from turnlog.conversation.session import open_session
from turnlog.edit.outputs import write_export
from turnlog.errors import UsageError
from turnlog.render.markdown import to_markdown
from turnlog.render.rows import ViewOptions, rows_of
from turnlog.store.paths import expand_user
from turnlog.store.session_lookup import find_session

Run = Callable[[ChatDriver, str], Awaitable[None]]


class Own(Struct, frozen=True):
    """A built-in command."""

    name: str
    usage: str
    """Its arguments."""
    help: str
    run: Run
    aliases: tuple[str, ...] = ()


async def show_help(driver: ChatDriver, arguments: str) -> None:
    """Show all commands and keys."""
    given = driver.chat.prompts.commands
    listings.show_tables(driver, [known_own(given), known_given(given)])


def known(given: Mapping[str, CustomCommand]) -> list[KnownCommand]:
    """Return all commands."""
    return [*known_given(given), *known_own(given)]


def known_given(given: Mapping[str, CustomCommand]) -> list[KnownCommand]:
    """Return each custom command once, with its other names as aliases."""
    names: dict[str, list[str]] = {}
    for name, command in given.items():
        if command.for_user:
            names.setdefault(command.name, []).append(name)
    return [
        KnownCommand(name, given[name].hint, given[name].description, tuple({*typed} - {name}))
        for name, typed in names.items()
    ]


def known_own(given: Mapping[str, CustomCommand]) -> list[KnownCommand]:
    """Return built-in commands; custom ones of the same name win (2.1.325, observed)."""
    taken = {name for name, command in given.items() if command.for_user}
    return [
        KnownCommand(
            each.name,
            each.usage,
            each.help,
            tuple(name for name in each.aliases if name not in taken),
        )
        for each in OWN
        if each.name not in taken
    ]


async def clear(driver: ChatDriver, arguments: str) -> None:
    """Start a new conversation."""
    last = driver.chat.parts.recorder
    await driver.switch("clear")
    previous = f"; the one before stays as {last.facts.session_id[:8]}" if last.chain else ""
    driver.display.note(f"a new conversation{previous}")


async def compact(driver: ChatDriver, arguments: str) -> None:
    """Replace the conversation so far with a summary."""
    # As a prompt, so that it runs in a turn, which shows progress and can be interrupted.
    await driver.send(f"/compact {arguments}".strip(), "typed")


async def resume(driver: ChatDriver, arguments: str) -> None:
    """Resume another session."""
    named = find_session(driver.store, arguments).path if arguments else None
    path = named or await driver.screen.pick_session()
    # Not to this session itself: a switch opens one session before it closes the other, and both
    # would append to one file.
    if path is None or path == driver.chat.parts.recorder.path:
        return
    await driver.switch("resume", resume=path)


async def export(driver: ChatDriver, arguments: str) -> None:
    """Write the conversation to a file, as Markdown."""
    recorder = driver.chat.parts.recorder
    if not recorder.path.exists():
        raise UsageError("there is no conversation to export yet")
    named = arguments or f"{datetime.now():%Y-%m-%d-%H%M%S}-{recorder.facts.slug}.md"
    path = driver.options.cwd / expand_user(named)
    lines = to_markdown(rows_of(open_session(recorder.path), ViewOptions()))
    record = await asyncio.to_thread(write_export, path, "\n".join(lines) + "\n")
    undo = f"; to restore the file from before: turnlog undo {record.id}" if record else ""
    driver.display.note(f"written to {path}{undo}")


async def rename(driver: ChatDriver, arguments: str) -> None:
    """Rename the session, as the client does."""
    if not arguments:
        raise UsageError("no name given", "/rename NAME")
    title = name_session(driver.chat.parts.recorder, arguments)
    driver.display.note(f"the session is called {title}")


async def add_folder(driver: ChatDriver, arguments: str) -> None:
    """Add a working directory."""
    path = driver.chat.parts.workspace.path_of(arguments).resolve()
    if not arguments:
        raise UsageError("no directory given", "/add-dir FOLDER")
    if not path.is_dir():
        raise UsageError(f"{arguments} is not a directory", "/add-dir FOLDER")
    driver.chat.parts.workspace.directories.append(path)
    driver.display.note(f"added the working directory {path}")
    source = "slash_command"
    about = {"directory": str(path), "source": source}
    driver.chat.parts.hooks.announce("DirectoryAdded", source, about)


async def leave(driver: ChatDriver, arguments: str) -> None:
    """Exit the chat."""
    driver.screen.leave()


OWN = (
    Own("help", "", "Show all commands", show_help),
    Own("clear", "", "Start a new conversation; this one stays", clear, ("reset", "new")),
    Own("compact", "[focus]", "Replace the conversation so far with a summary", compact),
    Own("context", "", "Show what fills the context", listings.show_context),
    Own("cost", "", "Show cost and tokens of the session", listings.show_cost, ("usage",)),
    Own("export", "[file]", "Write the conversation to a file", export),
    Own("model", "[name]", "Show or change the model", choose_model),
    Own("effort", "[level]", "Show or change the effort level", choose_effort),
    Own("output-style", "[name]", "Show or change how the model writes", choose_style),
    Own("rename", "<name>", "Give the session a name", rename),
    Own("resume", "[session]", "Resume another session", resume, ("continue",)),
    Own(
        "rewind",
        "",
        "Rewind to before a prompt: chat, files or both",
        rewind,
        ("checkpoint", "undo"),
    ),
    Own(
        "permissions",
        "",
        "Show what is allowed, asked about and denied",
        listings.show_permissions,
        ("allowed-tools",),
    ),
    Own("add-dir", "<folder>", "Add a working directory", add_folder),
    Own("memory", "", "Edit a memory file", edit_memory),
    Own("init", "[wishes]", "Let the model write CLAUDE.md", init),
    Own("plan", "[task]", "Plan first; in plan mode, show the plan", plan),
    Own("branch", "[name]", "Continue in a copy of this session", branch, ("fork",)),
    Own("btw", "<question>", "Ask on the side, outside of the conversation", ask_on_the_side),
    Own("review", "[pull request]", "Let the model review changes", review),
    Own("security-review", "", "Let the model review this branch for security", review_security),
    Own("status", "", "Show session, model, server, key and settings", show_status),
    Own("config", "[setting value]", "Show or change settings", change_config, ("settings",)),
    Own("doctor", "", "Check installation, settings, servers and session", examine),
    Own("diff", "", "Show what is not committed, and what each turn changed", show_diff),
    Own("theme", "[name]", "Show or change the colours", choose_theme),
    Own("statusline", "[command]", "Show, set up or remove the status line", set_status_line),
    Own("plugin", "[name]", "Show the plugins that are loaded", show_plugins, ("plugins",)),
    Own("vim", "", "Switch vi keys on or off in the prompt", switch_vi),
    Own("agents", "", "Show the agents that can be started", listings.show_agents),
    Own("skills", "", "Show available skills", listings.show_skills),
    Own("hooks", "", "Show configured hooks", listings.show_hooks),
    Own("mcp", "", "Show the MCP servers and their tools", listings.show_servers),
    Own("tasks", "", "Show what runs in the background", listings.show_tasks, ("bashes",)),
    Own("exit", "", "Exit the chat", leave, ("quit",)),
)
COMMANDS = {name: each for each in OWN for name in (each.name, *each.aliases)}
