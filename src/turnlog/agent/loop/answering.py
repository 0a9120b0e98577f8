"""Receive one answer of the model, record it block by block, and retry when the API fails.

A block is written to the session before it is emitted, so a crash loses nothing that was shown.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.events import FellBack, Retrying, Streamed
from turnlog.agent.loop.model_switch import switch
from turnlog.agent.loop.request import PARAMETERS, model_parameters
from turnlog.agent.model.answer import StreamedMessage
from turnlog.agent.model.model_names import with_model
from turnlog.agent.model.streaming import Faltered
from turnlog.agent.session.entry_builders import made_by
from turnlog.conversation.models import LONG_MARK
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields

LOG = logging.getLogger("turnlog.api")
SHORTEST_WAIT = 0.5
LONGEST_WAIT = 32.0
OVERLOADED = 529
PATIENCE = 3
"""Number of overload errors before the fallback model is asked."""
MOST_PATIENT = 300.0
"""Maximum `retry-after` in seconds to wait for; a longer one is reported as an error."""


async def ask_model(turn: RunningTurn, request: Fields) -> StreamedMessage:
    """Send a request and return the answer; record each block before emitting its end."""

    async def receive() -> StreamedMessage:
        return await _receive(turn, request)

    return await _ask_until_answered(turn.parts, receive, turn, partial(_fall_back, turn, request))


def _fall_back(turn: RunningTurn, request: Fields) -> bool:
    """Switch to the fallback model; return False if there is none."""
    choice = turn.parts.choice
    if not choice.tuning.fallback:
        return False
    named, _, more = choice.tuning.fallback.partition(",")
    tuning = replace(choice.tuning, fallback=more or None)
    other = with_model(replace(choice, tuning=tuning), named.strip(), os.environ)
    switch(turn.parts, other, other.model, "auto")
    # The API rejects parameters that the other model does not support, such as thinking or effort.
    for name in PARAMETERS:
        request.pop(name, None)
    request |= model_parameters(turn.parts.choice)
    turn.emit(FellBack(choice.model, other.model))
    return True


async def ask_aside(parts: Parts, request: Fields, listener: RunningTurn | None) -> StreamedMessage:
    """Send a request whose answer is not part of the conversation; count it in the turn.

    `listener` is notified of retries.
    """

    async def receive() -> StreamedMessage:
        async with parts.model.ask(request) as stream:
            answer = StreamedMessage(stream.request_id)
            async for event in stream.events:
                answer.take(event)
            return answer

    answer = await _ask_until_answered(parts, receive, listener)
    if parts.turn:
        # Requests name the model without the mark of a long context window, so restore the mark.
        asked, own = request["model"], parts.choice.model
        model = own if own.removesuffix(LONG_MARK) == asked else asked
        parts.turn.spent.add_aside(answer, model)
    return answer


async def ask_for_tool(parts: Parts, question: str, tools: list[Fields]) -> list[Fields]:
    """Send a prompt on behalf of a tool, with server tools if any; return the answer's blocks."""
    request: Fields = {
        "model": parts.choice.model.removesuffix(LONG_MARK),
        "max_tokens": parts.choice.max_tokens,
        "messages": [{"role": "user", "content": [{"type": "text", "text": question}]}],
    }
    request |= {"tools": tools} if tools else {}
    return (await ask_aside(parts, request, parts.turn)).blocks


async def _ask_until_answered(
    parts: Parts,
    receive: Callable[[], Awaitable[StreamedMessage]],
    listener: RunningTurn | None,
    fall_back: Callable[[], bool] = lambda: False,
) -> StreamedMessage:
    attempt = 0
    while True:
        try:
            return await receive()
        except ModelError as error:
            LOG.debug("failed: %s", error.message)
            if not isinstance(error, Faltered):
                raise
            # The retry starts the answer over. Blocks that were recorded so far must not stay in
            # the chain: a call without a result, for example, would make the API refuse every later
            # request.
            parts.recorder.abandon()
            attempt += 1
            if error.status == OVERLOADED and attempt == PATIENCE and fall_back():
                attempt = 0
                continue
            # With `retry-after: 3600`, as for an exhausted quota, let the user decide instead of
            # waiting.
            if attempt > parts.limits.retries or (error.wait or 0.0) > MOST_PATIENT:
                raise
            wait = backoff(attempt) if error.wait is None else error.wait
            attempts = parts.limits.retries
            entry = parts.recorder.api_error(_error_fields(error), wait, attempt, attempts)
            if listener:
                listener.record(entry)
                listener.emit(Retrying(attempt, attempts, wait, error.message, error.status))
            await asyncio.sleep(wait)


def backoff(attempt: int) -> float:
    """Return the seconds to wait before a retry: exponential backoff with jitter."""
    # The jitter keeps sub-agents that failed together from retrying together.
    return min(SHORTEST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.75, 1.25)


async def _receive(turn: RunningTurn, request: Fields) -> StreamedMessage:
    """Stream an answer into the session.

    A finished block is held back until the next event, which follows at once, so that the last
    block is recorded with the final token counts and the stop reason.
    """
    answer = StreamedMessage()
    recorder = turn.parts.recorder
    pending: Fields | None = None
    LOG.debug("request: %s, %d messages", request["model"], len(request["messages"]))
    try:
        async with turn.parts.model.ask(request) as stream:
            answer.request_id = stream.request_id
            async for event in stream.events:
                finished = answer.take(event)
                if pending:
                    # Recorded before it is emitted, as a listener may crash or be killed while
                    # showing it.
                    _record(turn, answer, pending["index"])
                    turn.emit(Streamed(pending))
                pending = event if finished else None
                if not pending:
                    turn.emit(Streamed(event))
        recorder.settle()
        usage = answer.message.get("usage")
        LOG.debug("answer %s: %s, %s", answer.request_id, answer.stop_reason, usage)
        return answer
    except asyncio.CancelledError:
        # Keep the text that the user has seen, as the next prompt may refer to it.
        if pending:
            _record(turn, answer, pending["index"])
        _keep_text(turn, answer)
        recorder.settle()
        raise


def _record(turn: RunningTurn, answer: StreamedMessage, index: int) -> None:
    block, choice = answer.blocks[index], turn.parts.choice
    about = made_by(choice.model.removesuffix(LONG_MARK), choice.effort)
    recorder, request_id = turn.parts.recorder, answer.request_id
    turn.record(recorder.block(answer.message, block, index, request_id, about))


def _keep_text(turn: RunningTurn, answer: StreamedMessage) -> None:
    """Record the text that was shown before an interruption; drop partial thinking and calls."""
    text = answer.unfinished_text
    if text.strip():
        index = len(answer.blocks)
        recorder = turn.parts.recorder
        turn.record(recorder.partial(answer.message, text, index, answer.request_id))


def _error_fields(error: ModelError) -> Fields:
    """Return the fields that describe an API error in a session."""
    return {
        "message": error.message,
        "status": error.status,
        "requestId": error.request_id,
        "formatted": error.message,
        "connection": None,
        "isNetworkDown": False,
        "rateLimits": None,
        "noResponse": None,
    }
