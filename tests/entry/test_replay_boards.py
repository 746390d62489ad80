"""replay: what a run puts on its board, in steps, over several sessions, and with secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.runs.kit import Ordered, add
from upshot import (
    Aborted,
    Agent,
    Answer,
    FinalizeDecision,
    GraphEngine,
    MachineEngine,
    ModelRequest,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolError,
    load_machine,
    replay,
    resume,
    run,
)
from upshot.engines import Graph, Node, Question, ToolTask
from upshot.state.stored_events import states

Make = Callable[[], Agent[Any]]


class Twice:
    """Has the first attempt done again."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        return FinalizeDecision.revise("Again.", "twice") if result.attempts == 1 else None


class Counting:
    """Changes the context in each state."""

    def on_state_enter(self, state: str, context: Any) -> None:
        context["seen"] = [*context.get("seen", []), state]

    def on_state_exit(self, state: str, context: Any, result: Any) -> None:
        context["left"] = state


async def asking(board: Any, run: Any) -> None:
    reply = await run.call_model(ModelRequest(board.messages()))
    board.append(reply.to_message())


def counted(board: Any) -> Any:
    return {"n": (board.get("n") or 0) + 1}


def few(board: Any) -> bool:
    return board.get("n") < 3


def many(board: Any) -> bool:
    return not few(board)


def graph(nodes: dict[str, Any], *edges: Any, **options: Any) -> Make:
    made = Graph(nodes=nodes, edges=edges, start="s")
    return lambda: Agent(
        "a",
        engine=GraphEngine(made),
        model=ScriptedModel(["One.", "Two.", "Three.", "Four."]),
        tools=[add],
        **options,
    )


def machine(states: dict[str, Any], **options: Any) -> Make:
    document: Any = {"spec": "upshot.machine/1", "name": "m", "states": states}
    made = load_machine({**document, "context": {"n": 0}})

    def make() -> Agent[Any]:
        writer = Agent("writer", model=ScriptedModel(["Short.", "This one is long enough."]))
        return Agent("a", engine=MachineEngine(made, agents={"writer": writer}, **options))

    return make


def worker() -> Agent[Any]:
    return Agent("w", model=ScriptedModel(["Done."] * 100))


def counting(most: int) -> dict[str, Any]:
    again = {"when": f"context.n < {most}", "to": "s"}
    return {
        "s": {
            "type": "initial",
            "output_to_context": {"n": "context.n + 1"},
            "transitions": [again, {"to": "e"}],
        },
        "e": {"type": "final", "output": {"n": "context.n"}},
    }


def writing(most: int) -> dict[str, Any]:
    again = {"when": f"size(context.draft) < {most} && context.n < 3", "to": "draft"}
    return {
        "draft": {
            "type": "initial",
            "agent": "writer",
            "output_to_context": {"draft": "output.content", "n": "context.n + 1"},
            "transitions": [again, {"to": "sent"}],
        },
        "sent": {"type": "final", "output": {"n": "context.n"}},
    }


def one(board: Any) -> Any:
    return {"x": 1}


def two(board: Any) -> Any:
    return {"x": 2}


def none(board: Any) -> None:
    pass


CALL = ToolTask("add", {"a": 1, "b": 2})

STEPS: dict[str, tuple[Make, Make]] = {
    "a function and an agent": (
        graph({"s": one, "w": worker()}, ("s", "w")),
        graph({"s": one, "w": worker(), "e": none}, ("s", "w"), ("w", "e")),
    ),
    "a branch": (
        graph({"s": one, "w": worker(), "e": none}, ("s", "w"), ("s", "e")),
        graph({"s": one, "w": worker(), "e": none}, ("s", "w"), ("w", "e")),
    ),
    "a cycle": (
        graph({"s": counted, "e": none}, ("s", "s", few), ("s", "e", many)),
        graph({"s": counted, "e": none}, ("s", "s", few), ("s", "e")),
    ),
    "one variable in two nodes, revised": (
        graph({"s": one, "t": two}, ("s", "t"), deciders=[Twice()]),
        graph({"s": one, "t": two}, ("s", "t")),
    ),
    "a tool": (
        graph({"s": one, "t": CALL, "e": two}, ("s", "t"), ("t", "e")),
        graph({"s": one, "u": CALL, "e": two}, ("s", "u"), ("u", "e")),
    ),
    "functions that ask a model": (
        graph({"s": asking, "t": one, "u": asking}, ("s", "t"), ("t", "u")),
        graph({"s": asking, "t": one, "u": asking}, ("s", "u"), ("u", "t")),
    ),
    "a machine that counts": (machine(counting(3)), machine(counting(2))),
    "a machine whose hook counts": (
        machine(counting(3), hooks=Counting()),
        machine(counting(4), hooks=Counting()),
    ),
    "a machine with an agent": (machine(writing(20)), machine(writing(5))),
}


async def recorded(make: Make) -> Ordered:
    journal = Ordered()
    done = await run(make(), Request("?", run_id="r"), journal=journal, max_attempts=2)
    assert done.status is Status.COMPLETED
    return journal


@pytest.mark.parametrize("name", STEPS)
async def test_steps_that_each_change_the_board_are_replayed_as_they_were(name: str) -> None:
    make, changed = STEPS[name]
    journal = await recorded(make)
    told = await replay("r", make(), journal=journal)
    assert told.difference is None
    assert told.result.status is Status.COMPLETED
    assert (await replay("r", changed(), journal=journal)).difference is not None


@pytest.mark.slow("a machine that counts", "a function*", "one variable*", "a tool", "functions*")
@pytest.mark.parametrize("name", STEPS)
async def test_a_run_in_steps_that_was_cut_off_is_replayed_as_far_as_it_goes(name: str) -> None:
    make, _ = STEPS[name]
    journal = await recorded(make)
    for length in range(2, len(journal.order)):
        before = journal.cut(length)
        assert (await replay("r", make(), journal=before)).difference is None, length


@pytest.mark.slow("a machine that counts", "a function*", "one variable*", "a tool", "functions*")
@pytest.mark.parametrize("name", STEPS)
async def test_a_run_in_steps_that_was_taken_up_is_replayed_as_one(name: str) -> None:
    make, _ = STEPS[name]
    journal = await recorded(make)
    for length in range(2, len(journal.order)):
        before = journal.cut(length)
        await resume("r", make(), journal=before)
        assert (await replay("r", make(), journal=before)).difference is None, length


async def test_a_graph_that_changed_is_told_where_it_did_the_same() -> None:
    make, changed = STEPS["a function and an agent"]
    journal = await recorded(make)
    told = (await replay("r", changed(), journal=journal)).difference
    assert told is not None
    assert (told.seq, told.kind, told.recorded) == (0, "warning", None)
    assert isinstance(told.replayed, dict)
    assert told.replayed["code"] == "graph_changed"


def failing(board: Any) -> None:
    raise ToolError("No stock.")


def aborting(board: Any) -> None:
    raise Aborted("The shop is closed.", code="closed")


@pytest.mark.parametrize("last", [failing, aborting])
async def test_a_run_that_ended_within_a_step_ends_so_in_a_replay(last: Any) -> None:
    make = graph({"s": one, "t": asking, "u": last}, ("s", "t"), ("t", "u"))
    journal = Ordered()
    done = await run(make(), Request("?", run_id="r"), journal=journal)
    told = await replay("r", make(), journal=journal)
    assert (told.difference, told.result.status) == (None, done.status)
    assert not told.result.success
    assert told.result.error is not None
    assert done.error is not None
    assert told.result.error.code == done.error.code
    mended = graph({"s": one, "t": asking, "u": one, "v": two}, ("s", "t"), ("t", "u"), ("u", "v"))
    assert (await replay("r", mended(), journal=journal)).difference is not None


def wordy() -> Agent[Any]:
    """Says something that is no answer, and fails over it."""
    return Agent("w", model=ScriptedModel(["Well, ...", "No."]), output_type=int)


def wordy_machine() -> Agent[Any]:
    states = {
        "s": {"type": "initial", "agent": "w", "transitions": [{"to": "end"}]},
        "end": {"type": "final"},
    }
    document: Any = {"spec": "upshot.machine/1", "name": "m", "states": states}
    return Agent("a", engine=MachineEngine(load_machine(document), agents={"w": wordy()}))


@pytest.mark.parametrize(
    "make",
    [graph({"s": one, "t": Node(wordy())}, ("s", "t")), wordy_machine],
    ids=["graph", "machine"],
)
async def test_what_an_agent_said_that_failed_in_a_step_is_said_in_a_replay(make: Make) -> None:
    journal = Ordered()
    done = await run(make(), Request("?", run_id="r"), journal=journal)
    told = await replay("r", make(), journal=journal)
    assert done.content == "No."
    assert (told.difference, told.result.content) == (None, "No.")


async def test_what_runs_after_a_question_in_a_graph_is_replayed() -> None:
    nodes = {"s": one, "q": Node(Question("Who?"), output="who"), "w": worker(), "e": two}
    make = graph(nodes, ("s", "q"), ("q", "w"), ("w", "e"))
    journal = Ordered()
    parked = await run(make(), Request("?", run_id="r"), journal=journal)
    assert (await replay("r", make(), journal=journal)).difference is None
    await resume("r", make(), journal=journal, answers=[Answer(parked.pending[0].id, "Ada")])
    told = await replay("r", make(), journal=journal)
    assert (told.difference, told.result.status) == (None, Status.COMPLETED)


def script(before: int, later: int, inside: int, last: int) -> Make:
    async def work(run: Any, host: Any, board: Any) -> Any:
        board.set("v", before)
        await run.tools.dispatch([ToolCall("c", "add", {"a": 1, "b": 2})])
        board.set("v", later)
        board.append((await run.call_model(ModelRequest(board.messages()))).to_message())
        board.set("v", inside)
        await run.child(worker(), "?", key="k")
        board.set("v", 4)
        await host.ask_user("Who?")
        board.set("v", last)

    return lambda: Agent("a", engine=ScriptEngine(work), model=ScriptedModel(["Hi."]), tools=[add])


async def sessions() -> Ordered:
    """The log of a run that was parked once, so that its script was called twice."""
    journal, make = Ordered(), script(1, 2, 3, 5)
    parked = await run(make(), Request("?", run_id="r"), journal=journal)
    assert (await replay("r", make(), journal=journal)).difference is None
    await resume("r", make(), journal=journal, answers=[Answer(parked.pending[0].id, "Ada")])
    return journal


async def test_a_script_that_was_parked_sets_its_variables_once_in_a_replay() -> None:
    told = await replay("r", script(1, 2, 3, 5)(), journal=await sessions())
    assert told.difference is None


@pytest.mark.parametrize(
    ("changed", "was"),
    [((9, 2, 3, 5), 1), ((1, 9, 3, 5), 2), ((1, 2, 9, 5), 3), ((1, 2, 3, 9), 5)],
    ids=["at a tool call", "at a model call", "at a run inside", "at the end"],
)
async def test_a_variable_is_told_where_somebody_outside_meets_another_value(
    changed: tuple[int, int, int, int], was: int
) -> None:
    journal = await sessions()
    told = (await replay("r", script(*changed)(), journal=journal)).difference
    assert told is not None
    assert told.recorded == {"kind": "board_changed", "variable": "v", "value": was}
    assert told.replayed == {"kind": "board_changed", "variable": "v", "value": 9}
    events = [event async for event, _ in states(journal.events("r"))]
    event: Any = events[told.seq - 1]
    assert event.variables == {"v": was}


async def test_a_variable_that_a_parked_run_had_otherwise_is_told() -> None:
    def make(value: int) -> Agent[Any]:
        async def work(run: Any, host: Any, board: Any) -> Any:
            board.set("v", value)
            await host.ask_user("Who?")

        return Agent("a", engine=ScriptEngine(work))

    journal = Ordered()
    await run(make(1), Request("?", run_id="r"), journal=journal)
    assert (await replay("r", make(1), journal=journal)).difference is None
    told = (await replay("r", make(2), journal=journal)).difference
    assert told is not None
    assert told.replayed == {"kind": "board_changed", "variable": "v", "value": 2}


async def test_a_variable_that_the_record_never_had_is_told() -> None:
    def make(*names: str) -> Agent[Any]:
        def work(run: Any, host: Any, board: Any) -> None:
            for name in names:
                board.set(name, 1)

        return Agent("a", engine=ScriptEngine(work))

    journal = Ordered()
    await run(make("v"), Request("?", run_id="r"), journal=journal)
    told = (await replay("r", make("v", "w"), journal=journal)).difference
    assert told is not None
    assert (told.seq, told.recorded) == (0, None)
    assert told.replayed == {"kind": "board_changed", "variable": "w", "value": 1}
    told = (await replay("r", make(), journal=journal)).difference
    assert told is not None
    assert told.recorded == {"kind": "board_changed", "variable": "v", "value": 1}
    assert told.replayed is None


KEY = "S3CRET-KEY"


def secretive(ending: str) -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        reply = await run.call_model(ModelRequest(board.messages()))
        assert ending == "?" or KEY in reply.content
        board.set("key", {KEY: [reply.content]})
        await run.tools.dispatch([ToolCall("c", "add", {"a": 1, "b": 2, "c": KEY})])
        child = Agent("w", model=ScriptedModel([f"Mine is {KEY}."]))
        return [(await run.child(child, "?", key="k")).content + ending, reply.content]

    model = ScriptedModel([f"It is {KEY}."])
    return Agent("a", engine=ScriptEngine(work), model=model, tools=[add])


async def test_secrets_are_compared_as_they_are_shown() -> None:
    journal = Ordered()
    request = Request(f"What is {KEY}?", run_id="r")
    done = await run(secretive("!"), request, journal=journal, secrets=[KEY])
    told = await replay("r", secretive("!"), journal=journal, secrets=[KEY])
    assert (told.difference, told.result.output) == (None, done.output)
    told = await replay("r", secretive("."), journal=journal, secrets=[KEY])
    assert told.difference is not None
    assert KEY not in repr(told)
    assert "<secret" not in repr(told.difference)
    assert "Mine is ***..'" in repr(told.difference.replayed)


async def test_a_loop_with_secrets_is_replayed_with_them_and_without() -> None:
    agent = Agent("a", model=ScriptedModel([f"It is {KEY}."]))
    journal = Ordered()
    await run(agent, Request(f"What is {KEY}?", run_id="r"), journal=journal, secrets=[KEY])
    assert (await replay("r", agent, journal=journal, secrets=[KEY])).same
    assert (await replay("r", agent, journal=journal)).same
    changed = agent.but(instructions=f"Say {KEY}.")
    told = (await replay("r", changed, journal=journal, secrets=[KEY])).difference
    assert told is not None
    assert (told.kind, KEY in repr(told)) == ("run_started", False)


async def test_what_is_asked_for_beyond_the_record_shows_no_secret() -> None:
    def work(run: Any, host: Any, board: Any) -> Any:
        return run.tools.dispatch([ToolCall("new", "add", {"a": KEY, "b": 2})])

    journal = Ordered()
    agent = Agent("a", model=ScriptedModel(["Hi."]), tools=[add])
    await run(agent, Request("?", run_id="r"), journal=journal, secrets=[KEY])
    changed = agent.but(engine=ScriptEngine(work))
    told = (await replay("r", changed, journal=journal, secrets=[KEY])).difference
    assert told is not None
    assert told.asked == "a call 'new' of add with {'a': '***', 'b': 2}"
