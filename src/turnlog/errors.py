"""The errors turnlog raises, each with a message, a hint and an exit code.

TurnlogError             exit code 1
├── NotFound             no such session, project, line
├── Ambiguous            several sessions or entries match
├── Unresumable          an edit would break the session; has the findings
├── Unredacted           a bundle would contain secrets that cannot be replaced; has findings
├── Unavailable          the index or the archive cannot be used
│   └── Damaged          a part of the archive is missing or has changed
├── Conflict             the file changed, or was replaced, since it was read
├── ModelError           API error or incomplete response; has status and request id
└── UsageError           exit code 2: invalid command line
"""


class TurnlogError(Exception):
    """An error that the user can act on: `hint` is a command to type next."""

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # Programs that do not catch the error show the hint in their traceback.
            self.add_note(f"try: {hint}")

    @property
    def line(self) -> str:
        """The message and the hint on one line."""
        return f"{self.message} (try: {self.hint})" if self.hint else self.message


class NotFound(TurnlogError):
    """No such session, project or line."""


class Ambiguous(TurnlogError):
    """Several things match; `candidates` are lines to print below the message."""

    def __init__(self, message: str, candidates: list[str], hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.candidates = candidates


class Unresumable(TurnlogError):
    """The result of an edit would not resume, or not completely; `findings` explain why."""

    def __init__(self, message: str, findings: list[str], hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.findings = findings


class Unredacted(TurnlogError):
    """Secrets cannot be replaced; `findings` say where, without the secrets."""

    def __init__(self, message: str, findings: list[str], hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.findings = findings


class Conflict(TurnlogError):
    """The file changed since it was read."""


class Unavailable(TurnlogError):
    """The index or the archive cannot be used: locked, read-only, damaged, or no space left."""


class Damaged(Unavailable):
    """A part of the archive is missing or has changed."""


class ModelError(TurnlogError):
    """The Messages API returned an error or an incomplete answer."""

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
    """The command line is invalid."""

    exit_code = 2
