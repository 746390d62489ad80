"""What the types of the public names promise to who uses them; read by pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, assert_type, cast

import msgspec

from upshot import (
    Agent,
    AgentError,
    AgentResult,
    AgentTask,
    AnyResult,
    ApprovalRequest,
    Approve,
    Board,
    Budget,
    Decider,
    Difference,
    Effect,
    ErrorCode,
    Event,
    FinalizeDecision,
    ForEach,
    Graph,
    GraphEngine,
    Host,
    Interrupt,
    InterruptCause,
    Interrupted,
    LiveHandoffs,
    LiveRun,
    Machine,
    MachineEngine,
    Message,
    ModelInput,
    ModelResponse,
    Node,
    Observer,
    Parallel,
    Question,
    RateLimitWindow,
    Request,
    ResultView,
    Role,
    Run,
    RunHost,
    RunInfo,
    ScriptedModel,
    ScriptEngine,
    Status,
    TextDelta,
    ToolContext,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    ToolSettled,
    ToolTask,
    ToolTimeout,
    UnknownEffect,
    Usage,
    fork,
    from_a2a,
    load_machine,
    replay,
    resume,
    run,
    run_sync,
    start,
    start_with_handoffs,
    to_a2a,
    tool,
)


class Order(msgspec.Struct):
    id: str
    cents: int


class Deps:
    rate: int = 2


@tool(effect="read")
async def price(context: ToolContext[Deps], cents: int) -> int:
    return cents * context.dependencies.rate


@tool
def shout(words: str, *, times: int = 1) -> str:
    return words.upper() * times


class Shop:
    @tool(effect="write")
    def sell(self, article: str) -> bool:
        return bool(article)


assert_type(shout("hi", times=2), str)
assert_type(Shop().sell("lamp"), bool)
shout("hi", loud=True)  # pyright: ignore[reportCallIssue]  # no such parameter
shout(5)  # pyright: ignore[reportArgumentType]  # not a text


async def called() -> None:
    context = cast("ToolContext[Deps]", None)
    assert_type(await price(context, 7), int)
    assert_type(await price.but(name="cost")(context, 7), int)


def was_sold(asked: UnknownEffect) -> bool:
    assert_type(asked.idempotency_key, str)
    assert_type(asked.outcome, ToolTimeout | ToolFailure)
    return bool(asked.arguments)


@tool(effect="write", verify=was_sold)
def sell(article: str) -> str:
    return article


text = Agent("a")
order = Agent("b", output_type=Order)
assert_type(text, Agent[str])
assert_type(order, Agent[Order])


async def by_type() -> None:
    result = await run(text, "?")
    assert_type(result, AgentResult[str])
    assert_type(result.output, str | None)
    assert_type(result.unwrap(), str)
    typed = await run(order, Request("?"), model=ScriptedModel(["{}"]), tools=[price])
    assert_type(typed, AgentResult[Order])
    assert_type(typed.unwrap(), Order)
    assert_type(typed.unwrap().cents, int)
    assert_type(run_sync(order, "?", budget=Budget(max_turns=2)), AgentResult[Order])
    again = await resume("run-1", order, journal="runs.db", answers=[Approve("c")])
    assert_type(again, AgentResult[Order])
    relayed = await resume("run-1", [order, order.but(id="other")], journal="runs.db")
    assert_type(relayed.run_id, str)


async def branched() -> None:
    assert_type(await fork("run-1", at=3, journal="runs.db"), str)
    told = await replay("run-1", order, journal="runs.db")
    assert_type(told.difference, Difference | None)
    assert_type(told.same, bool)


def sent(message: Message) -> None:
    assert_type(from_a2a(to_a2a(message), Message), Message)


async def watched() -> None:
    async with start(order, "?", journal="runs.db") as live:
        assert_type(live, LiveRun[Order])
        async for event in live:
            assert_type(event, Event)
        async for piece in live.text():
            assert_type(piece, str)
        assert_type(await live.result(), AgentResult[Order])


def fields(result: AgentResult[str]) -> None:
    assert_type(result.status, Status)
    assert_type(result.content, str | None)
    assert_type(result.usage, Usage)
    assert_type(result.messages, tuple[Message, ...])
    assert_type(result.tool_outcomes, tuple[ToolOutcome, ...])


def machines(view: ResultView) -> None:
    machine = load_machine("letter.yml")
    assert_type(machine, Machine)
    engine = MachineEngine(machine, agents={"a": text}, functions={"f": len}, hooks=Look())
    assert_type(Agent("m", engine=engine), Agent[str])
    assert_type(view.result.status, Status)


class Look:
    def on_run_end(self, info: RunInfo, result: AgentResult[Order]) -> None:
        assert_type(info.run_id, str)


class LookAtAny(Observer):
    def on_run_end(self, info: RunInfo, result: AgentResult) -> None:
        assert_type(result.output, Any | None)


class Choose(Decider):
    def before_finalize(
        self, info: RunInfo, request: Request, result: AnyResult
    ) -> FinalizeDecision | None:
        return None if result.success else FinalizeDecision.discard("no")


def approve(asked: ApprovalRequest) -> bool:
    return asked.effect == "read"


def shorten(asked: ModelInput) -> ModelInput:
    return asked


async def by_role(run: Run, host: Host, board: Board) -> str:
    return "x"


async def by_class(run: Run, host: RunHost, board: Board) -> str:
    assert_type(await host.interrupts() is None, bool)
    assert_type(await run.child(order, "?"), AgentResult[Order])
    assert_type((await run.child(text, "?", key="b")).unwrap(), str)
    return "x"


def engines() -> None:
    for script in (by_role, by_class):
        assert_type(Agent("s", engine=ScriptEngine(script)), Agent[str])
    ScriptEngine(lambda run, host, board: board.set("output", run.id))
    ScriptEngine(lambda run: run)  # pyright: ignore[reportArgumentType]  # it gets three
    nodes = {
        "ask": Question("How many?"),
        "each": ForEach("items", Node(AgentTask(text))),
        "all": Parallel({"a": text, "b": order}),
        "price": ToolTask("price"),
    }
    assert_type(GraphEngine(Graph(nodes)), GraphEngine)


def events(event: Event) -> None:
    match event:
        case ToolSettled(record=record):
            assert_type(record, ToolRecord)
        case TextDelta(text=piece):
            assert_type(piece, str)
        case _:
            assert_type(event.kind, str)


def words() -> None:
    assert_type(AgentError("rate_limit", "Wait.", origin="model").code, ErrorCode)
    assert_type(AgentError("sold_out").code == ErrorCode("sold_out"), bool)
    assert_type(Interrupt("user_interrupted").cause, InterruptCause)
    assert_type(Message("user", "?").role, Role)
    raise Interrupted("user_interrupted")


def outcomes() -> None:
    failure = ToolFailure("c", "price", error="Gone.", code="sold_out", effect="none")
    assert_type(failure.code, ErrorCode | None)
    assert_type(failure.effect, Effect)
    ToolDenied("c", "price", reason="closed_today")
    ModelResponse(content="Yes.", finish_reason="stop")
    RateLimitWindow(resource="images")
    AgentResult(cause="user_interrupted")
    ToolFailure("c", "price", effect="nothing")  # pyright: ignore[reportArgumentType]  # no effect
    Message("human", "?")  # pyright: ignore[reportArgumentType]  # no role
    AgentError(7)  # pyright: ignore[reportArgumentType]  # no word
    failure.code = "new"  # pyright: ignore[reportAttributeAccessIssue]  # it is frozen


def wait_s(error: AgentError) -> float:
    match error:
        case AgentError(code=ErrorCode.RATE_LIMIT, retry_after_s=float(told)):
            return told
        case AgentError(code=code):
            assert_type(code, ErrorCode)
            return 1 if code == "timeout" else 0


def side(effect: Effect) -> bool:
    match effect:
        case Effect.READ | Effect.NONE:
            return False
        case Effect.WRITE | Effect.DESTRUCTIVE | Effect.APPLIED | Effect.UNKNOWN:
            return True


async def with_hooks() -> None:
    await run(order, "?", observers=[Look()], history=await run(text, "?"), dependencies=Deps())
    await run(
        order,
        "?",
        conversation="c",
        if_waiting="tell",
        remember=False,
        attributes={"tenant": "x"},
        secrets=["s"],
    )


async def wrong() -> None:
    await run(order, "?", budget=3)  # pyright: ignore[reportArgumentType]  # no Budget
    await run(order, "?", bugdet=None)  # pyright: ignore[reportCallIssue]  # no such option
    await run(order, 3)  # pyright: ignore[reportArgumentType]  # no request
    await resume("run-1", order)  # pyright: ignore[reportCallIssue]  # where is its journal?


class Db:
    rate: int = 2


class WholeDb(Db): ...


@tool(effect="read")
async def rate(context: ToolContext[Db], cents: int) -> int:
    return cents * context.dependencies.rate


def open_db(info: RunInfo) -> Db:
    return Db()


async def dial_db(info: RunInfo) -> WholeDb:
    return WholeDb()


@asynccontextmanager
async def lend_db(info: RunInfo) -> AsyncGenerator[Db]:
    yield Db()


def open_till(info: RunInfo) -> Order:
    return Order("1", 2)


desk = Agent("d", tools=[shout, rate])
assert_type(desk, Agent[str, Db])
assert_type(desk.but(id="e"), Agent[str, Db])
assert_type(Agent("d", output_type=Order, tools=[rate]), Agent[Order, Db])
assert_type(Agent("d", dependencies=lend_db), Agent[str, Db])
Agent("d", tools=[rate], dependencies=open_db)
Agent("d", tools=[rate], dependencies=dial_db)
Agent("d", tools=[rate], dependencies=lend_db)
Agent("d", tools=[rate], dependencies=open_till)  # pyright: ignore[reportArgumentType]  # another type
Agent[str, Db]("d", dependencies=open_till)  # pyright: ignore[reportArgumentType]  # another type
Agent("f", handoffs=[desk, Agent("g", dependencies=open_till)])


async def handed_over() -> None:
    async with start_with_handoffs([desk, text], "?", start=text) as live:
        assert_type(live, LiveHandoffs)
        async for event in live:
            assert_type(event, Event)
        async for piece in live.text():
            assert_type(piece, str)
        assert_type((await live.result()).run_id, str)


async def with_dependencies() -> None:
    assert_type(await run(desk, "?", dependencies=Db()), AgentResult[str])
    await run(desk, "?", dependencies=WholeDb())
    await run(text, "?", dependencies=Order("1", 2))
    other = Order("1", 2)
    await run(desk, "?", dependencies=other)  # pyright: ignore[reportArgumentType]  # another type
    run_sync(desk, "?", dependencies=other)  # pyright: ignore[reportArgumentType]  # another type
    async with start(desk, "?", dependencies=Db()) as live:
        assert_type(live, LiveRun[str])
    start(desk, "?", dependencies=other)  # pyright: ignore[reportArgumentType]  # another type
    again = resume("r", desk, journal="runs.db", dependencies=Db())
    assert_type(await again, AgentResult[str])
    await resume("r", desk, journal="runs.db", dependencies=other)  # pyright: ignore[reportArgumentType,reportCallIssue]  # another type
