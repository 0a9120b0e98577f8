"""One answer of the model, recorded as it comes in, and asked for again when the API falters."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from turnlog.agent.loop.conversation import Emit, Parts
from turnlog.agent.loop.events import Recorded, Retrying, Streamed
from turnlog.agent.model.answer import StreamedMessage
from turnlog.agent.model.streaming import Faltered
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields

SHORTEST_WAIT = 0.5
LONGEST_WAIT = 32.0
MOST_PATIENT = 300.0
"""Seconds: if the API asks to be left alone for longer, the user is told instead."""


async def ask_model(parts: Parts, request: Fields, emit: Emit) -> StreamedMessage:
    """Let the model answer; each block is a line of the session before it is told as finished."""

    async def receive() -> StreamedMessage:
        return await _receive(parts, request, emit)

    return await _ask_until_answered(parts, receive, emit)


async def ask_aside(parts: Parts, request: Fields, emit: Emit) -> StreamedMessage:
    """Let the model answer something that is no part of the conversation."""

    async def receive() -> StreamedMessage:
        async with parts.model.ask(request) as stream:
            answer = StreamedMessage(stream.request_id)
            async for event in stream.events:
                answer.take(event)
            return answer

    return await _ask_until_answered(parts, receive, emit)


async def _ask_until_answered(
    parts: Parts, receive: Callable[[], Awaitable[StreamedMessage]], emit: Emit
) -> StreamedMessage:
    attempt = 0
    while True:
        try:
            return await receive()
        except Faltered as error:
            parts.recorder.abandon()
            attempt += 1
            if attempt > parts.limits.retries or (error.wait or 0.0) > MOST_PATIENT:
                raise
            wait = backoff(attempt) if error.wait is None else error.wait
            attempts = parts.limits.retries
            emit(Recorded(parts.recorder.api_error(_told(error), wait, attempt, attempts)))
            emit(Retrying(attempt, attempts, wait, error.message, error.status))
            await asyncio.sleep(wait)


def backoff(attempt: int) -> float:
    """How long to wait before another try: twice as long each time, within bounds."""
    return min(SHORTEST_WAIT * 2 ** (attempt - 1), LONGEST_WAIT) * random.uniform(0.75, 1.25)


async def _receive(parts: Parts, request: Fields, emit: Emit) -> StreamedMessage:
    """Take an answer in.

    A finished block waits for the event after it, which follows at once: the last block of an
    answer gets the final counts and the stop reason that way.
    """
    answer = StreamedMessage()
    waiting: Fields | None = None
    try:
        async with parts.model.ask(request) as stream:
            answer.request_id = stream.request_id
            async for event in stream.events:
                finished = answer.take(event)
                if waiting:
                    _record(parts, answer, waiting["index"], emit)
                    emit(Streamed(waiting))
                waiting = event if finished else None
                if not waiting:
                    emit(Streamed(event))
        parts.recorder.settle()
        return answer
    except asyncio.CancelledError:
        if waiting:
            _record(parts, answer, waiting["index"], emit)
        _keep_text(parts, answer, emit)
        parts.recorder.settle()
        raise


def _record(parts: Parts, answer: StreamedMessage, index: int, emit: Emit) -> None:
    block = answer.blocks[index]
    emit(Recorded(parts.recorder.block(answer.message, block, index, answer.request_id)))


def _keep_text(parts: Parts, answer: StreamedMessage, emit: Emit) -> None:
    """Keep what the user has read of a text; thinking and calls are nothing by halves."""
    text = answer.unfinished_text
    if text.strip():
        index = len(answer.blocks)
        partial = parts.recorder.partial(answer.message, text, index, answer.request_id)
        emit(Recorded(partial))


def _told(error: ModelError) -> Fields:
    """An error as its line has it."""
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
