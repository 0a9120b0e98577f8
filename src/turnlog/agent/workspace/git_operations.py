"""Recognise what a shell command did in git and on GitHub, from its words and its output.

Results record it as `gitOperation`, as the client does, and reports count commits by it. The set
of recognised commands is that of 2.1.325 (observed).
"""

import re

from turnlog.format.json_values import Fields

# The alternatives exclude each other: `-c -c -c …` would otherwise take exponential time.
OPTIONS = r"(?:\s+-[cC]\s+\S+|\s+(?!-[cC]\s)--?[\w-]+(?:=\S+)?)*"
"""Options of git itself, before its subcommand."""
SUBCOMMAND = re.compile(
    rf"(?:^|[\s;&|(/])git{OPTIONS}\s+(commit|cherry-pick|push|merge|rebase)(?![\w-])([^;&|\n]*)"
)
COMMITTED = re.compile(r"^\[(.+?)(?: \(root-commit\))? ([0-9a-f]{7,40})\] ", re.MULTILINE)
PUSHED = re.compile(r"^ [ +*] (?:\[new branch\]|\S+\.{2,3}\S+) +\S+ +-> +(\S+)", re.MULTILINE)
DETACHED = "detached HEAD"
JOINED = {
    "merge": ("merged", re.compile(r"^(?:Fast-forward|Merge made by)", re.MULTILINE)),
    "rebase": ("rebased", re.compile(r"Successfully rebased")),
}
"""Subcommands that join branches: the client's word for it, and git's output on success."""
PULL_REQUEST = re.compile(
    r"(?:^|[\s;&|(/])gh\s+pr\s+(create|edit|comment|merge|close|ready)\b([^;&|\n]*)"
)
PULL_REQUEST_URL = re.compile(r"https://[\w.-]+/([\w.-]+/[\w.-]+)/pull/([0-9]{1,9})\b")
PULL_REQUEST_NUMBER = re.compile(r"#([0-9]{1,9})\b")
ACTIONS = {
    "create": "created",
    "edit": "edited",
    "comment": "commented",
    "merge": "merged",
    "close": "closed",
    "ready": "ready",
}


def git_operation(command: str, printed: str) -> Fields:
    """Return the operations of a command that succeeded; empty if there are none.

    >>> git_operation("git commit -m one", "[main 5429ef1] one")
    {'commit': {'sha': '5429ef1', 'kind': 'committed', 'branch': 'main'}}
    >>> git_operation("echo '[main 5429ef1] one'", "[main 5429ef1] one")
    {}
    """
    joined = command.replace("\\\n", " ")
    given = {found[1]: found[2] for found in SUBCOMMAND.finditer(joined)}
    asked = PULL_REQUEST.search(joined)
    found: Fields = {
        "commit": _commit(given, printed),
        "push": _push(given, printed),
        "branch": _joined_branch(given, printed),
        "pr": _pull_request(asked, printed) if asked else {},
    }
    return {name: operation for name, operation in found.items() if operation}


def _commit(given: dict[str, str], printed: str) -> Fields:
    is_asked = "commit" in given or "cherry-pick" in given
    made = COMMITTED.search(printed) if is_asked else None
    if not made:
        return {}
    kind = "amended" if "--amend" in given.get("commit", "").split() else "committed"
    kind = "cherry-picked" if "cherry-pick" in given else kind
    branch = {} if made[1] == DETACHED else {"branch": made[1]}
    return {"sha": made[2], "kind": kind, **branch}


def _push(given: dict[str, str], printed: str) -> Fields:
    pushed = PUSHED.search(printed) if "push" in given else None
    return {"branch": pushed[1]} if pushed else {}


def _joined_branch(given: dict[str, str], printed: str) -> Fields:
    for name, (action, success) in JOINED.items():
        words = [word for word in given.get(name, "").split() if not word.startswith("-")]
        if words and success.search(printed):
            return {"ref": words[-1], "action": action}
    return {}


def _pull_request(asked: re.Match[str], printed: str) -> Fields:
    action = ACTIONS[asked[1]]
    if action == "merged" and "--auto" in asked[2].split():
        action = "auto-merge-enabled"
    # `gh` prints the URL last; the body of the pull request may contain others before.
    if urls := [*PULL_REQUEST_URL.finditer(printed)]:
        return {"number": int(urls[-1][2]), "url": urls[-1][0], "action": action}
    named = PULL_REQUEST_NUMBER.search(printed)
    return {"number": int(named[1]), "action": action} if named else {}
