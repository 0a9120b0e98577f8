"""What becomes of what is typed: a shell command, a command of turnlog's own, or a prompt."""

from turnlog.agent.chat.prompts import TYPED
from turnlog.agent.console.face import Waiting
from turnlog.agent.console.slash import COMMANDS
from turnlog.agent.console.talk import Talk
from turnlog.agent.custom.built_in import BY_NAME
from turnlog.agent.events import Called, Printed
from turnlog.agent.tool import Outcome
from turnlog.agent.tools.bash import BASH
from turnlog.format.fields import is_object

SHELL = "shell"


async def do(talk: Talk, waiting: Waiting) -> None:
    """Do what was typed."""
    text = waiting.text.strip()
    if waiting.is_queued:
        talk.note_queue("dequeue")
    if text.startswith("!"):
        talk.telling.prompt(text)
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
    command = BY_NAME.get(name)
    if command is None:
        talk.telling.note(f"there is no command /{name}; /help shows all", is_error=True)
        return
    await COMMANDS[command.name](talk, arguments)


async def _run_shell(talk: Talk, command: str) -> None:
    """Run a command of the user's, which the model is told with the next prompt."""
    if not command:
        return
    talk.telling.start()
    talk.telling.tell(Called(SHELL, "Bash", {"command": command}))
    try:
        outcome = await BASH.run(
            BASH.read({"command": command}),
            talk.chat.parts.workspace,
            lambda text: talk.telling.tell(Printed(SHELL, text)),
        )
    finally:
        talk.telling.finish()
    printed = _printed(outcome)
    talk.chat.parts.recorder.shell(command, printed)
    talk.telling.printed(printed)


def _printed(outcome: Outcome) -> str:
    if is_object(outcome.data) and isinstance(outcome.data.get("stdout"), str):
        return outcome.data["stdout"]
    return str(outcome.content)
