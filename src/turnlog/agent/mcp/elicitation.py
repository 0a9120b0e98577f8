"""Requests of MCP servers for user input, with the field names of the client's hooks."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from turnlog.format.json_values import Fields

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

Action = Literal["accept", "decline", "cancel"]
FORM, URL = "form", "url"


class Elicitation(Struct, frozen=True):
    """A server's request for input: values of a form, or a visit to a URL."""

    server: str
    message: str
    mode: Literal["form", "url"] = FORM
    schema: Fields = {}
    """JSON Schema of the form: an object without nested objects."""
    url: str = ""
    id: str | None = None

    @property
    def payload(self) -> Fields:
        """The fields of the hook payload."""
        about: Fields = {"mcp_server_name": self.server, "message": self.message, "mode": self.mode}
        about |= {"elicitation_id": self.id} if self.id else {}
        return about | (
            {"url": self.url} if self.mode == URL else {"requested_schema": self.schema}
        )


class ElicitAnswer(Struct, frozen=True):
    """The answer to a server's request."""

    action: Action
    content: Fields | None = None
    """The values, if it was accepted."""


AskForInput = Callable[[Elicitation], Awaitable[ElicitAnswer]]


def read_request(server: str, given: "ElicitRequestParams") -> Elicitation:
    """Convert the SDK's request parameters to an `Elicitation`."""
    if given.mode == URL:
        return Elicitation(server, given.message, URL, {}, given.url, given.elicitation_id)
    return Elicitation(server, given.message, FORM, given.requested_schema)


def result_of(answer: ElicitAnswer) -> "ElicitResult":
    """Convert an answer to the SDK's result; only an accepted one has values."""
    from mcp.types import ElicitResult

    values: dict[str, Any] | None = answer.content if answer.action == "accept" else None
    return ElicitResult(action=answer.action, content=values)
