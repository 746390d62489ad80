"""Model calls by batches: submitted once, polled by every session, answered like any other call."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal

import pytest

from upshot import Agent, App, Retry, resolve, resume, run, states, tool
from upshot.engines import BatchEngine, batch
from upshot.errors import Misuse
from upshot.fleet.worker import Worker
from upshot.journal import MemoryJournal
from upshot.testing import FakeClock

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def chat(**message):
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"model": "gpt-5", "choices": [choice], "usage": USAGE}


def said(text):
    return {
        "type": "message",
        "model": "claude",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 3, "service_tier": "batch"},
    }


RESPONSE = {
    "model": "gpt-5",
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}],
    "usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "count", "arguments": '{"n":2}'}}


class Provider:
    """A transport that keeps batches; each one ends when a test says so."""

    def __init__(self, *results):
        self.results, self.batches, self.files, self.ended = list(results), {}, {}, set()
        self.asked = []
        self.fault = None

    @asynccontextmanager
    async def send(self, method, url, headers, body, *, timeouts):
        path = url.partition("/v1")[2]
        self.asked.append((method, path))
        if self.fault is not None:
            status, document = self.fault
        else:
            status, document = 200, self.answer(method, path, body)
        data = document if isinstance(document, bytes) else json.dumps(document).encode()

        async def pieces():
            yield data

        yield status, [], pieces()

    def answer(self, method, path, body):
        match method, path:
            case "POST", "/files":
                ident = f"file-{len(self.files)}"
                self.files[ident] = json.loads(re.search(rb"\r\n\r\n(\{.*\})\n", body)[1])
                return {"id": ident}
            case "POST", "/batches":
                line = self.files[json.loads(body)["input_file_id"]]
                return self.begin(line["custom_id"], line["body"])
            case "POST", "/messages/batches":
                (request,) = json.loads(body)["requests"]
                return self.begin(request["custom_id"], request["params"])
            case "GET", _ if found := re.fullmatch(r"(/messages)?/batches/(b-\d+)", path):
                return self.state(found[2], messages=found[1] is not None)
            case "GET", _:
                ident = re.search(r"b-\d+", path)[0]
                key, result = self.batches[ident][:2]
                return json.dumps({"custom_id": key, **result}).encode() + b"\n"

    def begin(self, key, body):
        ident = f"b-{len(self.batches)}"
        self.batches[ident] = (key, self.results[len(self.batches)], body)
        return {"id": ident, "status": "validating", "processing_status": "in_progress"}

    def state(self, ident, *, messages):
        if messages:
            return {
                "id": ident,
                "processing_status": "ended" if ident in self.ended else "in_progress",
            }
        if ident not in self.ended:
            return {"id": ident, "status": "in_progress"}
        return {"id": ident, "status": "completed", "output_file_id": f"out-{ident}"}


def in_file(document, status=200):
    return {"response": {"status_code": status, "body": document}, "error": None}


def engine_of(provider, name="openai:gpt-5"):
    return batch(resolve(name, api_key="k", transport=provider), every_s=60)


@tool(effect="read")
def count(n: int) -> int:
    return n + 1


@pytest.mark.parametrize(
    ("name", "result", "cost"),
    [
        ("openai:gpt-5", in_file(chat(content="Hello.")), "0.000020625"),
        ("openai-responses:gpt-5", in_file(RESPONSE), "0.000020625"),
        ("groq:openai/gpt-oss-20b", in_file(chat(content="Hello.")), "7.875E-7"),
        (
            "anthropic:claude-sonnet-4-5",
            {"result": {"type": "succeeded", "message": said("Hello.")}},
            "0.000036",
        ),
    ],
)
async def test_a_run_is_parked_until_its_batch_has_ended(name, result, cost):
    provider, journal, clock = Provider(result), MemoryJournal(), FakeClock()
    options = {"journal": journal, "engine": engine_of(provider, name), "clock": clock}
    parked = await run(Agent("a"), "Hi", **options)
    assert parked.status == "input_required"
    (pending,) = parked.pending
    assert pending.id == "batch b-0"
    assert pending.expires_at - pending.asked_at == timedelta(seconds=60)
    clock.advance(3600)
    again = await resume(parked.run_id, Agent("a"), **options)
    assert (again.status, len(provider.batches)) == ("input_required", 1)
    assert again.usage.api_calls == 0
    provider.ended.add("b-0")
    done = await resume(parked.run_id, Agent("a"), **options)
    assert (done.content, done.usage.total_tokens, done.usage.api_calls) == ("Hello.", 12, 1)
    # Half of what the same tokens cost at once.
    assert done.cost.total == Decimal(cost)
    assert len(provider.batches) == 1


async def test_a_worker_asks_again_by_itself(tmp_path):
    provider = Provider(in_file(chat(content="Hello.")))
    engine = batch(resolve("openai:m", api_key="k", transport=provider), every_s=0.01)
    app = App([Agent("a", engine=engine)], journal=tmp_path / "runs.db")
    async with app, asyncio.timeout(60):
        handle = await app.submit("a", "Hi")
        worker = Worker(app)
        task = asyncio.create_task(worker.work())
        while provider.asked.count(("GET", "/batches/b-0")) < 3:
            await asyncio.sleep(0.01)
        provider.ended.add("b-0")
        while (result := await handle.result()).status == "input_required":
            await asyncio.sleep(0.01)
        worker.stop()
        await task
    assert (result.content, len(provider.batches)) == ("Hello.", 1)


async def test_each_turn_is_a_batch_and_tools_run_between():
    results = in_file(chat(content=None, tool_calls=[CALL])), in_file(chat(content="Three."))
    provider, journal, agent = Provider(*results), MemoryJournal(), Agent("a", tools=[count])
    options = {"journal": journal, "engine": engine_of(provider)}
    result = await run(agent, "Count on from 2.", **options)
    for turn in range(2):
        assert result.status == "input_required"
        provider.ended.add(f"b-{turn}")
        result = await resume(result.run_id, agent, **options)
    assert (result.content, result.usage.api_calls) == ("Three.", 2)
    last = provider.batches["b-1"][2]["messages"][-1]
    assert (last["role"], last["content"]) == ("tool", '{"result":3}')
    replies = [event async for event, _ in states(journal.events(result.run_id))]
    assert [event.kind for event in replies].count("model_replied") == 2


REFUSED = in_file({"error": {"message": "No such field."}}, 400)
LATE = {"response": None, "error": {"code": "batch_expired", "message": "Late."}}
FAULT = {"type": "error", "error": {"type": "invalid_request_error", "message": "Bad."}}


@pytest.mark.parametrize(
    ("name", "result", "code", "message"),
    [
        ("openai:m", REFUSED, "invalid_request", "No such field."),
        ("openai:m", LATE, "timeout", "Late."),
        ("anthropic:m", {"result": {"type": "errored", "error": FAULT}}, "invalid_request", "Bad."),
        ("anthropic:m", {"result": {"type": "expired"}}, "timeout", "expired"),
        ("anthropic:m", {"result": {"type": "canceled"}}, "canceled", "canceled"),
    ],
)
async def test_a_request_that_was_not_answered_fails_the_run(name, result, code, message):
    provider, journal = Provider(result), MemoryJournal()
    options = {"journal": journal, "engine": engine_of(provider, name), "retry": None}
    parked = await run(Agent("a"), "Hi", **options)
    provider.ended.add("b-0")
    done = await resume(parked.run_id, Agent("a"), **options)
    assert done.status == "failed"
    assert done.error.code == code
    assert message in done.error.message


async def test_a_fault_of_one_question_only_means_to_ask_later():
    provider, journal = Provider(in_file(chat(content="Hello."))), MemoryJournal()
    options = {"journal": journal, "engine": engine_of(provider), "retry": Retry(max_tries=1)}
    parked = await run(Agent("a"), "Hi", **options)
    provider.ended.add("b-0")
    provider.fault = 503, {"error": {"message": "Overloaded."}}
    again = await resume(parked.run_id, Agent("a"), **options)
    assert again.status == "input_required"
    provider.fault = None
    assert (await resume(parked.run_id, Agent("a"), **options)).content == "Hello."


async def test_a_batch_that_is_refused_fails_the_run_and_shows_no_key():
    provider = Provider()
    provider.fault = 401, {"error": {"message": "Bad key a-secret-key."}}
    engine = batch(resolve("openai:m", api_key="a-secret-key", transport=provider))
    result = await run(Agent("a"), "Hi", engine=engine)
    assert (result.status, result.error.code) == ("failed", "auth_error")
    assert "a-secret-key" not in result.error.message


def test_a_time_that_is_no_time_is_misuse():
    with pytest.raises(Misuse, match="every_s is 0"):
        BatchEngine(resolve("openai:m"), every_s=0)
