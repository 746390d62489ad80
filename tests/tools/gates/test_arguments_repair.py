"""A model corrects arguments once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from upshot import Agent, Approve, Budget, ModelSettings, ScriptEngine, Status, resume, run
from upshot.contract import (
    AgentError,
    ErrorCode,
    ModelReplied,
    ModelRequest,
    ModelResponse,
    RunEvent,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    Usage,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.tools import Toolbox, tool

WRONG = ToolCall("1", "double", '{"n": "three"}')


@tool(effect="read", repair=True)
async def double(n: int) -> int:
    return 2 * n


class Corrector:
    """Says the same each time, and remembers what it was asked."""

    def __init__(self, said: str = '{"n": 3}') -> None:
        self.asked: list[ModelRequest] = []
        self._said = said

    async def __call__(self, request: ModelRequest) -> ModelResponse:
        self.asked.append(request)
        return ModelResponse(content=self._said)


async def test_corrected_arguments_run_and_are_recorded():
    corrector = Corrector('Here you are:\n```json\n{"n": "3"}\n```')
    box = Toolbox([double], repair=corrector)
    outcome = (await box.dispatch([WRONG]))[0]
    assert isinstance(outcome, ToolExecutionResult), outcome
    assert (outcome.output, outcome.was_coerced) == ({"result": 6}, True)
    record = box.records[0]
    assert record.arguments_given == '{"n": "three"}'
    assert [(one.rule, one.path) for one in record.coercions] == [("model", ""), ("integer", "/n")]
    assert record.coercions[0].before == '{"n": "three"}'
    assert record.coercions[0].after == {"n": 3}
    assert [verdict.verdict for verdict in record.trace if verdict.gate == "arguments"] == [
        "edit",
        "pass",
    ]


async def test_the_model_is_shown_faults_and_schema_once():
    corrector = Corrector('{"n": "four"}')
    outcome = (await Toolbox([double], repair=corrector).dispatch([WRONG]))[0]
    assert isinstance(outcome, ToolDenied)
    assert "three" in outcome.details
    assert len(corrector.asked) == 1
    (message,) = corrector.asked[0].messages
    assert all(word in message.text for word in ('"three', '"type":"integer"', "/n"))


async def failing(request: ModelRequest) -> ModelResponse:
    raise ConnectionError("no network")


async def refusing(request: ModelRequest) -> ModelResponse:
    error = AgentError(ErrorCode.RATE_LIMIT, "later")
    return ModelResponse(content='{"n": 3}', error=error)


async def chatting(request: ModelRequest) -> ModelResponse:
    return ModelResponse(content="I cannot say.")


@pytest.mark.parametrize("ask", [failing, refusing, chatting])
async def test_without_an_answer_the_denial_stands(
    ask: Callable[[ModelRequest], Awaitable[ModelResponse]],
):
    outcome = (await Toolbox([double], repair=ask).dispatch([WRONG]))[0]
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, "three" in outcome.details) == ("validation", True)


async def test_only_tools_that_want_it_are_corrected():
    corrector = Corrector()
    outcome = (await Toolbox([double.but(repair=False)], repair=corrector).dispatch([WRONG]))[0]
    assert isinstance(outcome, ToolDenied)
    assert corrector.asked == []


async def test_a_secret_is_sent_to_nobody():
    corrector = Corrector()
    outcome = (await Toolbox([double], repair=corrector, secrets=["three"]).dispatch([WRONG]))[0]
    assert isinstance(outcome, ToolDenied)
    assert corrector.asked == []


async def test_a_dry_run_asks_nobody():
    corrector = Corrector()
    found = await Toolbox([double], repair=corrector).check(WRONG)
    assert (found.would_run, corrector.asked) == (False, [])


async def test_others_go_on_while_a_model_is_asked():
    has_run = asyncio.Event()

    @tool(effect="read")
    async def other() -> None:
        has_run.set()

    async def ask(request: ModelRequest) -> ModelResponse:
        await has_run.wait()
        return ModelResponse(content='{"n": 3}')

    box = Toolbox([double, other], repair=ask, budget=Budget(deadline_s=10))
    outcomes = await box.dispatch([WRONG, ToolCall("2", "other")])
    assert all(isinstance(outcome, ToolExecutionResult) for outcome in outcomes)


def replies(*items: Any) -> ScriptedModel:
    return ScriptedModel(list(items))


def counted(content: str) -> ModelResponse:
    return ModelResponse(content=content, usage=Usage(input_tokens=10, output_tokens=1))


async def test_in_a_run_it_counts_and_is_no_turn_of_the_engines():
    events: list[RunEvent] = []

    class Look:
        def publish(self, event: RunEvent) -> None:
            events.append(event)

    model = replies([WRONG], counted('{"n": 3}'), counted("six"))
    result = await run(Agent("a", model=model, tools=[double]), "?", host=Look())
    assert (result.content, result.usage.input_tokens) == ("six", 20)
    assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
    replied = [event.purpose for event in events if isinstance(event, ModelReplied)]
    assert replied == ["", "repair", ""]


async def test_in_a_run_the_model_that_corrects_is_offered_no_tools_and_forced_to_none():
    asked: list[ModelRequest] = []

    def reply(request: ModelRequest) -> Any:
        asked.append(request)
        return WRONG if len(asked) == 1 else '{"n": 3}'

    class Model:
        name = "own"

        async def call(self, request: ModelRequest) -> ModelResponse:
            said = reply(request)
            calls = (said,) if isinstance(said, ToolCall) else ()
            return ModelResponse(content=None if calls else said, tool_calls=calls)

    settings = ModelSettings(tool_choice="double", parallel_tool_calls=False, temperature=0.5)
    await run(Agent("a", model=Model(), tools=[double], settings=settings), "?")
    told = asked[1].settings
    assert asked[1].tools == ()
    assert told is not None
    assert (told.temperature, told.tool_choice, told.parallel_tool_calls) == (0.5, None, None)


async def test_without_a_model_in_the_run_the_denial_stands():
    async def work(run: Any, host: Any, board: Any) -> Any:
        (outcome,) = await run.tools.dispatch([WRONG])
        return outcome.reason

    agent = Agent("a", engine=ScriptEngine(work), tools=[double])
    assert (await run(agent, "?")).output == "validation"


async def test_a_spent_budget_leaves_the_denial():
    model = replies([WRONG], counted('{"n": 3}'))
    agent = Agent("a", model=model, tools=[double], budget=Budget(max_turns=1))
    result = await run(agent, "?")
    assert result.error is not None
    assert result.error.code == "max_turns"
    assert isinstance(result.tool_outcomes[0], ToolDenied)


async def test_a_parked_call_keeps_what_people_were_asked_about():
    journal = MemoryJournal()
    asking = double.but(approval=True)
    agent = Agent("a", model=replies([WRONG], '{"n": 3}', "six"), tools=[asking])
    parked = await run(agent, "?", journal=journal)
    assert parked.status is Status.INPUT_REQUIRED
    again = agent.but(model=replies([WRONG], '{"n": 3}', "six"))
    result = await resume(parked.run_id, again, journal=journal, answers=[Approve("1")])
    assert (result.content, result.tool_records[0].arguments_executed) == ("six", {"n": 3})


async def test_a_reply_that_corrects_is_not_taken_for_an_answer():
    journal = MemoryJournal()
    agent = Agent("a", model=replies([WRONG], '{"n": 3}', "six"), tools=[double])
    await run(agent, "?", journal=journal)
    (summary,) = await journal.runs()
    cut = MemoryJournal()
    await cut.claim(summary.run_id)
    async for event in journal.events(summary.run_id):
        if event.kind == "tool_started":
            break
        cut.append(event)
    again = agent.but(model=replies([WRONG], '{"n": 3}', '{"n": 3}', "six"))
    result = await resume(summary.run_id, again, journal=cut)
    assert (result.status, result.content) == (Status.COMPLETED, "six")
    assert result.tool_records[0].arguments_executed == {"n": 3}
