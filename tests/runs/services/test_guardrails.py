"""Guardrails: what refuses a request beside the first model call, or an answer before it counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.runs.kit import Do, Ordered, measured
from upshot import (
    Agent,
    AgentError,
    Approve,
    Budget,
    Decider,
    Failed,
    FinalizeDecision,
    Message,
    Misuse,
    ModelInput,
    ModelRequest,
    ModelResponse,
    Request,
    Retry,
    ScriptedModel,
    Status,
    TextDelta,
    ToolCall,
    ToolFailure,
    Usage,
    VoidText,
    input_guardrail,
    output_guardrail,
    replay,
    resume,
    run,
    start,
    tool,
)

PAY = ToolCall("p", "pay", {"cents": 5})


@input_guardrail
async def no_bombs(info: Any, request: Request) -> str | None:
    await asyncio.sleep(0)
    return "it is about bombs" if "bomb" in request.text else None


@output_guardrail
def polite(info: Any, result: Any) -> str | None:
    return "it is rude" if "fool" in (result.content or "") else None


class Shop:
    """An agent that pays, its guardrail, and what both have done."""

    def __init__(self, *, slow: int = 0, approval: bool = False, **options: Any) -> None:
        self.paid: list[int] = []
        self.asked: list[str] = []

        @tool(effect="destructive", approval=approval)
        def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

        async def careful(info: Any, request: Request) -> str | None:
            self.asked.append(request.text)
            for _ in range(slow):
                await asyncio.sleep(0)
            return "it is about bombs" if "bomb" in request.text else None

        self.guardrail = input_guardrail(careful)
        replies = [measured(None, PAY), measured("It is paid.")]
        self.agent = Agent(
            "clerk",
            model=ScriptedModel(replies),
            tools=[pay],
            deciders=[self.guardrail],
            **options,
        )


def yes(_: Any) -> bool:
    return True


@pytest.mark.parametrize("slow", [0, 50], ids=["faster than the model", "slower"])
async def test_a_request_that_passes_costs_nothing_but_the_check(slow: int) -> None:
    shop = Shop(slow=slow)
    result = await run(shop.agent, "Pay.", approve=yes)
    assert (result.content, shop.paid, shop.asked) == ("It is paid.", [5], ["Pay."])
    assert result.usage.api_calls == 2


@pytest.mark.parametrize("slow", [0, 50], ids=["faster than the model", "slower"])
async def test_a_refused_request_ends_the_run_before_any_call(slow: int) -> None:
    shop = Shop(slow=slow)
    result = await run(shop.agent, "Pay for the bomb.", approve=yes)
    assert result.error is not None
    assert (result.status, result.error.code) == (Status.FAILED, "policy_denied")
    assert result.error.guardrail == "careful"
    assert result.error.details["reason"] == "it is about bombs"
    assert str(result.error.message) == "careful refused the request: it is about bombs"
    assert (result.committed, result.content, result.messages) == (False, None, ())
    assert (shop.paid, result.tool_records) == ([], ())
    assert result.usage.api_calls == 1


class Endless:
    """Streams without end, and notes that it was stopped."""

    name = "test:endless"

    def __init__(self, first: list[Any]) -> None:
        self._first = first
        self.is_stopped = False

    async def call(self, request: ModelInput) -> ModelResponse:
        try:
            await asyncio.Event().wait()
            raise NotImplementedError
        finally:
            self.is_stopped = True

    async def stream(self, request: ModelInput) -> AsyncIterator[Any]:
        for item in self._first:
            yield item
        await self.call(request)


async def test_the_model_call_is_cancelled() -> None:
    model = Endless([])
    result = await run(Agent("a", model=model), "A bomb.", deciders=[no_bombs])
    assert result.error is not None
    assert (model.is_stopped, result.error.code) == (True, "policy_denied")
    assert (result.usage.api_calls, result.usage.unmeasured_calls) == (1, 1)


async def test_what_the_cancelled_call_used_counts_and_its_text_is_void() -> None:
    used = Usage(input_tokens=7, output_tokens=2)
    is_read = asyncio.Event()

    async def late(info: Any, request: Request) -> str | None:
        await is_read.wait()
        return "too late"

    model = Endless([TextDelta(text="Sure, "), TextDelta(text="I "), used])
    agent = Agent("a", model=model, deciders=[input_guardrail(late)])
    pieces: list[str] = []
    async with start(agent, "Go.") as live:
        async for piece in live.text():
            pieces.append(piece)
            if piece == "I ":
                assert live.partial() == "Sure, I "
                is_read.set()
        result = await live.result()
        assert live.partial() is None
    last = pieces[-1]
    assert isinstance(last, VoidText)
    assert "".join(pieces[:-1])[: -last.voids] == ""
    assert (result.usage.input_tokens, result.usage.api_calls) == (7, 1)
    assert result.content is None


async def test_a_refused_answer_is_withheld_and_its_text_is_void() -> None:
    agent = Agent("a", model=ScriptedModel([measured("You fool.")]), deciders=[polite])
    pieces: list[str] = []
    async with start(agent, "Go.") as live:
        async for piece in live.text():
            pieces.append(piece)
        result = await live.result()
        assert live.partial() is None
    last = pieces[-1]
    assert isinstance(last, VoidText)
    assert last.voids == len("You fool.")
    assert result.error is not None
    assert result.error.message == "polite refused the answer: it is rude"
    assert (result.status, result.content, result.output) == ("failed", None, None)
    assert not result.committed
    assert result.messages[-1].text == "You fool."


async def test_the_first_refusal_ends_the_other_checks() -> None:
    async def hangs(info: Any, request: Request) -> None:
        await asyncio.Event().wait()

    deciders = [input_guardrail(hangs), no_bombs]
    result = await run(Agent("a", model=ScriptedModel(["Hm."])), "A bomb.", deciders=deciders)
    assert result.error is not None
    assert result.error.guardrail == "no_bombs"


@pytest.mark.parametrize("given", [True, 5, "", KeyError("x")], ids=repr)
@pytest.mark.parametrize("kind", [input_guardrail, output_guardrail])
async def test_a_guardrail_that_is_broken_lets_nothing_pass(kind: Any, given: Any) -> None:
    def broken(info: Any, request: Any) -> Any:
        if isinstance(given, Exception):
            raise given
        return given

    result = await run(Agent("a", model=ScriptedModel(["Hm."]), deciders=[kind(broken)]), "?")
    assert result.error is not None
    assert (result.error.code, result.committed) == ("hook_failed", False)
    assert "broken." in result.error.message


async def test_a_request_can_only_be_accepted_or_refused() -> None:
    class Odd(Decider):
        def check_request(self, info: Any, request: Any) -> FinalizeDecision:
            return FinalizeDecision.revise("Again.")

    result = await run(Agent("a", model=ScriptedModel(["Hm."]), deciders=[Odd()]), "?")
    assert result.error is not None
    assert result.error.code == "hook_failed"
    assert "Odd.check_request" in result.error.message


def test_a_guardrail_is_made_of_a_function() -> None:
    given: Any
    for given in (5, Decider, None):
        with pytest.raises(Misuse, match="a guardrail is a function"):
            input_guardrail(given)


async def cut_runs(text: str) -> list[tuple[Any, Shop]]:
    shop, journal = Shop(), Ordered()
    await run(shop.agent, Request(text, run_id="r"), journal=journal, approve=yes)
    found: list[tuple[Any, Shop]] = []
    for length in range(1, len(journal.order) + 1):
        fresh = Shop()
        again = await resume("r", fresh.agent, journal=journal.cut(length), approve=yes)
        found.append((again, fresh))
    return found


async def test_a_refusal_holds_after_any_crash() -> None:
    for result, shop in await cut_runs("A bomb."):
        assert result.error is not None
        assert (result.error.code, result.error.details["guardrail"]) == (
            "policy_denied",
            "careful",
        )
        assert (result.content, result.committed, shop.paid) == (None, False, [])


async def test_a_request_that_has_passed_is_not_checked_again() -> None:
    asked = [len(shop.asked) for result, shop in await cut_runs("Pay.") if result.success]
    assert asked
    assert asked == sorted(asked, reverse=True)
    assert (asked[0], asked[-1]) == (1, 0)


async def test_a_refused_answer_is_withheld_after_any_crash() -> None:
    agent = Agent("a", model=ScriptedModel([measured("You fool.")] * 2), deciders=[polite])
    journal = Ordered()
    await run(agent, Request("Go.", run_id="r"), journal=journal)
    for length in range(1, len(journal.order) + 1):
        fresh = agent.but(model=ScriptedModel([measured("You fool.")] * 2))
        result = await resume("r", fresh, journal=journal.cut(length))
        assert result.error is not None
        assert (result.error.code, result.content, result.committed) == (
            "policy_denied",
            None,
            False,
        )


async def test_a_parked_run_resumes_without_another_check() -> None:
    shop, journal = Shop(approval=True), Ordered()
    await run(shop.agent, Request("Pay.", run_id="r"), journal=journal)
    result = await resume("r", shop.agent, journal=journal, answers=[Approve("p")])
    assert (result.success, shop.paid, shop.asked) == (True, [5], ["Pay."])


class Again(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision | None:
        return FinalizeDecision.revise("Again.") if result.content == "One." else None


async def test_a_further_attempt_is_not_checked_again() -> None:
    asked: list[str] = []

    def note(info: Any, request: Request) -> None:
        asked.append(request.text)

    agent = Agent("a", model=ScriptedModel(["One.", "Two."]))
    deciders = [Again(), input_guardrail(note)]
    result = await run(agent, "Go.", deciders=deciders, max_attempts=2)
    assert (result.content, asked) == ("Two.", ["Go."])


async def test_an_engine_that_does_not_start_with_a_model_call_starts_after_the_check() -> None:
    started: list[str] = []

    async def work(child: Any, host: Any, board: Any) -> str:
        started.append(child.request.text)
        return "done"

    agent = Agent[Any]("a", engine=Do(work), deciders=[no_bombs])
    refused = await run(agent, "A bomb.")
    passed = await run(agent, "A flower.")
    assert (refused.status, passed.status, started) == ("failed", "completed", ["A flower."])
    assert refused.usage.api_calls == 0


async def test_an_engine_cannot_ignore_a_refusal() -> None:
    class Stubborn:
        goes_on_by_log = True

        async def execute(self, child: Any, host: Any, board: Any) -> Any:
            try:
                await child.call_model(ModelRequest((Message("user", "?"),)))
            except Failed:
                return "I go on."

    engine: Any = Stubborn()
    agent = Agent[Any]("a", engine=engine, model=ScriptedModel(["Hm."]), deciders=[no_bombs])
    result = await run(agent, "A bomb.")
    assert result.error is not None
    assert (result.status, result.error.code) == ("failed", "policy_denied")


async def test_an_agent_as_a_tool_has_its_own_guardrails() -> None:
    shop = Shop()
    ask = ToolCall("c", "clerk", {"request": "Pay for the bomb."})
    boss = Agent("boss", model=ScriptedModel([ask, "I could not."]), tools=[shop.agent])
    result = await run(boss, "Go.", deciders=[no_bombs], approve=yes)
    (outcome,) = result.tool_outcomes
    assert isinstance(outcome, ToolFailure)
    assert "careful refused the request: it is about bombs" in outcome.error
    assert (result.content, shop.paid, outcome.code) == ("I could not.", [], "policy_denied")


async def test_no_further_try_is_made_and_one_that_waits_costs_nothing() -> None:
    has_failed = asyncio.Event()

    def fail(_: Any) -> ModelResponse:
        has_failed.set()
        error = AgentError("server_error", "down", status_code=500, retryable=True)
        return ModelResponse(error=error)

    async def late(info: Any, request: Request) -> str:
        await has_failed.wait()
        await asyncio.sleep(0.01)
        return "too late"

    agent = Agent("a", model=ScriptedModel([fail, "Hm."]), retry=Retry(base_s=60.0))
    result = await run(agent, "Go.", deciders=[input_guardrail(late)])
    assert result.error is not None
    assert (result.error.code, "charged" in result.error.details) == ("policy_denied", False)
    assert (result.usage.api_calls, result.usage.unmeasured_calls) == (1, 0)


async def test_a_refused_turn_is_no_part_of_its_conversation() -> None:
    journal = Ordered()
    options: Any = {"journal": journal, "conversation": "ada", "deciders": [no_bombs, polite]}
    for text, answer in (("A bomb.", "Sure."), ("Go.", "You fool."), ("Hi.", "Hello.")):
        await run(Agent("a", model=ScriptedModel([answer])), text, **options)
    messages = (await journal.conversation("ada")).messages
    assert [message.text for message in messages] == ["Hi.", "Hello."]


async def test_a_replay_does_as_the_run_did() -> None:
    for text in ("Pay.", "A bomb."):
        shop, journal = Shop(), Ordered()
        await run(shop.agent, Request(text, run_id="r"), journal=journal, approve=yes)
        replayed = await replay("r", shop.agent, journal=journal)
        assert replayed.difference is None, text
        assert shop.asked == [text]


async def test_a_guardrail_may_ask_an_agent_whose_usage_counts() -> None:
    judge = Agent("judge", model=ScriptedModel([measured("bad")]))

    async def judged(info: Any, request: Request) -> str | None:
        return (await run(judge, request.text)).content

    agent = Agent("a", model=ScriptedModel([measured("Hm.")]), deciders=[input_guardrail(judged)])
    result = await run(agent, "Go.")
    assert result.error is not None
    assert result.error.details["reason"] == "bad"
    assert result.usage.api_calls == 2


async def test_a_check_that_hangs_ends_with_the_run() -> None:
    has_begun: list[bool] = []
    is_ended: list[bool] = []

    async def hangs(info: Any, request: Request) -> None:
        has_begun.append(True)
        try:
            await asyncio.Event().wait()
        finally:
            is_ended.append(True)

    agent = Agent("a", model=ScriptedModel([measured("Hm.")]), deciders=[input_guardrail(hangs)])
    result = await run(agent, "Go.", budget=Budget(deadline_s=0.02))
    assert result.error is not None
    # On a busy machine the time may be over before the check begins.
    assert (result.error.code, is_ended) == ("timeout", has_begun)
    assert result.usage.api_calls == len(has_begun)
    assert result.usage.total_tokens
