"""Consent to permanent deletion; the default is refusal.

Functions that delete permanently take a `Consent` and call it before touching anything, so a
program that uses turnlog as a library must consent explicitly too:

    open_journal().forget(records, consent=agreed)
"""

from collections.abc import Callable
from typing import NamedTuple

from turnlog.errors import UsageError


class Deletion(NamedTuple):
    """A permanent deletion that needs consent."""

    what: str
    """The things to delete, in a few words: `2 changes`."""
    details: list[str]
    """One line for each thing to delete."""
    command: str
    """The command that deletes without asking."""


Consent = Callable[[Deletion], None]
"""Returns if the user agrees, raises otherwise."""


def require_yes(deletion: Deletion) -> None:
    """Raise `UsageError`: deletion is refused when there is nobody to ask.

    >>> require_yes(Deletion("2 changes", ["c1", "c2"], "turnlog forget c1 c2 --yes"))
    Traceback (most recent call last):
    turnlog.errors.UsageError: 2 changes would be deleted permanently; confirmation is required
    try: turnlog forget c1 c2 --yes
    """
    message = f"{deletion.what} would be deleted permanently; confirmation is required"
    raise UsageError(message, deletion.command)


def agreed(deletion: Deletion) -> None:
    """Consent without asking, because the user agreed in advance."""
