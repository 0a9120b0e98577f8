"""Output styles: instructions on how the model works and writes, chosen by name.

A style is a Markdown file in `output-styles`. Styles of an untrusted project are not loaded: they
could replace the instructions that the user relies on.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from turnlog.agent.config.definition_directories import DefinitionFiles, read_text
from turnlog.agent.config.frontmatter import is_set, split_head, text_of

FOLDER = "output-styles"
DEFAULT = "default"
EXPLAINING = """\
While you work, explain what is worth learning from it: why the code is as it is, which \
alternatives there are, and what you would look out for. Put such remarks into short paragraphs \
that start with "Insight:", apart from the work itself. Leave out what every programmer knows."""
TEACHING = """\
The user wants to learn by doing. Prepare the work, and leave small parts of five to ten lines \
that decide something to the user: mark the place with TODO(human), say what belongs there and \
what to weigh up, then stop and wait. Review what the user wrote before you go on."""


class OutputStyle(Struct, frozen=True):
    """An output style."""

    name: str
    description: str
    prompt: str
    keeps_role: bool = True
    """True if it adds to the usual instructions instead of replacing them."""


BUILT_IN = (
    OutputStyle(DEFAULT, "Short and plain", ""),
    OutputStyle("Explanatory", "Explains why while it works", EXPLAINING),
    OutputStyle("Learning", "Leaves small parts of the work to you", TEACHING),
)


def load_styles(files: DefinitionFiles) -> dict[str, OutputStyle]:
    """Return all styles by name; the user's override the project's, and those the built-in ones."""
    found = {style.name: style for style in BUILT_IN}
    for path, prefix in _paths(files):
        style = files.read(path, _read) if files.may_act(path, ["output style"]) else None
        if style:
            name = f"{prefix}{style.name}"
            found[name] = OutputStyle(name, style.description, style.prompt, style.keeps_role)
    return found


def with_style(system: list[str], style: OutputStyle) -> list[str]:
    """Apply a style to a system prompt, whose first part is the role."""
    role, *others = system
    if not style.prompt:
        return system
    return [f"{role}\n\n{style.prompt}" if style.keeps_role else style.prompt, *others]


def _paths(files: DefinitionFiles) -> Iterator[tuple[Path, str]]:
    for plugin, place in files.of_plugins(FOLDER):
        yield from ((path, f"{plugin.name}:") for path in files.markdown(place))
    for folder in (*files.project_folders(FOLDER), *files.user_folders(FOLDER)):
        yield from ((path, "") for path in files.markdown(folder))


def _read(path: Path) -> OutputStyle | None:
    text = read_text(path)
    if text is None:
        return None
    fields, body = split_head(text)
    return OutputStyle(
        text_of(fields.get("name")) or path.stem,
        text_of(fields.get("description")),
        body.strip(),
        is_set(fields.get("keep-coding-instructions")),
    )
