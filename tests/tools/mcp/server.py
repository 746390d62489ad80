"""A small MCP server that can misbehave, over stdio or HTTP; it needs nothing but Python.

``python server.py [TRAIT ...]``; what it was asked to do is appended to the file in $MCP_LOG.
"""

import json
import os
import sys

PNG = "iVBORw0KGgo="


def _schema(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT = {"type": "string"}
TOOLS = [
    {
        "name": "add",
        "description": "Adds.",
        "inputSchema": _schema(a={"type": "integer"}, b={"type": "integer"}),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {"name": "note", "description": "Keeps a note.", "inputSchema": _schema(text=TEXT)},
    {
        "name": "put",
        "description": "Puts a value.",
        "inputSchema": _schema(text=TEXT),
        "annotations": {"idempotentHint": True, "destructiveHint": False},
    },
    {
        "name": "drop.all",
        "description": "Removes everything.",
        "inputSchema": _schema(),
        "annotations": {"destructiveHint": True},
    },
    {"name": "fail", "description": "Fails.", "inputSchema": _schema()},
    {
        "name": "refuse",
        "description": "Is refused.",
        "inputSchema": _schema(code={"type": "integer"}, said=TEXT),
    },
    {"name": "show", "description": "Shows.", "inputSchema": _schema(kind=TEXT)},
    {
        "name": "look",
        "description": "Looks, and may end or stall the server.",
        "inputSchema": _schema(how=TEXT),
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "die",
        "description": "Writes, and may end or stall the server.",
        "inputSchema": _schema(how=TEXT),
    },
    {
        "name": "peek",
        "title": "Peeks.",
        "inputSchema": _schema(at={"type": "nonsense"}),
        "annotations": {
            "readOnlyHint": True,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": True,
        },
    },
]


def text(said):
    return {"type": "text", "text": said}


def show(kind):
    content = {
        "text": [text("one"), text("two")],
        "json": [text('{"a": 1}')],
        "structured": [text('{"a":1}')],
        "wrapped": [text("x"), text("y")],
        "field": [text("words")],
        "beside": [text("in words")],
        "image": [text("see"), {"type": "image", "data": PNG, "mimeType": "image/png"}],
        "resource": [
            {"type": "resource", "resource": {"uri": "a:1", "mimeType": "text/plain", "text": "t"}},
            {"type": "resource_link", "uri": "a:2", "name": "two", "mimeType": "text/html"},
        ],
        "large": [text("0123456789abcde\n" * (31 * 65_536))],
        "strange": [{"type": "strange"}],
        "none": [],
    }[kind]
    structured = {
        "structured": {"a": 1},
        "wrapped": {"result": ["x", "y"]},
        "field": {"content": "words"},
        "beside": {"a": 1},
    }.get(kind)
    return {"content": content} | ({"structuredContent": structured} if structured else {})


def log(word):
    if path := os.environ.get("MCP_LOG"):
        with open(path, "a") as file:
            file.write(word + "\n")


def times(word):
    path = os.environ.get("MCP_LOG", "")
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return file.read().split("\n").count(word)


def end(how, send):
    """Do what *how* says: "once" ends the process at the first time, "always" each time."""
    if how == "stall":
        # Deaf until its input ends, so that it can still be closed at once.
        for line in sys.stdin:
            log("cancelled" if "notifications/cancelled" in line else "unheard")
    if how in ("change", "mute", "unlist"):
        log("changed")
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if how in ("always", "move") or (how == "once" and times("once") == 1):
        os._exit(1)


def call(name, arguments, meta, send):
    log(name)
    match name:
        case "add":
            token = meta.get("progressToken")
            if token is not None:
                for told in (
                    {"progress": 1, "total": 2, "message": "half"},
                    {"progress": 1.5, "total": 2},
                    {"progress": 2},
                ):
                    told |= {"progressToken": token}
                    send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
            total = arguments["a"] + arguments["b"]
            return {"content": [text(str(total))], "structuredContent": {"result": total}}
        case "fail":
            return {"content": [text("it is broken")], "isError": True}
        case "show":
            return show(arguments["kind"])
        case "quiz" | "greet":
            found = ask(send)
            return found and {"content": [text(json.dumps(found, sort_keys=True))]}
        case "put":
            log(arguments["text"])
            end(arguments["text"], send)
        case "look" | "die":
            log(arguments["how"])
            end(arguments["how"], send)
    return {"content": [text("done")]}


# A server that works on its calls as tasks, which ask before they have a result.
TASKS = {"tasks": {"requests": {"tools": {"call": {}}}}} if "tasks" in sys.argv else {}
WAITING = []


def task(status):
    date = "2026-01-01T00:00:00Z"
    dates = {"createdAt": date, "lastUpdatedAt": date, "ttl": None}
    return {"taskId": "t1", "status": status, "pollInterval": 1, **dates}


def answer_task(method, params, send):
    match method:
        case "tools/call":
            WAITING.append(params)
            return {"task": task("working")}
        case "tasks/get":
            return task("input_required")
        case "tasks/result":
            return call(WAITING[-1]["name"], WAITING[-1]["arguments"], {}, send)
        case _:
            log("task-cancelled")
            return task("cancelled")


def ask(send):
    """Ask the user, and return the answer; None if the call was cancelled meanwhile."""
    field = {"name": {"type": "string"}}
    params = {"message": "Who are you?", "requestedSchema": _schema(**field)}
    if WAITING:
        params["_meta"] = {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
    send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            log("cancelled")
            return None
        if message.get("id") == "q":
            return message["result"]
    return None


def tools(params):
    listed = TOOLS
    if "asks" in sys.argv:
        reads = {"readOnlyHint": True}
        may_be_task = {"execution": {"taskSupport": "optional"}}
        quiz = {"name": "quiz", "inputSchema": _schema(), "annotations": reads, **may_be_task}
        listed = [quiz, {"name": "greet", "inputSchema": _schema(), **may_be_task}]
    if times("changed"):
        listed = [t | {"description": "Does more."} if t["name"] == "note" else t for t in TOOLS]
    if times("emptied"):
        listed = []
    if "twice" in sys.argv:
        listed = [listed[0], listed[0]]
    if "pages" in sys.argv:
        page = int(params.get("cursor") or 0)
        more = {"nextCursor": str(page + 1)} if page + 1 < len(listed) else {}
        return {"tools": [listed[page]]} | more
    if "endless" in sys.argv:
        log("page")
        return {"tools": [], "nextCursor": "more"}
    return {"tools": listed}


def answer(message, send):
    """The answer to one message, None where none is due."""
    if "id" not in message:
        return None
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}, **TASKS},
                "serverInfo": {"name": "small", "version": "1"},
            }
        case "tools/list":
            if times("mute") > times("muted"):
                return log("muted")
            if times("unlist") > times("unlisted"):
                log("unlisted")
                return _refusal(message, -32603, "not now")
            result = tools(params)
        case "tools/call" if params["name"] == "refuse":
            return _refusal(message, params["arguments"]["code"], params["arguments"]["said"])
        case method if "task" in params or method.startswith("tasks/"):
            result = answer_task(method, params, send)
        case "tools/call":
            result = call(params["name"], params["arguments"], params.get("_meta", {}), send)
        case "ping":
            result = {}
        case _:
            return _refusal(message, -32601, "there is no such method")
    # None if the call was cancelled.
    return result and {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _refusal(message, code, said):
    error = {"code": code, "message": said}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}


def main():
    def send(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    if "noisy" in sys.argv:
        sys.stderr.buffer.write(b"\xff\n")
        sys.exit("there is no such database")
    if times("move"):
        sys.exit("it has moved")
    log("start")
    if "silent" in sys.argv:
        print("waiting for somebody to log in", file=sys.stderr, flush=True)
    for line in sys.stdin:
        if "silent" in sys.argv:
            log("asked")
            continue
        reply = answer(json.loads(line), send)
        if reply is not None:
            send(reply)
    log("end")


if __name__ == "__main__":
    main()
