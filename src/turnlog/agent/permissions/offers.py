"""Rules that are offered to be saved: as narrow as they can be and still of use."""

from turnlog.agent.permissions.bash import HOLE, Part, Word
from turnlog.agent.permissions.launchers import LAUNCHERS, OTHERS, READERS, SHELLS, without_wrappers

TOOLS = frozenset(
    """
    apt apt-get brew bun bundle cargo composer conda deno dnf docker dotnet gem gh git go gradle
    helm hg just kubectl make mix mvn npm nx pip pip3 pnpm poetry rake rustup swift systemctl task
    terraform tox uv yarn
    """.split()
)
"""Programs whose first argument says what they do."""
SCRIPTS = frozenset("run run-script exec compose".split())
"""First arguments that leave it to the next one."""
INTERPRETERS = frozenset(
    "python python2 python3 node deno bun perl ruby php lua Rscript osascript pwsh awk gawk".split()
)
RUNNING = frozenset(("git bisect", "git config", "git rebase", "kubectl exec", "docker exec"))
"""Subcommands that run what they are given."""
NEVER = frozenset("sudo doas su eval exec".split())
"""For which no rule is offered at all."""
CLOSED = LAUNCHERS.keys() | OTHERS | SHELLS | READERS | INTERPRETERS
"""Programs that run what they are given: only a rule for the whole command is offered."""


def offers_for(part: Part) -> tuple[str, ...]:
    """The rules that would let a part pass; none where a rule would let too much pass."""
    words = without_wrappers(part.words)
    if not words or words[0].text in NEVER or not words[0].is_known:
        return ()
    start = _start(words)
    if start and all(_is_simple(word) for word in start):
        return (f"Bash({' '.join(word.text for word in start)} *)",)
    source = part.source.strip()
    is_fixed = all(word.is_known for word in words) and not part.assignments
    return (f"Bash({source})",) if is_fixed and source and _is_writable(source) else ()


def _start(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words that say what a command does; none if only all of them do."""
    if words[0].text not in TOOLS or words[0].text in CLOSED or len(words) < 2:
        return ()
    width = 3 if words[1].text in SCRIPTS else 2
    if len(words) < width or words[width - 1].text in CLOSED:
        return ()
    return () if f"{words[0].text} {words[1].text}" in RUNNING else words[:width]


def _is_simple(word: Word) -> bool:
    return (
        word.is_known
        and not word.is_option
        and word.text.replace("-", "").replace(":", "").isalnum()
    )


def _is_writable(source: str) -> bool:
    """Whether a rule can say it: on one line, and without what a rule reads as a pattern."""
    return not any(char in source for char in f"*\n{HOLE}") and not source.endswith(":")
