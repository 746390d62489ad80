"""Hand-offs: the model passes its request on, and the run says to whom."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.runs.kit import Do, kinds, log_of, say
from upshot import (
    Agent,
    AgentResult,
    Approve,
    DeniedReason,
    FinalizeDecision,
    Handoff,
    HandoffEvent,
    Misuse,
    Request,
    RunInfo,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    decode,
    encode,
    handoff_tools,
    resume,
    run,
    tool,
)
from upshot.journal import MemoryJournal
from upshot.tools import Toolbox

TO_TECH = ToolCall("h1", "transfer_to_tech", {"reason": "a bug", "note": "it crashes"})
TO_BILLING = ToolCall("h2", "transfer_to_billing", {"reason": "money"})


def triage(**facts: Any) -> Agent[str]:
    return Agent("triage", handoffs=["tech", "billing"], **facts)


async def handed_over(*replies: Any, agent: Agent[str] | None = None, **options: Any) -> Any:
    return await run(agent or triage(), "It crashes.", model=ScriptedModel(replies), **options)


async def test_a_hand_off_ends_the_turn_and_is_told_in_the_result() -> None:
    result = await handed_over(TO_TECH)
    assert result.status is Status.COMPLETED
    event = result.handoff
    assert (event.to_agent_id, event.tool_name, event.call_id, event.reason, event.note) == (
        "tech",
        "transfer_to_tech",
        "h1",
        "a bug",
        "it crashes",
    )
    assert result.state["handoff"]["to_agent_id"] == "tech"
    assert result.state["finalize_reason"] == "handoff:tech"
    assert isinstance(result.tool_outcomes[0], ToolExecutionResult)


async def test_the_event_is_stamped_though_nobody_listens() -> None:
    result = await handed_over(TO_TECH)
    assert result.handoff.run_id == result.run_id
    assert result.handoff.attempt == 1
    assert result.handoff.time is not None
    assert result.handoff.seq > 0


async def test_a_result_with_a_hand_off_survives_json() -> None:
    result = await handed_over(TO_TECH)
    assert decode(encode(result), AgentResult).handoff == result.handoff


async def test_the_first_hand_off_of_a_reply_supersedes_the_others() -> None:
    result = await handed_over([TO_TECH, TO_BILLING])
    first, second = result.tool_outcomes
    assert isinstance(first, ToolExecutionResult)
    assert isinstance(second, ToolDenied)
    assert second.reason is DeniedReason.SUPERSEDED
    assert result.handoff.to_agent_id == "tech"


async def test_other_tools_of_the_reply_still_run() -> None:
    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    result = await handed_over([TO_TECH, ToolCall("c", "look", {})], agent=triage(tools=[look]))
    assert [type(outcome) for outcome in result.tool_outcomes] == [ToolExecutionResult] * 2


@pytest.mark.parametrize("wait", [False, True], ids=["sync", "async"])
async def test_a_hook_that_raises_makes_a_failure_and_the_next_one_counts(*, wait: bool) -> None:
    def refuse(info: RunInfo, event: HandoffEvent) -> None:
        raise ValueError("nobody is there")

    async def refuse_later(info: RunInfo, event: HandoffEvent) -> None:
        refuse(info, event)

    hook = refuse_later if wait else refuse
    agent: Agent[str] = Agent("triage", handoffs=[Handoff("tech", on_invoke=hook), "billing"])
    result = await handed_over([TO_TECH, TO_BILLING], agent=agent)
    assert isinstance(result.tool_outcomes[0], ToolFailure)
    assert result.handoff.to_agent_id == "billing"


async def test_a_hook_is_told_of_run_and_event() -> None:
    told: list[tuple[RunInfo, HandoffEvent]] = []

    def hook(info: RunInfo, event: HandoffEvent) -> None:
        told.append((info, event))

    agent: Agent[str] = Agent("triage", handoffs=[Handoff("tech", on_invoke=hook)])
    result = await handed_over(TO_TECH, agent=agent)
    ((info, event),) = told
    assert info.agent_id == "triage"
    assert info.run_id == result.run_id
    assert (event.to_agent_id, event.reason, event.note) == ("tech", "a bug", "it crashes")


async def test_without_a_success_the_run_goes_on() -> None:
    def refuse(info: RunInfo, event: HandoffEvent) -> None:
        raise ValueError("nobody is there")

    agent: Agent[str] = Agent("triage", handoffs=[Handoff("tech", on_invoke=refuse)])
    result = await handed_over(TO_TECH, "I do it myself.", agent=agent)
    assert result.handoff is None
    assert result.content == "I do it myself."
    assert "handoff" not in result.state


async def test_a_hidden_hand_off_is_neither_offered_nor_known() -> None:
    def hide(info: RunInfo, board: Any) -> bool:
        return len(board.messages()) > 100

    offered: list[list[str]] = []

    class Look:
        def before_model(self, info: Any, request: Any) -> None:
            offered.append([spec.name for spec in request.tools])

    agent: Agent[str] = Agent("triage", handoffs=[Handoff("tech", filter=hide), "billing"])
    result = await handed_over(TO_TECH, "Then not.", agent=agent, deciders=[Look()])
    assert offered[0] == ["transfer_to_billing"]
    assert result.tool_outcomes[0].reason is DeniedReason.UNKNOWN_TOOL
    assert result.handoff is None


async def test_a_broken_filter_hides_its_hand_off_with_a_warning() -> None:
    def broken(info: RunInfo, board: Any) -> bool:
        raise KeyError("who")

    agent: Agent[str] = Agent("triage", handoffs=[Handoff("tech", filter=broken)])
    result = await handed_over(TO_TECH, "Then not.", agent=agent)
    assert result.handoff is None
    assert "filter_failed" in {warning.code for warning in result.warnings}


@pytest.mark.parametrize(
    ("said", "taken"), [({}, True), ({"note": "n"}, True), ({"to": "me"}, False)]
)
async def test_reason_and_note_are_the_only_arguments(said: Any, *, taken: bool) -> None:
    result = await handed_over(ToolCall("h", "transfer_to_tech", said), "Else.")
    assert (result.handoff is not None) is taken


async def test_an_output_type_is_not_asked_of_who_hands_over() -> None:
    agent: Agent[Any] = triage(output_type={"type": "object"})
    result = await handed_over(TO_TECH, agent=agent)
    assert result.status is Status.COMPLETED
    assert result.output is None


async def test_a_discard_has_the_last_word_on_the_reason() -> None:
    class No:
        def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
            return FinalizeDecision.discard(f"not to {result.handoff.to_agent_id}")

    result = await handed_over(TO_TECH, deciders=[No()])
    assert result.state["finalize_reason"] == "not to tech"
    assert not result.committed


async def test_a_revised_attempt_forgets_the_hand_off() -> None:
    class Again:
        def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
            return FinalizeDecision.revise("Do it yourself.") if result.handoff else None

    result = await handed_over(TO_TECH, "Done.", deciders=[Again()], max_attempts=2)
    assert result.handoff is None
    assert "handoff" not in result.state
    assert result.content == "Done."


async def test_an_engine_of_ones_own_hands_over_through_the_tools_of_the_run() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        await run.tools.dispatch([TO_TECH])

    result = await run(triage(engine=Do(work)), "Go.")
    assert result.handoff is not None
    assert result.handoff.to_agent_id == "tech"


async def test_hand_off_tools_work_in_a_toolbox_of_the_engines_own() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        box = Toolbox(handoff_tools(run.agent.handoffs, run.request))
        outcomes = await box.dispatch([TO_TECH, TO_BILLING])
        board.set("codes", [getattr(outcome, "code", "") for outcome in outcomes])

    result = await run(triage(engine=Do(work)), "Go.")
    assert result.handoff is not None
    assert result.handoff.to_agent_id == "tech"
    board: Any = result.last_board
    assert board.get("codes") == [None, "superseded"]


async def test_an_engine_may_publish_a_hand_off_itself() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(say("Over to them."))
        host.publish(HandoffEvent(to_agent_id="tech", note="n"))

    result = await run(Agent("triage", engine=Do(work)), "Go.")
    assert result.handoff is not None
    assert result.handoff.note == "n"
    assert result.state["finalize_reason"] == "handoff:tech"


def test_hand_off_tools_leave_out_what_a_request_hides() -> None:
    only_vip = Handoff("vip", filter=lambda info, board: info.context_id == "vip")
    handoffs = [only_vip, "tech"]
    names = [one.name for one in handoff_tools(handoffs, Request("Hi."))]
    assert names == ["transfer_to_tech"]
    names = [one.name for one in handoff_tools(handoffs, Request("Hi.", context_id="vip"))]
    assert names == ["transfer_to_vip", "transfer_to_tech"]


def test_what_a_request_says_of_its_inputs_shows_and_hides_hand_offs() -> None:
    vip = Handoff("vip", filter=lambda info, board: bool(board.get("vip")))
    for is_vip in (True, False):
        tools = handoff_tools([vip], Request("?", inputs={"vip": is_vip}))
        assert len(tools) == is_vip


async def test_a_hand_off_beside_a_parked_call_holds_after_the_resume() -> None:
    @tool(effect="write", approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    journal, agent = MemoryJournal(), triage(tools=[pay])
    replies = [[TO_TECH, ToolCall("p", "pay", {})]]
    parked = await handed_over(*replies, agent=agent, journal=journal)
    assert parked.status is Status.INPUT_REQUIRED
    result = await resume(
        parked.run_id,
        agent,
        journal=journal,
        answers=[Approve("p")],
        model=ScriptedModel(replies),
    )
    assert result.status is Status.COMPLETED, result.error
    assert result.handoff is not None
    assert result.handoff.to_agent_id == "tech"
    assert len(result.tool_outcomes) == 2


@pytest.mark.parametrize("last", ["tool_settled", "handoff", "board_changed", "attempt_ended"])
async def test_a_hand_off_survives_the_end_of_its_process(last: str) -> None:
    journal = MemoryJournal()
    whole = await handed_over(TO_TECH, journal=journal)
    events = await log_of(journal, whole.run_id)
    cut = len(events) - kinds(events)[::-1].index(last)
    other = MemoryJournal()
    for event in events[:cut]:
        other.append(event)
    result = await resume(
        whole.run_id, triage(), journal=other, model=ScriptedModel([TO_TECH, "no"])
    )
    assert result.handoff is not None
    assert result.handoff.to_agent_id == "tech"
    assert result.status is Status.COMPLETED
    assert result.state["finalize_reason"] == "handoff:tech"
    assert kinds(await log_of(other, whole.run_id)).count("handoff") == 1


async def cut_in_the_call(agent: Agent[str]) -> AgentResult[Any]:
    """What a run comes to that goes on after its process ended while its hand-off ran."""
    journal, other = MemoryJournal(), MemoryJournal()
    whole = await handed_over(TO_TECH, agent=agent, journal=journal)
    events = await log_of(journal, whole.run_id)
    for event in events[: kinds(events).index("tool_settled")]:
        other.append(event)
    assert kinds(await log_of(other, whole.run_id))[-1] == "tool_started"
    again = ToolCall("h3", "transfer_to_tech", TO_TECH.arguments)
    model = ScriptedModel([TO_TECH, again, "Not handed over."])
    return await resume(whole.run_id, agent, journal=other, model=model)


async def test_a_hand_off_that_its_process_did_not_survive_is_made_again() -> None:
    result = await cut_in_the_call(triage())
    assert result.handoff is not None
    assert (result.handoff.to_agent_id, result.handoff.call_id) == ("tech", "h1")
    assert result.state["finalize_reason"] == "handoff:tech"
    assert [outcome.kind for outcome in result.tool_outcomes] == ["tool_execution_result"]


async def test_a_hook_whose_process_ended_under_it_is_not_called_again() -> None:
    asked: list[str] = []
    hook = Handoff("tech", on_invoke=lambda info, event: asked.append(event.call_id))
    result = await cut_in_the_call(Agent("triage", handoffs=[hook]))
    assert (result.handoff, result.content, asked) == (None, "Not handed over.", ["h1"])
    failure, denial = result.tool_outcomes
    assert isinstance(failure, ToolFailure)
    assert isinstance(denial, ToolDenied)
    assert (failure.code, denial.reason) == ("interrupted", DeniedReason.EFFECT_UNKNOWN)


async def test_a_second_hand_off_to_the_same_agent_is_superseded() -> None:
    result = await handed_over([TO_TECH, ToolCall("h3", TO_TECH.name, TO_TECH.arguments)])
    assert result.handoff is not None
    denial = result.tool_outcomes[1]
    assert isinstance(denial, ToolDenied)
    assert denial.reason is DeniedReason.SUPERSEDED


def guarded(filter: Any) -> Agent[str]:
    return Agent("triage", handoffs=[Handoff("tech", filter=filter)])


async def hide(info: Any, board: Any) -> bool:
    return False


class Hiding:
    """A filter that is an object."""

    async def __call__(self, info: Any, board: Any) -> bool:
        return False


@pytest.mark.parametrize("filter", [hide, Hiding(), functools.partial(hide)])
async def test_an_async_filter_hides_its_hand_off(filter: Any) -> None:
    result = await handed_over(TO_TECH, "Mine.", agent=guarded(filter))
    (denied,) = result.tool_outcomes
    assert isinstance(denied, ToolDenied)
    assert (denied.reason, result.handoff, result.content) == ("unknown_tool", None, "Mine.")
    assert result.warnings == ()


async def test_an_async_filter_is_asked_before_each_turn() -> None:
    asked = list[int]()

    async def later(info: Any, board: Any) -> bool:
        await asyncio.sleep(0)
        asked.append(len(board.messages()))
        return len(board.messages()) > 1

    result = await handed_over(TO_TECH, TO_TECH, agent=guarded(later))
    assert result.handoff is not None
    assert [outcome.kind for outcome in result.tool_outcomes] == [
        "tool_denied",
        "tool_execution_result",
    ]
    # When the attempt began, and before each turn.
    assert asked == [1, 1, 3]


async def test_a_script_sees_the_hand_offs_that_an_async_filter_shows() -> None:
    async def names(run: Any, host: Any, board: Any) -> list[str]:
        return [spec.name for spec in run.tools.schemas()]

    async def show(info: Any, board: Any) -> bool:
        return info.agent_id == "triage"

    shown = [Handoff("tech", filter=show), Handoff("billing", filter=hide)]
    agent = Agent[Any]("triage", handoffs=shown, engine=ScriptEngine(names))
    assert (await run(agent, "Help.")).output == ["transfer_to_tech"]


async def test_an_async_filter_that_raises_hides_its_hand_off_and_is_told_once() -> None:
    async def fail(info: Any, board: Any) -> bool:
        raise ValueError("closed")

    result = await handed_over(TO_TECH, "Mine.", agent=guarded(fail))
    assert result.handoff is None
    assert [one.message for one in result.warnings] == [
        "filter of the handoff to 'tech' raised ValueError: closed"
    ]


def test_an_async_filter_cannot_be_asked_where_nobody_waits() -> None:
    assert len(handoff_tools([Handoff("tech", filter=hide)])) == 1
    with pytest.raises(Misuse, match="which cannot be awaited here"):
        handoff_tools([Handoff("tech", filter=hide)], Request("Help."))


async def test_a_filter_that_gives_a_coroutine_hides_its_hand_off() -> None:
    agent = guarded(lambda *facts: hide(*facts))  # noqa: PLW0108  # no coroutine function itself
    result = await handed_over(TO_TECH, "Mine.", agent=agent)
    assert result.handoff is None
    assert [one.code for one in result.warnings] == ["filter_failed"]
    assert "returned a coroutine" in result.warnings[0].message


async def test_a_filter_that_raises_is_told_once() -> None:
    def fail(info: Any, board: Any) -> bool:
        raise SystemExit("out")

    result = await handed_over(TO_TECH, "Mine.", agent=guarded(fail))
    assert result.handoff is None
    assert [one.message for one in result.warnings] == [
        "filter of the handoff to 'tech' raised SystemExit: out"
    ]


@pytest.mark.parametrize("inside", [False, True])
async def test_what_a_hook_calls_hands_nothing_over(*, inside: bool) -> None:
    class Calling:
        async def before_finalize(self, info: RunInfo, request: Request, result: Any) -> None:
            (outcome,) = await Toolbox(handoff_tools(["tech"])).dispatch([TO_TECH])
            assert isinstance(outcome, ToolExecutionResult)

    async def outer(run: Any, host: Any, board: Any) -> Any:
        child = Agent("kid", engine=Do(lambda *_: "fine"), deciders=[Calling()])
        return (await run.child(child, "?")).output

    journal = MemoryJournal()
    if inside:
        result = await run(Agent("a", engine=Do(outer)), "?", journal=journal)
    else:
        agent = Agent("a", engine=Do(lambda *_: "fine"), deciders=[Calling()])
        result = await run(agent, "?", journal=journal)
    assert (result.output, result.handoff, result.state) == ("fine", None, {})
    for summary in await journal.runs():
        assert "handoff" not in kinds(await log_of(journal, summary.run_id))


@dataclass
class Note:
    """A hook that equals others, and so has no hash."""

    told: list[str] = field(default_factory=list[str], compare=False)

    def __call__(self, info: RunInfo, event: HandoffEvent) -> None:
        self.told.append(f"{event.run_id} to {event.to_agent_id}")


async def test_a_hook_that_equals_another_is_called_itself() -> None:
    for hook in (Note(), Note()):
        agent = Agent("triage", handoffs=[Handoff("tech", on_invoke=hook)])
        result = await handed_over(TO_TECH, agent=agent)
        assert hook.told == [f"{result.run_id} to tech"]


@pytest.mark.parametrize("nobody", ["", " "])
def test_a_hand_off_to_nobody_is_misuse(nobody: str) -> None:
    with pytest.raises(Misuse, match="needs an agent's id"):
        Handoff(nobody)


def _plain(info: Any, board: Any, given: Any) -> bool:
    return given == "open"


async def _async(info: Any, board: Any, given: Any) -> bool:
    return given == "open"


@pytest.mark.parametrize("asked", [_plain, _async])
@pytest.mark.parametrize(("given", "shown"), [("open", True), ("closed", False)])
async def test_a_filter_with_a_third_parameter_sees_the_dependencies(
    asked: Any, given: str, shown: bool
) -> None:
    model = ScriptedModel(["Hi."])
    agent = Agent("triage", model=model, handoffs=[Handoff("tech", filter=asked)])
    await run(agent, "?", dependencies=given)
    assert [tool.name for tool in model.calls[0].tools] == ["transfer_to_tech"] * shown


async def test_a_filter_whose_third_parameter_has_a_default_keeps_it() -> None:
    model = ScriptedModel(["Hi."])
    handoff = Handoff("tech", filter=lambda info, board, given="own": given == "own")
    await run(Agent("triage", model=model, handoffs=[handoff]), "?", dependencies="other")
    assert [tool.name for tool in model.calls[0].tools] == ["transfer_to_tech"]
