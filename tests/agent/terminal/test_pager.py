"""The window onto rows that do not fit on the screen."""

from turnlog.agent.terminal.paging import Pager


def test_as_few_rows_as_possible_are_scrolled_to_show_one() -> None:
    pager = Pager()
    assert pager.visible(20, 5) == range(5)
    pager.show(9)
    assert pager.visible(20, 5) == range(5, 10)
    pager.show(7)
    assert pager.visible(20, 5) == range(5, 10)
    pager.show(3)
    assert pager.visible(20, 5) == range(3, 8)
