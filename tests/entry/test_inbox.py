"""The inbox: what waits, of which run, until somebody has answered."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    Answer,
    Graph,
    GraphEngine,
    Misuse,
    Outdated,
    PendingApproval,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    answer,
    inbox,
    resume,
    run,
    tool,
)
from upshot.engines import AgentTask


@tool(effect="destructive", approval=True)
def pay(to: str) -> str:
    """Pay."""
    return "paid"


def payer(*names: str) -> Agent[Any]:
    calls = [ToolCall(f"p{n}", "pay", {"to": name}) for n, name in enumerate(names)]
    return Agent("till", model=ScriptedModel([calls, "Done."]), tools=[pay])


def asker() -> Agent[Any]:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return [await host.ask_user(f"{one} colour?") for one in ("First", "Second")]

    return Agent("asker", engine=ScriptEngine(ask))


async def ids(journal: Any, **how: Any) -> list[tuple[str, str]]:
    return [(one.run_id, one.pending.id) for one in await inbox(journal=journal, **how)]


async def test_what_waits_is_there_until_somebody_has_answered(journal: Any) -> None:
    request = Request("Pay them.", run_id="r")
    await run(payer("ann", "bob"), request, journal=journal, conversation="talk")
    await run(Agent("other", model=ScriptedModel(["Hi."])), "Hello.", journal=journal)
    first, second = await inbox(journal=journal)
    assert (first.run_id, first.agent_id, first.conversation) == ("r", "till", "talk")
    assert first.request == "Pay them."
    assert isinstance(first.pending, PendingApproval)
    assert (first.pending.tool_name, first.pending.arguments) == ("pay", {"to": "ann"})
    assert first.pending.digest and first.pending.asked_at is not None
    await answer(first.run_id, [first.pending.approve()], journal=journal)
    assert await inbox(journal=journal) == (second,)
    await resume("r", payer("ann", "bob"), journal=journal)
    assert await ids(journal) == [("r", "p1")]
    (second,) = await inbox(journal=journal)
    assert isinstance(second.pending, PendingApproval)
    await resume(
        "r", payer("ann", "bob"), journal=journal, answers=[second.pending.deny("Too much.")]
    )
    assert await inbox(journal=journal) == ()


async def test_a_child_run_is_shown_by_the_run_that_waits_for_it(journal: Any) -> None:
    outer: Agent[Any] = Agent("outer", engine=GraphEngine(Graph({"a": AgentTask(asker())})))
    await run(outer, Request("?", run_id="r"), journal=journal)
    for said in ("red", "blue"):
        (item,) = await inbox(journal=journal)
        assert (item.run_id, item.agent_id) == ("r", "outer")
        assert item.pending.run_id not in ("", "r")
        await answer(item.run_id, [Answer(item.pending.id, said)], journal=journal)
        assert await inbox(journal=journal) == ()
        result = await resume("r", outer, journal=journal)
    assert result.success


@pytest.mark.parametrize("who", ["staff", "user"])
@pytest.mark.parametrize("is_inside", [False, True])
async def test_an_approval_says_who_may_answer_it(journal: Any, who: Any, is_inside: bool) -> None:
    asked = payer("ann").but(tools=[pay.but(ask=who)])
    if is_inside:
        asked = Agent("outer", engine=GraphEngine(Graph({"a": AgentTask(asked)})))
    parked = await run(asked, Request("?", run_id="r"), journal=journal)
    assert [one.audience for one in parked.pending] == [who]
    (item,) = await inbox(journal=journal)
    assert item.audience == who
    again = await resume("r", asked, journal=journal)
    assert [one.audience for one in again.pending] == [who]


async def test_what_an_agent_asks_is_for_its_user(journal: Any) -> None:
    await run(asker(), Request("?", run_id="r"), journal=journal)
    (item,) = await inbox(journal=journal)
    assert item.audience == "user"


async def test_an_item_that_somebody_else_has_answered_is_told(journal: Any) -> None:
    await run(payer("ann"), Request("?", run_id="r"), journal=journal)
    (item,) = await inbox(journal=journal)
    assert isinstance(item.pending, PendingApproval)
    await answer("r", [item.pending.deny(by="ann")], journal=journal)
    (told,) = await answer(item.run_id, [item.pending.approve(by="bob")], journal=journal)
    assert isinstance(told, Outdated) and told.by == "ann"


async def test_the_inbox_is_read_page_by_page(journal: Any) -> None:
    for n in range(5):
        talk = "talk 1" if n == 1 else ""
        request = Request("?", run_id=f"r{n}", context_id=talk)
        await run(payer("ann", "bob"), request, journal=journal)
    whole = await ids(journal)
    assert [run_id for run_id, _ in whole] == [f"r{n}" for n in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)]
    page = await ids(journal, limit=2)
    assert page == whole[:4]
    assert await ids(journal, limit=2, before=page[-1][0]) == whole[4:8]
    assert await ids(journal, limit=None, before="r1") == whole[4:]
    assert await ids(journal, conversation="talk 1") == whole[2:4]
    for wrong in ({"limit": 0}, {"before": "nobody"}):
        with pytest.raises(Misuse):
            await inbox(journal=journal, **wrong)


async def test_who_is_shown_the_inbox_is_shown_no_secret(journal: Any) -> None:
    more: Any = {"journal": journal, "secrets": ["hunter2-hunter2"]}
    await run(payer("hunter2-hunter2"), Request("Use hunter2-hunter2.", run_id="r"), **more)
    (item,) = await inbox(journal=journal)
    assert "hunter2" not in repr(item)
    assert isinstance(item.pending, PendingApproval)
    assert (item.pending.arguments, item.request) == ({"to": "***"}, "Use ***.")
