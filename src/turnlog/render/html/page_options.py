"""Options of a session's pages, and the limits that keep a page small."""

from dataclasses import dataclass

from turnlog.store.paths import Store

CLIP = 50_000
"""Characters of a text that a page contains; the rest is loaded on demand."""
LONGEST = 1_000_000
"""Maximum characters of a text to mask and send, unless complete texts are exported."""
MOST_ROWS = 200
"""Maximum number of rows of a turn in a page; the rest is loaded on demand."""
MOST_OUTLINED = 512
"""Maximum number of turns whose outline is part of the head; a longer one comes in blocks."""


@dataclass(frozen=True)
class PageOptions:
    """Options for the pages of a session."""

    leaf: str | None = None
    """uuid of the entry at which the branch ends; the active branch by default."""
    thinking: bool = True
    full: bool = False
    """Include injected texts."""
    clip: int | None = CLIP
    """Cut texts after so many characters; None for whole texts, as in an exported file."""
    first: int = 0
    """The first row of a turn."""
    count: int | None = MOST_ROWS
    """The number of rows of a turn; None for all."""
    outline: int | None = MOST_OUTLINED
    """Include the whole outline of a session of so many turns; None for always."""
    store: Store | None = None
    """The store that the command to resume names if the client reads another one.

    None in exports: the path would be of no use elsewhere.
    """
