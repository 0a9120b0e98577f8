"""turnlog chat: a coding agent whose sessions are the client's own."""

import asyncio
import os
import re
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import click

from turnlog.cli.arguments import complete_session
from turnlog.cli.terminal import echo
from turnlog.errors import Unavailable, UsageError
from turnlog.format.portable import HAS_FOLDER_DESCRIPTORS
from turnlog.store.paths import Store
from turnlog.text import harmless

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.loop.lifecycle_hooks import Prompt
    from turnlog.agent.workspace.project_directories import SettingSource

STYLES = ("text", "json", "stream-json")
MODES = ("default", "acceptEdits", "plan", "bypassPermissions")
PRIVATE_PAGES = "TURNLOG_PRIVATE_PAGES"
"""The variable that lets WebFetch reach private networks; a project's settings cannot set it."""
PATIENCE = 3.0
"""Seconds to wait for text from a pipe that may never bring any."""
RULES = re.compile(r"(?:[^\s,()]|\([^)]*\))+")
SEPARATORS = ", \t\n"


@click.command("chat")
@click.argument("prompt", required=False)
@click.option("-p", "--print", "is_printed", is_flag=True, help="Print the answer and exit.")
@click.option("--output-format", type=click.Choice(STYLES), default="text", help="With -p.")
@click.option(
    "--input-format",
    type=click.Choice(["text", "stream-json"]),
    default="text",
    help="With -p: what standard input holds.",
)
@click.option("--include-partial-messages", is_flag=True, help="With stream-json: pieces, too.")
@click.option("-r", "--resume", metavar="SESSION", shell_complete=complete_session, help="Go on.")
@click.option(
    "-c", "--continue", "is_continued", is_flag=True, help="Go on with the last one here."
)
@click.option("--fork-session", is_flag=True, help="Go on in a copy, and leave the session alone.")
@click.option("--session-id", metavar="UUID", help="The id of the new session.")
@click.option("-n", "--name", help="What the session is called.")
@click.option("--model", help="A model's id, or opus, sonnet, haiku.")
@click.option("--permission-mode", type=click.Choice(MODES), help="What runs without asking.")
@click.option("--dangerously-skip-permissions", is_flag=True, help="The same as bypassPermissions.")
@click.option("--allowed-tools", "--allowedTools", multiple=True, metavar="RULES")
@click.option("--disallowed-tools", "--disallowedTools", multiple=True, metavar="RULES")
@click.option("--max-turns", type=click.IntRange(1), help="Answers of the model, at most.")
@click.option("--max-budget-usd", type=click.FloatRange(0, min_open=True), help="Dollars, at most.")
@click.option("--settings", metavar="FILE|JSON", help="Further settings, above those of files.")
@click.option(
    "--setting-sources",
    metavar="LIST",
    help="Use only these settings: user, project, local. With -p, trusts those named.",
)
@click.option("--trust", is_flag=True, help="Trust this project's configuration for this session.")
@click.option("--mcp-config", multiple=True, metavar="FILE|JSON", help="Further MCP servers.")
@click.option("--strict-mcp-config", is_flag=True, help="No other MCP servers than those.")
@click.option("--verbose", is_flag=True, help="With -p and json: all messages, not only the last.")
@click.option("--add-dir", multiple=True, type=click.Path(exists=True, file_okay=False))
@click.option("--system-prompt", help="In the place of turnlog's own.")
@click.option("--append-system-prompt", help="Behind turnlog's own.")
@click.option(
    "--explain-permission",
    metavar="COMMAND",
    help="Say whether a shell command may run, and why; needs no key.",
)
@click.option("--json", "as_json", is_flag=True, help="With --explain-permission.")
@click.pass_obj
def command(store: Store, prompt: str | None, **given: Any) -> None:
    """Work with a model that runs tools here; Claude Code can go on with the session.

    Settings, memory files, commands, agents and hooks are those of Claude Code. The key comes from
    ANTHROPIC_API_KEY, another address from ANTHROPIC_BASE_URL.
    """
    # Files are opened relative to directory descriptors, so that nobody can swap what was allowed.
    if not HAS_FOLDER_DESCRIPTORS:
        raise Unavailable("chat needs Linux, macOS or WSL", "wsl turnlog chat")
    if given["explain_permission"] is not None:
        from turnlog.cli.permission import explain

        explain(store, _options(store, given), given["explain_permission"], given["as_json"])
        return
    if given["as_json"]:
        raise UsageError("--json needs --explain-permission", "--output-format json")
    if not given["is_printed"]:
        from turnlog.agent.terminal.start import run

        run(store, partial(_options, store, given), prompt)
        return
    options = _options(store, given)
    if asyncio.run(_print(store, options, prompt, given)):
        raise click.exceptions.Exit(1)


def _options(store: Store, given: dict[str, Any]) -> "ChatOptions":
    from turnlog.agent.chat.assembly import INTERACTIVE, PRINTED, ChatOptions
    from turnlog.agent.loop.conversation import TurnLimits
    from turnlog.agent.permissions import ApprovalMode

    cwd = Path.cwd().resolve()
    mode = (
        "bypassPermissions" if given["dangerously_skip_permissions"] else given["permission_mode"]
    )
    return ChatOptions(
        cwd=cwd,
        entrypoint=PRINTED if given["is_printed"] else INTERACTIVE,
        resume=_session(store, cwd, given),
        is_fork=given["fork_session"],
        session_id=_session_id(given["session_id"]),
        name=given["name"],
        settings=given["settings"],
        setting_sources=_setting_sources(given["setting_sources"]),
        trusts_project=given["trust"],
        model=given["model"],
        mode=ApprovalMode(mode) if mode else None,
        allow=_rules(given["allowed_tools"]),
        deny=_rules(given["disallowed_tools"]),
        directories=tuple(Path(each).resolve() for each in given["add_dir"]),
        system_prompt=given["system_prompt"],
        more_system_prompt=given["append_system_prompt"],
        servers=given["mcp_config"],
        has_only_these_servers=given["strict_mcp_config"],
        allows_private_pages=bool(os.environ.get(PRIVATE_PAGES)),
        limits=TurnLimits(given["max_turns"], given["max_budget_usd"]),
    )


def _session(store: Store, cwd: Path, given: dict[str, Any]) -> Path | None:
    """The session to go on with."""
    from turnlog.agent.session.resume import latest_in
    from turnlog.store.session_lookup import find_session

    if given["resume"] and given["is_continued"]:
        raise UsageError("--resume and --continue name two sessions")
    found = find_session(store, given["resume"]).path if given["resume"] else None
    found = latest_in(store, cwd) if given["is_continued"] else found
    if given["fork_session"] and not found:
        raise UsageError("--fork-session needs a session to fork", "--resume SESSION")
    if found and given["session_id"] and not given["fork_session"]:
        raise UsageError("--session-id is for new sessions", "--fork-session")
    return found


def _session_id(text: str | None) -> str | None:
    try:
        return str(UUID(text)) if text else None
    except ValueError as error:
        raise UsageError(f"{text!r} is not a UUID", f"--session-id {uuid4()}") from error


def _setting_sources(text: str | None) -> "frozenset[SettingSource] | None":
    from turnlog.agent.workspace.project_directories import SettingSource

    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    known = [each.value for each in SettingSource]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(
            f"{unknown[0]!r} is not a setting source", f"--setting-sources {','.join(known)}"
        )
    return None if text is None else frozenset(map(SettingSource, names))


def _rules(texts: Sequence[str]) -> tuple[str, ...]:
    """Rules, set apart by commas or spaces outside of brackets.

    >>> _rules(["Bash(git log:*) Read,Edit(src/**)"])
    ('Bash(git log:*)', 'Read', 'Edit(src/**)')
    """
    for text in texts:
        if RULES.sub("", text).strip(SEPARATORS):
            raise UsageError(
                f"{text!r} is not a list of permission rules", "Tool, or Tool(pattern)"
            )
    return tuple(rule for text in texts for rule in RULES.findall(text))


async def _print(
    store: Store, options: "ChatOptions", prompt: str | None, given: dict[str, Any]
) -> bool:
    """Run a chat without a screen; tell whether it failed."""
    from turnlog.agent.chat.opening import open_chat
    from turnlog.agent.headless.print_mode import Printer, Style

    prompts = _prompts(prompt, given["input_format"])
    # Before anything is started: by default, a signal would end turnlog alone, and leave a hook or
    # a server behind that the chat was waiting for.
    stopping = _stop_on_signals()
    try:
        chat = await open_chat(store, options)
    except asyncio.CancelledError:
        raise click.Abort from None
    for note in chat.notes:
        echo(harmless(f"turnlog: {note}"), err=True)
    style = Style(given["output_format"])
    has_pieces, is_verbose = given["include_partial_messages"], given["verbose"]
    note = partial(_note_waiting, is_verbose)
    printer = Printer(chat, style, _write, has_pieces, note, is_verbose)
    stopping.append(printer.stop)
    try:
        chat.parts.model.require_credentials()
        await printer.run(prompts)
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        await chat.close("prompt_input_exit")
    return printer.is_error


def _write(text: str) -> None:
    """Print an answer: a pipe gets it as it is, a terminal nothing that could control it.

    Otherwise a web page that the model quotes could set the clipboard with `ESC ] 52`.
    """
    sys.stdout.write(f"{harmless(text) if sys.stdout.isatty() else text}\n")
    sys.stdout.flush()


def _note_waiting(is_verbose: bool, text: str) -> None:
    """Tell whoever waits at a terminal what is waited for; a program's log stays as it was."""
    if is_verbose or sys.stderr.isatty():
        echo(harmless(f"turnlog: {text}"), err=True)


def _stop_on_signals() -> list[Callable[[], bool]]:
    """Let signals end what is going on, so that the session says so, and then the program.

    The list takes functions that stop something, and return whether there was anything to stop.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stopping: list[Callable[[], bool]] = []

    def stop() -> None:
        if not any(each() for each in stopping) and task:
            task.cancel()

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(name, stop)
    return stopping


def _prompts(prompt: str | None, style: str) -> "AsyncIterator[Prompt]":
    from turnlog.agent.chat.prompt_expansion import PipedPrompt
    from turnlog.agent.headless.print_mode import read_prompts

    if style == "stream-json":
        return read_prompts(_lines())
    piped = _piped().strip()
    if not (prompt or piped):
        raise UsageError("there is nothing to do", "turnlog chat -p PROMPT")
    return _one(PipedPrompt(prompt, piped) if prompt and piped else prompt or piped)


async def _one(text: str) -> "AsyncIterator[Prompt]":
    yield text


async def _lines() -> AsyncIterator[str]:
    """Standard input, line by line; to wait for the next one keeps nothing from ending."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    Thread(target=read, daemon=True).start()
    while line := await lines.get():
        yield line


def _piped() -> str:
    """What is piped in, if anything is."""
    if sys.stdin.isatty():
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
    return sys.stdin.read() if ready else ""
