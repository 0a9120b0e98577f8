"""turnlog chat: a coding agent whose sessions Claude Code can resume."""

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

from turnlog.cli.client_flags import ClientCommand
from turnlog.cli.completions import complete_model, complete_session
from turnlog.cli.extras import require_extra
from turnlog.cli.host_options import (
    command_line_agents,
    entrypoint,
    host,
    host_options,
    is_hosted,
    leave_out_missing,
    require_editor,
    require_host,
    serve_editor,
    set_up,
    setup_trigger,
    system_prompt,
    tool_list,
    tuning,
)
from turnlog.cli.run_options import (
    compact_window,
    customizations,
    in_worktree,
    note_auto_mode,
    open_log,
    require_run,
    run_options,
    start_background,
)
from turnlog.cli.terminal import echo_plain
from turnlog.errors import NotFound, Unavailable, UsageError
from turnlog.format.portable import HAS_FOLDER_DESCRIPTORS
from turnlog.store.directories import split_directories
from turnlog.store.paths import Store, open_store
from turnlog.text import harmless

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.loop.lifecycle_hooks import Prompt
    from turnlog.agent.workspace.project_directories import SettingSource

STYLES = ("text", "json", "stream-json")
MODES = ("default", "manual", "auto", "acceptEdits", "plan", "bypassPermissions", "dontAsk")
OTHER_NAMES = {"manual": "default", "auto": "acceptEdits"}
"""Client modes that run as another one here; in the client's `auto`, a model judges non-edits."""
PRIVATE_PAGES = "TURNLOG_PRIVATE_PAGES"
"""The variable that lets WebFetch reach private networks; a project's settings cannot set it."""
PATIENCE = 3.0
"""Seconds to wait for text from a pipe that may stay silent."""
PICKED = ""
"""Value of --resume without a session."""
RULES = re.compile(r"(?:[^\s,()]|\([^)]*\))+")
SEPARATORS = ", \t\n"


@click.command("chat", cls=ClientCommand)
@click.argument("prompt", required=False)
@click.option("-p", "--print", "is_printed", is_flag=True, help="Print the answer and exit.")
@click.option(
    "--output-format", type=click.Choice(STYLES), default="text", help="With -p: output format."
)
@click.option(
    "--input-format",
    type=click.Choice(["text", "stream-json"]),
    default="text",
    help="With -p: format of stdin.",
)
@click.option(
    "--include-partial-messages",
    is_flag=True,
    help="With stream-json: also print messages while they are streamed.",
)
@click.option(
    *("-r", "--resume"),
    metavar="[SESSION]",
    is_flag=False,
    flag_value=PICKED,
    shell_complete=complete_session,
    help="Resume SESSION; without a value, let you pick one.",
)
@click.option(
    *("-c", "--continue", "is_continued"),
    is_flag=True,
    help="Resume the last session of this directory.",
)
@click.option(
    "--fork-session", is_flag=True, help="Resume a copy; leave the original session unchanged."
)
@click.option("--session-id", metavar="UUID", help="Id of the new session.")
@click.option("-n", "--name", help="Title of the session.")
@click.option(
    "--model", shell_complete=complete_model, help="Model id, or opus, fable, sonnet or haiku."
)
@click.option("--permission-mode", type=click.Choice(MODES), help="Which calls run without asking.")
@click.option(
    "--dangerously-skip-permissions",
    is_flag=True,
    help="Same as --permission-mode bypassPermissions.",
)
@click.option(
    *("--allowed-tools", "--allowedTools"),
    multiple=True,
    metavar="RULES",
    help="Permission rules to allow: Read, Bash(git log:*).",
)
@click.option(
    *("--disallowed-tools", "--disallowedTools"),
    multiple=True,
    metavar="RULES",
    help="Permission rules to deny.",
)
@click.option("--max-turns", type=click.IntRange(1), help="Stop after this many model responses.")
@click.option(
    "--max-budget-usd",
    type=click.FloatRange(0, min_open=True),
    help="Stop after spending this many dollars.",
)
@click.option(
    "--settings", metavar="FILE|JSON", help="Additional settings; override settings files."
)
@click.option(
    "--setting-sources",
    metavar="LIST",
    help="Load only these settings (user, project, local); with -p, also trust them.",
)
@click.option("--trust", is_flag=True, help="Trust the project's configuration in this session.")
@click.option("--mcp-config", multiple=True, metavar="FILE|JSON", help="Additional MCP servers.")
@click.option("--strict-mcp-config", is_flag=True, help="Use only the MCP servers of --mcp-config.")
@click.option(
    "--verbose", is_flag=True, help="With -p and json: print all messages, not only the last."
)
@click.option(
    "--add-dir",
    multiple=True,
    type=click.Path(file_okay=False),
    help="Additional directory for tools to work in; repeatable.",
)
@click.option("--system-prompt", help="Replace the system prompt.")
@click.option("--append-system-prompt", help="Append to the system prompt.")
@click.option(
    "--explain-permission",
    metavar="COMMAND",
    help="Explain whether a shell command may run; needs no API key.",
)
@click.option("--json", "as_json", is_flag=True, help="With --explain-permission: print JSON.")
@run_options
@host_options
@click.pass_obj
def command(store: Store, prompt: str | None, **given: Any) -> None:
    """Work with a coding agent; Claude Code can resume its sessions.

    Uses Claude Code's settings, memory files, commands, agents and hooks. Set ANTHROPIC_API_KEY to
    your key and, for another endpoint, ANTHROPIC_BASE_URL.

    \b
    Examples:
      turnlog chat
      turnlog chat --continue
      turnlog chat -p "Summarize the README" --output-format json
      turnlog chat --explain-permission "git push --force"
    """
    # Files are opened relative to directory descriptors, so that nobody can swap what was allowed.
    if not HAS_FOLDER_DESCRIPTORS:
        raise Unavailable("chat needs Linux, macOS or WSL", "wsl turnlog chat")
    require_extra("chat", "chat")
    _use_only(store)
    leave_out_missing(given)
    if given["explain_permission"] is not None:
        from turnlog.cli.permission import explain

        explain(store, _options(store, given), given["explain_permission"], given["as_json"])
        return
    if given["as_json"]:
        raise UsageError("--json needs --explain-permission", "--output-format json")
    if given["acp"]:
        require_editor(prompt, given)
        note_auto_mode(given)
        open_log(store, partial(_options, store, given), given)
        asyncio.run(_serve_editor(store, given))
        return
    require_host(given)
    require_run(given, is_headless=_is_headless(given))
    if given["resume"] == PICKED:
        given["resume"] = _pick(store, given)
    if given["is_background"]:
        start_background(store, _options(store, given), prompt, given)
        return
    note_auto_mode(given)
    # Built later, so that a host gets errors in its options as messages.
    make_options = partial(_options, store, given)
    with in_worktree(store, make_options, given):
        open_log(store, make_options, given)
        code = _run(store, prompt, given)
    if code:
        raise click.exceptions.Exit(code)


def _run(store: Store, prompt: str | None, given: dict[str, Any]) -> int:
    """Run a chat in the way that the options select; return the exit code."""
    if given["init_only"]:
        asyncio.run(set_up(store, _options(store, given)))
        return 0
    if is_hosted(given):
        return asyncio.run(_host(store, given))
    if not given["is_printed"]:
        from turnlog.agent.terminal.start import run
        from turnlog.cli.picking import pick_within

        pick = partial(pick_within, store, "chat")
        run(store, partial(_options, store, given), prompt, pick)
        return 0
    return int(asyncio.run(_print(store, _options(store, given), prompt, given)))


def _use_only(store: Store) -> None:
    """Make this store the only one, for this process and everything that it starts.

    Permissions protect the user's configuration directory: with `--store DIR`, that has to be DIR.
    And a client that a command starts would not understand a list of directories.
    """
    named = split_directories(os.environ.get("CLAUDE_CONFIG_DIR") or "")
    # Not for the default store: with the variable set, the client keeps its state elsewhere.
    is_default = not named and store.root == Path.home() / ".claude" and open_store() == store
    if named != [str(store.root)] and not is_default:
        os.environ["CLAUDE_CONFIG_DIR"] = str(store.root)


async def _host(store: Store, given: dict[str, Any]) -> int:
    """Run a chat that a program drives; return the exit code."""
    _stop_on_signals()
    return await host(store, partial(_options, store, given), given, _lines(), _write)


async def _serve_editor(store: Store, given: dict[str, Any]) -> None:
    _stop_on_signals()
    await serve_editor(store, partial(_options, store, given), _lines())


def _options(store: Store, given: dict[str, Any]) -> "ChatOptions":
    from turnlog.agent.chat.assembly import INTERACTIVE, PRINTED, ChatOptions
    from turnlog.agent.chat.customizations import BARE_TOOLS
    from turnlog.agent.chat.structured_output import read_schema
    from turnlog.agent.config.plugins import read_plugin
    from turnlog.agent.loop.conversation import TurnLimits
    from turnlog.agent.permissions import ApprovalMode

    cwd = Path.cwd().resolve()
    mode = (
        "bypassPermissions" if given["dangerously_skip_permissions"] else given["permission_mode"]
    )
    return ChatOptions(
        cwd=cwd,
        entrypoint=entrypoint(PRINTED) if _is_headless(given) else INTERACTIVE,
        resume=_session(store, cwd, given),
        is_fork=given["fork_session"],
        session_id=_session_id(given["session_id"]),
        name=given["name"],
        settings=given["settings"],
        setting_sources=_setting_sources(given["setting_sources"]),
        trusts_project=given["trust"],
        model=given["model"],
        mode=ApprovalMode(OTHER_NAMES.get(mode, mode)) if mode else None,
        allow=_rules(given["allowed_tools"]),
        deny=_rules(given["disallowed_tools"]),
        directories=tuple(Path(each).resolve() for each in given["add_dir"]),
        system_prompt=system_prompt(given, "system_prompt"),
        more_system_prompt=system_prompt(given, "append_system_prompt"),
        servers=given["mcp_config"],
        has_only_these_servers=given["strict_mcp_config"],
        allows_private_pages=bool(os.environ.get(PRIVATE_PAGES)),
        limits=TurnLimits(given["max_turns"], given["max_budget_usd"]),
        tools=tool_list(given["tools"] or (BARE_TOOLS if given["bare"] else ())),
        tuning=tuning(given),
        thinking_tokens=given["max_thinking_tokens"],
        schema=read_schema(given["json_schema"]),
        resume_at=given["resume_session_at"],
        drops_turn=given["resume_drops_turn"],
        allows_bypass=given["allow_dangerously_skip_permissions"],
        plugins=tuple(read_plugin(Path(each)) for each in given["plugin_dir"]),
        agents=command_line_agents(given["agents"]),
        customizations=customizations(given),
        is_recorded=not given["no_session_persistence"],
        compact_window=compact_window(given["autocompact"]),
        moves_surroundings=given["exclude_dynamic_system_prompt_sections"],
        opening_lines=given.get("opening_lines", ()),
        agent=given["agent"],
        setup=setup_trigger(given),
    )


def _is_headless(given: dict[str, Any]) -> bool:
    return given["is_printed"] or given["acp"] or is_hosted(given)


def _session(store: Store, cwd: Path, given: dict[str, Any]) -> Path | None:
    """Return the file of the session to resume, if any."""
    from turnlog.agent.session.resume import latest_in

    if given["resume_session_at"] and not given["resume"]:
        raise UsageError("--resume-session-at requires --resume", "--resume SESSION")
    if given["resume"] and given["is_continued"]:
        raise UsageError("--resume cannot be combined with --continue")
    found = _named_session(store, given) if given["resume"] else None
    found = latest_in(store, cwd) if given["is_continued"] else found
    if given["fork_session"] and not found:
        raise UsageError("--fork-session needs a session to fork", "--resume SESSION")
    if found and given["session_id"] and not given["fork_session"]:
        raise UsageError("--session-id is for new sessions", "--fork-session")
    return found


def _named_session(store: Store, given: dict[str, Any]) -> Path:
    from turnlog.store.session_lookup import find_session

    try:
        return find_session(store, given["resume"]).path
    except NotFound as error:
        if not is_hosted(given):
            raise
        # Hosts compare with the client's exact message.
        text = f"No conversation found with session ID: {given['resume']}"
        raise NotFound(text, error.hint) from error


def _pick(store: Store, given: dict[str, Any]) -> str:
    """Let the user pick the session to resume, before the chat draws its own screen."""
    if _is_headless(given):
        raise UsageError("--resume needs a session here", "turnlog ls, or --continue")
    from turnlog.cli.picking import let_pick

    return let_pick(store, purpose="chat").session.path


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
    """Split permission rules at commas or spaces outside parentheses.

    >>> _rules(["Bash(git log:*) Read,Edit(src/**)"])
    ('Bash(git log:*)', 'Read', 'Edit(src/**)')
    """
    for text in texts:
        if RULES.sub("", text).strip(SEPARATORS):
            raise UsageError(f"{text!r} is not a list of permission rules", "Bash(npm test)")
    return tuple(rule for text in texts for rule in RULES.findall(text))


async def _print(
    store: Store, options: "ChatOptions", prompt: str | None, given: dict[str, Any]
) -> bool:
    """Run a chat without a UI; return whether it failed."""
    from turnlog.agent.chat.host import Host
    from turnlog.agent.chat.opening import open_chat
    from turnlog.agent.headless.print_mode import HookEvents, Printer, Style

    prompts = _prompts(prompt, given["input_format"])
    # Before anything is started: by default, a signal would end only turnlog and leave behind a
    # hook or a server that the chat was waiting for.
    stopping = _stop_on_signals()
    try:
        hooks = HookEvents(given["include_hook_events"])
        chat = await open_chat(store, options, host=Host(observe=hooks.observe))
    except asyncio.CancelledError:
        raise click.Abort from None
    for note in chat.notes:
        echo_plain(f"turnlog: {note}", err=True)
    style = Style(given["output_format"])
    has_pieces, is_verbose = given["include_partial_messages"], given["verbose"]
    note = partial(_note_waiting, is_verbose)
    printer = Printer(chat, style, _write, has_pieces, note, is_verbose)
    stopping.append(printer.stop)
    hooks.release(printer.report)
    try:
        chat.parts.model.require_credentials()
        await printer.run(prompts)
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        hooks.close()
        await chat.close("prompt_input_exit")
    return printer.is_error


def _write(text: str) -> None:
    """Print an answer: unchanged to a pipe, with control characters spelled out to a terminal.

    Otherwise a web page that the model quotes could set the clipboard with `ESC ] 52`.
    """
    sys.stdout.write(f"{harmless(text) if sys.stdout.isatty() else text}\n")
    sys.stdout.flush()


def _note_waiting(is_verbose: bool, text: str) -> None:
    """Print what turnlog is waiting for, but only to a terminal or with --verbose."""
    if is_verbose or sys.stderr.isatty():
        echo_plain(f"turnlog: {text}", err=True)


def _stop_on_signals() -> list[Callable[[], bool]]:
    """Let a signal stop the current work, or cancel this task if there is nothing to stop.

    The caller appends functions to the returned list. Each stops some work, so that the session
    records it, and returns True; or it returns False if there is none.
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
    from turnlog.agent.headless.prompt_lines import read_prompts

    if style == "stream-json":
        return read_prompts(_lines())
    piped = _piped().strip()
    if not (prompt or piped):
        raise UsageError("a prompt is missing", "turnlog chat -p PROMPT")
    return _one(PipedPrompt(prompt, piped) if prompt and piped else prompt or piped)


async def _one(text: str) -> "AsyncIterator[Prompt]":
    yield text


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin; waiting for one does not block the event loop."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    # A byte that is not UTF-8 must not end the thread: the chat would wait forever.
    if reconfigure := getattr(sys.stdin, "reconfigure", None):
        reconfigure(errors="replace")

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, "")

    Thread(target=read, daemon=True).start()
    while line := await lines.get():
        yield line


def _piped() -> str:
    """Return the text piped to stdin, or an empty text."""
    if sys.stdin.isatty():
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], PATIENCE)
    return sys.stdin.read() if ready else ""
