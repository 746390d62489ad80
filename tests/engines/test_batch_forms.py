"""Each provider's batches over HTTP: submitted once, polled, answered, failed, found again."""

import asyncio
import subprocess

import pytest

from tests.engines.batch_server import PLACES, BatchServer
from tests.processes import start_python
from upshot import Agent, resolve, resume, run
from upshot.engines import batch
from upshot.errors import Misuse
from upshot.journal import MemoryJournal
from upshot.wire.batch_forms import FORMS

# Of those with the same form, one is tried each time.
SAME = {"alibaba", "cerebras", "groq", "moonshot", "vertex-messages"}


def providers(*usual):
    """All providers; but the usual ones, or one of each form, are slow tests."""
    names = [*sorted(FORMS), "vertex-messages"]
    slow = [name not in usual if usual else name in SAME for name in names]
    marks = [[pytest.mark.slow] if is_slow else [] for is_slow in slow]
    return [pytest.param(name, marks=mark) for name, mark in zip(names, marks, strict=True)]


# Providers whose list of batches does not say which is which.
UNLISTED = {"anthropic", "openrouter"}


def engine_of(server):
    model = resolve(f"{server.name}:{server.model}", base_url=server.url, api_key="k")
    return batch(model, place=PLACES.get(server.name))


@pytest.mark.parametrize("name", providers())
async def test_a_run_parks_until_the_provider_has_answered(name):
    async with BatchServer(name).serve() as server:
        options = {"journal": MemoryJournal(), "engine": engine_of(server)}
        parked = await run(Agent("a"), "Hi", **options)
        waits = await resume(parked.run_id, Agent("a"), **options)
        assert (parked.status, waits.status) == ("input_required", "input_required")
        server.ended = "completed"
        done = await resume(parked.run_id, Agent("a"), **options)
    assert (done.content, done.usage.total_tokens, len(server.batches)) == ("Hello.", 12, 1)
    (kept,) = server.batches.values()
    assert kept["key"]
    assert "Hi" in str(kept["body"])


@pytest.mark.parametrize(
    ("name", "model", "cost"),
    [
        # Half of what the same tokens cost at once.
        ("mistral", "mistral-small-latest", "0.000001575"),
        ("google", "gemini-2.5-flash", "0.00000510"),
        # The table has no price of its batches, and the usual one does not apply.
        ("together", "openai/gpt-oss-20b", None),
        # It says itself what it charged.
        ("openrouter", "openai/gpt-5", "0.01"),
    ],
)
async def test_a_reply_costs_what_is_known_of_batches(name, model, cost):
    async with BatchServer(name, model).serve() as server:
        options = {"journal": MemoryJournal(), "engine": engine_of(server)}
        parked = await run(Agent("a"), "Hi", **options)
        server.ended = "completed"
        done = await resume(parked.run_id, Agent("a"), **options)
    assert (done.cost and str(done.cost.total)) == cost


@pytest.mark.parametrize("ended", ["failed", "expired", "cancelled"])
@pytest.mark.parametrize("name", providers())
async def test_a_batch_that_ends_without_an_answer_fails_the_run(name, ended):
    async with BatchServer(name).serve() as server:
        options = {"journal": MemoryJournal(), "engine": engine_of(server), "retry": None}
        parked = await run(Agent("a"), "Hi", **options)
        server.ended = ended
        done = await resume(parked.run_id, Agent("a"), **options)
    assert done.status == "failed"
    codes = {"failed": ("server_error", "invalid_request"), "expired": ("timeout",)}
    assert done.error.code in codes.get(ended, ("canceled",))
    said = {"failed": "no funds", "cancelled": "cancel"}.get(ended, "expired")
    assert said in done.error.message.replace("timeout exceeded", "expired")


@pytest.mark.parametrize(
    ("result", "said"), [("refused", "No such field."), ("missing", "without a result")]
)
@pytest.mark.parametrize("name", providers())
async def test_a_request_that_is_refused_or_lost_fails_the_run(name, result, said):
    async with BatchServer(name).serve() as server:
        options = {"journal": MemoryJournal(), "engine": engine_of(server), "retry": None}
        parked = await run(Agent("a"), "Hi", **options)
        server.ended, server.result = "completed", result
        done = await resume(parked.run_id, Agent("a"), **options)
    assert done.status == "failed"
    assert said in done.error.message


SUBMITTER = """
import asyncio, sys
from tests.engines.batch_server import PLACES
from upshot import Agent, Request, resolve, run
from upshot.engines import batch
name, url, path = sys.argv[1:]
engine = batch(resolve(f"{name}:m", base_url=url, api_key="k"), place=PLACES.get(name))
asyncio.run(run(Agent("a"), Request("Hi", run_id="r"), journal=path, engine=engine))
"""


@pytest.mark.parametrize("name", providers("anthropic", "google", "openai"))
async def test_a_batch_submitted_by_a_process_that_died_is_found(name, tmp_path):
    """Killed while the provider has the batch and the log does not know it."""
    path = tmp_path / "runs.db"
    async with BatchServer(name).serve() as server:
        server.answers.clear()
        with start_python("-c", SUBMITTER, name, server.url, path, stdout=subprocess.PIPE) as child:
            try:
                async with asyncio.timeout(60):
                    await server.created.wait()
            finally:
                child.kill()
        server.answers.set()
        # A later batch of somebody else, which stands before it in the list.
        options = {"journal": path, "engine": engine_of(server)}
        if name != "fireworks":
            await run(Agent("a"), "Other", **options)
        parked = await resume("r", Agent("a"), **options)
        server.ended = "completed"
        done = await resume("r", Agent("a"), **options) if parked.pending else parked
    bodies = [str(kept["body"]) for kept in server.batches.values()]
    assert sum("Hi" in body for body in bodies) == 1
    if name in UNLISTED:
        assert (done.status, done.error.code) == ("failed", "interrupted")
    else:
        assert done.content == "Hello."


async def test_a_batch_that_was_never_submitted_is_submitted_again(tmp_path):
    """The log of a process that died before the provider had the batch."""
    async with BatchServer("openai").serve() as server:
        options = {"journal": MemoryJournal(), "engine": engine_of(server)}
        parked = await run(Agent("a"), "Hi", **options)
        cut = MemoryJournal()
        async for event in options["journal"].events(parked.run_id):
            if event.kind == "step_settled":
                break
            cut.append(event)
        server.batches.clear()
        again = await resume(parked.run_id, Agent("a"), **options | {"journal": cut})
        assert (again.status, len(server.batches)) == ("input_required", 1)
        still = await resume(parked.run_id, Agent("a"), **options | {"journal": cut})
        assert (still.status, len(server.batches)) == ("input_required", 1)


async def test_a_data_set_that_is_not_ready_parks_the_run():
    async with BatchServer("fireworks").serve() as server:
        server.is_ready = False
        options = {"journal": MemoryJournal(), "engine": engine_of(server)}
        parked = await run(Agent("a"), "Hi", **options)
        waits = await resume(parked.run_id, Agent("a"), **options)
        assert (parked.status, waits.status) == ("input_required", "input_required")
        assert not server.batches
        server.is_ready = True
        waits = await resume(parked.run_id, Agent("a"), **options)
        assert (waits.status, len(server.batches)) == ("input_required", 1)
        server.ended = "completed"
        assert (await resume(parked.run_id, Agent("a"), **options)).content == "Hello."


@pytest.mark.parametrize(
    ("model", "place", "said"),
    [
        ("vertex:m", None, 'the batches of vertex need .*: pass place="gs://NAME"'),
        ("vertex:m", "s3://bucket", "place is 's3://bucket': give the folder of Cloud Storage"),
        ("fireworks:m", None, 'pass place="accounts/NAME"'),
        ("fireworks:m", "accounts/", "place is 'accounts/'"),
        ("openai:m", "gs://bucket", "openai keeps the requests of its batches itself"),
        ("fireworks-responses:m", "accounts/a", "are for chat, got responses"),
        ("bedrock:m", None, "at least 100 requests .*serviceTier"),
        ("cohere:m", None, "openai, anthropic, google, .* have"),
    ],
)
def test_what_a_provider_needs_is_said_at_once(model, place, said):
    with pytest.raises(Misuse, match=said):
        batch(model, place=place)
