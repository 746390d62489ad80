"""What a run's events tell, live or from its log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.made_up import RUN_ID, Timed, a_whole_run, activity_of, began_call, replied, started
from upshot import Agent, Request, ScriptedModel, ToolCall, run, tool
from upshot.cli.lookup import read_activity
from upshot.cli.report import report
from upshot.cli.terminal import Glyphs
from upshot.contract import (
    AgentError,
    AgentResult,
    ApprovalAnswered,
    ApprovalRequested,
    Approve,
    Deny,
    Event,
    Interrupt,
    InterruptCause,
    ModelRetried,
    ModelStarted,
    PendingApproval,
    RunInterrupted,
    RunResumed,
    RunSettled,
    Status,
    StepSettled,
    StepStarted,
    TextDelta,
    ToolProgress,
    Unknown,
    Warned,
)
from upshot.journal import MemoryJournal
from upshot.state.activity import RUNNING, Ended


def test_a_whole_run_is_told_step_by_step() -> None:
    activity = activity_of(a_whole_run())
    told = [(step.name, round(step.start_s, 3), step.took_s) for step in activity.steps]
    assert [(name, start, round(took or 0, 3)) for name, start, took in told] == [
        ("openai:simulated", 0.0, 0.2),
        ("openai:simulated", 1.0, 0.5),
        ("count", 1.5, 0.4),
        ("count", 1.5, 0.0),
        ("wait", 1.5, 1.5),
        ("openai:simulated", 3.0, 1.0),
    ]
    words = [step.ended.word for step in activity.steps if step.ended]
    assert words == [
        "429 rate_limit", "3 calls", "result", "denied: validation", "timeout", "answer",
    ]  # fmt: skip
    assert (activity.status, activity.length_s, activity.run_id) == ("completed", 4.0, RUN_ID)


@given(st.integers(0, len(a_whole_run())))
def test_any_prefix_of_a_run_can_be_told(length: int) -> None:
    activity = activity_of(a_whole_run()[:length])
    assert activity.status == (RUNNING if length < len(a_whole_run()) else "completed")
    assert all(step.running == (step.ended is None) for step in activity.steps)


def test_usage_is_added_up_before_there_is_a_result() -> None:
    activity = activity_of(
        [(0, started()), (0, replied(1, tokens=100)), (1, replied(2, tokens=50))]
    )
    assert activity.spent[0].total_tokens == 170
    assert activity.spent[0].api_calls == 2
    assert activity.spent[1] is None


def test_the_time_between_two_sessions_counts_for_nothing() -> None:
    activity = activity_of(
        [
            (0.0, started()),
            (1.0, began_call("c0")),
            (3601.0, RunResumed(interrupted_calls=("c0",))),
            (3602.0, ModelStarted(turn=2)),
        ]
    )
    assert activity.length_s == 2.0
    assert activity.sessions == 2
    lost, mark, model = activity.steps
    assert lost.lost and not lost.running
    assert (lost.end_s, lost.took_s) == (1.0, None)
    assert (mark.name, mark.start_s, model.start_s) == ("resumed", 1.0, 2.0)


def a_wait_for_the_next_try() -> list[tuple[float, Event]]:
    return [(0.0, ModelStarted(turn=1)), (0.5, ModelRetried(turn=1, wait_s=60.0))]


def test_what_happens_while_a_next_try_is_waited_for_stands_before_it() -> None:
    activity = activity_of(
        [*a_wait_for_the_next_try(), (2.0, RunInterrupted(interrupt=Interrupt()))]
    )
    assert [(step.kind, step.start_s) for step in activity.steps] == [
        ("model", 0.0), ("mark", 2.0), ("model", 60.5),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "event", [RunResumed(), RunSettled(result=AgentResult())], ids=["resumed", "settled"]
)
def test_a_try_whose_time_never_came_begins_where_the_session_ended(event: Event) -> None:
    activity = activity_of([*a_wait_for_the_next_try(), (0.5, event)])
    assert (activity.steps[1].start_s, activity.steps[1].end_s) == (0.5, 0.5)


def test_a_running_tool_says_how_far_it_is() -> None:
    activity = activity_of([(0, began_call("c0")), (1, ToolProgress(call_id="c0", text="half"))])
    assert [step.note for step in activity.running] == ["half"]


def test_characters_of_the_reply_under_way_are_counted() -> None:
    events = [(0.0, ModelStarted(turn=1)), (0.1, TextDelta(text="abc")), (0.2, TextDelta(text="d"))]
    assert activity_of(events).text == 4


def test_engine_steps_and_interrupts_are_steps_too() -> None:
    activity = activity_of(
        [
            (0.0, StepStarted(key="plan")),
            (1.0, StepSettled(key="plan")),
            (1.5, RunInterrupted(interrupt=Interrupt(InterruptCause.USER_CANCEL, "Ctrl-C"))),
        ]
    )
    assert [(s.kind, s.name, s.ended.word if s.ended else "") for s in activity.steps] == [
        ("step", "plan", "done"),
        ("mark", "interrupted", ""),
    ]


def test_an_event_of_an_unknown_kind_is_passed_over() -> None:
    activity = activity_of(a_whole_run()[:3])
    activity.add(Unknown(raw={"kind": "from_the_future"}))
    assert len(activity.steps) == 2


def test_the_time_until_an_answer_that_is_kept_is_no_work() -> None:
    pending = PendingApproval(call_id="c1", tool_name="pay")
    parked = AgentResult[str](
        status=Status.INPUT_REQUIRED,
        error=AgentError("input_required", "It waits."),
        pending=(pending,),
    )
    answer = Approve("c1", by="ann")
    kept: list[Timed] = [
        (0, started()),
        (1, ApprovalRequested(pending=pending)),
        (2, RunSettled(result=parked)),
        (3600, ApprovalAnswered(answer=answer)),
    ]
    activity = activity_of(kept)
    assert (activity.length_s, activity.answered) == (2.0, {("", "c1", ""): "approved by ann"})
    activity = activity_of([*kept, (7200, RunResumed()), (7201, Warned())])
    assert (activity.length_s, activity.answered) == (3.0, {})
    marks = [(step.name, step.ended.detail) for step in activity.steps if step.ended]
    assert marks == [("asked", "pay"), ("answered", "pay approved by ann"), ("resumed", "")]


def test_a_later_answer_takes_the_place_of_the_one_before() -> None:
    pending = PendingApproval(call_id="c1", tool_name="pay")
    activity = activity_of(
        [
            (0, started()),
            (1, ApprovalRequested(pending=pending)),
            (2, ApprovalAnswered(answer=Approve("c1", by="ann"))),
            (3, ApprovalAnswered(answer=Deny("c1", by="bob"))),
        ]
    )
    marks = [(step.name, step.ended.detail) for step in activity.steps if step.ended]
    assert marks == [("asked", "pay"), ("answered", "pay denied by bob")]


def test_a_run_inside_is_called_as_it_is_named_before_or_after_it_begins() -> None:
    activity = activity_of([(0, started()), (1, StepStarted(key="child:run-a"))])
    assert activity.steps[0].title == "run-a"
    activity.name_run("run-a", "writer")
    activity.name_run("run-b", "critic")
    activity.add(StepStarted(run_id=RUN_ID, key="child:run-b"))
    assert [step.title for step in activity.steps] == ["writer", "critic"]


async def test_a_call_whose_agent_waits_is_no_call_that_was_cut_off() -> None:
    calls = [ToolCall("p", "pay")]
    clerk = Agent("clerk", model=ScriptedModel(calls), tools=[pay])
    asks = [ToolCall("c", "clerk", {"request": "Pay."})]
    boss = Agent("boss", model=ScriptedModel(asks), tools=[clerk])
    journal = MemoryJournal()
    parked = await run(boss, Request("Pay.", run_id="r"), journal=journal)
    activity = await read_activity(journal, "r")
    rows = [(step.kind, step.ended) for step in activity.steps[1:]]
    waits = f"for {parked.pending[0].run_id}"
    assert rows == [("tool", Ended("waits", "plain", waits)), ("step", Ended("waits"))]
    shown = report(activity, journal="runs.db", width=80, glyphs=Glyphs())
    lines = [line.plain for line in shown]
    assert not [line for line in lines if "may have happened" in line]


@tool(effect="destructive")
def pay() -> str:
    return "paid"
