"""Bodies that run again after a kill: what they called before is handed back, or told as unknown,
and never done a second time.
"""

from __future__ import annotations

import itertools
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_to_its_kill
from tests.runs.kit import Ordered
from upshot import (
    Agent,
    AgentResult,
    Approve,
    Failed,
    Graph,
    GraphEngine,
    Parked,
    Request,
    ScriptEngine,
    Status,
    ToolCall,
    resume,
    run,
    tool,
)

PROGRAM = '''
import asyncio, os, signal, sys
from upshot import (
    Agent, Graph, GraphEngine, Message, Request, ScriptedModel, ScriptEngine, ToolCall, run, tool
)
from upshot.engines import Node, Parallel

def make(case, effects, deadly):
    """The agent of a case; where *deadly*, it dies behind the effect of the write "last"."""

    begun, said = asyncio.Event(), asyncio.Event()

    def do(what):
        with open(effects, "a") as file:
            file.write(what + "\\n")

    def die():
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    @tool(effect="write")
    async def write(what: str):
        do(what)
        if deadly and case == "beside a message":
            begun.set()
            await said.wait()
        if what == "last" and case != "after the call":
            die()
        return "written"

    def calls(what):
        return [ToolCall("c1", "write", {"what": what})]

    async def work(board, run):
        (outcome,) = await run.tools.dispatch(calls("last"))
        return {"output": outcome.kind}

    async def twice(board, run):
        (first,) = await run.tools.dispatch(calls("first"))
        (last,) = await run.tools.dispatch(calls("last"))
        return {"output": [first.kind, last.kind]}

    async def after(board, run):
        made = await work(board, run)
        await run.call_model("Well?")
        return made

    async def stubborn(board, run):
        (outcome,) = await run.tools.dispatch(calls("last"))
        if outcome.kind != "tool_execution_result":
            raise ConnectionError(outcome.kind)
        return {"output": outcome.kind}

    async def nested(board, run):
        inner = Agent("inner", model=ScriptedModel([calls("last"), "Done."]), tools=[write])
        result = await run.child(inner, "Go.")
        return {"output": [outcome.kind for outcome in result.tool_outcomes]}

    async def asking(board, run):
        reply = await run.call_model("Well?")
        made = await work(board, run)
        return {"output": [reply.content, made["output"]]}

    async def beside(run, host, board):
        async def talk():
            await begun.wait()
            board.append(Message("assistant", "I am at it."))
            # Before a step that writes, all that was done is on disk.
            await host.once("shown", "write", lambda: None, idempotent=True)
            said.set()

        async def act():
            (outcome,) = await run.tools.dispatch(calls("last"))
            begun.set()
            return outcome.kind

        return (await asyncio.gather(talk(), act()))[1]

    async def in_step(run, host, board):
        async def body():
            return (await work(board, run))["output"]

        return await host.once("step", "write", body, idempotent=True)

    def branch(what, output):
        async def work(board, run):
            (outcome,) = await run.tools.dispatch(calls(what))
            return outcome.kind
        return Node(work, output=output)

    def graph(work, **options):
        return GraphEngine(Graph({"n": Node(work, **options)}))

    engines = {
        "in the effect": graph(work),
        "in the effect of the second": graph(twice),
        "after the call": graph(after),
        "after a model call": graph(asking),
        "in a child without a key": graph(nested),
        "in a branch": graph(Parallel(
            {"a": branch("first", "first"), "b": branch("last", "output")}
        )),
        "in a node that is tried again": graph(stubborn, attempts=3, backoff_s=0),
        "in an idempotent step": ScriptEngine(in_step),
        "beside a message": ScriptEngine(beside),
    }

    def reply(messages):
        # Before a model is asked, all that was done is on disk.
        do("asked")
        if case == "after the call":
            die()
        return "I think."

    return Agent("a", engine=engines[case], model=ScriptedModel([reply] * 3), tools=[write])

if __name__ == "__main__":
    journal, effects, case = sys.argv[1:]
    agent = make(case, effects, True)
    asyncio.run(run(agent, Request("Go.", run_id="run-1"), journal=journal))
'''

DONE, UNKNOWN = "tool_execution_result", "tool_failure"
# What was done in all, and what the run gives in the end.
CASES: dict[str, tuple[list[str], object]] = {
    "in the effect": (["last"], UNKNOWN),
    "in the effect of the second": (["first", "last"], [DONE, UNKNOWN]),
    "after the call": (["last", "asked", "asked"], DONE),
    "after a model call": (["asked", "last"], ["I think.", UNKNOWN]),
    "in a child without a key": (["last"], [UNKNOWN]),
    "in a branch": (["first", "last"], UNKNOWN),
    "in an idempotent step": (["last"], UNKNOWN),
    "beside a message": (["last"], UNKNOWN),
    "in a node that is tried again": (["last"], None),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_write_of_a_body_that_runs_again_is_done_once(tmp_path: Path, case: str) -> None:
    program, journal, effects = (tmp_path / name for name in ("program.py", "runs.db", "effects"))
    program.write_text(PROGRAM)
    run_to_its_kill(program, journal, effects, Path(case))
    agent = runpy.run_path(str(program))["make"](case, effects, False)
    result = await resume("run-1", agent, journal=journal)
    done, output = CASES[case]
    assert effects.read_text().split() == done
    status = Status.FAILED if output is None else Status.COMPLETED
    assert (result.status, result.output) == (status, output), result.error
    last = next((r for r in result.tool_records if r.arguments_given == {"what": "last"}), None)
    if last is not None and case != "after the call":
        assert (last.outcome.code, last.effect) == ("interrupted", "unknown")


DID: Counter[str] = Counter()


@tool(effect="write")
async def write(what: str) -> str:
    """Write."""
    DID[what] += 1
    return f"wrote {what}"


@tool(effect="destructive")
async def remove(what: str) -> str:
    """Remove."""
    DID[what] += 1
    return f"removed {what}"


def call(what: str, name: str = "write") -> ToolCall:
    return ToolCall("c1", name, {"what": what})


def agent(engine: Any) -> Agent[Any]:
    return Agent("a", engine=engine, tools=[write, remove])


def node(work: Any) -> Agent[Any]:
    return agent(GraphEngine(Graph({"n": work})))


async def begun(subject: Agent[Any], **options: Any) -> tuple[AgentResult[Any], Ordered]:
    DID.clear()
    journal = Ordered()
    result = await run(subject, Request("Go.", run_id="r"), journal=journal, **options)
    return result, journal


async def test_a_node_that_was_cut_anywhere_makes_no_call_twice() -> None:
    async def work(board: Any, run: Any) -> Any:
        made = [await run.tools.dispatch([call(what)]) for what in ("x", "y", "x2", "x3")]
        return {"output": [outcome.kind for (outcome,) in made]}

    first, journal = await begun(node(work))
    assert first.output == [DONE] * 4
    for length in range(1, len(journal.order)):
        before = journal.cut(length)
        started = [e.call.arguments["what"] for e in before.order if e.kind == "tool_started"]
        settled = [e for e in before.order if e.kind == "tool_settled"]
        DID.clear()
        result = await resume("r", node(work), journal=before)
        assert DID.keys().isdisjoint(started), length
        unknown = len(started) - len(settled)
        assert result.output.count(UNKNOWN) == unknown, length
        # A write whose effect is unknown blocks only the same one.
        assert len(DID) == 4 - len(started), length


async def test_a_call_of_a_node_that_waited_for_a_word_goes_on_with_it() -> None:
    async def work(board: Any, run: Any) -> Any:
        await run.tools.dispatch([call("x")])
        outcomes = await run.tools.dispatch([call("y", "remove")])
        if run.tools.pending:
            raise Parked(*run.tools.pending)
        return {"output": [outcome.output for outcome in outcomes]}

    parked, journal = await begun(node(work))
    assert parked.status is Status.INPUT_REQUIRED
    result = await resume("r", node(work), journal=journal, answers=[Approve("c1")])
    assert result.output == [{"result": "removed y"}]
    assert DID == {"x": 1, "y": 1}


async def test_a_call_with_other_arguments_than_before_is_not_made_and_told() -> None:
    times = itertools.count()

    async def work(board: Any, run: Any) -> Any:
        (outcome,) = await run.tools.dispatch([call(f"at {next(times)}")])
        return {"output": outcome.output}

    _, journal = await begun(node(work))
    settled = next(at for at, e in enumerate(journal.order, 1) if e.kind == "tool_settled")
    DID.clear()
    result = await resume("r", node(work), journal=journal.cut(settled))
    assert (result.output, DID) == ({"result": "wrote at 0"}, {})
    assert [warning.code for warning in result.warnings] == ["replay_diverged"]


async def test_a_call_with_a_secret_in_it_is_the_same_call_again() -> None:
    async def work(board: Any, run: Any) -> Any:
        (outcome,) = await run.tools.dispatch([call("sesame")])
        return {"output": outcome.kind}

    _, journal = await begun(node(work), secrets=["sesame"])
    settled = next(at for at, e in enumerate(journal.order, 1) if e.kind == "tool_settled")
    DID.clear()
    cut = journal.cut(settled)
    result = await resume("r", node(work), journal=cut, secrets=["sesame"])
    assert (result.output, DID, result.warnings) == (DONE, {}, ())


async def test_a_call_outside_of_a_finished_step_is_not_taken_for_one_in_it() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> str:
            (outcome,) = await run.tools.dispatch([call("x")])
            return outcome.kind

        first = await host.once("step", "write", body)
        (outcome,) = await run.tools.dispatch([call("y")])
        return [first, outcome.output]

    subject = agent(ScriptEngine(script))
    _, journal = await begun(subject)
    ended = next(at for at, e in enumerate(journal.order, 1) if e.kind == "step_settled")
    DID.clear()
    result = await resume("r", subject, journal=journal.cut(ended))
    assert (result.output, DID) == ([DONE, {"result": "wrote y"}], {"y": 1})


async def test_the_log_and_the_result_tell_the_step_of_a_call() -> None:
    async def work(board: Any, run: Any) -> None:
        await run.tools.dispatch([call("x")])

    result, journal = await begun(node(work))
    assert [record.step for record in result.tool_records] == ["graph-1/n#1"]
    started = [event.step for event in journal.order if event.kind == "tool_started"]
    assert started == ["graph-1/n#1"]


@pytest.mark.parametrize("catches", [False, True], ids=["the run fails", "the run goes on"])
async def test_a_call_that_was_cut_in_a_step_that_is_not_done_again_is_unknown(
    catches: bool,
) -> None:
    async def script(run: Any, host: Any, board: Any) -> str:
        async def body() -> str:
            (outcome,) = await run.tools.dispatch([call("x")])
            return outcome.kind

        try:
            return await host.once("step", "write", body)
        except Failed:
            if catches:
                return "gave up"
            raise

    subject = agent(ScriptEngine(script))
    _, journal = await begun(subject)
    started = next(at for at, e in enumerate(journal.order, 1) if e.kind == "tool_started")
    result = await resume("r", subject, journal=journal.cut(started))
    assert result.status is (Status.COMPLETED if catches else Status.FAILED)
    (record,) = result.tool_records
    assert (record.outcome.code, record.effect, record.step) == ("interrupted", "unknown", "step")
