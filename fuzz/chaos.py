"""``python -m fuzz.chaos [COUNT] [SEED]``: run agents against a server that answers anything.

Each run uses real HTTP, in the chat, messages, responses or generate dialect. It gets a reply of
the simulator, intact or with one of its faults, or one of ``fuzz.seeds``: whole, with distorted
values, changed byte by byte, cut, reset, with any status and absurd headers. A reply depends only
on the number of its run, so any violation is printed as a command that reproduces it.

No run may raise, and no result may contradict itself, its encoding, or its own log.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, cast

from fuzz.__main__ import STATUSES, change, cut
from fuzz.seeds import SEEDS
from upshot import (
    Agent,
    AgentResult,
    Budget,
    ErrorCode,
    FinishReason,
    Request,
    Retry,
    ServerToolBlock,
    Status,
    decode,
    encode,
    resolve,
    run,
    start,
    states,
    tool,
)
from upshot.clock import SYSTEM_CLOCK
from upshot.contract.tool_calls import ToolExecutionResult
from upshot.contract.usage import Usage
from upshot.journal import MemoryJournal
from upshot.models import AiohttpTransport, Timeouts
from upshot.sim import (
    CutFault,
    ErrorFault,
    Fault,
    MalformedFault,
    PageFault,
    Received,
    ResetFault,
    StatusFault,
    read_scenario,
)
from upshot.sim.exchange import Ending, Playback
from upshot.sim.http_server import Listener
from upshot.sim.provider import Provider
from upshot.state.stored_events import result_of

MODELS = {
    "chat": "openai:m",
    "messages": "anthropic:m",
    "responses": "openai-responses:m",
    "generate": "google:m",
}
AT_ONCE = 16
ABSURD: tuple[Any, ...] = (
    None, True, -1, 0, 2**70, 1.5, "", " ", "x", "stop", "tool_calls", [], {}, [None], {"x": 1}
)  # fmt: skip
HEADERS = {
    "retry-after": ("0", "-1", "nan", "soon", "1e9"),
    "x-ratelimit-remaining-requests": ("0", "x", "-5", "99999999999999999999"),
    "x-ratelimit-reset-requests": ("1s", "", "never", "1e400"),
    "anthropic-ratelimit-tokens-reset": ("2026-01-01T00:00:00Z", "9999-99-99"),
    "content-type": ("application/json", "text/event-stream", "text/html", "?"),
}
REPLIES: tuple[dict[str, Any], ...] = (
    {"tool_calls": [{"name": "look", "arguments": {"key": "a"}}]},
    {"text": "Looking.", "tool_calls": [{"name": "look", "arguments": {"key": "b"}}]},
    {"text": "Cut sh", "finish_reason": "length"},
    {"refusal": "No.", "omit_usage": True},
    {"text": "", "finish_reason": "content_filter"},
    {"reasoning": "Hm.", "text": "Hello."},
    {"text": ""},
    {"text": "Hello."},
)
FAULTS: tuple[Fault | None, ...] = (
    None,
    StatusFault(status=429, retry_after_s=0, times=None),
    StatusFault(status=500, times=None),
    PageFault(times=None),
    ResetFault(times=None),
    CutFault(after_events=2, times=None),
    MalformedFault(after_events=1, times=None),
    ErrorFault(after_events=1, times=None),
)


class Contradiction(AssertionError):
    """A result says two things that cannot both be true."""


class Server:
    """Answers the request of run N, whose path starts with ``/N/``, based only on N."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._providers = [
            Provider(
                read_scenario({"replies": REPLIES[at:]}),
                clock=SYSTEM_CLOCK,
                faults=[] if fault is None else [fault],
                strict=False,
            )
            for at in range(len(REPLIES))
            for fault in FAULTS
        ]

    def forget(self, number: int) -> None:
        """Reset how many requests run *number* made."""
        self._asked.pop(str(number), None)

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """Return the reply; *key* is ignored."""
        number = received.path.split("/")[1]
        self._asked[number] += 1
        rng = random.Random(f"{number}/{self._asked[number]}")
        surface = surface_of(received.path)
        if surface in ("chat", "messages") and rng.random() < 0.5:
            made = rng.choice(self._providers).answer(received, key=key)
            return made if rng.random() < 0.5 else damaged(made, rng)
        body = rng.choice(SEEDS[surface])
        is_stream = body.startswith((b"data:", b"event:"))
        kind = "text/event-stream" if is_stream else "application/json"
        sound = Playback(headers={"content-type": kind}, chunks=(body,), streamed=is_stream)
        return sound if rng.random() < 0.2 else damaged(sound, rng)


def surface_of(path: str) -> str:
    """Return the dialect of requests to *path*."""
    ends = {"/chat/completions": "chat", "/messages": "messages", "/responses": "responses"}
    return next((surface for end, surface in ends.items() if path.endswith(end)), "generate")


def damaged(made: Playback, rng: random.Random) -> Playback:
    """Return *made* with other values, bytes, status, headers or end."""
    body = b"".join(made.chunks)
    match rng.randrange(5):
        case 0 | 1:
            body = distorted(body, rng)
        case 2:
            body = change(body, rng)
        case 3:
            body = rng.choice((b"", b"{}", b"null", b"[]", b"data: {}\n\n", b"data: [DONE]\n\n"))
        case _:
            pass
    headers = {name: text for name, text in made.headers.items() if name != "content-length"}
    for name, texts in HEADERS.items():
        if rng.random() < 0.15:
            headers[name] = rng.choice(texts)
    endings: tuple[Ending, ...] = ("whole", "whole", "whole", "whole", "cut", "reset")
    return Playback(
        status=rng.choice(STATUSES) if rng.random() < 0.2 else made.status,
        headers=headers,
        chunks=tuple(cut(body, rng)) or (b"",),
        streamed=True,
        ending=rng.choice(endings),
    )


def distorted(body: bytes, rng: random.Random) -> bytes:
    """Return *body* with one or two JSON values dropped or replaced by absurd ones."""
    lines = body.split(b"\n")
    places = [at for at, line in enumerate(lines) if b"{" in line]
    for at in rng.sample(places, min(len(places), rng.randint(1, 2))):
        head, brace, rest = lines[at].partition(b"{")
        try:
            document = json.loads(brace + rest)
        except ValueError:
            continue
        distort(document, rng)
        lines[at] = head + json.dumps(document).encode()
    return b"\n".join(lines)


def distort(document: Any, rng: random.Random) -> None:
    """Drop or replace a value at any depth of *document*."""
    is_object = isinstance(document, dict)
    keys: list[Any] = [*cast("Any", document)] if is_object else [*range(len(document))]
    if not keys:
        return
    key = rng.choice(keys)
    inner: Any = document[key]
    if isinstance(inner, dict | list) and inner and rng.random() < 0.7:
        distort(inner, rng)
    elif rng.random() < 0.3:
        del document[key]
    else:
        document[key] = rng.choice(ABSURD)


@tool
def look(key: str) -> str:
    """Look something up."""
    return f"{key}: found"


def contradictions(result: AgentResult[Any], *, allow_empty: bool) -> list[str]:
    """Return the statements of *result* that cannot all be true."""
    error, usage = result.error, result.usage
    is_done = result.status is Status.COMPLETED
    says = bool((result.content or "").strip()) or result.output not in (None, "")
    # A refusal is reported by a warning; the output of a server's own tool is part of the message.
    says |= any(warning.code == "refusal" for warning in result.warnings)
    says |= any(isinstance(part, ServerToolBlock) for one in result.messages for part in one.parts)
    finish = result.finish_reason
    open_calls = {call.id for message in result.messages for call in message.tool_calls} - {
        message.tool_call_id for message in result.messages
    }
    ran = [one for one in result.tool_outcomes if isinstance(one, ToolExecutionResult)]
    found = {
        "it completed with an error, or failed without": is_done != (error is None),
        "it is neither completed nor failed": result.status
        not in (Status.COMPLETED, Status.FAILED),
        "something in upshot raised": error is not None and error.code == ErrorCode.INTERNAL,
        "it completed with nothing in it": is_done and not says and not allow_empty,
        "it completed with a finish that is none": is_done
        and finish in (FinishReason.ERROR, FinishReason.ABORTED),
        "it is at its limit, and not limited": error is not None
        and error.code == ErrorCode.RATE_LIMIT
        and not (result.rate_limit is not None and result.rate_limit.limited),
        "calls are open": bool(open_calls),
        "tools that ran are not named": bool(ran) != bool(result.tools_used),
        "outcomes and records differ": len(result.tool_outcomes) != len(result.tool_records),
        "its usage is wrong": is_wrong(usage),
        "it cost less than nothing": result.cost is not None and float(result.cost) < 0,
        "it is encoded as another": decode(encode(result), AgentResult) != result,
    }
    return [said for said, holds in found.items() if holds]


def is_wrong(usage: Usage) -> bool:
    """Whether counts of *usage* contradict each other."""
    known = [usage.input_tokens, usage.output_tokens, usage.total_tokens]
    parts = [usage.cache_read_tokens, usage.cache_write_tokens]
    return (
        any(count is not None and count < 0 for count in (*known, *parts))
        or not usage.api_calls >= usage.unmeasured_calls >= 0
        or (None not in known and sum(filter(None, known[:2])) > (usage.total_tokens or 0))
    )


async def check(number: int, server: Server, port: int, transport: AiohttpTransport) -> str:
    """Make run *number*.

    Returns:
        How it ended.

    Raises:
        Contradiction: Its result contradicts itself or its log.
        Exception: Whatever it raised.
    """
    rng = random.Random(number)
    surface = rng.choice(list(MODELS))
    model = resolve(
        MODELS[surface],
        base_url=f"http://127.0.0.1:{port}/{number}/v1",
        api_key="k",
        transport=transport,
        timeouts=Timeouts(read_s=5),
    )
    allow_empty, journal = rng.random() < 0.2, MemoryJournal() if rng.random() < 0.3 else None
    agent = Agent("a", model=model, tools=[look], allow_empty=allow_empty)
    request = Request("Hi", run_id=f"run-{number}")
    options: dict[str, Any] = {
        "retry": None if rng.random() < 0.7 else Retry(max_tries=2, base_s=0, max_wait_s=0),
        "budget": Budget(max_turns=4),
        "journal": journal,
    }
    if rng.random() < 0.5:
        async with start(agent, request, **options) as live:
            result = await live.result()
    else:
        result = await run(agent, request, **options)
    server.forget(number)
    found = contradictions(result, allow_empty=allow_empty)
    if journal is not None:
        folded = [result_of(state) async for _, state in states(journal.events(request.run_id))]
        if folded[-1] != result:
            found.append("its log says something else")
    if found:
        raise Contradiction(f"{', '.join(found)}: {encode(result).decode()}")
    return str(result.error.code) if result.error is not None else "completed"


async def chaos(count: int, first: int = 0) -> Counter[str]:
    """Make *count* runs from number *first* on; returns how they ended.

    Raises:
        Exception: Whatever the first failing run raised, with its number as a note.
    """
    server, ends = Server(), Counter[str]()
    listener = Listener(server, lambda received: None, SYSTEM_CLOCK)
    port = await listener.open("127.0.0.1", 0)
    numbers = iter(range(first, first + count))

    async def work(transport: AiohttpTransport) -> None:
        for number in numbers:
            try:
                ends[await check(number, server, port, transport)] += 1
            except Exception as error:
                error.add_note(f"again: python -m fuzz.chaos 1 {number}")
                raise

    try:
        async with aclosing(AiohttpTransport()) as transport, asyncio.TaskGroup() as group:
            for _ in range(min(count, AT_ONCE)):
                group.create_task(work(transport))
    finally:
        await listener.aclose()
    return ends


def main(arguments: Sequence[str]) -> int:
    """Make a number of runs (100,000), from a number (random)."""
    count = int(arguments[0]) if arguments else 100_000
    first = int(arguments[1]) if len(arguments) > 1 else random.SystemRandom().randrange(2**32)
    began = time.monotonic()
    ends = asyncio.run(chaos(count, first))
    print(f"{count} runs in {time.monotonic() - began:.0f} s: no exception, no contradiction")
    for end, times in ends.most_common():
        print(f"{times:8d} {end}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
