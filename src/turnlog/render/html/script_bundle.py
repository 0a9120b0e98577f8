"""Bundle ES modules into one script, for a page that may load nothing.

Modules keep their scopes: each becomes a function that returns its exports. Only named imports from
the same folder, and exports of functions, constants and classes are supported. Anything else raises
an error, so that no module works in the web app but fails in an export.
"""

import re
from pathlib import Path

IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"\./([\w-]+\.js)";?[ \t]*$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*? |const |class )([\w$]+))", re.MULTILINE)
OTHER = re.compile(r"^\s*(?:import|export)\b.*|\bimport\s*\(.*", re.MULTILINE)
UNSAFE = re.compile(r"<(?=/script|script|!--)", re.IGNORECASE)
"""Text that would end the script element or change how its end is found."""


def bundle_scripts(folder: Path, entry: str) -> str:
    """Return a script that runs the module `entry` of a folder, with all its imports."""
    bundled: dict[str, str] = {}
    _bundle(folder, entry, bundled, ())
    script = '"use strict";\n' + "\n".join(bundled.values())
    if found := UNSAFE.search(script):
        raise ValueError(f"a script contains {script[found.start() : found.start() + 9]!r}")
    return script


def _bundle(folder: Path, name: str, bundled: dict[str, str], path: tuple[str, ...]) -> None:
    if name in path:
        raise ValueError(f"modules import each other: {' → '.join((*path, name))}")
    if name in bundled:
        return
    source = (folder / name).read_text("utf-8")
    for _, imported in IMPORT.findall(source):
        _bundle(folder, imported, bundled, (*path, name))
    bundled[name] = _wrap(name, source)


def _wrap(name: str, source: str) -> str:
    """Return a module as a constant: an object with its exports."""
    exports = ", ".join(EXPORT.findall(source))
    body = EXPORT.sub("", IMPORT.sub(_destructure, source))
    if other := OTHER.search(body):
        raise ValueError(f"{name}: cannot bundle {other[0].strip()!r}")
    return f"const {_variable(name)} = (() => {{\n{body.strip()}\nreturn {{ {exports} }};\n}})();"


def _destructure(found: re.Match[str]) -> str:
    names = re.sub(r"\s+as\s+", ": ", " ".join(found[1].split()))
    return f"const {{ {names} }} = {_variable(found[2])};"


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name)
