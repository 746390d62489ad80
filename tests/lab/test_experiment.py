"""Experiments on recorded runs: no body runs, and what a change would do is found."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from msgspec.structs import replace

from tests.runs.kit import Ordered
from upshot import (
    Agent,
    Budget,
    Misuse,
    ModelResponse,
    ModelSettings,
    Policy,
    Request,
    ScriptedModel,
    Text,
    ToolCall,
    ToolError,
    Usage,
    lab,
    note,
    resume,
    run,
    tool,
)
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.events import RunStarted
from upshot.entry.run_handle import RunHandle
from upshot.entry.session_setup import has_log
from upshot.journal import MemoryJournal, open_journal
from upshot.lab import Dataset
from upshot.lab.report_page import report_page

BOOK: list[str] = []
"""Written to by every body; an experiment must leave it as it was."""


@tool(effect="read")
def find_order(id: int) -> dict[str, Any]:
    """Find an order."""
    BOOK.append(f"find {id}")
    if id == 13:
        raise ToolError("no such order")
    return {"id": id, "paid": 10 * id}


@tool(effect="write")
def refund(id: int, cents: int) -> str:
    """Refund an order."""
    BOOK.append(f"refund {id}")
    return f"refunded {cents}"


def last_number(messages: Any) -> int:
    text = next(one.text for one in messages if one.role == "user")
    return int(text.rpartition(" ")[2])


def careful(messages: Any) -> Any:
    """Look first, and refund what was paid."""
    id, done = last_number(messages), [one for one in messages if one.tool_call_id]
    if not done:
        return ToolCall("f", "find_order", {"id": id})
    if len(done) == 1 and "no such order" not in done[0].text:
        return ToolCall("r", "refund", {"id": id, "cents": 10 * id})
    return "Your refund is on its way." if len(done) > 1 else "There is no such order."


def hasty(messages: Any) -> Any:
    """Refund a round sum at once."""
    id, done = last_number(messages), [one for one in messages if one.tool_call_id]
    return ToolCall("r", "refund", {"id": id, "cents": 100}) if not done else "Refund made."


def desk(reply: Any, **more: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel(reply), tools=[find_order, refund], **more)


async def recorded(journal: Any, numbers: Any = range(1, 14)) -> Dataset:
    for number in numbers:
        request = Request(f"Refund order {number}", run_id=f"r{number}")
        await run(desk(careful), request, journal=journal)
    return await Dataset.from_journal(journal)


@pytest.fixture
async def dataset() -> Dataset:
    return await recorded(MemoryJournal())


async def test_unchanged_agents_make_the_same_effects_and_no_body_runs(dataset: Dataset) -> None:
    before = list(BOOK)
    scorers = [lab.same_effects(), lab.trajectory(), lab.completed()]
    report = await lab.run(dataset, desk(careful), scorers=scorers, journal="memory:")
    assert before == BOOK
    rows = report.of("today")
    assert len(rows) == 13
    assert all(row.scores[name].value == 1 for row in rows for name in report.scorers)
    assert report.sentences() == []


async def test_a_variant_that_pays_otherwise_is_found_and_pays_nobody(dataset: Dataset) -> None:
    before = list(BOOK)
    variants = {"today": desk(careful), "hasty": desk(hasty)}
    report = await lab.run(dataset, variants, scorers=[lab.same_effects()], journal="memory:")
    assert before == BOOK
    same = report.compare("hasty", "same_effects")
    # Order 10 cost 100 cents, which the hasty one guessed.
    assert (same.higher, same.same, same.lower) == (0, 1, 12)
    assert same.difference is not None and same.difference.is_clear
    said = report.sentences()
    assert "hasty would have made 12 writes that the record does not have, in 12 cases" in said[0]
    assert said[1].startswith("hasty did not make 11 writes that the record has, in 11 cases")
    assert said[2].startswith("hasty scores 0.923 lower on same_effects than today (95 %: -1")


async def test_the_report_says_which_recorded_writes_were_not_made(dataset: Dataset) -> None:
    variants = {"today": desk(careful), "idle": desk(lambda messages: "Wait.")}
    report = await lab.run(dataset, variants, journal="memory:")
    assert report.sentences() == [
        "idle did not make 12 writes that the record has, in 12 cases: refund 12"
    ]
    assert {row.missing_effects for row in report.of("today")} == {()}
    assert report.facts("idle")["effects"] == {"new": 0, "missing": 12}


async def test_a_report_says_on_how_many_cases_a_mean_is(dataset: Dataset) -> None:
    def quality(case: Any, result: Any) -> Any:
        is_hasty = result.content == "Refund made."
        return None if is_hasty and case.id > "r2" else 1

    variants = {"today": desk(careful), "hasty": desk(hasty)}
    report = await lab.run(dataset, variants, scorers=[quality], journal="memory:")
    assert [line[2] for line in report.lines()[1:]] == ["1", "1, 6 of 13 cases"]
    assert (
        "hasty has a score of quality in 6 cases, and today in 13: their means are not "
        "comparable, only the difference in 6 cases is"
    ) in report.sentences()
    assert "1 6 of 13 cases" in re.sub("<[^>]+>", "", report_page(report))


async def test_scores_that_are_no_numbers_are_mistakes_of_their_scorers(dataset: Dataset) -> None:
    def endless(case: Any, result: Any) -> Any:
        return math.inf if case.id == "r1" else lab.Score(value=True)

    one = Dataset("two", dataset.cases[-2:])
    report = await lab.run(one, desk(careful), scorers=[endless], journal="memory:")
    assert (
        "the scorer endless raised Misuse: the value of a score is a finite number, got inf "
        "(1 time for today)"
    ) in report.sentences()
    assert decode(encode(report), decoder_of(lab.Report)) == report


async def test_the_recorded_policy_holds_and_another_one_can_be_tried() -> None:
    journal = MemoryJournal()
    for number in range(3):
        request = Request(f"Refund order {number + 1}", run_id=f"r{number}")
        await run(desk(careful), request, journal=journal, policy=Policy(deny=("refund",)))
    dataset = await Dataset.from_journal(journal)
    assert all(case.policy == Policy(deny=("refund",)) for case in dataset)
    variants = {
        "today": desk(careful),
        "open": lab.Variant(desk(careful), policy=Policy(taint="off")),
        "shut": lab.Variant(desk(careful), policy=Policy(deny=("find_order",))),
    }
    report = await lab.run(dataset, variants, scorers=[lab.trajectory()], journal="memory:")
    assert [sum(len(row.new_effects) for row in report.of(one)) for one in variants] == [0, 3, 3]
    assert report.compare("shut", "trajectory").lower == 3


async def test_a_renamed_tool_is_off_the_record(dataset: Dataset) -> None:
    @tool(effect="read")
    def look_up_order(id: int) -> dict[str, Any]:
        """Find an order."""
        BOOK.append("look")
        return {}

    def renamed(messages: Any) -> Any:
        done = [one for one in messages if one.tool_call_id]
        call = ToolCall("f", "look_up_order", {"id": last_number(messages)})
        return "I cannot say." if done else call

    agent = Agent("desk", model=ScriptedModel(renamed), tools=[look_up_order, refund])
    before = list(BOOK)
    report = await lab.run(dataset, {"today": desk(careful), "renamed": agent}, journal="memory:")
    assert before == BOOK
    assert "renamed asked for 13 reads that the record does not have: look_up_order 13" in (
        report.sentences()
    )


async def test_recorded_replies_cost_nothing_and_change_nothing(dataset: Dataset) -> None:
    async def never(messages: Any) -> Any:
        raise AssertionError("a model was asked")

    report = await lab.run(
        dataset, desk(never), scorers=[lab.same_effects()], replies="recorded", journal="memory:"
    )
    record = {row.case: (row.status, row.answer) for row in report.of("record")}
    assert {row.case: (row.status, row.answer) for row in report.of("today")} == record
    assert all(row.scores["same_effects"].value == 1 for row in report.of("today"))


async def test_the_second_time_nothing_is_asked_again(dataset: Dataset, tmp_path: Path) -> None:
    asked = deque[int]()  # no list, which would be data that the agent refers to

    def counted(messages: Any) -> Any:
        asked.append(1)
        return careful(messages)

    place = tmp_path / "lab.db"
    first = await lab.run(dataset, desk(counted), scorers=[lab.steps()], journal=place)
    calls = len(asked)
    second = await lab.run(dataset, desk(counted), scorers=[lab.steps()], journal=place)
    assert (len(asked), second) == (calls, first)
    assert (first.runs_read, second.runs_read) == (0, 13)


async def test_agents_as_tools_and_handoffs_get_recorded_tools_too() -> None:
    def helper(messages: Any) -> Any:
        done = any(one.tool_call_id for one in messages)
        return "Paid." if done else ToolCall("r", "refund", {"id": 1, "cents": 10})

    def boss(messages: Any) -> Any:
        done = any(one.tool_call_id for one in messages)
        return "Done." if done else ToolCall("h", "clerk", {"request": "Refund order 1"})

    def make() -> Agent[Any]:
        clerk = Agent("clerk", model=ScriptedModel(helper), tools=[refund])
        return Agent("boss", model=ScriptedModel(boss), tools=[clerk])

    journal = MemoryJournal()
    await run(make(), Request("Refund order 1", run_id="b"), journal=journal)
    before = list(BOOK)
    found = await Dataset.from_journal(journal)
    report = await lab.run(found, make(), scorers=[lab.same_effects()], journal="memory:")
    assert before == BOOK
    (row,) = report.of("today")
    assert (row.answer, row.new_effects) == ("Done.", ())
    assert row.scores["same_effects"].value == 1


async def test_approvals_and_answers_come_from_the_record() -> None:
    @tool(effect="write", approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        BOOK.append("pay")
        return "paid"

    def reply(cents: int) -> Any:
        def made(messages: Any) -> Any:
            done = [one for one in messages if one.tool_call_id]
            return done[0].text if done else ToolCall("p", "pay", {"cents": cents})

        return made

    journal = MemoryJournal()
    agent = Agent("payer", model=ScriptedModel(reply(5)), tools=[pay])
    await run(agent, Request("Pay.", run_id="p"), journal=journal, approve=lambda asked: True)
    found, before = await Dataset.from_journal(journal), list(BOOK)
    variants = {"today": agent, "more": agent.but(model=ScriptedModel(reply(500)))}
    report = await lab.run(found, variants, journal="memory:")
    assert before == BOOK
    (same,), (more,) = report.of("today"), report.of("more")
    assert (same.answer, same.new_effects) == ("paid", ())
    assert "it was not approved" in str(more.answer)
    report = await lab.run(found, variants, journal="memory:", approvals="approve")
    (more,) = report.of("more")
    assert [one.arguments for one in more.new_effects] == [{"cents": 500}]


async def _started(journal: Any) -> Any:
    for one in await journal.runs():
        async for event in journal.events(one.run_id):
            if isinstance(event, RunStarted):
                yield event


async def test_a_recorded_write_that_now_needs_approval_is_missing_and_not_new(
    dataset: Dataset,
) -> None:
    careful_desk = desk(careful)
    asking = [one.but(approval=True) if one.name == "refund" else one for one in careful_desk.tools]
    variants = {"today": careful_desk, "asking": careful_desk.but(tools=asking)}
    report = await lab.run(dataset, variants, journal="memory:")
    assert report.sentences() == [
        "asking did not make 12 writes that the record has, in 12 cases: refund 12"
    ]


async def test_a_name_does_not_keep_the_runs_of_another_agent(
    dataset: Dataset, tmp_path: Path
) -> None:
    options: Any = {"journal": tmp_path / "lab.db", "name": "check"}
    first = await lab.run(dataset, {"today": desk(careful)}, **options)
    again = await lab.run(dataset, {"today": desk(careful)}, **options)
    changed = await lab.run(dataset, {"today": desk(hasty)}, **options)
    assert (first.runs_read, again.runs_read, changed.runs_read) == (0, 13, 0)
    assert len(changed.of("today")[0].new_effects) == 1


async def test_a_budget_is_that_of_the_agents_and_not_of_the_name(
    dataset: Dataset, tmp_path: Path
) -> None:
    options: Any = {"journal": tmp_path / "lab.db", "name": "check", "budget_usd": 1}
    for reply in (careful, hasty):
        await lab.run(dataset, {"today": desk(reply)}, **options)
    async with open_journal(tmp_path / "lab.db") as journal:
        found = [one async for run in _started(journal) for one in run.options["quotas"]]
    assert len({one["quota"]["name"] for one in found}) == 2


async def test_a_function_answers_what_was_not_recorded(dataset: Dataset) -> None:
    def other(messages: Any) -> Any:
        done = [one for one in messages if one.tool_call_id]
        return done[0].text if done else ToolCall("f", "find_order", {"id": 999})

    async def guess(call: lab.SimulatedCall) -> Any:
        return {"guessed": [call.tool, call.arguments["id"], call.case.id]}

    options: Any = {"unseen": "simulated", "simulator": guess, "journal": "memory:"}
    report = await lab.run(dataset, desk(other), **options)
    row = report.of("today")[0]
    assert (row.off_record, '"guessed"' in str(row.answer)) == ((), True)
    report = await lab.run(dataset, desk(other), unseen="stop", journal="memory:")
    assert {row.status for row in report.of("today")} == {"interrupted"}


async def test_live_reads_are_made_and_writes_never(dataset: Dataset) -> None:
    def other(messages: Any) -> Any:
        done = [one for one in messages if one.tool_call_id]
        calls: list[tuple[str, Any]] = [
            ("find_order", {"id": 7000}),
            ("refund", {"id": 7000, "cents": 1}),
        ]
        return "Done." if len(done) > 1 else ToolCall(f"c{len(done)}", *calls[len(done)])

    BOOK.clear()
    small = Dataset("one", dataset.cases[:1])
    report = await lab.run(small, desk(other), tools="live reads", journal="memory:")
    assert BOOK == ["find 7000"]
    (row,) = report.of("today")
    assert [one.tool for one in row.new_effects] == ["refund"]


async def test_the_budget_stops_the_experiment(dataset: Dataset) -> None:
    def dear(messages: Any) -> Any:
        return ModelResponse(content="Hm.", usage=Usage(input_tokens=1000, output_tokens=1000))

    model = ScriptedModel(dear, name="openai:gpt-5")
    agent = Agent("desk", model=model, budget=Budget(max_turns=3))
    journal = MemoryJournal()
    options: Any = {"budget_usd": 0.05, "journal": journal, "concurrency": 1}
    report = await lab.run(dataset, agent, **options)
    assert re.match(r"\d+ runs stopped at a budget: The quota .* has max_cost", report.stopped)
    again = await lab.run(dataset, agent, budget_usd=50, journal=journal, concurrency=1)
    assert again.stopped == ""


async def test_a_report_refuses_names_that_it_does_not_have(dataset: Dataset) -> None:
    report = await lab.run(dataset, desk(careful), scorers=[lab.completed()], journal="memory:")
    with pytest.raises(Misuse, match="there is no variant 'C': there is 'today'"):
        report.compare("C", "completed")
    with pytest.raises(Misuse, match="there is no scorer 'nope': there is 'completed'"):
        report.compare("today", "nope")
    with pytest.raises(Misuse, match=r"gone/report\.json cannot be written"):
        report.write("gone/report.json")
    with pytest.raises(Misuse, match=r"gone/one\.jsonl cannot be written"):
        dataset.write("gone/one.jsonl")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agnt": "desk"}, "there is no filter 'agnt'"),
        ({"note": 5}, "note is the name of a note"),
        ({"min_cost": "x"}, "min_cost is an amount of money"),
        ({"min_cost": math.nan}, "min_cost is an amount of money"),
    ],
    ids=str,
)
async def test_a_wrong_filter_is_a_mistake(given: Any, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        await Dataset.from_journal(MemoryJournal(), **given)


async def test_what_is_around_the_lines_of_a_dataset_does_not_matter(
    dataset: Dataset, tmp_path: Path
) -> None:
    file = tmp_path / "one.jsonl"
    dataset.write(file)
    head, *lines = file.read_text("utf-8").splitlines()
    file.write_text("\n\n".join(["\ufeff" + head, *lines, "", ""]), "utf-8")
    assert Dataset.read(file) == dataset
    file.write_text("\n".join([head.replace('"cases": 13', '"cases": 12'), *lines]), "utf-8")
    with pytest.raises(Misuse, match="says 12 cases, and there are 13"):
        Dataset.read(file)
    for text in ("", "[]", "\n".join(lines)):
        file.write_text(text, "utf-8")
        with pytest.raises(Misuse, match="its first line is no head"):
            Dataset.read(file)


async def test_a_parked_run_waits_and_has_not_failed() -> None:
    report = lab.Report(
        name="x", variants=("a",), rows=(lab.Row(case="1", variant="a", status="input_required"),)
    )
    assert (report.facts("a")["failed"], report.facts("a")["waiting"]) == (0, 1)


async def test_what_a_stopped_run_cost_stays_in_the_report(dataset: Dataset) -> None:
    def dear(messages: Any) -> Any:
        usage = Usage(input_tokens=1000, output_tokens=1000)
        is_first = not any(one.tool_call_id for one in messages)
        calls = [ToolCall("f", "find_order", {"id": last_number(messages)})] if is_first else []
        return ModelResponse(parts=calls or (Text("Hm."),), usage=usage)

    agent = Agent("desk", model=ScriptedModel(dear, name="openai:gpt-5"), tools=[find_order])
    agent = agent.but(settings=ModelSettings(max_tokens=1000))
    one, journal = Dataset("one", dataset.cases[:1]), MemoryJournal()
    report = await lab.run(one, agent, budget_usd=0.02, journal=journal)
    (stopped,) = report.of("today")
    assert (stopped.error, stopped.cost) == ("budget_exceeded", pytest.approx(0.01125))
    report = await lab.run(one, agent, budget_usd=5, journal=journal)
    (row,) = report.of("today")
    assert (row.cost, row.earlier_cost) == (pytest.approx(0.0225), pytest.approx(0.01125))
    assert "earlier tries of runs cost $0.011 beside the variants" in report.sentences()


async def test_the_report_says_that_a_price_is_unknown(dataset: Dataset) -> None:
    agent = Agent("desk", model=ScriptedModel(careful, name="home:own"), tools=[find_order])
    report = await lab.run(dataset, agent, budget_usd=5, journal="memory:")
    assert "the price of home:own is unknown" in report.stopped


async def test_cases_can_be_chosen_by_note_and_drawn_at_random() -> None:
    journal = MemoryJournal()
    await recorded(journal, range(1, 6))
    await note("r2", "thumb", "down", by="ann", journal=journal)
    chosen = await Dataset.from_journal(journal, note="thumb=down")
    assert [case.id for case in chosen] == ["r2"]
    assert chosen.cases[0].notes == {"thumb": "down"}
    drawn = [await Dataset.from_journal(journal, sample=2, seed=3) for _ in range(2)]
    assert drawn[0] == drawn[1] and len(drawn[0]) == 2


async def test_a_dataset_is_read_back_as_it_was_written(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    dataset.write(path)
    assert Dataset.read(path) == dataset
    text = path.read_text("utf-8")
    path.write_text(text.replace("Refund order 3", "Refund order 4"), "utf-8")
    with pytest.raises(Misuse, match="do not fit its digest"):
        Dataset.read(path)


async def test_a_report_is_read_back_as_it_was_written(dataset: Dataset, tmp_path: Path) -> None:
    report = await lab.run(dataset, desk(careful), scorers=[lab.same_effects()], journal="memory:")
    report.write(tmp_path / "report.json")
    assert lab.Report.read(tmp_path / "report.json") == report
    jsonschema_rs.meta.validate(lab.report_schema())
    fits = jsonschema_rs.validator_for(lab.report_schema())
    written = json.loads((tmp_path / "report.json").read_text("utf-8"))
    fits.validate(written)
    assert not fits.is_valid({**written, "rows": [{"variant": 5}]})


@pytest.mark.parametrize(
    ("variants", "options", "said"),
    [
        ({}, {}, "variants are agents by name"),
        ({"record": "agent"}, {}, "give an Agent"),
        ({"a": desk(careful)}, {"repeat": 0}, "repeat is a whole number from 1, got 0"),
        ({"record": desk(careful)}, {}, "what really happened"),
    ],
    ids=["none", "no agent", "no repeat", "a taken name"],
)
async def test_what_cannot_be_tried_is_refused(
    dataset: Dataset, variants: Any, options: Any, said: str
) -> None:
    with pytest.raises(Misuse, match=said):
        await lab.run(dataset, variants, journal="memory:", **options)


async def test_nothing_is_stored_in_the_journal_of_the_app(tmp_path: Path) -> None:
    async with open_journal(tmp_path / "app.db") as journal:
        dataset = await recorded(journal, range(1, 3))
        before = await journal.runs()
        await lab.run(dataset, desk(hasty), journal=tmp_path / "lab.db")
        assert await journal.runs() == before


async def test_the_journal_of_an_app_is_refused(dataset: Dataset) -> None:
    journal = MemoryJournal()
    # A run of this name is none of the lab.
    await run(desk(careful), Request("Refund order 1", run_id="lab-1"), journal=journal)
    with pytest.raises(Misuse, match="the journal has real runs"):
        await lab.run(dataset, desk(hasty), journal=journal)


async def test_a_trial_claims_no_effect_and_is_no_case() -> None:
    @tool(effect="write", once="id")
    def pay(id: int) -> str:
        """Pay."""
        BOOK.append(f"pay {id}")
        return "paid"

    def reply(messages: Any) -> Any:
        calls = [ToolCall(f"c{one}", "pay", {"id": 1}) for one in range(2)]
        return "Done." if any(one.tool_call_id for one in messages) else calls

    agent, journal = Agent("desk", model=ScriptedModel(reply), tools=[pay]), MemoryJournal()
    options: Any = {"unseen": "simulated", "simulator": lambda call: "simulated"}  # pyright: ignore[reportUnknownLambdaType]
    dataset = Dataset("d", (lab.Case(id="1", request=Request("Pay.")),))
    report = await lab.run(dataset, agent, journal=journal, scorers=[agent], **options)
    # Within a run it is still one effect.
    assert len(report.of("today")[0].new_effects) == 1
    before = len(BOOK)
    await run(agent, Request("Pay.", run_id="real"), journal=journal)
    assert BOOK[before:] == ["pay 1"]
    assert [one.id for one in await Dataset.from_journal(journal)] == ["real"]


@pytest.mark.parametrize("inside", [False, True], ids=["a trial", "its child run"])
async def test_a_trial_is_not_continued_outside_the_lab(*, inside: bool) -> None:
    @tool(effect="write", approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        BOOK.append("pay")
        return "paid"

    def reply(messages: Any) -> Any:
        return "Done." if any(one.tool_call_id for one in messages) else asks

    asks: Any = ToolCall("p", "pay", {"cents": 5})
    payer = Agent("payer", model=ScriptedModel(reply), tools=[pay])
    boss = Agent("boss", model=ScriptedModel(reply), tools=[payer])
    agent = boss if inside else payer
    call = ToolCall("h", "payer", {"request": "Pay."}) if inside else asks
    agent = agent.but(model=ScriptedModel(lambda messages: call))
    journal, before = MemoryJournal(), list(BOOK)
    case = lab.Case(id="1", request=Request("Pay."))
    dataset = Dataset("one", (case,))
    whole = Ordered()
    await lab.run(dataset, agent.but(budget=Budget(max_turns=2)), journal=whole)
    trials = [one.run_id for one in await whole.runs()]
    assert len(trials) > inside
    for length in range(2, len(whole.order)):
        journal = whole.cut(length)
        for run_id in trials:
            if (
                await has_log(run_id, journal)
                and await RunHandle(run_id, journal).result(0) is None
            ):
                with pytest.raises(Misuse, match="is a run of the lab"):
                    await resume(run_id, agent, journal=journal, approve=lambda asked: True)
    assert before == BOOK


async def test_any_cut_of_an_experiment_makes_the_same_report(dataset: Dataset) -> None:
    cases = tuple(case for case in dataset if case.run_id in ("r1", "r13"))
    small, whole = Dataset("two", cases), Ordered()
    scorers = [lab.same_effects(), lab.trajectory(), lab.completed()]

    async def tried(journal: Ordered) -> list[Any]:
        variants = {"today": desk(careful), "hasty": desk(hasty)}
        options: Any = {"scorers": scorers, "journal": journal, "concurrency": 1}
        report = await lab.run(small, variants, **options)
        return [replace(row, took_s=0, cost=None, tokens=0) for row in report.rows]

    before, expected = list(BOOK), await tried(whole)
    for length in range(1, len(whole.order)):
        assert await tried(whole.cut(length)) == expected, length
    assert before == BOOK
