"""Render templates and serve static files; both come only from the package."""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from jinja2 import Environment, PackageLoader, StrictUndefined

from turnlog import __version__
from turnlog.render.html.script_bundle import bundle_scripts
from turnlog.text import duration, exact_money, file_size, harmless, money, plural, short_count

ROOT = Path(__file__).parent
FOLDERS = {
    "static": ROOT / "static",
    "viewer": ROOT.parent / "render" / "html" / "viewer",
}
"""Folders whose files are served, by the first part of their URL."""
BUNDLES = ("web_page.js",)
"""Scripts that are served bundled with their imports: 25 requests take longer than one."""
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
NAVIGATION = {
    "overview": ("/", "Overview"),
    "sessions": ("/sessions", "Sessions"),
    "cost": ("/cost", "Cost"),
    "tools": ("/tools", "Tools"),
    "files": ("/files", "Files"),
    "live": ("/live", "Live"),
}
"""Pages in the navigation: URL and title."""


IMPORT = re.compile(r"""^import [^;]*?from "([^"]+)";""", re.MULTILINE)

FILTERS: dict[str, Any] = {
    "money": money,
    "exact_money": exact_money,
    "short_count": short_count,
    "file_size": file_size,
    "duration": duration,
    "plural": plural,
    # HTML escaping does not remove characters that hide or reorder others, such as U+202E.
    "visible": lambda text: harmless(str(text)),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
}


class StaticFile(NamedTuple):
    """A file that pages load."""

    content: bytes
    type: str
    tag: str
    """Its ETag."""

    @property
    def version(self) -> str:
        """The value of `v` in the URL of exactly this content, which browsers may cache."""
        return self.tag.strip('"')


@cache
def static_files() -> dict[str, StaticFile]:
    """Return all files that are served, by path: `/static/app.css`."""
    # A request is looked up in this table and never joined to a folder: /static/../../secrets is
    # a name that does not exist.
    return {
        f"/{prefix}/{path.relative_to(folder).as_posix()}": _static_file(path)
        for prefix, folder in FOLDERS.items()
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES
    }


def _static_file(path: Path) -> StaticFile:
    is_bundle = path.name in BUNDLES
    content = bundle_scripts(path.parent, path.name).encode() if is_bundle else path.read_bytes()
    tag = hashlib.sha256(content).hexdigest()[:16]
    return StaticFile(content, TYPES[path.suffix], f'"{tag}"')


@cache
def asset(path: str) -> str:
    """Return a cacheable URL of a file: the URL changes whenever the file does."""
    return f"{path}?v={static_files()[path].version}"


@cache
def imported_modules(path: str) -> list[str]:
    """Return all modules that a script imports, directly or not.

    A page that lists them lets the browser load all of them in parallel, not level by level.
    """
    found = [path]
    for each in found:  # grows while it is read
        names = IMPORT.findall(static_files()[each].content.decode())
        found += [name for given in names if (name := urljoin(each, given)) not in found]
    return found[1:]


@cache
def environment() -> Environment:
    """Return the templates; every value is escaped, and a missing one is an error."""
    found = Environment(
        loader=PackageLoader("turnlog.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(FILTERS)
    found.globals.update(GLOBALS)
    return found


def render(template: str, page: str, /, **values: Any) -> str:
    """Return a page as HTML; `page` is its name in the navigation, or empty."""
    return environment().get_template(template).render({"page": page, **values})


TURNS_NOTE = "on all branches; turns copied from another session count there"
"""What the number of turns in a list counts; the page of a session shows only one branch."""
GLOBALS: dict[str, Any] = {
    "turns_note": TURNS_NOTE,
    "navigation": NAVIGATION,
    "version": __version__,
    "asset": asset,
    "imported_modules": imported_modules,
}
"""Values that every template can use."""
