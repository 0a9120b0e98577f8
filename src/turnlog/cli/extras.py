"""Optional dependencies: which extra provides a module, and the command that installs it."""

from importlib.util import find_spec

from turnlog.errors import Unavailable

EXTRAS = {
    "chat": ("acp anthropic httpx2 markdownify mcp pathspec PIL pypdfium2 yaml").split(),
    "encryption": ["cryptography", "pyrage"],
    "lake": ["duckdb", "pyarrow"],
    "trace": "google.protobuf opentelemetry requests".split(),
}
"""The modules that each extra provides, by their import names."""


def require_extra(extra: str, feature: str) -> None:
    """Raise `Unavailable` with the install command if a package of an extra is missing."""
    for module in EXTRAS[extra]:
        if not _is_installed(module):
            raise missing_extra(extra, feature)


def missing_extra(extra: str, feature: str) -> Unavailable:
    """Return the error for a feature whose extra is not installed."""
    return Unavailable(f"{feature} is not installed", f"pip install 'turnlog[{extra}]'")


def extra_of(module: str | None) -> str | None:
    """Return the extra that provides a module, or None.

    >>> extra_of("anthropic.types"), extra_of("os")
    ('chat', None)
    """
    name = (module or "").partition(".")[0]
    owners = {each.partition(".")[0]: extra for extra, found in EXTRAS.items() for each in found}
    return owners.get(name)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
