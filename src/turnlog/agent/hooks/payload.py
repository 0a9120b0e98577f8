"""What each hook is told of the session."""

from dataclasses import dataclass, field
from pathlib import Path

from turnlog.agent.hooks.hook_events import EVENTS
from turnlog.format.json_values import Fields


@dataclass
class SessionFacts:
    """What holds for all hooks; whoever runs the session keeps it up to date."""

    session_id: str
    transcript: Path
    project: Path
    """The directory that the session was started in."""
    cwd: Path
    permission_mode: str = "default"
    prompt_id: str | None = None
    entrypoint: str = "cli"
    env_file: Path | None = None
    """Where some hooks may leave variables for the commands to come."""
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Variables of the settings that only commands get."""
    title: str = ""
    """What a hook wants the session to be called, until its next prompt."""

    def told(self, event: str, fields: Fields) -> Fields:
        """What a hook is told."""
        common: Fields = {
            "session_id": self.session_id,
            "transcript_path": str(self.transcript),
            "cwd": str(self.cwd),
        }
        if self.prompt_id:
            common["prompt_id"] = self.prompt_id
        if EVENTS[event].has_mode:
            common["permission_mode"] = self.permission_mode
        return common | {"hook_event_name": event} | fields
