"""The Messages API for a real client: plays the script that a prompt names.

The newest `PLAY:name` in a request's messages chooses the script, the answers behind it the step.
"""

import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

Block = dict[str, Any]
Script = list[list[Block]]
"""For each answer its blocks."""

MARK = re.compile(r"PLAY:(\w+)")
MODEL = "claude-opus-5"
USAGE = {"input_tokens": 3, "output_tokens": 5}


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def use(name: str, **given: object) -> Block:
    """A call of a tool; of several names (`A|B`) that which the client has."""
    return {"type": "tool_use", "name": name, "input": given}


class PlayedApi(ThreadingHTTPServer):
    """Answers with scripts; what no script is for, with a word."""

    daemon_threads = True

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scripts = scripts
        self.numbers = count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The next message of the model."""
        number = next(self.numbers)
        tools = {tool["name"] for tool in request.get("tools", [])}
        blocks = [
            _called(block, tools, f"toolu_{number:05}_{place}")
            for place, block in enumerate(self._blocks(request["messages"]))
        ]
        has_calls = any(block["type"] == "tool_use" for block in blocks)
        return {
            "id": f"msg_{number:05}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": blocks,
            "stop_reason": "tool_use" if has_calls else "end_turn",
            "stop_sequence": None,
            "usage": USAGE,
        }

    def _blocks(self, messages: list[dict[str, Any]]) -> list[Block]:
        step = 0
        for message in reversed(messages):
            if message["role"] == "assistant":
                step += 1
            elif found := MARK.findall(" ".join(_texts(message["content"]))):
                script = self.scripts[found[-1]]
                return script[min(step, len(script) - 1)]
        return [text("Nothing to play.")]


def _called(block: Block, tools: set[str], name: str) -> Block:
    if block["type"] != "tool_use":
        return block
    tool = next((each for each in block["name"].split("|") if each in tools), block["name"])
    return block | {"name": tool, "id": name}


def _texts(content: str | list[Block]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block["text"] for block in content if block["type"] == "text")


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, PlayedApi)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.partition("?")[0].endswith("/messages"):
            self.send_error(404)
            return
        message = self.server.answer(body)
        is_stream = body.get("stream")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.end_headers()
        if is_stream:
            for event in _events(message):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        else:
            self.wfile.write(json.dumps(message).encode())

    def do_GET(self) -> None:
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep quiet."""

    def log_error(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as it is streamed."""
    begun = message | {"content": list[Block](), "stop_reason": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        at = {"index": index}
        if block["type"] == "tool_use":
            empty, delta = block | {"input": {}}, "input_json_delta"
            piece = {"partial_json": json.dumps(block["input"])}
        else:
            empty, delta, piece = block | {"text": ""}, "text_delta", {"text": block["text"]}
        yield {"type": "content_block_start", "content_block": empty} | at
        yield {"type": "content_block_delta", "delta": {"type": delta} | piece} | at
        yield {"type": "content_block_stop"} | at
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": message["usage"]}
    yield {"type": "message_stop"}


@contextmanager
def playing(scripts: Mapping[str, Script]) -> Generator[PlayedApi]:
    """An API on a free port."""
    with PlayedApi(scripts) as api:
        thread = Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            api.shutdown()
            thread.join()
