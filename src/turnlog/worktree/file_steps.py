"""The history of a file in a session: each change with its diff, its turn and its prompt."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from functools import cached_property

from turnlog.conversation.prompts import prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.format.entries import User
from turnlog.worktree.file_names import FileName
from turnlog.worktree.patches import change_lines
from turnlog.worktree.places import SessionPosition
from turnlog.worktree.text_style import decode_file
from turnlog.worktree.worktree import FileRevision, Worktree

LARGEST = 2_000_000
"""Maximum characters of a text that is compared line by line."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """A change of a file's known content."""

    version: FileRevision
    before: FileRevision
    turn: int | None
    """The number of its turn on the branch; None if it belongs to no turn."""
    prompt: str
    leaf: int | None


class TurnPlaces:
    """Finds the turn that a place belongs to, on one branch."""

    def __init__(self, worktree: Worktree, leaf: int | None) -> None:
        session = worktree.session
        self.session: Session = session
        self.turns: Sequence[Turn] = session.turns if leaf is None else session.turns_to(leaf)
        self._ends = [worktree.place_of_turn(turn.nodes) for turn in self.turns]

    def turn_at(self, place: SessionPosition) -> Turn | None:
        """Return the first turn that ends at a place or later; the last turn if none does."""
        for turn, end in zip(self.turns, self._ends, strict=True):
            if place <= end:
                return turn
        return self.turns[-1] if self.turns else None

    @cached_property
    def prompts(self) -> dict[int, str]:
        """The text of each turn's prompt; a slash command as typed."""
        nodes = [turn.prompt for turn in self.turns if turn.prompt]
        entries = self.session.entries(nodes)
        texts = [prompt_label(entry) if isinstance(entry, User) else "" for entry in entries]
        found = {node.index: text for node, text in zip(nodes, texts, strict=True)}
        return {turn.n: found[turn.prompt.index] for turn in self.turns if turn.prompt}


def branch_leaves(session: Session) -> list[int | None]:
    """Return a leaf of each branch; None stands for the active branch, which comes first."""
    stones = session.milestones
    others = [stones.last_entry(number) for number in stones.ends if not stones.is_active(number)]
    ranks = [session.tree.rank_of(node.uuid) for node in others]
    return [None, *(rank for rank in ranks if rank is not None)]


def file_steps(
    worktree: Worktree, name: FileName, leaf: int | None = None, turns: TurnPlaces | None = None
) -> Iterator[FileStep]:
    """Yield the changes of a file on a branch, in order."""
    places = turns or TurnPlaces(worktree, leaf)
    before = worktree.base(name, leaf)
    for version in worktree.versions(name, leaf):
        # A read that shows other bytes than expected is a step too: something outside of the
        # session changed the file.
        if version.is_change or not is_same(before, version):
            turn = places.turn_at(version.place)
            prompt = places.prompts.get(turn.n, "") if turn else ""
            yield FileStep(version, before, turn.n if turn else None, prompt, leaf)
        before = version


def all_steps(worktree: Worktree, name: FileName) -> list[FileStep]:
    """Return the changes of a file on all branches, each once, in order of time."""
    found: dict[tuple[str | None, int, str], FileStep] = {}
    for leaf in branch_leaves(worktree.session):
        for step in file_steps(worktree, name, leaf):
            version = step.version
            # Branches share their beginning, so the same change is found once for each of them.
            found.setdefault((version.agent_id, version.line, version.tool), step)
    return sorted(found.values(), key=lambda step: step.version.place)


def is_same(one: FileRevision, other: FileRevision) -> bool:
    """Return whether two states of a file are the same as far as they are known."""
    mine, others = one.belief, other.belief
    return (mine.raw, mine.is_absent, dict(mine.known)) == (
        others.raw,
        others.is_absent,
        dict(others.known),
    )


def diff_versions(before: FileRevision, after: FileRevision, context: int = 3) -> list[str]:
    """Return a unified diff of two states without its head; empty if one of them is a gap."""
    one, other = _text(before), _text(after)
    if one is None or other is None:
        return []
    if max(len(one), len(other)) > LARGEST:
        return [f"@@ {len(one):,} → {len(other):,} characters @@"]
    lines = unified_diff(one.splitlines(), other.splitlines(), lineterm="", n=context)
    # The first two lines name the files, which here are two states of the same one.
    return list(lines)[2:]


def diff_change(before: FileRevision, after: FileRevision) -> list[str]:
    """Return the diff of a change; if the content is unknown, return the edit as recorded."""
    found = diff_versions(before, after)
    if found or after.edit is None:
        return found
    return change_lines(after.edit.replacements, after.edit.patch)


def _text(version: FileRevision) -> str | None:
    if version.is_absent:
        return ""
    if version.content is None:
        return None
    styled = decode_file(version.content)
    return styled.text if styled else version.content.decode("utf-8", "replace")
