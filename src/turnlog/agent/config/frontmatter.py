"""The fields at the head of a Markdown file, between two lines of dashes.

People write them loosely: what is not YAML is read field by field, as it stands. All values are
texts, or lists and mappings of texts.
"""

import re
from typing import Any

from turnlog.format.json_values import Fields, is_array, is_object

HEAD = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^([A-Za-z_][\w-]*)[ \t]*:", re.MULTILINE)
INHERIT = "inherit"
OUTSIDE_BRACKETS = re.compile(r"(?:\([^()]*\)|[^\s,()])+")


def split_head(text: str) -> tuple[Fields, str]:
    """The fields at the head of a text, and the text below them.

    >>> split_head("---\\nname: a\\ntools: Read, Bash\\n---\\nBe kind.")
    ({'name': 'a', 'tools': 'Read, Bash'}, 'Be kind.')
    """
    head = HEAD.match(text)
    if not head:
        return {}, text.removeprefix("\ufeff")
    return _fields(head[1]), text[head.end() :]


def text_of(value: Any) -> str:
    """A field that is meant as text, even if YAML sees a list in it: `[file]`.

    >>> text_of(["file"]), text_of(" a "), text_of(None)
    ('[file]', 'a', '')
    """
    if is_array(value):
        return f"[{', '.join(map(text_of, value))}]"
    return str(value).strip() if value is not None else ""


def names_of(value: Any) -> list[str] | None:
    """A field that lists names, as a list or in one line; None where there is no such field.

    >>> names_of("Bash(git add *), Read"), names_of(["Read"]), names_of(None)
    (['Bash(git add *)', 'Read'], ['Read'], None)
    """
    if value is None:
        return None
    if is_array(value):
        return [text_of(each) for each in value]
    return OUTSIDE_BRACKETS.findall(text_of(value))


def is_set(value: Any) -> bool:
    """Whether a field says yes."""
    return text_of(value).lower() in ("true", "yes", "on")


def number_of(value: Any) -> int | None:
    """A field that is a number, if it is one."""
    text = text_of(value)
    return int(text) if text.isdecimal() else None


def model_of(value: Any) -> str | None:
    """The model that a field names; None where it is that of the conversation."""
    text = text_of(value)
    return text if text and text != INHERIT else None


def _fields(head: str) -> Fields:
    whole = _yaml(head)
    if is_object(whole):
        return whole
    starts = [match.start() for match in FIELD.finditer(head)]
    ends = [*starts[1:], len(head)]
    fields: Fields = {}
    for start, end in zip(starts, ends, strict=False):
        fields |= _field(head[start:end])
    return fields


def _field(text: str) -> Fields:
    """One field: what is no YAML is a text, with its quotes but not its line breaks taken off."""
    found = _yaml(text)
    if is_object(found):
        return found
    name, _, value = text.partition(":")
    return {name.strip(): value.strip().strip("\"'")}


def _yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError):
        return None
