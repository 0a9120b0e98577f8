"""Structured output: the model answers a prompt with a call whose input follows a JSON Schema."""

from typing import Any

from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_object, parse_json

NAME = "StructuredOutput"
DESCRIPTION = """\
Give your final answer: call this tool once, at the end, with an input that follows its schema. \
The input is the answer; nothing that you write besides is read."""
DEMAND = f"Your answer is still missing: call the tool {NAME} now, with the answer as its input."
MOST_ATTEMPTS = 5
"""Answers without a valid call before the turn fails, as in the client (observed: 2.1.325)."""
FLAG = "--json-schema"


class StructuredOutput:
    """Receives the answer of a turn as data."""

    def __init__(self, schema: Fields) -> None:
        self.schema = schema
        self.value: Any = None
        """The answer; None until the model has given it."""
        self.attempts = 0

    def begin_turn(self) -> None:
        """Forget the answer of the previous turn."""
        self.value, self.attempts = None, 0

    def demand(self) -> str | None:
        """Return a reminder to answer; None if the model has answered or failed too often."""
        self.attempts += 1
        return DEMAND if self.value is None and self.attempts < MOST_ATTEMPTS else None

    def tool(self) -> Tool:
        """Return the tool that takes the answer."""
        return Tool(NAME, DESCRIPTION, self.schema, lambda given: given, _touches, self._run)

    async def _run(
        self, given: Fields, workspace: Workspace, output: Output, grant: Grant
    ) -> ToolOutcome:
        from jsonschema import Draft202012Validator

        validator: Any = Draft202012Validator(self.schema)
        errors = sorted(validator.iter_errors(given), key=str)
        if errors:
            self.attempts += 1
            problems = [f"{each.json_path}: {each.message}" for each in errors[:5]]
            text = f"Output does not match required schema: {'; '.join(problems)}"
            is_last = self.attempts >= MOST_ATTEMPTS
            return ToolOutcome(text, f"Error: {text}", is_error=True, ends_turn=is_last)
        self.value = given
        text = "Structured output provided successfully"
        return ToolOutcome(text, text, ends_turn=True)


def _touches(given: Fields, workspace: Workspace) -> list[Uses]:
    return [Uses()]


def read_schema(text: str | None) -> Fields | None:
    """Return the JSON Schema given on the command line."""
    if text is None:
        return None
    from jsonschema import Draft202012Validator, SchemaError

    hint = f'{FLAG} \'{{"type": "object"}}\''
    try:
        schema = parse_json(text)
        Draft202012Validator.check_schema(schema)
    except ValueError as error:
        raise UsageError(f"{FLAG} is not JSON: {error}", hint) from error
    except SchemaError as error:
        raise UsageError(f"{FLAG} is not a JSON Schema: {error.message}", hint) from error
    # The input of a tool is an object.
    if not is_object(schema) or schema.get("type") != "object":
        raise UsageError(f"{FLAG} must describe an object", hint)
    return schema
