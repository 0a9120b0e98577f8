"""Listings for slash commands: help, cost, context, permissions, hooks and more."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from turnlog.agent.config.agent_definitions import load_agents
from turnlog.agent.config.definition_directories import DefinitionFiles
from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.matchers import shown
from turnlog.agent.loop.context_usage import usage_of
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.mcp.connections import Connections, spelt, tool_name
from turnlog.agent.permissions.policy import Policy
from turnlog.agent.terminal.chat_driver import ChatDriver
from turnlog.agent.terminal.completer import KnownCommand
from turnlog.agent.terminal.status_line import MODES
from turnlog.agent.terminal.styled_text import Style, cells, cut, fold, one_line
from turnlog.agent.workspace.tool import Tool
from turnlog.conversation.session import open_session
from turnlog.format.json_values import Fields
from turnlog.render.costs import CostView, session_cost
from turnlog.store.paths import short_path
from turnlog.text import plural, running_money, tokens_text

BAR = 50
FIGURE = 10
"""Width of a number column."""
MOST_ROWS = 2
"""Maximum rows per description."""
KIND = 7
"""Width of the column with a rule's effect."""
KEYS = (
    ("esc", "interrupt the model, then send what is queued"),
    ("esc esc", "clear the prompt, or rewind to an earlier one"),
    ("shift-tab", "switch the permission mode"),
    ("alt-enter, ctrl-j, \\ enter", "a new line"),
    ("@", "mention a file, or a resource of an MCP server"),
    ("!", "run a shell command"),
    ("#", "add a line to a memory file"),
    ("?", "show these keys, in an empty prompt"),
    ("ctrl-r", "search earlier prompts"),
    ("ctrl-g, ctrl-x ctrl-e", "edit the prompt in $EDITOR"),
    ("ctrl-s", "put the prompt aside until another one is sent"),
    ("alt-p", "choose the model"),
    ("ctrl-t", "show or hide the task list"),
    ("ctrl-b, ctrl-x ctrl-b", "move running calls to the background"),
    ("ctrl-v", "paste an image"),
    ("ctrl-e", "show the folded part of a question"),
    ("ctrl-o", "show folded thinking and output"),
    ("up", "edit queued prompts; earlier prompts"),
    ("ctrl-x ctrl-s", "send queued prompts now"),
    ("ctrl-c, ctrl-d", "clear the prompt; exit"),
)


class ContextShare(Struct, frozen=True):
    """A part of the context."""

    name: str
    tokens: int
    role: str
    mark: str = "█"


def show_tables(driver: ChatDriver, commands: Sequence[Sequence[KnownCommand]]) -> None:
    """Show commands by group, and keys."""
    groups = [[(each.shown, each.help) for each in group] for group in commands]
    wide = max(cells(name) for group in groups for name, _ in group)
    tables = [_table(group, driver, wide) for group in groups if group]
    tables.append(_table(KEYS, driver, wide, is_whole=True))
    driver.show_lines([line for table in tables for line in (*table, "")][:-1])


async def show_context(driver: ChatDriver, arguments: str) -> None:
    """Show what fills the context."""
    parts = driver.chat.parts
    window = parts.choice.window
    reserve = parts.limits.compacting.reserve(window)
    rows = context_rows(
        amounts_in(parts), window, reserve, driver.screen.style, driver.screen.columns - 2
    )
    driver.show_lines([parts.choice.model, *rows])


def amounts_in(parts: Parts) -> list[ContextShare]:
    """Return the parts of the context: the API's token count, split in proportion to length."""
    usage = usage_of(parts)
    return [
        ContextShare("system prompt", usage.system, "ok"),
        ContextShare("memory", usage.memory, "mode"),
        ContextShare("tools", usage.tools + usage.server_tools, "note"),
        ContextShare("conversation", usage.messages, "added"),
    ]


def context_rows(
    amounts: Sequence[ContextShare], window: int, reserve: int, style: Style, columns: int
) -> list[str]:
    """Return a bar of the context and its legend."""
    used = sum(each.tokens for each in amounts)
    free = max(0, window - used - reserve)
    parts = [
        *amounts,
        ContextShare("free", free, "dim", "░"),
        ContextShare("kept for a summary", window - used - free, "dim", "▒"),
    ]
    shown = [each for each in parts if each.tokens > 0]
    bar = "".join(
        style(each.mark * count, each.role)
        for each, count in _lengths(shown, min(BAR, columns - 2))
    )
    rows = [
        f"{style(each.mark, each.role)} {each.name:20}{tokens_text(each.tokens):>8}{share:>6.0%}"
        for each in shown
        for share in [each.tokens / window]
    ]
    return [f"{tokens_text(used)} of {tokens_text(window)} tokens", bar, *rows]


def _lengths(parts: Sequence[ContextShare], cells_in_all: int) -> list[tuple[ContextShare, int]]:
    """Return the length of each part of a bar: at least one cell each."""
    whole = sum(each.tokens for each in parts) or 1
    lengths = [max(1, round(cells_in_all * each.tokens / whole)) for each in parts]
    # Rounding errors go to the longest part, where they show the least.
    longest = lengths.index(max(lengths))
    lengths[longest] += cells_in_all - sum(lengths)
    return list(zip(parts, lengths, strict=True))


async def show_cost(driver: ChatDriver, arguments: str) -> None:
    """Show the cost of the session according to its file."""
    path = driver.chat.parts.recorder.path
    if not path.exists():
        driver.display.note("nothing has been sent yet")
        return
    view = await asyncio.to_thread(lambda: session_cost(open_session(path)))
    driver.show_lines(cost_rows(view, driver.screen.style, driver.screen.columns - 2))


def cost_rows(view: CostView, style: Style, columns: int) -> list[str]:
    """Return the cost per model."""
    wide = max(12, min(28, columns - 4 * FIGURE))
    heads = "".join(f"{name:>{FIGURE}}" for name in ("input", "output", "cached", "cost"))
    rows = [style(f"{'':{wide}}{heads}", "dim")]
    for each in view.models:
        name = f"{'└ ' if each.by_subagents else ''}{one_line(each.model)}"
        usage = each.usage
        sent = usage.input_tokens + usage.cache_creation_input_tokens
        counts = (sent, usage.output_tokens, usage.cache_read_input_tokens)
        figures = "".join(f"{tokens_text(count):>{FIGURE}}" for count in counts)
        cost = "?" if each.cost_usd is None else running_money(each.cost_usd)
        rows.append(f"{cut(name, wide - 1):{wide}}{figures}{cost:>{FIGURE}}")
    total = f"{'total':{wide + 3 * FIGURE}}{running_money(view.cost_usd):>{FIGURE}}"
    return [*rows, style(total, "bold")]


async def show_permissions(driver: ChatDriver, arguments: str) -> None:
    """Show the mode and the deny, ask and allow rules in order of precedence."""
    parts = driver.chat.parts
    policy = parts.rules.standing(parts.workspace)
    driver.show_lines(permission_rows(policy, driver.screen.style, driver.screen.columns), KIND)


def permission_rows(policy: Policy, style: Style, columns: int) -> list[str]:
    """Return the mode and the rules, each with its source."""
    kinds = (("deny", policy.deny), ("ask", policy.ask), ("allow", policy.allow))
    listed = [("mode", MODES[policy.mode], policy.mode.value)]
    for kind, rules in kinds:
        listed += [
            (kind, one_line(rule.text), short_path(rule.source, policy.root)) for rule in rules
        ]
    wide = max(length for _, text, _ in listed if (length := cells(text)) <= columns // 2)
    return [
        f"{kind:{KIND}}{text}{' ' * (wide - cells(text))}  {style(place, 'dim')}"
        for kind, text, place in listed
    ]


async def show_agents(driver: ChatDriver, arguments: str) -> None:
    """Show available agents."""
    cwd = driver.options.cwd
    files = DefinitionFiles(driver.store, cwd, driver.options.sources)
    agents = load_agents(driver.store, cwd, files)
    _show(driver, [(each.name, each.description) for each in agents.values()], "no agents")


async def show_skills(driver: ChatDriver, arguments: str) -> None:
    """Show available skills."""
    skills = {each.name: each for each in driver.chat.prompts.commands.values() if each.is_skill}
    _show(driver, [(each.name, each.description) for each in skills.values()], "no skills")


async def show_hooks(driver: ChatDriver, arguments: str) -> None:
    """Show configured hooks."""
    rows: list[tuple[str, str]] = []
    for event in EVENTS:
        for group in driver.chat.parts.hooks.groups(event):
            name = f"{event} {group.get('matcher') or ''}".strip()
            listed: list[Fields] = group.get("hooks") or []
            rows += [(name, shown(hook)) for hook in listed]
    _show(driver, rows, "no hooks are set")


async def show_servers(driver: ChatDriver, arguments: str) -> None:
    """Show the MCP servers and their tools."""
    rows = [
        (f"{state['name']} {state['status']}", _offered_by(state["name"], driver.chat.servers))
        for state in driver.chat.server_states
    ]
    _show(driver, rows, "no MCP servers; list them in .mcp.json in this directory")


async def show_tasks(driver: ChatDriver, arguments: str) -> None:
    """Show background commands."""
    jobs = driver.chat.parts.workspace.shells.jobs.values()
    _show(
        driver,
        [(f"{job.name} {job.status}", job.command) for job in jobs],
        "nothing runs in the background",
    )


def show_keys(driver: ChatDriver) -> None:
    """Show the keys."""
    driver.show_lines(_table(KEYS, driver, is_whole=True))


def show_rows(driver: ChatDriver, rows: Sequence[tuple[str, str]]) -> None:
    """Show names and values."""
    driver.show_lines(_table(rows, driver))


def _offered_by(name: str, servers: Connections) -> str:
    """Return the tools of a server, and how many prompts and resources it has."""
    prompts = sum(each.server == name for each in servers.prompts)
    resources = sum(each.server == name for each in servers.resources)
    counts = [plural(prompts, "prompt")] if prompts else []
    counts += [plural(resources, "resource")] if resources else []
    return " · ".join(filter(None, [", ".join(_tools_of(name, servers.tools)), *counts]))


def _tools_of(server: str, tools: Sequence[Tool]) -> list[str]:
    start = tool_name(server, "")
    return [tool.name.removeprefix(start) for tool in tools if tool.server == spelt(server)]


def _show(driver: ChatDriver, rows: Sequence[tuple[str, str]], nothing: str) -> None:
    driver.show_lines(_table(rows, driver) if rows else [nothing])


def _table(
    rows: Sequence[tuple[str, str]], driver: ChatDriver, wide: int = 0, is_whole: bool = False
) -> list[str]:
    """Return a table of names and descriptions; descriptions are cut unless `is_whole`.

    `wide` is the minimum width of the names, which aligns several tables.
    """
    style, columns = driver.screen.style, driver.screen.columns
    longest = max(wide, *(cells(name) for name, _ in rows)) + 2
    wide = min(longest, max(20, columns // 2))
    lines: list[str] = []
    for name, note in rows:
        shown = one_line(name)
        head = f"{style(shown, 'text')}{' ' * (wide - cells(shown))}"
        if cells(shown) > wide - 2:  # a row of its own, as in help pages
            lines.append(style(cut(shown, columns - 3), "text"))
            head = " " * wide
        room = columns - wide - 3
        folded = fold(one_line(note), room).split("\n")
        for row in folded if is_whole else _few_rows(folded, room):
            lines.append(f"{head}{style(row, 'dim')}")
            head = " " * wide
    return lines


def _few_rows(rows: list[str], room: int) -> list[str]:
    *first, last = rows[:MOST_ROWS]
    return [*first, cut(" ".join([last, *rows[MOST_ROWS:]]), room)]
