"""Work in batches of about equal size."""

from turnlog.store.batches import gathered, in_batches


def test_gathering_asks_for_each_size_once() -> None:
    asked = list[int]()

    def size(item: int) -> int:
        asked.append(item)
        return 1

    batches = list(gathered(range(1000), size, 300))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert len(asked) == 1000


def test_the_largest_come_first() -> None:
    assert in_batches([1, 5, 3, 2], int, 5) == [[5], [3, 2], [1]]
