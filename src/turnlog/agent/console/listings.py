"""What the user can ask to see: commands, costs, what fills the context, what is set up."""

import asyncio
import json
from collections.abc import Sequence

from msgspec import Struct

from turnlog.agent import settings as settings_files
from turnlog.agent.console.ink import Style, cells, cut, one_line
from turnlog.agent.console.status import dollars, short
from turnlog.agent.console.talk import Talk
from turnlog.agent.custom.built_in import BUILT_IN
from turnlog.agent.custom.definitions import load_agents
from turnlog.agent.custom.memory import MemoryFiles
from turnlog.agent.tool import Fields
from turnlog.agent.toolbox import definitions
from turnlog.agent.turn.compaction import RESERVE
from turnlog.agent.turn.parts import Parts
from turnlog.agent.turn.spending import context_tokens
from turnlog.conversation.context import messages_of
from turnlog.conversation.session import open_session
from turnlog.render.costs import CostView, session_cost

BY_TOKEN = 4
BAR = 50
KEYS = (
    ("esc", "interrupt the model"),
    ("esc esc", "clear the prompt, or go back to before one"),
    ("shift-tab", "ask for less, or more, before things are done"),
    ("alt-enter, ctrl-j, \\ enter", "a new line"),
    ("@", "mention a file"),
    ("!", "run a shell command"),
    ("ctrl-v", "paste an image"),
    ("up", "take back what is queued; prompts of before"),
    ("ctrl-c, ctrl-d", "clear, leave"),
)


class Amount(Struct, frozen=True):
    """A part of the context."""

    name: str
    tokens: int
    role: str
    mark: str = "█"


async def show_help(talk: Talk, arguments: str) -> None:
    """Show all commands and keys."""
    own = [(f"/{each.name} {each.usage}".strip(), each.help) for each in BUILT_IN]
    known = {each.name: each for each in talk.chat.prompts.commands.values() if each.for_user}
    given = [(f"/{name} {each.hint}".strip(), each.description) for name, each in known.items()]
    style, columns = talk.face.style, talk.face.columns
    rows = [*_table(own, style, columns)]
    rows += ["", *_table(given, style, columns)] if given else []
    talk.show_lines([*rows, "", *_table(KEYS, style, columns)])


async def show_context(talk: Talk, arguments: str) -> None:
    """Show what fills the context."""
    parts = talk.chat.parts
    window = parts.limits.window or parts.choice.window
    head = f"{parts.choice.model}"
    rows = context_rows(amounts_in(parts), window, talk.face.style, talk.face.columns)
    talk.show_lines([head, *rows])


def amounts_in(parts: Parts) -> list[Amount]:
    """What the context holds: the whole as the API counted it, its parts by their length."""
    memory = _tokens("".join(parts.memory))
    system = _tokens("".join(parts.system)) - memory
    tools = _tokens(json.dumps(definitions(parts.tools.values())))
    total = context_tokens(parts.recorder.chain)
    said = _tokens(json.dumps(messages_of(parts.recorder.chain, is_open=True)))
    return [
        Amount("system prompt", system, "ok"),
        Amount("memory", memory, "mode"),
        Amount("tools", tools, "note"),
        Amount("conversation", max(0, total - system - memory - tools) if total else said, "added"),
    ]


def context_rows(amounts: Sequence[Amount], window: int, style: Style, columns: int) -> list[str]:
    """A bar of what fills the context, and what each part of it is."""
    used = sum(each.tokens for each in amounts)
    reserve = min(RESERVE, window // 4)
    free = max(0, window - used - reserve)
    parts = [
        *amounts,
        Amount("free", free, "dim", "░"),
        Amount("kept for a summary", window - used - free, "dim", "▒"),
    ]
    shown = [each for each in parts if each.tokens > 0]
    bar = "".join(
        style(each.mark * count, each.role)
        for each, count in _lengths(shown, min(BAR, columns - 2))
    )
    rows = [
        f"{style(each.mark, each.role)} {each.name:20}{short(each.tokens):>8}{share:>6.0%}"
        for each in shown
        for share in [each.tokens / window]
    ]
    return [f"{short(used)} of {short(window)} tokens", bar, *rows]


def _lengths(parts: Sequence[Amount], cells_in_all: int) -> list[tuple[Amount, int]]:
    """How long each part of a bar is: at least a cell, together the whole bar."""
    whole = sum(each.tokens for each in parts) or 1
    lengths = [max(1, round(cells_in_all * each.tokens / whole)) for each in parts]
    longest = lengths.index(max(lengths))
    lengths[longest] += cells_in_all - sum(lengths)
    return list(zip(parts, lengths, strict=True))


async def show_cost(talk: Talk, arguments: str) -> None:
    """Show what the session took, as its file tells."""
    path = talk.chat.parts.recorder.path
    if not path.exists():
        talk.telling.note("nothing was asked yet")
        return
    view = await asyncio.to_thread(lambda: session_cost(open_session(path)))
    talk.show_lines(cost_rows(view, talk.face.style))


def cost_rows(view: CostView, style: Style) -> list[str]:
    """What each model took."""
    rows = [style(f"{'':28}{'input':>10}{'output':>10}{'cached':>10}{'cost':>10}", "dim")]
    for each in view.models:
        name = f"{'└ ' if each.by_subagents else ''}{one_line(each.model)}"
        usage = each.usage
        sent = usage.input_tokens + usage.cache_creation_input_tokens
        counts = (sent, usage.output_tokens, usage.cache_read_input_tokens)
        figures = "".join(f"{short(count):>10}" for count in counts)
        cost = "?" if each.cost_usd is None else dollars(each.cost_usd)
        rows.append(f"{cut(name, 27):28}{figures}{cost:>10}")
    return [*rows, style(f"{'total':58}{dollars(view.cost_usd):>10}", "bold")]


async def show_permissions(talk: Talk, arguments: str) -> None:
    """Show what may be done without asking, and what not at all."""
    loaded = settings_files.load(talk.store, talk.options.cwd)
    rows: list[str] = []
    for source in loaded.sources:
        said = source.permissions
        kinds = (("allow", said.allow), ("ask", said.ask), ("deny", said.deny))
        rules = [f"  {kind:6}{one_line(rule)}" for kind, all_of in kinds for rule in all_of or []]
        rows += [talk.face.style(str(source.path), "dim"), *rules] if rules else []
    talk.show_lines(rows or ["no rules are set"])


async def show_memory(talk: Talk, arguments: str) -> None:
    """Show the memory files that are loaded."""
    found = MemoryFiles(talk.options.cwd, talk.store.root).at_start()
    rows = [
        (
            str(each.path),
            f"{each.kind}{', left out: it is not of this project' if each.needs_approval else ''}",
        )
        for each in found
    ]
    _show(talk, rows, "no memory files; CLAUDE.md in this directory would be one")


async def show_agents(talk: Talk, arguments: str) -> None:
    """Show the agents that can be started."""
    agents = load_agents(talk.store, talk.options.cwd)
    _show(talk, [(each.name, each.description) for each in agents.values()], "no agents")


async def show_skills(talk: Talk, arguments: str) -> None:
    """Show the skills that there are."""
    skills = {each.name: each for each in talk.chat.prompts.commands.values() if each.is_skill}
    _show(talk, [(each.name, each.description) for each in skills.values()], "no skills")


async def show_hooks(talk: Talk, arguments: str) -> None:
    """Show the hooks that are set."""
    hooks = settings_files.load(talk.store, talk.options.cwd).hooks
    rows: list[tuple[str, str]] = []
    for event, groups in hooks.items():
        for group in groups:
            name = f"{event} {group.get('matcher') or ''}".strip()
            listed: list[Fields] = group.get("hooks") or []
            rows += [(name, str(hook.get("command") or hook.get("type"))) for hook in listed]
    _show(talk, rows, "no hooks are set")


async def show_servers(talk: Talk, arguments: str) -> None:
    """Show the MCP servers and their tools."""
    names = [tool.name for tool in talk.chat.servers.tools]
    rows = [
        (f"{state['name']} {state['status']}", ", ".join(_tools_of(state["name"], names)))
        for state in talk.chat.server_states
    ]
    _show(talk, rows, "no MCP servers; .mcp.json in this directory would name some")


async def show_tasks(talk: Talk, arguments: str) -> None:
    """Show what runs in the background."""
    jobs = talk.chat.parts.workspace.shells.jobs.values()
    _show(talk, [(f"{job.name} {job.status}", job.command) for job in jobs], "nothing")


def _tools_of(server: str, names: Sequence[str]) -> list[str]:
    start = f"mcp__{server}__"
    return [name.removeprefix(start) for name in names if name.startswith(start)]


def _show(talk: Talk, rows: Sequence[tuple[str, str]], nothing: str) -> None:
    talk.show_lines(_table(rows, talk.face.style, talk.face.columns) if rows else [nothing])


def _table(rows: Sequence[tuple[str, str]], style: Style, columns: int) -> list[str]:
    """Names, and beside each what is to be said of it."""
    wide = min(max(cells(name) for name, _ in rows) + 2, max(20, columns // 2))
    lines: list[str] = []
    for name, note in rows:
        shown = cut(one_line(name), wide - 2)
        told = cut(one_line(note), columns - wide - 3)
        lines.append(
            f"  {style(shown, 'text')}{' ' * (wide - cells(shown))}{style(told, 'dim')}".rstrip()
        )
    return lines


def _tokens(text: str) -> int:
    return len(text) // BY_TOKEN
