"""What a case has of a run, and what an experiment makes of hard ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runs.kit import Ordered
from upshot import (
    Agent,
    Misuse,
    ModelReplied,
    QuestionAnswered,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    attach,
    lab,
    resume,
    run,
    run_with_handoffs,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.lab import Case, Dataset

MADE: list[str] = []


@tool(effect="write", resources=["mail {to}"])
async def mail(to: str) -> str:
    """Mail."""
    MADE.append(to)
    return "sent"


@tool(effect="write", approval=True)
def delete(id: int) -> str:
    """Delete."""
    MADE.append(str(id))
    return "deleted"


def calls(*made: ToolCall) -> Any:
    def reply(messages: Any) -> Any:
        return "Done." if any(one.tool_call_id for one in messages) else list(made)

    return ScriptedModel(reply)


def mails(number: int, to: str = "ann") -> list[ToolCall]:
    return [ToolCall(f"c{one}", "mail", {"to": to}) for one in range(number)]


def desk(*made: ToolCall, **more: Any) -> Agent[Any]:
    return Agent("desk", model=calls(*made), tools=[mail, delete], **more)


async def recorded(agent: Agent[Any], **options: Any) -> Dataset:
    journal = MemoryJournal()
    await run(agent, Request("Go.", run_id="r"), journal=journal, **options)
    return await Dataset.from_journal(journal)


async def tried(dataset: Dataset, agent: Agent[Any], **options: Any) -> lab.Row:
    before = list(MADE)
    options = {"journal": "memory:", "scorers": [lab.same_effects()], **options}
    report = await lab.run(dataset, agent, **options)
    assert before == MADE
    (row,) = report.of("today")
    return row


async def test_a_case_of_a_conversation_has_what_was_said_before() -> None:
    journal, model = MemoryJournal(), ScriptedModel(lambda messages: f"#{len(messages)}")

    def stock(info: Any, request: Any, board: Any) -> None:
        from upshot import Message

        board.append(Message("user", "In stock: tea."))

    agent = Agent("desk", model=model, preparers=[stock])
    for number in range(3):
        request = Request(f"q{number}", run_id=f"r{number}")
        await run(agent, request, journal=journal, conversation="c")
    dataset = await Dataset.from_journal(journal)
    last = next(case for case in dataset if case.id == "r2")
    assert [one.text for one in last.history] == ["q0", "#2", "q1", "#4"]
    await lab.run(Dataset("one", (last,)), agent, journal="memory:")
    sent = [one.text for one in model.calls[-1].messages]
    assert sent == ["q0", "#2", "q1", "#4", "q2", "In stock: tea."]


async def test_a_case_of_a_handoff_has_the_whole_chain() -> None:
    def once(messages: Any) -> Any:
        is_sent = "sent" in messages[-1].text
        return "Done." if is_sent else mails(1)

    def make() -> Agent[Any]:
        clerk = Agent("clerk", model=ScriptedModel(once), tools=[mail])
        front = ScriptedModel(lambda messages: ToolCall("h", "transfer_to_clerk", {}))
        return Agent("front", model=front, handoffs=[clerk])

    journal = MemoryJournal()
    await run_with_handoffs(make(), Request("Go.", run_id="r"), journal=journal)
    dataset = await Dataset.from_journal(journal)
    (case,) = dataset
    assert (case.answer, case.status) == ("Done.", "completed")
    assert "mail" in [one.tool for one in case.calls]
    for replies in ("live", "recorded"):
        row = await tried(dataset, make(), replies=replies)
        assert (row.answer, row.new_effects) == ("Done.", ())
        assert row.scores["same_effects"].value == 1


async def test_replies_of_child_runs_are_replayed_too() -> None:
    def make() -> Agent[Any]:
        clerk = Agent("clerk", model=calls(*mails(1)), tools=[mail])
        return Agent(
            "boss", model=calls(ToolCall("b", "clerk", {"request": "Mail."})), tools=[clerk]
        )

    row = await tried(await recorded(make()), make(), replies="recorded")
    assert (row.status, row.scores["same_effects"].value) == ("completed", 1)


async def test_equal_writes_of_one_reply_are_one_in_the_lab_as_they_are_outside() -> None:
    dataset = await recorded(desk(*mails(1)))
    MADE.clear()
    await run(desk(*mails(3)), "Go.")
    assert MADE == ["ann"]
    row = await tried(dataset, desk(*mails(3)))
    assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)


async def test_equal_writes_of_several_child_runs_are_counted_together() -> None:
    def make(times: int) -> Agent[Any]:
        clerk = Agent("clerk", model=calls(*mails(1)), tools=[mail])
        asked = [ToolCall(f"b{one}", "clerk", {"request": f"Mail {one}."}) for one in range(times)]
        return Agent("boss", model=calls(*asked), tools=[clerk])

    dataset = await recorded(make(1))
    row = await tried(dataset, make(3))
    assert [one.tool for one in row.new_effects] == ["mail", "mail"]


async def test_a_write_that_was_not_approved_is_a_new_effect() -> None:
    dataset = await recorded(desk(*mails(1)))
    row = await tried(dataset, desk(*mails(1), ToolCall("d", "delete", {"id": 7})))
    assert [one.tool for one in row.new_effects] == ["delete"]


async def test_approvals_are_given_in_their_order_after_any_cut() -> None:
    answers = iter([True, False])

    def reply(messages: Any) -> Any:
        done = sum(bool(one.tool_call_id) for one in messages)
        return "Done." if done == 2 else ToolCall(f"d{done}", "delete", {"id": 1})

    def approve(asked: Any) -> bool:
        return next(answers)

    agent = Agent("desk", model=ScriptedModel(reply), tools=[delete])
    dataset, whole = await recorded(agent, approve=approve), Ordered()
    row = await tried(dataset, agent, journal=whole)
    assert (row.new_effects, row.scores["same_effects"].value) == ((), 1)
    for length in range(1, len(whole.order)):
        again = await tried(dataset, agent, journal=whole.cut(length))
        assert (again.new_effects, again.scores) == (row.new_effects, row.scores), length


async def test_questions_get_their_answers_in_order_after_any_cut() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return [await host.ask_user(f"Question {number}?") for number in range(3)]

    class Host:
        def __init__(self) -> None:
            self.answers = iter(["a", "b", "c"])

        def ask_user(self, question: str) -> str:
            return next(self.answers)

    agent = Agent[Any]("asker", engine=ScriptEngine(work))
    dataset, whole = await recorded(agent, host=Host()), Ordered()
    await lab.run(dataset, agent, name="x", journal=whole)
    for length in range(1, len(whole.order) + 1):
        journal = whole.cut(length)
        report = await lab.run(dataset, agent, name="x", journal=journal)
        (row,) = report.of("today")
        assert row.status == "completed", length
        states = [one async for one in journal.events(row.run_id)]
        given = [one.value for one in states if isinstance(one, QuestionAnswered)]
        assert given == ["a", "b", "c"], length


async def test_a_case_may_begin_at_a_later_event_after_any_cut() -> None:
    @tool(effect="read")
    def look(id: int) -> str:
        """Look."""
        return f"order {id}"

    def make(last: str, asked: list[int]) -> Agent[Any]:
        def reply(messages: Any) -> Any:
            done = sum(bool(one.tool_call_id) for one in messages)
            asked.append(done)
            return last if done == 3 else ToolCall(f"c{done}", "look", {"id": done})

        return Agent("desk", model=ScriptedModel(reply), tools=[look])

    journal, asked = MemoryJournal(), list[int]()
    await run(make("Done.", []), Request("Go.", run_id="r"), journal=journal)
    replied = [one.seq async for one in journal.events("r") if isinstance(one, ModelReplied)]
    dataset = await Dataset.from_journal(journal, run_id="r", after=replied[1])
    assert len(dataset.cases[0].first_replies) == 2
    whole = Ordered()
    row = await tried(dataset, make("New.", asked), journal=whole)
    assert (row.answer, row.off_record, asked) == ("New.", (), [2, 3])
    for length in range(1, len(whole.order) + 1):
        asked = []
        again = await tried(dataset, make("New.", asked), journal=whole.cut(length))
        assert (again.answer, min(asked, default=2) >= 2) == ("New.", True), length
    with pytest.raises(Misuse, match="after is the number of an event, got -1"):
        await Dataset.from_journal(journal, after=-1)


async def test_signals_are_sent_again_in_their_order_after_any_cut() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        first = await host.wait_signal("paid")
        name = await host.ask_user("Your name?")
        got = [first, name, await host.wait_signal("sent"), await host.wait_signal("paid")]
        return " ".join(map(str, got))

    class Host:
        def ask_user(self, question: str) -> str:
            return "Ann"

    agent, journal = Agent[Any]("waiter", engine=ScriptEngine(work)), MemoryJournal()
    options: Any = {"journal": journal, "host": Host()}
    await run(agent, Request("Go.", run_id="r"), **options)
    async with attach("r", journal=journal) as handle:
        for name, value in (("paid", 1), ("paid", 2), ("sent", "by post")):
            await handle.signal(name, value)
    result = await resume("r", agent, **options)
    assert result.output == "1 Ann by post 2"
    dataset, whole = await Dataset.from_journal(journal), Ordered()
    assert list(dataset.cases[0].answers.values()) == ["Ann"]

    def said(case: Any, result: Any) -> str:
        return result.output

    options = {"scorers": [said]}
    row = await tried(dataset, agent, journal=whole, **options)
    assert (row.status, row.scores["said"].value) == ("completed", "1 Ann by post 2")
    for length in range(1, len(whole.order) + 1):
        again = await tried(dataset, agent, journal=whole.cut(length), **options)
        assert (again.status, again.scores) == (row.status, row.scores), length


async def test_a_run_that_waits_for_one_more_signal_stays_parked() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return await host.wait_signal("paid")

    agent = Agent[Any]("waiter", engine=ScriptEngine(work))
    journal = MemoryJournal()
    await run(agent, Request("Go.", run_id="r"), journal=journal)
    dataset = await Dataset.from_journal(journal, status=None)
    assert (await tried(dataset, agent)).status == "input_required"


async def test_equal_numbers_are_equal_arguments() -> None:
    @tool(effect="read")
    def price(cents: float) -> str:
        """Price."""
        return "cheap"

    def asks(cents: float) -> Agent[Any]:
        model = calls(ToolCall("p", "price", {"cents": cents}))
        return Agent("desk", model=model, tools=[price])

    row = await tried(await recorded(asks(5)), asks(5.0))
    assert row.off_record == ()
    row = await tried(await recorded(asks(5)), asks(5.5))
    assert len(row.off_record) == 1


async def test_a_call_with_a_secret_is_found_in_the_record_after_any_cut() -> None:
    secret, made = "hunter2-hunter2", mails(1, to="hunter2-hunter2")
    approved = ToolCall("d", "delete", {"id": 7})
    agent = desk(*made, approved, instructions=f"The key is {secret}.")
    dataset = await recorded(agent, secrets=[secret], approve=lambda asked: True)
    assert secret not in str(dataset) and "<secret" not in str(dataset)
    assert [one.arguments for one in dataset.cases[0].calls] == [{"to": "***"}, {"id": 7}]
    whole = Ordered()
    for length in range(len(agent.tools or ()) + 30):
        journal = whole.cut(length) if length else whole
        row = await tried(dataset, agent, secrets=[secret], journal=journal)
        assert (row.new_effects, row.scores["same_effects"].value) == ((), 1), length
        assert secret not in str(whole.order)
        if length == len(whole.order):
            break
    row = await tried(dataset, desk(*mails(1, to="other"), approved), secrets=[secret])
    assert [one.arguments for one in row.new_effects] == [{"to": "other"}]


async def test_further_secrets_are_masked_in_a_dataset() -> None:
    journal = MemoryJournal()
    await run(desk(*mails(1, to="ann@example.com")), Request("Go.", run_id="r"), journal=journal)
    dataset = await Dataset.from_journal(journal, secrets=["ann@example.com"])
    assert [one.arguments for one in dataset.cases[0].calls] == [{"to": "***"}]


async def test_one_mistake_is_one_error() -> None:
    dataset = await recorded(desk(*mails(1)))
    with pytest.raises(Misuse, match="model"):
        await lab.run(dataset, Agent("nobody", tools=[mail]), journal="memory:")


async def test_observers_and_committers_of_inner_agents_are_not_called() -> None:
    seen: list[str] = []

    class Watcher:
        def on_run_end(self, info: Any, result: Any) -> None:
            seen.append(info.agent_id)

    def keep(info: Any, request: Any, result: Any) -> None:
        seen.append("kept")

    def make() -> Agent[Any]:
        more: Any = {"observers": [Watcher()], "committers": [keep]}
        clerk = Agent("clerk", model=calls(*mails(1)), tools=[mail], **more)
        asked = ToolCall("b", "clerk", {"request": "Mail."})
        return Agent("boss", model=calls(asked), tools=[clerk], **more)

    dataset = await recorded(make())
    assert sorted(seen) == ["boss", "clerk", "kept", "kept"]
    seen.clear()
    await tried(dataset, make())
    assert seen == []


async def test_an_experiment_that_was_stopped_is_finished_by_the_next(tmp_path: Path) -> None:
    dataset, place = await recorded(desk(*mails(1))), tmp_path / "lab.db"
    hang = asyncio.Event()

    class Slow:
        name = "home:slow"

        async def call(self, request: Any) -> Any:
            hang.set()
            await asyncio.Event().wait()

    work = asyncio.create_task(lab.run(dataset, desk().but(model=Slow()), name="x", journal=place))
    await hang.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    row = await tried(dataset, desk(*mails(1)), name="x", journal=place)
    assert (row.status, row.scores["same_effects"].value) == ("completed", 1)


async def test_a_scorer_that_raises_is_named_and_ends_nothing() -> None:
    def broken(case: Any, result: Any) -> Any:
        raise ValueError("no such field")

    dataset = await recorded(desk(*mails(1)))
    report = await lab.run(dataset, desk(*mails(1)), scorers=[broken], journal="memory:")
    assert "the scorer broken raised ValueError: no such field (1 time for today)" in (
        report.sentences()
    )


async def test_a_judge_uses_its_own_tools() -> None:
    @tool(effect="read")
    def rules() -> str:
        """Read the rules."""
        return "be kind"

    judge = Agent("kind", model=calls(ToolCall("r", "rules")), tools=[rules])
    seen: list[str] = []

    def reply(messages: Any) -> Any:
        done = [one for one in messages if one.tool_call_id]
        if not done:
            return ToolCall("r", "rules")
        seen.append(done[0].text)
        return "1"

    judge = judge.but(model=ScriptedModel(reply))
    dataset = await recorded(desk(*mails(1)))
    report = await lab.run(dataset, desk(*mails(1)), scorers=[judge], journal="memory:")
    assert seen == ["be kind"]
    assert report.of("today")[0].scores["kind"].value == 1


@pytest.mark.parametrize("text", ["a\u2028b", "a\u2029b", "a\x85b", "a\nb"], ids=ascii)
def test_any_text_survives_the_file(tmp_path: Path, text: str) -> None:
    dataset = Dataset("d", (Case(id="1", request=Request(text)),))
    dataset.write(tmp_path / "d.jsonl")
    assert Dataset.read(tmp_path / "d.jsonl") == dataset


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replies": "record"}, "replies is 'live' or 'recorded'"),
        ({"tools": "live-reads"}, "tools is 'recorded' or 'simulated' or 'live reads'"),
        ({"tools": "simulated"}, "simulated tools need simulator="),
        ({"unseen": "simulated", "simulator": 5}, "simulator is a function, an agent or the name"),
        ({"simulator": "openai:gpt-5"}, "simulator= needs tools='simulated' or unseen='simulated'"),
        ({"approvals": "aprove"}, "approvals is 'deny' or 'approve'"),
        ({"unseen": "stopp"}, "unseen is 'deny' or 'stop' or 'simulated'"),
        ({"budget_usd": "five"}, "budget_usd is an amount of US dollars"),
        ({"scorers": lab.completed()}, "scorers are a list"),
        ({"scorers": [lab.completed(), lab.completed()]}, "two scorers are called 'completed'"),
    ],
    ids=lambda one: str(next(iter(one))) if isinstance(one, dict) else "",
)
async def test_a_wrong_option_is_refused_before_a_model_is_asked(options: Any, said: str) -> None:
    dataset = Dataset("d", (Case(id="1", request=Request("q")),))
    with pytest.raises(Misuse, match=said):
        await lab.run(dataset, desk(), journal="memory:", **options)


@pytest.mark.parametrize("options", [{"sample": -1}, {"limit": -1}, {"sample": 0}], ids=str)
async def test_a_wrong_number_of_cases_is_refused(options: Any) -> None:
    with pytest.raises(Misuse, match="is a whole number from 1"):
        await Dataset.from_journal(MemoryJournal(), **options)


async def test_approvals_and_answers_of_child_runs_come_from_the_record() -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        first = await host.ask_user("First?")
        inner = await run.child(clerk, "Delete 7.")
        return [first, inner.content, await host.ask_user("Third?")]

    async def work(run: Any, host: Any, board: Any) -> Any:
        found = await run.child(deleter, "Delete 7.")
        return f"{await host.ask_user('Second?')} {found.content}"

    class Host:
        def __init__(self) -> None:
            self.answers = iter(["a", "b", "c"])

        def ask_user(self, question: str) -> str:
            return next(self.answers)

    deleter = desk(ToolCall("d", "delete", {"id": 7}))
    clerk = Agent[Any]("clerk", engine=ScriptEngine(work))
    agent = Agent[Any]("asker", engine=ScriptEngine(ask))
    dataset = await recorded(agent, host=Host(), approve=lambda asked: True)
    (case,) = dataset
    assert [*case.answers.values()] == ["a", "b", "c"]
    assert [*case.approvals.values()] == [(True,)]
    row = await tried(dataset, agent)
    assert (row.status, row.new_effects, row.answer) == ("completed", (), case.answer)
    assert row.scores["same_effects"].value == 1


@pytest.mark.parametrize("edited", [False, True])
async def test_a_record_answers_for_all_users_that_a_call_needs(*, edited: bool) -> None:
    @tool(effect="write", approvals=2)
    def send(cents: int) -> str:
        """Send money."""
        MADE.append(str(cents))
        return "sent"

    model = ScriptedModel([[ToolCall("s", "send", {"cents": 5})], "Sent."] * 9)
    agent, journal = Agent[Any]("bank", model=model, tools=[send]), MemoryJournal()
    result = await run(agent, Request("Go.", run_id="r"), journal=journal)
    for user in ("ann", "bob"):
        item: Any = result.pending[0]
        is_edit = edited and user == "ann"
        given = item.edit({"cents": 3}, by=user) if is_edit else item.approve(by=user)
        result = await resume("r", agent, journal=journal, answers=[given])
    assert MADE.pop() == ("3" if edited else "5")
    row = await tried(await Dataset.from_journal(journal), agent)
    assert (row.status, row.new_effects) == ("completed", ())
    assert row.scores["same_effects"].value == 1
