"""The permissions of a session: settings, command line and the user's answers together."""

import os
from collections.abc import Iterable, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from turnlog.agent.permissions import (
    ApprovalMode,
    Policy,
    Rule,
    Verdict,
    VerdictKind,
    decide,
    sound_rules,
)
from turnlog.agent.permissions.bash import UnknownValue
from turnlog.agent.permissions.grants import PermissionChange, read_changes
from turnlog.agent.permissions.links import real_path
from turnlog.agent.permissions.path_access import escaped
from turnlog.agent.permissions.saving import save_rules
from turnlog.agent.workspace.access import Access, Reads, Writes
from turnlog.agent.workspace.workspace import Workspace
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields

COMMAND_LINE = "the command line"
ANSWER = "an answer in this session"
COMMAND = "the command that is carried out"
OWN = "turnlog: what is kept beside the session"

SANDBOX = "IS_SANDBOX"
"""The variable by which the user says that nothing on this machine can be harmed."""


def is_forbidden_to_root(mode: ApprovalMode) -> bool:
    """Return whether root may not use a mode: bypassing permissions needs a sandbox then."""
    return mode is ApprovalMode.BYPASS and os.geteuid() == 0 and not os.environ.get(SANDBOX)


def require_user(mode: ApprovalMode) -> None:
    """Refuse to bypass permissions as root, as the client does (2.1.325, observed)."""
    if is_forbidden_to_root(mode):
        hint = "turnlog chat --permission-mode acceptEdits"
        raise UsageError(f"root may not use {mode.value} without {SANDBOX}=1", hint)


class Rules(Protocol):
    """Decides whether calls may run."""

    for_turn: tuple[str, ...]
    """Further rules, which hold for one turn."""

    @property
    def mode(self) -> ApprovalMode: ...

    @mode.setter
    def mode(self, mode: ApprovalMode) -> None: ...

    @property
    def has_folder(self) -> bool:
        """True if they are a sub-agent's with a directory of its own."""
        ...

    def decide(self, tool: str, accesses: Sequence[Access], workspace: Workspace) -> Verdict:
        """Return the verdict about a call."""
        ...

    def standing(self, workspace: Workspace) -> Policy:
        """Return the policy without the rules of the current turn."""
        ...

    def remember(self, rules: tuple[str, ...], is_kept: bool = True) -> None:
        """Allow calls from now on; with `is_kept`, also in later sessions."""
        ...

    def update(self, updates: Iterable[Fields], workspace: Workspace) -> None:
        """Apply changes that the user's program sends along with an approval."""
        ...

    def may_switch(self, mode: ApprovalMode) -> bool:
        """Return whether a program may switch to a mode."""
        ...

    def lent(self, mode: ApprovalMode | None, folder: Path | None) -> "Rules":
        """Return the rules of a sub-agent: another mode, or a directory of its own."""
        ...


class RuleSettings(Protocol):
    """The part of the settings that permissions are made from."""

    @property
    def root(self) -> Path: ...
    @property
    def local_file(self) -> Path: ...
    @property
    def is_bypass_disabled(self) -> bool: ...

    def file_of(self, destination: str) -> Path | None:
        """Return the file that a change of permissions is saved in."""
        ...

    def policy(
        self,
        mode: ApprovalMode,
        cwd: Path,
        directories: Iterable[Path] = (),
        extra_allow: Iterable[Rule] = (),
        extra_deny: Iterable[Rule] = (),
    ) -> Policy:
        """Return the policy of a mode, with further directories and rules."""
        ...


class Consent:
    """The permissions of a session; they grow as the user allows more."""

    def __init__(
        self,
        settings: RuleSettings,
        mode: ApprovalMode,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        may_bypass: bool = False,
    ) -> None:
        self._mode: ApprovalMode | None = mode
        self._lender: Consent | None = None
        """Of a sub-agent's rules: those of the conversation that started it."""
        self.for_turn: tuple[str, ...] = ()
        """Rules of the command that is being carried out."""
        self._settings = settings
        self._allow = self._rules(allow, COMMAND_LINE)
        self._deny = self._rules(deny, COMMAND_LINE)
        self._asked: list[Rule] = []
        # Only if the chat was started in it: no later message must turn off all questions.
        self._may_bypass = may_bypass or mode is ApprovalMode.BYPASS
        self._folder: Path | None = None
        # Parsing and merging all rules for each of thousands of search results would be slow; the
        # key holds everything that a policy depends on.
        self._policy = lru_cache(maxsize=8)(self._make_policy)

    @property
    def mode(self) -> ApprovalMode:
        """The mode; a sub-agent follows the conversation, unless it has a mode of its own.

        The user may change the mode while it runs: in plan mode nothing is written, by nobody.
        """
        if self._lender is None:
            return self._mode or ApprovalMode.DEFAULT
        shared = self._lender.mode
        return shared if shared is ApprovalMode.PLAN else self._mode or shared

    @mode.setter
    def mode(self, mode: ApprovalMode) -> None:
        if self._lender is not None and self._mode is None:
            self._lender.mode = mode
        else:
            self._mode = mode

    def decide(self, tool: str, accesses: Sequence[Access], workspace: Workspace) -> Verdict:
        """Return the verdict about a call."""
        verdict = decide(tool, accesses, self.policy(workspace))
        # A rule in `ask` is firm: it holds for the memory of an agent as well.
        is_open = verdict.kind is VerdictKind.ASK and not verdict.is_firm
        if is_open and accesses and all(map(self._is_own, accesses)):
            return Verdict(VerdictKind.ALLOW, "the files of its memory are its own")
        return verdict

    @property
    def has_folder(self) -> bool:
        """True if they are a sub-agent's with a directory of its own."""
        return self._folder is not None

    def policy(self, workspace: Workspace) -> Policy:
        """Return the current policy."""
        return self._policy_with(workspace, self._rules(self.for_turn, COMMAND))

    def standing(self, workspace: Workspace) -> Policy:
        """Return the policy without the rules of the current turn."""
        return self._policy_with(workspace, [])

    def _policy_with(self, workspace: Workspace, passing: list[Rule]) -> Policy:
        # What was too long for the model is kept beside the session: it may be read from there.
        spilled = self._rules([f"Read(/{escaped(workspace.folder)}/**)"], OWN)
        places, allow = tuple(workspace.directories), (*self._allow, *passing, *spilled)
        extra = (tuple(self._deny), tuple(self._asked))
        policy = self._policy(self.mode, workspace.cwd, places, allow, extra)
        added = workspace.environment.get("PATH", "")
        return replace(policy, added_path=added) if added else policy

    def _rules(self, texts: Sequence[str], source: str) -> list[Rule]:
        return list(sound_rules(texts, self._settings.root, source))

    def remember(self, rules: tuple[str, ...], is_kept: bool = True) -> None:
        """Allow calls from now on; with `is_kept`, also in later sessions."""
        file = self._settings.local_file
        self._allow += self._rules(rules, str(file) if is_kept else ANSWER)
        if is_kept:
            save_rules(file, rules)

    def update(self, updates: Iterable[Fields], workspace: Workspace) -> None:
        """Apply changes that the user's program sends along with an approval.

        Rules of settings files and of the command line stay in force: what they deny, no answer
        allows. Changes of an unknown kind are ignored.
        """
        for change in read_changes(updates):
            if change.kind == "setMode":
                self._switch(change.mode)
            elif change.kind in ("addDirectories", "removeDirectories"):
                _change_directories(change, workspace)
            elif change.kind in ("addRules", "replaceRules", "removeRules"):
                self._change_rules(change)

    def may_switch(self, mode: ApprovalMode) -> bool:
        """Return whether a program may switch to a mode."""
        if mode is not ApprovalMode.BYPASS:
            return True
        is_disabled = self._settings.is_bypass_disabled or is_forbidden_to_root(mode)
        return self._may_bypass and not is_disabled

    def _switch(self, name: str) -> None:
        known = [mode for mode in ApprovalMode if mode.value == name]
        if known and self.may_switch(known[0]):
            self.mode = known[0]

    def _change_rules(self, change: PermissionChange) -> None:
        lists = {"allow": self._allow, "deny": self._deny, "ask": self._asked}
        held = lists.get(change.behavior)
        if held is None:
            return
        # In place: sub-agents share the lists.
        if change.kind == "removeRules":
            is_free = change.behavior == "allow"
            held[:] = [
                rule
                for rule in held
                if rule.text not in change.rules or not (is_free or rule.source == ANSWER)
            ]
            return
        if change.kind == "replaceRules":
            held[:] = [rule for rule in held if rule.source != ANSWER]
        file = self._settings.file_of(change.destination)
        held += self._rules(change.rules, ANSWER)
        if file and change.kind == "addRules":
            save_rules(file, change.rules, change.behavior)

    def lent(self, mode: ApprovalMode | None, folder: Path | None) -> "Consent":
        """Return the rules of a sub-agent: another mode unless disabled, or a directory of its own.

        Rules that the user adds in either conversation count in both.
        """
        # A shallow copy: `_allow` stays the same list, which both conversations extend.
        other = copy(self)
        other._lender = self
        is_disabled = mode is ApprovalMode.BYPASS and self._settings.is_bypass_disabled
        is_usable = mode and not is_disabled and not is_forbidden_to_root(mode)
        other._mode = mode if is_usable else None
        other._folder = folder
        return other

    def _is_own(self, access: Access) -> bool:
        """Return whether a file lies in the sub-agent's own folder, wherever links lead."""
        if not self._folder or not isinstance(access, Reads | Writes):
            return False
        try:
            return real_path(access.path).is_relative_to(real_path(self._folder))
        except UnknownValue:
            return False

    def _make_policy(
        self,
        mode: ApprovalMode,
        cwd: Path,
        places: tuple[Path, ...],
        allow: tuple[Rule, ...],
        extra: tuple[tuple[Rule, ...], tuple[Rule, ...]],
    ) -> Policy:
        deny, ask = extra
        policy = self._settings.policy(mode, cwd, places, allow, deny)
        return replace(policy, ask=(*policy.ask, *ask)) if ask else policy


def _change_directories(change: PermissionChange, workspace: Workspace) -> None:
    paths = [workspace.path_of(each).resolve() for each in change.directories]
    if change.kind == "removeDirectories":
        workspace.directories[:] = [each for each in workspace.directories if each not in paths]
        return
    known = workspace.folders
    workspace.directories += [each for each in paths if each.is_dir() and each not in known]
