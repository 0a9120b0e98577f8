"""AskUserQuestion: let the user choose between options.

The front end asks and adds `answers` to the input when the call is approved, as hosts of the Agent
SDK do; the tool itself only reports them.
"""

from typing import Annotated

from msgspec import Meta, Struct

from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields

NAME = "AskUserQuestion"
DESCRIPTION = """\
Ask the user one to four questions with options to choose from, where their answer changes what \
you do: requirements that are unclear, a choice between designs, a preference. The user can \
always give another answer in their own words, so add no option for that. Put the option that \
you recommend first. Do not ask for permission with it, nor whether a plan is fine: that is what \
ExitPlanMode is for."""
ANSWERED = (
    "Your questions have been answered: {pairs}. You can now continue with these answers in mind."
)


class QuestionOption(Struct, frozen=True):
    """One option of a question."""

    label: Annotated[str, Meta(description="The option, in one to five words")]
    description: Annotated[str, Meta(description="What it means or what follows from it")] = ""


class UserQuestion(Struct, frozen=True, rename={"multi_select": "multiSelect"}):
    """A question with options."""

    question: Annotated[str, Meta(description="The whole question")]
    header: Annotated[str, Meta(description="A label of at most 12 characters")]
    options: Annotated[list[QuestionOption], Meta(min_length=2, max_length=4)]
    multi_select: Annotated[bool, Meta(description="True if several options may be chosen")] = False


class AskInput(Input, frozen=True):
    """Input of AskUserQuestion."""

    questions: Annotated[list[UserQuestion], Meta(min_length=1, max_length=4)]
    answers: Annotated[
        dict[str, str] | None, Meta(description="Filled in by the user; leave it out")
    ] = None
    annotations: Annotated[
        dict[str, Fields] | None, Meta(description="Filled in by the user; leave it out")
    ] = None


def touches(given: AskInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]


async def run(given: AskInput, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
    if not given.answers:
        raise ToolError("The user gave no answer")
    pairs = ", ".join(f'"{asked}"="{answer}"' for asked, answer in given.answers.items())
    questions = [
        {
            "question": each.question,
            "header": each.header,
            "options": [
                {"label": one.label, "description": one.description} for one in each.options
            ],
            "multiSelect": each.multi_select,
        }
        for each in given.questions
    ]
    data: Fields = {"questions": questions, "answers": given.answers}
    return ToolOutcome(
        ANSWERED.format(pairs=pairs), data | {"annotations": given.annotations or {}}
    )


ASK_USER_QUESTION = Tool(NAME, DESCRIPTION, schema_of(AskInput), reader_of(AskInput), touches, run)
