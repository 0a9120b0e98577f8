"""Calls of the agent's tools in a directory of their own, and what a session keeps of them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, call, result, session
from turnlog.agent.tools.toolbox import TOOLS
from turnlog.agent.workspace.tool import BY_USER, Grant, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file


class Calls:
    """Runs tools as the loop does, and records their outcomes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.root.mkdir()
        self.workspace = Workspace(self.root, folder / "session", self.root)
        self.tools: dict[str, Tool] = dict(TOOLS)
        self.printed: list[str] = []
        self.lines: list[bytes] = []

    async def start(self, tool: str, **fields: Any) -> ToolOutcome:
        """Carry out a call, within a test's own loop."""
        return await self.admitted(BY_USER, tool, fields)

    async def admitted(self, grant: Grant, tool: str, fields: Fields) -> ToolOutcome:
        """Carry out a call as it was admitted."""
        value = self.tools[tool].read(fields)
        assert self.tools[tool].touches(value, self.workspace)
        outcome = await self.tools[tool].run(value, self.workspace, self.printed.append, grant)
        self._keep(tool, fields, outcome)
        return outcome

    def run(self, tool: str, **fields: Any) -> ToolOutcome:
        """Carry out a call."""
        return asyncio.run(self.start(tool, **fields))

    def run_by(self, grant: Grant, tool: str, **fields: Any) -> ToolOutcome:
        """Carry out a call as it was admitted."""
        return asyncio.run(self.admitted(grant, tool, fields))

    def text(self, tool: str, **fields: Any) -> str:
        """Run a call that succeeds; return the text that the model gets."""
        outcome = self.run(tool, **fields)
        assert not outcome.is_error
        assert isinstance(outcome.content, str)
        return outcome.content

    def blocks(self, tool: str, **fields: Any) -> list[Fields]:
        """The blocks that the model is given of a call that succeeds."""
        outcome = self.run(tool, **fields)
        assert not outcome.is_error
        assert isinstance(outcome.content, list)
        return outcome.content

    def refusal(self, tool: str, **fields: Any) -> str:
        """Run a call that fails; return the error that the model gets."""
        with pytest.raises(ToolError) as refused:
            self.run(tool, **fields)
        return str(refused.value)

    def file(self, name: str, content: str | bytes) -> Path:
        """A file in the working directory."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def unknown(self, path: Path) -> list[str]:
        """Write the calls as a session; return fields that the format does not know."""
        path.write_bytes(session(*self.lines))
        found = survey_file(path)
        assert not found.problems
        fields = [name for (name, known) in found.count_fields() if not known]
        return fields + list(found.misfits)

    def _keep(self, tool: str, fields: Fields, outcome: ToolOutcome) -> None:
        name = f"toolu_{len(self.lines)}"
        self.lines.append(assistant(call(tool, fields, name)))
        kept = {"tool_use_result": outcome.data}
        self.lines.append(result(name, outcome.content, outcome.is_error, **kept))
