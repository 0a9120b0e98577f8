"""JSON Schema of the entry kinds, generated from their types.

Every line that decodes without a misfit validates; unknown fields are allowed.
"""

from typing import Any, get_args

import msgspec

from turnlog.format.blocks import Block, UnknownPart
from turnlog.format.entries import Entry, ProgressData
from turnlog.format.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of_kinds(names: list[str] | None = None) -> dict[str, Any]:
    """Return the schema of an entry of one of the named kinds, by default of all kinds."""
    chosen = names or list(KINDS)
    refs, parts = msgspec.json.schema_components(
        [KINDS[name] for name in chosen], ref_template="#/$defs/{name}"
    )
    # UnknownPart must not match a known block, or a misfit in one would validate as unknown.
    if UnknownPart.__name__ in parts:
        parts[UnknownPart.__name__] = _any_but_known_parts()
    kinds = [_kind_schema(name, ref) for name, ref in zip(chosen, refs, strict=True)]
    whole = kinds[0] if len(kinds) == 1 else {"title": "Session entry", "anyOf": kinds}
    return {"$schema": DIALECT} | whole | {"$defs": dict(sorted(parts.items()))}


def known_parts() -> list[str]:
    """Return the names of the blocks and kinds of progress that have a type."""
    kinds = get_args(Block) + get_args(ProgressData)
    return sorted({str(kind.__struct_config__.tag) for kind in kinds if kind is not UnknownPart})


def _kind_schema(name: str, ref: dict[str, Any]) -> dict[str, Any]:
    entry_type, _, subtype = name.partition("/")
    fixed: dict[str, Any] = {"type": {"const": entry_type}}
    if subtype:
        fixed["subtype"] = {"const": subtype}
    return {"title": name, "description": _description(KINDS[name]), **ref, "properties": fixed}


def _description(kind: type[Entry]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def _any_but_known_parts() -> dict[str, Any]:
    known = {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": known_parts()}},
    }
    return {"title": "UnknownPart", "description": "A kind turnlog does not know.", "not": known}
