"""Customizations that a chat may leave out: hooks, memory, commands, servers and others.

Managed settings always apply: an organisation's restrictions cannot be left out.
"""

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.config.settings import Settings


class Customizations(Struct, frozen=True):
    """The customizations that a chat uses."""

    has_hooks: bool = True
    has_memory: bool = True
    """CLAUDE.md files and rules."""
    has_commands: bool = True
    """Custom commands and skills."""
    has_agents: bool = True
    has_servers: bool = True
    """MCP servers of configuration files; those of the command line are always used."""
    has_styles: bool = True
    """Output style and status line."""
    has_preferences: bool = True
    """Language and attribution."""
    has_key_command: bool = True
    """The `apiKeyHelper` of settings files."""


# Each preset leaves out the same as the client's (2.1.325, observed).
ALL = Customizations()
SAFE = Customizations(
    has_hooks=False,
    has_memory=False,
    has_commands=False,
    has_agents=False,
    has_servers=False,
    has_styles=False,
)
"""--safe-mode."""
BARE = replace(SAFE, has_preferences=False, has_key_command=False)
"""--bare."""
BARE_TOOLS = ("Bash", "Edit", "Read")
"""Built-in tools of a bare chat, unless the user names others."""
STYLES = ("output_style", "status_line")
PREFERENCES = ("language", "attribution", "include_co_authored_by")


def leave_out(settings: Settings, wanted: Customizations) -> Settings:
    """Return settings without the unwanted customizations."""
    if wanted == ALL:
        return settings
    sources = tuple(
        each if each.is_managed else replace(each, content=replace(each.content, **dropped))
        for each in settings.sources
        for dropped in [_dropped(wanted, each.is_given)]
    )
    return replace(settings, sources=sources)


def _dropped(wanted: Customizations, is_given: bool) -> dict[str, None]:
    names: list[str] = []
    names += [] if wanted.has_hooks else ["hooks"]
    names += [] if wanted.has_styles else STYLES
    names += [] if wanted.has_preferences else PREFERENCES
    # Settings given on the command line keep their key command, as in the client.
    names += [] if wanted.has_key_command or is_given else ["api_key_helper"]
    return dict.fromkeys(names)
