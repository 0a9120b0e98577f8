"""Dispatch typed input: a shell command, a slash command or a prompt."""

import asyncio

from turnlog.agent.chat.prompt_expansion import TYPED
from turnlog.agent.loop.events import CallStarted, Printed
from turnlog.agent.loop.lifecycle_hooks import SHELL
from turnlog.agent.loop.turn_records import link_pull_request
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.memory_commands import remember
from turnlog.agent.terminal.screen_protocol import TypedInput
from turnlog.agent.terminal.slash_commands import COMMANDS
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields, is_object

REMEMBERED = "#"
CALL = "shell"
"""Placeholder for a call id."""


async def dispatch(driver: ChatDriver, typed: TypedInput) -> None:
    """Run typed input: a shell command, a note for a memory file, a slash command or a prompt."""
    text = typed.text.strip()
    if typed.is_queued:
        driver.note_queue("dequeue")
    if text.startswith("!"):
        await _run_shell(driver, text[1:].strip())
    # A single line only: a longer text that starts with `#` is Markdown with a heading.
    elif text.startswith(REMEMBERED) and text.strip("# ") and "\n" not in text:
        await remember(driver, text.lstrip("# "))
    # A custom command takes precedence over a built-in one of the same name.
    elif (found := TYPED.fullmatch(text)) and not driver.chat.prompts.find(text):
        driver.display.prompt(text)
        await _run_command(driver, found[1], (found[2] or "").strip())
    else:
        if not typed.is_queued:  # a queued prompt is shown when it is recorded
            driver.display.prompt(text)
        prompt = driver.screen.pastes.prompt(text)
        await driver.send(prompt, "queued" if typed.is_queued else "typed")


async def _run_command(driver: ChatDriver, name: str, arguments: str) -> None:
    command = COMMANDS.get(name)
    if command is None:
        driver.display.note(f"unknown command /{name} (try: /help)", is_error=True)
        return
    recorder = driver.chat.parts.recorder
    leaf = recorder.leaf
    driver.display.notes.clear()
    await command.run(driver, arguments)
    # A command that only shows something leaves no notes, and one that starts a turn is recorded
    # by it. A command before the first prompt must not create a session.
    is_here = driver.chat.parts.recorder is recorder and recorder.leaf == leaf
    if leaf and is_here and driver.display.notes:
        recorder.local_command(command.name, arguments, "\n".join(driver.display.notes))


async def _run_shell(driver: ChatDriver, command: str) -> None:
    """Run a shell command of the user and send it with its output to the model."""
    if not command:
        return
    driver.display.prompt(f"!{command}")
    driver.display.start()
    driver.display.show(CallStarted(CALL, "Bash", {"command": command}))
    try:
        outcome = await BASH.run(
            BASH.read({"command": command}),
            driver.chat.parts.workspace,
            lambda text: driver.display.show(Printed(CALL, text)),
        )
    except asyncio.CancelledError:
        # The output so far would vanish with the live region.
        driver.display.stopped(CALL)
        raise
    finally:
        driver.display.finish()
    driver.display.printed(_printed(outcome))
    link_pull_request(driver.chat.parts.recorder, BASH.name, {"command": command}, outcome)
    await driver.send(shell_prompt(command, outcome), SHELL)


def shell_prompt(command: str, outcome: ToolOutcome) -> list[Fields]:
    """Build the prompt for a shell command and its output; failures count as stderr."""
    printed = _printed(outcome)
    stdout, stderr = ("", printed) if outcome.is_error else (printed, "")
    output = f"<bash-stdout>{stdout}</bash-stdout><bash-stderr>{stderr}</bash-stderr>"
    texts = (f"<bash-input>{command}</bash-input>", output)
    return [{"type": "text", "text": text} for text in texts]


def _printed(outcome: ToolOutcome) -> str:
    data = outcome.data if is_object(outcome.data) else {}
    # A command moved to the background has no stdout yet; the text says where it will be.
    if isinstance(data.get("stdout"), str) and "backgroundTaskId" not in data:
        return data["stdout"]
    return str(outcome.content)
