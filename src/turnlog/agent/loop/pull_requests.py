"""Link a session to the pull requests that its commands create, as `pr-link` entries.

A command counts if it names `gh pr create` and succeeds; the address is the last one it prints.
"""

import re
from typing import Any

from turnlog.agent.session.entry_builders import PullRequest, text_of
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields

CREATES = re.compile(r"(?:^|[\s;&|(/])gh\s+pr\s+create\b")
ADDRESS = re.compile(r"https://[\w.-]+/([\w.-]+/[\w.-]+)/pull/([0-9]{1,9})\b")


def link_pull_request(recorder: Recorder, tool: str, given: Fields, outcome: ToolOutcome) -> None:
    """Record the pull request that a call created, if any."""
    command: Any = given.get("command")
    if tool != BASH.name or outcome.is_error or not isinstance(command, str):
        return
    if made := find_pull_request(command, text_of(outcome.content)):
        recorder.pull_request(made)


def find_pull_request(command: str, printed: str) -> PullRequest | None:
    """Return the pull request that a command created, according to its output.

    >>> find_pull_request("gh pr create --fill", "https://github.com/octo/shop/pull/7").number
    7
    >>> find_pull_request("gh pr view", "https://github.com/octo/shop/pull/7")
    """
    if not CREATES.search(command.replace("\\\n", " ")):
        return None
    # `gh` prints the address last; the body of the request may name others before.
    found = [*ADDRESS.finditer(printed)][-1:]
    return next((PullRequest(int(each[2]), each[0], each[1]) for each in found), None)
