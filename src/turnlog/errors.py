"""The errors turnlog raises; each carries a message, a hint and an exit code.

TurnlogError             exit code 1
├── NotFound             no such session, project, line
├── Ambiguous            several sessions or entries match what was typed
├── Unresumable          an edit would break the session: the findings
├── Unavailable          the index or the archive cannot be used
│   └── Damaged          what the archive has is not what was put there
├── Conflict             the file changed, or was replaced, since it was read
├── ModelError           the Messages API said no, or not all: status, request id
└── UsageError           exit code 2: the command line makes no sense
"""


class TurnlogError(Exception):
    """Something the user can act on: `message` says what, `hint` what to type next."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def line(self) -> str:
        """The error on one line, with what to do about it."""
        return f"{self.message} (try: {self.hint})" if self.hint else self.message


class NotFound(TurnlogError):
    """No such session, project or line."""


class Ambiguous(TurnlogError):
    """Several things match; `candidates` are lines to print below the message."""

    def __init__(self, message: str, candidates: list[str], hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.candidates = candidates


class Unresumable(TurnlogError):
    """The result of an edit would not resume, or not whole; `findings` say why."""

    def __init__(self, message: str, findings: list[str], hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.findings = findings


class Conflict(TurnlogError):
    """The file is no longer the one that was read."""


class Unavailable(TurnlogError):
    """The index or the archive cannot be used: locked, read-only, damaged, or no room for it."""


class Damaged(Unavailable):
    """A part of the archive is missing, or not what was put there."""


class ModelError(TurnlogError):
    """The Messages API gave no answer, or not a whole one."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        status: int | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.request_id = request_id


class UsageError(TurnlogError):
    """The command line makes no sense."""

    exit_code = 2
