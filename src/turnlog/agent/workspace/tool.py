"""The tool interface: name, input, accesses and the function that runs it."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.workspace.access import Access, Basis
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.workspace import DirectoryIdentity, Workspace
from turnlog.format.json_values import Fields

Output = Callable[[str], None]
"""Called with the output of a call while it runs."""


class ToolOutcome(Struct, frozen=True):
    """The outcome of a call."""

    content: str | list[Fields]
    """The result that the model sees: text, or blocks."""
    data: Any = None
    """The structured result that the session records as `toolUseResult`."""
    is_error: bool = False
    wants: str = ""
    """What a command was refused that ran read-only: the reason to ask and run it again."""
    ends_turn: bool = False
    """True if the turn ends here: the call was the model's answer."""


class ToolError(Exception):
    """A call failed; the message goes to the model."""


class Grant(Struct, frozen=True):
    """The basis on which a call was allowed, and exactly what was allowed."""

    basis: Basis
    targets: Mapping[Path, Path] | None = None
    """Resolved target of each path when permission was decided; None if nothing was decided."""
    directory: DirectoryIdentity | None = None
    """The working directory that the decision is about; None if it applies to any."""
    profile: Profile | None = None
    """The sandbox profile of a command that the model calls; None if the user types it."""
    call_id: str = ""
    """The approved call; empty for commands that the user runs."""

    def target(self, path: Path) -> Path:
        """Return the target of a path when permission was decided; raise if it was not covered."""
        if self.targets is None:
            return Path(os.path.realpath(path))
        if path not in self.targets:
            raise ToolError(f"No permission was decided for {path}")
        return self.targets[path]


BY_USER = Grant(Basis.USER)
"""The grant for what a person runs directly, such as `!make` at the prompt."""


class Tool(Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str
    schema: Fields
    """JSON Schema of its input."""
    read: Callable[[Fields], Any]
    """Decodes an input; raises `ToolError` if it is invalid."""
    touches: Callable[[Any, Workspace], Sequence[Access]]
    """Returns what a call would access."""
    execute: Callable[[Any, Workspace, Output, Grant], Awaitable[ToolOutcome]]
    """Runs a call; raises `ToolError` if it fails; may be cancelled at any moment."""
    is_parallel: bool = False
    """True if calls may run in parallel with others, as they change nothing."""
    server: str | None = None
    """The MCP server it belongs to, as spelled in the tool's name."""
    check: Callable[[Any, Workspace, Grant], Awaitable[None]] | None = None
    """Raises `ToolError` if a call is bound to fail, so that the user is not asked in vain. It must
    not reveal what the model does not know: nothing has been allowed yet."""

    def run(
        self, value: Any, workspace: Workspace, output: Output, grant: Grant = BY_USER
    ) -> Awaitable[ToolOutcome]:
        """Run a call under its grant; without one, as if the user had started it."""
        return self.execute(value, workspace, output, grant)
