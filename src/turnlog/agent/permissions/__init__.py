"""Permissions: what a call would touch, and whether it may."""

from turnlog.agent.permissions.files import is_readable
from turnlog.agent.permissions.policy import Kind, Policy, Verdict
from turnlog.agent.permissions.rules import Rule, parse_rule, sound_rules
from turnlog.agent.permissions.verdict import decide
from turnlog.agent.workspace.access import Basis, Mode

__all__ = [
    "Basis",
    "Kind",
    "Mode",
    "Policy",
    "Rule",
    "Verdict",
    "decide",
    "is_readable",
    "parse_rule",
    "sound_rules",
]
