"""Offer rules to save with "don't ask again"."""

from turnlog.agent.permissions.bash import HOLE, SimpleCommand

SUBCOMMANDS = frozenset(
    """
    bun cargo docker dotnet gh git go gradle kubectl make mvn npm pip pnpm poetry terraform uv yarn
    """.split()
)
"""Programs whose first argument says what they do: a rule for all uses of it is offered."""
RUNNERS = ("exec", "run")
"""Subcommands whose next argument names what runs."""
NEVER = frozenset("doas eval exec source su sudo .".split())
"""Programs for which no rule is offered."""


def offers_for(part: SimpleCommand) -> tuple[str, ...]:
    """Return the rule that would allow a simple command, or nothing if none can be saved.

    The command it allows still runs in the sandbox, so the rule may be as wide as in the client.
    """
    words = part.words
    first = words[0].text if words else HOLE
    if not words or not words[0].is_known or first in NEVER or part.assignments:
        return ()
    width = 3 if len(words) > 2 and words[1].text in RUNNERS else 2
    start = [word.text for word in words[:width] if word.is_known and not word.is_option]
    if first in SUBCOMMANDS and len(start) == width and all(map(_is_plain, start)):
        return (f"Bash({' '.join(start)}:*)",)
    source = part.source.strip()
    is_fixed = all(word.is_known for word in words) and not any(c in source for c in f"*\n{HOLE}")
    return (f"Bash({source})",) if is_fixed and not source.endswith(":") else ()


def _is_plain(text: str) -> bool:
    return text.replace("-", "").replace(":", "").replace("_", "").isalnum()
