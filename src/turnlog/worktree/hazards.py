"""Find hazards: commands, tools and user actions that may have changed files without a record.

An observed state stays exact until the next hazard. Everything that is not known to be harmless
counts as a hazard.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from turnlog.conversation.calls import Call
from turnlog.conversation.nodes import UserNode
from turnlog.conversation.prompts import ASKING, BASH_INPUT, LOCAL, PromptKind, full_text
from turnlog.conversation.session import Session
from turnlog.format.blocks import ToolUseBlock
from turnlog.format.decode import BYTE_ORDER_MARK
from turnlog.format.entries import Assistant, Attachment, ChainEntry, Progress, User
from turnlog.format.fields import given
from turnlog.format.file_views import HOOK_TRACES, FileAttachment
from turnlog.format.fit import fit
from turnlog.format.json_values import Fields, as_object
from turnlog.format.tools import CHANGING
from turnlog.worktree.background_tasks import TaskEnds, is_left_running
from turnlog.worktree.places import (
    AT,
    BEFORE,
    BEHIND,
    END,
    START,
    PlaceSpan,
    Placing,
    SessionPosition,
)

HARMLESS = CHANGING | frozenset(
    """Read Glob Grep LS NotebookRead TodoRead TodoWrite WebFetch WebSearch TaskCreate TaskUpdate
    TaskList TaskGet ToolSearch BashOutput KillShell KillBash TaskOutput TaskStop EnterPlanMode
    ListMcpResourcesTool ReadMcpResourceTool StructuredOutput SendUserMessage""".split()
)
"""Tools that change no file, or only the file that they name."""
SHELLS = frozenset({"Bash", "PowerShell"})
AGENTS = frozenset({"Agent", "Task"})
ENDING = SHELLS | frozenset(
    """Skill SlashCommand AskUserQuestion ExitPlanMode EnterWorktree ExitWorktree LSP
    CronCreate CronDelete CronList ScheduleWakeup TeamCreate TeamDelete""".split()
)
"""Tools that have ended when their result is recorded, unless it says that they go on.

Any other tool, such as one of an MCP server, may have started something that goes on.
"""
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
    r"(?<![&>|<])&(?![&>])|[<>]\(|\b(nohup|setsid|disown|coproc|at|batch|tmux|screen|dtach|abduco"
    r"|zellij|byobu|docker|podman|nerdctl|crontab|systemd-run|systemctl|service|launchctl|initctl"
    r"|start-stop-daemon|pm2|forever|supervisor[a-z]*|xdg-open|popen|fork|spawn|invoke-item"
    r"|start-(process|job|threadjob))\b|daemon|detach|\bsudo\s+-b|\bssh\s+-f"
    r"|(^|[;&|(])\s*(open|code|start|ii)\s",
    re.IGNORECASE | re.MULTILINE,
)
"""Commands that may leave a process running, which changes files after the command has ended.

`&>` redirects; `>(` and `<(` start a process that the shell does not wait for.
"""
RAN_BY_USER = frozenset(
    {PromptKind.BASH_INPUT, PromptKind.BASH_OUTPUT, PromptKind.COMMAND, PromptKind.COMMAND_OUTPUT}
)


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something that may have changed files between two places."""

    start: SessionPosition
    end: SessionPosition
    what: str

    def within(self, doubt: PlaceSpan | None) -> "Hazard":
        """Return the hazard of an agent, which may have been at any time in a range."""
        if doubt is None:
            return self
        return Hazard(min(self.start, doubt[0]), max(self.end, doubt[1]), self.what)


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
    ends = TaskEnds(session, place)
    with session.kept_open():
        for call in session.calls:
            if call.name in HARMLESS or call.id in agents:
                continue
            arguments = _arguments(session, call)
            command = str(arguments.get("command", "&"))
            if call.name not in SHELLS or not is_read_only(command):
                end = _end_of(session, place, call, arguments, ends)
                yield Hazard(place(call.use), end, f"{call.name} in line {call.use.line}{owner}")
        yield from _hook_hazards(session, place)
        yield from _damage_hazards(session, place)
        if is_main:
            yield from _prompt_hazards(session, place)


def removal_hazards(session: Session, place: Placing) -> Iterator[Hazard]:
    """Yield the hazards that may have been in lines that an edit removed.

    They have no end: a command in the background may have gone on.
    """
    roots = [session.tree.chain[rank] for rank in session.tree.roots]
    for entry in session.entries(roots):
        mark = given(entry.turnlog_removed) if isinstance(entry, ChainEntry) else None
        if mark:
            rank = session.tree.rank_of(given(mark.after_uuid))
            last = None if rank is None else place(session.tree.chain[rank])
            start = SessionPosition(last.line + 1, BEFORE) if last else START
            yield Hazard(start, END, "a line that an edit removed")


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


def _end_of(
    session: Session, place: Placing, call: Call, arguments: Fields, ends: TaskEnds
) -> SessionPosition:
    """Return where the effects of a call end for certain."""
    # A sub-agent without a file of its own, or a server, may have left anything behind.
    if call.result is None or call.name in AGENTS or call.name.startswith("mcp__"):
        return END
    if call.name in SHELLS and DETACHED.search(str(arguments.get("command", "&"))):
        return END
    goes_on = arguments.get("run_in_background") is True or is_left_running(session, call)
    if call.name in ENDING and not goes_on:
        return place(call.result)
    return ends.first_end(call)


def _arguments(session: Session, call: Call) -> Fields:
    entry = session.entry(call.use)
    blocks = entry.content if isinstance(entry, Assistant) else []
    for block in blocks:
        if isinstance(block, ToolUseBlock) and given(block.id) == call.id:
            found = given(block.input)
            return as_object(found)
    return {}


def _hook_hazards(session: Session, place: Placing) -> Iterator[Hazard]:
    results = {call.id: call.result for call in session.calls if call.result}
    nodes = [node for node in session.nodes if node.kind.startswith(HOOK_TRACES)]
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


def _damage_hazards(session: Session, place: Placing) -> Iterator[Hazard]:
    """Yield the hazards of lines that cannot be read, and of results whose calls are missing.

    Any call may have been there, also one that goes on in the background.
    """
    before = [node.line for node in session.nodes]
    for problem in session.problems:
        if problem.reason == BYTE_ORDER_MARK:
            continue
        rank = bisect_right(before, problem.line) - 1
        start = place(session.nodes[rank]) if rank >= 0 else START
        yield Hazard(start, END, f"line {problem.line}, which cannot be read,")
    for orphan in session.orphans:
        what = f"a call that is missing, with its result in line {orphan.result.line},"
        yield Hazard(START, END, what)


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
            end = END if _leaves_process(session, node) else ran
            yield Hazard(ran, end, f"the user's command in line {node.line}")


def _leaves_process(session: Session, node: UserNode) -> bool:
    """Return whether a shell command of the user may go on behind its line: `! make watch &`."""
    if node.prompt not in (PromptKind.BASH_INPUT, PromptKind.BASH_OUTPUT):
        return False
    entry = session.entry(node)
    text = full_text(entry) if isinstance(entry, User) else ""
    commands = BASH_INPUT.findall(text)
    return any(map(DETACHED.search, commands)) or "background" in BASH_INPUT.sub("", text)
