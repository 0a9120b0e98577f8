"""Parse the YAML frontmatter of Markdown files.

Frontmatter that is not valid YAML, which is common, is parsed field by field. Values are strings,
or lists and mappings of strings. Strangers' files are read before the user is asked anything, so
size and depth are bounded and aliases refused: ten lines of aliases can expand to 10^10 values.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from turnlog.format.json_values import Fields, is_array, is_object

if TYPE_CHECKING:
    from yaml import BaseLoader

HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^([A-Za-z_][\w-]*)[ \t]*:", re.MULTILINE)
INHERIT = "inherit"
LARGEST_HEAD = 16 << 10
"""Maximum characters; PyYAML parses about 100,000 per second."""
MOST_TOGETHER = 256 << 10
"""Maximum characters of all frontmatter in a project."""
MOST_FIELDS = 200
"""Maximum fields of frontmatter that is not YAML; each is parsed separately."""
DEEPEST = 16
LONGEST_NUMBER = 9
OUTSIDE_BRACKETS = re.compile(r"(?:\([^()]*\)|[^\s,()])+")


class HeadError(ValueError):
    """Frontmatter exceeds its limits."""


def split_head(text: str) -> tuple[Fields, str]:
    """Return the fields at the head of a text, and the text below them.

    Raise `HeadError` for frontmatter that is too long, too deep, or has aliases.

    >>> split_head("---\\nname: a\\ntools: Read, Bash\\n---\\nBe kind.")
    ({'name': 'a', 'tools': 'Read, Bash'}, 'Be kind.')
    """
    head = HEAD.match(text)
    if not head:
        return {}, text.removeprefix("\ufeff")
    if len(head[1]) > LARGEST_HEAD:
        raise HeadError(f"its frontmatter is longer than {LARGEST_HEAD >> 10} KiB")
    return _fields(head[1]), text[head.end() :]


def head_of(text: str) -> str:
    """Return the frontmatter of a text as written; empty if it has none."""
    head = HEAD.match(text)
    return head[1] if head else ""


def text_of(value: Any) -> str:
    """Return a field as a string, even if YAML reads it as a list: `[file]`.

    >>> text_of(["file"]), text_of(" a "), text_of(None)
    ('[file]', 'a', '')
    """
    if is_array(value):
        return f"[{', '.join(map(text_of, value))}]"
    return str(value).strip() if value is not None else ""


def names_of(value: Any) -> list[str] | None:
    """Return a list of names, written as a list or on one line; None if the field is missing.

    >>> names_of("Bash(git add *), Read"), names_of(["Read"]), names_of(None)
    (['Bash(git add *)', 'Read'], ['Read'], None)
    """
    if value is None:
        return None
    if is_array(value):
        return [text_of(each) for each in value]
    return OUTSIDE_BRACKETS.findall(text_of(value))


def is_set(value: Any) -> bool:
    """Return whether a field is true."""
    return text_of(value).lower() in ("true", "yes", "on")


def number_of(value: Any) -> int | None:
    """Return a field as a number; None if it is not one."""
    text = text_of(value)
    return int(text) if text.isdecimal() and len(text) <= LONGEST_NUMBER else None


def model_of(value: Any) -> str | None:
    """Return the model that a field names; None to inherit the conversation's model."""
    text = text_of(value)
    return text if text and text != INHERIT else None


def _fields(head: str) -> Fields:
    whole = _yaml(head)
    if is_object(whole):
        return whole
    # Common but invalid YAML: `argument-hint: [file] [line]`, or `description: Use when: …`.
    starts = [match.start() for match in FIELD.finditer(head)]
    if len(starts) > MOST_FIELDS:
        raise HeadError(f"its frontmatter is not YAML and has more than {MOST_FIELDS} fields")
    ends = [*starts[1:], len(head)]
    fields: Fields = {}
    for start, end in zip(starts, ends, strict=False):
        fields |= _field(head[start:end])
    return fields


def _field(text: str) -> Fields:
    """Return one field; a value that is not valid YAML is plain text without its quotes."""
    found = _yaml(text)
    if is_object(found):
        return found
    name, _, value = text.partition(":")
    return {name.strip(): value.strip().strip("\"'")}


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except HeadError:
        raise
    except (yaml.YAMLError, ValueError):
        return None


@cache
def _loader() -> "type[BaseLoader]":
    """Return the loader class, made on first use, as importing yaml is slow."""
    import yaml

    # BaseLoader builds strings, lists and mappings only: no tag can construct an object.
    class Loader(yaml.BaseLoader):
        """Loads strings, lists and mappings; refuses aliases and deep nesting."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            # An alias without an anchor is plain text, not YAML: `paths: *test`.
            reader: Any = self  # the stubs leave events untyped
            event = reader.peek_event()
            if isinstance(event, yaml.AliasEvent) and event.anchor in self.anchors:
                raise HeadError("its frontmatter has YAML aliases")
            self.depth += 1
            if self.depth > DEEPEST:
                raise HeadError(f"its frontmatter is nested deeper than {DEEPEST} levels")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader
