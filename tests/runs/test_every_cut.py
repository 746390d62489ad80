"""A process that died after any event of a run: what comes of it is what had come of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.runs.kit import Ordered, measured, say
from upshot import (
    Agent,
    AgentResult,
    Answer,
    Approve,
    Deny,
    Graph,
    GraphEngine,
    JournalError,
    LoopEngine,
    MachineEngine,
    Message,
    ModelRequest,
    ModelResponse,
    PendingApproval,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    encode,
    fork,
    load_machine,
    resume,
    run,
    states,
    tool,
)
from upshot.engines.script import ScriptEngine
from upshot.state.run_state import RunState
from upshot.state.stored_events import result_of


@tool(effect="read")
async def look(x: int) -> str:
    """Look."""
    return f"seen {x}"


@tool(effect="read", trust="untrusted")
async def fetch(url: str) -> str:
    """Fetch."""
    return f"words of {url}"


@tool(effect="write")
async def put(x: int, note: str = "") -> str:
    """Put."""
    return "put"


@tool(effect="write", approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    return "paid"


TOOLS: list[Any] = [look, fetch, put, pay]


def call(id: str, name: str, arguments: Any = None) -> ToolCall:
    return ToolCall(id, name, arguments or {})


def in_a_loop() -> Agent[Any]:
    note = {"x": 1, "note": "hush"}
    replies = [
        measured(None, call("a", "look", {"x": 1}), call("b", "look"), call("p", "put", note)),
        measured(None, call("a", "look", {"x": 3}), call("f", "fetch", {"url": "u"})),
        measured(
            None,
            call("y", "pay", {"cents": 5}),
            call("b", "look", '{"x": "9"}'),
            call("z", "pay", {"cents": 6}),
        ),
        measured(None, call("p", "put", {"x": 2}), call("n", "nothing")),
        measured("said hush"),
    ]
    return Agent("a", model=ScriptedModel(replies), tools=TOOLS)


async def work(run: Any, host: Any, board: Any) -> str:
    first = await host.once("one", "write", lambda: {"v": 1})
    inner = ScriptedModel([measured(None, call("p", "put", {"x": 7})), measured("inside")])
    child = await run.child(Agent("b", model=inner, tools=[put]), "?", key="child")
    await host.report_usage(ModelResponse(usage=measured().usage, finish_reason="length"))
    await run.tools.dispatch([call("d", "look", {"x": 5}), call("e", "put", {"x": 6})])
    board.append((await run.call_model(ModelRequest(board.messages()))).to_message())

    async def body() -> str:
        return str((await run.call_model(ModelRequest((Message("user", "in"),)))).content)

    second = await host.once("two", "read", body)
    answer = await host.ask_user("Well?", key="q")
    board.set("x", [1, 2])
    board.get("x").append(3)
    return f"{first} {child.content} {second} {answer}"


def in_a_script() -> Agent[Any]:
    model = ScriptedModel([measured("m1"), measured("m2")])
    return Agent("a", engine=ScriptEngine(work), model=model, tools=TOOLS)


async def loops(run: Any, host: Any, board: Any) -> None:
    await LoopEngine().execute(run, host, board)
    board.append(Message("user", "And then?"))
    await LoopEngine().execute(run, host, board)


def in_loops_of_a_script() -> Agent[Any]:
    # Providers that give no ids use the same ones again, and models say the same thing twice.
    replies = [
        measured("So.", call("p", "put", {"x": 1})),
        measured("So.", call("p", "put", {"x": 2}), call("y", "pay", {"cents": 5})),
        measured("One."),
        measured(None, call("p", "put", {"x": 3}), call("z", "pay", {"cents": 6})),
        measured("So.", call("f", "fetch", {"url": "u"}), call("p", "look", {"x": 1})),
        measured("Two."),
    ]
    return Agent("a", engine=ScriptEngine(loops), model=ScriptedModel(replies), tools=TOOLS)


async def begin(board: Any) -> None:
    board.append(say("beside"), "side")
    board.set("k", 1)


async def count(board: Any) -> None:
    board.set("j", board.get("k") + 1)


async def end(board: Any) -> None:
    board.append(say("end"))


def in_a_graph() -> Agent[Any]:
    asked = Agent("b", model=ScriptedModel([measured("says b")]))
    nodes = {"begin": begin, "count": count, "ask": asked, "end": end}
    edges = [("begin", "count"), ("begin", "ask"), ("count", "end"), ("ask", "end")]
    return Agent("a", engine=GraphEngine(Graph(nodes=nodes, edges=edges, start="begin")))


MACHINE = """
spec: upshot.machine/1
name: m
context: {n: 1}
states:
  begin:
    {type: initial, function: f, input: {x: "context.n"}, output_to_context: {n: "output + 1"},
     transitions: [{to: ask}]}
  ask: {agent: b, input: {text: "'hi'"}, transitions: [{to: hold}]}
  hold: {wait: hook, transitions: [{to: last}]}
  last: {type: final, output: {n: "context.n"}}
"""


def in_a_machine() -> Agent[Any]:
    asked = Agent("b", model=ScriptedModel([measured("says b")]))
    machine, functions = load_machine(MACHINE), {"f": lambda x: x}
    return Agent("a", engine=MachineEngine(machine, agents={"b": asked}, functions=functions))


CASES: dict[str, tuple[Callable[[], Agent[Any]], dict[str, Any]]] = {
    "loop": (in_a_loop, {"secrets": ["hush"]}),
    "script": (in_a_script, {}),
    "loops of a script": (in_loops_of_a_script, {}),
    "graph": (in_a_graph, {}),
    "machine": (in_a_machine, {}),
}


def answers_to(result: AgentResult[Any]) -> list[Any]:
    given: list[Any] = []
    for pending in result.pending:
        if not isinstance(pending, PendingApproval):
            given.append(Answer(pending.id, "yes"))
        else:
            given.append(Deny("z") if pending.id == "z" else Approve(pending.id))
    return given


async def to_its_end(case: str, result: AgentResult[Any], journal: Ordered) -> AgentResult[Any]:
    make, options = CASES[case]
    while result.status is Status.INPUT_REQUIRED:
        answers = answers_to(result)
        result = await resume("r", make(), journal=journal, answers=answers, **options)
    return result


# Of the clock, of chance, and of what was lost with the process.
OTHERS = {"local", "started_at", "ended_at", "at", "asked_at", "usage", "warnings"}


def facts(value: Any) -> Any:
    form = msgspec.json.decode(encode(value)) if isinstance(value, AgentResult) else value
    if isinstance(form, list):
        return [*map(facts, form)]
    if isinstance(form, str):
        # Keys that a process makes at random.
        return re.sub(r"[0-9a-f]{12,}", "", form)
    if not isinstance(form, dict):
        return form
    kept = {name: facts(one) for name, one in form.items() if not name.endswith("_ms")}
    return {name: one for name, one in kept.items() if name not in OTHERS}


def is_unknown(result: AgentResult[Any], event: Any) -> bool:
    """Whether what was under way at *event* is told to be unknown."""
    if event.kind == "tool_started":
        calls = [one for one in result.tool_outcomes if one.call_id == event.call_id]
        inside = [one for one in result.effects if one.path and one.call_id == event.call_id]
        return any(one.state == "unknown" for one in inside) or any(
            (one.effect, one.code) == ("unknown", "interrupted") for one in calls
        )
    return result.error is not None and result.error.code == "interrupted"


@pytest.mark.slow("loop*", "machine")
@pytest.mark.parametrize("case", CASES)
async def test_a_run_that_was_cut_anywhere_ends_as_if_it_had_not_been(case: str) -> None:
    make, options = CASES[case]
    whole = Ordered()
    result = await run(make(), Request("?", run_id="r"), journal=whole, **options)
    result = await to_its_end(case, result, whole)
    assert result.success
    unknown: list[str] = []
    for length in range(1, len(whole.order)):
        journal, last = whole.cut(length), whole.order[length - 1]
        journal.artifacts = whole.artifacts
        again = await resume("r", make(), journal=journal, **options)
        again = await to_its_end(case, again, journal)
        state = RunState()
        async for _, now in states(journal.events("r")):
            state = now
        told = result_of(state)
        assert told is not None
        assert told.usage == again.usage
        if not options:
            assert facts(told) == facts(again)
        if facts(again) == facts(result):
            # A model call that was cut off is counted as one, whatever it used.
            assert again.usage.api_calls - result.usage.api_calls in (0, 1)
            assert again.usage.input_tokens == result.usage.input_tokens
            continue
        assert is_unknown(again, last), (length, last)
        # An id that was used before has a number behind it.
        id, _, _ = getattr(last, "call_id", "").partition("_")
        unknown.append(f"{last.kind} {id or getattr(last, 'key', '')}")
    assert unknown == {
        "loop": ["tool_started p", "tool_started y", "tool_started p"],
        # The second is a call of a child run.
        "script": ["step_started one", "tool_started p", "tool_started e"],
        "loops of a script": [f"tool_started {id}" for id in ("p", "p", "y", "p")],
    }.get(case, [])


async def test_a_fork_asks_a_child_anew_that_had_not_ended_at_its_point() -> None:
    asked: list[str] = []

    def reply(messages: Any) -> ModelResponse:
        asked.append("?")
        return measured("inside")

    async def script(run: Any, host: Any, board: Any) -> None:
        await run.child(Agent("b", model=ScriptedModel([reply])), "?", key="child")

    agent, journal = Agent("a", engine=ScriptEngine(script)), Ordered()
    await run(agent, Request("?", run_id="r"), journal=journal)
    kinds = [event.kind async for event in journal.events("r")]
    ended = kinds.index("step_settled") + 1
    for at in range(1, len(kinds)):
        asked.clear()
        result = await resume(await fork("r", at=at, journal=journal), agent, journal=journal)
        assert (at, len(asked), result.usage.api_calls) == (at, 0 if at >= ended else 1, 1)


async def test_a_log_that_is_read_from_its_middle_names_what_is_missing() -> None:
    journal = Ordered()
    await run(in_a_loop(), Request("?", run_id="r"), journal=journal)
    shows = next(event for event in journal.order if getattr(event, "refs", ()))
    with pytest.raises(JournalError, match="read the log from its first event on"):
        _ = [one async for one in states(journal.events("r", after=shows.seq - 1))]
