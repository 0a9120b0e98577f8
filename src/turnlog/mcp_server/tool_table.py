"""The tools: names, schemas and functions, in one table."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from turnlog.mcp_server.answers import ToolAnswer
from turnlog.mcp_server.visible_sessions import History

Schema = dict[str, Any]
KIND_NAMES = ("title", "prompt", "answer", "thinking", "input", "result", "summary", "note")


def _text(about: str, longest: int = 400) -> Schema:
    return {"type": "string", "description": about, "minLength": 1, "maxLength": longest}


def _number(about: str, most: int) -> Schema:
    return {"type": "integer", "description": about, "minimum": 1, "maximum": most}


def _flag(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def _one_of(about: str, values: tuple[str, ...]) -> Schema:
    return {"type": "string", "description": about, "enum": list(values)}


def _several_of(about: str, values: tuple[str, ...]) -> Schema:
    items = {"type": "string", "enum": list(values)}
    return {"type": "array", "description": about, "items": items, "maxItems": len(values)}


SINCE = _text("Only from then on: 2026-11-02, 3d, yesterday", 40)
UNTIL = _text("Only until then", 40)
SCOPE = _one_of("`all` projects only works if the user allowed it", ("project", "all"))
CURSOR = _text("From the previous answer, to continue it", 40)
SESSION = _text("Id of a session, the start of one, or `last`", 240)
REPORTS = tuple(
    "daily weekly monthly session project model tool file branch hour errors latency rereads"
    " cache".split()
)
DIMENSIONS = ("day", "week", "month", "project", "branch", "model", "session")


class HistoryTool(NamedTuple):
    """A tool as clients see it, and the function that runs it."""

    title: str
    description: str
    properties: dict[str, Schema]
    required: tuple[str, ...]
    function: str
    """`module:function`; the module is imported when the tool is first called."""

    @property
    def schema(self) -> Schema:
        """The JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": self.properties | {"scope": SCOPE, "cursor": CURSOR},
            "required": list(self.required),
            "additionalProperties": False,
        }

    def load(self) -> Callable[[History, dict[str, Any]], ToolAnswer]:
        """Import the function."""
        module, _, name = self.function.partition(":")
        return getattr(import_module(f"turnlog.mcp_server.{module}"), name)


TOOLS = {
    "search": HistoryTool(
        "Search earlier sessions",
        "Search everything said and done in earlier sessions of this project: prompts, answers,"
        " commands, outputs. Use it when the user refers to past work or a decision, or before"
        ' redoing something. Words, "phrases", prefix*, OR, NOT, or a question. Returns the best'
        " sessions with cited snippets and how each turn ended.",
        {
            "query": _text("Words that the session would contain, or a question", 1_000),
            "kinds": _several_of("Only these kinds of text", KIND_NAMES),
            "tool": _text("Only calls of this tool, such as Bash", 100),
            "file": _text("Only calls on this file: a path or the end of one", 1_000),
            "errors": _flag("Only failed calls and API errors"),
            "branch": _text("Only this git branch"),
            "session": SESSION,
            "since": SINCE,
            "until": UNTIL,
            "like": _flag("Search by meaning, in any words; a session id finds related sessions"),
            "regex": _flag("The query is a regular expression"),
            "limit": _number("Sessions, by default 6", 25),
        },
        ("query",),
        "search_tool:search",
    ),
    "sessions": HistoryTool(
        "List sessions, or describe one",
        "List earlier sessions, newest first, with title, date, turns and cost. With `session`:"
        " its prompts, files, calls, cost and how it ended. Use it to continue earlier work.",
        {
            "session": SESSION,
            "since": SINCE,
            "until": UNTIL,
            "branch": _text("Only this git branch"),
            "model": _text("Part of a model's name", 100),
            "tool": _text("Only sessions that called this tool", 100),
            "file": _text("Only sessions that touched this file", 1_000),
            "limit": _number("Sessions, by default 30", 200),
        },
        (),
        "session_tools:list_sessions",
    ),
    "read": HistoryTool(
        "Read a transcript",
        "Read an earlier session: the turn around a reference from another tool, a turn, or a range"
        " of turns. Outputs are folded unless `full`.",
        {
            "ref": _text("A reference such as 5e551011:120, or the id of a session", 240),
            "turn": _number("Read this turn instead", 1_000_000),
            "to_turn": _number("Read up to this turn", 1_000_000),
            "full": _flag("Whole outputs instead of folded ones"),
            "thinking": _flag("Include thinking"),
        },
        ("ref",),
        "session_tools:read",
    ),
    "files": HistoryTool(
        "A file in the past",
        "Who changed a file, when and why: its changes over all sessions, newest first, each with"
        " prompt and diff. With `at`, or `session` and `at`: its whole content at that moment, also"
        " if it is lost since.",
        {
            "path": _text("Path of the file, or the end of it", 1_000),
            "session": SESSION,
            "at": _text("A time; with `session` also a turn (3) or line:120", 60),
            "limit": _number("Changes, by default 20", 200),
        },
        ("path",),
        "file_tool:files",
    ),
    "usage": HistoryTool(
        "Tokens, cost and time",
        "What sessions used: tokens, cost in dollars, time, calls and errors, in total and by day,"
        " week, month, session, project, model, branch, tool or file.",
        {
            "report": _one_of("Rows of the table, by default daily", REPORTS),
            "by": _several_of("Group further by these", DIMENSIONS),
            "session": SESSION,
            "since": SINCE,
            "until": UNTIL,
            "model": _text("Part of a model's name", 100),
        },
        (),
        "usage_tool:usage",
    ),
    "context": HistoryTool(
        "Context of a session",
        "The messages that the client would send if a session were resumed, with their sizes: what"
        " survived compaction and what fills the context.",
        {"session": SESSION},
        ("session",),
        "session_tools:context",
    ),
    "errors": HistoryTool(
        "How was this error fixed?",
        "Call this when a command or test fails: finds earlier failures of the same command or with"
        " the same message, the calls that followed, and the call that finally worked.",
        {
            "command": _text("The command that fails", 2_000),
            "message": _text("The error message, or its telling part", 4_000),
            "limit": _number("Failures, by default 5", 25),
        },
        (),
        "errors_tool:errors",
    ),
}


def list_tools() -> list[dict[str, Any]]:
    """Return the tools as the protocol lists them."""
    return [
        {
            "name": name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.schema,
            # Hints for clients that ask before a call.
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
        for name, tool in TOOLS.items()
    ]
