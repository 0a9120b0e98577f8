"""The Model Context Protocol: one JSON-RPC message in, one answer or none out.

Implemented without the SDK, whose import alone takes about a second of CPU, twice the time that a
first answer may take. The tests talk to it through the SDK's client.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeGuard

from turnlog import __version__
from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.format.json_values import is_object
from turnlog.mcp_server.instructions import INSTRUCTIONS, list_prompts, prompt_messages
from turnlog.mcp_server.tool_runs import ToolRuns
from turnlog.mcp_server.tool_table import TOOLS, list_tools
from turnlog.secrets import mask
from turnlog.text import one_line

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Supported protocol versions, the newest first: the features used here are the same in all."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL, NO_RESOURCE = -32603, -32002

Message = dict[str, Any]


class ProtocolError(Exception):
    """An error that is sent as a JSON-RPC error response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Dispatcher:
    """Answers messages; any number of threads may call it."""

    def __init__(self, runs: ToolRuns) -> None:
        self._runs = runs
        self._methods: dict[str, Callable[[Message], Message]] = {
            "initialize": self._initialize,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": list_tools()},
            "tools/call": self._call_tool,
            "prompts/list": lambda params: {"prompts": list_prompts()},
            "prompts/get": self._get_prompt,
            "resources/list": lambda params: {"resources": self._runs.resources()},
            "resources/templates/list": lambda params: {"resourceTemplates": [TEMPLATE]},
            "resources/read": self._read_resource,
        }

    def answer(self, message: Any) -> Message | None:
        """Return the response to a message; None for notifications and responses."""
        id_ = message.get("id") if is_object(message) else None
        id_ = id_ if is_request_id(id_) else None
        try:
            method, params = _parse(message)
            # Notifications get no answer, not even an error.
            if method is None or "id" not in message:
                return None
            return {"jsonrpc": "2.0", "id": id_, "result": self._result(method, params)}
        except ProtocolError as error:
            return error_message(id_, error.code, str(error))
        except Exception as error:  # a bug must not end the server, nor leave a client waiting
            log_failure(error)
            return error_message(id_, INTERNAL, f"internal error: {type(error).__name__}")

    def _result(self, method: str, params: Message) -> Message:
        handler = self._methods.get(method)
        if handler is None:
            raise ProtocolError(NO_METHOD, f"no method {method[:80]!r}")
        return handler(params)

    def _initialize(self, params: Message) -> Message:
        wanted = params.get("protocolVersion")
        # The client asks for tools next; by its first call, the index is up to date.
        self._runs.warm_up()
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "turnlog", "title": "turnlog", "version": __version__},
            "instructions": INSTRUCTIONS,
        }

    def _call_tool(self, params: Message) -> Message:
        name = params.get("name")
        if not isinstance(name, str) or name not in TOOLS:
            raise ProtocolError(INVALID_PARAMS, f"no tool {str(name)[:80]!r}")
        text, is_error = self._runs.run(name, params.get("arguments", {}), params)
        return {"content": [{"type": "text", "text": text}], "isError": is_error}

    def _get_prompt(self, params: Message) -> Message:
        name, given = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not is_object(given):
            raise ProtocolError(INVALID_PARAMS, "prompts/get needs a name and arguments")
        try:
            return prompt_messages(name, given)
        except UsageError as error:
            raise ProtocolError(INVALID_PARAMS, error.message) from error

    def _read_resource(self, params: Message) -> Message:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise ProtocolError(INVALID_PARAMS, "uri is missing")
        try:
            text = self._runs.read_resource(uri, params)
        except NotFound as error:
            raise ProtocolError(NO_RESOURCE, error.message) from error
        except TurnlogError as error:
            raise ProtocolError(INVALID_PARAMS, error.message) from error
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


TEMPLATE = {
    "uriTemplate": "turnlog://session/{id}",
    "name": "session",
    "title": "An earlier session",
    "description": "Prompts, files, cost and outcome of a session",
    "mimeType": "text/plain",
}


def error_message(id_: str | int | None, code: int, message: str) -> Message:
    """Return a JSON-RPC error response."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": mask(message)}}


def log_failure(error: BaseException) -> None:
    """Print a failure to stderr, on one line and masked."""
    text = one_line(mask(f"{type(error).__name__}: {error}"))[:400]
    print(f"turnlog mcp: {text}", file=sys.stderr, flush=True)


def _parse(message: Any) -> tuple[str | None, Message]:
    """Return the method and parameters of a message; the method is None for responses."""
    if not is_object(message) or message.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, "not a JSON-RPC 2.0 message")
    if "method" not in message and ("result" in message or "error" in message):
        return None, {}
    method, params = message.get("method"), message.get("params", {})
    if "id" in message and not is_request_id(message["id"]):
        raise ProtocolError(INVALID_REQUEST, "the id of a request must be a string or an integer")
    if not isinstance(method, str):
        raise ProtocolError(INVALID_REQUEST, "the message has no method")
    if not is_object(params):
        raise ProtocolError(INVALID_PARAMS, "params must be an object")
    return method, params


def is_request_id(value: Any) -> TypeGuard[str | int]:
    """Return whether a value may be the id of a request."""
    # JSON's `true` is an int to Python.
    return isinstance(value, str | int) and not isinstance(value, bool)
