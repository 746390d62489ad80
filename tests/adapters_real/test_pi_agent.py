"""pi-ai's own messages, of replies that a server on this machine gives it."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from upshot.adapters import from_pi_agent
from upshot.contract import ToolCall
from upshot.flat import from_pi_agent as to_flat

HERE = Path(__file__).parent
ENTRY = HERE.parents[1] / ".venv-adapters/node/node_modules/@mariozechner/pi-ai/dist/index.js"
# The environment has a Node of its own where the machine has none.
NODE = shutil.which(
    "node", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
)

pytestmark = pytest.mark.skipif(
    NODE is None or not ENTRY.is_file(), reason="Node or its package pi-ai is not installed"
)


def events(*data, named=False):
    """A stream of server-sent events."""
    lines = (
        (f"event: {item['type']}\n" if named else "") + f"data: {json.dumps(item)}\n\n"
        for item in data
    )
    return "".join(lines) + ("" if named else "data: [DONE]\n\n")


@contextmanager
def server(status, body, kind="text/event-stream"):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()


def message(api, body, *, status=200, kind="text/event-stream", how=""):
    with server(status, body, kind) as address:
        command = [NODE, HERE / "pi_message.mjs", ENTRY, api, address, how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def chunk(delta, finish=None, **fields):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "test-model", "choices": [choice], **fields}


CHAT = events(
    chunk({"role": "assistant", "content": "Hi"}),
    chunk({}, "stop"),
    {
        "id": "chatcmpl-1",
        "choices": [],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 40},
        },
    },
)
MESSAGES = events(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "test-model",
            "content": [],
            "stop_reason": None,
            "usage": {
                "input_tokens": 10,
                "output_tokens": 1,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
            },
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"x": 1}'},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
    named=True,
)


def test_a_reply_is_read():
    native = message("openai-completions", CHAT)
    result = from_pi_agent(native)
    assert (result.status, result.content, result.finish_reason) == ("completed", "Hi", "stop")
    assert result.provider_data["provider"] == "openai"
    assert float(result.cost) == pytest.approx(native["usage"]["cost"]["total"])


def test_the_cached_part_is_in_the_input_again():
    native = message("openai-completions", CHAT)
    assert native["usage"]["input"] == 60
    usage = from_pi_agent(native).usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.total_tokens) == (100, 40, 150)
    assert to_flat(native).usage.input_tokens == 100


def test_calls_are_read():
    result = from_pi_agent(message("anthropic-messages", MESSAGES))
    assert result.messages[0].tool_calls == (ToolCall("c1", "add", {"x": 1}),)
    assert result.finish_reason == "tool_use"
    usage = result.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (130, 100, 20)


@pytest.mark.parametrize(
    ("api", "status", "code", "retryable"),
    [
        ("openai-completions", 429, "rate_limit", True),
        ("anthropic-messages", 401, "auth_error", False),
        ("anthropic-messages", 529, "server_error", True),
    ],
)
def test_a_refused_call_is_classified(api, status, code, retryable):
    body = json.dumps({"type": "error", "error": {"type": "an_error", "message": "it failed"}})
    native = message(api, body, status=status, kind="application/json")
    result = from_pi_agent(native)
    assert native["stopReason"] == "error"
    assert (result.error.code, result.error.retryable) == (code, retryable)
    assert result.error.status_code == status


def test_aborted_is_canceled():
    native = message("openai-completions", CHAT, how="abort")
    result = from_pi_agent(native)
    assert (native["stopReason"], result.status) == ("aborted", "canceled")
    assert (result.finish_reason, result.error.retryable) == ("aborted", False)
