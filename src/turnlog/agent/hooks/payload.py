"""The JSON payload passed to hooks."""

from dataclasses import dataclass, field
from pathlib import Path

from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.format.json_values import Fields


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
        """Return the fields that name the session."""
        return {
            "session_id": self.session_id,
            "transcript_path": str(self.transcript),
            "cwd": str(self.cwd),
        }

    def payload(self, event: str, fields: Fields) -> Fields:
        """Return the payload of a hook."""
        common = self.common()
        if self.prompt_id:
            common["prompt_id"] = self.prompt_id
        if EVENTS[event].has_mode:
            common["permission_mode"] = self.permission_mode
        return common | {"hook_event_name": event} | fields
