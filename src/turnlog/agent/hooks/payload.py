"""The JSON payload passed to hooks, and its use in the input of MCP hooks."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.agent.hooks.runs import encode_payload
from turnlog.format.json_values import Fields, is_array, is_object

PLACE = re.compile(r"\$\{([\w.-]+)\}")


@dataclass
class SessionFacts:
    """Payload fields common to all hooks; the session updates them."""

    session_id: str
    transcript: Path
    project: Path
    """The directory in which the session was started."""
    cwd: Path
    permission_mode: str = "default"
    prompt_id: str | None = None
    entrypoint: str = "cli"
    env_file: Path | None = None
    """File to which some hooks may write variables for later commands."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """`env` of the settings, for command hooks only."""
    title: str = ""
    """Session title set by a hook, until the next prompt."""

    def common(self) -> Fields:
        """Return the fields that identify the session."""
        return {
            "session_id": self.session_id,
            "transcript_path": str(self.transcript),
            "cwd": str(self.cwd),
        }

    def payload(self, event: str, fields: Fields, effort: str | None = None) -> Fields:
        """Return the payload of a hook."""
        common = self.common()
        if self.prompt_id:
            common["prompt_id"] = self.prompt_id
        if EVENTS[event].has_mode:
            common["permission_mode"] = self.permission_mode
        if effort and EVENTS[event].has_effort:
            common["effort"] = {"level": effort}
        return common | {"hook_event_name": event} | fields


def fill_placeholders(given: Any, payload: Fields) -> Any:
    """Return an input with `${…}` placeholders replaced by fields of the payload.

    >>> fill_placeholders({"path": "${tool_input.file_path}"}, {"tool_input": {"file_path": "/a"}})
    {'path': '/a'}
    >>> fill_placeholders("${files.1}", {"files": ["/a", "/b"]})
    '/b'
    """
    if isinstance(given, str):
        return PLACE.sub(lambda found: _text(_part(payload, found[1])), given)
    if is_array(given):
        return [fill_placeholders(each, payload) for each in given]
    if is_object(given):
        return {name: fill_placeholders(value, payload) for name, value in given.items()}
    return given


def _part(value: Any, path: str) -> Any:
    for name in path.split("."):
        if is_array(value) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if is_object(value) else None
    return value


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return encode_payload(value).decode()
