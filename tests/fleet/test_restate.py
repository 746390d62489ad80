"""The service by which Restate drives an App, without a server of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from tests.processes import run_python
from upshot import Agent, App, Misuse, PendingApproval, ScriptedModel, ScriptEngine, ToolCall, tool
from upshot.fleet import restate_service
from upshot.fleet.driver import Driver
from upshot.fleet.restate import RestateIngress

DEAD = "http://127.0.0.1:1"


def agent() -> Agent[Any]:
    return Agent("a", model=ScriptedModel(lambda _: "Done."))


def app() -> App:
    return App([agent()], journal="memory:")


def said_by(program: str) -> str:
    return run_python("-c", program, text=True, check=True).stdout


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['restate'] = None\n"
        "from upshot import Agent, App\n"
        "from upshot.fleet import restate_service\n"
        "try: restate_service(App([Agent('a', model='openai:m')]))\n"
        "except ValueError as error: print(type(error).__name__, error)\n"
    )
    assert said_by(program) == (
        "Misuse a Restate service needs an extra: pip install 'upshot-agents[restate]', "
        "or in a clone pip install -e '.[restate]'\n"
    )


@pytest.mark.slow
def test_importing_it_loads_no_restate() -> None:
    program = (
        "import sys; from upshot.fleet import App, restate_service\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('restate', 'aiohttp')])"
    )
    # Not forked: a process of run_python begins with what the tests have loaded.
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, r"ingress must be a URL .* or a list of them, got 7"),
        ("127.0.0.1:8080", "ingress is a URL such as .*, or a list of them, got '127.0.0.1:8080'"),
        ([7], "ingress is a URL such as .*, or a list of them, got 7"),
        ([], "ingress is an empty list: give a URL"),
    ],
    ids=["number", "no-scheme", "no-text", "none"],
)
def test_an_ingress_that_is_no_url_is_misuse(given: Any, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        restate_service(app(), ingress=given)


def test_what_is_no_app_is_misuse() -> None:
    wrong: Any = Agent("a", model=ScriptedModel([]))
    with pytest.raises(Misuse, match="app of a Restate service must be an App"):
        restate_service(wrong)


async def test_a_journal_that_cannot_be_opened_keeps_the_service_from_starting() -> None:
    service = restate_service(App([Agent("a", model=ScriptedModel([]))]))
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(event: Any) -> None:
        told.append(event)

    await asyncio.wait_for(service({"type": "lifespan"}, receive, send), 10)
    (failed,) = told
    assert failed["type"] == "lifespan.startup.failed"
    assert "the App has no journal" in failed["message"]


class Sent(NamedTuple):
    path: str
    key: str
    delay: str
    body: bytes


class Ingress:
    """A server that notes what it is sent, as Restate takes it."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Sent] = asyncio.Queue()
        self.status: int = 202
        self.url: str = ""

    async def take(self, request: web.Request) -> web.Response:
        key, delay = request.headers["idempotency-key"], request.query.get("delay", "")
        assert "content-type" not in request.headers
        self.sent.put_nowait(Sent(request.path, key, delay, await request.read()))
        return web.Response(status=self.status, text="said")


@asynccontextmanager
async def ingress_of() -> AsyncGenerator[Ingress]:
    found, server = Ingress(), web.Application()
    server.router.add_route("*", "/{path:.*}", found.take)
    runner = web.AppRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        await runner.cleanup()


async def test_every_run_that_is_due_is_sent_by_its_id_alone_under_its_epoch(journal: Any) -> None:
    async with ingress_of() as ingress, App([agent()], journal=journal) as app:
        driver = Driver(app, RestateIngress([DEAD, ingress.url]))
        first = await app.submit("a", "A word.")
        async with driver.at_work():
            (due,) = await app.due()
            assert due.at is not None
            sent = await ingress.sent.get()
            key = f"{first.id}:0:submitted@{due.at.isoformat()}"
            assert sent == (f"/upshot/{first.id}/activate/send", key, "", b"")
            second = await app.submit("a", "Another.")
            assert (await ingress.sent.get()).path == f"/upshot/{second.id}/activate/send"
            await driver.activate(first.id)
            await driver.activate(second.id)
            assert (await first.result(0), await second.result(0)) != (None, None)
        assert ingress.sent.empty()


async def test_an_answer_is_sent_though_nobody_but_the_journal_was_told(journal: Any) -> None:
    @tool(effect="write", approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([[ToolCall("p", "pay")], "Paid."])
    till: Agent[Any] = Agent("till", model=model, tools=[pay])
    async with ingress_of() as ingress, App([till], journal=journal) as app:
        driver = Driver(app, RestateIngress([ingress.url]))
        run = await app.submit("till", "Pay.")
        async with driver.at_work():
            await ingress.sent.get()
            await driver.activate(run.id)
            # It waits, and is not due: an activation that comes late begins no session.
            parked = await run.result(0)
            before = [event async for event in run.events(until="parked")]
            await driver.activate(run.id)
            assert [event async for event in run.events(until="parked")] == before
            assert parked is not None
            (item,) = parked.pending
            assert isinstance(item, PendingApproval)
            await run.answer(item.approve(by="ann"))
            assert (await ingress.sent.get()).key.startswith(f"{run.id}:1:answered@")
            await driver.activate(run.id)
            result = await run.result(0)
            assert result is not None and result.output == "Paid."


async def test_two_activations_of_one_run_begin_it_once(journal: Any) -> None:
    begun: list[Any] = []
    started, goes_on = asyncio.Event(), asyncio.Event()

    async def look(run: Any, host: Any, board: Any) -> Any:
        begun.append(run.request)
        started.set()
        await goes_on.wait()
        return "ok"

    slow: Agent[Any] = Agent("a", engine=ScriptEngine(look))
    async with (
        ingress_of() as ingress,
        App([slow], journal=journal) as app,
        App([slow], journal=journal) as other,
    ):
        here = Driver(app, RestateIngress([ingress.url]))
        there = Driver(other, RestateIngress([ingress.url]))
        run = await app.submit("a", "Hi?")
        async with here.at_work(), there.at_work():
            working = [asyncio.create_task(here.activate(run.id)) for _ in range(2)]
            await started.wait()
            # Another service finds it held, and has it looked at again later.
            await there.activate(run.id)
            is_leased = run.id in await journal.holders()
            goes_on.set()
            await asyncio.gather(*working)
        assert len(begun) == 1
        result = await run.result(0)
        assert result is not None and result.output == "ok"
        keys = [ingress.sent.get_nowait() for _ in range(ingress.sent.qsize())]
        later = [sent for sent in keys if sent.delay]
        assert len(later) == is_leased
        for sent in later:
            assert sent.key.startswith(f"{run.id}::lease@")
            assert 0 < int(sent.delay.removesuffix("ms")) <= 10_200


async def test_a_long_run_goes_on_while_its_activations_come_and_go(journal: Any) -> None:
    started, goes_on = asyncio.Event(), asyncio.Event()

    async def look(run: Any, host: Any, board: Any) -> Any:
        assert not started.is_set()
        started.set()
        await goes_on.wait()
        return "ok"

    slow: Agent[Any] = Agent("a", engine=ScriptEngine(look))
    async with ingress_of() as ingress, App([slow], journal=journal) as app:
        driver = Driver(app, RestateIngress([ingress.url]), work_s=0)
        run = await app.submit("a", "Hi?")
        async with driver.at_work():
            await driver.activate(run.id)
            await started.wait()
            await driver.activate(run.id)
            assert await run.result(0) is None
            goes_on.set()
            result = await run.result()
        assert result is not None and result.output == "ok"


async def test_a_service_that_ends_leaves_its_runs_to_another_one(journal: Any) -> None:
    begun = asyncio.Event()

    async def look(run: Any, host: Any, board: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    slow: Agent[Any] = Agent("a", engine=ScriptEngine(look))
    async with ingress_of() as ingress, App([slow], journal=journal) as app:
        driver = Driver(app, RestateIngress([ingress.url]))
        run = await app.submit("a", "Hi?")
        async with App([slow], journal=journal) as other:
            async with driver.at_work():
                working = asyncio.create_task(driver.activate(run.id))
                await begun.wait()
                driver.begin_end()
                await working
                with pytest.raises(ConnectionError, match="the service is ending"):
                    await driver.activate(run.id)
            assert [(one.run_id, one.reason) for one in await other.due()] == [(run.id, "drain")]


async def test_a_run_that_the_app_cannot_take_up_fails_and_keeps_no_other_back() -> None:
    async with ingress_of() as ingress:
        given = App([agent()], journal="memory:")
        async with given as app:
            journal = await app.open()
            await App([agent()], journal=journal, secrets=["s3cret-word"]).submit(
                "a", "s3cret-word"
            )
            driver = Driver(App([agent()], journal=journal), RestateIngress([ingress.url]))
            async with driver.at_work():
                (due,) = await app.due()
                await ingress.sent.get()
                with pytest.raises(Misuse, match="was submitted with secrets"):
                    await driver.activate(due.run_id)
                again = await app.submit("a", "Hi?")
                assert again.id in (await ingress.sent.get()).path


async def test_what_no_node_takes_is_told_with_what_it_said() -> None:
    async with ingress_of() as ingress:
        ingress.status = 404
        client = RestateIngress([ingress.url])
        with pytest.raises(
            ConnectionError, match=r"Restate accepts no request: .* answered 404: said"
        ):
            await client.send("r", "r:0:x")
        await client.aclose()
        client = RestateIngress([DEAD])
        with pytest.raises(
            ConnectionError, match=r"Restate accepts no request: http://127.0.0.1:1"
        ):
            await client.send("r", "r:0:x")
        await client.aclose()
