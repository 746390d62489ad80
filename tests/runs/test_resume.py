"""Going on with a run whose log was cut anywhere: the same end, and nothing done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.answering import keep_answers
from tests.runs.kit import Do, Ordered, Witness, copied, kinds, log_of, measured, raising
from tests.searching import examples
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Answer,
    Approve,
    Deny,
    Event,
    FinalizeDecision,
    Interrupted,
    JournalError,
    Misuse,
    Request,
    Retry,
    Status,
    ToolCall,
    ToolContext,
    encode,
    resume,
    run,
    tool,
)
from upshot.contract import ApprovalAnswered, Unknown
from upshot.entry.resume import read_past
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.state.run_state import RunState
from upshot.state.stored_events import result_of
from upshot.testing.doubles import FakeClock

READ = ToolCall("r", "look", {"n": 1})
WRITE = ToolCall("w", "change", {"n": 2})


class Pair(msgspec.Struct):
    a: int
    b: int


class OnceMore:
    """Wants the first attempt done again."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        if result.attempts == 1:
            return FinalizeDecision.revise("Longer.", state={"seen": 1})
        return FinalizeDecision.accept("fine")


@dataclass
class World:
    """An agent with a script of its own, and what its tools have done."""

    script: list[Any]
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    done: Counter[int] = field(default_factory=Counter[int])

    def agent(self) -> Agent[Any]:
        @tool(effect="read")
        async def look(n: int) -> int:
            self.done[n] += 1
            return n

        @tool(effect="write")
        async def change(n: int) -> int:
            self.done[n] += 1
            return n

        tools = [look, change]
        return Agent("a", model=ScriptedModel(self.script), tools=tools, **self.facts)


BUSY = AgentError("rate_limit", "busy", retryable=True)
BROKEN = AgentError("server_error", "cut off")
WORLDS: dict[str, Callable[[], World]] = {
    "answer": lambda: World([measured("Hi.")]),
    "one tool": lambda: World([measured(None, READ), measured("Done.")]),
    "two turns of tools": lambda: World(
        [measured(None, READ, WRITE), measured("And", READ), measured("Done.")]
    ),
    "wrong arguments": lambda: World(
        [measured(None, ToolCall("r", "look", {"n": "x"})), measured(None, READ), measured("Ok.")]
    ),
    "typed answer": lambda: World(
        [measured('{"a": 1}'), measured('{"a": 1, "b": 2}')], {"output_type": Pair}
    ),
    "never the right type": lambda: World(
        [measured("no"), measured("nor this"), measured("spare")], {"output_type": Pair}
    ),
    "retries": lambda: World(
        [BUSY, BUSY, measured(None, READ), BUSY, measured("Done.")],
        {"retry": Retry(base_s=0)},
    ),
    "two attempts": lambda: World(
        [measured(None, READ), measured("Short."), measured(None, WRITE), measured("Longer.")],
        {"deciders": [OnceMore()]},
        {"max_attempts": 2},
    ),
    "a failure with text": lambda: World(
        [measured(None, READ), measured("Half", error=BROKEN), measured("Spare.")]
    ),
    "a lost committer": lambda: World([measured("Hi.")], options={"committers": [print]}),
}


async def whole_log(world: World) -> tuple[AgentResult[Any], list[Event]]:
    journal = MemoryJournal()
    request = Request("Go.", run_id="run-1", inputs={"x": 1}, metadata={"m": 1})
    options = {"clock": FakeClock(), "journal": journal} | world.options
    result = await run(world.agent(), request, **options)
    return result, await log_of(journal, "run-1")


async def gone_on(
    events: list[Event], world: World, **options: Any
) -> tuple[AgentResult[Any], list[Event]]:
    """Resume from a log that was cut after *events*, in a new process so to speak."""
    journal = MemoryJournal()
    await copied(events, journal)
    facts = {"clock": FakeClock()} | world.options | options
    facts.pop("max_attempts", None)
    result = await resume("run-1", world.agent(), journal=journal, **facts)
    return result, await log_of(journal, "run-1")


def settled(events: list[Event]) -> Counter[int]:
    """By argument, how many calls of tools have an outcome in the log."""
    return Counter(
        event.record.arguments_executed["n"]  # type: ignore[union-attr, index]
        for event in events
        if event.kind == "tool_settled" and event.record.arguments_executed  # type: ignore[union-attr]
    )


def check(result: AgentResult[Any], whole: AgentResult[Any]) -> None:
    assert (result.status, result.content, result.output) == (
        whole.status,
        whole.content,
        whole.output,
    )
    assert (result.error is None) is (whole.error is None)
    if result.error is not None and whole.error is not None:
        assert result.error.code == whole.error.code
    assert (result.attempts, result.committed) == (whole.attempts, whole.committed)
    assert result.state == whole.state
    assert result.metadata == whole.metadata
    lines = [(line.attempt, line.status, line.content) for line in result.attempt_log]
    assert lines == [(line.attempt, line.status, line.content) for line in whole.attempt_log]
    roles = [message.role for message in result.messages]
    assert roles == [message.role for message in whole.messages]
    assert [outcome.call_id for outcome in result.tool_outcomes] == [
        outcome.call_id for outcome in whole.tool_outcomes
    ]
    assert result.started_at == whole.started_at


@pytest.mark.parametrize("name", WORLDS)
async def test_a_log_that_is_cut_anywhere_is_gone_on_with(name: str) -> None:
    whole, log = await whole_log(WORLDS[name]())
    for cut in range(1, len(log)):
        before, world = log[:cut], WORLDS[name]()
        result, after = await gone_on(before, world)
        check(result, whole)
        expected = settled(log) - settled(before)
        assert not world.done - expected, f"a settled call ran again after event {cut}"
        assert [event.seq for event in after] == list(range(1, len(after) + 1))
        lost = before[-1].kind in ("model_started", "model_retried")
        assert result.usage.total_tokens == whole.usage.total_tokens
        assert result.usage.api_calls == whole.usage.api_calls + lost
        assert after[-1].result == result  # type: ignore[union-attr]


@pytest.mark.parametrize("name", WORLDS)
@examples(25)
@given(data=st.data())
async def test_a_run_may_be_cut_off_many_times(name: str, data: st.DataObject) -> None:
    whole, log = await whole_log(WORLDS[name]())
    for _ in range(3):
        log = log[: data.draw(st.integers(1, len(log) - 1))]
        result, log = await gone_on(log, WORLDS[name]())
        check(result, whole)


def up_to_start(log: list[Event], call_id: str) -> list[Event]:
    """The log as it is when the process dies inside the body of that call."""
    starts = [e.seq for e in log if e.kind == "tool_started" and e.call_id == call_id]  # type: ignore[union-attr]
    return log[: starts[0]]


async def test_a_read_that_had_started_runs_again() -> None:
    whole, log = await whole_log(WORLDS["two turns of tools"]())
    world = WORLDS["two turns of tools"]()
    result, _ = await gone_on(up_to_start(log, "r"), world)
    assert world.done == {1: 2, 2: 1}
    assert result.messages == whole.messages


async def test_a_write_that_had_started_is_unknown_and_not_run_again() -> None:
    _, log = await whole_log(WORLDS["two turns of tools"]())
    world = WORLDS["two turns of tools"]()
    result, _ = await gone_on(up_to_start(log, "w"), world)
    change = result.tool_outcomes[1]
    assert (change.kind, change.code, change.effect) == ("tool_failure", "interrupted", "unknown")
    assert (world.done, result.status) == ({1: 1}, Status.COMPLETED)
    assert "unknown" in result.messages[2].text


async def test_an_idempotent_write_that_had_started_runs_again_with_its_key() -> None:
    keys: list[str] = []

    @tool(effect="write", idempotent=True)
    async def put(context: ToolContext) -> str:
        keys.append(context.idempotency_key)
        return "put"

    def agent() -> Agent[Any]:
        return Agent("a", model=ScriptedModel([ToolCall("p", "put"), "Done."]), tools=[put])

    journal = MemoryJournal()
    await run(agent(), Request("?", run_id="run-1"), journal=journal)
    log, again = await log_of(journal, "run-1"), MemoryJournal()
    await copied(up_to_start(log, "p"), again)
    assert (await resume("run-1", agent(), journal=again)).success
    assert keys[0] == keys[1]


@pytest.mark.parametrize(("last", "interrupted"), [("tool_started", ("r",)), ("tool_settled", ())])
async def test_a_second_session_names_the_calls_that_were_cut_off(
    last: str, interrupted: tuple[str, ...]
) -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    place = kinds(log).index(last) + 1
    _, after = await gone_on(log[:place], WORLDS["one tool"]())
    assert after[place].interrupted_calls == interrupted  # type: ignore[union-attr]


async def test_a_reply_that_was_paid_for_is_not_asked_for_again() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    world = WORLDS["one tool"]()
    agent = world.agent()
    journal = MemoryJournal()
    await copied(log[: kinds(log).index("model_replied") + 1], journal)
    await resume("run-1", agent, journal=journal)
    assert len(agent.model.calls) == 1  # type: ignore[union-attr]


async def test_an_ended_run_gives_its_result_and_writes_nothing() -> None:
    whole, log = await whole_log(WORLDS["one tool"]())
    result, after = await gone_on(log, WORLDS["one tool"]())
    assert result == whole
    assert after == log


async def test_an_ended_failure_is_given_too() -> None:
    whole, log = await whole_log(WORLDS["a failure with text"]())
    result, after = await gone_on(log, WORLDS["a failure with text"]())
    assert (result, after) == (whole, log)


async def test_an_ended_run_that_handed_over_has_no_other_output_type() -> None:
    model = ScriptedModel([ToolCall("h", "transfer_to_b", {})])
    agent = Agent[Pair]("a", model=model, handoffs=["b"], output_type=Pair)
    journal = MemoryJournal()
    whole = await run(agent, Request("Go.", run_id="run-1"), journal=journal)
    assert whole.handoff is not None
    assert await resume("run-1", agent, journal=journal) == whole


async def test_a_second_session_opens_with_run_resumed() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    cut = kinds(log).index("tool_started") + 1
    _, after = await gone_on(log[:cut], WORLDS["one tool"]())
    assert after[cut].kind == "run_resumed"
    assert after[cut].interrupted_calls == ("r",)  # type: ignore[union-attr]


async def test_observers_of_a_second_session_are_told_of_its_start_and_end() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    witness = Witness()
    await gone_on(log[:6], WORLDS["one tool"](), observers=[witness])
    assert witness.names() == ["on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end"]


async def test_committers_that_were_through_are_not_called_again() -> None:
    _, log = await whole_log(WORLDS["answer"]())
    called: list[Any] = []
    cut = kinds(log).index("committed") + 1
    commit = lambda *facts: called.append(facts)  # noqa: E731
    result, _ = await gone_on(log[:cut], WORLDS["answer"](), committers=[commit])
    assert (result.committed, called) == (True, [])


async def test_a_large_output_of_an_earlier_session_is_still_listed() -> None:
    @tool(effect="read")
    async def dump() -> str:
        return "x" * 20_000

    def agent() -> Agent[Any]:
        return Agent("a", model=ScriptedModel([ToolCall("d", "dump"), "Done."]), tools=[dump])

    journal, again = MemoryJournal(), MemoryJournal()
    whole = await run(agent(), Request("?", run_id="run-1"), journal=journal)
    log = await log_of(journal, "run-1")
    await copied(log[: kinds(log).index("tool_settled") + 1], again)
    result = await resume("run-1", agent(), journal=again)
    assert len(whole.artifacts) == 1
    assert result.artifacts == whole.artifacts


async def test_a_large_output_that_is_stored_again_after_a_cut_is_listed_once() -> None:
    @tool(effect="read", repeatable=True)
    async def dump() -> str:
        return "x" * 20_000

    def agent() -> Agent[Any]:
        # Providers use ids again: the second call stores an output of its own.
        turns = [ToolCall("d", "dump"), ToolCall("d", "dump"), "Done."]
        return Agent("a", model=ScriptedModel(turns), tools=[dump])

    journal = MemoryJournal()
    whole = await run(agent(), Request("?", run_id="run-1"), journal=journal)
    log = await log_of(journal, "run-1")
    stored = [at for at, event in enumerate(log) if event.kind == "artifact_stored"]
    assert (len(stored), len(whole.artifacts)) == (2, 2)
    for at in stored:
        again = MemoryJournal()
        await copied(log[: at + 1], again)
        result = await resume("run-1", agent(), journal=again)
        read = result_of(await read_past("run-1", again))
        settled = [outcome.artifact_id for outcome in result.tool_outcomes]  # type: ignore[union-attr]
        assert [one.parts[0].id for one in result.artifacts] == settled  # type: ignore[union-attr]
        assert read is not None and read.artifacts == result.artifacts


class Looking:
    """An engine that looks what is there of an earlier session, and leaves it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def execute(self, run: Any, host: Any, board: Any) -> None:
        self.seen.append((run.reply, run.asked, run.answers))


async def test_a_reply_of_an_earlier_attempt_is_none_of_this_one() -> None:
    agent = Agent("a", model=ScriptedModel(["Short."]), deciders=[OnceMore()])
    journal, again = MemoryJournal(), MemoryJournal()
    await run(agent, Request("?", run_id="run-1"), journal=journal, max_attempts=2)
    log = await log_of(journal, "run-1")
    await copied(log[: kinds(log).index("model_replied") + 1], again)
    engine = Looking()
    await resume("run-1", agent.but(engine=engine), journal=again)
    assert [reply is not None for reply, *_ in engine.seen] == [True, False]


async def test_what_an_earlier_attempt_used_is_not_told_of_a_later_one() -> None:
    whole, log = await whole_log(WORLDS["two attempts"]())
    second = kinds(log).index("attempt_started", kinds(log).index("attempt_ended"))
    result, _ = await gone_on(log[: second + 1], WORLDS["two attempts"]())
    used = [line.usage for line in result.attempt_log]
    assert used == [line.usage for line in whole.attempt_log]
    assert [usage.input_tokens for usage in used] == [20, 20]


async def test_what_people_said_to_an_earlier_attempt_is_not_said_to_this_one() -> None:
    @tool(effect="write", approval=True)
    async def pay() -> None: ...

    model = ScriptedModel([[ToolCall("1", "pay", {})]])
    agent = Agent("a", model=model, tools=[pay], deciders=[OnceMore()])
    journal = MemoryJournal()
    parked = await run(agent, "?", journal=journal, max_attempts=2)
    engine, answers = Looking(), [Approve("1")]
    await resume(parked.run_id, agent.but(engine=engine), journal=journal, answers=answers)
    assert [(set(asked), set(said)) for _, asked, said in engine.seen] == [
        ({"1"}, {"1"}),
        (set(), set()),
    ]


async def test_a_success_of_an_earlier_attempt_denies_no_call_of_this_one() -> None:
    @tool(effect="read", idempotent=True)
    async def look(n: int) -> int:
        return n

    def agent() -> Agent[Any]:
        script = [READ, "Short.", READ, "Longer."]
        return Agent("a", model=ScriptedModel(script), tools=[look], deciders=[OnceMore()])

    journal = MemoryJournal()
    request = Request("?", run_id="run-1")
    await run(agent(), request, journal=journal, max_attempts=2)
    log = await log_of(journal, "run-1")
    second = [event.seq for event in log if event.kind == "model_started"][2]
    again = MemoryJournal()
    await copied(log[:second], again)
    result = await resume("run-1", agent(), journal=again)
    assert [outcome.kind for outcome in result.tool_outcomes] == ["tool_execution_result"] * 2


async def test_who_comes_too_late_gets_the_result_of_who_went_on() -> None:
    whole, log = await whole_log(WORLDS["one tool"]())

    class Raced(MemoryJournal):
        """Another process ends the run just before it is claimed."""

        async def claim(self, run_id: str) -> int:
            left, log[:] = log[8:], []
            for event in left:
                self.append(event)
            return await super().claim(run_id)

    journal = Raced()
    for event in log[:8]:
        journal.append(event)
    result = await resume("run-1", WORLDS["one tool"]().agent(), journal=journal)
    assert result == whole
    assert (await log_of(journal, "run-1"))[-1].kind == "run_settled"


# -- what has changed since


def warned(result: AgentResult[Any]) -> list[str]:
    return [one.message for one in result.warnings if one.code == "agent_changed"]


async def test_an_agent_as_it_was_is_no_warning() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    result, _ = await gone_on(log[:8], WORLDS["one tool"]())
    assert result.warnings == ()


async def test_a_changed_agent_is_told() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    world = WORLDS["one tool"]()
    world.facts["instructions"] = "New."
    result, _ = await gone_on(log[:8], world)
    assert warned(result) == ["agent 'a' has changed since the run started: instructions"]
    assert result.success


async def test_a_changed_tool_is_told() -> None:
    _, log = await whole_log(WORLDS["one tool"]())

    @tool(effect="read")
    async def look(n: int, how: str = "well") -> int:
        return n

    agent = WORLDS["one tool"]().agent()
    journal = MemoryJournal()
    await copied(log[:8], journal)
    changed = agent.but(tools=[look, agent.tools[1]])  # type: ignore[index]
    result = await resume("run-1", changed, journal=journal)
    assert warned(result) == ["tool 'look' has changed since the run called it"]


async def test_a_changed_tool_is_told_too_whose_call_was_cut_off() -> None:
    _, log = await whole_log(WORLDS["one tool"]())

    @tool(effect="read")
    async def look(n: int, how: str = "well") -> int:
        return n

    agent = WORLDS["one tool"]().agent()
    journal = MemoryJournal()
    await copied(log[: kinds(log).index("tool_started") + 1], journal)
    changed = agent.but(tools=[look, agent.tools[1]])  # type: ignore[index]
    result = await resume("run-1", changed, journal=journal)
    assert warned(result) == ["tool 'look' has changed since the run called it"]


async def test_another_output_type_than_the_run_had_is_told() -> None:
    _, log = await whole_log(WORLDS["answer"]())
    world = WORLDS["answer"]()
    world.facts["output_type"] = Pair
    result, after = await gone_on(log, world)
    assert result.output == "Hi."
    assert len(warned(result)) == 1
    assert after == log


# -- who may go on


async def test_who_goes_on_takes_the_run_from_who_had_it() -> None:
    journal = MemoryJournal()
    world = WORLDS["one tool"]()

    async def robbed(n: int) -> int:
        await journal.claim("run-1")
        return n

    agent = world.agent().but(tools=[tool(effect="read", name="look")(robbed)])
    request = Request("Go.", run_id="run-1")
    result = await run(agent, request, journal=journal)
    assert result.error is not None
    assert (result.status, result.error.type) == (Status.FAILED, "JournalError")


async def test_who_went_on_with_a_run_that_was_taken_since_writes_no_more() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    journal = MemoryJournal()
    await copied(log[: kinds(log).index("model_replied") + 1], journal)

    async def robbed(n: int) -> int:
        await journal.claim("run-1")
        return n

    agent = WORLDS["one tool"]().agent().but(tools=[tool(effect="read", name="look")(robbed)])
    result = await resume("run-1", agent, journal=journal)
    assert result.error is not None
    assert (result.status, result.error.type) == (Status.FAILED, "JournalError")
    assert "tool_settled" not in kinds(await log_of(journal, "run-1"))


def test_an_answer_to_what_nobody_asked_is_passed_over() -> None:
    past = RunState()
    past.add(ApprovalAnswered(answer=Approve("call-1"), digest="d"))
    assert not past.answers


async def test_an_event_of_an_unknown_kind_is_not_resumed_over() -> None:
    _, log = await whole_log(WORLDS["one tool"]())
    odd = Unknown(raw={"kind": "novelty", "run_id": "run-1", "seq": 4})
    with pytest.raises(JournalError, match="novelty"):
        await gone_on([*log[:3], odd], WORLDS["one tool"]())


async def test_resume_takes_no_option_that_it_does_not_know() -> None:
    with pytest.raises(Misuse, match="did you mean 'observers'"):
        await gone_on([], WORLDS["answer"](), observer=[])


async def test_an_interrupted_attempt_that_had_ended_keeps_its_cause() -> None:
    journal = MemoryJournal()
    agent: Agent[Any] = Agent("a", engine=raising(Interrupted("custom", "why")))
    await run(agent, Request("?", run_id="run-1"), journal=journal)
    log = await log_of(journal, "run-1")
    again = MemoryJournal()
    await copied(log[: kinds(log).index("attempt_ended") + 1], again)
    called: list[Any] = []
    agent = agent.but(engine=Do(lambda *facts: called.append(facts)))
    result = await resume("run-1", agent, journal=again)
    assert (result.status, result.cause, result.detail) == ("interrupted", "custom", "why")
    assert called == []


# -- people's answers


class Wiping:
    """An agent with one call that needs approval, and how often its body ran."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def agent(self) -> Agent[Any]:
        @tool(effect="destructive", on_unknown="tell")
        async def wipe(name: str) -> str:
            self.done.append(name)
            return name

        calls = [ToolCall("w", "wipe", {"name": "x"}), ToolCall("v", "wipe", {"name": "y"})]
        return Agent("a", model=ScriptedModel([calls, "Done."]), tools=[wipe])


async def test_an_answer_that_was_logged_holds_wherever_the_log_is_cut() -> None:
    journal = MemoryJournal()
    await run(Wiping().agent(), Request("?", run_id="run-1"), journal=journal)
    parked = len(await log_of(journal, "run-1"))
    answers = [Approve("w"), Deny("v", "no")]
    whole = await resume("run-1", Wiping().agent(), journal=journal, answers=answers)
    log = await log_of(journal, "run-1")
    assert [outcome.kind for outcome in whole.tool_outcomes] == [
        "tool_execution_result",
        "tool_denied",
    ]
    answered = [at for at, event in enumerate(log) if event.kind == "approval_answered"]
    assert answered == [parked + 1, parked + 2]
    for cut in range(parked, len(log)):
        again, world = MemoryJournal(), Wiping()
        await copied(log[:cut], again)
        given = answers if cut <= answered[-1] else []
        result = await resume("run-1", world.agent(), journal=again, answers=given)
        assert (result.status, result.content) == (Status.COMPLETED, "Done.")
        started = any(e.kind == "tool_started" for e in log[:cut])
        assert world.done == ([] if started else ["x"])
        assert {outcome.call_id for outcome in result.tool_outcomes} == {"w", "v"}


@pytest.mark.parametrize("is_kept", [False, True], ids=["given", "kept"])
async def test_an_answer_stands_in_the_log_once_and_counts(is_kept: bool) -> None:
    journal, world = Ordered(), Wiping()
    await run(world.agent(), Request("?", run_id="run-1"), journal=journal)
    answers = [Approve("w", by="somebody"), Deny("v", "not this one")]
    if is_kept:
        await keep_answers("run-1", answers, journal=journal)
    given = [] if is_kept else answers
    result = await resume("run-1", world.agent(), journal=journal, answers=given)
    assert (result.status, world.done) == (Status.COMPLETED, ["x"])
    told = [event.answer for event in journal.order if event.kind == "approval_answered"]  # type: ignore[union-attr]
    # An answer carries the question that it was given to.
    shown = [replace(one, digest="") for one in told]
    assert shown == answers


async def test_an_answer_to_a_question_stands_in_the_log_once() -> None:
    journal = Ordered()
    agent = Agent("a", engine=Do(lambda r, h, b: h.ask_user("Who?", key="q")))
    await run(agent, Request("?", run_id="run-1"), journal=journal)
    result = await resume("run-1", agent, journal=journal, answers=[Answer("q", "only-me")])
    log = b"".join(encode(event) for event in journal.order if event.kind != "run_settled")
    assert (result.output, log.count(b'"value":"only-me"')) == ("only-me", 1)


async def test_a_partial_answer_keeps_the_rest_pending() -> None:
    journal, world = MemoryJournal(), Wiping()
    await run(world.agent(), Request("?", run_id="run-1"), journal=journal)
    result = await resume("run-1", world.agent(), journal=journal, answers=[Approve("v")])
    assert [pending.id for pending in result.pending] == ["w"]
    assert world.done == ["y"]
    result = await resume("run-1", world.agent(), journal=journal, answers=[Approve("w")])
    assert (result.status, world.done) == (Status.COMPLETED, ["y", "x"])
    assert len(result.attempt_log) == 1


async def test_each_further_park_adds_as_much_to_the_log_as_the_one_before() -> None:
    @tool(effect="write", approval=True)
    async def pay(n: int) -> str:
        return "paid"

    async def size_after(count: int) -> int:
        calls = [measured(None, ToolCall(f"c{n}", "pay", {"n": n})) for n in range(count)]
        agent = Agent("a", model=ScriptedModel([*calls, measured("Done.")]), tools=[pay])
        journal = MemoryJournal()
        result = await run(agent, "Go.", journal=journal)
        while result.pending:
            answers = [Approve(result.pending[0].id)]
            result = await resume(result.run_id, agent, journal=journal, answers=answers)
        assert result.success
        return sum([len(encode(one)) async for one in journal.events(result.run_id)])

    five, ten, twenty = [await size_after(count) for count in (5, 10, 20)]
    assert twenty - ten < 2.2 * (ten - five)
