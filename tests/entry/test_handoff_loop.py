"""run_with_handoffs: one request on its way from agent to agent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    AgentError,
    Budget,
    Cost,
    ErrorCode,
    FinalizeDecision,
    Handoff,
    Message,
    Misuse,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    resume,
    run_with_handoffs,
)


def to(agent_id: str, note: str = "") -> ToolCall:
    return ToolCall(f"to-{agent_id}", f"transfer_to_{agent_id}", {"note": note} if note else {})


def scripted(agent_id: str, *replies: Any, handoffs: Any = ()) -> Agent[str]:
    return Agent(agent_id, model=ScriptedModel(replies), handoffs=handoffs)


class Seen:
    """A decider that keeps what each agent's model was sent."""

    def __init__(self) -> None:
        self.by_agent: dict[str, list[Message]] = {}
        self.requests: list[tuple[str, str]] = []

    def before_model(self, info: Any, request: Any) -> None:
        self.by_agent.setdefault(info.agent_id, list(request.messages))

    def on_run_start(self, info: Any, request: Any) -> None:
        self.requests.append((info.agent_id, request.to_message().text))


async def test_the_receiver_answers() -> None:
    tech = scripted("tech", "Fixed.")
    result = await run_with_handoffs(
        [scripted("triage", to("tech"), handoffs=["tech"]), tech], "It crashes."
    )
    assert result.unwrap() == "Fixed."
    assert result.agent_id == "tech"
    assert result.state["path"] == ["triage", "tech"]
    assert result.handoff is None


async def test_agents_that_are_items_of_handoffs_need_not_be_listed() -> None:
    deep = scripted("deep", "Found.")
    tech = scripted("tech", to("deep"), handoffs=[deep])
    result = await run_with_handoffs(
        [scripted("triage", to("tech"), handoffs=[tech])], "It crashes."
    )
    assert result.state["path"] == ["triage", "tech", "deep"]


async def test_the_receiver_gets_request_messages_so_far_and_note() -> None:
    seen = Seen()
    agents = [scripted("triage", to("tech", "line 7"), handoffs=["tech"]), scripted("tech", "Ok.")]
    await run_with_handoffs(agents, "It crashes.", deciders=[seen], observers=[seen])
    got = seen.by_agent["tech"]
    assert [message.role for message in got] == ["user", "assistant", "tool", "user"]
    assert got[0].text == "It crashes."
    assert "line 7" in got[-1].text
    assert seen.requests == [("triage", "It crashes."), ("tech", "It crashes.")]


async def test_without_history_the_receiver_gets_request_and_note() -> None:
    seen = Seen()
    triage = scripted("triage", to("tech", "line 7"), handoffs=[Handoff("tech", history=False)])
    await run_with_handoffs([triage, scripted("tech", "Ok.")], "It crashes.", deciders=[seen])
    got = seen.by_agent["tech"]
    assert [message.role for message in got] == ["user", "user"]
    assert "line 7" in got[-1].text


async def test_usage_and_cost_are_of_all() -> None:
    reply = measured(None, to("tech"), cost=Cost(total=Decimal("0.25")))
    answer = measured("Ok.", cost=Cost(total=Decimal("0.5")))
    agents = [scripted("triage", reply, handoffs=["tech"]), scripted("tech", answer)]
    result = await run_with_handoffs(agents, "It crashes.")
    assert result.usage.total_tokens == 30
    assert result.cost is not None
    assert result.cost.total == Decimal("0.75")


async def test_a_call_that_was_refused_misses_no_price() -> None:
    denied = AgentError(ErrorCode.AUTH_ERROR, "No.", status_code=401)
    asked = measured(None, to("tech"), cost=Cost(total=Decimal(1)))
    first = scripted("triage", asked, handoffs=["tech"])
    result = await run_with_handoffs([first, scripted("tech", denied)], "It crashes.")
    assert result.usage.api_calls == 2
    assert result.cost is not None
    assert result.cost.unpriced_calls == 0


async def test_a_budget_of_the_call_is_that_of_all() -> None:
    reply = measured(None, to("tech"))
    agents = [scripted("triage", reply, handoffs=["tech"]), scripted("tech", measured("Ok."))]
    result = await run_with_handoffs(agents, "Go.", budget=Budget(max_tokens=15))
    assert result.error is not None
    assert result.error.code is ErrorCode.BUDGET_EXCEEDED
    assert result.error.details["dimension"] == "tokens"


async def test_a_ring_fails() -> None:
    one = scripted("one", to("two"), handoffs=["two"])
    two = scripted("two", to("one"), handoffs=["one"])
    result = await run_with_handoffs([one, two], "Go.")
    assert (result.status, result.committed) == (Status.FAILED, False)
    assert result.error is not None
    assert result.error.code is ErrorCode.BUDGET_EXCEEDED
    assert result.error.details["dimension"] == "depth"
    assert result.state["path"] == ["one", "two"]


async def test_the_depth_is_limited() -> None:
    chain = [scripted(f"a{n}", to(f"a{n + 1}"), handoffs=[f"a{n + 1}"]) for n in range(3)]
    result = await run_with_handoffs([*chain, scripted("a3", "Ok.")], "Go.", max_depth=2)
    assert result.error is not None
    assert result.error.details["dimension"] == "depth"
    assert result.state["path"] == ["a0", "a1", "a2"]


@pytest.mark.parametrize(
    ("depth", "path"), [(1.0, ["a0", "a1"]), (float("inf"), ["a0", "a1", "a2"])]
)
async def test_the_depth_may_be_a_float(depth: float, path: list[str]) -> None:
    chain = [scripted(f"a{n}", to(f"a{n + 1}"), handoffs=[f"a{n + 1}"]) for n in range(2)]
    result = await run_with_handoffs([*chain, scripted("a2", "Ok.")], "Go.", max_depth=depth)
    assert result.state["path"] == path


async def test_start_names_who_begins() -> None:
    agents = [scripted("one", "I."), scripted("two", "You.")]
    result = await run_with_handoffs(agents, "Go.", start="two")
    assert result.content == "You."


async def test_only_the_first_run_takes_the_requests_id() -> None:
    agents = [scripted("triage", to("tech"), handoffs=["tech"]), scripted("tech", "Ok.")]
    result = await run_with_handoffs(agents, Request("Go.", run_id="run-of-mine"))
    assert result.success
    assert result.run_id != "run-of-mine"


@pytest.mark.parametrize(
    ("agents", "options"),
    [
        ([], {}),
        (["triage"], {}),
        ([Agent("a"), Agent("a", name="other")], {}),
        ([Agent("a", handoffs=["nobody"])], {}),
        ([Agent("a")], {"start": "b"}),
        ([Agent("a")], {"max_depth": -1}),
    ],
    ids=["none", "a name", "one id twice", "to nobody", "an unknown start", "a negative depth"],
)
async def test_what_is_plainly_wrong_is_misuse(agents: Any, options: Any) -> None:
    with pytest.raises(Misuse):
        await run_with_handoffs(agents, "Go.", model=ScriptedModel(["x"]), **options)


async def test_a_receiver_that_is_taken_up_and_revised_keeps_the_messages_so_far() -> None:
    class Again:
        def before_finalize(self, *_: Any) -> FinalizeDecision:
            return FinalizeDecision.revise("Shorter.", "long")

    journal, seen = Ordered(), Seen()
    agents = [scripted("triage", to("tech", "line 7"), handoffs=["tech"]), scripted("tech", "Ok.")]
    await run_with_handoffs(agents, "It crashes.", journal=journal)
    replied = [n for n, event in enumerate(journal.order) if event.kind == "model_replied"]
    before = journal.cut(replied[-1])
    tech = agents[1].but(model=ScriptedModel(["Ok.", "K."]), deciders=[Again(), seen])
    run_id = before.order[-1].run_id
    result = await resume(run_id, tech, journal=before, max_attempts=2)
    assert result.attempts == 2
    board = result.last_board
    said = [message.text for message in board.messages()]  # type: ignore[attr-defined]
    assert said[0] == "It crashes."
    assert "line 7" in said[3]
    assert said[4:] == ["Shorter.", "K."]
