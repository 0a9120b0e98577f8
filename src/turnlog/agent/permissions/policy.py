"""Verdicts about calls, the policy that they follow from, and questions to the user."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Literal

from msgspec import Struct

from turnlog.agent.permissions.rules import Rule
from turnlog.agent.workspace.access import ApprovalMode, Basis, Tier
from turnlog.agent.workspace.sandbox.patterns import PathPattern, anchored
from turnlog.format.json_values import Fields


class VerdictKind(StrEnum):
    """A decision: run the call, ask the user, or refuse the call."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


WIDTH = {basis: rank for rank, basis in enumerate(Basis)}


class Verdict(Struct, frozen=True):
    """A verdict about a call, with its reasons."""

    kind: VerdictKind
    reason: str
    remember: tuple[str, ...] = ()
    """Rules that would allow it in the future: what "don't ask again" would save."""
    is_firm: bool = False
    """True if it applies in every mode, whatever a hook says."""
    reasons: tuple[str, ...] = ()
    """The reasons one by one; `reason` joins them."""
    basis: Basis = Basis.READ
    """The basis of an approval; it decides how strictly a command is confined."""


class Policy(Struct, frozen=True):
    """The rules, mode and directories that decide about calls."""

    deny: tuple[Rule, ...]
    ask: tuple[Rule, ...]
    allow: tuple[Rule, ...]
    mode: ApprovalMode
    cwd: Path
    """The directory in which commands run."""
    directories: tuple[Path, ...]
    """Working directories; the first is where the session was started."""
    tier: Tier = Tier.LISTED
    """What commands may do unasked in the mode `default`."""
    excluded: tuple[str, ...] = ()
    """Patterns of commands that run without a sandbox."""

    @property
    def root(self) -> Path:
        """The base of patterns without a leading slash, which no command can change."""
        return self.places[0]

    @property
    def places(self) -> tuple[Path, ...]:
        """The bases of deny and ask patterns: `Read(.env)` applies in every directory."""
        return self.directories or (self.cwd,)

    @property
    def has_file_rules(self) -> bool:
        """True if a deny or ask rule is about files."""
        return any(rule.tool in ("Read", "Edit") for rule in (*self.deny, *self.ask))

    def denied(self, *tools: str) -> tuple[PathPattern, ...]:
        """Return the path patterns of the deny rules for some tools."""
        rules = [rule for rule in self.deny if rule.tool in tools]
        return tuple(each for rule in rules for each in patterns_of(rule, self.places))


class AccessDecision(Struct, frozen=True):
    """The decision about one access of a call."""

    kind: VerdictKind
    reason: str
    is_firm: bool = False
    """True if it applies in every mode."""
    remember: tuple[str, ...] = ()
    is_guarded: bool = False
    """True if no rule can allow it."""
    basis: Basis = Basis.READ


ALLOWED = AccessDecision(VerdictKind.ALLOW, "")


def patterns_of(rule: Rule, places: tuple[Path, ...]) -> tuple[PathPattern, ...]:
    """Return the path patterns of a deny or ask rule: `Read(.env)` counts in every directory.

    Settings in a repository's root apply to all of it: their `Read(app/.env)` means the same file
    in a session that was started in `app`.
    """
    given = (anchored(rule.about or "**", rule.base, place) for place in (*places, rule.base))
    return tuple(dict.fromkeys(given))


def strictest(findings: list[AccessDecision]) -> Verdict:
    """Return the verdict about a call: the strictest decision about its accesses."""
    for kind in (VerdictKind.DENY, VerdictKind.ASK):
        if found := [finding for finding in findings if finding.kind is kind]:
            # Saving a rule helps only if each finding asks because no rule allows the access.
            offers = [each.remember for each in found] if kind is VerdictKind.ASK else []
            rules = tuple(dict.fromkeys(rule for offer in offers for rule in offer))
            # Keep all reasons: otherwise the user approves a part without having seen it.
            reasons = tuple(dict.fromkeys(each.reason for each in found))
            offered = rules if all(offers) else ()
            is_firm = any(each.is_firm for each in found)
            return Verdict(kind, "; ".join(reasons), offered, is_firm, reasons)
    reason = next((each.reason for each in findings if each.reason), "")
    # A call with several accesses needs the basis of its widest one.
    widest = max((each.basis for each in findings), key=WIDTH.__getitem__, default=Basis.READ)
    return Verdict(VerdictKind.ALLOW, reason, basis=widest)


class Question(Struct, frozen=True):
    """A call that the user must decide about."""

    call_id: str
    tool: str
    input: Fields
    verdict: Verdict
    """The reason to ask, and the rules that would allow it from now on."""
    agent_id: str | None = None
    """The sub-agent that makes the call."""
    agent_type: str = ""
    """The kind of that sub-agent."""
    place: Path = Path()
    """The directory that relative paths start at."""


class PermissionReply(Struct, frozen=True):
    """The user's reply to a question."""

    kind: Literal["allow", "deny"]
    remember: tuple[str, ...] = ()
    """Rules that allow such calls from now on."""
    feedback: str = ""
    """Feedback for the model; a refusal without it ends the turn."""
    updated_input: Fields | None = None
    """The input to run the call with, if a program changed it."""
    updates: tuple[Fields, ...] = ()
    """Changes to the permissions that come with an approval, in the client's format."""
    is_program: bool = False
    """True if a program answers: its refusal ends the turn only if it asks for that."""
    ends_turn: bool = False


Ask = Callable[[Question], Awaitable[PermissionReply]]
"""Asks the user about a call."""
