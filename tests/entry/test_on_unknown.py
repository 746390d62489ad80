"""What a run does when nobody knows whether a call took effect: tell, ask or stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fleet.test_worker import at_work
from tests.runs.kit import copied
from upshot import (
    Agent,
    Answer,
    App,
    Approve,
    Effect,
    Misuse,
    Outdated,
    Parked,
    PendingApproval,
    PendingEffect,
    Policy,
    Request,
    Run,
    ScriptedModel,
    ScriptEngine,
    Settlement,
    Status,
    Taken,
    Tool,
    ToolCall,
    answer,
    cancel,
    fork,
    replay,
    resume,
    run,
    start,
    tool,
)
from upshot.fleet.verifier import Verifier
from upshot.journal import MemoryJournal

CALL = ToolCall("c", "pay", {"order_id": "7"})


class Bank:
    """A tool that pays and raises, and what its bank says each time that it is asked."""

    def __init__(self, *said: bool | None, **options: Any) -> None:
        self.paid, self.said = list[str](), [*said]
        self.options = {"effect": "write", "on_unknown": "ask", "once": "order_id", **options}

    @property
    def pay(self) -> Tool[..., Any]:
        def verify(asked: Any) -> bool | None:
            return self.said.pop(0) if self.said else None

        @tool(verify=verify, **self.options)
        async def pay(order_id: str) -> str:
            self.paid.append(order_id)
            raise TimeoutError("the bank did not answer")

        return pay

    def agent(self, *calls: ToolCall, tools: tuple[Tool[..., Any], ...] = ()) -> Agent[Any]:
        model = ScriptedModel([[*(calls or (CALL,))], "Done."])
        return Agent[Any]("clerk", model=model, tools=[self.pay, *tools])


async def parked(bank: Bank, journal: Any, **options: Any) -> tuple[str, PendingEffect]:
    result = await run(bank.agent(), "Pay.", journal=journal, **options)
    assert result.status is Status.INPUT_REQUIRED
    (asked,) = result.pending
    assert isinstance(asked, PendingEffect)
    return result.run_id, asked


@pytest.mark.parametrize("may_repeat", [None, False])
async def test_a_timeout_that_may_not_be_repeated_stays_so_when_its_effect_is_known(
    journal: Any, may_repeat: bool | None
) -> None:
    @tool(effect="write", on_unknown="ask", timeout_s=0.01, retry_on_timeout=may_repeat)
    async def pay(order_id: str) -> None:
        await asyncio.Event().wait()

    def agent() -> Agent[Any]:
        return Agent[Any]("clerk", model=ScriptedModel([[CALL], "Done."]), tools=[pay])

    result = await run(agent(), "Pay.", journal=journal)
    (asked,) = result.pending
    assert isinstance(asked, PendingEffect)
    no = asked.did_not_happen(by="ann")
    result = await resume(result.run_id, agent(), journal=journal, answers=[no])
    (outcome,) = result.tool_outcomes
    assert outcome.effect == "none"
    assert outcome.retryable is (may_repeat is None)  # pyright: ignore
    again = await replay(result.run_id, agent(), journal=journal)
    assert again.difference is None and again.result.tool_outcomes == result.tool_outcomes


async def test_a_run_parks_with_what_a_person_needs_to_know(journal: Any) -> None:
    run_id, asked = await parked(Bank(), journal)
    assert asked.question == "Did this happen? pay(order_id 7)"
    assert (asked.choices, asked.audience) == (("yes", "no"), "staff")
    assert (asked.tool_name, asked.arguments) == ("pay", {"order_id": "7"})
    assert asked.error == "TimeoutError: the bank did not answer"
    assert asked.idempotency_key
    assert asked.started_at is not None and asked.ended_at is not None
    assert asked.started_at <= asked.ended_at
    (item,) = await journal.inbox()
    assert (item.run_id, item.pending) == (run_id, asked)
    assert [item.pending for item in await journal.inbox(tool="pay")] == [asked]


@pytest.mark.parametrize(("word", "effect"), [("yes", "applied"), (False, "none")])
async def test_the_answer_settles_the_effect_and_the_model_is_told(
    journal: Any, word: Any, effect: str
) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    answers = [Answer(asked.id, word, by="ann")]
    result = await resume(run_id, bank.agent(), journal=journal, answers=answers)
    assert (result.output, bank.paid, result.warnings) == ("Done.", ["7"], ())
    (outcome,) = result.tool_outcomes
    assert outcome.effect == effect
    assert outcome.settled is not None and outcome.settled.by == "ann"
    assert f'"effect":"{effect}"' in result.messages[1].text
    assert result.effect == effect
    assert (await journal.effect(asked.id)).state == effect
    assert not await journal.inbox()
    # A later reader finds the same, and a replay touches nothing.
    again = await resume(run_id, bank.agent(), journal=journal)
    assert again.tool_outcomes == result.tool_outcomes
    assert again.messages == result.messages
    assert (await replay(run_id, bank.agent(), journal=journal)).difference is None
    assert bank.paid == ["7"]


async def test_a_run_that_is_taken_up_too_early_waits_on(journal: Any) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    for _ in range(2):
        result = await resume(run_id, bank.agent(), journal=journal)
        assert (result.status, result.pending) == (Status.INPUT_REQUIRED, (asked,))
    assert bank.paid == ["7"]
    assert (await replay(run_id, bank.agent(), journal=journal)).difference is None


async def test_whoever_settles_the_effect_answers_the_run(journal: Any) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    seen = Settlement(effect=Effect.APPLIED, by="webhook:bank", note="re_1")
    await journal.settle_effect(asked.id, seen)
    assert not await journal.inbox()
    (due,) = await journal.due_runs()
    assert due.run_id == run_id
    result = await resume(run_id, bank.agent(), journal=journal)
    assert result.output == "Done."
    assert result.tool_outcomes[0].settled == seen


async def test_a_run_asks_verify_when_it_goes_on(journal: Any) -> None:
    bank = Bank(None, True)
    run_id, asked = await parked(bank, journal)
    result = await resume(run_id, bank.agent(), journal=journal)
    assert result.output == "Done."
    entry = await journal.effect(asked.id)
    assert (entry.state, entry.settled.by) == ("applied", "verify")


async def test_a_parked_run_goes_on_by_itself_when_verify_answers(journal: Any) -> None:
    bank = Bank(None, False)
    agent = bank.agent()
    async with App([agent], journal=journal) as app:
        run_id, asked = await parked(bank, journal)
        await journal.note_check(asked.id, asked.asked_at)
        await Verifier(app).check()
        (due,) = await journal.due_runs()
        assert (due.run_id, due.reason) == (run_id, "settled")


async def test_the_first_answer_counts_and_others_are_told(journal: Any) -> None:
    bank = Bank()
    async with App([bank.agent()], journal=journal) as app:
        run_id, asked = await parked(bank, journal)
        (first,) = await app.answer(run_id, asked.happened(by="ann"))
        (same,) = await app.answer(run_id, asked.happened(by="ann"))
        (late,) = await app.answer(run_id, asked.did_not_happen(by="bob"))
        assert isinstance(first, Taken) and isinstance(same, Taken)
        assert isinstance(late, Outdated)
        assert (late.by, late.decision) == ("ann", Answer(asked.id, "yes", by="ann"))
        result = await resume(run_id, bank.agent(), journal=journal)
        assert result.tool_outcomes[0].effect is Effect.APPLIED
        (later,) = await app.answer(run_id, asked.did_not_happen(by="bob"))
        assert isinstance(later, Outdated)


async def test_an_answer_after_the_question_was_closed_settles_nothing(journal: Any) -> None:
    run_id, asked = await parked(Bank(), journal)
    await cancel(run_id, journal=journal)
    for given in (asked.did_not_happen(by="bob"), Answer(asked.id, "perhaps", by="bob")):
        (told,) = await answer(run_id, [given], journal=journal)
        assert isinstance(told, Outdated) and "upshot effects settle" in told.reason
    assert (await journal.effect(asked.id)).state == "unknown"


async def test_an_answer_about_an_earlier_attempt_is_not_taken(journal: Any) -> None:
    bank = Bank()
    calls = (CALL, ToolCall("d", "pay", {"order_id": "7"}))

    def agent() -> Agent[Any]:
        return Agent[Any]("clerk", model=ScriptedModel([*calls, "Done."]), tools=[bank.pay])

    result = await run(agent(), "Pay.", journal=journal)
    (first,) = result.pending
    assert isinstance(first, PendingEffect)
    no = [first.did_not_happen(by="ann")]
    result = await resume(result.run_id, agent(), journal=journal, answers=no)
    (second,) = result.pending
    assert isinstance(second, PendingEffect) and second.id == first.id
    (told,) = await answer(result.run_id, [first.did_not_happen(by="bob")], journal=journal)
    assert isinstance(told, Outdated) and "an earlier attempt" in told.reason
    (told,) = await answer(result.run_id, [second.happened(by="bob")], journal=journal)
    assert isinstance(told, Taken)
    result = await resume(result.run_id, agent(), journal=journal)
    assert [one.effect for one in result.tool_outcomes] == ["none", "applied"]
    assert bank.paid == ["7", "7"]


async def test_a_run_goes_on_whose_effect_another_one_has_made_since(journal: Any) -> None:
    bank = Bank(None, None, True)
    run_id, asked = await parked(bank, journal)
    await journal.settle_effect(asked.id, Settlement(effect=Effect.NONE, by="ann"))
    other = bank.agent(ToolCall("other", "pay", {"order_id": "7"}))
    made = await run(other, "Pay.", journal=journal)
    result = await resume(run_id, bank.agent(), journal=journal)
    assert (result.output, result.tool_outcomes[0].effect) == ("Done.", "none")
    assert made.run_id != run_id and bank.paid == ["7", "7"]


async def test_what_the_log_has_masked_is_not_told_as_none(journal: Any) -> None:
    bank = Bank(None, False, False, False)
    given: dict[str, Any] = {"journal": journal, "secrets": ["7-secret"]}
    agent = bank.agent(ToolCall("c", "pay", {"order_id": "7-secret"}))
    result = await run(agent, "Pay.", **given)
    again = await resume(result.run_id, agent, **given)
    assert again.status is Status.INPUT_REQUIRED
    async with App([agent], **given) as app:
        found = await app.check(again.pending[0].id)
    assert found.effect.state == "unknown"
    assert found.said.endswith("the log has masked what it was asked about.")


async def test_a_body_whose_run_was_taken_over_may_be_at_work_yet(journal: Any) -> None:
    bank, begun, go_on = Bank(), asyncio.Event(), asyncio.Event()

    @tool(effect="write", once="order_id", on_unknown="ask", verify=lambda _: bool(bank.paid))
    async def pay(order_id: str) -> str:
        begun.set()
        await go_on.wait()
        bank.paid.append(order_id)
        return "paid"

    def agent() -> Agent[Any]:
        return Agent[Any]("clerk", model=ScriptedModel([CALL, "Done."]), tools=[pay])

    first = asyncio.create_task(run(agent(), Request("Pay.", run_id="r"), journal=journal))
    await begun.wait()
    result = await resume("r", agent(), journal=journal, take_over=True)
    for _ in range(2):
        assert result.status is Status.INPUT_REQUIRED
        result = await resume("r", agent(), journal=journal)
    assert (await journal.effect(result.pending[0].id)).state == "unknown"
    go_on.set()
    await first
    result = await resume("r", agent(), journal=journal)
    assert (result.tool_outcomes[0].effect, bank.paid) == ("applied", ["7"])


async def test_an_answer_is_yes_or_no(journal: Any) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    with pytest.raises(Misuse, match="choose one of 'yes', 'no'"):
        await resume(run_id, bank.agent(), journal=journal, answers=[Answer(asked.id, "maybe")])


async def test_it_did_not_happen_frees_the_key_and_makes_no_call(journal: Any) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    await journal.settle_effect(asked.id, Settlement(effect=Effect.NONE, by="ann"))
    await resume(run_id, bank.agent(), journal=journal)
    assert bank.paid == ["7"]
    await run(bank.agent(), "Pay again.", journal=journal)
    assert bank.paid == ["7", "7"]


@pytest.mark.parametrize("once", ["order_id", None], ids=["with a key", "without"])
async def test_a_tool_without_a_key_is_asked_about_too(journal: Any, once: str | None) -> None:
    bank = Bank(once=once)
    run_id, asked = await parked(bank, journal)
    await journal.settle_effect(asked.id, Settlement(effect=Effect.APPLIED, by="ann"))
    result = await resume(run_id, bank.agent(), journal=journal)
    assert (result.output, bank.paid) == ("Done.", ["7"])


@pytest.mark.parametrize(
    ("options", "policy", "status"),
    [
        ({"effect": "write", "on_unknown": None}, None, "completed"),
        ({"effect": "destructive", "on_unknown": None, "approval": False}, None, "input_required"),
        ({"effect": "destructive", "on_unknown": "tell", "approval": False}, None, "completed"),
        ({"effect": "write", "on_unknown": None}, "ask", "input_required"),
        ({"effect": "write", "on_unknown": "tell"}, "ask", "completed"),
        ({"effect": "write", "on_unknown": None, "idempotent": True}, "ask", "completed"),
        ({"effect": "write", "on_unknown": "stop"}, None, "failed"),
        ({"effect": "write", "on_unknown": None}, "stop", "failed"),
    ],
)
async def test_tool_and_policy_say_what_a_run_does(
    journal: Any, options: dict[str, Any], policy: Any, status: str
) -> None:
    bank = Bank(**options)
    rules = None if policy is None else Policy(on_unknown=policy)
    result = await run(bank.agent(), "Pay.", journal=journal, policy=rules)
    assert result.status == status


async def test_stop_fails_the_run_and_says_where_to_settle(journal: Any) -> None:
    bank = Bank(on_unknown="stop")
    result = await run(bank.agent(), "Pay.", journal=journal)
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("effect_unknown", False)
    (entry,) = await journal.effects(state="unknown")
    assert f"upshot effects settle {entry.id}" in result.error.message
    # Its messages can be sent to a model again.
    assert '"effect":"unknown"' in result.messages[-1].text


async def test_without_a_journal_the_model_is_told_and_stop_stops() -> None:
    result = await run(Bank().agent(), "Pay.")
    assert result.output == "Done."
    assert '"effect":"unknown"' in result.messages[1].text
    stopped = await run(Bank(on_unknown="stop").agent(), "Pay.")
    assert stopped.error is not None and stopped.error.code == "effect_unknown"


async def test_an_effect_and_an_approval_wait_together(journal: Any) -> None:
    bank, sent = Bank(), list[str]()

    @tool(effect="write", approval=True)
    async def send(to: str) -> str:
        sent.append(to)
        return "sent"

    def agent() -> Agent[Any]:
        return bank.agent(CALL, ToolCall("s", "send", {"to": "ann"}), tools=(send,))

    result = await run(agent(), "Pay and send.", journal=journal)
    kinds = {type(one): one for one in result.pending}
    assert kinds.keys() == {PendingEffect, PendingApproval}
    call, asked = kinds[PendingApproval], kinds[PendingEffect]
    assert isinstance(call, PendingApproval) and isinstance(asked, PendingEffect)
    # The approval alone does not let the run go on, and is not lost.
    result = await resume(result.run_id, agent(), journal=journal, answers=[call.approve()])
    assert (result.pending, sent) == ((asked,), [])
    answers = [asked.happened(by="ann")]
    result = await resume(result.run_id, agent(), journal=journal, answers=answers)
    assert (result.output, sent, bank.paid) == ("Done.", ["ann"], ["7"])
    assert not isinstance(result.tool_outcomes[1], Approve)


async def test_a_run_that_is_cut_anywhere_asks_once_and_pays_once() -> None:
    whole, bank = MemoryJournal(), Bank()
    run_id, asked = await parked(bank, whole)
    answers = [asked.happened(by="ann")]
    await resume(run_id, bank.agent(), journal=whole, answers=answers)
    log = [event async for event in whole.events(run_id)]
    for cut in range(1, len(log)):
        journal, bank = MemoryJournal(), Bank()
        await copied(log[:cut], journal, run_id)
        result = await resume(run_id, bank.agent(), journal=journal)
        for question in result.pending:
            assert isinstance(question, PendingEffect)
            answers = [question.happened(by="ann")]
            result = await resume(run_id, bank.agent(), journal=journal, answers=answers)
        kinds = [event.kind for event in log[:cut]]
        assert (result.output, result.effect) == ("Done.", "applied"), (cut, kinds[-1])
        assert bank.paid == ([] if "tool_started" in kinds else ["7"])
        read = [event.kind async for event in journal.events(run_id)]
        assert read.count("tool_settled") == 1
        # A copy of a log has what it says of effects, and no settlements, which stand beside it.
        if "question_answered" not in kinds:
            assert not await journal.effects(state="unknown")


async def test_a_child_run_asks_through_its_parent(journal: Any) -> None:
    bank = Bank()

    async def script(run: Run, host: object, board: object) -> Any:
        result = await run.child(bank.agent(), "Pay.", key="clerk")
        if result.pending:
            raise Parked(result.pending)
        return result.output

    def agent() -> Agent[Any]:
        return Agent[Any]("desk", engine=ScriptEngine(script))

    result = await run(agent(), "Pay.", journal=journal)
    (asked,) = result.pending
    (item,) = await journal.inbox()
    assert isinstance(asked, PendingEffect) and asked.run_id not in ("", result.run_id)
    assert (item.run_id, item.pending) == (result.run_id, asked)
    await journal.settle_effect(item.pending.id, Settlement(effect=Effect.APPLIED, by="ann"))
    (due,) = await journal.due_runs()
    assert due.run_id == result.run_id
    result = await resume(result.run_id, agent(), journal=journal)
    assert (result.output, bank.paid) == ("Done.", ["7"])


async def test_a_script_waits_at_the_call(journal: Any) -> None:
    bank, seen = Bank(), list[Any]()

    async def script(run: Run, host: object, board: object) -> str:
        outcomes = await run.tools.dispatch([CALL])
        seen.extend(outcomes)
        return "Done."

    def agent() -> Agent[Any]:
        return Agent[Any]("desk", engine=ScriptEngine(script), tools=[bank.pay])

    result = await run(agent(), "Pay.", journal=journal)
    (asked,) = result.pending
    assert isinstance(asked, PendingEffect) and seen == []
    answers = [asked.happened(by="ann")]
    result = await resume(result.run_id, agent(), journal=journal, answers=answers)
    assert (result.output, bank.paid) == ("Done.", ["7"])
    assert seen[0].settled.by == "ann"


async def test_a_fork_asks_about_the_effect_that_it_has(journal: Any) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    events = [event.kind async for event in journal.events(run_id)]
    forked = await fork(run_id, at=events.index("question_asked") + 1, journal=journal)
    result = await resume(forked, bank.agent(), journal=journal)
    assert [one.id for one in result.pending] == [asked.id]
    await journal.settle_effect(asked.id, Settlement(effect=Effect.APPLIED, by="ann"))
    # Both are due, and neither pays again.
    assert {due.run_id for due in await journal.due_runs()} == {run_id, forked}
    for id in (run_id, forked):
        result = await resume(id, bank.agent(), journal=journal)
        assert result.output == "Done."
    assert bank.paid == ["7"]


async def test_calls_of_two_runs_with_one_id_are_told_apart(journal: Any) -> None:
    # The first was found not to have paid; a call of another run, of the same id, has paid since.
    first, asked = await parked(Bank(), journal)
    await journal.settle_effect(asked.id, Settlement(effect=Effect.NONE, by="ann"))
    second, again = await parked(Bank(), journal)
    assert (again.id, again.call_id) == (asked.id, asked.call_id)
    await journal.settle_effect(asked.id, Settlement(effect=Effect.APPLIED, by="bob"))
    results = [await resume(id, Bank().agent(), journal=journal) for id in (first, second)]
    assert [one.tool_outcomes[0].effect for one in results] == ["none", "applied"]


async def test_a_fork_whose_effect_is_settled_while_it_parks_goes_on_by_a_worker(
    journal: Any,
) -> None:
    bank = Bank()
    run_id, asked = await parked(bank, journal)
    events = [event.kind async for event in journal.events(run_id)]
    forked = await fork(run_id, at=events.index("question_asked") + 1, journal=journal)

    async def settle(unknown: Any) -> None:
        # The fork looks a last time: it does not see what comes from here on.
        await journal.settle_effect(asked.id, Settlement(effect=Effect.APPLIED, by="ann"))

    agent = Agent[Any](
        "clerk",
        model=ScriptedModel([[CALL], "Done."]),
        tools=[bank.pay.but(verify=settle)],
    )
    result = await resume(forked, agent, journal=journal)
    assert [one.id for one in result.pending] == [asked.id]
    assert forked in {due.run_id for due in await journal.due_runs()}
    result = await resume(forked, bank.agent(), journal=journal)
    assert (result.output, bank.paid) == ("Done.", ["7"])


async def test_a_stream_ends_with_what_is_asked(journal: Any) -> None:
    async with start(Bank().agent(), "Pay.", journal=journal) as live:
        kinds = [event.kind async for event in live]
    assert kinds[-2:] == ["question_asked", "run_settled"]
    result = await live.result()
    assert isinstance(result.pending[0], PendingEffect)


async def test_a_conversation_waits_and_goes_on(journal: Any) -> None:
    bank = Bank()
    async with App([bank.agent()], journal=journal) as app, asyncio.timeout(60):
        handle = await app.submit("clerk", Request("Pay.", context_id="talk"))
        async with at_work(app):
            result = await handle.result()
            assert isinstance(result.pending[0], PendingEffect)
            await app.settle(result.pending[0].id, applied=True, by="ann")
            result = await handle.result()
    assert (result.output, bank.paid) == ("Done.", ["7"])


def test_a_tool_that_only_reads_leaves_nothing_unknown() -> None:
    with pytest.raises(Misuse, match="on_unknown= is only for a tool that writes"):
        Bank(effect="read", on_unknown="ask", once=None).pay  # noqa: B018
    with pytest.raises(Misuse, match='on_unknown must be "tell", "ask", "stop" or None'):
        Bank(on_unknown="wait").pay  # noqa: B018
