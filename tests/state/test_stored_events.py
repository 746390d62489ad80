"""What the log keeps of each event: nothing twice, and nothing lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.runs.kit import Do, Ordered, Witness, kinds, measured
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Answer,
    Approve,
    BoardChanged,
    Budget,
    Deny,
    FinalizeDecision,
    Graph,
    GraphEngine,
    Interrupted,
    JournalError,
    Message,
    ModelResponse,
    Parked,
    PendingQuestion,
    QuestionAnswered,
    Request,
    RunEvent,
    RunResumed,
    RunSettled,
    RunStarted,
    ScriptedModel,
    SeedReference,
    Status,
    ToolCall,
    Warned,
    encode,
    fork,
    lift_secrets,
    open_journal,
    resume,
    run,
    start,
    states,
    tool,
)
from upshot.contract.events import DELTAS
from upshot.engines.script import ScriptEngine
from upshot.entry.replay_run import replay_run
from upshot.entry.resume import fork_run, read_past
from upshot.journal import MemoryJournal
from upshot.journal.event_codec import to_entry
from upshot.state.request_digests import digest_of_messages
from upshot.state.run_state import RunState
from upshot.state.stored_events import filled, result_of, to_stored

LONG = "a text that stands in the log once. " * 30


@tool(effect="read")
def look(x: int, note: str = "none") -> dict[str, Any]:
    """Look."""
    return {"x": x, "found": LONG}


@tool(effect="write")
def put(x: float) -> str:
    """Put."""
    return LONG


@tool(effect="read", trust="untrusted")
def fetch(url: str) -> str:
    """Fetch."""
    return LONG


@tool(effect="write", approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


def asking(*turns: Any, **options: Any) -> Agent[Any]:
    replies = [measured(None, *calls) if isinstance(calls, tuple) else calls for calls in turns]
    return Agent("a", model=ScriptedModel(replies), tools=[look, put, fetch, pay], **options)


def call(number: int, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


async def in_steps(run: Any, host: Any, board: Any) -> str:
    await host.once("one", "write", lambda: {"v": 1})
    await run.child(Agent("b", model=ScriptedModel(["inside"])), "?", key="child")
    await host.report_usage(ModelResponse(usage=measured().usage, finish_reason="length"))
    board.set("x", [1, 2])
    board.get("x").append(3)
    return "done"


async def node(board: Any) -> None:
    board.append(Message("assistant", "from the node"), "side")


def interrupting(*_: Any) -> None:
    raise Interrupted("custom", "enough")


class Twice:
    """A decider that wants one revision."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        is_first = result.attempts == 1
        return FinalizeDecision.revise("better", "r") if is_first else FinalizeDecision.accept()


def from_text(number: int, name: str, arguments: str) -> ToolCall:
    return ToolCall(f"c{number}", name, arguments)


RUNS: dict[str, Callable[[], tuple[Agent[Any], dict[str, Any]]]] = {
    "a text": lambda: (asking("done"), {}),
    "tools": lambda: (
        asking((call(1, "look", x=1), call(2, "put", x=2)), (call(3, "look", x=4),), "done"),
        {},
    ),
    "the same id twice": lambda: (
        asking((call(1, "look", x=1),), (call(1, "look", x=2),), "done"),
        {},
    ),
    "arguments that are changed": lambda: (
        asking((from_text(1, "look", '{"x": "7", "odd": 1}'), call(2, "put", x=1)), "done"),
        {},
    ),
    "arguments that are refused": lambda: (
        asking((from_text(1, "look", '{"x": "many"}'), from_text(2, "nothing", "{")), "done"),
        {},
    ),
    "a stranger's words": lambda: (asking((call(1, "fetch", url="u"),), "done"), {}),
    "secrets": lambda: (
        asking((call(1, "look", x=1, note="hush"),), "hush is said"),
        {"secrets": ["hush"]},
    ),
    "a typed answer": lambda: (asking('{"n": 1}', output_type=dict[str, int]), {}),
    "a failed model": lambda: (
        asking(measured(None, error=AgentError("server_error", "overloaded"))),
        {"retry": None},
    ),
    "a script": lambda: (Agent("a", engine=ScriptEngine(in_steps)), {}),
    "a graph": lambda: (
        Agent("a", engine=GraphEngine(Graph(nodes={"n": node}, edges=[], start="n"))),
        {"artifacts": ["side"]},
    ),
    "an interrupt": lambda: (Agent("a", engine=Do(interrupting)), {}),
    "a bug": lambda: (Agent("a", engine=Do(lambda *_: {}["k"])), {}),
    "a revision": lambda: (asking("one", "two"), {"deciders": [Twice()], "max_attempts": 2}),
    "a budget": lambda: (
        asking((call(1, "look", x=1),), (call(2, "look", x=2),), "done"),
        {"budget": Budget(max_turns=1)},
    ),
    "an approval": lambda: (asking((call(1, "pay", cents=3), call(2, "look", x=1)), "done"), {}),
    "a wait": lambda: (
        Agent("a", engine=Do(lambda r, h, b: h.wait_for("hook", "a call from outside"))),
        {},
    ),
    "a wait of the engine's own": lambda: (
        Agent("a", engine=Do(_raise_parked)),
        {},
    ),
    "several waits": lambda: (Agent("a", engine=Do(_wait_for_all)), {}),
    "a child that waits": lambda: (Agent("a", engine=Do(_wait_for_children)), {}),
    "a child of a child that waits": lambda: (Agent("a", engine=Do(_wait_for_grandchild)), {}),
}
WAITING = [name for name in RUNS if "wait" in name or name == "an approval"]


async def _wait_for_all(run: Any, host: Any, board: Any) -> None:
    waits: list[Any] = []
    for ask in (host.ask_user("Who?", key="who"), host.wait_for("hook"), host.wait_for("late")):
        try:
            await ask
        except Parked as parked:
            waits += parked.pending
    raise Parked(PendingQuestion(id="own", question="And?", choices=("a", "b")), *reversed(waits))


def _asker(name: str) -> Agent[Any]:
    return Agent(name, engine=Do(lambda r, h, b: h.ask_user(f"{name}?", key="q")))


async def _wait_for_children(run: Any, host: Any, board: Any) -> None:
    first = await run.child(asking((call(1, "pay", cents=3),), "done"), "?", key="one")
    other = await run.child(_asker("two"), "?", key="two")
    third = await run.child(_asker("three"), "?", key="three")
    raise Parked(*other.pending, *first.pending, *third.pending)


async def _wait_for_grandchild(run: Any, host: Any, board: Any) -> Any:
    inner = Agent("inner", engine=Do(_wait_for_children))
    return (await run.child(inner, "?", key="k")).unwrap()


def _raise_parked(*_: Any) -> None:
    raise Parked(PendingQuestion(id="q", question="Well?"))


REQUEST = Request("?", context_id="talk", task_id="t", metadata={"k": [1]})


async def lived(case: str, journal: MemoryJournal) -> tuple[str, list[RunEvent], Any]:
    """Live a run; returns its id, the durable events that a watcher was told, and its result."""
    agent, options = RUNS[case]()
    told: list[RunEvent] = []
    async with start(agent, REQUEST, journal=journal, **options) as live:
        async for event in live:
            if isinstance(event, RunEvent) and not isinstance(event, DELTAS):
                told.append(event)
        return live.run_id, told, await live.result()


def shown(value: Any) -> Any:
    """*value* as JSON; what lives in this process only is left out."""
    form = msgspec.json.decode(encode(value))
    for result in (form, form.get("result", {})):
        result.pop("local", None)
    return form


@pytest.mark.parametrize("case", [case for case in RUNS if case != "secrets"])
async def test_a_reader_of_the_log_is_told_what_a_watcher_was_told(case: str) -> None:
    journal = MemoryJournal()
    run_id, told, _ = await lived(case, journal)
    assert {event.path for event in told if event.run_id == run_id} == {()}
    # Those of child runs too, each as its own log has it.
    for one in {event.run_id for event in told}:
        own = [replace(event, path=()) for event in told if event.run_id == one]
        read = [event async for event, _ in states(journal.events(one))]
        assert [*map(shown, read)] == [*map(shown, own)]


@pytest.mark.parametrize("case", RUNS)
async def test_the_result_is_the_one_that_the_log_says(case: str) -> None:
    journal = MemoryJournal()
    run_id, _, result = await lived(case, journal)
    agent, options = RUNS[case]()
    hidden = {"secrets": options["secrets"]} if "secrets" in options else {}
    if result.status == "input_required":
        past = RunState()
        async for _, state in states(journal.events(run_id)):
            past = state
        assert shown(result_of(past)) == shown(result)
    else:
        assert shown(await resume(run_id, agent, journal=journal, **hidden)) == shown(result)


@pytest.mark.parametrize("case", WAITING)
async def test_what_is_waited_for_stands_in_the_log_before_the_park(case: str) -> None:
    journal = MemoryJournal()
    run_id, _, result = await lived(case, journal)
    assert result.pending
    *_, settled = [event async for event in journal.events(run_id)]
    assert isinstance(settled, RunSettled)
    assert settled.result.pending == ()


@pytest.mark.parametrize("case", WAITING)
async def test_what_is_waited_for_is_known_though_the_process_ends_before_the_park(
    case: str,
) -> None:
    journal = Ordered()
    run_id, _, result = await lived(case, journal)  # type: ignore[arg-type]
    ends = [at for at, event in enumerate(journal.order) if event.kind == "run_settled"]
    cut = journal.cut(ends[-1])
    agent, options = RUNS[case]()
    again = await resume(run_id, agent, journal=cut, **options)
    assert again.status == "input_required"
    assert sorted(one.id for one in again.pending) == sorted(one.id for one in result.pending)


@pytest.mark.parametrize("case", ["a wait", "a wait of the engine's own", "several waits"])
async def test_an_answer_is_taken_though_the_process_ended_before_the_park(case: str) -> None:
    journal = Ordered()
    run_id, _, result = await lived(case, journal)  # type: ignore[arg-type]
    asked = [at for at, event in enumerate(journal.order) if event.kind == "question_asked"]
    assert len({journal.order[at].pending.id for at in asked}) == len(result.pending)  # type: ignore[union-attr]
    for at, question in zip(asked, (journal.order[at] for at in asked), strict=True):
        pending: Any = question.pending  # type: ignore[union-attr]
        value = pending.choices[0] if getattr(pending, "choices", ()) else "yes"
        cut = journal.cut(at + 1)
        agent = Agent("a", engine=Do(lambda *_: "answered"))
        answered = await resume(run_id, agent, journal=cut, answers=[Answer(pending.id, value)])
        assert answered.output == "answered"
        kinds = [event.kind for event in cut.order]
        assert kinds.count("question_answered") == 1


@pytest.mark.parametrize("case", ["tools", "a stranger's words", "the same id twice"])
async def test_what_a_tool_gave_stands_in_the_log_once(case: str) -> None:
    journal = MemoryJournal()
    run_id, _, result = await lived(case, journal)
    stored = b"".join([encode(event) async for event in journal.events(run_id)])
    calls = len(result.tool_records)
    assert stored.count(LONG.encode()) == calls


@pytest.mark.parametrize("case", RUNS)
async def test_no_stored_body_repeats_what_stands_in_a_column(case: str) -> None:
    journal = MemoryJournal()
    run_id, _, _ = await lived(case, journal)
    async for event in journal.events(run_id):
        entry = to_entry(event, run_id, event.seq, 7)
        said = {*_texts_in(msgspec.json.decode(entry.body))}
        time = msgspec.json.decode(encode(event))["time"]
        assert not said & {run_id, entry.kind, time}, event
        assert not {"run_id", "kind", "seq", "epoch", "time"} & {*msgspec.json.decode(entry.body)}


@pytest.mark.parametrize("case", [case for case in RUNS if case not in WAITING])
async def test_no_event_says_twice_which_call_it_is_of(case: str) -> None:
    journal = MemoryJournal()
    run_id, _, _ = await lived(case, journal)
    async for event in journal.events(run_id):
        if (call_id := getattr(event, "call_id", "")) and event.kind != "handoff":
            entry = to_entry(event, run_id, event.seq, 7)
            assert [*_texts_in(msgspec.json.decode(entry.body))].count(call_id) == 1, event


def _texts_in(form: Any) -> Iterator[str]:
    """All texts in a JSON value, names of fields left out."""
    if isinstance(form, str):
        yield form
    elif isinstance(form, list | dict):
        for one in form.values() if isinstance(form, dict) else form:
            yield from _texts_in(one)


async def test_a_log_that_is_parked_often_grows_with_each_answer_alike() -> None:
    journal, parks = MemoryJournal(), 12
    turns = [(call(n, "pay", cents=n),) for n in range(parks)]
    async with start(asking(*turns, "done"), "?", journal=journal) as live:
        result = await live.result()
    sizes: list[int] = []
    for number in range(parks):
        assert result.status == "input_required"
        agent = asking(*turns, "done")
        result = await resume(live.run_id, agent, journal=journal, answers=[Approve(f"c{number}")])
        sizes.append(sum([len(encode(event)) async for event in journal.events(live.run_id)]))
    grown = [after - before for before, after in pairwise(sizes[:-1])]
    assert result.success
    # Times have more digits on a busy machine. Eleven earlier answers would take a thousand.
    assert max(grown) - min(grown) < 200


async def test_a_fork_reads_the_words_of_strangers_as_its_origin_sent_them() -> None:
    async with open_journal("memory:") as journal:
        agent = asking((call(1, "fetch", url="u"),), (call(2, "pay", cents=1),), "done")
        async with start(agent, "?", journal=journal) as live:
            first = await live.result()
        events = [event async for event in journal.events(live.run_id)]
        forked = await fork(live.run_id, at=events[-1].seq, journal=journal)
        again = asking((call(1, "fetch", url="u"),), (call(2, "pay", cents=1),), "done")
        result = await resume(forked, again, journal=journal, answers=[Deny("c2")])
    assert result.messages[: len(first.messages)] == first.messages


async def test_an_answer_that_came_after_a_park_leaves_its_result_as_it_was() -> None:
    from tests.answering import keep_answers

    journal = MemoryJournal()
    agent = Agent("a", engine=Do(lambda r, h, b: h.ask_user("Well?", key="q")))
    async with start(agent, "?", journal=journal) as live:
        parked = await live.result()
    await keep_answers(live.run_id, [Answer("q", "yes")], journal=journal)
    last = RunState()
    async for _, state in states(journal.events(live.run_id)):
        last = state
    assert shown(result_of(last))["pending"] == shown(parked)["pending"]


@given(
    given_arguments=st.dictionaries(
        st.text(max_size=3), st.integers() | st.booleans() | st.floats(allow_nan=False)
    ),
    made=st.dictionaries(
        st.text(max_size=3), st.integers() | st.booleans() | st.floats(allow_nan=False)
    ),
)
def test_arguments_come_back_in_their_very_form(given_arguments: Any, made: Any) -> None:
    from upshot import ToolStarted
    from upshot.contract.model_calls import ModelReplied

    state = RunState()
    asked = ToolCall("c", "t", given_arguments)
    state.add(ModelReplied(seq=1, response=ModelResponse(tool_calls=(asked,))))
    event = ToolStarted(seq=2, call=asked, arguments=made)
    stored = to_stored(state, event)
    assert encode(filled(state, stored)) == encode(event) or (
        filled(state, stored) == event and list(made) != list(filled(state, stored).arguments)  # type: ignore[union-attr]
    )


async def test_a_settled_run_that_is_read_has_no_watchers() -> None:
    journal, witness = MemoryJournal(), Witness()
    async with start(asking("done"), "?", journal=journal, observers=[witness]) as live:
        result = await live.result()
    stored = [event async for event in journal.events(live.run_id)]
    settled = stored[-1]
    assert isinstance(settled, RunSettled)
    assert (settled.result.messages, settled.result.run_id) == ((), "")
    assert result.messages


async def test_other_channels_are_artifacts_and_no_messages() -> None:
    def work(_run: Any, _host: Any, board: Any) -> None:
        board.append(Message("assistant", "Said."))
        board.append(Message("assistant", "Beside."), "side")

    options: Any = {"artifacts": ["main", "side", "side"]}
    async with start(Agent("a", engine=Do(work)), "?", **options) as live:
        result = await live.result()
    assert [message.text for message in result.messages] == ["Said."]
    assert [artifact.name for artifact in result.artifacts] == ["side"]


def test_the_time_until_an_answer_that_is_kept_is_not_spent() -> None:
    began = datetime(2025, 3, 1, tzinfo=UTC)
    parked = AgentResult[Any](
        status=Status.INPUT_REQUIRED, error=AgentError("input_required", "It waits.")
    )
    events: list[tuple[int, RunEvent]] = [
        (0, RunStarted()),
        (2, RunSettled(result=parked)),
        (3600, QuestionAnswered(id="q", value="yes")),
        (7200, RunResumed()),
        (7201, Warned()),
    ]
    state = RunState()
    for at_s, event in events:
        state.add(replace(event, time=began + timedelta(seconds=at_s)))
    assert state.time.spent_s == 3.0


@pytest.mark.parametrize(
    ("given_secrets", "said"), [(["hush"], "hush"), ([], "***"), (["other", "more"], "***")]
)
async def test_a_log_with_secrets_is_read_with_them_or_masked(
    given_secrets: list[str], said: str
) -> None:
    journal = MemoryJournal()
    run_id, _, _ = await lived("secrets", journal)
    read = lift_secrets(given_secrets)
    last, text = RunState(), ""
    async for event, state in states(journal.events(run_id), read=read):
        last, text = state, text + encode(event).decode()
    assert last.board.messages()[-1].text == f"{said} is said"
    assert ("<secret " in text, "hush" in text) == (False, said == "hush")


SAID = (Message("user", "Hi"), Message("assistant", "Hello."))
SEED = SeedReference(conversation="talk", revision=2, digest=digest_of_messages(SAID))


class Talking(Ordered):
    """A journal whose conversations hold the messages that it is made with."""

    said: tuple[Message, ...] = SAID

    async def seed_messages(self, seed: SeedReference) -> tuple[Message, ...]:
        return self.said[: seed.revision]


async def began_with(seed: SeedReference) -> Talking:
    """A log that was cut off before its first model call, and that names the messages before."""
    whole, journal = Ordered(), Talking()
    agent = asking("done")
    await run(agent, Request("And?", run_id="r"), history=SAID, journal=whole)
    for event in whole.order[: kinds(whole.order).index("model_started")]:
        if isinstance(event, BoardChanged) and event.seeded:
            assert event.messages[:2] == SAID
            event = replace(event, messages=event.messages[2:], seed=seed)  # noqa: PLW2901
        journal.append(event)
    return journal


async def test_messages_that_a_log_names_are_those_that_the_run_began_with() -> None:
    journal, last = await began_with(SEED), RunState()
    async for event, state in states(journal.events("r"), seeds=journal.seed_messages):
        last = state
        assert not isinstance(event, BoardChanged) or event.seed is None
    past = await read_past("r", journal)
    assert tuple(last.board.messages()[:2]) == tuple(past.board.messages()[:2]) == SAID


async def test_a_log_whose_beginning_nobody_reads_is_refused() -> None:
    journal = await began_with(SEED)
    named = "revision 2 of the conversation 'talk', which cannot be read here"
    with pytest.raises(JournalError, match=named):
        _ = [event async for event, _ in states(journal.events("r"))]


async def test_a_log_whose_beginning_is_another_by_now_is_refused(tmp_path: Path) -> None:
    journal = await began_with(SEED)
    journal.said = SAID[:1]
    named = "revision 2 of the conversation 'talk', which has other messages now"
    with pytest.raises(JournalError, match=named):
        _ = [one async for one, _ in states(journal.events("r"), seeds=journal.seed_messages)]
    with pytest.raises(JournalError, match=named):
        await resume("r", asking("done"), journal=journal)
    with pytest.raises(JournalError, match=named):
        await fork_run("r", at=3, journal=journal)
    with pytest.raises(JournalError, match=named):
        await journal.export("r", tmp_path / "r.jsonl")


async def test_an_export_of_a_log_that_names_messages_holds_them(tmp_path: Path) -> None:
    journal, other = await began_with(SEED), MemoryJournal()
    await journal.export("r", tmp_path / "r.jsonl")
    await other.import_(tmp_path / "r.jsonl")
    past = await read_past("r", other)
    assert tuple(past.board.messages()[:2]) == SAID
    assert past.seq == len(journal.order)


async def test_a_fork_of_a_log_that_names_messages_holds_them() -> None:
    journal = await began_with(SEED)
    forked = await fork_run("r", at=3, journal=journal)
    result = await resume(forked, asking("done"), journal=journal)
    assert (result.content, result.all_messages()[:2]) == ("done", SAID)


async def test_a_log_that_names_messages_is_replayed() -> None:
    journal, whole = await began_with(SEED), Ordered()
    await run(asking("done"), Request("And?", run_id="r"), history=SAID, journal=whole)
    for event in whole.order[len(journal.order) :]:
        journal.append(event)
    replayed = await replay_run("r", asking("done"), journal=journal, options={})
    assert replayed.difference is None
    assert replayed.result.all_messages()[:2] == SAID
