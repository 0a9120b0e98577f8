"""The Skill tool, and the list of skills in the system prompt."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated

from msgspec import Meta

from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace

NAME = "Skill"
DESCRIPTION = """\
Take up a skill: instructions for a kind of task, written by the user or for the project. Call it \
before anything else when a task is one that a skill is for, and then do as it says. Only skills \
that you were told of exist."""
LONGEST = 1_536
"""Maximum characters of one description."""
BUDGET = 8_000
"""Maximum characters of all descriptions; names are always listed."""

Expand = Callable[[CustomCommand, str], Awaitable[str]]
"""Returns the expanded text of a command; raises `ToolError` on failure."""


class SkillInput(Input, frozen=True):
    """Input of Skill."""

    skill: Annotated[str, Meta(description="Its name")]
    args: Annotated[str | None, Meta(description="Its arguments, if it takes any")] = None


def for_model(commands: Mapping[str, CustomCommand]) -> dict[str, CustomCommand]:
    """Return the commands that the model may invoke."""
    return {each.name: each for each in commands.values() if each.for_model and each.description}


def listing(commands: Iterable[CustomCommand], budget: int = BUDGET) -> str:
    """Return the list of skills for the model: names, and descriptions as space permits."""
    lines: list[str] = []
    for command in sorted(commands, key=lambda each: each.name):
        line = f"- {command.name}: {command.description[:LONGEST]}"
        budget -= len(line)
        # Beyond the budget a skill keeps its name, so that the model can still invoke it.
        lines.append(line if budget >= 0 else f"- {command.name}")
    return "\n".join(lines)


def skill_text(command: CustomCommand, body: str) -> str:
    """Return a skill's text for the model, with the directory of its files."""
    folder = f"Base directory for this skill: {command.path.parent}\n\n" if command.is_skill else ""
    return f"{folder}{body}"


def _name(given: SkillInput) -> str:
    """Return the skill's name without the slash of `/deploy`, so that rules match it."""
    return given.skill.strip().lstrip("/")


def skill_tool(commands: Mapping[str, CustomCommand], expand: Expand) -> Tool:
    """Return the Skill tool."""

    def touches(given: SkillInput, workspace: Workspace) -> list[Uses]:
        return [Uses(_name(given))]

    async def run(
        given: SkillInput, workspace: Workspace, output: Output, grant: Grant
    ) -> ToolOutcome:
        command = commands.get(_name(given))
        if command is None:
            raise ToolError(f"Unknown skill {given.skill}; available: {', '.join(commands)}")
        text = skill_text(command, await expand(command, given.args or ""))
        return ToolOutcome(text, {"success": True, "commandName": command.name})

    return Tool(NAME, DESCRIPTION, schema_of(SkillInput), reader_of(SkillInput), touches, run)
