"""Typed inputs and results of the known tools.

A result line does not name its tool: pass the name if the call is known, else the shape decides.
Shapes as written by 1.0.60 to 2.1.325 (observed).
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from turnlog.format.blocks import Block
from turnlog.format.fields import (
    CamelView,
    Count,
    Flag,
    Items,
    Number,
    Object,
    SnakeView,
    Text,
    Texts,
)
from turnlog.format.fit import fit
from turnlog.format.json_values import is_array, is_object


class ReadArguments(SnakeView):
    file_path: Text = UNSET
    offset: Number = UNSET
    limit: Number = UNSET
    pages: Text = UNSET


class WriteArguments(SnakeView):
    file_path: Text = UNSET
    content: Text = UNSET


class EditArguments(SnakeView):
    file_path: Text = UNSET
    old_string: Text = UNSET
    new_string: Text = UNSET
    replace_all: Flag = UNSET


class MultiEditArguments(SnakeView):
    file_path: Text = UNSET
    edits: list[EditArguments] | None | UnsetType = UNSET


class NotebookEditArguments(SnakeView):
    notebook_path: Text = UNSET
    cell_id: Text = UNSET
    new_source: Text = UNSET
    cell_type: Text = UNSET
    edit_mode: Text = UNSET


class BashArguments(SnakeView):
    command: Text = UNSET
    description: Text = UNSET
    timeout: Number = UNSET
    run_in_background: Flag = UNSET
    dangerously_disable_sandbox: Flag = field(default=UNSET, name="dangerouslyDisableSandbox")


class GlobArguments(SnakeView):
    pattern: Text = UNSET
    path: Text = UNSET


class GrepArguments(SnakeView):
    pattern: Text = UNSET
    path: Text = UNSET
    glob: Text = UNSET
    type: Text = UNSET
    output_mode: Text = UNSET
    head_limit: Number = UNSET
    multiline: Flag = UNSET
    ignore_case: Flag = field(default=UNSET, name="-i")
    line_numbers: Flag = field(default=UNSET, name="-n")
    lines_after: Number = field(default=UNSET, name="-A")
    lines_before: Number = field(default=UNSET, name="-B")
    lines_around: Number = field(default=UNSET, name="-C")


class AgentArguments(SnakeView):
    description: Text = UNSET
    prompt: Text = UNSET
    subagent_type: Text = UNSET
    model: Text = UNSET
    run_in_background: Flag = UNSET


class TodoWriteArguments(SnakeView):
    todos: Items = UNSET


class TaskCreateArguments(CamelView):
    subject: Text = UNSET
    description: Text = UNSET
    active_form: Text = UNSET
    metadata: Object = UNSET


class TaskUpdateArguments(CamelView):
    task_id: Text = UNSET
    status: Text = UNSET
    subject: Text = UNSET
    description: Text = UNSET
    active_form: Text = UNSET
    owner: Text = UNSET
    add_blocks: Texts = UNSET
    add_blocked_by: Texts = UNSET
    metadata: Object = UNSET


class TaskGetArguments(CamelView):
    task_id: Text = UNSET


class WebSearchArguments(SnakeView):
    query: Text = UNSET
    allowed_domains: Texts = UNSET
    blocked_domains: Texts = UNSET


class WebFetchArguments(SnakeView):
    url: Text = UNSET
    prompt: Text = UNSET


class UnknownArguments(Struct):
    """The input of a tool that turnlog does not know."""

    value: Any


class ReadFile(CamelView):
    """The content that was read: `base64` for images, `content` for text."""

    file_path: Text = UNSET
    content: Text = UNSET
    num_lines: Count = UNSET
    start_line: Count = UNSET
    total_lines: Count = UNSET
    truncated_by_token_cap: Flag = UNSET
    base64: Text = UNSET
    type: Text = UNSET
    original_size: Count = UNSET
    dimensions: Object = UNSET
    cells: Items = UNSET
    count: Count = UNSET
    output_dir: Text = UNSET


class ReadResult(CamelView):
    type: Text = UNSET
    """text, image, pdf, notebook or file_unchanged."""
    file: ReadFile | None | UnsetType = UNSET


class FileChange(CamelView):
    """Fields common to the results of tools that change a file."""

    file_path: Text = UNSET
    structured_patch: Items = UNSET
    original_file: Text = UNSET
    """null for a new file, and for about a fifth of the edits (counted)."""
    user_modified: Flag = UNSET


class WriteResult(FileChange):
    type: Text = UNSET
    """create or update."""
    content: Text = UNSET


class EditResult(FileChange):
    old_string: Text = UNSET
    new_string: Text = UNSET
    replace_all: Flag = UNSET
    stale_recovered: Flag = UNSET


class MultiEditResult(FileChange):
    edits: Items = UNSET
    original_file_contents: Text = UNSET


class BashResult(CamelView):
    stdout: Text = UNSET
    stderr: Text = UNSET
    interrupted: Flag = UNSET
    is_image: Flag = UNSET
    no_output_expected: Flag = UNSET
    return_code_interpretation: Text = UNSET
    timed_out_after_ms: Number = UNSET
    background_task_id: Text = UNSET
    backgrounded_by_user: Flag = UNSET
    """True if the user moved a running command to the background (observed: 2.1.325)."""
    backgrounded_to_deliver_message: Flag = UNSET
    """True if it was moved there so that the model gets a queued prompt (observed: 2.1.325)."""
    background_cwd_hint: Text = UNSET
    persisted_output_path: Text = UNSET
    persisted_output_size: Count = UNSET
    git_operation: Object = UNSET
    bash_edit_diff: Object = UNSET
    stale_read_file_state_hint: Text = UNSET
    token_saver_output: Text = UNSET
    sandbox: Flag = UNSET


class BashOutputResult(CamelView):
    shell_id: Text = UNSET
    command: Text = UNSET
    status: Text = UNSET
    exit_code: Count = UNSET
    stdout: Text = UNSET
    stderr: Text = UNSET
    stdout_lines: Count = UNSET
    stderr_lines: Count = UNSET
    timestamp: Text = UNSET


class GlobResult(CamelView):
    filenames: Texts = UNSET
    duration_ms: Number = UNSET
    num_files: Count = UNSET
    truncated: Flag = UNSET


class GrepResult(CamelView):
    mode: Text = UNSET
    filenames: Texts = UNSET
    num_files: Count = UNSET
    content: Text = UNSET
    num_lines: Count = UNSET
    num_matches: Count = UNSET
    applied_limit: Count = UNSET


class AgentResult(CamelView):
    """The answer of a sub-agent, or the notice that it was started in the background."""

    status: Text = UNSET
    """completed, async_launched or teammate_spawned."""
    agent_id: Text = UNSET
    agent_type: Text = UNSET
    description: Text = UNSET
    prompt: Text = UNSET
    content: list[Block] | None | UnsetType = UNSET
    is_async: Flag = UNSET
    output_file: Text = UNSET
    resolved_model: Text = UNSET
    total_duration_ms: Number = UNSET
    total_tokens: Count = UNSET
    total_tool_use_count: Count = UNSET
    usage: Object = UNSET
    """Usage of the sub-agent's last message only."""
    tool_stats: Object = UNSET
    was_interrupted: Flag = UNSET
    can_read_output_file: Flag = UNSET
    can_continue_agent: Flag = UNSET
    tools_used: Texts = UNSET
    """Names of the tools that a finished sub-agent called (observed: 2.1.325)."""
    harness_note_count: Count = UNSET
    harness_tail_count: Count = UNSET
    harness_section_hash: Text = UNSET
    """16 hex digits; like the two above, set for a finished sub-agent (observed: 2.1.325)."""


class TodoWriteResult(CamelView):
    old_todos: Items = UNSET
    new_todos: Items = UNSET
    verification_nudge_needed: Flag = UNSET


class TaskCreateResult(CamelView):
    """The result of TaskCreate or TaskGet; TaskGet's `task` is null if there is no such task."""

    task: Object = UNSET


class TaskListResult(CamelView):
    tasks: Items = UNSET


class TaskUpdateResult(CamelView):
    success: Flag = UNSET
    task_id: Text = UNSET
    updated_fields: Texts = UNSET
    status_change: Object = UNSET
    verification_nudge_needed: Flag = UNSET
    error: Text = UNSET


class TaskOutputResult(SnakeView):
    retrieval_status: Text = UNSET
    task: Object = UNSET


class WebSearchResult(CamelView):
    query: Text = UNSET
    results: Items = UNSET
    duration_seconds: Number = UNSET


class WebFetchResult(CamelView):
    url: Text = UNSET
    code: Count = UNSET
    code_text: Text = UNSET
    bytes: Count = UNSET
    result: Text = UNSET
    duration_ms: Number = UNSET


class ErrorResult(Struct):
    """A plain string: the call failed or was denied."""

    text: str


class ContentResult(Struct):
    """A list of content blocks, as returned by MCP tools."""

    items: list[Any]


class UnknownResult(Struct):
    """A result whose tool and shape turnlog does not know."""

    value: Any


def input_of(tool: str | None, value: Any) -> Struct:
    """Return the typed input of a call to `tool`.

    >>> input_of("Bash", {"command": "ls"}).command
    'ls'
    """
    kind = INPUTS.get(tool or "")
    return fit(kind, value, []) if kind and is_object(value) else UnknownArguments(value)


def result_of(value: Any, tool: str | None = None) -> Struct:
    """Return a typed `toolUseResult`, by the tool's name or else by its shape.

    >>> result_of("Error: no such file")
    ErrorResult(text='Error: no such file')
    """
    if isinstance(value, str):
        return ErrorResult(value)
    if is_array(value):
        return ContentResult(value)
    if not is_object(value):
        return UnknownResult(value)
    # The name wins over the shape: results of different tools share keys, such as `filePath`.
    kind = RESULTS.get(tool or "") or result_type_of(value)
    return fit(kind, value, []) if kind else UnknownResult(value)


def result_type_of(value: dict[str, Any]) -> type[Struct] | None:
    """Return the type that matches the shape of a result, or None."""
    return next((kind for keys, kind in SHAPES if keys <= value.keys()), None)


INPUTS: dict[str, type[Struct]] = {
    "Read": ReadArguments,
    "Write": WriteArguments,
    "Edit": EditArguments,
    "MultiEdit": MultiEditArguments,
    "NotebookEdit": NotebookEditArguments,
    "Bash": BashArguments,
    "Glob": GlobArguments,
    "Grep": GrepArguments,
    "Task": AgentArguments,
    "Agent": AgentArguments,
    "TodoWrite": TodoWriteArguments,
    "TaskCreate": TaskCreateArguments,
    "TaskUpdate": TaskUpdateArguments,
    "TaskGet": TaskGetArguments,
    "WebSearch": WebSearchArguments,
    "WebFetch": WebFetchArguments,
}

RESULTS: dict[str, type[Struct]] = {
    "Read": ReadResult,
    "Write": WriteResult,
    "Edit": EditResult,
    "MultiEdit": MultiEditResult,
    "Bash": BashResult,
    "BashOutput": BashOutputResult,
    "Glob": GlobResult,
    "Grep": GrepResult,
    "Task": AgentResult,
    "Agent": AgentResult,
    "TodoWrite": TodoWriteResult,
    "TaskCreate": TaskCreateResult,
    "TaskUpdate": TaskUpdateResult,
    "TaskGet": TaskCreateResult,
    "TaskList": TaskListResult,
    "TaskOutput": TaskOutputResult,
    "WebSearch": WebSearchResult,
    "WebFetch": WebFetchResult,
}

SHAPES: tuple[tuple[set[str], type[Struct]], ...] = (
    ({"shellId", "stdout"}, BashOutputResult),
    ({"stdout", "stderr"}, BashResult),
    ({"type", "file"}, ReadResult),
    ({"filePath", "oldString", "newString"}, EditResult),
    ({"filePath", "edits"}, MultiEditResult),
    ({"filePath", "content"}, WriteResult),
    ({"mode", "filenames"}, GrepResult),
    ({"filenames", "truncated"}, GlobResult),
    ({"agentId"}, AgentResult),
    ({"totalTokens", "totalToolUseCount"}, AgentResult),
    ({"oldTodos", "newTodos"}, TodoWriteResult),
    ({"taskId", "updatedFields"}, TaskUpdateResult),
    ({"retrieval_status", "task"}, TaskOutputResult),
    ({"task"}, TaskCreateResult),
    ({"tasks"}, TaskListResult),
    ({"query", "results"}, WebSearchResult),
    ({"url", "codeText"}, WebFetchResult),
)
"""Keys that identify a result; the first match counts, so more specific sets come first."""

KNOWN_TOOLS = INPUTS.keys() | frozenset(
    """AskUserQuestion BashOutput EnterPlanMode ExitPlanMode EnterWorktree ExitWorktree KillBash
    KillShell LS LSP ListMcpResourcesTool Monitor NotebookRead PowerShell ReadMcpResourceTool
    ScheduleWakeup SendMessage SendUserMessage Skill SlashCommand StructuredOutput TaskList
    TaskOutput TaskStop TeamCreate TeamDelete TodoRead ToolSearch Workflow CronCreate CronDelete
    CronList""".split()
)
"""The client's own tools, typed here or not; those of MCP servers start with `mcp__`."""

RENAMED = {"Task": "Agent"}
"""Former names of tools. Client 2.1.325 offers only `Agent` but still runs calls of `Task`
(observed).
"""

CHANGING = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
"""Tools that change the file they name."""
