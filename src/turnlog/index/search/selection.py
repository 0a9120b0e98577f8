"""Translate search filters into SQL conditions on the index's tables."""

from json import dumps

from msgspec import Struct
from msgspec.structs import asdict

KINDS = ("title", "prompt", "answer", "thinking", "input", "result", "summary", "note")
ROLES = {
    "user": ("prompt", "note"),
    "assistant": ("answer", "thinking", "input", "summary"),
    "tool": ("result",),
}
"""The kinds of texts that each role writes."""


class Selection(Struct, frozen=True):
    """Filters for a search; unset ones match everything."""

    kinds: tuple[str, ...] = ()
    project: str | None = None
    """A substring of the working directory."""
    folder: str | None = None
    """The name of the project's folder in the store."""
    since: float | None = None
    """Seconds since 1970."""
    until: float | None = None
    tool: str | None = None
    model: str | None = None
    """A substring of the name of a model that answered in the turn."""
    branch: str | None = None
    """The git branch of the turn."""
    errors: bool = False
    """Only failed calls and API errors."""
    file: str | None = None
    """A file that a call read or changed: its path, or a suffix of it."""
    session: str | None = None
    """A session id, which includes its sub-agents, or the path of a file."""
    store: str | None = None
    """The directory of a store."""
    no_subagents: bool = False
    numbers: tuple[int, ...] = ()
    """Only sessions with these numbers in the index, and their sub-agents."""


Values = dict[str, str | float | None]


def conditions(selection: Selection) -> tuple[str, Values]:
    """Return the condition for a row `d` of `docs`, and the values bound in it."""
    active = {name: value for name, value in asdict(selection).items() if value}
    values: Values = {**active, "kinds": f" {' '.join(selection.kinds)} "}
    if selection.file:
        # Sessions from Windows contain backslashes; a filter may use either separator.
        values["file"] = selection.file.replace("\\", "/")
    if selection.numbers:
        values["numbers"] = dumps(selection.numbers)
    return " AND ".join(["1", *(CONDITIONS[name] for name in active)]), values


_MODEL = "instr(lower(model), lower(:model))"
_AT = "coalesce(d.at, (SELECT ended FROM files WHERE id = d.file))"
_PATH = "replace(path, '\\', '/')"
TOUCHED = f"({_PATH} = :file OR substr({_PATH}, -length(:file) - 1) = '/' || :file)"
CONDITIONS = {
    "kinds": "instr(:kinds, ' ' || d.kind || ' ')",
    "project": "d.file IN (SELECT id FROM files"
    " WHERE instr(lower(coalesce(project, path)), lower(:project)))",
    "folder": "d.file IN (SELECT id FROM files WHERE instr(path, '/' || :folder || '/'))",
    "since": f"{_AT} >= :since",
    "until": f"{_AT} < :until",
    "tool": "lower(d.tool) = lower(:tool)",
    "model": f"(d.prompt IN (SELECT prompt FROM messages WHERE {_MODEL}) OR (d.prompt IS NULL AND"
    f" d.file IN (SELECT file FROM messages WHERE prompt IS NULL AND {_MODEL})))",
    "branch": "(d.prompt IN (SELECT id FROM prompts WHERE branch = :branch) OR (d.prompt IS NULL"
    " AND d.file IN (SELECT file FROM messages WHERE prompt IS NULL AND branch = :branch)))",
    "errors": "d.is_error",
    "file": f"(d.file, d.line) IN (SELECT file, line FROM calls WHERE {TOUCHED}"
    f" UNION ALL SELECT file, result_line FROM calls WHERE {TOUCHED})",
    "session": "d.file IN (SELECT id FROM files WHERE path = :session OR session = :session)",
    "store": "d.file IN (SELECT id FROM files WHERE store = :store)",
    "numbers": "d.file IN (SELECT g.id FROM files g WHERE coalesce(g.session, g.path) IN"
    " (SELECT coalesce(f.session, f.path) FROM files f"
    " WHERE f.id IN (SELECT value FROM json_each(:numbers))))",
    "no_subagents": "d.file IN (SELECT id FROM files WHERE NOT is_subagent)",
}
