"""A script that is called again from its top gets back what the log has of its calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.runs.kit import Ordered, measured
from upshot import (
    Agent,
    AgentResult,
    Answer,
    Approve,
    Message,
    ModelRequest,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    replay,
    resume,
    run,
    tool,
)

DONE: list[int] = []


@tool(effect="read")
async def look(n: int) -> int:
    """Look."""
    DONE.append(n)
    return n * n


@tool(effect="destructive")
async def remove(n: int) -> str:
    """Remove."""
    DONE.append(n)
    return f"removed {n}"


async def story(run: Any, host: Any, board: Any) -> Any:
    """Asks a model, calls tools, asks again; everything stands on the board."""
    first = await run.call_model(ModelRequest(board.messages()))
    board.append(first.to_message())
    calls = [ToolCall(f"c{n}", "look", {"n": n}) for n in range(2)]
    outcomes = await run.tools.dispatch(calls)
    step = await host.once("step", "read", lambda: 7)
    second = await run.call_model(ModelRequest(board.messages()))
    board.append(second.to_message())
    return [first.content, [outcome.output for outcome in outcomes], step, second.content]


def agent(script: Any = story) -> Agent[Any]:
    model = ScriptedModel([measured("One."), measured("Two.")], per_conversation=True)
    return Agent("a", engine=ScriptEngine(script), model=model, tools=[look, remove])


async def whole(script: Any = story) -> tuple[AgentResult[Any], Ordered]:
    DONE.clear()
    journal = Ordered()
    return await run(agent(script), Request("?", run_id="r"), journal=journal), journal


async def test_a_script_that_was_cut_anywhere_ends_as_if_it_had_not_been() -> None:
    first, journal = await whole()
    assert first.output == ["One.", [{"result": 0}, {"result": 1}], 7, "Two."]
    for length in range(1, len(journal.order)):
        before = journal.cut(length)
        started = [e.call.id for e in before.order if e.kind == "tool_started"]
        settled = [e.record.call_id for e in before.order if e.kind == "tool_settled"]
        DONE.clear()
        second = await resume("r", agent(), journal=before)
        assert second.output == first.output, length
        assert [m.text for m in second.messages] == ["One.", "Two."], length
        assert len(DONE) == 2 - len(settled), (started, settled)
        asked = [event for event in before.order if event.kind == "model_started"]
        assert second.usage.api_calls == len(asked) <= 3


async def test_a_call_that_waits_for_a_word_goes_on_with_it() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        from upshot import Parked

        calls = [ToolCall("a", "look", {"n": 1}), ToolCall("b", "remove", {"n": 2})]
        outcomes = await run.tools.dispatch(calls)
        if run.tools.pending:
            raise Parked(*run.tools.pending)
        return [outcome.output for outcome in outcomes]

    parked, journal = await whole(script)
    assert parked.status is Status.INPUT_REQUIRED
    done = await resume("r", agent(script), journal=journal, answers=[Approve("b")])
    assert done.output == [{"result": 1}, {"result": "removed 2"}]
    assert DONE == [1, 2]


async def test_model_calls_side_by_side_get_their_own_replies() -> None:
    def answer(messages: Any) -> Any:
        return measured(f"re {messages[-1].text}")

    async def script(run: Any, host: Any, board: Any) -> Any:
        async def ask(text: str) -> Any:
            return (await run.call_model(ModelRequest((Message("user", text),)))).content

        return await asyncio.gather(*(ask(text) for text in "abc"))

    def asking() -> Agent[Any]:
        return agent(script).but(model=ScriptedModel([answer] * 9))

    journal = Ordered()
    first = await run(asking(), Request("?", run_id="r"), journal=journal)
    assert first.output == ["re a", "re b", "re c"]
    for length in range(1, len(journal.order)):
        for further in range(1, 5):
            before = journal.cut(length)
            await resume("r", asking(), journal=before)
            before = before.cut(length + further)
            second = await resume("r", asking(), journal=before)
            assert second.output == first.output, (length, further)


async def test_another_model_than_before_is_asked_anew_and_told() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        reply = await run.call_model(ModelRequest((Message("user", "?"),)))
        await host.ask_user("Well?")
        return reply.content

    _, journal = await whole(script)

    class Other(ScriptedModel):
        @property
        def name(self) -> str:
            return "scripted:other"

    other = agent(script).but(model=Other(["spent", "Other."]))
    result = await resume("r", other, journal=journal)
    assert [warning.code for warning in result.warnings] == ["agent_changed", "replay_diverged"]


async def test_after_another_model_than_before_no_reply_is_handed_back() -> None:
    class Named(ScriptedModel):
        def __init__(self, name: str, reply: str) -> None:
            super().__init__([reply])
            self._named = name

        @property
        def name(self) -> str:
            return f"scripted:{self._named}"

    def asking(*models: Named) -> Agent[Any]:
        async def script(run: Any, host: Any, board: Any) -> Any:
            request = ModelRequest((Message("user", "?"),))
            said = [(await run.call_model(request, model=model)).content for model in models]
            await host.ask_user("Well?")
            return said

        return agent(script)

    journal = Ordered()
    before = asking(Named("first", "1"), Named("second", "2"))
    await run(before, Request("?", run_id="r"), journal=journal)
    after = asking(Named("third", "3"), Named("second", "2, with the third read"))
    result = await resume("r", after, journal=journal, answers=[Answer("question-1-1", "ok")])
    assert result.output == ["3", "2, with the third read"]


@pytest.mark.parametrize("place", ["output", "step"])
async def test_what_json_cannot_hold_is_told(place: str) -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        if place == "step":
            return await host.once("k", "read", lambda: [float("nan")])
        return {"a": float("inf")}

    result, _ = await whole(script)
    assert result.output in ([None], {"a": None})
    (warning,) = result.warnings
    assert (warning.code, warning.origin) == ("lossy_value", "engine")


def echoing(script: Any) -> Agent[Any]:
    model = ScriptedModel(lambda messages: f"On {messages[-1].text}.")
    return Agent("a", engine=ScriptEngine(script), model=model)


async def parked_and_gone_on(script: Any, *answers: str) -> AgentResult[Any]:
    """Run *script*, which asks people as often as there are answers."""
    journal = Ordered()
    result = await run(echoing(script), "Go.", journal=journal)
    for answer in answers:
        (pending,) = result.pending
        given = [Answer(pending.id, answer)]
        result = await resume(result.run_id, echoing(script), journal=journal, answers=given)
    return result


async def test_replies_in_the_body_of_a_finished_step_are_not_those_after_it() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> str:
            return (await run.call_model("one")).content

        first = await host.once("a", "write", body)
        second = (await run.call_model("two")).content
        await host.ask_user("Well?")
        return [first, second, (await run.call_model("three")).content]

    result = await parked_and_gone_on(script, "yes")
    assert result.output == ["On one.", "On two.", "On three."]
    assert result.usage.api_calls == 3


async def test_replies_in_steps_side_by_side_go_where_they_belong() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> str:
            await asyncio.sleep(0)
            return (await run.call_model("inside")).content

        async def beside() -> str:
            return (await run.call_model("beside")).content

        found = await asyncio.gather(host.once("a", "read", body), beside())
        found += [(await run.call_model("after")).content]
        await host.ask_user("Well?")
        return found

    result = await parked_and_gone_on(script, "yes")
    assert result.output == ["On inside.", "On beside.", "On after."]


async def test_a_body_that_waits_for_people_gets_its_replies_back() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> list[Any]:
            return [(await run.call_model("in")).content, await host.ask_user("Well?")]

        before = (await run.call_model("before")).content
        inside = await host.once("a", "write", body)
        return [before, *inside, (await run.call_model("after")).content]

    result = await parked_and_gone_on(script, "yes")
    assert result.output == ["On before.", "On in.", "yes", "On after."]
    assert result.usage.api_calls == 3


async def test_an_answer_to_a_question_in_a_step_is_not_given_to_one_after_it() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        first = await host.once("a", "write", lambda: host.ask_user("One?"))
        return [first, await host.ask_user("Two?"), await host.ask_user("Three?")]

    assert (await parked_and_gone_on(script, "A", "B", "C")).output == ["A", "B", "C"]


async def test_children_in_the_body_of_a_finished_step_are_not_those_after_it() -> None:
    async def inner(run: Any, host: Any, board: Any) -> str:
        return run.id

    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> Any:
            return (await run.child(Agent("i", engine=ScriptEngine(inner)), "?")).output

        first = await host.once("a", "write", body)
        await host.ask_user("Well?")
        return [first, await body()]

    first, second = (await parked_and_gone_on(script, "yes")).output
    assert first != second


async def test_a_message_of_a_finished_step_does_not_double_those_after_it() -> None:
    async def script(run: Any, host: Any, board: Any) -> None:
        await host.once("a", "write", lambda: board.append(Message("assistant", "A")))
        board.append(Message("assistant", "B"))
        await host.ask_user("Well?")
        board.append(Message("assistant", "A"))

    result = await parked_and_gone_on(script, "yes")
    assert [one.text for one in result.messages] == ["A", "B", "A"]


async def test_replies_in_the_body_of_a_step_are_no_difference_to_a_replay() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        async def body() -> str:
            return (await run.call_model("one")).content

        return [await host.once("a", "write", body), (await run.call_model("two")).content]

    journal = Ordered()
    result = await run(echoing(script), "Go.", journal=journal)
    told = await replay(result.run_id, echoing(script), journal=journal)
    assert told.difference is None
    assert told.result is not None
    assert told.result.output == result.output == ["On one.", "On two."]
