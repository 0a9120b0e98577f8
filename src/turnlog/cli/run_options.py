"""Options of `turnlog chat`: background, worktree, debug log, customizations and compaction."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import click

from turnlog.cli.client_flags import ARGUMENTS, without_flag
from turnlog.cli.output import echo_json
from turnlog.cli.terminal import echo, echo_plain
from turnlog.errors import UsageError
from turnlog.secrets import mask_start
from turnlog.store.paths import Store
from turnlog.text import harmless, one_line

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.chat.customizations import Customizations

BACKGROUND = ("--bg", "--background")
NAME_LENGTH = 60
WINDOW = re.compile(r"([0-9]{1,9})([km]?)")
EVERYTHING = ""
"""Value of --debug without a filter."""
UNNAMED = ""
"""Value of --worktree without a name."""

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        *BACKGROUND,
        "is_background",
        is_flag=True,
        help="Run in the background; see turnlog agents.",
    ),
    click.option(
        *("-w", "--worktree"),
        metavar="[NAME]",
        is_flag=False,
        flag_value=UNNAMED,
        help="Work in a new git worktree, in .claude/worktrees.",
    ),
    click.option(
        *("-d", "--debug"),
        metavar="[FILTER]",
        is_flag=False,
        flag_value=EVERYTHING,
        help="Write a debug log; FILTER is api,hooks or !mcp.",
    ),
    click.option("--debug-file", metavar="FILE", help="Write the debug log to FILE."),
    click.option(
        "--bare",
        is_flag=True,
        help="Load no hooks, memory files or servers except those on the command line.",
    ),
    click.option(
        "--safe-mode",
        is_flag=True,
        help="Load no hooks, memory, skills, agents or servers.",
    ),
    click.option(
        "--disable-slash-commands", is_flag=True, help="Disable custom commands and skills."
    ),
    click.option("--agent", metavar="NAME", help="Work as this agent: its prompt, tools, model."),
    click.option(
        "--no-session-persistence", is_flag=True, help="With -p: do not record the session."
    ),
    click.option(
        "--autocompact", metavar="auto|TOKENS", help="Tokens at which a conversation is compacted."
    ),
    click.option(
        "--exclude-dynamic-system-prompt-sections",
        is_flag=True,
        help="Send machine-specific context with the first prompt instead.",
    ),
)


def run_options(command: Command) -> Command:
    """Add the options of this module to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def require_run(given: dict[str, Any], is_headless: bool) -> None:
    """Refuse options that contradict each other."""
    if given["no_session_persistence"] and not is_headless:
        raise UsageError("--no-session-persistence needs -p", "turnlog chat -p PROMPT")
    if given["is_background"] and (is_headless or given["resume"] == ""):
        raise UsageError("--bg needs a prompt and an interactive chat", "turnlog chat --bg PROMPT")


def note_auto_mode(given: dict[str, Any]) -> None:
    """Print a notice that the permission mode `auto` is `acceptEdits` in turnlog."""
    if given["permission_mode"] == "auto":
        text = "turnlog: auto is acceptEdits here: no model decides about other calls"
        echo(text, err=True)


def customizations(given: dict[str, Any]) -> "Customizations":
    """Return which of the user's customizations a chat loads."""
    from turnlog.agent.chat.customizations import ALL, BARE, SAFE

    chosen = BARE if given["bare"] else SAFE if given["safe_mode"] else ALL
    if given["disable_slash_commands"]:
        from msgspec.structs import replace

        return replace(chosen, has_commands=False)
    return chosen


def compact_window(text: str | None) -> str | None:
    """Parse the value of --autocompact: a number of tokens, or `auto`.

    >>> compact_window("150k"), compact_window("1M"), compact_window("auto")
    ('150000', '1000000', 'auto')
    """
    if text is None or text == "auto":
        return text
    found = WINDOW.fullmatch(text.strip().lower())
    if not found:
        raise UsageError(f"--autocompact {text} is not a number of tokens", "--autocompact 200k")
    return str(int(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2]])


def open_log(
    store: Store, make_options: "Callable[[], ChatOptions]", given: dict[str, Any]
) -> None:
    """Open the debug log, if one is wanted, and say where it is."""
    wanted, file = given["debug"], given["debug_file"]
    if wanted is None and file is None:
        return
    from turnlog.agent.chat.debug_log import open_debug_log

    options = make_options()
    if not options.resume or options.is_fork:
        given["session_id"] = options.session_id or str(uuid4())
    session = given["session_id"] or (options.resume.stem if options.resume else "")
    path = Path(file).absolute() if file else store.logs / f"{session}.txt"
    open_debug_log(path, wanted or EVERYTHING)
    echo_plain(f"turnlog: debug log: {path}", err=True)


def start_background(
    store: Store, options: "ChatOptions", prompt: str | None, given: dict[str, Any]
) -> None:
    """Start the chat in the background, and print its id."""
    from turnlog.agent.background.attachment import start_job
    from turnlog.agent.chat.chat_configuration import require_key

    require_key(store, options)

    context = click.get_current_context()
    own = {name: each for each in context.command.params for name in each.opts}
    arguments = without_flag(context.meta[ARGUMENTS], own, BACKGROUND)
    session = options.session_id or (options.resume.stem if options.resume else "")
    if not given["session_id"] and (options.is_fork or not options.resume):
        session = str(uuid4())
        arguments = ["--session-id", session, *arguments]
    name = given["name"] or one_line(mask_start(prompt or "", NAME_LENGTH))
    job = start_job(session, options.cwd, name, arguments)
    if given["output_format"] == "json":
        echo_json(job.fields)
        return
    echo(f"{job.state.id}  turnlog agents attach {job.state.id}")


@contextmanager
def in_worktree(
    store: Store, make_options: "Callable[[], ChatOptions]", given: dict[str, Any]
) -> Generator[None]:
    """Run a chat in its own git worktree, if --worktree asks for one.

    With -p the worktree stays, as the next program may use its files (2.1.325, observed).
    """
    if given["worktree"] is None:
        yield
        return
    from turnlog.agent.chat.assembly import INTERACTIVE
    from turnlog.agent.chat.session_worktree import enter_worktree, leave_worktree, worktree_name

    name = worktree_name(given["worktree"])
    options = make_options()
    if not options.resume:
        given["session_id"] = options.session_id or str(uuid4())
    entered = asyncio.run(enter_worktree(store, options, name, given["session_id"]))
    given["trust"] = given["trust"] or entered.carries_trust
    given["opening_lines"] = (entered.worktree.state,)
    os.chdir(entered.worktree.path)
    try:
        yield
    finally:
        os.chdir(entered.worktree.origin)
        # It also stays if the terminal is gone: nobody could answer the question.
        if options.entrypoint == INTERACTIVE and sys.stdin.isatty():
            note = asyncio.run(leave_worktree(entered, _ask_to_remove))
            echo_plain(f"turnlog: {note}", err=True)


def _ask_to_remove(path: Path) -> bool:
    text = harmless(f"Remove {path}, and lose what was changed there?")
    try:
        return click.confirm(text, default=False, err=True)
    except click.Abort:
        return False
