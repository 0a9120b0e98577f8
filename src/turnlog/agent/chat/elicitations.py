"""Answer MCP servers that request input: hooks may answer first, then the user.

Where nobody can be asked, a request is cancelled (2.1.325, observed). A hook may also change
the user's answer before the server gets it.
"""

from collections import Counter
from dataclasses import dataclass, field

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.mcp.elicitation import URL, AskForInput, ElicitAnswer, Elicitation
from turnlog.format.json_values import Fields

DECLINED, CANCELLED = ElicitAnswer("decline"), ElicitAnswer("cancel")
OPEN = {True: "elicitation_url_dialog", False: "elicitation_dialog"}
ANSWERED = "elicitation_response"
MOST_REFUSED = 3
"""Refusals per server and turn; later requests are cancelled without asking."""


@dataclass
class Elicitations:
    """Answers the requests of a chat's servers."""

    parts: Parts
    ask: AskForInput | None = None
    """Asks the user; None if nobody can be asked."""
    refused: Counter[tuple[str, str | None]] = field(
        default_factory=Counter[tuple[str, str | None]]
    )
    """Refused requests by server and prompt."""

    async def answer(self, request: Elicitation) -> ElicitAnswer:
        """Return the answer to a request."""
        outcome = await self.parts.hooks.fire("Elicitation", request.server, request.payload)
        if outcome.block:
            return DECLINED
        if outcome.action:
            return ElicitAnswer(outcome.action, outcome.content)
        given = await self._ask(request) if self.ask else CANCELLED
        return await self._reviewed(request, given)

    async def _ask(self, request: Elicitation) -> ElicitAnswer:
        assert self.ask, "there is somebody to ask"
        # The user sees one question at a time, whoever asks it.
        async with self.parts.asking:
            turn = (request.server, self.parts.recorder.prompt_id)
            # A server must not wear the user down by asking until they agree.
            if self.refused[turn] >= MOST_REFUSED:
                return CANCELLED
            kind = OPEN[request.mode == URL]
            fields = _notice(kind, "turnlog needs your input")
            # Hooks run in the background, so that the question appears at once.
            self.parts.hooks.announce("Notification", kind, fields)
            given = await self.ask(request)
            self.refused[turn] += given.action != "accept"
            return given

    async def _reviewed(self, request: Elicitation, given: ElicitAnswer) -> ElicitAnswer:
        """Let hooks see the user's answer, and change or withhold it."""
        about: Fields = {"mcp_server_name": request.server, "action": given.action}
        about |= {"mode": request.mode}
        about |= {"elicitation_id": request.id} if request.id else {}
        about |= {"content": given.content} if given.content is not None else {}
        outcome = await self.parts.hooks.fire("ElicitationResult", request.server, about)
        if outcome.block:
            given = DECLINED
        elif outcome.action:
            content = outcome.content if outcome.content is not None else given.content
            given = ElicitAnswer(outcome.action, content)
        words = f'Elicitation response for server "{request.server}": {given.action}'
        await self.parts.hooks.fire("Notification", ANSWERED, _notice(ANSWERED, words))
        return given


def _notice(kind: str, message: str) -> Fields:
    return {"message": message, "title": "turnlog", "notification_type": kind}
