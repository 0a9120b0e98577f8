"""The versions of the client that made-up sessions come from."""

from typing import NamedTuple


class Client(NamedTuple):
    """A version of the client and what distinguishes its lines."""

    version: str
    model: str
    base_first: bool
    """Whether the fields that all entries have come before an entry's own."""
    progress: bool = False
    attachments: bool = False

    @property
    def is_old(self) -> bool:
        """Results hang in one row, and files of sub-agents lie among the sessions."""
        return self.version.startswith("2.0.")


CLIENTS = (
    Client("2.0.76", "claude-sonnet-4-5-20250929", base_first=True),
    Client("2.1.29", "claude-opus-4-5-20251101", base_first=True, progress=True),
    Client("2.1.41", "claude-opus-4-6", base_first=True, progress=True),
    Client("2.1.45", "claude-haiku-4-5-20251001", base_first=True, progress=True),
    Client("2.1.119", "claude-opus-4-7", base_first=False, attachments=True),
    Client("2.1.237", "claude-opus-5", base_first=False, attachments=True),
)
WEIGHTS = (1, 2, 2, 1, 2, 2)
