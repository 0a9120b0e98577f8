"""What the settings, the command line and the user's answers let a session do."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from turnlog.agent.access import Access
from turnlog.agent.permissions import Mode, Policy, Verdict, decide
from turnlog.agent.permissions.paths import escaped
from turnlog.agent.permissions.saving import save_rules
from turnlog.agent.settings import Settings
from turnlog.agent.workspace import Workspace


class Consent:
    """Grows as the user allows more."""

    def __init__(
        self, settings: Settings, mode: Mode, allow: Sequence[str] = (), deny: Sequence[str] = ()
    ) -> None:
        self.mode = mode
        self.for_turn: tuple[str, ...] = ()
        """Rules of the command that is being carried out."""
        self._settings = settings
        self._allow = tuple(allow)
        self._deny = tuple(deny)
        self._policy = lru_cache(maxsize=8)(self._make_policy)

    def decide(self, tool: str, accesses: Sequence[Access], workspace: Workspace) -> Verdict:
        """The verdict about a call."""
        return decide(tool, accesses, self.policy(workspace))

    def policy(self, workspace: Workspace) -> Policy:
        """By what calls are decided now."""
        # What was too long for the model is kept beside the session: it may be read from there.
        kept = f"Read(/{escaped(workspace.folder)}/**)"
        places, allow = tuple(workspace.directories), (*self._allow, *self.for_turn, kept)
        return self._policy(self.mode, workspace.cwd, places, allow)

    def remember(self, rules: tuple[str, ...]) -> None:
        """Allow calls from now on, in this session and in those to come."""
        self._allow += rules
        save_rules(self._settings.local_file, rules)

    def _make_policy(
        self, mode: Mode, cwd: Path, places: tuple[Path, ...], allow: tuple[str, ...]
    ) -> Policy:
        return self._settings.policy(mode, cwd, places, allow, self._deny)
