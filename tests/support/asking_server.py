"""An MCP server over stdio that asks the user during a call: `python asking_server.py`.

It speaks JSON lines itself: the SDK's server sends such requests only in the newest protocol.
"""

import json
import sys
from typing import Any

FIELDS = {
    "name": {"type": "string", "title": "Your name", "minLength": 2},
    "age": {"type": "integer", "minimum": 1, "maximum": 150},
    "colour": {"type": "string", "enum": ["red", "blue"]},
    "agrees": {"type": "boolean"},
}
FORM = {
    "mode": "form",
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": FIELDS, "required": ["name"]},
}
VISIT = {
    "mode": "url",
    "message": "Please log in",
    "url": "https://example.com/login?a=1",
    "elicitationId": "visit-1",
}
ASKED: dict[str, dict[str, Any]] = {"ask": FORM, "visit": VISIT, "insist": VISIT}
TIMES = {"insist": 10}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def receive() -> dict[str, Any]:
    return json.loads(sys.stdin.readline() or sys.exit())


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None if it is not supported."""
    method = request["method"]
    given: dict[str, Any] = request.get("params") or {}
    if method == "initialize":
        about = {"name": "asking", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return {"tools": [{"name": name, "inputSchema": schema} for name in ASKED]}
    if method != "tools/call":
        return None
    reply: dict[str, Any] = {}
    for _ in range(TIMES.get(given["name"], 1)):
        send(id="asked", method="elicitation/create", params=ASKED[given["name"]])
        while (reply := receive()).get("id") != "asked" or "method" in reply:
            pass
    text = json.dumps(reply.get("result") or {"error": reply.get("error")}, sort_keys=True)
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    while True:
        request = receive()
        if "method" not in request or "id" not in request:
            continue
        result = answer(request)
        if result is None:
            send(id=request["id"], error={"code": -32601, "message": "Method not found"})
        else:
            send(id=request["id"], result=result)


if __name__ == "__main__":
    main()
