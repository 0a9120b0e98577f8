"""How well are the files of a corpus known, and are they what the sessions committed?

    python tests/conformance/files_in_corpus.py CORPUS [CLONES]

Counts the states of every file, on the active branch of every session, by certainty and folder of
CORPUS. CLONES contains git repositories with the names of folders in CORPUS, such as OWNER+NAME:
where one has a commit that a session made, the files that the commit changed are compared with
their states at that moment. Exits with 1 if an exact state is not what was committed.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from turnlog.conversation.session import Session, open_session
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.moments import at_line, state_at
from turnlog.worktree.sightings import record_of
from turnlog.worktree.worktree import Worktree, open_worktree

COMMITTED = re.compile(r"^\[[^\]\n]+ ([0-9a-f]{7,40})\] ", re.MULTILINE)
"""What `git commit` prints: `[main 1a2b3c4] Subject`."""


def worktrees_in(folder: Path) -> Iterator[Worktree]:
    """Yield the files of all sessions in a folder, but not those of sub-agents' own files."""
    for path in sorted(folder.rglob("*.jsonl")):
        if not path.stem.startswith("agent-"):
            yield open_worktree(open_session(path))


def count_states(folder: Path) -> tuple[int, Counter[Certainty]]:
    """Return the number of sessions with files, and of their states by certainty."""
    sessions = 0
    counts: Counter[Certainty] = Counter()
    for worktree in worktrees_in(folder):
        sessions += bool(worktree.files)
        for name in worktree.files.values():
            counts.update(version.certainty for version in worktree.versions(name))
    return sessions, counts


def commits_of(session: Session) -> Iterator[tuple[str, int]]:
    """Yield the last commit of each command that made some, and the line of its result."""
    for call in session.calls:
        if call.name == "Bash" and call.result:
            made = COMMITTED.findall(record_of(session, call).text)
            if made:
                yield made[-1], call.result.line


def compare_commits(folder: Path, clone: Path) -> Counter[str]:
    """Return how many files that a commit changed have which state when it was made."""
    counts: Counter[str] = Counter()
    for worktree in worktrees_in(folder):
        for commit, line in commits_of(worktree.session):
            changed = _git(clone, "show", "--format=", "--name-only", "-z", commit)
            counts["commits" if changed is not None else "commits that are not public"] += 1
            for path in (changed or b"").decode().split("\0"):
                known = worktree.known(path) if path else None
                if known:
                    moment = at_line(worktree, line)
                    state = state_at(worktree, known, moment)
                    content = _git(clone, "show", f"{commit}:{path}")
                    is_equal = "equal" if state.content == content else "different"
                    is_gap = state.certainty is Certainty.GAP
                    counts["gap" if is_gap else f"{state.certainty} {is_equal}"] += 1
    return counts


def _git(clone: Path, *arguments: str) -> bytes | None:
    """Return the output of git; None if it fails, as for a commit or file that is not there."""
    command = ["git", "-c", "safe.directory=*", "-C", str(clone), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def main() -> int:
    """Count the states in each folder, and compare those at commits if clones are given."""
    corpus, *clones = map(Path, sys.argv[1:])
    print("| folder | sessions | states |", " | ".join(Certainty), "|")
    print("|---" * 6 + "|")
    for folder in sorted(path for path in corpus.iterdir() if path.is_dir()):
        sessions, counts = count_states(folder)
        total = counts.total() or 1
        shares = (f"{100 * counts[each] / total:.1f} % ({counts[each]})" for each in Certainty)
        print("|", folder.name, "|", sessions, "|", counts.total(), "|", " | ".join(shares), "|")
    compared: Counter[str] = Counter()
    for clone in sorted(path for each in clones for path in each.iterdir()):
        for folder in corpus.glob(f"*/{clone.name}"):
            compared += compare_commits(folder, clone)
    for name, count in sorted(compared.items()):
        print(f"{count:6}  {name}")
    return 1 if compared["exact different"] else 0


if __name__ == "__main__":
    sys.exit(main())
