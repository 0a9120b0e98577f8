"""Custom commands: Markdown files whose text becomes a prompt.

A skill is a command in a directory of its own, which the model may invoke as well.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from turnlog.agent.config.definition_directories import DefinitionFiles, read_text
from turnlog.agent.config.frontmatter import is_set, model_of, names_of, split_head, text_of
from turnlog.agent.config.plugins import Plugin
from turnlog.agent.hooks.matchers import groups_of
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

SKILL = "SKILL.md"
PROJECT = "project"

Fetch = Callable[[str], Awaitable[list[Fields]]]


class CustomCommand(Struct, frozen=True):
    """A custom command."""

    name: str
    description: str
    body: str
    path: Path
    origin: str
    """user or project, and the folder below `commands` if there is one: `project:frontend`."""
    hint: str = ""
    """Argument hint for the user."""
    arguments: tuple[str, ...] = ()
    """Argument names, in order."""
    allowed_tools: tuple[str, ...] = ()
    """Permission rules active during its turn."""
    model: str | None = None
    is_skill: bool = False
    for_user: bool = True
    """True if users may invoke it."""
    for_model: bool = True
    """True if the model may invoke it."""
    hooks: dict[str, list[Fields]] = {}
    """Hooks active from its first use until the session ends."""
    fetch: "Fetch | None" = None
    """Fetches the content of an MCP prompt for its arguments; None for all others."""


def load_commands(
    store: Store, cwd: Path, files: DefinitionFiles | None = None
) -> dict[str, CustomCommand]:
    """Return all commands by name; skills win over plain commands, the user's over the project's.

    A command in a folder is named `FOLDER:COMMAND`, and also `COMMAND` if that name is free. A
    command of an untrusted project is only text: its hooks and rules are ignored.
    """
    known = files or DefinitionFiles(store, cwd)
    found: dict[str, CustomCommand] = {}
    for command in _all(known):
        wants = {"hooks": command.hooks, "allowed-tools": command.allowed_tools}
        may_act = known.may_act(command.path, [name for name, value in wants.items() if value])
        plain = msgspec.structs.replace(command, hooks={}, allowed_tools=())
        found[command.name] = command if may_act else plain
    # `/deploy` also finds `ops:deploy`, unless there is a `/deploy` itself.
    for command in list(found.values()):
        found.setdefault(command.name.rpartition(":")[2], command)
    return found


def read_command(path: Path, name: str, origin: str) -> CustomCommand | None:
    """Return the command of a file; None if it cannot be read."""
    text = read_text(path)
    if text is None:
        return None
    fields, body = split_head(text)
    return CustomCommand(
        name=name,
        description=_description(fields, body),
        body=body.strip(),
        path=path,
        origin=origin,
        hint=text_of(fields.get("argument-hint")),
        arguments=tuple(names_of(fields.get("arguments")) or ()),
        allowed_tools=tuple(names_of(fields.get("allowed-tools")) or ()),
        model=model_of(fields.get("model")),
        is_skill=path.name == SKILL,
        for_user="user-invocable" not in fields or is_set(fields["user-invocable"]),
        for_model=not is_set(fields.get("disable-model-invocation")),
        hooks=groups_of(fields.get("hooks"), name, is_project=origin.startswith(PROJECT)),
    )


def _all(files: DefinitionFiles) -> Iterator[CustomCommand]:
    """Yield every command, those with higher precedence last."""
    for kind, read in (("commands", _plain_commands), ("skills", _skills)):
        for folder in files.project_folders(kind):
            yield from read(files, folder, PROJECT)
        for folder in files.user_folders(kind):
            yield from read(files, folder, "user")
        for plugin, place in files.of_plugins(kind):
            for command in read(files, place, _origin(plugin)):
                # Commands of a plugin are named `PLUGIN:COMMAND`.
                name, body = f"{plugin.name}:{command.name}", plugin.placed(command.body)
                rules = tuple(map(plugin.placed, command.allowed_tools))
                yield msgspec.structs.replace(command, name=name, body=body, allowed_tools=rules)


def _origin(plugin: Plugin) -> str:
    # Hooks of a project's skill get no credentials, even if it is part of a plugin.
    return f"{PROJECT if plugin.source.is_project else 'plugin'}:{plugin.name}"


def _plain_commands(files: DefinitionFiles, folder: Path, origin: str) -> Iterator[CustomCommand]:
    for path in files.markdown(folder):
        inner = Path(path.name) if path == folder else path.relative_to(folder)
        *spaces, name = inner.with_suffix("").parts
        named = {"name": ":".join([*spaces, name]), "origin": ":".join([origin, *spaces])}
        command = files.read(path, partial(read_command, **named))
        if command:
            yield command


def _skills(files: DefinitionFiles, folder: Path, origin: str) -> Iterator[CustomCommand]:
    for path in files.in_folders(folder, SKILL):
        command = files.read(path, partial(read_command, name=path.parent.name, origin=origin))
        if command and path.parent == folder:
            # The directory may be named after a version; the file says what the skill is called.
            named = text_of(split_head(read_text(path) or "")[0].get("name")) or command.name
            command = msgspec.structs.replace(command, name=named)
        if command:
            yield command


def _description(fields: Fields, body: str) -> str:
    parts = [text_of(fields.get("description")), text_of(fields.get("when_to_use"))]
    first = body.strip().partition("\n\n")[0].lstrip("# ").replace("\n", " ")
    return " ".join(filter(None, parts if parts[0] else [first, parts[1]]))
