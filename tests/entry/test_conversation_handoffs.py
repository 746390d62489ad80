"""A request that is handed over within a conversation is one turn."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    Approve,
    Handoff,
    Message,
    ScriptedModel,
    ToolCall,
    resume,
    run,
    run_with_handoffs,
    tool,
)
from upshot.journal.run_list import TurnClaim


def to(agent_id: str) -> list[ToolCall]:
    call = ToolCall(f"to-{agent_id}", f"transfer_to_{agent_id}", {"note": f"for {agent_id}"})
    return [call]


NOTE = "Handed over by desk: for till"


class Shop:
    """A desk that hands over to a till."""

    def __init__(self, *, history: bool = True, answer: Any = "Paid.") -> None:
        self.desk_model = ScriptedModel([to("till")])
        self.till_model = ScriptedModel([] if answer is None else [answer, "Done."])
        handoff = Handoff("till", history=history)
        self.paid: list[int] = []

        @tool(effect="write", approval=True)
        def pay(order: int) -> str:
            """Pay."""
            self.paid.append(order)
            return "paid"

        self.agents = [
            Agent[Any]("desk", model=self.desk_model, handoffs=[handoff]),
            Agent[Any]("till", model=self.till_model, tools=[pay]),
        ]


async def say(text: str, reply: str, journal: Any, **options: Any) -> ScriptedModel:
    model = ScriptedModel([reply])
    more = {"conversation": "ada", **options}
    assert (await run(Agent("talker", model=model), text, journal=journal, **more)).success
    return model


def said(messages: Any) -> list[str]:
    return [message.text or message.tool_calls[0].id for message in messages]


async def test_the_receiver_gets_the_messages_once(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    shop = Shop()
    done = await run_with_handoffs(shop.agents, "Pay.", journal=journal, conversation="ada")
    assert (done.content, done.state["path"]) == ("Paid.", ["desk", "till"])
    got = said(shop.till_model.calls[0].messages)
    assert got[:4] == ["One?", "Re one.", "Pay.", "to-till"]
    assert (len(got), got[-1]) == (6, NOTE)


async def test_without_history_it_gets_request_and_note_alone(journal: Any) -> None:
    await say("One?", "Re one.", journal)
    shop = Shop(history=False)
    await run_with_handoffs(shop.agents, "Pay.", journal=journal, conversation="ada")
    assert said(shop.till_model.calls[0].messages) == ["Pay.", NOTE]


async def test_without_history_it_gets_none_that_was_given_either() -> None:
    shop = Shop(history=False)
    told = [Message("user", "Hi."), Message("assistant", "Hello.")]
    await run_with_handoffs(shop.agents, "Pay.", history=told)
    assert said(shop.till_model.calls[0].messages) == ["Pay.", NOTE]


@pytest.mark.parametrize("history", [True, False], ids=["all", "without"])
async def test_later_turns_see_the_whole_chain_once(journal: Any, history: bool) -> None:
    shop = Shop(history=history)
    await run_with_handoffs(shop.agents, "Pay.", journal=journal, conversation="ada")
    later = await say("And?", "Yes.", journal)
    got = said(later.calls[0].messages)
    assert (got[:2], got[3:]) == (["Pay.", "to-till"], [NOTE, "Paid.", "And?"])
    talk = await journal.conversation("ada")
    assert (talk.revision, len(talk.runs)) == (2, 3)


async def test_a_receiver_is_a_child_of_the_run_that_handed_over(journal: Any) -> None:
    shop = Shop()
    await run_with_handoffs(shop.agents, "Pay.", journal=journal, conversation="ada")
    first, second = (await journal.conversation("ada")).runs
    assert (second.parent_run_id, second.turn) == (first.run_id, first.run_id)
    assert (first.revision, second.revision) == (0, 1)


async def test_a_chain_that_waits_has_the_turn(journal: Any) -> None:
    shop = Shop(answer=[ToolCall("p", "pay", {"order": 7})])
    waits = await run_with_handoffs(shop.agents, "Pay.", journal=journal, conversation="ada")
    assert waits.status == "input_required"
    other = Agent[Any]("talker", model=ScriptedModel(["Hm."]))
    blocked = await run(other, "And?", journal=journal, conversation="ada")
    assert blocked.error is not None
    assert (blocked.error.code, blocked.error.details["run_id"]) == ("conflict", waits.run_id)
    done = await resume(waits.run_id, shop.agents, journal=journal, answers=[Approve("p")])
    assert (done.content, shop.paid) == ("Done.", [7])
    assert (await run(other, "And?", journal=journal, conversation="ada")).success


async def test_a_chain_that_fails_is_no_committed_turn(journal: Any) -> None:
    shop = Shop(answer=None)
    failed = await run_with_handoffs(
        shop.agents, "Pay.", journal=journal, conversation="ada", retry=None
    )
    assert failed.status == "failed"
    later = await say("And?", "Yes.", journal)
    assert said(later.calls[0].messages) == ["And?"]


async def test_a_chain_that_is_not_followed_lets_the_turn_go(journal: Any) -> None:
    desk = Agent[Any]("desk", model=ScriptedModel([to("till"), to("till")]), handoffs=["till"])
    till = Agent[Any]("till", model=ScriptedModel([to("desk")] * 2), handoffs=["desk"])
    ring = await run_with_handoffs([desk, till], "Pay.", journal=journal, conversation="ada")
    assert (ring.status, ring.state["path"]) == ("failed", ["desk", "till"])
    assert said((await say("And?", "Yes.", journal)).calls[0].messages) == ["And?"]


async def test_a_chain_keeps_the_turn_between_its_runs(journal: Any) -> None:
    found: list[Any] = []

    class Between:
        """Begins another turn after the desk has ended, and before the till begins."""

        async def on_run_start(self, info: Any, request: Any) -> None:
            if info.agent_id == "till":
                found.append(await journal.claim_turn("other", TurnClaim("ada", "other")))

    shop = Shop()
    done = await run_with_handoffs(
        shop.agents, "Pay.", journal=journal, conversation="ada", observers=[Between()]
    )
    assert done.success
    assert [one.status for one in found] == ["running"]


async def test_a_chain_that_goes_on_elsewhere_has_its_history(journal: Any) -> None:
    shop = Shop()
    told = [Message("user", "Hi."), Message("assistant", "Hello.")]
    desk = ScriptedModel([[ToolCall("p", "pay", {"order": 7})], to("till")])
    agents = [shop.agents[0].but(model=desk, tools=shop.agents[1].tools), shop.agents[1]]
    waits = await run_with_handoffs(agents, "Pay.", journal=journal, history=told)
    assert waits.status == "input_required"
    done = await resume(waits.run_id, agents, journal=journal, answers=[Approve("p")])
    assert done.content == "Paid."
    assert said(shop.till_model.calls[0].messages)[:4] == ["Hi.", "Hello.", "Pay.", "p"]
