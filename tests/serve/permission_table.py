"""Who may use each route of a site: for the test that tries all, and the page that says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["ROWS", "Row", "rows_of_page"]

SEES = frozenset({"own", "see", "answer", "operate", "staff"})
NEEDS: dict[str, tuple[frozenset[str], str]] = {
    "anyone": (frozenset(), "anyone: it has no run in it"),
    "link": (frozenset(), "the user of the link, without a sign-in"),
    "user": (frozenset(), "every user"),
    "list": (SEES, "a role; it lists what the user may see"),
    "own": (frozenset({"own"}), "every user; it has the user's own runs alone"),
    "start": (frozenset(), "a user who may start the agent"),
    "see": (SEES, "the owner of the run, or `view`"),
    "operate": (frozenset({"own", "operate", "staff"}), "the owner of the run, or `operate`"),
    "fork": (
        frozenset({"own", "operate", "staff"}),
        "the owner of the run, or `operate`; and who may start the agent",
    ),
    "note": (
        frozenset({"own", "answer", "operate", "staff"}),
        "the owner of the run, `operate`, or `answer` for the agent",
    ),
    "answer": (
        frozenset({"own", "answer", "staff"}),
        "the owner of the run, or `answer` for agent and tool",
    ),
    "lab": (SEES, "`view`, without a tenant"),
    "drain": (SEES, "`view` and `operate`, without a tenant"),
    "audit": (frozenset({"staff"}), "`audit`"),
    "settle": (
        frozenset({"answer", "operate", "staff"}),
        "`answer` for agent and tool, or `operate`",
    ),
    "answer for staff": (
        frozenset({"answer", "staff"}),
        "`answer` for agent and tool, in the console alone",
    ),
    "answer over a door": (
        frozenset({"own", "staff"}),
        "the owner of the run, or `operate` with `answer` for agent and tool",
    ),
}
"""Which relations to a run may do it, and how the page says so."""


class Row(NamedTuple):
    """One thing that a route does.

    Attributes:
        method: The method; "*" is any.
        path: The route.
        need: A word of ``NEEDS``.
        body: What is sent; a text of it may name a field of the run, such as ``{run}``.
        act: What it does, where the route does several things.
        ok: The statuses of what is done.
    """

    method: str
    path: str
    need: str
    body: Any = None
    act: str = ""
    ok: tuple[int, ...] = (200,)


_YES = {"answers": [{"kind": "approve", "call_id": "p", "digest": "{p}"}]}
_YES_OF_STAFF = {"answers": [{"kind": "approve", "call_id": "r", "digest": "{r}"}]}
_UI = {
    "id": "{chat}",
    "messages": [
        {
            "id": "{run}",
            "role": "assistant",
            "parts": [
                {
                    "type": "tool-pay",
                    "state": "approval-responded",
                    "toolCallId": "p",
                    "approval": {"id": "p {p}", "approved": True},
                }
            ],
        }
    ],
}
_AG_UI = {
    "threadId": "{chat}",
    "runId": "r-1",
    "messages": [],
    "resume": [{"interruptId": "{run} {p} p", "status": "resolved", "payload": {"approved": True}}],
}


def _rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


_TOLD = {"data": {"id": "p", "digest": "{p}", "decision": "approve"}}
_MESSAGE = {"messageId": "m", "role": "ROLE_USER", "taskId": "{run}", "parts": [_TOLD]}
_CONTINUE = {
    "name": "upshot_continue",
    "arguments": {"run_id": "{run}", "wait_s": 0},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    },
}
_RESPONSE = {
    "model": "desk",
    "stream": True,
    "previous_response_id": "{run}",
    "input": [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_{p}", "approve": True}
    ],
}
_LATER = {"until": "2999-01-01T00:00:00Z"}

ROWS = [
    Row("GET", "/", "anyone"),
    Row("GET", "/runs", "anyone"),
    Row("GET", "/runs/{run}", "anyone"),
    Row("GET", "/runs/{run}/compare/{other}", "anyone"),
    Row("GET", "/inbox", "anyone"),
    Row("GET", "/effects", "anyone"),
    Row("GET", "/tools", "anyone"),
    Row("GET", "/workers", "anyone"),
    Row("GET", "/audit", "anyone"),
    Row("GET", "/sessions", "anyone"),
    Row("GET", "/lab", "anyone"),
    Row("GET", "/lab/{name:path}", "anyone"),
    Row("GET", "/conversations", "anyone"),
    Row("GET", "/conversations/{id:path}", "anyone"),
    Row("GET", "/chat/{agent}", "anyone"),
    Row("GET", "/static/{name}", "anyone"),
    Row("GET", "/answer/{token}", "link", ok=(404,)),
    Row("POST", "/answer/{token}", "link", ok=(404,)),
    Row("GET", "/health", "anyone"),
    Row("GET", "/ready", "anyone"),
    Row("GET", "/metrics", "lab"),
    Row("GET", "/api/me", "list"),
    Row("GET", "/api/live", "list"),
    Row("GET", "/api/counts", "list"),
    Row("GET", "/api/overview", "list"),
    Row("GET", "/api/tools", "list"),
    Row("GET", "/api/workers", "lab"),
    # There is no such worker.
    Row("POST", "/api/workers/{id}/drain", "drain", ok=(400,)),
    Row("GET", "/api/runs", "list"),
    Row("GET", "/api/inbox", "list"),
    Row("GET", "/api/grants", "list"),
    Row("GET", "/api/effects", "list"),
    Row("GET", "/api/audit", "audit"),
    Row("GET", "/api/audit/lines", "audit"),
    Row("GET", "/api/sessions", "list"),
    Row("POST", "/api/sessions/end", "list", {"id": "none"}, ok=(404,)),
    Row("GET", "/api/lab", "lab"),
    Row("GET", "/api/lab/{name:path}/file", "lab", ok=(404,)),
    Row("GET", "/api/lab/{name:path}", "lab", ok=(404,)),
    Row("GET", "/api/datasets/{name}", "lab", ok=(404,)),
    Row("POST", "/api/datasets/{name}", "lab", {"runs": ["{run}"]}),
    Row("GET", "/api/conversations", "list"),
    Row("GET", "/api/conversations/{id:path}", "see"),
    Row("POST", "/api/bulk", "operate", {"action": "resume", "runs": ["{run}"]}, "resume"),
    Row("POST", "/api/bulk", "operate", {"action": "cancel", "runs": ["{run}"]}, "cancel"),
    Row("POST", "/api/bulk", "note", {"action": "note", "runs": ["{run}"], "name": "n"}, "note"),
    Row("POST", "/api/runs", "start", {"agent": "echo", "text": "Hi"}, ok=(201,)),
    Row("GET", "/api/runs/{run}", "see"),
    Row("GET", "/api/runs/{run}/view", "see"),
    Row("GET", "/api/runs/{run}/events", "see"),
    Row("GET", "/api/runs/{run}/events/{seq:int}", "see"),
    Row("GET", "/api/runs/{run}/events/{seq:int}/sent", "see", ok=(404,)),
    Row("GET", "/api/runs/{run}/compare/{other}", "see"),
    Row("GET", "/api/runs/{run}/artifacts/{id}", "see", ok=(404,)),
    Row("GET", "/api/runs/{run}/artifacts/{id}/shown", "see", ok=(404,)),
    Row("GET", "/api/runs/{run}/events/{seq:int}/media/{at:int}", "see", ok=(404,)),
    Row("GET", "/api/runs/{run}/causes", "see"),
    Row("GET", "/api/runs/{run}/unread-answers", "see"),
    Row("GET", "/api/runs/{run}/costly", "see"),
    Row("GET", "/api/runs/{run}/copies/case", "see"),
    Row("GET", "/api/runs/{run}/copies/test", "see", ok=(400,)),
    Row("GET", "/api/runs/{run}/copies/curl/{seq:int}", "see", ok=(404,)),
    Row("GET", "/api/runs/{run}/export", "see"),
    Row("GET", "/api/runs/{run}/notes", "see"),
    Row("GET", "/api/inbox/{run}/{item:path}/before", "see"),
    Row("POST", "/api/runs/{run}/note", "note", {"name": "thumb", "value": 1}),
    Row("POST", "/api/inbox/{run}/{item:path}/later", "note", _LATER),
    Row("POST", "/api/inbox/{run}/{item:path}/assign", "answer", {"to": "sue"}),
    Row("POST", "/api/runs/{run}/answer", "answer", _YES, 'what `ask="user"` asks'),
    Row("POST", "/api/runs/{run}/answer", "answer for staff", _YES_OF_STAFF, "all else"),
    Row("POST", "/api/runs/{run}/interrupt", "operate", {}),
    Row("POST", "/api/runs/{run}/cancel", "operate", {}),
    Row("POST", "/api/runs/{run}/resume", "operate", {}),
    Row("POST", "/api/runs/{run}/replay", "operate", {}),
    Row("POST", "/api/runs/{run}/fork", "fork", {"at": 1}),
    Row("DELETE", "/api/grants/{id:path}", "answer"),
    Row("POST", "/api/effects/{id}/check", "settle", {}),
    Row("POST", "/api/effects/{id}", "settle", {"applied": True, "note": "seen"}),
    Row("POST", "/ui/{agent}", "answer over a door", _UI, "an answer"),
    Row(
        "POST",
        "/ui/{agent}",
        "start",
        {
            "id": "new",
            "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
        },
        "a message",
    ),
    Row("GET", "/ui/{agent}/{chat}", "own"),
    Row("GET", "/ui/{agent}/{chat}/stream", "own", ok=(200, 204)),
    Row("POST", "/ag-ui/{agent}", "answer over a door", _AG_UI, "an answer"),
    Row(
        "POST",
        "/ag-ui/{agent}",
        "start",
        {
            "threadId": "new",
            "runId": "r-2",
            "messages": [{"id": "m", "role": "user", "content": "Hi"}],
        },
        "a message",
    ),
    Row("POST", "/a2a/{agent}", "see", _rpc("GetTask", id="{run}"), "GetTask"),
    Row("POST", "/a2a/{agent}", "list", _rpc("ListTasks"), "ListTasks"),
    Row("POST", "/a2a/{agent}", "operate", _rpc("CancelTask", id="{run}"), "CancelTask"),
    Row(
        "POST",
        "/a2a/{agent}",
        "answer over a door",
        _rpc(
            "SendStreamingMessage",
            message=_MESSAGE,
        ),
        "an answer",
    ),
    Row("POST", "/a2a/{agent}/", "see", _rpc("GetTask", id="{run}"), "the same"),
    Row("GET", "/a2a/{agent}/.well-known/agent-card.json", "user"),
    Row("GET", "/.well-known/agent-card.json", "user"),
    Row("*", "/mcp", "operate", _rpc("tools/call", **_CONTINUE), "`upshot_continue`"),
    Row("POST", "/v1/responses", "answer over a door", _RESPONSE, "an answer"),
    Row(
        "POST",
        "/v1/responses",
        "start",
        {
            "model": "echo",
            "input": "Hi",
            "background": True,
        },
        "a message",
    ),
    Row("GET", "/v1/responses/{id}", "see"),
    Row("POST", "/v1/responses/{id}/cancel", "operate", {}),
]


def rows_of_page() -> Iterator[tuple[str, str]]:
    """The rows of the table on the page: who may, and what."""
    found: dict[str, list[str]] = {}
    for row in ROWS:
        method = "" if row.method == "*" else f"{row.method} "
        route = f"`{method}{row.path.replace(':path', '').replace(':int', '')}`"
        act = f" ({row.act})" if row.act else ""
        found.setdefault(row.need, []).append(f"{route}{act}")
    for need, routes in found.items():
        yield NEEDS[need][1], ", ".join(routes)
