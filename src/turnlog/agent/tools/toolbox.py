"""The table of tools that the model may call."""

from collections.abc import Container, Iterable

from turnlog.agent.tools.bash import BASH
from turnlog.agent.tools.bash_output import BASH_OUTPUT
from turnlog.agent.tools.edit import EDIT
from turnlog.agent.tools.glob import GLOB
from turnlog.agent.tools.grep import GREP
from turnlog.agent.tools.notebook_edit import NOTEBOOK_EDIT
from turnlog.agent.tools.read import READ
from turnlog.agent.tools.task_output import TASK_OUTPUT
from turnlog.agent.tools.task_stop import KILL_SHELL, TASK_STOP
from turnlog.agent.tools.task_tracking import CREATE, GET, LIST, UPDATE
from turnlog.agent.tools.todo_write import TODO_WRITE
from turnlog.agent.tools.web_fetch import WEB_FETCH
from turnlog.agent.tools.web_search import WEB_SEARCH
from turnlog.agent.tools.write import WRITE
from turnlog.agent.workspace.tool import Tool
from turnlog.format.json_values import Fields
from turnlog.format.tools import RENAMED

Toolbox = dict[str, Tool]


def toolbox(*tools: Tool) -> Toolbox:
    """Return the built-in tools together with those of sub-agents and MCP servers."""
    return TOOLS | {tool.name: tool for tool in tools}


def offered_name(name: str, offered: Container[str]) -> str:
    """Return the current name of a tool that the model may call by a former name.

    >>> offered_name("Task", {"Agent"}), offered_name("Task", {"Task", "Agent"})
    ('Agent', 'Task')
    """
    current = RENAMED.get(name, name)
    return current if name not in offered and current in offered else name


def definitions(tools: Iterable[Tool]) -> list[Fields]:
    """Return the tool definitions of a Messages API request."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in tools
    ]


TOOLS: Toolbox = {
    tool.name: tool
    for tool in (
        BASH,
        BASH_OUTPUT,
        KILL_SHELL,
        READ,
        EDIT,
        WRITE,
        NOTEBOOK_EDIT,
        GLOB,
        GREP,
        TASK_OUTPUT,
        TASK_STOP,
        CREATE,
        UPDATE,
        GET,
        LIST,
        TODO_WRITE,
        WEB_FETCH,
        WEB_SEARCH,
    )
}
