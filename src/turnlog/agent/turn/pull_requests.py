"""The pull request that a command made, told from the command and what it printed.

Nothing is asked of gh or the network: `gh pr create` prints the address of what it made.
"""

import re
from itertools import pairwise

from msgspec.structs import replace

from turnlog.agent.permissions.bash import Word, parse_script
from turnlog.agent.permissions.launchers import commands_in, without_wrappers
from turnlog.agent.permissions.rules import COMMANDS
from turnlog.agent.session.lines import PullRequest
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.tool import Outcome
from turnlog.format.values import Fields, is_object

CREATING = {
    "gh": frozenset({("pr", "create"), ("pr", "new")}),
    "glab": frozenset({("mr", "create"), ("mr", "new")}),
}
"""Programs that make pull requests, and the words that make one."""
AS_TEXT = re.compile(r"\b(?:gh\s+pr|glab\s+mr)\s+(?:create|new)\b")
# No `@` in the host: an address with a password in it is not copied to another line.
ADDRESS = re.compile(
    r"https?://[\w.-]+(?::\d{1,5})?/(?P<repository>[\w.-]+(?:/[\w.-]+){1,20}?)"
    r"/(?:pull|pull-requests|-/merge_requests)/(?P<number>\d{1,9})(?!\w)",
    re.ASCII,
)


def link_pull_request(recorder: Recorder, tool: str, given: Fields, outcome: Outcome) -> Outcome:
    """Link the session to the pull request that a call made; return an outcome that tells of it.

    Client 2.1.325 links before it writes the result, and not for a command that fails (observed):
    gh names a pull request that exists already, and fails.
    """
    if tool != COMMANDS or outcome.is_error or not is_object(outcome.data):
        return outcome
    made = created_pull_request(given["command"], outcome.data["stdout"])
    if made is None:
        return outcome
    recorder.pull_request(made)
    done = {"pr": {"number": made.number, "url": made.url, "action": "created"}}
    return replace(outcome, data=outcome.data | {"gitOperation": done})


def created_pull_request(command: str, printed: str) -> PullRequest | None:
    """Return the pull request that a successful command made; of several, the last (observed).

    >>> created_pull_request("gh pr create --fill", "https://github.com/octo/shop/pull/7").number
    7
    """
    found = list(ADDRESS.finditer(printed))
    if not found or not _creates(command):
        return None
    last = found[-1]
    return PullRequest(int(last["number"]), last[0], last["repository"])


def _creates(command: str) -> bool:
    """Whether a command makes a pull request; the text alone decides where it is not understood."""
    if not any(program in command for program in CREATING):
        return False
    script = parse_script(command)
    inner = (each.part for part in script.parts for each in commands_in(part))
    try:
        found = any(_is_creating(without_wrappers(part.words)) for part in inner)
    except RecursionError:
        return AS_TEXT.search(command) is not None
    return found or (bool(script.unclear) and AS_TEXT.search(command) is not None)


def _is_creating(words: tuple[Word, ...]) -> bool:
    program, *arguments = [word.text for word in words] or [""]
    pairs = CREATING.get(program.rpartition("/")[2], frozenset())
    return "--dry-run" not in arguments and not pairs.isdisjoint(pairwise(arguments))
