"""Find hazards: commands, tools and user actions that may have changed files without a record.

An observed state stays exact until the next hazard. Everything that is not known to be harmless
counts as a hazard.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import Node, UserNode
from turnlog.conversation.prompts import ASKING, LOCAL, PromptKind
from turnlog.conversation.session import Session
from turnlog.format.blocks import ToolUseBlock
from turnlog.format.entries import Assistant, Attachment, Progress
from turnlog.format.fields import given
from turnlog.format.file_views import FileAttachment
from turnlog.format.fit import fit
from turnlog.format.json_values import Fields, as_object
from turnlog.format.tools import CHANGING
from turnlog.worktree.places import AT, BEFORE, BEHIND, END, SessionPosition

HARMLESS = CHANGING | frozenset(
    """Read Glob Grep LS NotebookRead TodoRead TodoWrite WebFetch WebSearch TaskCreate TaskUpdate
    TaskList TaskGet ToolSearch BashOutput KillShell KillBash TaskOutput TaskStop EnterPlanMode
    ListMcpResourcesTool ReadMcpResourceTool StructuredOutput SendUserMessage""".split()
)
"""Tools that change no file, or only the file that they name."""
SHELLS = frozenset({"Bash", "PowerShell"})
AGENTS = frozenset({"Agent", "Task"})
READ_ONLY = frozenset(
    "ls cat head tail wc pwd cd echo grep egrep fgrep which stat du df uname whoami true".split()
)
"""Programs that write only to their output, whatever their arguments."""
READ_ONLY_GIT = frozenset({"status", "log", "rev-parse"})
SILENCED = re.compile(r"\s2>\s?(&1|/dev/null)(?![^\s;|&])")
SEPARATORS = re.compile(r"\|\||&&|[|;\r\n]")
WRITING = re.compile(r"[<>$`(){}\\&]|--ou|--ext-|--%")
"""Redirections, substitutions, and git options that write, even abbreviated: `--outp`.

`--%` is PowerShell's: it expands variables in the rest of a line.
"""
QUOTES = re.compile("['\"\u2018-\u201e]")
"""All that PowerShell takes for quotes."""
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
SPECIAL = re.compile(r"[\s*?\[|;&]")
"""What separates words or commands, or matches file names, unless it is quoted."""
PATTERN = re.compile(r"(?:^|\s)(?:-[^\s=]*)?[*?\[]")
"""A pattern that may match a file named like an option: `*` matches `--output=x`."""
DETACHED = re.compile(
    r"(?<![&>|<])&(?![&>\d])|\b(nohup|setsid|disown|coproc|at|batch|tmux|screen|docker|podman|crontab"
    r"|systemd-run|systemctl|service|launchctl|daemonize|start-stop-daemon|pm2|supervisorctl"
    r"|start-(process|job|threadjob))\b|--(daemon|detach)",
    re.IGNORECASE,
)
"""Commands that may leave a process running, which changes files after the command has ended."""
BACKGROUND = re.compile(rb'"backgroundTaskId":"([^"]{1,80})"|with ID: ([A-Za-z0-9_-]{1,80})')
HOOKS = ("attachment/hook_", "attachment/async_hook", "progress/hook_progress")
STOP_HOOKS = "system/stop_hook_summary"
RAN_BY_USER = frozenset(
    {PromptKind.BASH_INPUT, PromptKind.BASH_OUTPUT, PromptKind.COMMAND, PromptKind.COMMAND_OUTPUT}
)

Placing = Callable[[Node], SessionPosition]


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something that may have changed files between two places."""

    start: SessionPosition
    end: SessionPosition
    what: str


class Hazards:
    """All hazards of a session, indexed to find those between two places."""

    def __init__(self, hazards: Iterable[Hazard]) -> None:
        self._all = sorted(hazards, key=lambda each: each.end)
        self._ends = [each.end for each in self._all]
        # For each position, the earliest start of the hazards from there on. It tells whether any
        # of them starts early enough, without looking at all of them.
        starts = [each.start for each in reversed(self._all)]
        self._earliest = list(accumulate(starts, min))[::-1]

    def __iter__(self) -> Iterator[Hazard]:
        return iter(self._all)

    def between(self, seen: SessionPosition, until: SessionPosition) -> Hazard | None:
        """Return the first hazard after a place where a file was seen, up to another place."""
        first = bisect_right(self._ends, seen)
        if first >= len(self._all) or self._earliest[first] > until:
            return None
        rest = range(first, len(self._all))
        return next(self._all[rank] for rank in rest if self._all[rank].start <= until)


def hazards_of(
    session: Session, place: Placing, agents: set[str], is_main: bool = True
) -> Iterator[Hazard]:
    """Yield the hazards in the lines of a session or sub-agent.

    `agents` are the calls whose sub-agents are known: their own lines tell what they did.
    """
    owner = "" if is_main else " of a sub-agent"
    with session.kept_open():
        for call in session.calls:
            if call.name not in HARMLESS and call.id not in agents:
                yield from _call_hazards(session, place, call, owner)
        yield from _hook_hazards(session, place)
    if is_main:
        yield from _prompt_hazards(session, place)


def is_read_only(command: str) -> bool:
    """Return whether a shell command certainly leaves all files alone.

    >>> is_read_only("cd src && ls -l | head 2>&1"), is_read_only("cat a > b")
    (True, False)
    """
    command = SILENCED.sub("", command)
    return (
        all(_is_harmless(part.split()) for part in SEPARATORS.split(command))
        # A shell removes quotes: `--"output"=x` is `--output=x`.
        and not WRITING.search(QUOTES.sub("", SEPARATORS.sub(" ", command)))
        and not _has_option_pattern(command)
    )


def _has_option_pattern(command: str) -> bool:
    """Return whether a pattern in a `git log` command may expand to an option that writes.

    >>> _has_option_pattern("git log *"), _has_option_pattern("git log '*.py' -- *; ls *")
    (True, False)
    """
    if "#" in command:  # a quote in a comment opens nothing, but would pair with the next one
        return "git" in command and PATTERN.search(QUOTES.sub("", command)) is not None
    unquoted = QUOTED.sub(lambda found: SPECIAL.sub("_", found[0][1:-1]), command)
    parts = (part for part in SEPARATORS.split(unquoted) if part.split()[:2] == ["git", "log"])
    before_paths = (part.partition(" -- ")[0] for part in parts)
    return any(PATTERN.search(QUOTES.sub("", part)) for part in before_paths)


def _is_harmless(words: list[str]) -> bool:
    if not words:
        return True
    if words[0] == "git":
        return len(words) > 1 and words[1] in READ_ONLY_GIT
    return words[0] in READ_ONLY


def _call_hazards(session: Session, place: Placing, call: Call, owner: str) -> Iterator[Hazard]:
    arguments = _arguments(session, call)
    if call.name in SHELLS and is_read_only(str(arguments.get("command", ">"))):
        return
    end = place(call.result) if call.result else END
    if call.name in SHELLS and DETACHED.search(str(arguments.get("command", "&"))):
        end = END
    elif (
        call.result and (call.name in SHELLS | AGENTS) and _is_background(session, call, arguments)
    ):
        end = _background_end(session, place, call)
    yield Hazard(place(call.use), end, f"{call.name} in line {call.use.line}{owner}")


def _arguments(session: Session, call: Call) -> Fields:
    entry = session.entry(call.use)
    blocks = entry.content if isinstance(entry, Assistant) else []
    for block in blocks:
        if isinstance(block, ToolUseBlock) and given(block.id) == call.id:
            found = given(block.input)
            return as_object(found)
    return {}


def _is_background(session: Session, call: Call, arguments: Fields) -> bool:
    return arguments.get("run_in_background") is True or any(
        b'"backgroundTaskId":"' in line.raw or b"async_launched" in line.raw
        for _, line in session.lines_of([call.result] if call.result else [])
    )


def _background_end(session: Session, place: Placing, call: Call) -> SessionPosition:
    """Return where a background command is reported to have ended."""
    assert call.result
    raw = next(line.raw for _, line in session.lines_of([call.result]))
    named = BACKGROUND.search(raw)
    task = (named[1] or named[2]) if named else None
    if task is None:
        return END
    later = (
        node
        for node in session.nodes[call.result.index + 1 :]
        if isinstance(node, UserNode) and node.prompt is PromptKind.TASK_NOTIFICATION
    )
    for node, line in session.lines_of(later):
        if task in line.raw and b"<status>" in line.raw:
            return place(node)
    return END


def _hook_hazards(session: Session, place: Placing) -> Iterator[Hazard]:
    results = {call.id: call.result for call in session.calls if call.result}
    nodes = [node for node in session.nodes if node.kind.startswith((*HOOKS, STOP_HOOKS))]
    for node, entry in zip(nodes, session.entries(nodes), strict=True):
        call_id = None
        if isinstance(entry, Attachment):
            call_id = given(fit(FileAttachment, given(entry.attachment) or {}, []).tool_use_id)
        elif isinstance(entry, Progress):
            call_id = given(entry.parent_tool_use_id) or given(entry.tool_use_id)
        # A formatter that runs after an Edit changes the file that the result describes, although
        # the hook's line may come before the result's.
        result = results.get(call_id or "")
        at = max(place(node), place(result)) if result else place(node)
        behind = at._replace(rank=max(at.rank, AT), order=at.order + 1)
        yield Hazard(behind, behind, f"a hook in line {node.line}")


def _prompt_hazards(session: Session, place: Placing) -> Iterator[Hazard]:
    for node in session.nodes:
        if not isinstance(node, UserNode) or node.is_sidechain:
            continue
        if node.prompt in ASKING | LOCAL:
            # The user may have edited anything while nothing was running.
            idle = SessionPosition(place(node).line, BEFORE)
            yield Hazard(idle, idle, f"the user, before line {node.line},")
        if node.prompt in RAN_BY_USER:
            ran = SessionPosition(place(node).line, BEHIND)
            yield Hazard(ran, ran, f"the user's command in line {node.line}")
