"""The content of settings files, and the subset that applies in an untrusted project."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.permissions.saving import edit_command
from turnlog.agent.workspace.project_directories import LARGEST
from turnlog.agent.workspace.sandbox.settings import Sandbox, restricting
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.format.regular_files import read_regular


class Permissions(Struct, rename="camel"):
    """The `permissions` section."""

    allow: list[str] | None = None
    ask: list[str] | None = None
    deny: list[str] | None = None
    default_mode: str | None = None
    additional_directories: list[str] | None = None
    disable_bypass_permissions_mode: str | None = None


class SettingsContent(Struct, rename="camel"):
    """The fields of a settings file that turnlog uses."""

    permissions: Permissions | None = None
    hooks: dict[str, list[Fields]] | None = None
    disable_all_hooks: bool | None = None
    allow_managed_hooks_only: bool | None = None
    allowed_http_hook_urls: list[str] | None = None
    http_hook_allowed_env_vars: list[str] | None = None
    allow_managed_permission_rules_only: bool | None = None
    env: dict[str, Any] | None = None
    model: str | None = None
    auto_compact_enabled: bool | None = None
    auto_compact_window: int | str | None = None
    auto_memory_enabled: bool | None = None
    sandbox: Sandbox | None = None
    enable_all_project_mcp_servers: bool | None = None
    enabled_mcpjson_servers: list[str] | None = None
    disabled_mcpjson_servers: list[str] | None = None
    effort_level: str | None = None
    always_thinking_enabled: bool | None = None
    show_thinking_summaries: bool | None = None
    output_style: str | None = None
    theme: str | None = None
    editor_mode: str | None = None
    status_line: Fields | None = None
    api_key_helper: str | None = None
    language: str | None = None
    attribution: Fields | None = None
    include_co_authored_by: bool | None = None
    cleanup_period_days: int | None = None
    fallback_model: str | list[str] | None = None
    claude_md_excludes: list[str] | None = None
    enabled_plugins: Fields | None = None
    extra_known_marketplaces: Fields | None = None
    strict_known_marketplaces: list[Fields] | None = None
    blocked_marketplaces: list[Fields] | None = None


def restrict(content: SettingsContent) -> SettingsContent:
    """Return the settings that only restrict, which apply even in an untrusted project.

    Disabling a plugin is not among them, as the plugin's hooks may deny calls.
    """
    permissions = content.permissions or Permissions()
    # An allowlist: a setting added to turnlog later is ignored in untrusted projects until it is
    # listed here.
    return SettingsContent(
        permissions=Permissions(
            ask=permissions.ask,
            deny=permissions.deny,
            disable_bypass_permissions_mode=permissions.disable_bypass_permissions_mode,
        ),
        disabled_mcpjson_servers=content.disabled_mcpjson_servers,
        sandbox=restricting(content.sandbox or Sandbox()),
    )


def lost_settings(content: SettingsContent, used: SettingsContent) -> Iterator[str]:
    """Yield the names of the settings that are ignored in a file."""
    written, rest = msgspec.to_builtins(content), msgspec.to_builtins(used)
    for name, value in written.items():
        if name in ("permissions", "sandbox") and value:
            inner = rest[name]
            yield from (f"{name}.{each}" for each in value if _is_lost(value[each], inner[each]))
        elif _is_lost(value, rest[name]):
            yield name


def _is_lost(written: Any, used: Any) -> bool:
    return written not in (None, {}, []) and written != used


def _read_bytes(path: Path) -> bytes:
    return read_regular(path, LARGEST)


def read_settings(path: Path, read_bytes: Callable[[Path], bytes] = _read_bytes) -> SettingsContent:
    """Return the content of a settings file; raise `UsageError` if it is invalid.

    Pass `Path.read_bytes` to read pipes as well, as for `--settings <(make-settings)`.
    """
    try:
        # Some editors start a file with a byte-order mark, which JSON does not allow.
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid: {error}", edit_command(path)) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not text.strip():
        return SettingsContent()
    return decode_settings(text, str(path), edit_command(path))


def decode_settings(text: str, name: str, hint: str) -> SettingsContent:
    try:
        return msgspec.json.decode(text, type=SettingsContent)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{name} is not valid: {error}", hint) from error
