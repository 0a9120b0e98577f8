"""The commands that the client carries out itself: their names, and what they say of themselves."""

from msgspec import Struct


class BuiltIn(Struct, frozen=True):
    """A command of the client's own."""

    name: str
    usage: str
    """What it takes."""
    help: str
    aliases: tuple[str, ...] = ()


BUILT_IN = (
    BuiltIn("help", "", "Show all commands"),
    BuiltIn("clear", "", "Start a new conversation; this one stays", ("reset", "new")),
    BuiltIn("compact", "[focus]", "Put a summary in the place of the conversation so far"),
    BuiltIn("context", "", "Show what fills the context"),
    BuiltIn("cost", "", "Show what the session took", ("usage",)),
    BuiltIn("export", "[file]", "Write the conversation to a file"),
    BuiltIn("model", "[name]", "Show or change the model"),
    BuiltIn("rename", "[name]", "Give the session a name"),
    BuiltIn("resume", "[session]", "Go on with another session", ("continue",)),
    BuiltIn(
        "rewind", "", "Go back to before a prompt: talk, files or both", ("checkpoint", "undo")
    ),
    BuiltIn("permissions", "", "Show what may be done without asking", ("allowed-tools",)),
    BuiltIn("add-dir", "<folder>", "Work in a further directory too"),
    BuiltIn("memory", "", "Show the memory files that are loaded"),
    BuiltIn("agents", "", "Show the agents that can be started"),
    BuiltIn("skills", "", "Show the skills that there are"),
    BuiltIn("hooks", "", "Show the hooks that are set"),
    BuiltIn("mcp", "", "Show the MCP servers and their tools"),
    BuiltIn("tasks", "", "Show what runs in the background", ("bashes",)),
    BuiltIn("exit", "", "Leave", ("quit",)),
)

BY_NAME = {name: each for each in BUILT_IN for name in (each.name, *each.aliases)}
