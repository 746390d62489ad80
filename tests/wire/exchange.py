"""Recorded exchanges, and what must be read out of each."""

import base64
import json
import math
import re
from datetime import datetime

NOW = 1_600_000_000.0  # before every recording, so that no reset has passed
PLAIN = {
    "text": lambda response: response.content or "",
    "refusal": lambda response: response.refusal,
    "finish": lambda response: response.finish_reason,
    "error_code": lambda response: response.error and response.error.code,
    "retryable": lambda response: response.error and response.error.retryable,
    "model": lambda response: response.provider_data.get("model"),
    "server_tools": lambda response: response.provider_data.get("server_tools"),
    "stream_done": lambda response: response.provider_data.get("stream_done"),
    "total_tokens_reported": lambda response: response.provider_data.get("total_tokens_reported"),
    "cost_reported": lambda response: response.cost and float(response.cost.total),
}
TOKENS = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
REQUEST_IDS = (
    "x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "mistral-correlation-id",
)  # fmt: skip


def load(folder, surface):
    """All (item, facts) of *surface*, the body as bytes under "bytes"."""
    for line in (folder / "expected.jsonl").read_text("utf8").splitlines():
        facts = json.loads(line)
        if facts["surface"] != surface:
            continue
        item = json.loads((folder / "items" / f"{facts['id']}.json").read_text("utf8"))
        answer = item["response"]
        coded = answer.get("body_b64")
        item["bytes"] = base64.b64decode(coded) if coded else answer["body"].encode()
        yield item, facts


def compare(item, facts, response):
    """Yield (fact, whether it was read right) for everything that the wire decides."""
    for name, read in PLAIN.items():
        if name in facts and not (name == "server_tools" and not facts[name]):
            yield name, read(response) == facts[name]
    for name in TOKENS:
        if f"{name}_tokens" in facts:
            counted = getattr(response.usage, f"{name}_tokens")
            yield f"{name}_tokens", counted == facts[f"{name}_tokens"]
    if "tools" in facts:
        yield "tools", list(map(_call, response.tool_calls)) == _wanted_calls(facts, response)
    if "stream_without_finish" in facts["flags"]:
        yield "unfinished", response.finish_reason in (None, "error")
    if item["trust"] == "recorded":
        headers = item["response"]["headers"] or {}
        ids = {headers[name] for name in REQUEST_IDS if headers.get(name)}
        if ids:
            yield "request_id", response.provider_data["request_id"] in ids
        yield "windows", _windows(response) == _wanted_windows(headers)


def _call(call):
    return call.name, call.id, _json(call.arguments)


def _wanted_calls(facts, response):
    # A call that came without an id gets one of ours.
    ours = [call.id for call in response.tool_calls] + [""] * len(facts["tools"])
    return [
        (call["name"], call.get("id") or own, _json(call.get("arguments")))
        for call, own in zip(facts["tools"], ours, strict=False)
    ]


def _json(arguments):
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments


def _windows(response):
    found = response.rate_limit.windows if response.rate_limit else ()
    told = {(w.limit, w.remaining, None if w.estimated else w.resets_in) for w in found}
    return told, len(found)


def _wanted_windows(headers):
    groups = {}
    for name, value in headers.items():
        found = re.fullmatch(r"x-ratelimit-(limit|remaining|reset)(-.+)?", name) or re.fullmatch(
            r"anthropic-ratelimit-(?=(.+)-(limit|remaining|reset)$)(.+)", name
        )
        if found:
            part, of = (found[1], found[2]) if name.startswith("x-") else (found[2], found[1])
            groups.setdefault(of, {})[part] = value
    rows = [
        (_whole(group.get("limit")), _whole(group.get("remaining")), _seconds(group.get("reset")))
        for group in groups.values()
    ]
    rows = [row for row in rows if row[:2] != (None, None)]
    return set(rows), len(rows)


def _whole(text):
    return int(text) if text and re.fullmatch("[0-9]+", text) else None


def _seconds(text):
    if text and re.match("[0-9]{4}-[0-9]{2}-", text):
        return math.ceil(datetime.fromisoformat(text).timestamp() - NOW)
    found = re.fullmatch(
        r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)(?:s|$))?(?:([\d.]+)ms)?", text or ""
    )
    if not text or not found:
        return None
    sizes = (3600, 60, 1, 0.001)
    parts = zip(found.groups(), sizes, strict=True)
    return math.ceil(sum(float(part) * size for part, size in parts if part))
