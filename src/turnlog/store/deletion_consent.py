"""Consent to what cannot be undone: silence never counts as consent.

Functions that delete for good take a `Consent` and call it before they touch anything. Without one
they refuse, so a program that uses turnlog as a library has to say so as well.
"""

from collections.abc import Callable
from typing import NamedTuple

from turnlog.errors import UsageError


class Deletion(NamedTuple):
    """What is about to be deleted for good."""

    what: str
    """What goes, in a few words: `2 changes`."""
    details: list[str]
    """One line for each thing that goes."""
    command: str
    """The command that deletes it without asking."""


Consent = Callable[[Deletion], None]
"""Returns if the user agrees, and raises if not."""


def require_yes(deletion: Deletion) -> None:
    """Refuse, because nobody can be asked."""
    message = f"{deletion.what} would be deleted for good, and there is nobody to ask"
    raise UsageError(message, deletion.command)


def agreed(deletion: Deletion) -> None:
    """Agree: the user has said so in advance."""
