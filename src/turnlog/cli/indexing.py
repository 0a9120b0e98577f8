"""Show the progress of a long index sync on stderr."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from turnlog.cli.terminal import echo
from turnlog.index.sync_policy import Feedback, Progress

WORTH_A_BAR = 16 << 20
"""Minimum bytes for a progress bar; smaller syncs end before anyone would notice it."""


def _print_notice(text: str) -> None:
    echo(f"turnlog: {text}", err=True)


@contextmanager
def _bar() -> Generator[Progress]:
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.close()


class _Bar:
    """A progress bar that appears only for long syncs."""

    def __init__(self) -> None:
        self.drawn: Any = None

    def show(self, done: int, total: int) -> None:
        from turnlog.cli.output import progress_bar

        if total < WORTH_A_BAR:
            return
        if self.drawn is None or done < self.drawn.pos:  # a new phase
            self.close()
            self.drawn = progress_bar(total, "indexing")
            self.drawn.__enter__()
        self.drawn.update(done - self.drawn.pos)

    def close(self) -> None:
        if self.drawn is not None:
            self.drawn.__exit__(None, None, None)
            self.drawn = None


ON_STDERR = Feedback(_bar, _print_notice)
