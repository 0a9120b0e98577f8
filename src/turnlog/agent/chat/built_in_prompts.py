"""Slash commands that send a prompt; they work in a terminal, with `-p` and for host programs."""

from collections.abc import Callable

from msgspec import Struct

INIT = """\
Write a CLAUDE.md for this repository: what an agent has to know that works here for the first \
time. If there is one, improve it instead.

Find out first: read the README, the build files, the CI configuration and a few source files. \
Then write, as short as possible: the commands to build, to lint, to run all tests and to run \
one; the architecture as far as it takes several files to see; rules of this project that are \
not obvious. Leave out what every developer knows, lists of files that anyone can list, and \
advice that nobody wrote down here."""
REVIEW = """\
Review {what}. Read the diff and as much of the code around it as you need.

Report mistakes first: what goes wrong, with which input, at which path:line. Then what is \
missing: tests, errors that are not handled, documentation that is no longer true. Then what \
could be simpler. Check each finding in the code before you report it, and say so if there is \
none. Change nothing."""
LOCAL = "the changes of this branch against its base, with those that are not committed"
SECURITY = """\
Review the changes of this branch against its base, with those that are not committed, for \
security. Look for what an attacker could use: injection, missing checks of permissions, \
secrets in code or logs, unsafe deserialization, paths and URLs that are not checked, races, \
weak cryptography.

For each finding: path:line, how it is used, how bad it is, and the fix. Follow the data from \
where it comes in to where it does harm, and report only what you could show that way. Change \
nothing."""


class BuiltInPrompt(Struct, frozen=True):
    """A slash command that sends a prompt."""

    name: str
    hint: str
    """The arguments that it takes."""
    description: str
    write: Callable[[str], str]
    """Builds the prompt from the arguments."""


def init_prompt(arguments: str) -> str:
    """Return the prompt to write CLAUDE.md."""
    return f"{INIT}\n\n{arguments}".strip()


def review_prompt(arguments: str) -> str:
    """Return the prompt to review a pull request, or the changes of this branch."""
    what = f"pull request {arguments}, which `gh` can show" if arguments else LOCAL
    return REVIEW.format(what=what)


def security_prompt(arguments: str) -> str:
    """Return the prompt to review this branch for security."""
    return f"{SECURITY}\n\n{arguments}".strip()


PROMPTS = (
    BuiltInPrompt("init", "[wishes]", "Let the model write CLAUDE.md", init_prompt),
    BuiltInPrompt("review", "[pull request]", "Let the model review changes", review_prompt),
    BuiltInPrompt(
        "security-review", "", "Let the model review this branch for security", security_prompt
    ),
)
BUILT_IN = {each.name: each for each in PROMPTS}
