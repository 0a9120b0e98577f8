"""turnlog: read, search, measure and edit the session files of Claude Code."""

# Type checkers treat this name as True; importing `typing` would take longer than `--help`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog.api import Log, LoggedSession, SessionEdit, open  # noqa: A004 - as gzip.open
    from turnlog.conversation.session import open_session
    from turnlog.errors import TurnlogError
    from turnlog.format.decode import Problem, read_entries
    from turnlog.format.jsonl import append_lines, read_lines
    from turnlog.store.catalog import describe, list_sessions
    from turnlog.store.paths import open_store
    from turnlog.store.session_lookup import find_session

__version__ = "0.1.0"

__all__ = [
    "Log",
    "LoggedSession",
    "Problem",
    "SessionEdit",
    "TurnlogError",
    "append_lines",
    "describe",
    "find_session",
    "list_sessions",
    "open",
    "open_session",
    "open_store",
    "read_entries",
    "read_lines",
]

_HOMES = {
    "Log": "turnlog.api",
    "LoggedSession": "turnlog.api",
    "Problem": "turnlog.format.decode",
    "SessionEdit": "turnlog.api",
    "TurnlogError": "turnlog.errors",
    "append_lines": "turnlog.format.jsonl",
    "describe": "turnlog.store.catalog",
    "find_session": "turnlog.store.session_lookup",
    "list_sessions": "turnlog.store.catalog",
    "open": "turnlog.api",
    "open_session": "turnlog.conversation.session",
    "open_store": "turnlog.store.paths",
    "read_entries": "turnlog.format.decode",
    "read_lines": "turnlog.format.jsonl",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import turnlog` alone loads nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'turnlog' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
