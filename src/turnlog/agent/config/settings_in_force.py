"""The settings in effect, each with the files that set it.

Lists and objects are merged from all files that set them; a single value comes from the last one.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.config.settings import Settings, SettingsSource
from turnlog.format.json_values import is_array, is_object
from turnlog.secrets import mask, mask_named

DIRECT = "permissions"
"""The section whose fields are listed as separate settings."""
MODE = "permissions.defaultMode"


class SettingInForce(Struct, frozen=True):
    """A setting in effect."""

    key: str
    value: Any
    paths: tuple[Path, ...]
    """The files that set it, the highest precedence last."""

    @property
    def shown(self) -> str:
        """The value in a short form, with secrets masked."""
        if is_array(self.value):
            return ", ".join(mask(str(each)) for each in self.value)
        if is_object(self.value):
            return ", ".join(_entry(name, each) for name, each in self.value.items())
        return mask(_text(self.value))


def settings_in_force(settings: Settings) -> dict[str, SettingInForce]:
    """Return all settings that the session's files set, by key."""
    found: dict[str, SettingInForce] = {}
    for source in settings.sources:
        for key, value in _written(source):
            before = found.get(key)
            paths = (*(before.paths if before else ()), source.path)
            found[key] = SettingInForce(key, _merged(before, value), paths)
    return found


def _written(source: SettingsSource) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a file, without those ignored because a project is not trusted."""
    content: dict[str, Any] = msgspec.to_builtins(source.content)
    # `permissions.allow` and `permissions.defaultMode` are merged differently, so each is a setting
    # of its own.
    inner: dict[str, Any] = content.pop(DIRECT, None) or {}
    direct = {f"{DIRECT}.{name}": each for name, each in inner.items()}
    for key, value in (content | direct).items():
        if value not in (None, {}, []) and not _is_unset(value):
            yield key, value


def _is_unset(value: Any) -> bool:
    """Return whether an object has no field that is set."""
    return is_object(value) and all(each in (None, {}, [], ()) for each in value.values())


def _merged(before: SettingInForce | None, value: Any) -> Any:
    old = before.value if before else None
    if is_array(old) and is_array(value):
        return [*old, *value]
    if is_object(old) and is_object(value):
        # A field that a later file does not set keeps its earlier value.
        return old | {name: each for name, each in value.items() if each is not None}
    return value


def _entry(name: str, value: Any) -> str:
    if is_array(value):
        return f"{name} ({len(value)})"
    return f"{name}={mask_named(name, _text(value))}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def later_files(found: SettingInForce | None, own: Path) -> Iterable[Path]:
    """Return the files that override the user's own file in a setting."""
    paths = found.paths if found else ()
    return paths[paths.index(own) + 1 :] if own in paths else paths
