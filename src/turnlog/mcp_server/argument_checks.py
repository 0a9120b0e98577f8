"""Check arguments against the schemas of tools; only the keywords used there are supported.

A library for JSON schemas would take longer to import than the server may take to answer. A test
compares the verdicts with those of `jsonschema`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from turnlog.errors import UsageError
from turnlog.format.json_values import is_array, is_object

Schema = dict[str, Any]
SHOWN = 60
"""Characters of a wrong value that a message repeats."""


def check_arguments(schema: Schema, given: Any) -> dict[str, Any]:
    """Return the arguments if they fit the schema. Raise UsageError naming the first problem."""
    # Report one problem at a time: later ones often follow from the first.
    problem = next(_problems(schema, given, "arguments"), None)
    if problem:
        raise UsageError(problem)
    return {name: _normalized(value) for name, value in given.items()}


def _normalized(value: Any) -> Any:
    """Return a value as the tools expect it: `3.0` becomes 3, lone surrogates are replaced."""
    if isinstance(value, float):
        return int(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _problems(schema: Schema, value: Any, name: str) -> Iterator[str]:
    kind = schema["type"]
    if not TYPES[kind](value):
        yield f"{name} must be {ARTICLES[kind]}, not {str(value)[:SHOWN]!r}"
    elif kind == "object":
        yield from _object_problems(schema, value)
    elif kind == "array":
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{name} has more than {schema['maxItems']} values"
        for each in value:
            yield from _problems(schema["items"], each, f"each of {name}")
    else:
        yield from _scalar_problems(schema, value, name)


def _object_problems(schema: Schema, value: dict[str, Any]) -> Iterator[str]:
    known: dict[str, Schema] = schema["properties"]
    for name in schema["required"]:
        if name not in value:
            yield f"{name} is missing"
    for name, each in value.items():
        if name not in known:
            yield f"no argument {name[:SHOWN]!r}: choose from {', '.join(known)}"
        else:
            yield from _problems(known[name], each, name)


def _scalar_problems(schema: Schema, value: Any, name: str) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"{name} must be one of {', '.join(schema['enum'])}, not {str(value)[:SHOWN]!r}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield f"{name} is empty"
        if len(value) > schema.get("maxLength", len(value)):
            yield f"{name} is longer than {schema['maxLength']} characters"
    elif value < schema.get("minimum", value) or value > schema.get("maximum", value):
        yield f"{name} must be from {schema['minimum']} to {schema['maximum']}, not {value}"


def _is_integer(value: Any) -> bool:
    # JSON's `true` is an int to Python; `3.0` is an integer to JSON schema.
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "array": is_array,
    "object": is_object,
}
ARTICLES = {
    "string": "a text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
