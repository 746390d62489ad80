"""An App: runs that one process submits and another works on."""

from __future__ import annotations

import asyncio
import runpy
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.places import Place
from tests.processes import start_python
from upshot import (
    Agent,
    AgentResult,
    App,
    Budget,
    Handoff,
    Message,
    Misuse,
    PendingApproval,
    Policy,
    Quota,
    Request,
    RunInfo,
    RunSettled,
    ScriptedModel,
    ScriptEngine,
    Status,
    Taken,
    ToolCall,
    ToolContext,
    open_journal,
    run,
    tool,
)
from upshot.fleet.submission import AppOptions, SubmitOptions, check_data
from upshot.journal.shared import Submission
from upshot.runs.limits.quotas import quotas_in
from upshot.runs.plan import RunOptions


def speaker(id: str = "a", *said: str) -> Agent[Any]:
    return Agent(id, model=ScriptedModel([*(said or ("Done.",))]))


def asker(paid: list[str] | None = None) -> Agent[Any]:
    @tool(effect="destructive", approval=True)
    def pay(to: str) -> str:
        """Pay."""
        (paid if paid is not None else []).append(to)
        return "paid"

    return Agent(
        "till", model=ScriptedModel([[ToolCall("p", "pay", {"to": "ann"})], "Paid."]), tools=[pay]
    )


async def work(app: App) -> list[str]:
    """Take up all that is due; returns the runs."""
    taken: list[str] = []
    while due := await app.due():
        for one in due:
            taken.append(one.run_id)
            await app.activate(one.run_id)
    return taken


async def test_a_run_is_submitted_in_one_app_and_worked_on_in_another(journal: Any) -> None:
    async with App([speaker()], journal=journal) as app, App([speaker()], journal=journal) as other:
        handle = await app.submit("a", "Hi?", attributes={"tenant": "t"}, max_attempts=2)
        assert await handle.result(0) is None
        assert (await handle.state()).started is None
        assert await work(other) == [handle.id]
        result = await handle.result(0)
        assert result is not None and (result.output, result.run_id) == ("Done.", handle.id)
        started = (await handle.state()).started
        assert started is not None and started.attributes == {"tenant": "t"}
        assert started.options["max_attempts"] == 2
        assert started.request.text == "Hi?"
        assert [event.kind async for event in handle.events()][-1] == "run_settled"
        assert await work(other) == []


async def test_whoever_waits_for_a_queued_run_gets_its_events_and_its_result(journal: Any) -> None:
    async with App([speaker()], journal=journal) as app:
        handle = await app.submit("a", "Hi?")

        async def kinds() -> list[str]:
            return [event.kind async for event in handle.events()]

        watching = asyncio.ensure_future(kinds())
        waiting = asyncio.ensure_future(handle.result())
        await asyncio.sleep(0)
        await work(app)
        result = await waiting
        assert result is not None and result.success
        assert (await watching)[0] == "run_started"


@pytest.mark.parametrize("name", ["conversation", "key"])
async def test_a_name_that_no_journal_can_hold_is_refused_at_once(name: str) -> None:
    named: Any = {name: "\ud800"}
    async with App([Agent("clerk", model=ScriptedModel(["Fine."]))], journal="memory:") as app:
        with pytest.raises(Misuse, match=f"{name} must be text that can be encoded"):
            await app.submit("clerk", "Hello", **named)


async def test_one_key_gives_one_run_and_is_for_one_request(journal: Any) -> None:
    async with App([speaker("a"), speaker("b")], journal=journal) as app:
        first = await app.submit("a", "Hi?", key="k", budget=Budget(max_turns=3))
        again = await app.submit("a", Message("user", "Hi?"), key="k", budget=Budget(max_turns=3))
        assert first.id == again.id
        others: list[tuple[str, str, dict[str, Any]]] = [
            ("a", "Hello?", {"budget": Budget(max_turns=3)}),
            ("b", "Hi?", {"budget": Budget(max_turns=3)}),
            ("a", "Hi?", {}),
            ("a", "Hi?", {"budget": Budget(max_turns=3), "conversation": "c"}),
        ]
        for agent, said, options in others:
            with pytest.raises(Misuse, match="conflict: the key 'k' was used for another request"):
                await app.submit(agent, said, key="k", **options)
        assert await work(app) == [first.id]


async def test_a_request_with_secrets_is_kept_without_them(journal: Any) -> None:
    seen: list[str] = []

    async def look(run: Any, host: Any, board: Any) -> Any:
        seen.append(run.request.text)
        return "ok"

    agent: Agent[Any] = Agent("a", engine=ScriptEngine(look))
    async with App([agent], journal=journal, secrets=["hunter2-hunter2"]) as app:
        handle = await app.submit("a", "It is hunter2-hunter2.", key="k")
        again = await app.submit("a", "It is hunter2-hunter2.", key="k")
        assert again.id == handle.id
        kept = await journal.submission(handle.id)
        assert isinstance(kept, Submission) and "hunter2" not in str(kept)
        (listed,) = await journal.runs()
        assert "hunter2" not in listed.request
        async with App([agent], journal=journal) as stranger:
            with pytest.raises(Misuse, match="was submitted with secrets"):
                await stranger.activate(handle.id)
        await work(app)
        assert seen == ["It is hunter2-hunter2."]


async def test_what_an_app_is_given_its_runs_have_in_every_session(journal: Any) -> None:
    seen: list[Any] = []

    @asynccontextmanager
    async def open_desk(info: RunInfo) -> AsyncIterator[str]:
        yield f"desk of {info.agent_id}"

    @tool(effect="destructive", approval=True)
    def pay(context: ToolContext[str]) -> str:
        """Pay."""
        seen.append(context.dependencies)
        return "paid"

    agent: Agent[Any] = Agent("till", tools=[pay])
    model = ScriptedModel([[ToolCall("p", "pay", {})], "Paid."])
    app = App(
        [agent],
        journal=journal,
        dependencies=open_desk,
        model=model,
        policy=Policy(deny=["refund"]),
    )
    async with app:
        handle = await app.submit("till", "Pay.")
        await work(app)
        parked = await handle.result(0)
        assert parked is not None and parked.status == Status.INPUT_REQUIRED
        (item,) = parked.pending
        assert isinstance(item, PendingApproval)
        await handle.answer(item.approve(by="ann"))
        assert await work(app) == [handle.id]
        result = await handle.result(0)
        assert result is not None and result.output == "Paid."
        assert [one.code for one in result.warnings] == []
        assert seen == ["desk of till"]
        started = (await handle.state()).started
        assert started is not None and "open_desk" in str(started.options["dependencies"])


async def test_a_request_that_is_handed_over_is_followed_also_after_a_park(journal: Any) -> None:
    paid: list[str] = []
    till = asker(paid)
    desk: Agent[Any] = Agent(
        "desk",
        model=ScriptedModel([[ToolCall("h", "transfer_to_till", {})]]),
        handoffs=[Handoff("till", tool_name="transfer_to_till")],
    )
    async with App([desk, till], journal=journal) as app:
        handle = await app.submit(desk, "Pay ann.")
        await work(app)
        waits = await handle.result(0)
        assert waits is not None and waits.state["path"] == ["desk", "till"]
        (item,) = waits.pending
        assert isinstance(item, PendingApproval)
        assert [type(told) for told in await handle.answer(item.approve(by="ann"))] == [Taken]
        assert await handle.result(0) is None
        assert await work(app) == [waits.run_id] != [handle.id]
        assert paid == ["ann"]
        end = await handle.result(0)
        assert end is not None and (end.content, end.usage.api_calls) == ("Paid.", 3)
        events = [event async for event in handle.events()]
        assert [event.run_id for event in events if isinstance(event, RunSettled)] == [
            handle.id,
            *[waits.run_id] * 2,
        ]
        place = f"{waits.run_id}/{events[-3].seq}"
        assert [event async for event in handle.events(after=place)] == events[-2:]
        with pytest.raises(Misuse, match="and does not follow"):
            _ = [event async for event in handle.events(after="another/3")]


async def test_turns_of_one_conversation_are_taken_one_after_the_other(journal: Any) -> None:
    paid: list[str] = []
    async with App([asker(paid), speaker("a", "One.", "Two.")], journal=journal) as app:
        first = await app.submit("till", "Pay.", conversation="c")
        assert await app.activate(first.id) is not None
        second = await app.submit("a", "And?", conversation="c")
        assert await app.activate(second.id) is None
        assert await journal.due_runs() == []
        told = await app.submit("a", "Hello?", conversation="c", if_waiting="tell")
        assert await app.activate(told.id) is not None
        parked = await first.result(0)
        assert parked is not None
        item: Any = parked.pending[0]
        await first.answer(item.deny("No.", by="ann"))
        assert await app.activate(first.id) is not None
        result = await app.activate(second.id)
        assert result is not None and result.success
        assert paid == []


async def test_of_many_that_take_up_a_run_one_begins_it(journal: Any) -> None:
    apps = [App([speaker()], journal=journal) for _ in range(8)]
    handle = await apps[0].submit("a", "Hi?")
    results = await asyncio.gather(*(app.activate(handle.id) for app in apps))
    assert any(result is not None and result.success for result in results)
    kinds = [event.kind async for event in journal.events(handle.id)]
    assert kinds.count("run_started") == 1
    assert kinds.count("run_settled") == 1


async def test_an_app_lists_what_is_where(journal: Any) -> None:
    async with App([asker(), speaker("a")], journal=journal) as app:
        waits = await app.submit("till", "Pay.", conversation="c")
        queued = await app.submit("a", "Hi?")
        await app.activate(waits.id)
        (item,) = await app.inbox()
        assert (item.run_id, item.conversation, item.agent_id) == (waits.id, "c", "till")
        assert isinstance(item.pending, PendingApproval)
        assert await app.inbox(conversation="other") == ()
        assert [one.run_id for one in await app.runs("parked")] == [waits.id]
        assert [one.run_id for one in await app.runs("queued", agent="a")] == [queued.id]
        assert [one.run_id for one in await app.runs(conversation="c")] == [waits.id]
        assert [one.run_id for one in await app.runs(limit=1)] == [waits.id]
        assert len((await app.conversation("c")).pending) == 1
        (told,) = await app.answer(waits.id, item.pending.deny("No.", by="ann"))
        assert isinstance(told, Taken)
        assert [one.run_id for one in await app.runs("due")] == [waits.id]
        assert await app.inbox() == ()


@pytest.mark.parametrize("fails", [False, True], ids=["plain", "it fails"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_whoever_is_to_be_notified_hears_of_what_waits(
    *, is_async: bool, fails: bool
) -> None:
    heard: list[Any] = []

    def note(items: Any) -> None:
        heard.extend(items)
        if fails:
            raise ValueError("no post today")

    async def note_later(items: Any) -> None:
        note(items)

    notify = note_later if is_async else note
    async with App([asker()], journal="memory:", notify=notify) as app:
        handle = await app.submit("till", "Pay.")
        result = await app.activate(handle.id)
        assert result is not None and result.status == Status.INPUT_REQUIRED
        (item,) = heard
        assert (item.run_id, item.pending) == (handle.id, result.pending[0])
        warnings = [one.message for one in result.warnings if one.code == "notify_failed"]
        assert warnings == (["notify raised ValueError: no post today"] if fails else [])
        await handle.answer(item.pending.approve(by="ann"))
        assert (await app.activate(handle.id)) is not None
        assert len(heard) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"agents": []}, "an App needs an agent"),
        ({"agents": "support"}, "agents of an App must be a list of Agents"),
        ({"agents": [speaker(), "b"]}, "agents of an App must be a list of Agents"),
        ({"agents": [speaker(), speaker()]}, "two agents are called 'a'"),
        ({"agents": [speaker()], "dependencies": 5}, "dependencies of an App must be a function"),
        ({"agents": [speaker()], "model": 5}, "model of an App must be 'provider:name'"),
        ({"agents": [speaker()], "policy": "ask"}, "policy of an App must be a Policy"),
        ({"agents": [speaker()], "secrets": "s"}, "secrets of an App must be a list of strings"),
        ({"agents": [speaker()], "notify": 1}, "notify of an App must be a function"),
        ({"agents": [speaker()], "version": 1}, "version of an App must be a string"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_argument_of_an_app_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse, match=told):
        App(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"agent": "b"}, "the App has no such agent 'b': there are a"),
        ({"agent": speaker()}, "the App has another agent with this id"),
        ({"request": 5}, "request must be a string"),
        ({"at": datetime(2026, 1, 1)}, "at has no time zone"),  # noqa: DTZ001  # that is the mistake
        ({"at": 5}, "at must be a moment"),
        ({"key": ""}, "key is empty"),
        ({"key": 5}, "key must be a string"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"gates": []}, r"gates cannot be submitted: name it in App\(gates=\.\.\.\)"),
        ({"dependencies": 1}, "dependencies cannot be submitted: name what makes them in App"),
        ({"parent_run_id": "r"}, "a submitted run is in no other run"),
        ({"history": AgentResult(status=Status.COMPLETED)}, "history cannot be submitted as a"),
        ({"model": ScriptedModel([])}, "model cannot be submitted as an object"),
        ({"budgets": 1}, "a submission has no option 'budgets': did you mean 'budget'"),
        ({"budget": 1}, "budget must be a Budget"),
        ({"attributes": {"a": object()}}, "attributes cannot be submitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_cannot_be_submitted_is_told(given: dict[str, Any], told: str) -> None:
    async with App([speaker()], journal="memory:") as app:
        call: dict[str, Any] = {"agent": "a", "request": "Hi?", **given}
        with pytest.raises(Misuse, match=told):
            await app.submit(**call)
        journal: Any = await app.open()
        assert await journal.runs() == []


def test_every_option_of_a_run_can_be_submitted_or_says_where_to_give_it() -> None:
    own = {"conversation", "priority"}
    for name in RunOptions.__optional_keys__ - SubmitOptions.__optional_keys__ - own:
        with pytest.raises(Misuse, match=f"^{name} cannot be submitted: .+; a submission"):
            check_data({name: None})
    for name in AppOptions.__optional_keys__:
        with pytest.raises(Misuse, match=f"{name} must be"):
            App([speaker()], **{name: -1})  # type: ignore[arg-type]


async def test_a_run_has_the_quotas_of_its_app_and_those_it_was_submitted_with(
    journal: Any,
) -> None:
    paid: list[str] = []
    desk, own = Quota("desk", max_runs=5), Quota("mine", scope="run", max_tokens=10**6)
    for cap in (desk, Quota("desk", max_runs=9)):
        async with App([asker(paid)], journal=journal, quotas=[cap]) as app:
            handle = await app.submit("till", "Pay.", key="k", quotas=iter([own]))
            await work(app)
            if (parked := await handle.result(0)) is not None and parked.pending:
                item: Any = parked.pending[0]
                await handle.answer(item.approve(by="ann"))
            started = (await handle.state()).started
            assert started is not None
            assert [one.quota for one in quotas_in(started.options)] == [desk, own]
            assert {one.run_id for one in quotas_in(started.options)} == {handle.id}
    result = await handle.result(0)
    assert result is not None and result.success


async def test_messages_that_are_submitted_come_before_the_request(journal: Any) -> None:
    said = [Message("user", "I am Ann."), Message("assistant", "Hello, Ann.")]
    model = ScriptedModel(["Ann."])
    async with App([Agent("a", model=model)], journal=journal) as app:
        handle = await app.submit("a", "Who am I?", history=said)
        await work(app)
        result = await handle.result(0)
    assert result is not None and result.success
    assert [one.text for one in model.calls[0].messages] == [
        "I am Ann.",
        "Hello, Ann.",
        "Who am I?",
    ]


async def test_what_guards_the_runs_of_an_app_is_given_in_every_session(journal: Any) -> None:
    paid: list[str] = []
    asked: list[str] = []

    def look(request: Any) -> None:
        asked.append(request.tool_name)

    given: dict[str, Any] = {"on_pre_tool_use": look}
    async with App([asker(paid)], journal=journal, **given) as app:
        handle = await app.submit("till", "Pay.")
        await work(app)
        parked = await handle.result(0)
        assert parked is not None
        item: Any = parked.pending[0]
        await handle.answer(item.approve(by="ann"))
    async with App([asker(paid)], journal=journal) as app:
        with pytest.raises(Misuse, match="was given on_pre_tool_use"):
            await app.activate(handle.id)
    async with App([asker(paid)], journal=journal, **given) as app:
        await work(app)
    assert (paid, set(asked)) == (["ann"], {"pay"})


async def test_an_app_needs_a_journal_and_a_run_of_it(journal: Any) -> None:
    with pytest.raises(Misuse, match="the App has no journal"):
        await App([speaker()]).submit("a", "Hi?")
    async with App([speaker()], journal=journal) as app:
        with pytest.raises(Misuse, match="the journal has no run 'nobody'"):
            await app.run("nobody")
        with pytest.raises(Misuse, match="the journal has no run 'nobody'"):
            await app.activate("nobody")
        await run(speaker("b"), Request("Hi?", run_id="b"), journal=journal)
        ended = await app.run("b")
        assert (await ended.result()) is not None


async def test_a_run_is_due_from_the_moment_it_was_submitted_for(journal: Any) -> None:
    async with App([speaker()], journal=journal) as app:
        await app.submit("a", "Later.", at=datetime.now(UTC) + timedelta(hours=1))
        now = await app.submit("a", "Now.", at=datetime.now(UTC) - timedelta(hours=1))
        assert await work(app) == [now.id]


async def test_a_run_that_was_given_what_the_app_lacks_is_left_with_the_reason(
    journal: Any,
) -> None:
    agent = asker()
    await run(agent, Request("Pay.", run_id="r"), journal=journal, dependencies={"db": 1})
    async with App([agent], journal=journal) as app:
        (item,) = await app.inbox()
        assert isinstance(item.pending, PendingApproval)
        await app.answer("r", item.pending.approve(by="ann"))
        with pytest.raises(Misuse, match=r"run 'r' was given dependencies \(builtins:dict\)"):
            await app.activate("r")
        assert [one.run_id for one in await app.due()] == ["r"]


def test_the_version_of_an_app_changes_with_its_agents() -> None:
    def versions(*agents: Agent[Any]) -> str:
        return App(agents).version

    @tool
    def look(at: str) -> str:
        """Look."""
        return at

    one, two = speaker("a"), speaker("b")
    same = versions(one, two)
    assert versions(two, one) == same == versions(speaker("a"), speaker("b"))
    others = {
        versions(one),
        versions(Agent("a", model="openai:x", instructions="Be brief."), two),
        versions(Agent("a", model="openai:x", tools=[look]), two),
    }
    assert len(others | {same}) == 4
    assert App([one], version="7").version == "7"


PROGRAM = """
import asyncio, os, signal, sys
from upshot import Agent, App, ScriptedModel, ToolCall, tool

def make(journal, effects):
    @tool(effect="write")
    async def pay(order: int):
        with open(effects, "a") as file:
            file.write(f"{order}\\n")
        return "paid"

    model = ScriptedModel([[ToolCall("p", "pay", {"order": 7})], "Done."])
    return App([Agent("till", model=model, tools=[pay])], journal=journal)

async def take(app, run_id):
    print("ready", flush=True)
    sys.stdin.readline()
    result = await app.activate(run_id)
    print(result.status if result else "nothing")

async def die(app, run_id):
    journal = await app.open()
    append = journal.append
    def fall(event, **more):
        os.kill(os.getpid(), signal.SIGKILL)
    journal.append = fall
    await app.activate(run_id)

async def main(journal, effects, step, run_id=""):
    async with make(journal, effects) as app:
        if step == "submit":
            await app.submit("till", "Pay.", key="k")
            os.kill(os.getpid(), signal.SIGKILL)
        await (die if step == "die" else take)(app, run_id)

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


def start(program: Path, *arguments: str | Path) -> Any:
    return start_python(program, *arguments, stdin=PIPE, stdout=PIPE, text=True)


async def test_of_eight_processes_that_take_up_a_run_one_begins_it(
    place: Place, tmp_path: Path
) -> None:
    program, effects = tmp_path / "program.py", tmp_path / "effects"
    program.write_text(PROGRAM)
    app = runpy.run_path(str(program))["make"](place.where, effects)
    async with app:
        handle = await app.submit("till", "Pay.")
    processes = [start(program, place.where, effects, "take", handle.id) for _ in range(8)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0].strip() for process in processes]
    assert "completed" in told
    assert set(told) <= {"completed", "nothing"}
    assert effects.read_text() == "7\n"
    async with open_journal(place.where) as log:
        kinds = [event.kind async for event in log.events(handle.id)]
    assert kinds.count("run_started") == 1


async def test_what_was_submitted_outlives_every_process_that_dies_before_its_first_event(
    place: Place, tmp_path: Path
) -> None:
    program, effects = tmp_path / "program.py", tmp_path / "effects"
    program.write_text(PROGRAM)
    process = start(program, place.where, effects, "submit")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    app = runpy.run_path(str(program))["make"](place.where, effects)
    async with app:
        (due,) = await app.due()
        again = await app.submit("till", "Pay.", key="k")
        assert again.id == due.run_id
        process = start(program, place.where, effects, "die", again.id)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        (found,) = await app.due()
        assert (found.run_id, found.has_begun) == (again.id, False)
        result = await app.activate(again.id)
        assert result.status == Status.COMPLETED
    assert effects.read_text() == "7\n"
