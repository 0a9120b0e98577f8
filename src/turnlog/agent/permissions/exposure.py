"""Find variables whose values a command may print without passing them as arguments.

`cat <<< "$KEY"` counts as reading because it runs with basic variables only. A rule for one part
lets the whole command run with all of the user's variables, so `npm test; cat <<< "$KEY"` would
print the key.
`[[ $KEY == a* ]]` and `case $KEY in` would reveal it letter by letter.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from turnlog.agent.permissions.bash import HOLE, Script, SimpleCommand
from turnlog.agent.permissions.policy import AccessDecision, VerdictKind
from turnlog.agent.workspace.access import Basis

CASE = re.compile(r"\bcase\b.*\besac\b", re.S)
DOCUMENT = re.compile(r"(?<!<)<<(?!<)-?[ \t]*[^'\"\\\s]")
"""A here-document in which bash expands variables: its delimiter does not start with a quote."""
EXPANSION = re.compile(r"[$`]")
REASON = "it may reveal one of your variables, such as a key"


def judge_exposure(
    script: Script,
    text: str,
    findings: Iterable[AccessDecision],
    is_ruled: Callable[[SimpleCommand], bool],
) -> Iterator[AccessDecision]:
    """Ask about a command that a rule allows in part and whose other parts may reveal variables."""
    if not _uses_variables(script, text.replace("\\\n", ""), is_ruled):
        return
    if any(each.basis is Basis.RULE for each in findings if each.kind is VerdictKind.ALLOW):
        yield AccessDecision(VerdictKind.ASK, REASON)
    elif any(map(is_ruled, script.parts)):
        # If the rule turns out not to be needed, the command runs with basic variables.
        yield AccessDecision(VerdictKind.ASK, REASON, is_confinable=True, basis=Basis.RULE)


def _uses_variables(script: Script, text: str, is_ruled: Callable[[SimpleCommand], bool]) -> bool:
    """Return whether bash or an unruled part receives text that is known only at run time."""
    if CASE.search(text) and EXPANSION.search(text):
        return True
    if any(HOLE in word.text for part in script.parts if part.is_test for word in part.words):
        return True
    is_filled = any(HOLE in each for each in script.inputs) or (
        DOCUMENT.search(text) and any(map(EXPANSION.search, script.inputs))
    )
    return bool(is_filled) and any(part.is_fed and not is_ruled(part) for part in script.parts)
