"""What people answer reaches the run that asks, however deep it is inside the one they answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.answering import keep_answers
from tests.runs.kit import Do, Ordered, Raced, kinds, log_of
from upshot import (
    Agent,
    AgentResult,
    Answer,
    Approve,
    Deny,
    Event,
    Graph,
    GraphEngine,
    MachineEngine,
    Misuse,
    Parked,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    fork,
    load_machine,
    replay,
    resume,
    run,
    tool,
)
from upshot.engines import AgentTask, Node, Parallel
from upshot.journal import MemoryJournal

MACHINE = """
spec: upshot.machine/1
states:
  work: {type: initial, agent: payer, input: "'Pay.'", transitions: [{to: done}]}
  done: {type: final, output: {said: context.said}}
context: {said: 1}
"""

Made = Callable[[list[int]], Agent[Any]]


def payer(paid: list[int], *, id: str = "payer", call_id: str = "1") -> Agent[Any]:
    """Pays once somebody agrees."""

    @tool(effect="destructive", approval=True, on_unknown="tell")
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    calls = [ToolCall(call_id, "pay", {"cents": 5}), "Paid."]
    return Agent(id, model=ScriptedModel(calls, per_conversation=True), tools=[pay])


def asker(id: str = "asker") -> Agent[Any]:
    """Asks which colour."""

    async def ask(run: Any, host: Any, board: Any) -> Any:
        return await host.ask_user("Which colour?")

    return Agent(id, engine=Do(ask))


def in_graph(inner: Agent[Any]) -> Agent[Any]:
    return Agent("outer", engine=GraphEngine(Graph({"work": inner}, start="work")))


def in_machine(inner: Agent[Any]) -> Agent[Any]:
    engine = MachineEngine(load_machine(MACHINE), agents={"payer": inner})
    return Agent("outer", engine=engine)


def in_script(inner: Agent[Any], key: str = "inner") -> Agent[Any]:
    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(inner, "Work.", key=key)
        if result.pending:
            raise Parked(*result.pending)
        return result.output

    return Agent("outer", engine=ScriptEngine(work))


def in_script_of_scripts(inner: Agent[Any]) -> Agent[Any]:
    return in_script(in_script(inner, key="inmost"))


ENGINES = pytest.mark.parametrize(
    "around",
    [in_graph, in_machine, in_script, in_script_of_scripts],
    ids=["graph", "machine", "script", "script in a script"],
)


@ENGINES
async def test_a_yes_to_the_root_reaches_the_run_inside_that_asks(around: Any) -> None:
    paid: list[int] = []
    outer, journal = around(payer(paid)), Ordered()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    (pending,) = parked.pending
    assert (parked.status, pending.id, paid) == (Status.INPUT_REQUIRED, "1", [])
    done = await resume("o", outer, journal=journal, answers=[Approve(pending.id)])
    assert (done.status, paid) == (Status.COMPLETED, [5])
    again = await resume("o", outer, journal=journal)
    assert (again.status, paid) == (Status.COMPLETED, [5])


@ENGINES
async def test_an_answer_to_the_root_reaches_the_run_inside_that_asks(around: Any) -> None:
    outer, journal = around(asker()), Ordered()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    (pending,) = parked.pending
    answers = [Answer(pending.id, "red")]
    done = await resume("o", outer, journal=journal, answers=answers)
    assert done.status is Status.COMPLETED
    (asked,) = [event for event in journal.order if event.kind == "question_answered"]
    assert (asked.run_id, asked.value) == (pending.run_id, "red")  # type: ignore[union-attr]


async def test_what_waits_says_which_run_inside_asks() -> None:
    journal = Ordered()
    parked = await run(in_script(asker()), Request("?", run_id="o"), journal=journal)
    inner = next(event.run_id for event in journal.order if event.run_id != "o")
    assert [one.run_id for one in parked.pending] == [inner]
    own = await run(asker(), "?")
    assert [one.run_id for one in own.pending] == [""]


async def test_an_answer_can_be_kept_for_a_run_inside() -> None:
    paid: list[int] = []
    outer, journal = in_graph(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    await keep_answers("o", [Approve("1")], journal=journal)
    assert paid == []
    assert (await resume("o", outer, journal=journal)).success
    assert paid == [5]


async def test_who_answers_writes_nothing_into_the_log() -> None:
    journal = Ordered()
    await run(payer([]), Request("?", run_id="p"), journal=journal)
    before = [*journal.order]
    await keep_answers("p", [Approve("1")], journal=journal)
    assert journal.order == before
    await resume("p", payer([]), journal=journal)
    assert kinds(journal.order).count("approval_answered") == 1


def both_ask() -> Agent[Any]:
    parallel = Parallel({"left": asker("left"), "right": asker("right")})
    return Agent("outer", engine=GraphEngine(Graph({"both": parallel}, start="both")))


async def test_ids_that_several_runs_use_are_told_apart() -> None:
    journal = Ordered()
    outer = both_ask()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    assert [one.id for one in parked.pending] == [
        f"{one.run_id}/question-1-1" for one in parked.pending
    ]
    left, right = parked.pending
    half = await resume("o", outer, journal=journal, answers=[Answer(left.id, "red")])
    assert [one.run_id for one in half.pending] == [right.run_id]
    assert [one.id for one in half.pending] == ["question-1-1"]
    # What it was called before still names it.
    done = await resume("o", outer, journal=journal, answers=[Answer(right.id, "blue")])
    assert done.status is Status.COMPLETED
    events = [event for event in journal.order if event.kind == "question_answered"]
    found = {event.run_id: event.value for event in events}  # type: ignore[union-attr]
    assert found == {left.run_id: "red", right.run_id: "blue"}


async def test_calls_of_one_id_in_several_runs_are_told_apart() -> None:
    paid: dict[str, list[int]] = {"left": [], "right": []}
    nodes = {id: payer(done, id=id) for id, done in paid.items()}
    graph = Graph({"both": Parallel(nodes)}, start="both")
    outer, journal = Agent[Any]("outer", engine=GraphEngine(graph)), Ordered()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    assert [one.id for one in parked.pending] == [f"{one.run_id}/1" for one in parked.pending]
    yes, no = (one.id for one in parked.pending)
    done = await resume("o", outer, journal=journal, answers=[Approve(yes), Deny(no)])
    assert (done.status, paid) == (Status.COMPLETED, {"left": [5], "right": []})


async def test_a_word_of_the_wrong_kind_is_misuse_that_names_the_right_one() -> None:
    journal = Ordered()
    await run(payer([]), Request("?", run_id="p"), journal=journal)
    await run(asker(), Request("?", run_id="a"), journal=journal)
    with pytest.raises(Misuse, match="'1' is a call: give Approve, Deny or Edit"):
        await resume("p", payer([]), journal=journal, answers=[Answer("1", "yes")])
    with pytest.raises(Misuse, match="'question-1-1' is a question: give Answer"):
        await resume("a", asker(), journal=journal, answers=[Approve("question-1-1")])


async def test_an_id_that_names_several_is_refused_and_they_are_named() -> None:
    journal = Ordered()
    outer = both_ask()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    length = len(journal.order)
    with pytest.raises(Misuse, match=parked.pending[0].id):
        await resume("o", outer, journal=journal, answers=[Answer("question-1-1", "red")])
    assert len(journal.order) == length


async def test_the_key_of_a_run_inside_tells_it_apart_too() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(asker(), "?", key="draft")
        if result.pending:
            raise Parked(*result.pending)
        return result.output

    outer, journal = Agent[Any]("outer", engine=ScriptEngine(work)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    answers = [Answer("draft/question-1-1", "red")]
    assert (await resume("o", outer, journal=journal, answers=answers)).output == "red"


async def test_own_questions_keep_their_ids_beside_those_of_runs_inside() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        result = await run.child(asker(), "?", key="draft")
        waits = list(result.pending)
        try:
            own = await host.ask_user("And you?")
        except Parked as parked:
            raise Parked(*parked.pending, *waits) from None
        return own if not waits else Parked(*waits)

    outer, journal = Agent[Any]("outer", engine=ScriptEngine(work)), Ordered()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    own, inner = parked.pending
    assert (own.id, inner.id) == ("question-1-1", f"{inner.run_id}/question-1-1")
    answers = [Answer(inner.id, "red"), Answer(own.id, "blue")]
    assert (await resume("o", outer, journal=journal, answers=answers)).output == "blue"


@pytest.mark.parametrize("length", range(3, 30))
async def test_a_root_that_was_cut_anywhere_hands_answers_down_once(length: int) -> None:
    paid: list[int] = []
    outer, journal = in_script_of_scripts(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    journal = journal.cut(length)
    waits = [event for event in journal.order if event.kind == "approval_requested"]
    answers = [Approve("1")] if waits else []
    result = await resume("o", outer, journal=journal, answers=answers)
    if not waits:
        assert [one.id for one in result.pending] == ["1"]
        result = await resume("o", outer, journal=journal, answers=[Approve("1")])
    assert (result.status, paid) == (Status.COMPLETED, [5])


async def test_answers_that_were_handed_down_before_the_process_died_are_not_asked_for_again() -> (
    None
):
    paid: list[int] = []
    outer, journal = in_graph(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    parked = len(journal.order)
    await resume("o", outer, journal=journal, answers=[Approve("1")])
    for length in range(parked + 1, len(journal.order)):
        paid.clear()
        before = journal.cut(length)
        result = await resume("o", outer, journal=before)
        settled = kinds(before.order[:length]).count("tool_settled")
        started = kinds(before.order[:length]).count("tool_started")
        assert result.status is Status.COMPLETED
        assert len(paid) == (0 if settled or started else 1), length


async def test_a_no_reaches_the_run_inside_too() -> None:
    paid: list[int] = []
    outer, journal = in_graph(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    result = await resume("o", outer, journal=journal, answers=[Deny("1", "Too much.")])
    assert (result.status, paid) == (Status.COMPLETED, [])


async def test_what_was_answered_in_the_run_inside_itself_is_not_waited_for() -> None:
    outer, journal = in_script(asker()), Ordered()
    parked = await run(outer, Request("?", run_id="o"), journal=journal)
    (pending,) = parked.pending
    answers = [Answer(pending.id, "red")]
    await resume(pending.run_id, asker(), journal=journal, answers=answers)
    with pytest.raises(Misuse, match="question question-1-1 was answered before"):
        await keep_answers("o", [Answer(pending.id, "blue")], journal=journal)
    late = f"Answer('question-1-1') came too late: run {pending.run_id} has ended"
    result = await resume("o", outer, journal=journal, answers=answers)
    assert (result.output, outdated(result)) == ("red", [late])


async def test_a_fork_does_not_answer_for_the_run_that_it_was_forked_from() -> None:
    paid: list[int] = []
    outer, journal = in_graph(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    other = await fork("o", at=len(await log_of(journal, "o")), journal=journal)
    with pytest.raises(Misuse, match="waits for nothing"):
        await resume(other, outer, journal=journal, answers=[Approve("1")])
    parked = await resume(other, outer, journal=journal)
    assert [one.id for one in parked.pending] == ["1"]
    assert (await resume(other, outer, journal=journal, answers=[Approve("1")])).success
    assert paid == [5]


@ENGINES
async def test_the_approver_of_the_root_is_asked_for_runs_inside(around: Any) -> None:
    paid: list[int] = []
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.tool_name)
        return True

    result = await run(around(payer(paid)), "?", approve=approve)
    assert (result.status, paid, asked) == (Status.COMPLETED, [5], ["pay"])


@ENGINES
async def test_the_host_of_the_root_is_asked_for_runs_inside(around: Any) -> None:
    class Person:
        def ask_user(self, question: str) -> str:
            return f"answer to {question}"

        def publish(self, event: Any) -> None:
            told.append(event.run_id)

    told: list[str] = []
    journal = Ordered()
    result = await run(around(asker()), Request("?", run_id="o"), host=Person(), journal=journal)
    assert result.status is Status.COMPLETED
    (event,) = [event for event in journal.order if event.kind == "question_answered"]
    assert event.value == "answer to Which colour?"  # type: ignore[union-attr]
    assert set(told) == {"o"}


async def test_a_run_inside_may_have_an_approver_and_a_host_of_its_own() -> None:
    paid: list[int] = []

    class Person:
        async def ask_user(self, question: str) -> str:
            return "blue"

    async def work(run: Any, host: Any, board: Any) -> Any:
        first = await run.child(payer(paid), "?", key="pay", approve=lambda _: False)
        second = await run.child(asker(), "?", key="ask", host=Person())
        return [str(first.status), second.output]

    outer = Agent[Any]("outer", engine=ScriptEngine(work))
    result = await run(outer, "?", approve=lambda _: True)
    assert (result.output, paid) == (["completed", "blue"], [])


@ENGINES
async def test_an_approver_that_comes_later_is_asked_for_runs_inside(around: Any) -> None:
    paid: list[int] = []
    outer, journal = around(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    done = await resume("o", outer, journal=journal, approve=lambda _: True)
    assert (done.status, paid) == (Status.COMPLETED, [5])


@ENGINES
async def test_a_run_whose_inside_was_answered_is_replayed_without_difference(around: Any) -> None:
    paid: list[int] = []
    outer, journal = around(payer(paid)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    await resume("o", outer, journal=journal, answers=[Approve("1")])
    assert (await replay("o", outer, journal=journal)).same
    assert paid == [5]


async def test_a_secret_in_an_answer_for_a_run_inside_is_not_written_down(tmp_path: Path) -> None:
    async def ask(run: Any, host: Any, board: Any) -> Any:
        return len(str(await host.ask_user("Which key?")))

    outer, where = in_script(Agent("asker", engine=Do(ask))), tmp_path / "runs.db"
    options: dict[str, Any] = {"journal": where, "secrets": ["hush-hush"]}
    parked = await run(outer, Request("?", run_id="o"), **options)
    answers = [Answer(parked.pending[0].id, "hush-hush")]
    done = await resume("o", outer, answers=answers, **options)
    assert done.output == 9
    assert not [file.name for file in tmp_path.iterdir() if b"hush-hush" in file.read_bytes()]


async def test_a_node_that_is_tried_again_takes_up_what_is_parked_in_it() -> None:
    paid: list[int] = []
    graph = Graph({"work": Node(AgentTask(payer(paid)), attempts=3)}, start="work")
    outer, journal = Agent[Any]("outer", engine=GraphEngine(graph)), Ordered()
    await run(outer, Request("?", run_id="o"), journal=journal)
    assert (await resume("o", outer, journal=journal, answers=[Approve("1")])).success
    assert paid == [5]


CHOOSER: Agent[Any] = Agent(
    "a", engine=ScriptEngine(lambda run, host, board: host.ask_user("Which?", choices=("a", "b")))
)


async def test_an_answer_is_one_of_the_choices() -> None:
    journal = MemoryJournal()
    parked = await run(CHOOSER, "Go.", journal=journal)
    (question,) = parked.pending
    with pytest.raises(
        Misuse, match="'c' is not an answer to 'question-1-1': choose one of 'a', 'b'"
    ):
        await resume(parked.run_id, CHOOSER, journal=journal, answers=[Answer(question.id, "c")])
    done = await resume(parked.run_id, CHOOSER, journal=journal, answers=[Answer(question.id, "b")])
    assert done.output == "b"


@pytest.mark.parametrize(("said", "status"), [("c", "input_required"), ("a", "completed")])
async def test_a_host_that_answers_what_is_no_choice_leaves_the_question_open(
    said: str, status: str
) -> None:
    class Clerk:
        def ask_user(self, question: str) -> str:
            return said

    result = await run(CHOOSER, "Go.", host=Clerk(), journal=MemoryJournal())
    assert result.status == status
    assert [one.code for one in result.warnings] == ["host_failed"] * (said == "c")


# -- who comes too late


def outdated(result: AgentResult[Any]) -> list[str]:
    """Which answers were not taken, and why."""
    return [one.message for one in result.warnings if one.code == "answer_outdated"]


def asking_twice() -> Agent[Any]:
    """Asks about two colours, one after the other."""

    async def ask(run: Any, host: Any, board: Any) -> Any:
        return [await host.ask_user(f"{one} colour?") for one in ("First", "Second")]

    return Agent("asker", engine=Do(ask))


async def test_a_late_answer_to_a_question_is_told_like_one_to_a_call() -> None:
    journal = MemoryJournal()
    await run(asking_twice(), Request("?", run_id="o"), journal=journal)
    await keep_answers("o", [Answer("question-1-1", "red")], journal=journal)
    answers = [Answer("question-1-1", "blue")]
    parked = await resume("o", asking_twice(), journal=journal, answers=answers)
    late = "Answer('question-1-1') came too late: question question-1-1 was answered before"
    assert (parked.status, outdated(parked)) == (Status.INPUT_REQUIRED, [late])
    answers += [Answer("question-1-2", "green")]
    result = await resume("o", asking_twice(), journal=journal, answers=answers)
    assert (result.output, outdated(result)) == (["red", "green"], [late, late])


async def test_an_answer_to_what_was_never_asked_is_misuse() -> None:
    journal = MemoryJournal()
    await run(asking_twice(), Request("?", run_id="o"), journal=journal)
    with pytest.raises(Misuse, match="no question 'seal' waits for an answer"):
        await resume("o", asking_twice(), journal=journal, answers=[Answer("seal", "yes")])
    with pytest.raises(Misuse, match="'question-1-1' is a question: give Answer, got Approve"):
        await resume("o", asking_twice(), journal=journal, answers=[Approve("question-1-1")])


async def parked_and_ended(agent: Agent[Any]) -> tuple[list[Event], list[Event]]:
    """What run o and those inside log until one asks, and what they log after an answer."""
    journal = Ordered()
    parked = await run(agent, Request("?", run_id="o"), journal=journal)
    length = len(journal.order)
    answers = [Answer(parked.pending[0].id, "red")]
    assert (await resume("o", agent, journal=journal, answers=answers)).output == "red"
    return journal.order[:length], journal.order[length:]


async def test_nothing_is_kept_for_a_run_that_ended_before_it_was_claimed() -> None:
    before, then = await parked_and_ended(asker())
    journal = Raced(before, "o", then)
    with pytest.raises(Misuse, match="came too late: run o has ended"):
        await keep_answers("o", [Answer("question-1-1", "blue")], journal=journal)
    assert [event async for event in journal.events("o")] == before + then


async def test_nothing_is_kept_for_a_run_inside_that_ended_before_it_was_claimed() -> None:
    before, then = await parked_and_ended(in_script(asker()))
    inner = next(event.run_id for event in before if event.run_id != "o")
    journal = Raced(before, inner, [event for event in then if event.run_id == inner])
    with pytest.raises(Misuse, match=f"came too late: run {inner} has ended"):
        await keep_answers("o", [Answer("question-1-1", "blue")], journal=journal)
    assert kinds(await log_of(journal, inner))[-1] == "run_settled"


@pytest.mark.parametrize("what_ended", ["the run inside", "both"])
async def test_who_answers_too_late_gets_what_the_run_inside_came_to(what_ended: str) -> None:
    before, then = await parked_and_ended(in_script(asker()))
    inner = next(event.run_id for event in before if event.run_id != "o")
    its_end = [event for event in then if event.run_id == inner]
    journal = Raced(before, inner, its_end) if what_ended != "both" else Raced(before, "o", then)
    answers = [Answer("question-1-1", "blue")]
    result = await resume("o", in_script(asker()), journal=journal, answers=answers)
    ended = inner if what_ended == "the run inside" else "o"
    late = f"Answer('question-1-1') came too late: run {ended} has ended"
    assert (result.output, outdated(result)) == ("red", [late])
    assert kinds(await log_of(journal, inner))[-1] == "run_settled"


@tool(effect="write", approval=True)
async def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@pytest.mark.parametrize("second", [Approve("c"), Deny("c")], ids=["the same", "another"])
async def test_two_answers_for_one_call_are_misuse_and_nothing_is_lost(second: Any) -> None:
    def payer() -> Agent[Any]:
        model = ScriptedModel([ToolCall("c", "pay", {"cents": 5}), "Done."])
        return Agent("a", model=model, tools=[pay])

    journal = MemoryJournal()
    await run(payer(), Request("?", run_id="r"), journal=journal)
    with pytest.raises(Misuse, match="'c' is answered twice: give one answer for each"):
        await resume("r", payer(), journal=journal, answers=[Approve("c"), second])
    result = await resume("r", payer(), journal=journal, answers=[Approve("c")])
    assert (result.status, result.content) == (Status.COMPLETED, "Done.")
