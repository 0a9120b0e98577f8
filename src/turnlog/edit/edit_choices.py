"""Keyword arguments of an edit, and their conversion to `EditOptions`."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from turnlog.edit.plan_builder import REPAIR, TRANSFORMS, EditOptions
from turnlog.edit.transforms import TransformOptions


class EditChoices(TypedDict, total=False):
    """Keyword arguments of an edit, named like the options of `turnlog edit`."""

    repair: bool
    strip_tools: bool
    stub_results: bool
    strip_thinking: bool
    strip_images: bool
    strip_progress: bool
    straighten: bool
    """False keeps the tree even if the client that resumes a clone would lose history."""
    compress: bool
    summarise: Callable[[str], str]
    """Writes the summary of `compress` from extracts; without it, the extracts are the summary."""
    keep_last: int
    """Turns at the end to leave alone."""
    larger_than: int
    """Maximum length, in characters, of results that `stub_results` leaves alone."""
    until: int | str
    """The last turn to keep, by number, or the last entry, by uuid."""
    branch: str
    """The uuid of the last entry of the branch to keep; other branches are dropped."""


def edit_options(choices: EditChoices, transcript: Path | None = None) -> EditOptions:
    """Return choices as options; `transcript` is the file that keeps the whole conversation.

    >>> edit_options({"strip_tools": True, "until": 3}).transforms
    ['strip_tools']
    """
    usual = TransformOptions()
    limits = TransformOptions(
        choices.get("keep_last", usual.keep_last),
        choices.get("larger_than", usual.larger_than),
        choices.get("summarise"),
        transcript,
    )
    until = choices.get("until")
    return EditOptions(
        [name for name in (REPAIR, *TRANSFORMS) if choices.get(name)],
        limits,
        None if until is None else str(until),
        choices.get("branch"),
        choices.get("straighten") is False,
    )
