"""What upshot tells of a thousand runs on each surface, against what aimock's journal says.

aimock draws faults: errors with a status, replies that are no JSON, connections that are closed,
streams that break off. For every run the journal says which replies were good; the result must say
the same, with the same text, calls, tokens and errors, and with as many model calls.
"""

import asyncio
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from upshot import Agent, Retry, batch, resolve, resume, run, start, tool
from upshot.models import Timeouts, aclose_transports

WHERE = Path(os.environ.get("UPSHOT_REAL_AIMOCK", ".")).resolve()
# Of the environment, else of the system.
NODE = shutil.which("node", path=f"{WHERE / 'bin'}:{os.environ['PATH']}") or "node"
RUNS = int(os.environ.get("UPSHOT_AIMOCK_RUNS", "1000"))
AT_ONCE = 16
MOST_TRIES = 3

# The name of a model, and what its address adds to that of the server.
SURFACES = {
    "chat": ("openai:gpt-5", "/v1"),
    "openrouter": ("openrouter:openai/gpt-5", "/api/v1"),
    "responses": ("openai-responses:gpt-5", "/v1"),
    "messages": ("anthropic:claude-sonnet-4-5", "/v1"),
    "generate": ("google:gemini-2.5-pro", "/v1beta"),
    "vertex": ("vertex:gemini-2.5-pro", "/v1/projects/p/locations/l/publishers/google"),
    "converse": ("bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
    "invoke": ("bedrock-invoke:anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
}
LONG = "A long reply, in pieces. " * 40
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def answer(text, **more):
    return {"content": text, "usage": USAGE, **more}


def call(*keys):
    calls = [{"id": f"call_{key}", "name": "lookup", "arguments": {"key": key}} for key in keys]
    return {"toolCalls": calls, "usage": USAGE}


def refusal(status, kind, message):
    return {"error": {"message": message, "type": kind}, "status": status}


# What is served to the first, the second, ... request of a run of each case.
CASES = {
    "short": [answer("Hello.")],
    "unicode": [answer('Grüße, 世界 🌍 \u2028 \\n "quoted"')],
    "long": [answer(LONG)],
    "one call": [call("a"), answer("Found a.")],
    "two calls": [call("a", "b"), answer("Found both.")],
    "two rounds": [call("a"), call("b"), answer("Found one after the other.")],
    "cut off": [answer(LONG)],
    "bad request": [refusal(400, "invalid_request_error", "No such field.")],
    "no key": [refusal(401, "authentication_error", "The key is not valid.")],
    "busy": [refusal(503, "server_error", "Overloaded.")],
}
BROKEN = {"server_error", "timeout", "invalid_output"}
FAULTS = {"rateLimit": ({"rate_limit"}, 429), "drop": ({"server_error"}, 500)}
REFUSED = {400: {"invalid_request"}, 401: {"auth_error"}, 503: {"server_error"}}


def fixtures():
    for name, replies in CASES.items():
        for turn, reply in enumerate(replies):
            more = {"truncateAfterChunks": 4} if name == "cut off" else {}
            yield {
                "match": {"userMessage": f"[{name}]", "turnIndex": turn},
                "response": reply,
                "chunkSize": 7,
                **more,
            }


@contextmanager
def serving(folder, seed, *, faults):
    cases, journal = folder / "cases.json", folder / "journal.json"
    cases.write_text(json.dumps(list(fixtures())))
    script = Path(__file__).with_name("server.mjs")
    command = [NODE, script, WHERE / "node", cases, journal, str(seed), str(int(faults))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        url = server.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:"), url
        told = []
        try:
            yield url, told
            server.stdin.close()
            assert server.wait(60) == 0
            told += json.loads(journal.read_text())
        finally:
            server.kill()


async def make_run(surface, url, number):
    """One run: its case, its result, and the keys that its tool was called with."""
    name = list(CASES)[number % len(CASES)]
    looked_up = []

    @tool(effect="read")
    def lookup(key: str) -> str:
        looked_up.append(key)
        return f"value of {key}"

    model, path = SURFACES[surface]
    agent = Agent(
        "a",
        model=resolve(
            model,
            base_url=url + path,
            api_key="key",
            headers={"x-test-id": str(number)},
            timeouts=Timeouts(total_s=60),
        ),
        tools=[lookup],
        retry=Retry(max_tries=MOST_TRIES, base_s=0, max_wait_s=2),
    )
    if number % 2:
        async with start(agent, f"Please do [{name}].") as live:
            async for _ in live:
                pass
            return name, await live.result(), looked_up
    return name, await run(agent, f"Please do [{name}]."), looked_up


def is_good(entry):
    return entry["status"] == 200 and not entry["chaos"] and not entry["interrupted"]


def contradictions(name, result, looked_up, entries, *, has_tokens):
    """Yield what the result says otherwise than the journal."""
    good = [entry for entry in entries if is_good(entry)]
    replies = [CASES[name][int(entry["served"].rpartition("]")[2])] for entry in good]
    last = entries[-1]
    finished = is_good(last) and "content" in replies[-1]
    if result.usage.api_calls != len(entries):
        yield f"{result.usage.api_calls} calls, not {len(entries)}"
    if result.success != finished:
        yield f"success is {result.success}, and the last reply was {last}"
    if finished and result.content != replies[-1]["content"]:
        yield f"the text is {result.content!r}"
    keys = [c["arguments"]["key"] for reply in replies for c in reply.get("toolCalls", ())]
    if sorted(looked_up) != sorted(keys):
        yield f"called with {looked_up}, not {keys}"
    if has_tokens and len(good) == len(entries):
        tokens = (result.usage.input_tokens, result.usage.output_tokens)
        if tokens != (11 * len(good), 7 * len(good)):
            yield f"tokens are {tokens} of {len(good)} calls"
    yield from fault_contradictions(result, last, finished=finished)


def fault_contradictions(result, last, *, finished):
    """Yield where the error of a result is not that of the last reply."""
    error = result.error
    if finished or error is None:
        if finished != (error is None):
            yield f"the error is {error}"
        return
    codes, status = BROKEN, error.status_code
    if last["chaos"] in FAULTS:
        codes, status = FAULTS[last["chaos"]]
    elif not last["chaos"] and not last["interrupted"]:
        codes, status = REFUSED[last["status"]], last["status"]
    if error.code not in codes or error.status_code != status:
        yield f"the error is {error}, and the last reply was {last}"


def retry_contradictions(entries):
    """Yield where a fault that may pass was not retried, or one that will not was."""
    tries = 0
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        tries = 0 if is_good(entry) else tries + 1
        may_pass = bool(entry["chaos"] or entry["interrupted"] or entry["status"] >= 500)
        if is_good(entry):
            continue
        if (following is not None) != (may_pass and tries < MOST_TRIES):
            yield f"after {tries} tries: {entry}, then {following}"


@pytest.mark.parametrize("surface", SURFACES)
async def test_no_result_contradicts_the_journal(surface, tmp_path):
    with serving(tmp_path, seed=len(surface), faults=True) as (url, told):
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number):
            async with gate:
                return await make_run(surface, url, number)

        made = await asyncio.gather(*map(one, range(RUNS)))
        await aclose_transports()
    by_run = {str(number): [] for number in range(RUNS)}
    for entry in told:
        by_run[entry["run"]].append(entry)
    wrong = []
    for number, (name, result, looked_up) in enumerate(made):
        entries = by_run[str(number)]
        # aimock ends a stream of InvokeModel with "output_tokens": 0, whatever it served.
        has_tokens = surface != "invoke" or number % 2 == 0
        found = [
            *contradictions(name, result, looked_up, entries, has_tokens=has_tokens),
            *retry_contradictions(entries),
        ]
        wrong += [f"run {number} ({name}): {fault}" for fault in found]
    faults = sum(not is_good(entry) for entry in told)
    print(f"{surface}: {RUNS} runs, {len(told)} requests, {faults} not good, {len(wrong)} wrong")
    assert faults > RUNS // 10
    assert not wrong, "\n".join(wrong[:20])


async def test_aimocks_batches_are_submitted_polled_and_read(tmp_path):
    with serving(tmp_path, seed=1, faults=False) as (url, _):
        engine = batch(resolve("openai:gpt-5", base_url=f"{url}/v1", api_key="key"))
        options = {"engine": engine, "journal": tmp_path / "runs.db"}
        result = await run(Agent("a"), "Please do [unicode].", **options)
        sessions = 1
        while result.status == "input_required" and sessions < 20:
            result = await resume(result.run_id, Agent("a"), **options)
            sessions += 1
        await aclose_transports()
    print(f"batch: {sessions} sessions, {result}")
    assert sessions > 1
    assert result.success, result.error
    assert result.usage.api_calls == 1
