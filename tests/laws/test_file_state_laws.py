"""Laws about the files of every session."""

from pathlib import Path

from turnlog.conversation.session import open_session
from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.file_steps import branch_leaves
from turnlog.worktree.safe_paths import SPECIAL_IN_GIT, safe_paths
from turnlog.worktree.text_style import without_mark
from turnlog.worktree.worktree import FileRevision, open_worktree

LAST = 2**62
"""Behind everything of the same line or millisecond."""


def require_consistent(state: FileRevision) -> None:
    """A state has either its whole content, or is absent, or has unknown lines."""
    if state.certainty is Certainty.GAP:
        assert state.content is None
        assert not state.is_absent
        assert state.gaps or state.belief.total == 0
    else:
        assert (state.content is None) == state.is_absent
        assert state.gaps == []
    assert state.certainty is Certainty.EXACT or state.belief.reason


def test_every_state_is_whole_absent_or_has_gaps(session_file: Path) -> None:
    session = open_session(session_file)
    worktree = open_worktree(session)
    for leaf in branch_leaves(session):
        for name in worktree.files.values():
            versions = worktree.versions(name, leaf)
            for version in versions:
                require_consistent(version)
            for turn in session.turns:
                if leaf is not None:
                    break
                place = worktree.place_of_turn(turn.nodes)
                state = worktree.at(name, place)
                require_consistent(state)
                # Time only takes certainty away.
                seen = [version for version in versions if version.place <= place]
                if seen and state.certainty is Certainty.EXACT:
                    assert seen[-1].certainty is Certainty.EXACT


def test_an_exact_state_before_an_edit_is_the_text_that_the_edit_records(
    session_file: Path,
) -> None:
    session = open_session(session_file)
    worktree = open_worktree(session)
    for leaf in branch_leaves(session):
        for name in worktree.files.values():
            for version in worktree.versions(name, leaf):
                original = version.edit.original if version.edit else None
                just_before = version.place._replace(order=version.place.order - 1, inner=LAST)
                state = worktree.at(name, just_before, leaf)
                if original is not None and state.certainty is Certainty.EXACT:
                    styled = state.belief.styled
                    text = styled.text if styled else ""
                    assert text == without_mark(original).replace("\r\n", "\n"), version


def test_safe_paths_are_distinct_and_relative(session_file: Path) -> None:
    worktree = open_worktree(open_session(session_file))
    paths = safe_paths(worktree.files.values(), worktree.root_of, SPECIAL_IN_GIT)
    assert len({"/".join(parts).casefold() for parts in paths.values()}) == len(paths)
    parts = [part for path in paths.values() for part in path]
    assert not {".", "..", "", ".git"} & {part.casefold() for part in parts}
