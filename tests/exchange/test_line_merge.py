"""Merging two versions of a log: every line once, each after those that its writer had before."""

from hypothesis import given
from hypothesis import strategies as st

from turnlog.exchange.line_merge import (
    START,
    ReachedPositions,
    Segment,
    find_contest,
    merge,
    split_lines,
)


def log(*words: str, rank: int = 0) -> list[Segment]:
    """A segment for each word, with a line for each letter."""
    segments = [[f'{{"uuid":"{letter}"}}\n'.encode() for letter in word] for word in words]
    return [Segment(lines, None, rank + number) for number, lines in enumerate(segments)]


def letters(segments: list[Segment]) -> str:
    lines = [line for segment in segments for line in segment.lines]
    return "".join(line.split(b'"')[3].decode() for line in lines)


def test_missing_lines_of_a_longer_version_are_appended() -> None:
    assert letters(merge(log("abc"), log("abcde")).segments) == "abcde"


def test_a_part_of_ours_changes_nothing() -> None:
    ours = log("abc", "de")
    merged = merge(ours, log("abc"))
    assert merged.added == 0
    assert merged.segments is ours


def test_our_tail_stays_last_if_the_other_machine_did_not_have_it() -> None:
    assert letters(merge(log("P", "ab"), log("P", "xy")).segments) == "Pxyab"


def test_lines_written_after_ours_were_received_come_after_them() -> None:
    assert letters(merge(log("P", "a"), log("P", "a", "x")).segments) == "Pax"


def test_received_lines_do_not_push_older_ones_behind_ours() -> None:
    # The other machine had x before it received a, though a precedes x in its file.
    theirs = [*log("P"), *log("a", rank=2), *log("x", rank=1)]
    assert letters(merge(log("P", "a"), theirs).segments) == "Pxa"
    theirs += log("y", rank=3)
    assert letters(merge(log("P", "a"), theirs).segments) == "Pxay"


def test_new_lines_are_ranked_after_ours_in_their_own_order() -> None:
    theirs = [*log("P"), *log("x", rank=2), *log("y", rank=1)]
    merged = merge(log("P", "a"), theirs).segments
    ranks = {letters([segment]): segment.rank for segment in merged}
    assert ranks["a"] < ranks["y"] < ranks["x"]


def test_repeated_lines_are_no_anchors() -> None:
    mode = b'{"type":"mode"}\n'
    ours = [Segment([*log("P")[0].lines, mode, *log("a")[0].lines, mode], None)]
    theirs = [Segment([*log("P")[0].lines, mode, *log("x")[0].lines, mode], None)]
    lines = [line for segment in merge(ours, theirs).segments for line in segment.lines]
    assert lines.index(b'{"uuid":"x"}\n') < lines.index(b'{"uuid":"a"}\n')


def test_lines_to_leave_out_are_not_inserted() -> None:
    assert letters(merge(log("ac"), log("abcd"), frozenset(log("b")[0].lines)).segments) == "acd"


def test_another_line_with_the_same_uuid_is_a_conflict_unless_one_version_has_both() -> None:
    one, two = b'{"uuid":"u","n":1}\n', b'{"uuid":"u","n":2}\n'
    contest = find_contest([one], [two])
    assert contest is not None
    assert (contest.uuid, contest.ours, contest.theirs) == ("u", one, two)
    assert find_contest([one], [one, two]) is None
    assert merge([Segment([one], None)], [Segment([two], None)]).contest == contest


def test_both_sides_of_a_conflict_decide_alike() -> None:
    one, two = b'{"uuid":"u","n":1}\n', b'{"uuid":"u","n":2}\n'
    here, there = find_contest([one], [two]), find_contest([two], [one])
    assert here
    assert there
    assert here.is_ours_first != there.is_ours_first


WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=3), max_size=5)


@given(WORDS, WORDS)
def test_a_merge_has_all_lines_and_keeps_our_order(ours: list[str], theirs: list[str]) -> None:
    mine, other = log(*ours), log(*theirs)
    merged = merge(mine, other)
    result = letters(merged.segments)
    assert set(result) == set("".join(ours)) | set("".join(theirs))
    rest = iter(result)
    assert all(letter in rest for letter in letters(mine))
    assert merge(merged.segments, other).added == 0


@given(st.binary())
def test_lines_join_to_the_piece(raw: bytes) -> None:
    assert b"".join(split_lines(raw)) == raw


@given(st.lists(st.tuples(st.integers(0, 9), st.tuples(st.integers(0, 5), st.integers(0, 5)))))
def test_the_furthest_position_is_that_of_any_rank_so_far(
    noted: list[tuple[int, tuple[int, int]]],
) -> None:
    reached = ReachedPositions()
    for rank, position in noted:
        reached.note(rank, position)
    for rank in range(10):
        assert reached.by(rank) == max((at for r, at in noted if r <= rank), default=START)
