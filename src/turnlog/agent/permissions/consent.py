"""The permissions of a session: settings, command line and the user's answers combined."""

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
from turnlog.agent.permissions.commands import ask_outside, whole_program
from turnlog.agent.permissions.grants import DIRECTORIES, RULES, PermissionChange, read_changes
from turnlog.agent.permissions.policy import patterns_of
from turnlog.agent.permissions.rules import COMMANDS
from turnlog.agent.permissions.saving import (
    change_settings,
    save_rules,
    with_mode,
    without_rules,
)
from turnlog.agent.workspace.access import Access, Basis, Reads, Runs, Writes
from turnlog.agent.workspace.sandbox.patterns import PathPattern, escaped
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.workspace import Workspace
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields

COMMAND_LINE = "the command line"
ANSWER = "an answer in this session"
TURN = "the command of this turn"
OWN = "turnlog: output saved beside the session"
PLACES = "additionalDirectories"
Dropped = tuple[str, str, str | None]
"""The name of a list in the settings, its file, and the removed entry; None for all entries."""

SANDBOX = "IS_SANDBOX"
"""The variable by which the user declares this machine to be a sandbox."""


def is_forbidden_to_root(mode: ApprovalMode) -> bool:
    """Return whether a mode is forbidden to root, who may bypass permissions only in a sandbox."""
    return mode is ApprovalMode.BYPASS and os.geteuid() == 0 and not os.environ.get(SANDBOX)


def require_user(mode: ApprovalMode) -> None:
    """Refuse to bypass permissions as root, as the client does (2.1.325, observed)."""
    if is_forbidden_to_root(mode):
        hint = "turnlog chat --permission-mode acceptEdits"
        raise UsageError(f"root may not use {mode.value} without {SANDBOX}=1", hint)


class Rules(Protocol):
    """Decides whether calls may run."""

    for_turn: tuple[str, ...]
    """Additional rules that apply to one turn."""

    @property
    def mode(self) -> ApprovalMode: ...

    @mode.setter
    def mode(self, mode: ApprovalMode) -> None: ...

    def decide(self, tool: str, accesses: Sequence[Access], workspace: Workspace) -> Verdict:
        """Return the verdict about a call."""
        ...

    def standing(self, workspace: Workspace) -> Policy:
        """Return the policy without the rules of the current turn."""
        ...

    def profile(self, basis: Basis, workspace: Workspace, is_bare: bool = False) -> Profile:
        """Return the sandbox profile of a command that is allowed on a basis."""
        ...

    def remember(self, rules: tuple[str, ...], is_kept: bool = True) -> None:
        """Allow calls from now on; with `is_kept`, also in later sessions."""
        ...

    def update(self, updates: Iterable[Fields], workspace: Workspace) -> None:
        """Apply permission changes that the host sends along with an approval."""
        ...

    def may_switch(self, mode: ApprovalMode) -> bool:
        """Return whether a program may switch to a mode."""
        ...

    def lent(self, mode: ApprovalMode | None, folder: Path | None) -> "Rules":
        """Return the rules for a sub-agent, with its own mode and folder if given."""
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
        """Return the file to save changed permissions in; None to change this session only."""
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
        """For a sub-agent: the rules of the conversation that started it."""
        self.for_turn: tuple[str, ...] = ()
        """Rules of the current turn, such as those of a slash command."""
        self._borrowed: tuple[str, ...] = ()
        """For a sub-agent: the first rules of `for_turn`, which come from the conversation."""
        self._settings = settings
        self._allow = self._rules(allow, COMMAND_LINE)
        self._deny = self._rules(deny, COMMAND_LINE)
        self._asked: list[Rule] = []
        self._dropped: set[Dropped] = set()
        """Rules and directories of settings files that were removed in this session."""
        # Decided when the chat starts: no later message may turn off all questions.
        self._may_bypass = may_bypass or mode is ApprovalMode.BYPASS
        self._folder: Path | None = None
        # Parsing and merging all rules for each of thousands of search results would be slow; the
        # key holds everything that a policy depends on.
        self._policy = lru_cache(maxsize=8)(self._make_policy)

    @property
    def mode(self) -> ApprovalMode:
        """The mode; a sub-agent has that of the conversation, unless it has its own.

        Plan mode of the conversation always applies: if the user switches to it while a sub-agent
        runs, the sub-agent may not write anything either.
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
        policy = self.policy(workspace)
        verdict = decide(tool, accesses, policy)
        if verdict.kind is VerdictKind.ALLOW:
            commands = [access for access in accesses if isinstance(access, Runs)]
            profile = profile_of(verdict.basis, policy, workspace)
            return next(filter(None, (ask_outside(e, policy, profile) for e in commands)), verdict)
        # An ask rule is firm: it also applies to the memory of a sub-agent.
        is_open = verdict.kind is VerdictKind.ASK and not verdict.is_firm
        if is_open and accesses and all(map(self._is_own, accesses)):
            return Verdict(VerdictKind.ALLOW, "the files of its memory are its own")
        return verdict

    def profile(self, basis: Basis, workspace: Workspace, is_bare: bool = False) -> Profile:
        """Return the sandbox profile of a command that is allowed on a basis."""
        return profile_of(basis, self.policy(workspace), workspace, is_bare)

    def policy(self, workspace: Workspace) -> Policy:
        """Return the current policy."""
        return self._policy_with(workspace, self._rules(self._passing(), TURN))

    def standing(self, workspace: Workspace) -> Policy:
        """Return the policy without the rules of the current turn."""
        return self._policy_with(workspace, [])

    def _passing(self) -> tuple[str, ...]:
        """Return the rules of the current turn.

        The rules of a command expire with its turn, even for a sub-agent that is still running in
        the background.
        """
        if self._lender is None:
            return self.for_turn
        count = len(self._borrowed)
        is_lent = self._lender._passing()[:count] == self._borrowed
        return self.for_turn if is_lent else self.for_turn[count:]

    def _policy_with(self, workspace: Workspace, passing: list[Rule]) -> Policy:
        # Output that was too long for the model is saved beside the session, and may be read there.
        spilled = self._rules([f"Read(/{escaped(workspace.folder)}/**)"], OWN)
        places, allow = tuple(workspace.directories), (*self._allow, *passing, *spilled)
        extra = (tuple(self._deny), tuple(self._asked))
        dropped = frozenset(self._dropped)
        policy = self._policy(self.mode, workspace.cwd, places, allow, extra, dropped)
        excluded = workspace.confinement.excluded if workspace.confinement.is_on else ()
        return replace(policy, tier=workspace.tier, excluded=excluded)

    def _rules(self, texts: Sequence[str], source: str) -> list[Rule]:
        return list(sound_rules(texts, self._settings.root, source))

    def remember(self, rules: tuple[str, ...], is_kept: bool = True) -> None:
        """Allow calls from now on; with `is_kept`, also in later sessions."""
        file = self._settings.local_file
        self._allow += self._rules(rules, str(file) if is_kept else ANSWER)
        if is_kept:
            save_rules(file, rules)

    def update(self, updates: Iterable[Fields], workspace: Workspace) -> None:
        """Apply changes that come with an approval, and save those that name a settings file.

        Rules of the organisation and of the command line stay in force: no answer can allow what
        they deny. Changes of an unknown kind are ignored.
        """
        for change in read_changes(updates):
            file = self._settings.file_of(change.destination)
            if change.kind == "setMode":
                self._switch(change.mode, file)
            elif change.kind in DIRECTORIES:
                self._change_directories(change, workspace, file)
            elif change.kind in RULES:
                self._change_rules(change, file)

    def may_switch(self, mode: ApprovalMode) -> bool:
        """Return whether a program may switch to a mode."""
        if mode is not ApprovalMode.BYPASS:
            return True
        is_disabled = self._settings.is_bypass_disabled or is_forbidden_to_root(mode)
        return self._may_bypass and not is_disabled

    def _switch(self, name: str, file: Path | None) -> None:
        known = [mode for mode in ApprovalMode if mode.value == name]
        if not known or not self.may_switch(known[0]):
            return
        self.mode = known[0]
        # Never save bypass mode: an answer in one session must not turn off questions in others.
        if file and known[0] is not ApprovalMode.BYPASS:
            change_settings(file, lambda text: with_mode(text, name))

    def _change_rules(self, change: PermissionChange, file: Path | None) -> None:
        lists = {"allow": self._allow, "deny": self._deny, "ask": self._asked}
        held, source = lists.get(change.behavior), str(file) if file else ANSWER
        if held is None:
            return
        dropped = None if change.kind == "replaceRules" else change.rules
        if change.kind != "addRules":
            # In place: sub-agents share the lists.
            held[:] = [rule for rule in held if not _is_dropped(rule, change, source)]
            if file:
                self._drop(change.behavior, source, dropped)
                change_settings(file, lambda text: without_rules(text, dropped, change.behavior))
        if change.kind != "removeRules":
            held += self._rules(change.rules, source)
            if file:
                save_rules(file, change.rules, change.behavior)

    def _drop(self, kind: str, source: str, texts: Iterable[str] | None) -> None:
        """Ignore entries of a list in the settings until the session ends; None means all."""
        self._dropped |= {(kind, source, text) for text in ([None] if texts is None else texts)}

    def _change_directories(
        self, change: PermissionChange, workspace: Workspace, file: Path | None
    ) -> None:
        paths = [workspace.path_of(each).resolve() for each in change.directories]
        named = [str(path) for path in paths]
        if change.kind == "removeDirectories":
            workspace.directories[:] = [each for each in workspace.directories if each not in paths]
            self._drop(PLACES, "", named)
            if file:
                # The paths as written, and the resolved paths.
                texts = [*change.directories, *named]
                change_settings(file, lambda text: without_rules(text, texts, PLACES))
            return
        known = workspace.folders
        self._dropped -= {(PLACES, "", each) for each in named}
        added = [each for each in paths if each.is_dir()]
        workspace.directories += [each for each in added if each not in known]
        if file and added:
            save_rules(file, map(str, added), PLACES)

    def lent(self, mode: ApprovalMode | None, folder: Path | None) -> "Consent":
        """Return the rules for a sub-agent, with its own folder and, unless disabled, its own mode.

        Rules that the user adds in either conversation apply to both.
        """
        # A shallow copy: `_allow` stays the same list, which both conversations extend.
        other = copy(self)
        other._lender = self
        is_disabled = mode is ApprovalMode.BYPASS and self._settings.is_bypass_disabled
        is_usable = mode and not is_disabled and not is_forbidden_to_root(mode)
        other._mode = mode if is_usable else None
        other._folder = folder
        other._borrowed = other.for_turn = self._passing()
        return other

    def _is_own(self, access: Access) -> bool:
        """Return whether a file is in the sub-agent's own folder after resolving links."""
        if not self._folder or not isinstance(access, Reads | Writes):
            return False
        return access.path.resolve().is_relative_to(self._folder.resolve())

    def _make_policy(
        self,
        mode: ApprovalMode,
        cwd: Path,
        places: tuple[Path, ...],
        allow: tuple[Rule, ...],
        extra: tuple[tuple[Rule, ...], tuple[Rule, ...]],
        dropped: frozenset[Dropped],
    ) -> Policy:
        deny, ask = extra
        policy = self._settings.policy(mode, cwd, places, allow, deny)
        policy = replace(policy, ask=(*policy.ask, *ask)) if ask else policy
        return self._without_dropped(policy, dropped, {*allow, *deny, *ask}) if dropped else policy

    def _without_dropped(
        self, policy: Policy, dropped: frozenset[Dropped], added: set[Rule]
    ) -> Policy:
        def counts(kind: str, rule: Rule) -> bool:
            names = {(kind, rule.source, rule.text), (kind, rule.source, None)}
            return rule in added or not names & dropped

        lists = {
            kind: tuple(rule for rule in rules if counts(kind, rule))
            for kind, rules in (("allow", policy.allow), ("deny", policy.deny), ("ask", policy.ask))
        }
        root, *others = policy.directories
        kept = [each for each in others if (PLACES, "", str(each.resolve())) not in dropped]
        return replace(policy, **lists, directories=(root, *kept))


def _is_dropped(rule: Rule, change: PermissionChange, source: str) -> bool:
    """Return whether a change removes a rule that was added in this session.

    A removal that names no settings file also removes allow rules of the command line.
    """
    is_free = change.kind == "removeRules" and change.behavior == "allow" and source == ANSWER
    is_named = change.kind == "replaceRules" or rule.text in change.rules
    return is_named and (is_free or rule.source == source)


def profile_of(
    basis: Basis, policy: Policy, workspace: Workspace, is_bare: bool = False
) -> Profile:
    """Return the sandbox profile of a command: what rules deny is hidden, whoever allows it.

    What a rule asks about is hidden as well, unless the user has confirmed the command.
    """
    hidden, locked = policy.denied("Read"), policy.denied("Edit")
    if basis not in (Basis.USER, Basis.HOOK, Basis.BYPASS):
        hidden += _patterns(policy.ask, "Read", policy)
        locked += _patterns(policy.ask, "Edit", policy)
    rules = [rule for rule in policy.deny if rule.tool == COMMANDS]
    return Profile(
        basis,
        tuple(workspace.folders),
        hidden=hidden,
        locked=locked,
        shown=_patterns(policy.allow, "Read", policy),
        programs=tuple(name for rule in rules if (name := whole_program(rule))),
        settings=workspace.confinement,
        is_bare=is_bare,
    )


def _patterns(rules: Iterable[Rule], tool: str, policy: Policy) -> tuple[PathPattern, ...]:
    named = [rule for rule in rules if rule.tool == tool and rule.about is not None]
    return tuple(each for rule in named for each in patterns_of(rule, policy.places))
