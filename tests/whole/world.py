"""What a case is run with: its tools with their book of effects, its agent, and its options."""

from __future__ import annotations

import asyncio
import json
import os
import re
from functools import partial
from typing import Any

import upshot
from tests.whole.book import BOOK, Book, act, apart
from tests.whole.case import DIALECTS, calls_in
from tests.whole.provider import SUMMARISER, World
from upshot import (
    Agent,
    AgentResult,
    AgentTask,
    ApprovalRequest,
    Budget,
    Compaction,
    Failed,
    FinalizeDecision,
    Graph,
    GraphEngine,
    LoopEngine,
    MachineEngine,
    Model,
    Parked,
    PendingEffect,
    Request,
    Retry,
    ScriptEngine,
    ToolContext,
    load_machine,
    resolve,
    tool,
)
from upshot.models import AiohttpTransport, Fallback, Timeouts
from upshot.wire.pricing import Price

PRICE = Price(input_per_mtok="1000", output_per_mtok="10000")
PRICES = {f"{provider}:m": PRICE for provider in ("openai", "anthropic", "google")}
LATE_S = 0.02
TAG = re.compile(r"~\d+\.\d+\.\w+?\.\d+/\d+")


def tools_of(book: Book, world: World) -> list[Any]:
    """Return the tools of a world; each reports when its body starts."""

    def step() -> None:
        world.on_step("body")

    def plain(tag: str, way: str) -> Any:
        """Work in a thread."""
        step()
        try:
            return act(book, tag, way)
        finally:
            world.on_step("done")

    async def quick(tag: str, way: str) -> Any:
        """Work."""
        step()
        await asyncio.sleep(0)
        try:
            return act(book, tag, way)
        finally:
            world.on_step("done")

    async def slow(tag: str, way: str) -> Any:
        """Work for too long."""
        step()
        if way == "late":
            book.enter(tag)
        await asyncio.sleep(30)

    def slow_plain(context: ToolContext, tag: str, way: str) -> Any:
        """Work for too long in a thread."""
        step()
        if way == "late":
            book.enter(tag)
        context.cancelled.wait(30)

    return [
        tool(name="look", effect="read")(quick),
        tool(name="look_in_thread", effect="read")(plain),
        tool(name="slow_look", effect="read", timeout_s=LATE_S)(slow),
        tool(name="change", effect="write")(quick),
        tool(name="change_in_thread", effect="write")(plain),
        tool(name="put", effect="write", idempotent=True)(quick),
        tool(name="pay", effect="destructive")(quick),
        tool(name="slow", effect="write", timeout_s=LATE_S)(slow),
        tool(name="slow_in_thread", effect="write", timeout_s=LATE_S)(slow_plain),
        apart.but(env={BOOK: book.path}),
    ]


TASK = "Task #0: go."
MACHINE = """
spec: upshot.machine/1
states:
  first: {type: initial, agent: b, input: "'Task #0: go.'", transitions: [{to: second}]}
  second: {agent: c, input: "'Task #0: go.'", transitions: [{to: done}]}
  done: {type: final}
"""


def _nothing(board: Any) -> None:
    """Do nothing; a node that only leads to others."""


async def _script(b: Agent[Any], run: Any, host: Any, board: Any) -> None:
    """Run *b*, then the loop."""
    child = await run.child(b, TASK, key="child")
    if child.pending:
        raise Parked(*child.pending)
    if child.error is not None:
        raise Failed(child.error)
    await LoopEngine().execute(run, host, board)


def _asks(b: Agent[Any]) -> Any:
    """Make a tool that runs *b*."""

    @tool(effect="write")
    async def ask_b(tag: str, way: str) -> str:
        """Ask b."""
        result = await upshot.run(b, TASK)
        return f"{tag} {result.status}"

    return ask_b


class Reviser:
    """A decider that asks for a number of further attempts."""

    def __init__(self, times: int) -> None:
        self._times = times

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        """Ask for another attempt if any is left."""
        done = int(result.attempts)
        if done > self._times:
            return FinalizeDecision.accept()
        return FinalizeDecision.revise(f"Revise #{done}")


class Life:
    """One life of a case: a world, its book, and the arguments of its run."""

    def __init__(self, world: World, folder: str, port: int, transport: AiohttpTransport) -> None:
        self.world, self.case, self.folder = world, world.case, folder
        self.book = Book(os.path.join(folder, f"book-{world.number}"))
        self.run_id = f"run-{world.number}"
        self._address = f"http://127.0.0.1:{port}/{world.number}"
        self.port, self._transport = port, transport
        # Whether a run parked until it was answered.
        self.was_asked = False
        self._tools = tools_of(self.book, self.world)
        self._answers = {call.tag: call.answer for call in calls_in(self.case.scripts)}

    @property
    def journal(self) -> str:
        """The place of the journal on disk."""
        return os.path.join(self.folder, f"journal-{self.world.number}.db")

    def model(self, agent: str) -> Model:
        """Return the model of an agent."""
        name = DIALECTS[self.case.dialect]
        models = [
            resolve(
                name,
                base_url=f"{self._address}/{one}/v1",
                api_key="k",
                transport=self._transport,
                timeouts=Timeouts(connect_s=60, read_s=60),
                prices=PRICES,
            )
            for one in (agent, f"{agent}-other")
        ]
        return Fallback(*models) if self.case.has_fallback else models[0]

    def agents(self) -> list[Agent[Any]]:
        """Make the agent of the run, and those that it may hand over to."""
        tools, tries = self._tools, self.case.tries
        retry = None if tries == 1 else Retry(max_tries=tries, base_s=0)
        more: Any = {"tools": tools, "retry": retry, "compaction": self.compaction()}
        a, b, c = (Agent(name, model=self.model(name), **more) for name in "abc")
        match self.case.engine:
            case "handoff":
                return [a.but(handoffs=["b"]), b]
            case "script":
                return [a.but(engine=ScriptEngine(partial(_script, b)))]
            case "tool":
                return [a.but(tools=[*tools, _asks(b)])]
            case "agent":
                return [a.but(tools=[*tools, b])]
            case "graph" | "parallel" as kind:
                nodes: dict[str, Any] = {"b": AgentTask(b, TASK), "c": AgentTask(c, TASK)}
                if kind == "parallel":
                    nodes["s"] = _nothing
                edges = [("b", "c")] if kind == "graph" else [("s", "b"), ("s", "c")]
                engine = GraphEngine(Graph(nodes, edges, start=edges[0][0]))
                return [Agent("a", engine=engine, retry=retry)]
            case "machine":
                engine = MachineEngine(load_machine(MACHINE), agents={"b": b, "c": c})
                return [Agent("a", engine=engine, retry=retry)]
            case _:
                return [a]

    async def begin(self, task: int = 0, **options: Any) -> AgentResult[Any]:
        """Run it."""
        first, *others = self.agents()
        if others:
            return await upshot.run_with_handoffs([first, *others], self.request(), **options)
        return await upshot.run(first, self.request(task), **options)

    def start(self, **options: Any) -> Any:
        """Start it with readers."""
        first, *others = self.agents()
        if others:
            return upshot.start_with_handoffs([first, *others], self.request(), **options)
        return upshot.start(first, self.request(), **options)

    async def resume(self, run_id: str, **options: Any) -> AgentResult[Any]:
        """Resume it."""
        first, *others = self.agents()
        return await upshot.resume(run_id, [first, *others] if others else first, **options)

    def request(self, task: int = 0) -> Request:
        """Return the request."""
        run_id = f"{self.run_id}-{task}" if task else self.run_id
        context = "talk" if self.case.tasks > 1 else ""
        return Request(TASK.replace("0", str(task)), run_id=run_id, context_id=context)

    def compaction(self) -> Compaction | None:
        """Return when older messages are replaced: before each call but the first."""
        if not self.case.compaction:
            return None
        model = self.model(SUMMARISER) if self.case.compaction == "model" else None
        return Compaction(at_tokens=1, keep_last=1, summarise=model)

    def options(self) -> dict[str, Any]:
        """Return the options of the run, without its journal."""
        case = self.case
        given: dict[str, Any] = dict([case.limit] if case.limit else [])
        return {
            "budget": Budget(unpriced="allow", **given),
            "deciders": [Reviser(case.revisions)] if case.revisions else [],
            "max_attempts": case.revisions + 1,
            "approve": self.approve,
        }

    def approve(self, request: ApprovalRequest) -> bool | None:
        """Return the user's immediate answer."""
        return {"yes": True, "no": False}.get(self._answers[str(request.arguments["tag"])])

    def answer(self, pending: Any) -> Any:
        """What the user says later; of an unknown effect what the book says."""
        self.was_asked = True
        if isinstance(pending, PendingEffect):
            was_made = self.book.read()[str(pending.arguments["tag"])] > 0
            return pending.happened(by="ann") if was_made else pending.did_not_happen(by="ann")
        said = self._answers[str(pending.arguments["tag"])]
        if said == "later no":
            return pending.deny("no", by="ann")
        if said == "later edit":
            return pending.edit({**pending.arguments, "way": "return"}, by="ann")
        return pending.approve(by="ann")


def tag_of(record: Any) -> str:
    """The tag of a call in a record, "" if it has none."""
    given = record.arguments_given
    found = TAG.search(given if isinstance(given, str) else json.dumps(given))
    return found[0] if found else ""
