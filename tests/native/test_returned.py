"""Whatever form a result has, and by whichever door it comes, it is read as what it says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.machine_kit import engine_of
from tests.runs.kit import Do
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Answer,
    Failed,
    Graph,
    GraphEngine,
    ModelResponse,
    Node,
    Request,
    ScriptEngine,
    Status,
    ToolError,
    coerce_result,
    decode,
    encode,
    flat,
    resume,
    run,
    run_sync,
    states,
    to_contract,
    to_execution_result,
)
from upshot.journal import MemoryJournal
from upshot.state.stored_events import result_of

HEADERS = {"retry-after": "7", "x-ratelimit-remaining-requests": "0"}


class RateLimitError(Exception):
    """As the clients of providers raise it."""

    def __init__(self, message: str, headers: dict[str, str] = HEADERS) -> None:
        super().__init__(message)
        self.status_code = 429
        self.headers = headers


@dataclass
class OwnResult:
    """As code for the flat contract has it."""

    output: Any = None
    content: str | None = None
    raw: Any = None
    usage: Any = None
    cost: Any = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    finish_reason: str | None = None
    error: Any = None
    rate_limit: Any = None
    provider_data: dict[str, Any] | None = None
    success: bool = True


def response(message: str) -> flat.AgentResponse:
    info = flat.ErrorInfo("RateLimitError", message, 429, True, "rate_limit")
    limits = flat.extract_rate_limit_info(HEADERS)
    return flat.AgentResponse(error=info, rate_limit=limits)


def contract_error(message: str) -> AgentError:
    return AgentError("rate_limit", message, status_code=429, retryable=True)


def fields(message: str, **more: Any) -> dict[str, Any]:
    error = {"error_type": "RateLimitError", "message": message, "status_code": 429}
    return {"content": None, "error": error, **more}


def result(message: str) -> AgentResult[Any]:
    return AgentResult(status=Status.FAILED, error=contract_error(message))


FAILURES: dict[str, Callable[[str], Any]] = {
    "result": result,
    "reply": lambda said: ModelResponse(error=contract_error(said)),
    "error": contract_error,
    "response": response,
    "response as a dict": lambda said: asdict(response(said)),
    "dataclass": lambda said: OwnResult(error=contract_error(said), success=False),
    "dataclass with a dict": lambda said: OwnResult(**fields(said)),
    "dataclass with a flat error": lambda said: OwnResult(error=response(said).error),
    "dataclass with an exception": lambda said: OwnResult(error=RateLimitError(said)),
    "dataclass as a dict": lambda said: asdict(OwnResult(**fields(said))),
    "dict": fields,
    "dict with no raw": lambda said: fields(said, raw=None),
    "dict with raw": lambda said: fields(said, raw=object()),
    "dict with success": lambda said: fields(said, success=False),
    "contract dict": lambda said: to_contract(result(said)),
    "encoded": lambda said: json.loads(encode(result(said))),
    "execution result": lambda said: to_execution_result(result(said)),
    "exception": RateLimitError,
}
CAUGHT = [name for name in FAILURES if name != "exception"]


def through_engine(value: Any) -> dict[str, Any]:
    return {"engine": Do(lambda r, h, b: value)}


def through_script(value: Any) -> dict[str, Any]:
    async def script(run: Any, host: Any, board: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return {"engine": ScriptEngine(script)}


def give(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def through_node(value: Any) -> dict[str, Any]:
    return {"engine": GraphEngine(Graph({"n": lambda board: give(value)}, start="n"))}


def through_named_node(value: Any) -> dict[str, Any]:
    node = Node(lambda board: give(value), output="output")
    return {"engine": GraphEngine(Graph({"n": node}, start="n"))}


def through_function(value: Any) -> dict[str, Any]:
    states = """
    ask: {type: initial, function: f, transitions: [{to: done}]}
    done: {type: final}
    """
    return {"engine": engine_of(states, functions={"f": lambda: give(value)})}


def through_executor(value: Any) -> dict[str, Any]:
    class Executor:
        async def execute(self, input: Any, context: Any) -> Any:
            return give(value)

    states = """
    ask: {type: initial, agent: a, transitions: [{to: done}]}
    done: {type: final}
    """
    return {"engine": engine_of(states, agents={"a": Executor()})}


DOORS = [
    through_engine,
    through_script,
    through_node,
    through_named_node,
    through_function,
    through_executor,
]


@given(st.sampled_from(sorted(FAILURES)), st.text(st.characters(categories=["L"]), min_size=1))
def test_every_form_of_a_failure_is_read_alike(form: str, said: str) -> None:
    found = coerce_result(FAILURES[form](said))
    assert found.error is not None
    assert (found.status, found.error.code, found.error.message) == ("failed", "rate_limit", said)
    # What is a result already says what it says.
    is_whole = form in ("result", "reply", "encoded")
    assert is_whole or (found.rate_limit is not None and found.rate_limit.limited)


@given(
    st.sampled_from(sorted(FAILURES)),
    st.sampled_from(DOORS),
    st.text(st.characters(categories=["L"]), min_size=1),
)
def test_a_failure_in_any_form_ends_a_run_by_any_door(form: str, door: Any, said: str) -> None:
    found = run_sync(Agent("a"), "?", **door(FAILURES[form](said)))
    assert found.error is not None
    assert (found.status, found.error.code, found.error.message) == ("failed", "rate_limit", said)
    assert decode(encode(found), AgentResult).error == found.error


@pytest.mark.parametrize("form", [OwnResult, flat.AgentResponse])
@pytest.mark.parametrize("door", [door for door in DOORS if door is not through_node])
async def test_an_answer_in_the_form_of_a_result_is_the_answer(form: Any, door: Any) -> None:
    found = await run(Agent("a"), "?", **door(form(content="Hi.")))
    assert (found.status, found.output) == ("completed", "Hi.")


@pytest.mark.parametrize("value", [{"content": "x"}, {"title": "x", "content": "y"}, {"output": 1}])
async def test_data_that_tells_of_no_call_stays_data(value: Any) -> None:
    assert (await run(Agent("a"), "?", **through_script(value))).output == value


async def test_an_error_among_the_variables_of_a_node_is_one_of_them() -> None:
    def look(board: Any) -> Any:
        return {"output": f"saw {board.get('error')}"}

    graph = Graph(
        {"n": lambda board: {"error": "no rows"}, "m": look}, start="n", edges=[("n", "m")]
    )
    found = await run(Agent("a"), "?", engine=GraphEngine(graph))
    assert (found.status, found.output) == ("completed", "saw no rows")


def test_the_flat_structures_are_read_with_all_that_they_say() -> None:
    usage = flat.UsageInfo(10, 5, 15, cost=flat.CostInfo(input=0.25, total=0.5))
    calls = [flat.ToolCall("c1", tool="look", arguments={"q": 1})]
    given = flat.AgentResponse(content="Hi.", usage=usage, tool_calls=calls, raw_response="native")
    for form in (given, asdict(given)):
        found = coerce_result(form)
        assert (found.content, found.raw, found.usage.total_tokens) == ("Hi.", "native", 15)
        assert found.cost is not None
        assert (float(found.cost), found.cost.output) == (0.5, None)
        assert found.messages[0].tool_calls[0].name == "look"


class Broken(Exception):
    """A class of the user's."""


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (RateLimitError("slow"), "rate_limit", True),
        (TimeoutError("late"), "timeout", True),
        (ConnectionResetError("gone"), "server_error", True),
        (ToolError("no row", code="not_found", retryable=False), "not_found", False),
        (ExceptionGroup("two", [RateLimitError("slow"), TimeoutError("late")]), "rate_limit", True),
        (ExceptionGroup("two", [RateLimitError("slow"), KeyError("k")]), "internal", False),
        (FileNotFoundError(2, "No such file or directory"), "internal", False),
        (json.JSONDecodeError("x", "y", 0), "internal", False),
        (ValueError("timeout must be positive"), "internal", False),
        (Broken("it broke"), "internal", False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("door", DOORS)
async def test_what_is_raised_is_told_as_what_it_is(
    door: Any, error: Exception, code: str, *, retryable: bool
) -> None:
    found = await run(Agent("a"), "?", **door(error))
    assert found.error is not None
    assert (found.status, found.error.code, found.error.retryable) == ("failed", code, retryable)
    assert coerce_result(error).error.code == code  # type: ignore[union-attr]


@pytest.mark.parametrize("door", DOORS)
async def test_a_failure_that_is_raised_tells_its_limits(door: Any) -> None:
    journal, failed = MemoryJournal(), door(RateLimitError("slow"))
    found = await run(Agent("a"), Request("?", run_id="r"), journal=journal, **failed)
    assert found.error is not None
    assert found.error.retry_after_s == 7
    assert found.rate_limit is not None
    assert (found.rate_limit.retry_after, found.rate_limit.windows[0].remaining) == (7, 0)
    assert found.provider_data["raw_headers"] == HEADERS
    folded = [result_of(state) async for _, state in states(journal.events("r"))][-1]
    assert folded == found


async def test_a_step_that_failed_by_an_api_fails_alike_when_it_is_asked_for_again() -> None:
    async def pay(host: Any) -> None:
        await host.once("pay", "write", lambda: give(RateLimitError("slow")))

    async def script(run: Any, host: Any, board: Any) -> None:
        with contextlib.suppress(RateLimitError, Failed):
            await pay(host)
        await host.ask_user("Go on?")
        await pay(host)

    journal, agent = MemoryJournal(), Agent("a", engine=ScriptEngine(script))
    parked = await run(agent, Request("?", run_id="r"), journal=journal)
    answers = [Answer(one.id, "yes") for one in parked.pending]
    found = await resume("r", agent, journal=journal, answers=answers)
    assert found.error is not None
    assert (found.error.code, found.error.status_code) == ("rate_limit", 429)
