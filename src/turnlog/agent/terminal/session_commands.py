"""Slash commands about the session: its state, plans, branches, side questions and reviews."""

import os

from turnlog import __version__
from turnlog.agent.chat.built_in_prompts import init_prompt, review_prompt, security_prompt
from turnlog.agent.chat.plan_approval import plan_file
from turnlog.agent.config.output_styles import DEFAULT
from turnlog.agent.loop.answering import ask_aside
from turnlog.agent.loop.request import request_with
from turnlog.agent.loop.spending import price_of
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.session.entry_builders import meta
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.listings import show_rows
from turnlog.agent.terminal.screen_protocol import ScrollbackItem
from turnlog.conversation.context import messages_of
from turnlog.errors import UsageError
from turnlog.secrets import mask

KEYS = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
ASIDE = """\
<system-reminder>
The user asks a question on the side. Answer it from what you know of this conversation, in a few \
sentences, and call no tools. The conversation goes on afterwards as if it had not been asked.
</system-reminder>

{question}"""


async def show_status(driver: ChatDriver, arguments: str) -> None:
    """Show the session, the model, where requests go, and the settings in effect."""
    chat, parts = driver.chat, driver.chat.parts
    settings = chat.preferences
    key = next((name for name in KEYS if os.environ.get(name)), "none")
    rows = [
        ("turnlog", __version__),
        ("session", parts.recorder.facts.session_id),
        ("directory", str(parts.workspace.cwd)),
        ("model", parts.choice.model),
        ("effort", parts.choice.effort or "not taken by this model"),
        ("output style", settings.output_style or DEFAULT),
        ("server", mask(os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com")),
        ("key", key),
        ("settings", ", ".join(map(str, chat.settings_files)) or "none"),
        ("MCP servers", ", ".join(_servers(driver)) or "none"),
        ("cleanup", _cleanup(settings.cleanup_days)),
    ]
    show_rows(driver, rows)


def _servers(driver: ChatDriver) -> list[str]:
    return [f"{each['name']} ({each['status']})" for each in driver.chat.server_states]


def _cleanup(days: int | None) -> str:
    if days is None:
        return "turnlog deletes no sessions"
    return f"cleanupPeriodDays is {days}: Claude Code deletes older sessions, turnlog none"


async def plan(driver: ChatDriver, arguments: str) -> None:
    """Switch to plan mode; if already in it, show the approved plan."""
    path = plan_file(driver.store, driver.chat.parts)
    is_planning = driver.chat.parts.rules.mode is ApprovalMode.PLAN
    if is_planning and not arguments and path.is_file():
        driver.screen.show(ScrollbackItem([path.read_text("utf-8")], is_markdown=True))
        return
    driver.set_mode(ApprovalMode.PLAN)
    if arguments:
        await driver.send(arguments, "typed")
    else:
        driver.display.note("plan mode: nothing is changed until you approve a plan")


async def branch(driver: ChatDriver, arguments: str) -> None:
    """Continue in a copy of the session; the original stays as it is."""
    recorder = driver.chat.parts.recorder
    if not recorder.chain:
        raise UsageError("there is no conversation to branch off yet")
    before = recorder.facts.session_id[:8]
    await driver.switch("resume", resume=recorder.path, is_fork=True, name=arguments or None)
    driver.display.note(f"a branch of {before}; go back with /resume {before}")


async def ask_on_the_side(driver: ChatDriver, arguments: str) -> None:
    """Ask a question that does not become part of the conversation."""
    if not arguments:
        raise UsageError("no question given", "/btw QUESTION")
    parts = driver.chat.parts
    asked = meta(ASIDE.format(question=arguments), None)
    messages = messages_of([*parts.recorder.chain, asked], is_open=True)
    driver.display.start()
    try:
        answer = await ask_aside(parts, request_with(parts, messages), None)
    finally:
        driver.display.finish()
    driver.display.meter.total += price_of(answer.model, answer.usage)
    driver.screen.show(ScrollbackItem([answer.text or "(no answer)"], is_markdown=True))


async def init(driver: ChatDriver, arguments: str) -> None:
    """Let the model write CLAUDE.md."""
    await driver.send(init_prompt(arguments), "typed")


async def review(driver: ChatDriver, arguments: str) -> None:
    """Let the model review changes: those of a pull request, or of this branch."""
    await driver.send(review_prompt(arguments), "typed")


async def review_security(driver: ChatDriver, arguments: str) -> None:
    """Let the model review this branch for security."""
    await driver.send(security_prompt(arguments), "typed")
