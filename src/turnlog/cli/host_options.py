"""Options of `turnlog chat` for programs that drive it, and the hosted chat itself."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from turnlog.cli.terminal import echo_plain
from turnlog.errors import TurnlogError, UsageError
from turnlog.format.json_values import is_object, parse_json
from turnlog.store.paths import Store

if TYPE_CHECKING:
    from turnlog.agent.chat.assembly import ChatOptions
    from turnlog.agent.config.agent_definitions import AgentDefinition
    from turnlog.agent.headless.hosted_chat import HostedOptions
    from turnlog.agent.model.model_names import ModelTuning

EFFORTS = ("low", "medium", "high", "xhigh", "max")
ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"
NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
HOST = "stdio"
ONLY_HOSTED = (
    "permission_prompt_tool",
    "replay_user_messages",
    "session_mirror",
)
HOSTING = "turnlog-chat --input-format stream-json --output-format stream-json"
NOT_FOR_ACP = (
    *("is_printed", "resume", "is_continued", "fork_session", "session_id", "name"),
    *("is_background", "worktree", "no_session_persistence"),
)
"""Options that --acp rejects: an editor opens sessions itself, through its own protocol."""
SEPARATORS = re.compile(r"[,\s]+")
AGENTS = """--agents '{"reviewer": {"description": "Reviews code", "prompt": "Review it"}}'"""
"""A hint with an example of an agent definition; only its prompt is required."""

Command = TypeVar("Command", bound=Callable[..., Any])


def _effort_level(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return an effort level; ignore an unknown one with a notice, as the client does."""
    if value is None or value in EFFORTS:
        return value
    _complain(f"--effort {value} is ignored: the levels are {', '.join(EFFORTS)}")
    return None


OPTIONS = (
    click.option(
        "--acp", is_flag=True, help="Serve an editor that speaks the Agent Client Protocol."
    ),
    click.option(
        "--tools",
        multiple=True,
        metavar="LIST",
        help="Built-in tools to offer: Read,Bash or default.",
    ),
    click.option("--agents", metavar="FILE|JSON", help="Additional agents, by name."),
    click.option(
        "--system-prompt-file", metavar="FILE", help="Replace the system prompt by a file."
    ),
    click.option(
        "--append-system-prompt-file", metavar="FILE", help="Append a file to the system prompt."
    ),
    click.option("--json-schema", metavar="JSON", help="Answer with data that follows a schema."),
    click.option(
        "--effort",
        metavar=f"[{'|'.join(EFFORTS)}]",
        callback=_effort_level,
        help="Effort level of the model.",
    ),
    click.option(
        "--thinking",
        type=click.Choice(["adaptive", "enabled", "disabled"]),
        help="When the model thinks before it answers.",
    ),
    click.option(
        "--thinking-display",
        type=click.Choice(["summarized", "omitted", "updates"]),
        help="How the API returns thinking.",
    ),
    click.option(
        "--max-thinking-tokens",
        type=click.IntRange(0),
        help="Tokens for thinking; for newer models, all but 0 mean adaptive.",
    ),
    click.option("--fallback-model", help="Model to use while the other one is overloaded."),
    click.option("--betas", multiple=True, metavar="LIST", help="Beta features of the API."),
    click.option(
        "--task-budget", type=click.IntRange(1), help="Token budget announced to the model."
    ),
    click.option(
        "--resume-session-at", metavar="UUID", help="Resume at this entry, dropping later ones."
    ),
    click.option(
        "--resume-drops-turn",
        metavar="UUID",
        help="With --resume-session-at: fail unless only this prompt's turn is dropped.",
    ),
    click.option(
        "--permission-prompt-tool",
        metavar="NAME",
        help="Let the host program decide about calls: stdio.",
    ),
    click.option(
        "--permission-prompts",
        type=click.Choice(["host", "none"]),
        default="host",
        help="Who is asked: --permission-prompt-tool, or nobody (deny).",
    ),
    click.option(
        "--allow-dangerously-skip-permissions",
        is_flag=True,
        help="Let a program switch to bypassPermissions later.",
    ),
    click.option("--include-hook-events", is_flag=True, help="Also print hook events."),
    click.option("--replay-user-messages", is_flag=True, help="Echo prompts read from stdin."),
    click.option("--session-mirror", is_flag=True, help="Also print each line of the session."),
    click.option("--plugin-dir", multiple=True, metavar="DIR", help="Load a plugin."),
    click.option("--init", "is_init", is_flag=True, help="With -p: run Setup hooks first."),
    click.option("--init-only", is_flag=True, help="Run Setup and SessionStart hooks and exit."),
    click.option(
        "--maintenance", is_flag=True, help="With -p: run Setup hooks for maintenance first."
    ),
)


def host_options(command: Command) -> Command:
    """Add the options for programs that drive a chat."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def setup_trigger(given: dict[str, Any]) -> str | None:
    """Return the trigger of Setup hooks, `init` or `maintenance`; None if they do not run."""
    if given["maintenance"] and (given["is_init"] or given["init_only"]):
        raise UsageError("--maintenance cannot be combined with --init", "--init")
    is_running = given["is_printed"] or given["init_only"] or is_hosted(given)
    if (given["is_init"] or given["maintenance"]) and not is_running:
        raise UsageError("--init and --maintenance need -p", "turnlog chat --init-only")
    return "maintenance" if given["maintenance"] else "init" if _is_init(given) else None


def _is_init(given: dict[str, Any]) -> bool:
    return given["is_init"] or given["init_only"]


async def set_up(store: Store, options: "ChatOptions") -> None:
    """Open and close a chat, only to run its hooks."""
    from turnlog.agent.chat.opening import open_chat

    chat = await open_chat(store, options)
    for note in chat.notes:
        _complain(note)
    await chat.close("other")


def is_hosted(given: dict[str, Any]) -> bool:
    """Return whether a program drives the chat through stdin and stdout, with or without `-p`."""
    is_stream = given["output_format"] == "stream-json" or not given["is_printed"]
    return given["input_format"] == "stream-json" and is_stream


def system_prompt(given: dict[str, Any], name: str) -> str | None:
    """Return the system prompt that an option gives, as text or as a file."""
    text, file = given[name], given[f"{name}_file"]
    flag = f"--{name.replace('_', '-')}"
    if text is not None and file is not None:
        raise UsageError(f"{flag} cannot be combined with {flag}-file")
    if file is None:
        return text
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{flag}-file {file}: {why}", f"{flag} TEXT") from error


def tuning(given: dict[str, Any]) -> "ModelTuning":
    """Return the model parameters that the options set for all requests."""
    from turnlog.agent.model.model_names import ModelTuning

    tokens = given["max_thinking_tokens"]
    return ModelTuning(
        effort=given["effort"],
        thinking="disabled" if tokens == 0 else given["thinking"],
        display=given["thinking_display"],
        betas=tuple(each for text in given["betas"] for each in SEPARATORS.split(text) if each),
        task_budget=given["task_budget"],
        fallback=given["fallback_model"],
    )


def tool_list(texts: Sequence[str]) -> tuple[str, ...] | None:
    """Split lists of tool names at commas and spaces; return None if no list is given.

    >>> tool_list(["Read, Bash", "Grep"]), tool_list([""]), tool_list([])
    (('Read', 'Bash', 'Grep'), (), None)
    """
    named = tuple(each for text in texts for each in SEPARATORS.split(text) if each)
    return named if texts else None


def entrypoint(usual: str) -> str:
    """Return the name of the program that started turnlog, which the SDK sets in a variable.

    The name "cli" is ignored: it would restore the permission mode of a resumed session.
    """
    named = os.environ.get(ENTRYPOINT, "")
    return named if NAME.fullmatch(named) and named != "cli" else usual


def command_line_agents(text: str | None) -> "dict[str, AgentDefinition]":
    """Return the agents defined on the command line."""
    from turnlog.agent.chat.host import read_agents

    try:
        is_file = text and not text.lstrip().startswith("{")
        listed = parse_json(Path(text).read_bytes() if text and is_file else text or "{}")
    except OSError as error:
        raise UsageError(f"--agents {text}: {error.strerror}", AGENTS) from error
    except ValueError as error:
        raise UsageError(f"--agents is not JSON: {error}", AGENTS) from error
    if not is_object(listed):
        raise UsageError("--agents is not a JSON object", AGENTS)
    return read_agents(listed)


def require_host(given: dict[str, Any]) -> None:
    """Refuse options that have an effect only if a program drives the chat."""
    if is_hosted(given):
        return
    for name in ONLY_HOSTED:
        if given[name]:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} needs a program that drives the chat", HOSTING)


def leave_out_missing(given: dict[str, Any]) -> None:
    """Ignore each `--add-dir` that does not exist, with a notice, as the client does."""
    missing = [each for each in given["add_dir"] if not Path(each).is_dir()]
    for each in missing:
        _complain(f"--add-dir {each} is ignored: there is no such directory")
    given["add_dir"] = tuple(each for each in given["add_dir"] if each not in missing)


def hosted_options(given: dict[str, Any]) -> "HostedOptions":
    """Return the options for the messages exchanged with the host program."""
    from turnlog.agent.headless.hosted_chat import HostedOptions

    if given["output_format"] != "stream-json":
        hint = "--output-format stream-json"
        raise UsageError("--input-format stream-json needs the same output format", hint)
    return HostedOptions(
        has_pieces=given["include_partial_messages"],
        has_hook_events=given["include_hook_events"],
        replays=given["replay_user_messages"],
        mirrors=given["session_mirror"],
        asks_host=given["permission_prompt_tool"] == HOST and given["permission_prompts"] == "host",
    )


def unsupported(given: dict[str, Any]) -> list[str]:
    """Return a message for each option that has no effect."""
    is_other = given["permission_prompt_tool"] not in (None, HOST)
    note = "--permission-prompt-tool is ignored: only stdio works; calls that ask are denied"
    return [note] if is_other else []


async def host(
    store: Store,
    options: "Callable[[], ChatOptions]",
    given: dict[str, Any],
    lines: AsyncIterator[str],
    write: Callable[[str], None],
) -> int:
    """Serve a chat to the host program; return the exit code."""
    from turnlog.agent.headless.hosted_chat import Console, run_hosted

    wanted = hosted_options(given)
    for note in unsupported(given):
        _complain(note)
    try:
        return await run_hosted(store, options, wanted, Console(lines, write, _complain))
    except TurnlogError as error:
        # Always 1: programs do not treat the exit code 2 differently.
        _complain(error.line)
        return 1
    except asyncio.CancelledError:
        return 1


async def serve_editor(
    store: Store, options: "Callable[[], ChatOptions]", lines: AsyncIterator[str]
) -> None:
    """Serve an editor until it closes the stream."""
    from turnlog.agent.headless.acp_agent import serve_acp
    from turnlog.agent.headless.acp_transport import claim_stdout

    with suppress(asyncio.CancelledError):  # a signal
        await serve_acp(store, options(), lines, claim_stdout(), _complain)


def require_editor(prompt: str | None, given: dict[str, Any]) -> None:
    """Refuse options that contradict `--acp`."""
    named = next((name for name in NOT_FOR_ACP if given[name] not in (None, False)), None)
    is_other = given["input_format"] != "text" or given["output_format"] != "text"
    if prompt or named or is_other:
        raise UsageError(
            "--acp takes no prompt, no session and no format: the editor sends them",
            "turnlog chat --acp",
        )


def _complain(text: str) -> None:
    echo_plain(f"turnlog: {text}", err=True)
