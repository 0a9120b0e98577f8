"""Dispatch typed input: a shell command, a slash command or a prompt."""

import asyncio

from turnlog.agent.chat.prompt_expansion import TYPED
from turnlog.agent.loop.events import CallStarted, Printed
from turnlog.agent.loop.lifecycle_hooks import SHELL
from turnlog.agent.loop.pull_requests import link_pull_request
from turnlog.agent.terminal.chat_driver import Talk
from turnlog.agent.terminal.screen_protocol import Waiting
from turnlog.agent.terminal.slash_commands import COMMANDS
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields, is_object

CALL = "shell"
"""Placeholder for a call id."""


async def do(talk: Talk, waiting: Waiting) -> None:
    """Run typed input."""
    text = waiting.text.strip()
    if waiting.is_queued:
        talk.note_queue("dequeue")
    if text.startswith("!"):
        await _run_shell(talk, text[1:].strip())
    elif (found := TYPED.fullmatch(text)) and not talk.chat.prompts.find(text):
        talk.telling.prompt(text)
        await _run_command(talk, found[1], (found[2] or "").strip())
    else:
        if not waiting.is_queued:  # one that was queued is shown when it is recorded
            talk.telling.prompt(text)
        prompt = talk.face.pastes.prompt(text)
        await talk.send(prompt, "queued" if waiting.is_queued else "typed")


async def _run_command(talk: Talk, name: str, arguments: str) -> None:
    command = COMMANDS.get(name)
    if command is None:
        talk.telling.note(f"there is no command /{name}; /help shows all", is_error=True)
        return
    await command.run(talk, arguments)


async def _run_shell(talk: Talk, command: str) -> None:
    """Run a shell command of the user and send it with its output to the model."""
    if not command:
        return
    talk.telling.prompt(f"!{command}")
    talk.telling.start()
    talk.telling.tell(CallStarted(CALL, "Bash", {"command": command}))
    try:
        outcome = await BASH.run(
            BASH.read({"command": command}),
            talk.chat.parts.workspace,
            lambda text: talk.telling.tell(Printed(CALL, text)),
        )
    except asyncio.CancelledError:
        talk.telling.stopped(CALL)
        raise
    finally:
        talk.telling.finish()
    talk.telling.printed(_printed(outcome))
    link_pull_request(talk.chat.parts.recorder, BASH.name, {"command": command}, outcome)
    await talk.send(shell_prompt(command, outcome), SHELL)


def shell_prompt(command: str, outcome: ToolOutcome) -> list[Fields]:
    """Build the prompt for a shell command and its output; failures count as stderr."""
    printed = _printed(outcome)
    stdout, stderr = ("", printed) if outcome.is_error else (printed, "")
    told = f"<bash-stdout>{stdout}</bash-stdout><bash-stderr>{stderr}</bash-stderr>"
    texts = (f"<bash-input>{command}</bash-input>", told)
    return [{"type": "text", "text": text} for text in texts]


def _printed(outcome: ToolOutcome) -> str:
    if is_object(outcome.data) and isinstance(outcome.data.get("stdout"), str):
        return outcome.data["stdout"]
    return str(outcome.content)
