"""A server that makes a task of every call, and writes down what it receives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TASKS = "io.modelcontextprotocol/tasks"
HANDLE = {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": None}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the server answers."""
    able = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}, "extensions": {TASKS: {}}}
    about = {"capabilities": able, "serverInfo": {"name": "tasks", "version": "1"}}
    match method:
        case "initialize":
            return {"protocolVersion": "2025-11-25", **about}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], **about}
        case "tools/list":
            schema = {"type": "object", "properties": {"order_id": {"type": "string"}}}
            return {"tools": [{"name": "refund", "inputSchema": schema}]}
        case _:
            is_new = "_meta" in params and "io.modelcontextprotocol/protocolVersion" in str(params)
            return {"resultType": "task", **HANDLE} if is_new else {"task": HANDLE}


def main(book: Path) -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        with book.open("a") as file:
            file.write(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
