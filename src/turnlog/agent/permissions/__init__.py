"""Permissions: decide whether a call may run, by the files, commands and addresses it touches."""

from turnlog.agent.permissions.files import is_readable
from turnlog.agent.permissions.policy import Policy, Verdict, VerdictKind
from turnlog.agent.permissions.rules import Rule, parse_rule, sound_rules
from turnlog.agent.permissions.verdict import decide
from turnlog.agent.workspace.access import ApprovalMode, Basis

__all__ = [
    "ApprovalMode",
    "Basis",
    "Policy",
    "Rule",
    "Verdict",
    "VerdictKind",
    "decide",
    "is_readable",
    "parse_rule",
    "sound_rules",
]
