"""EnterPlanMode and ExitPlanMode: plan first, and work once the user approves the plan.

Both calls always ask the user. An approved plan is saved where the client keeps plans.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.inputs import Input, reader_of, schema_of
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields
from turnlog.format.private_files import create_private_folder, write_private
from turnlog.store.paths import Store
from turnlog.store.symlinks import find_link

ENTER, EXIT = "EnterPlanMode", "ExitPlanMode"
ENTERING = """\
Switch to plan mode, if the task is large or can be solved in several ways: in it nothing is \
changed, and you work out a plan that the user approves. The user is asked first."""
EXITING = """\
In plan mode: show the user your plan, and ask whether to start with it. Call this only when the \
plan is complete and it is about writing code; research needs no plan. Questions that the plan \
depends on come before, with AskUserQuestion."""
ENTERED = """\
Plan mode is on: do not change anything, with any tool. Find out what you need to know, work out \
a plan, and show it with ExitPlanMode."""
APPROVED = """\
User has approved your plan. You can now start coding. Start with updating your todo list if \
applicable

Your plan has been saved to: {path}
You can refer back to it if needed during implementation.

## Approved Plan:
{plan}"""


class EnterPlanInput(Input, frozen=True):
    """Input of EnterPlanMode, which has no parameters."""


class ExitPlanInput(Input, frozen=True, rename={"allowed_prompts": "allowedPrompts"}):
    """Input of ExitPlanMode."""

    plan: Annotated[str, Meta(description="The plan, in Markdown", min_length=1)]
    allowed_prompts: Annotated[
        list[Fields] | None, Meta(description="Ignored: rules allow commands, not plans")
    ] = None


def plan_file(store: Store, parts: Parts) -> Path:
    """Return the file of a session's plan."""
    return store.plans / f"{parts.recorder.facts.slug}.md"


@dataclass(frozen=True)
class PlanApproval:
    """The plan-mode tools of one conversation."""

    store: Store
    parts: Parts

    def tools(self) -> list[Tool]:
        """Return the two tools."""
        enter, leave = EnterPlanInput, ExitPlanInput
        return [
            Tool(ENTER, ENTERING, schema_of(enter), reader_of(enter), _touches, self._enter),
            Tool(EXIT, EXITING, schema_of(leave), reader_of(leave), _touches, self._exit),
        ]

    async def _enter(
        self, given: EnterPlanInput, workspace: Workspace, output: Output, grant: Grant
    ) -> ToolOutcome:
        self._switch(ApprovalMode.PLAN)
        return ToolOutcome(ENTERED, {"message": "Entered plan mode"})

    async def _exit(
        self, given: ExitPlanInput, workspace: Workspace, output: Output, grant: Grant
    ) -> ToolOutcome:
        # The user may have approved the plan by choosing another mode, which is then already set.
        if self.parts.rules.mode is ApprovalMode.PLAN:
            self._switch(ApprovalMode.DEFAULT)
        path = plan_file(self.store, self.parts)
        if find_link(self.store.root, path):  # a link could point to any file of the user
            raise ToolError(f"The plan cannot be saved: {path} is a link")
        create_private_folder(path.parent)
        write_private(path, given.plan.encode())
        data = {"plan": given.plan, "isAgent": False, "filePath": str(path)}
        return ToolOutcome(APPROVED.format(path=path, plan=given.plan), data)

    def _switch(self, mode: ApprovalMode) -> None:
        self.parts.rules.mode = mode
        self.parts.hooks.facts.permission_mode = mode.value


def _touches(given: EnterPlanInput | ExitPlanInput, workspace: Workspace) -> list[Uses]:
    return [Uses()]
