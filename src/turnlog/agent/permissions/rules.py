"""Parse permission rules and match calls against them; `verdict` decides which rule wins."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from turnlog.agent.permissions.wildcards import fits, pattern_of
from turnlog.errors import UsageError
from turnlog.format.tools import RENAMED

WRITTEN = re.compile(r"(?P<tool>(?:[A-Z*]|mcp__)[^\s()]*)(?:\((?P<about>.*\S.*)\))?", re.S)
EDITING = ("Write", "MultiEdit", "NotebookEdit")
"""Tools whose paths `Edit(…)` rules cover: `Write(path)` is read as `Edit(path)`."""
SEARCHING = ("Grep", "Glob", "LS")
"""Tools whose paths `Read(…)` rules cover."""
FILES = ("Read", "Edit")
COMMANDS = "Bash"
TOOLS = "mcp__"
"""Prefix of MCP tool names and of rules about them."""
DOMAIN = "domain:"
HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A host name or address. Nothing else is accepted: `*` would be a pattern in a rule."""
NOT_DENIED = ", so it does NOT deny any call"
"""Ends the message about a deny rule that is skipped."""


class Rule(Struct, frozen=True):
    """A permission rule for a tool, or for some uses of it."""

    tool: str
    about: str | None
    """The text in parentheses, such as `git diff:*`; None covers all uses of the tool."""
    base: Path
    """The directory that a leading slash in a path pattern refers to."""
    text: str
    source: str
    """The file or other source that defines it."""
    patterns: tuple[str, ...] = ()
    """Patterns of commands."""

    @property
    def is_exact(self) -> bool:
        """True if it has no wildcard, and so names one command."""
        return self.about is not None and "*" not in self.about


def parse_rule(text: str, base: Path, source: str) -> Rule:
    """Parse a rule that is written as `Tool` or `Tool(pattern)`.

    >>> rule = parse_rule("Bash(git diff:*)", Path("/work"), "settings.json")
    >>> rule.tool, rule.about
    ('Bash', 'git diff:*')
    """
    found = WRITTEN.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{source}: {text!r} is not a permission rule", "Bash(npm test)")
    about = (found["about"] or "*").strip()
    tool = _spelt(RENAMED.get(found["tool"], found["tool"]))
    wide = about == "*" or (tool == COMMANDS and about == ":*")
    if tool in SEARCHING and not wide:
        # Accepted silently, `deny Grep(.env)` would look like protection but have no effect.
        raise UsageError(f"{source}: {text!r} has no effect", f"Read({about})")
    tool = "Edit" if tool in EDITING and not wide else tool
    if tool in FILES and not wide and (why := _why_senseless(about)):
        # If this error came up later, in a decision, one bad rule would block every read.
        raise UsageError(f"{source}: {text!r} {why}", f"{tool}(src/**)")
    patterns = pattern_of(about) if tool == COMMANDS and not wide else ()
    return Rule(tool, None if wide else about, base, text.strip(), source, patterns)


def _why_senseless(pattern: str) -> str:
    """Return what is wrong with a path pattern; empty if it can match."""
    if not any(mark in pattern for mark in "[\\!"):
        return ""
    from pathspec import GitIgnoreSpec

    if pattern.startswith("!"):
        return "has no effect: a pattern with ! only excludes files from another pattern"
    try:
        found = GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error) as error:  # `x\\`, `[z-a]`
        return f"is not a valid pattern: {error}"
    is_sound = any(getattr(each, "regex", None) for each in found.patterns)
    return "" if is_sound else "has no effect: its brackets are not closed"


def _spelt(tool: str) -> str:
    """Return a tool's name with its server spelled as in tool names: `my.db` is `mcp__my_db__…`."""
    return re.sub(r"[^a-zA-Z0-9_*-]", "_", tool) if tool.startswith(TOOLS) else tool


def sound_rules(texts: Iterable[str], base: Path, source: str) -> Iterator[Rule]:
    """Yield the rules that can be parsed."""
    for text in texts:
        with suppress(UsageError):
            yield parse_rule(text, base, source)


def skipped_rules(texts: Iterable[str], base: Path, source: str, effect: str = "") -> Iterator[str]:
    """Yield a message for each invalid rule: what is wrong, and its effect."""
    for text in texts:
        try:
            parse_rule(text, base, source)
        except UsageError as error:
            yield f"{error.message}; it is skipped{effect}"


def names_tool(rule: Rule, tool: str, *, server: str | None = None, allows: bool = False) -> bool:
    """Return whether a rule is for a tool; `server` is its MCP server, as tool names spell it."""
    tool = RENAMED.get(tool, tool)
    owner = f"{TOOLS}{server}" if server else server_in(tool)
    if "*" not in rule.tool:
        # If the server is ambiguous, deny and ask rules for every possible server match.
        is_wide = not allows and owner is None and rule.tool.startswith(TOOLS)
        return rule.tool in (tool, owner) or (is_wide and tool.startswith(f"{rule.tool}__"))
    if not allows:
        return fnmatchcase(tool, rule.tool)
    # `mcp__git__*` must not allow the tools of a server named git__evil.
    return rule.tool.startswith(f"{owner}__") and fnmatchcase(tool, rule.tool)


def server_in(tool: str) -> str | None:
    """Return the server in a tool's name as rules spell it; None if absent or ambiguous.

    >>> server_in("mcp__git__log"), server_in("mcp__git__evil__log"), server_in("Bash")
    ('mcp__git', None, None)
    """
    parts = tool.split("__")
    return "__".join(parts[:2]) if len(parts) == 3 and parts[0] == "mcp" else None


def fits_command(rule: Rule, text: str) -> bool:
    """Return whether a rule covers a simple command."""
    return rule.tool == COMMANDS and (
        rule.about is None or any(fits(pattern, text) for pattern in rule.patterns)
    )


def matches_use(rule: Rule, what: str | None) -> bool:
    """Return whether a rule covers the agent or skill named `what`."""
    if rule.about is None:
        return True
    return what is not None and any(fits(each, what) for each in pattern_of(rule.about))


def matches_address(rule: Rule, url: str) -> bool:
    """Return whether a rule covers the host of a URL."""
    if rule.about is None:
        return True
    host = host_of(url)
    if not host or not rule.about.startswith(DOMAIN):
        return False
    return _is_host(host, rule.about.removeprefix(DOMAIN).strip().rstrip(".").lower())


def host_of(url: str) -> str | None:
    """Return the host of a URL; None if parsers may disagree about it."""
    if re.search(r"[\\\s\x00-\x20\x7f]", url):
        return None
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    name = (host or "").rstrip(".").lower()
    return name if HOST.fullmatch(name) else None


def _is_host(host: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    parts, wanted = host.split("."), pattern.removeprefix("*.").split(".")
    fitting = len(parts) > len(wanted) if pattern.startswith("*.") else len(parts) == len(wanted)
    return fitting and all(map(fnmatchcase, parts[-len(wanted) :], wanted))
