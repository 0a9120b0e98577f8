"""Shell commands in the text of a command: run only where a rule allows them, never asked about."""

import asyncio

from turnlog.agent.permissions import VerdictKind
from turnlog.agent.permissions.consent import Rules
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Runs
from turnlog.agent.workspace.tool import Grant, ToolError
from turnlog.agent.workspace.workspace import Workspace


async def run_injected(text: str, workspace: Workspace, rules: Rules) -> str:
    """What a shell command prints; one that is not allowed, or fails, is a `ToolError`."""
    directory = workspace.settle()
    access = Runs(text, running=workspace.activity.running)
    verdict = await asyncio.to_thread(rules.decide, "Bash", [access], workspace)
    if verdict.kind is not VerdictKind.ALLOW:
        raise ToolError(f"`{text}` may not run: {verdict.reason}; see allowed-tools")
    given = BASH.read({"command": text})
    guards_git = verdict.guards_git
    grant = Grant(
        verdict.basis, {}, directory, verdict.command, verdict.footprint, guards_git=guards_git
    )
    outcome = await BASH.run(given, workspace, lambda printed: None, grant)
    if outcome.is_error:
        raise ToolError(f"`{text}` failed: {outcome.content}")
    return str(outcome.content)
