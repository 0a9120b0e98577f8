"""A command's text as a prompt: arguments put in, shell commands run, the session named.

What is put in is never read again: neither an argument nor what a command printed can bring in
another command.
"""

import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.config.frontmatter import LONGEST_NUMBER

# A block ends at the next line that starts with a fence, so that one without an end is not looked
# for in all the rest of the text.
INJECTED = re.compile(
    r"(?<!\S)!`([^`\n]+)`|^```![ \t\r]*\n((?:(?!```).*\n)*)```[ \t]*$", re.MULTILINE
)
VARIABLE = r"\$\{(CLAUDE_SESSION_ID|CLAUDE_SKILL_DIR|CLAUDE_PROJECT_DIR)\}"
ARGUMENTS = "ARGUMENTS"

Run = Callable[[str], Awaitable[str]]
"""Runs a shell command, and gives what it prints; raises if it may not run, or fails."""


class CommandContext(Struct, frozen=True):
    """Where a command is used."""

    session_id: str
    project: Path
    run: Run


class Expanded(Struct, frozen=True):
    """The prompt that a command stands for."""

    text: str
    written: tuple[str, ...]
    """The pieces of it that were written: in the command's file, or as its arguments. What its
    shell commands printed is in none of them."""


async def expand(command: CustomCommand, arguments: str, place: CommandContext) -> Expanded:
    """Make a prompt of a command: fill in arguments and run the shell commands in its text."""
    filler = _Filler(command, arguments, place)
    parts: list[str] = []
    written: list[str] = []
    end = 0
    for found in INJECTED.finditer(command.body):
        written.append(filler.fill(command.body[end : found.start()]))
        printed = await place.run(filler.fill(found[1] or found[2].strip()))
        parts += [written[-1], printed]
        end = found.end()
    written.append(filler.fill(command.body[end:]))
    if arguments.strip() and not filler.is_used:
        written[-1] += f"\n\nARGUMENTS: {arguments.strip()}"
    return Expanded("".join([*parts, written[-1]]), tuple(written))


def rules_of(command: CustomCommand, place: CommandContext) -> tuple[str, ...]:
    """The rules that hold while a command is carried out; no argument becomes a part of them."""
    known = _variables(command, place)
    return tuple(re.sub(VARIABLE, lambda m: known[m[1]], rule) for rule in command.allowed_tools)


def split_arguments(text: str) -> list[str]:
    """Arguments as a shell would take them apart; at spaces where its quotes do not match.

    >>> split_arguments('"hello world" x'), split_arguments("it's x")
    (['hello world', 'x'], ["it's", 'x'])
    """
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


class _Filler:
    """Puts arguments and variables into a command's text."""

    def __init__(self, command: CustomCommand, arguments: str, place: CommandContext) -> None:
        self.is_used = False
        """Whether any argument was asked for."""
        self._whole = arguments.strip()
        self._each = split_arguments(arguments)
        self._names = command.arguments
        self._variables = _variables(command, place)
        names = "".join(f"|{re.escape(name)}" for name in self._names)
        token = rf"(\\*)\$(?:ARGUMENTS\[(\d+)\]|(\d+)|(ARGUMENTS{names})(?!\w))"
        self._tokens = re.compile(f"{VARIABLE}|{token}")

    def fill(self, text: str) -> str:
        """A text with all in its place."""
        return self._tokens.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        if found[1]:
            return self._variables[found[1]]
        slashes = found[2]
        if len(slashes) == 1:
            return found[0][1:]
        self.is_used = True
        number = found[3] or found[4]
        if number:
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
