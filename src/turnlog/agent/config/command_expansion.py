"""Expand a custom command: fill in arguments and variables, and run its shell commands.

Inserted text is never expanded again: neither an argument nor command output can inject another
command.
"""

import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.config.frontmatter import LONGEST_NUMBER

# A block ends at the next line that starts with a fence, so that an unclosed block does not make
# the search scan the entire text.
INJECTED = re.compile(
    r"(?<!\S)!`([^`\n]+)`|^```![ \t\r]*\n((?:(?!```).*\n)*)```[ \t]*$", re.MULTILINE
)
VARIABLE = r"\$\{(CLAUDE_SESSION_ID|CLAUDE_SKILL_DIR|CLAUDE_PROJECT_DIR)\}"
ARGUMENTS = "ARGUMENTS"

Run = Callable[[str], Awaitable[str]]
"""Runs a shell command and returns its output; raises if it is not allowed or fails."""


class CommandContext(Struct, frozen=True):
    """The context in which a command is expanded."""

    session_id: str
    project: Path
    run: Run


class Expanded(Struct, frozen=True):
    """An expanded command."""

    text: str
    written: tuple[str, ...]
    """The pieces that a person wrote: the command's file and typed arguments, without the output of
    shell commands and without piped text."""


async def expand(
    command: CustomCommand, arguments: str, place: CommandContext, typed: str | None = None
) -> Expanded:
    """Expand a command into a prompt: fill in arguments and run its shell commands.

    `typed` is the part of the arguments that a person typed; all of them if None.
    """
    filler = _Filler(command, arguments, place)
    # Filled again with typed arguments only: paths in piped text must not attach files.
    typist = _Filler(command, arguments if typed is None else typed, place)
    parts: list[str] = []
    written: list[str] = []
    end = 0
    for found in INJECTED.finditer(command.body):
        piece = command.body[end : found.start()]
        written.append(typist.fill(piece))
        parts += [filler.fill(piece), await place.run(filler.fill(found[1] or found[2].strip()))]
        end = found.end()
    last = filler.fill(command.body[end:])
    written.append(typist.fill(command.body[end:]))
    if arguments.strip() and not filler.is_used:
        last += f"\n\nARGUMENTS: {arguments.strip()}"
    return Expanded("".join([*parts, last]), tuple(written))


def rules_of(command: CustomCommand, place: CommandContext) -> tuple[str, ...]:
    """Return the permission rules of a command; arguments are never inserted into them."""
    known = _variables(command, place)
    return tuple(re.sub(VARIABLE, lambda m: known[m[1]], rule) for rule in command.allowed_tools)


def split_arguments(text: str) -> list[str]:
    """Split arguments like a shell; at spaces if quotes are unbalanced.

    >>> split_arguments('"hello world" x'), split_arguments("it's x")
    (['hello world', 'x'], ["it's", 'x'])
    """
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


class _Filler:
    """Substitutes arguments and variables in a command's text."""

    def __init__(self, command: CustomCommand, arguments: str, place: CommandContext) -> None:
        self.is_used = False
        """True if the text uses any argument."""
        self._whole = arguments.strip()
        self._each = split_arguments(arguments)
        self._names = command.arguments
        self._variables = _variables(command, place)
        names = "".join(f"|{re.escape(name)}" for name in self._names)
        token = rf"(\\*)\$(?:ARGUMENTS\[(\d+)\]|(\d+)|(ARGUMENTS{names})(?!\w))"
        self._tokens = re.compile(f"{VARIABLE}|{token}")

    def fill(self, text: str) -> str:
        """Return a text with all placeholders substituted."""
        return self._tokens.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        if found[1]:
            return self._variables[found[1]]
        slashes = found[2]
        # One backslash escapes a placeholder; two stay in front of its value.
        if len(slashes) == 1:
            return found[0][1:]
        self.is_used = True
        number = found[3] or found[4]
        if number:
            # Python refuses to convert numbers of more than 4,300 digits.
            known = len(number) <= LONGEST_NUMBER and int(number) < len(self._each)
            return slashes + self._each[int(number)] if known else found[0]
        if found[5] == ARGUMENTS:
            return slashes + self._whole
        rank = self._names.index(found[5])
        return slashes + (self._each[rank] if rank < len(self._each) else "")


def _variables(command: CustomCommand, place: CommandContext) -> dict[str, str]:
    return {
        "CLAUDE_SESSION_ID": place.session_id,
        "CLAUDE_SKILL_DIR": str(command.path.parent),
        "CLAUDE_PROJECT_DIR": str(place.project),
    }
