"""A request that was handed over and then waited for people, or whose process died, goes on."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.runs.kit import Ordered, Raced, kinds, log_of, measured
from upshot import (
    Agent,
    Answer,
    Approve,
    Budget,
    Cost,
    Event,
    Handoff,
    Message,
    Misuse,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolStarted,
    resume,
    run,
    run_with_handoffs,
    tool,
)

PAY = ToolCall("p", "pay", {"cents": 5})


def to(agent_id: str) -> ToolCall:
    return ToolCall(f"to-{agent_id}", f"transfer_to_{agent_id}", {"note": f"for {agent_id}"})


class Shop:
    """Three agents: triage hands over to the till, which pays and hands over to the clerk."""

    def __init__(self, *, history: bool = True) -> None:
        self.paid: list[int] = []
        self.sent: list[list[Message]] = []

        @tool(effect="destructive", on_unknown="tell")
        def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

        def thank(messages: Any) -> Any:
            self.sent.append(list(messages))
            return measured("Thanks.", cost=Cost(total=Decimal(4)))

        self.clerk = Agent("clerk", model=ScriptedModel([thank]))
        till = [
            measured(None, PAY, cost=Cost(total=Decimal(2))),
            measured(None, to("clerk"), cost=Cost(total=Decimal(2))),
        ]
        clerk = Handoff("clerk", history=history)
        self.till = Agent("till", model=ScriptedModel(till), tools=[pay], handoffs=[clerk])
        first = [measured(None, to("till"), cost=Cost(total=Decimal(1)))]
        self.triage = Agent("triage", model=ScriptedModel(first), handoffs=["till"])

    @property
    def agents(self) -> list[Agent[Any]]:
        return [self.triage, self.till, self.clerk]


async def park(shop: Shop, journal: Ordered, **options: Any) -> Any:
    asked = Request("Sell it.", run_id="first")
    return await run_with_handoffs(shop.agents, asked, journal=journal, **options)


async def test_after_an_answer_it_goes_on_with_path_usage_and_cost_of_all() -> None:
    shop, journal = Shop(), Ordered()
    parked = await park(shop, journal)
    assert (parked.status, parked.state["path"]) == (Status.INPUT_REQUIRED, ["triage", "till"])
    result = await resume(parked.run_id, shop.agents, journal=journal, answers=[Approve("p")])
    assert (result.content, result.agent_id, shop.paid) == ("Thanks.", "clerk", [5])
    assert result.state["path"] == ["triage", "till", "clerk"]
    assert result.usage.api_calls == 4
    assert result.cost is not None
    assert result.cost.total == 9


async def test_the_next_one_gets_what_it_would_have_got_at_once() -> None:
    shop, journal = Shop(), Ordered()
    parked = await park(shop, journal)
    await resume(parked.run_id, shop.agents, journal=journal, answers=[Approve("p")])
    at_once = Shop()
    await run_with_handoffs(at_once.agents, "Sell it.", approve=lambda _: True)
    assert shop.sent == at_once.sent
    assert len(shop.sent[0]) > 5


async def test_a_handoff_without_history_hands_none_on_after_a_wait_either() -> None:
    shop, journal = Shop(history=False), Ordered()
    parked = await park(shop, journal)
    await resume(parked.run_id, shop.agents, journal=journal, answers=[Approve("p")])
    assert [message.text for message in shop.sent[0]] == [
        "Sell it.",
        "Handed over by till: for clerk",
    ]


async def test_the_run_that_began_it_leads_to_the_one_that_waits() -> None:
    shop, journal = Shop(), Ordered()
    await park(shop, journal)
    result = await resume("first", shop.agents, journal=journal, answers=[Approve("p")])
    assert (result.content, shop.paid) == ("Thanks.", [5])
    assert result.state["path"] == ["triage", "till", "clerk"]
    again = await resume("first", shop.agents, journal=journal)
    assert (again.content, again.usage, again.cost) == ("Thanks.", result.usage, result.cost)
    assert (len(shop.sent), shop.paid) == (1, [5])


async def test_who_is_cut_off_anywhere_comes_to_the_same_end() -> None:
    shop, journal = Shop(), Ordered()
    whole = await park(shop, journal, approve=lambda _: True)
    assert whole.success
    for length in range(1, len(journal.order) + 1):
        again = Shop()
        before = journal.cut(length)
        last = before.order[-1]
        if isinstance(last, ToolStarted) and last.call.name == "pay":
            # Nobody knows then what came of it, so the model is asked once more.
            continue
        result = await resume("first", again.agents, journal=before, approve=lambda _: True)
        assert result.content == "Thanks.", length
        assert result.state["path"] == ["triage", "till", "clerk"]
        settled = [event.kind for event in before.order].count("run_settled")
        assert settled == 3, length
        asked = [event for event in before.order if event.kind == "model_started"]
        assert result.usage.api_calls == len(asked)


async def test_one_that_is_parked_before_it_hands_over_hands_over_then() -> None:
    shop, journal = Shop(), Ordered()
    parked = await run_with_handoffs([shop.till, shop.clerk], "Sell it.", journal=journal)
    assert parked.state["path"] == ["till"]
    answers = [Approve("p")]
    result = await resume(parked.run_id, [shop.till, shop.clerk], journal=journal, answers=answers)
    assert result.state["path"] == ["till", "clerk"]


async def test_an_agent_alone_is_enough_where_nobody_else_is_needed() -> None:
    shop, journal = Shop(), Ordered()
    parked = await park(shop, journal)
    till = shop.till.but(handoffs=[Handoff("clerk")])
    result = await resume(parked.run_id, till, journal=journal, answers=[Approve("p")])
    assert result.state["path"] == ["triage", "till"]
    assert result.usage.api_calls == 3
    assert result.handoff is not None
    assert [one.code for one in result.warnings] == ["handoff_not_followed"]
    # Nothing is lost: with all of them it goes on.
    end = await resume(parked.run_id, shop.agents, journal=journal)
    assert (end.content, shop.paid) == ("Thanks.", [5])


async def test_the_budget_stays_that_of_all() -> None:
    shop, journal = Shop(), Ordered()
    parked = await park(shop, journal, budget=Budget(max_tokens=50))
    result = await resume(parked.run_id, shop.agents, journal=journal, answers=[Approve("p")])
    assert result.content == "Thanks."
    events = [event for event in journal.order if event.kind == "run_started"]
    left = [event.options["budget"]["max_tokens"] for event in events]  # type: ignore[union-attr, index, call-overload]
    assert left == [50, 35, 5]


@pytest.mark.parametrize("resumed", ["first", "the one that waits"])
@pytest.mark.parametrize(
    ("budget", "dimension"),
    [(Budget(max_tokens=44), "tokens"), (Budget(max_cost_usd=5), "cost_usd")],
)
async def test_a_budget_given_to_a_resume_is_that_of_all_runs_too(
    budget: Budget, dimension: str, resumed: str
) -> None:
    shop, journal = Shop(), Ordered()
    parked = await park(shop, journal)
    run_id = parked.run_id if resumed != "first" else resumed
    result = await resume(
        run_id, shop.agents, journal=journal, answers=[Approve("p")], budget=budget
    )
    assert result.error is not None
    assert result.error.details["dimension"] == dimension
    assert (result.usage.api_calls, shop.paid) == (3, [5])


async def test_a_ring_fails_after_a_wait_too() -> None:
    shop, journal = Shop(), Ordered()
    triage = shop.triage.but(id="clerk")
    agents = [triage, shop.till]
    parked = await run_with_handoffs(agents, "Sell it.", journal=journal)
    result = await resume(parked.run_id, agents, journal=journal, answers=[Approve("p")])
    assert result.error is not None
    assert result.error.details["dimension"] == "depth"


async def test_a_run_inside_may_have_any_key() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        for key in ("relay", "handoff", "next"):
            await run.child(Agent("inner", model=ScriptedModel(["Hm."])), "?", key=key)
        await run.tools.dispatch([to("clerk")])

    shop, journal = Shop(), Ordered()
    first = Agent[Any]("first", engine=ScriptEngine(work), handoffs=["clerk"])
    result = await run_with_handoffs([first, shop.clerk], "Sell it.", journal=journal)
    assert result.content == "Thanks."


async def test_of_several_agents_a_run_takes_its_own() -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Well?")

    journal, asker = Ordered(), Agent[Any]("asker", engine=ScriptEngine(ask))
    await run(asker, Request("?", run_id="r"), journal=journal)
    answers = [Answer("question-1-1", "Yes.")]
    with pytest.raises(Misuse, match="asker"):
        await resume("r", [Agent("other")], journal=journal, answers=answers)
    result = await resume("r", [Agent("other"), asker], journal=journal, answers=answers)
    assert result.output == "Yes."
    assert "path" not in result.state


async def cut_before_the_receiver() -> tuple[list[Event], list[Event], str]:
    """What the first agent logs, what the others do, and the id of the second one's run."""
    journal = Ordered()
    await park(Shop(), journal, approve=lambda _: True)
    second = next(event.run_id for event in journal.order if event.run_id != "first")
    length = next(at for at, event in enumerate(journal.order) if event.run_id == second)
    return journal.order[:length], journal.order[length:], second


async def test_a_receiver_that_another_process_began_meanwhile_is_not_begun_again() -> None:
    before, then, second = await cut_before_the_receiver()
    shop, journal = Shop(), Raced(before, second, then)
    result = await resume("first", shop.agents, journal=journal)
    assert (result.status, result.content, shop.paid) == (Status.COMPLETED, "Thanks.", [])
    assert result.state["path"] == ["triage", "till", "clerk"]
    assert result.usage.api_calls == 4
    assert [event async for event in journal.events(second)] == [
        one for one in then if one.run_id == second
    ]


async def test_a_receiver_that_another_process_has_not_ended_is_gone_on_with() -> None:
    _, then, second = await cut_before_the_receiver()
    began = next(at for at, one in enumerate(then) if one.kind == "model_replied")
    shop, journal = Shop(), Raced([], second, then[:began])
    asked = Request("Sell it.", run_id="first")
    options: Any = {"journal": journal, "approve": lambda _: True}
    result = await run_with_handoffs(shop.agents, asked, **options)
    assert (result.status, result.content, shop.paid) == (Status.COMPLETED, "Thanks.", [5])
    assert result.state["path"] == ["triage", "till", "clerk"]
    assert kinds(await log_of(journal, second)).count("run_resumed") == 1
