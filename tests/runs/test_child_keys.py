"""Runs inside a script that have no key: found by what they were asked, and not done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runs.kit import Do, Ordered
from upshot import (
    Agent,
    Answer,
    Approve,
    Board,
    FinalizeDecision,
    Misuse,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    fork,
    replay,
    resume,
    run,
    tool,
)
from upshot.runs.run_context import ChildKeys


def payer(paid: list[int], cents: int = 5, *, approval: bool = False) -> Agent[Any]:
    @tool(effect="write", approval=approval)
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return f"paid {cents}"

    replies = [ToolCall("c1", "pay", {"cents": cents}), "It is paid."]
    return Agent("payer", model=ScriptedModel(replies, per_conversation=True), tools=[pay])


def scripted(work: Any) -> Agent[Any]:
    return Agent("outer", engine=ScriptEngine(work))


def begun(journal: Ordered) -> list[str]:
    """The runs inside, in the order in which they began."""
    return [event.run_id for event in journal.order if event.kind == "run_started"][1:]


async def test_a_child_without_a_key_is_the_same_one_wherever_its_process_ended() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(payer([]), "Pay.")).content

    journal = Ordered()
    await run(scripted(work), Request("?", run_id="o"), journal=journal)
    for length in range(1, len(journal.order)):
        before = journal.cut(length)
        assert (await resume("o", scripted(work), journal=before)).output == "It is paid."
        assert begun(before) == begun(journal), length


async def test_what_a_child_without_a_key_paid_is_not_paid_again() -> None:
    paid: list[int] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        await run.child(payer(paid), "Pay.")
        return await host.ask_user("And now?")

    journal = Ordered()
    parked = await run(scripted(work), "?", journal=journal)
    await resume(parked.run_id, scripted(work), journal=journal)
    assert paid == [5]


async def test_an_answer_reaches_a_child_without_a_key() -> None:
    paid: list[int] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        return await run.child(payer(paid, approval=True), "Pay.")

    journal = Ordered()
    parked = await run(scripted(work), "?", journal=journal)
    answers = [Approve(parked.pending[0].id)]
    result = await resume(parked.run_id, scripted(work), journal=journal, answers=answers)
    assert (result.content, paid) == ("It is paid.", [5])


async def ids_in_two_sessions(work: Any, between: Any = None) -> list[list[str]]:
    """The ids of the children that *work* starts before it waits for people, and afterwards."""
    found: list[list[str]] = []

    async def script(run: Any, host: Any, board: Any) -> Any:
        found.append(await work(run))
        await host.ask_user("And now?")

    journal = Ordered()
    agent = scripted(script)
    await run(agent, Request("?", run_id="o"), journal=journal)
    if between is not None:
        between()
    await resume("o", agent, journal=journal)
    return found


async def test_the_same_asked_again_is_another_child_in_every_session() -> None:
    async def work(run: Any) -> list[str]:
        agents = [payer([], cents) for cents in (1, 1, 2)]
        results = await asyncio.gather(*(run.child(agent, "Pay.") for agent in agents))
        return [result.run_id for result in results]

    first, second = await ids_in_two_sessions(work)
    assert first == second
    assert len(set(first)) == 3


async def test_children_are_found_again_in_another_order() -> None:
    order = ["a", "b", "c"]

    async def work(run: Any) -> list[str]:
        found = {text: (await run.child(payer([]), text)).run_id for text in order}
        return [found[text] for text in "abc"]

    first, second = await ids_in_two_sessions(work, between=order.reverse)
    assert first == second


async def test_what_is_asked_otherwise_is_another_child() -> None:
    texts = ["a", "b"]

    async def work(run: Any) -> list[str]:
        return [(await run.child(payer([]), texts[0])).run_id]

    first, second = await ids_in_two_sessions(work, between=texts.reverse)
    assert first != second


async def test_an_attempt_that_is_asked_for_starts_children_of_its_own() -> None:
    class Again:
        def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision | None:
            return FinalizeDecision.revise("Again.") if result.attempts == 1 else None

    ids: list[str] = []

    async def work(run: Any, host: Any, board: Any) -> None:
        ids.append((await run.child(payer([]), "Pay.")).run_id)

    await run(scripted(work), "?", deciders=[Again()], max_attempts=2)
    assert len(set(ids)) == 2


async def test_a_child_with_an_id_of_its_own_goes_on_too() -> None:
    paid: list[int] = []

    async def work(run: Any) -> list[str]:
        return [(await run.child(payer(paid), Request("Pay.", run_id="mine"))).run_id]

    assert await ids_in_two_sessions(work) == [["mine"], ["mine"]]
    assert paid == [5]


async def test_an_id_that_another_run_has_is_not_taken_for_a_childs() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        await host.ask_user("?")
        return (await run.child(payer([]), Request("Pay.", run_id="theirs"))).content

    journal = Ordered()
    await run(payer([]), Request("Pay.", run_id="theirs"), journal=journal)
    parked = await run(scripted(work), "?", journal=journal)
    answers = [Answer(parked.pending[0].id, "yes")]
    result = await resume(parked.run_id, scripted(work), journal=journal, answers=answers)
    assert result.error is not None
    assert result.error.type == "KnownRun"


async def test_the_id_of_a_child_tells_nothing_of_a_secret() -> None:
    ids: list[str] = []

    async def work(run: Any, host: Any, board: Any) -> None:
        ids.append((await run.child(payer([]), f"Pay with {run.dependencies}.")).run_id)

    for secret in ("red-apple", "blue-plum"):
        agent = scripted(work)
        await run(agent, Request("?", run_id="o"), secrets=[secret], dependencies=secret)
    assert ids[0] == ids[1]


async def test_an_engine_that_is_handed_nothing_back_starts_another_child_each_time() -> None:
    ids: list[str] = []

    async def work(run: Any, host: Any, board: Any) -> None:
        ids.append((await run.child(payer([]), "Pay.")).run_id)
        await host.ask_user("And now?")

    journal = Ordered()
    agent = Agent[Any]("outer", engine=Do(work))
    await run(agent, Request("?", run_id="o"), journal=journal)
    await resume("o", agent, journal=journal)
    assert len(set(ids)) == 2


async def test_a_fork_and_a_replay_find_children_without_a_key() -> None:
    paid: list[int] = []

    async def work(run: Any, host: Any, board: Board) -> Any:
        first = await run.child(payer(paid), "Pay.")
        return [first.content, await host.ask_user("Well?")]

    journal = Ordered()
    parked = await run(scripted(work), Request("?", run_id="o"), journal=journal)
    assert (await replay("o", scripted(work), journal=journal)).same
    at = max(event.seq for event in journal.order if event.run_id == "o") - 1
    forked = await fork("o", at=at, journal=journal)
    again = await resume(forked, scripted(work), journal=journal)
    assert again.pending[0].id == parked.pending[0].id
    assert paid == [5]


def test_places_are_told_apart_by_attempt_agent_request_and_number() -> None:
    first, second = ChildKeys(1), ChildKeys(2)
    keys = [
        first.key("a", Request("?")),
        first.key("a", Request("?")),
        first.key("b", Request("?")),
        first.key("a", Request("!")),
        second.key("a", Request("?")),
    ]
    assert len(set(keys)) == len(keys)
    assert ChildKeys(1).key("a", Request("?")) == keys[0]


# -- runs that a script begins otherwise


async def test_a_run_that_a_script_begins_by_itself_is_begun_anew_where_it_goes_on() -> None:
    async def work(within: Any, host: Any, board: Any) -> Any:
        anew.append((await run(payer([]), "Pay.")).run_id)
        found.append((await within.child(payer([]), "Pay.")).run_id)
        return await host.ask_user("And now?")

    anew: list[str] = []
    found: list[str] = []
    journal = Ordered()
    await run(scripted(work), Request("?", run_id="o"), journal=journal)
    result = await resume("o", scripted(work), journal=journal)
    assert (len(set(anew)), len(set(found)), result.warnings) == (2, 1, ())


@pytest.mark.parametrize("agent", ["nope", None])
async def test_what_is_no_agent_is_misuse_also_where_a_script_goes_on(agent: Any) -> None:
    async def work(within: Any, host: Any, board: Any) -> Any:
        if sessions:
            with pytest.raises(Misuse, match="a run needs an Agent first"):
                await run(agent, "Pay.")
        await run(payer([]), "Pay.")
        sessions.append("one")
        return await host.ask_user("And now?")

    sessions: list[str] = []
    journal = Ordered()
    await run(scripted(work), Request("?", run_id="o"), journal=journal)
    await resume("o", scripted(work), journal=journal)
    assert len(sessions) == 2
