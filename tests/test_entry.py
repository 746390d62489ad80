"""The doors to a run: what they take, and what they refuse before anything begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.runs.kit import ADD, Do, Witness, add, say
from upshot import (
    Agent,
    AgentSpec,
    Board,
    Budget,
    Checkpoint,
    Decider,
    FinalizeDecision,
    Message,
    Misuse,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Request,
    Retry,
    Status,
    Text,
    ToolCall,
    ToolContext,
    decode,
    encode,
    run,
    start,
    tool,
)
from upshot.engines import LoopEngine, ScriptEngine
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.runs.plan import RunOptions


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


def asked(model: ScriptedModel) -> ModelRequest:
    return model.calls[-1]


# -- names and kinds of options


@pytest.mark.parametrize("name", sorted(RunOptions.__optional_keys__))
async def test_a_typo_in_an_option_names_the_right_one(name: str) -> None:
    with pytest.raises(Misuse, match=f"did you mean '{name}'"):
        await run(hello(), "?", **{name + "x": None})  # type: ignore[arg-type]


async def test_a_typo_is_told_before_the_journal_is_made(tmp_path: Path) -> None:
    with pytest.raises(Misuse):
        await run(hello(), "?", journal=tmp_path / "runs.db", modle="m")  # type: ignore[call-arg]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 5}, "budget must be a Budget, got 5"),
        ({"settings": {"temperature": 1}}, "settings must be ModelSettings, got dict"),
        ({"retry": 3}, "retry must be a Retry, got 3"),
        ({"engine": "loop"}, "give LoopEngine"),
        ({"engine": Do}, "engine must be an Engine.*got the class Do"),
        ({"clock": 3}, "clock must be a clock, which has monotonic"),
        ({"observers": Witness()}, "observers must be a list of observers, got Witness"),
        ({"artifacts": "drafts"}, "artifacts must be a list of strings, got str"),
        ({"secrets": "hunter2"}, "secrets must be a list of strings, got str"),
        ({"prepare": 1}, "prepare must be a function, got 1"),
        ({"max_attempts": 0}, "max_attempts must be a whole number of at least 1, got 0"),
        ({"observers": [3]}, "observers must be objects with one of on_run_start.*, got 3"),
        ({"observers": [Witness]}, "observers must be objects.*, got the class Witness"),
        ({"deciders": [Decider]}, "deciders must be objects.*, got the class Decider"),
        ({"host": 3}, "host must be an object with some of Host's methods, got 3"),
        ({"host": {"ask_user": print}}, "host must be an object.*, got dict"),
        ({"host": Witness}, "host must be an object.*, got the class Witness"),
        (
            {"deciders": [object()]},
            "deciders must be objects with one of check_request, .* got object",
        ),
        ({"committers": [3]}, "committers must be a list of functions, got 3 in it"),
        ({"artifacts": [3]}, "artifacts must be a list of strings, got 3 in it"),
        ({"secrets": [3]}, "secrets must be a list of strings, got 3 in it"),
        ({"artifact_store": 3}, "artifact_store must be an artifact store, which has put"),
        ({"attributes": {"x": object()}}, "attributes"),
        ({"history": "all"}, "history must be messages or an AgentResult, got str"),
        ({"history": [1]}, "history must be .*, got 1 in it"),
        ({"history": 3}, "history must be messages or an AgentResult, got 3"),
        ({"model": 3}, "model must be 'provider:name' or a Model, got 3"),
        ({"model": ScriptedModel}, "model must be .*, got the class ScriptedModel"),
        ({"journal": 3}, "a journal is a path"),
        ({"resume_from": 3}, "resume_from must be a Checkpoint, got 3"),
    ],
)
async def test_an_option_of_another_kind_is_misuse(options: dict[str, Any], said: str) -> None:
    with pytest.raises(Misuse, match=said):
        await run(hello(), "?", **options)


@pytest.mark.parametrize(
    "name", ["observers", "deciders", "committers", "tools", "history", "attributes", "budget"]
)
async def test_none_is_an_option_that_is_not_given(name: str) -> None:
    assert (await run(hello(), "?", **{name: None})).content == "Hello."  # type: ignore[arg-type]


@pytest.mark.parametrize("request_", [None, 3, b"bytes"])
async def test_a_request_of_another_kind_is_misuse(request_: Any) -> None:
    with pytest.raises(Misuse, match="request must be a string"):
        await run(hello(), request_)


@pytest.mark.parametrize("asked", ["a\ud800", Message("user", [Text("a\ud800")])], ids=type)
async def test_lone_surrogates_of_a_request_are_replaced(asked: Any, tmp_path: Path) -> None:
    result = await run(hello(), asked, journal=tmp_path / "runs.db")
    assert result.success
    assert [m.text for m in result.all_messages()] == ["a\ufffd", "Hello."]


@pytest.mark.parametrize("field", ["run_id", "task_id", "context_id"])
async def test_an_id_that_is_no_text_is_misuse(field: str) -> None:
    with pytest.raises(Misuse, match=f"{field} must be .*lone surrogates"):
        await run(hello(), Request("?", **{field: "a\udc00"}))  # type: ignore[arg-type]


async def test_an_agent_of_another_kind_is_misuse() -> None:
    with pytest.raises(Misuse, match="an Agent first, not str"):
        await run("a", "?")  # type: ignore[arg-type]


async def test_metadata_that_is_no_json_is_misuse() -> None:
    with pytest.raises(Misuse, match="metadata of the request"):
        await run(hello(), Request("?", metadata={"x": object()}))  # type: ignore[dict-item]


async def test_a_message_is_a_request_too() -> None:
    model = ScriptedModel(["Hi."])
    await run(Agent("a", model=model), Message("user", "From a message."))  # type: ignore[arg-type]
    assert asked(model).messages[0].text == "From a message."


# -- models


async def test_the_model_of_the_call_wins_over_the_agents() -> None:
    assert (await run(hello(), "?", model=ScriptedModel(["Other."]))).content == "Other."


async def test_the_model_of_the_call_wins_over_the_engines() -> None:
    agent = Agent("a", engine=LoopEngine(ScriptedModel(["Engine."])))
    assert (await run(agent, "?")).content == "Engine."
    assert (await run(agent, "?", model=ScriptedModel(["Call."]))).content == "Call."


async def test_an_engine_inside_an_engine_keeps_its_own_model() -> None:
    inner = LoopEngine(ScriptedModel(["Inner."]))
    agent = Agent("a", model=ScriptedModel(["Outer."]), engine=Do(inner.execute))
    assert (await run(agent, "?")).content == "Inner."


async def test_a_model_can_be_named(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["From a file."]')
    assert (await run(Agent("a", model=f"scripted:{script}"), "?")).content == "From a file."


async def test_neither_model_nor_engine_is_misuse() -> None:
    with pytest.raises(Misuse, match="neither a model nor an engine"):
        await run(Agent("a"), "?")


async def test_a_model_attribute_of_a_foreign_engine_is_its_own_business() -> None:
    engine = Do(lambda run, host, board: "Fine.")
    engine.model = "native-model"  # type: ignore[attr-defined]
    assert (await run(Agent("a", engine=engine), "?")).output == "Fine."


async def test_a_cost_limit_on_a_model_without_a_price_is_misuse_unless_allowed() -> None:
    class Unpriced:
        name = "mine:one"

        async def call(self, request: Any) -> ModelResponse:
            return ModelResponse(content="Hi.")

    agent = Agent("a", model=Unpriced())
    with pytest.raises(Misuse, match="max_cost_usd"):
        await run(agent, "?", budget=Budget(max_cost_usd=1))  # type: ignore[arg-type]
    allowed = Budget(max_cost_usd=1, unpriced="allow")  # type: ignore[arg-type]
    assert (await run(agent, "?", budget=allowed)).success


# -- what the model sees


async def test_settings_are_merged_field_by_field_and_the_calls_win() -> None:
    model = ScriptedModel(["Hi."])
    own = ModelSettings(temperature=0.1, seed=4, extra={"a": 1})
    over = ModelSettings(temperature=0.9, extra={"b": 2})
    await run(Agent("a", model=model, settings=own), "?", settings=over)
    assert asked(model).settings == ModelSettings(temperature=0.9, seed=4, extra={"a": 1, "b": 2})


@pytest.mark.parametrize("kind", ["text", "function", "async function"])
async def test_instructions_are_a_text_or_a_function_of_the_run(kind: str) -> None:
    async def later(run: Any) -> str:
        return f"Serve {run.identity.agent_id}."

    asks: dict[str, Any] = {
        "text": "Serve a.",
        "function": lambda run: f"Serve {run.agent.id}.",
        "async function": later,
    }
    model = ScriptedModel(["Hi."])
    await run(Agent("a", model=model, instructions=asks[kind]), "?")
    assert asked(model).system == "Serve a."


async def test_instructions_that_raise_fail_the_run() -> None:
    def broken(run: Any) -> str:
        raise KeyError("who")

    result = await run(Agent("a", model=ScriptedModel(["Hi."]), instructions=broken), "?")
    assert result.error is not None
    assert (result.status, result.error.code, result.error.type) == (
        "failed",
        "internal",
        "KeyError",
    )


async def test_history_of_messages_stands_before_the_request() -> None:
    model = ScriptedModel(["Hi."])
    await run(Agent("a", model=model), "Now.", history=[Message("user", "Then."), say("Ah.")])
    assert [message.text for message in asked(model).messages] == ["Then.", "Ah.", "Now."]


async def test_history_of_a_result_goes_on_with_it() -> None:
    first = await run(hello(), "One.")
    model = ScriptedModel(["Second."])
    await run(Agent("a", model=model), "Two.", history=first)
    assert [message.text for message in asked(model).messages] == ["One.", "Hello.", "Two."]


async def test_history_of_the_context_holds_what_committed_runs_produced() -> None:
    journal = MemoryJournal()
    for number, context in (("One", "c"), ("Other", "d")):
        agent = Agent("a", model=ScriptedModel([f"Re {number}."]))
        await run(agent, Request(f"{number}.", context_id=context), journal=journal)
    broken = Agent("a", engine=Do(lambda run, host, board: 1 / 0))
    await run(broken, Request("Broken.", context_id="c"), journal=journal)
    model = ScriptedModel(["Hi."])
    request = Request("Two.", context_id="c")
    await run(Agent("a", model=model), request, journal=journal)
    assert [message.text for message in asked(model).messages] == ["One.", "Re One.", "Two."]


async def test_history_of_the_context_leaves_out_a_run_that_has_not_ended() -> None:
    journal, model = MemoryJournal(), ScriptedModel(["Hello."])

    async def ask(run: Any, host: Any, board: Any) -> Any:
        board.append(Message("assistant", "Let me ask."))
        return await host.ask_user("Who are you?")

    request = Request("Open.", context_id="c")
    await run(Agent("b", engine=Do(ask)), request, journal=journal)
    request = Request("Now.", context_id="c")
    await run(Agent("a", model=model), request, journal=journal, remember=False)
    assert [message.text for message in asked(model).messages] == ["Now."]


async def test_inputs_are_variables_on_the_board() -> None:
    engine = Do(lambda run, host, board: board.get("city"))
    result = await run(Agent("a", engine=engine), Request("?", inputs={"city": "Ulm"}))
    assert result.output == "Ulm"


# -- tools


async def offered(agent: Agent, **options: Any) -> list[str]:
    model = ScriptedModel(["Hi."])
    await run(agent, "?", model=model, **options)
    return [spec.name for spec in asked(model).tools]


async def test_names_of_tools_are_found_among_those_of_the_call() -> None:
    assert await offered(Agent("a", tools=["add"]), tools=[add]) == ["add"]


async def test_a_name_that_is_nowhere_is_misuse() -> None:
    with pytest.raises(Misuse, match="no tool 'ad'; did you mean 'add'"):
        await offered(Agent("a", tools=["ad"]), tools=[add])


async def test_without_tools_of_its_own_an_agent_has_those_of_the_call() -> None:
    assert await offered(Agent("a", tools=None), tools=[add]) == ["add"]


async def test_an_empty_list_of_tools_allows_none() -> None:
    assert await offered(Agent("a", tools=()), tools=[add]) == []
    model = ScriptedModel([ADD, "Oh."])
    result = await run(Agent("a", tools=(), model=model), "?", tools=[add])
    assert result.tool_outcomes[0].kind == "tool_denied"
    assert result.tools_used == ()


async def test_dependencies_and_ids_reach_the_tool() -> None:
    seen: list[Any] = []

    @tool(effect="read")
    async def look(context: ToolContext[dict[str, int]]) -> str:
        seen.append((context.dependencies, context.run_id, context.attempt))
        return "seen"

    agent = Agent("a", model=ScriptedModel([ToolCall("l", "look"), "Ok."]), tools=[look])
    result = await run(agent, "?", dependencies={"n": 1})
    assert seen == [({"n": 1}, result.run_id, 1)]


async def test_secrets_are_masked_in_what_tools_show() -> None:
    @tool(effect="read")
    async def leak() -> str:
        return "the key is hunter2"

    agent = Agent("a", model=ScriptedModel([ToolCall("l", "leak"), "Ok."]), tools=[leak])
    result = await run(agent, "?", secrets=["hunter2"])
    assert b"hunter2" not in encode(result)


async def test_attributes_reach_the_engine_and_cannot_forge_who_it_is() -> None:
    def work(run: Any, host: Any, board: Any) -> list[Any]:
        return [dict(run.attributes), run.identity.run_id, run.id]

    attributes = {"run_id": "forged", "tenant": "x"}
    request = Request("?", run_id="run-true")
    result = await run(Agent("a", engine=Do(work)), request, attributes=attributes)
    assert result.output == [attributes, "run-true", "run-true"]


# -- approval


async def test_the_callback_lets_a_destructive_call_run() -> None:
    done: list[str] = []

    @tool(effect="destructive")
    async def wipe(name: str) -> str:
        done.append(name)
        return "gone"

    call = ToolCall("w", "wipe", {"name": "x"})
    agent = Agent("a", model=ScriptedModel([call, "Ok."]), tools=[wipe])
    asks: list[Any] = []

    def approve(request: Any) -> bool:
        asks.append((request.tool_name, request.arguments))
        return True

    assert (await run(agent, "?", approve=approve)).success
    assert (done, asks) == (["x"], [("wipe", {"name": "x"})])


# -- agents as data


async def test_a_spec_runs_as_the_agent_that_it_describes() -> None:
    model = ScriptedModel([ADD, "It is 3."])
    agent = Agent("a", instructions="Add.", tools=[add])
    spec = decode(encode(agent), AgentSpec)
    result = await run(spec, "?", tools=[add], model=model)
    assert (result.agent_id, result.content, asked(model).system) == ("a", "It is 3.", "Add.")


async def test_a_spec_that_names_an_engine_needs_it_given() -> None:
    spec = Agent("a", engine=Do(lambda run, host, board: "Done.")).spec()
    with pytest.raises(Misuse, match="names the engine 'Do'"):
        await run(spec, "?")
    engine = Do(lambda run, host, board: "Done.")
    assert (await run(spec, "?", engine=engine)).output == "Done."


# -- checkpoints


class Resumable(Do):
    def can_resume(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.step == "known"


def checkpoint(step: str = "known", **facts: Any) -> Checkpoint:
    board = Board()
    board.append(Message("user", "Asked."))
    board.mark_seeded()
    board.append(say("So far."))
    board.set("n", 1)
    return Checkpoint("run-c", step, board.snapshot(), **facts)


async def test_a_run_goes_on_from_the_board_of_a_checkpoint() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        board.append(say(f"Then {board.get('n')}, {run.resume_from.step}."))

    result = await run(Agent("a", engine=Resumable(work)), "?", resume_from=checkpoint())
    assert result.run_id == "run-c"
    assert [message.text for message in result.all_messages()] == [
        "Asked.",
        "So far.",
        "Then 1, known.",
    ]
    assert [message.text for message in result.messages] == ["So far.", "Then 1, known."]


async def test_a_checkpoint_counts_for_the_first_attempt_alone() -> None:
    class Again:
        def before_finalize(self, *_: Any) -> FinalizeDecision:
            return FinalizeDecision.revise("", "again")

    def work(run: Any, host: Any, board: Any) -> None:
        board.append(say(f"{run.attempt} {run.resume_from is not None} {board.get('n')}"))

    agent = Agent("a", engine=Resumable(work), deciders=[Again()])
    result = await run(agent, "?", resume_from=checkpoint(), max_attempts=2)
    assert [line.content for line in result.attempt_log] == ["1 True 1", "2 False None"]
    assert [message.text for message in result.all_messages()] == ["?", "2 False None"]


async def test_a_script_finds_any_checkpoint_and_looks_what_it_means() -> None:
    async def script(run: Any, host: Any, board: Any) -> Any:
        point = run.resume_from
        return [run.id, None if point is None else point.step, board.get("n")]

    again = NothingAtFirst()
    result = await run(
        Agent("a", engine=ScriptEngine(script), deciders=[again]),
        "?",
        resume_from=checkpoint("anywhere"),
        max_attempts=2,
    )
    assert again.seen == [["run-c", "anywhere", 1], ["run-c", None, None]]
    told = [one.code for one in result.warnings]
    assert (result.run_id, told) == ("run-c", ["request_left_out"])


async def test_a_script_that_overlooks_its_checkpoint_is_told_of() -> None:
    async def script(run: Any, host: Any, board: Any) -> str:
        return "From the top."

    agent = Agent("a", engine=ScriptEngine(script), deciders=[NothingAtFirst()])
    result = await run(agent, "?", resume_from=checkpoint(), max_attempts=2)
    told = {one.code: one.message for one in result.warnings}
    assert [*told] == ["request_left_out", "engine_starts_over"]
    assert "make it read run.resume_from" in told["engine_starts_over"]


class NothingAtFirst:
    """Has the first attempt done again."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        self.seen.append(result.output)
        if len(self.seen) > 1:
            return FinalizeDecision.accept()
        return FinalizeDecision.revise("", "again")


@pytest.mark.parametrize(
    ("engine", "request_", "point", "said"),
    [
        (Resumable(print), "?", checkpoint("odd"), "cannot resume from the checkpoint at step"),
        (Do(print), "?", checkpoint(), "has no can_resume"),
        (Resumable(print), Request("?", run_id="run-d"), checkpoint(), "is of run 'run-c'"),
        (Resumable(print), "?", checkpoint(spec_version="x/9"), "of the form 'x/9'"),
    ],
)
async def test_an_unusable_checkpoint_is_misuse(
    engine: Any, request_: Any, point: Checkpoint, said: str
) -> None:
    with pytest.raises(Misuse, match=said):
        await run(Agent("a", engine=engine), request_, resume_from=point)


def _fail(_: object) -> bool:
    raise ValueError("no idea")


async def _fail_later(_: object) -> bool:
    raise ValueError("no idea")


@pytest.mark.parametrize("can_resume", [_fail, _fail_later])
async def test_a_can_resume_that_gives_no_word_is_misuse(can_resume: Any) -> None:
    engine = Do(print)
    engine.can_resume = can_resume  # type: ignore[attr-defined]
    with pytest.raises(Misuse, match="can_resume raised ValueError: no idea"):
        await run(Agent("a", engine=engine), "?", resume_from=checkpoint())


@pytest.mark.parametrize(("step", "status"), [("known", "completed"), ("odd", None)])
async def test_an_engine_may_look_elsewhere_whether_it_can_resume(
    step: str, status: str | None
) -> None:
    class Asking(Do):
        async def can_resume(self, checkpoint: Checkpoint) -> bool:
            return checkpoint.step == "known"

    agent = Agent("a", engine=Asking(lambda *_: "Done."))
    if status is None:
        with pytest.raises(Misuse, match="Asking cannot resume from the checkpoint at step 'odd'"):
            await run(agent, "?", resume_from=checkpoint(step))
    else:
        assert (await run(agent, "?", resume_from=checkpoint(step))).status == status


async def test_what_a_checkpoint_does_not_say_is_filled_in() -> None:
    kept: list[Checkpoint] = []

    class Keeper:
        checkpoint = staticmethod(kept.append)

    async def name(run: Any, host: Any, board: Any) -> None:
        await host.checkpoint(Checkpoint(run.id, "known", board.snapshot(), payload=1))

    agent = Agent("a", engine=Resumable(name))
    first = await run(agent, "?", host=Keeper(), attributes={"k": 1})
    await run(agent, "?", host=Keeper(), resume_from=kept[0])
    assert (kept[0].exec_id, kept[0].payload, kept[0].attributes) == (first.run_id, 1, {"k": 1})
    assert kept[0].timestamp is not None
    assert kept[0].original_started_at == kept[1].original_started_at == first.started_at


# -- start


async def test_start_takes_the_options_too() -> None:
    async with start(hello(), "?", retry=Retry(max_tries=1)) as live:
        result = await live.result()
    assert (result.status, live.run_id) == (Status.COMPLETED, result.run_id)


async def test_a_spec_does_not_run_without_what_it_was_written_without() -> None:
    class Guard:
        def before_finalize(self, *_: Any) -> FinalizeDecision:
            return FinalizeDecision.discard("never")

    whole: Agent[str] = Agent("a", deciders=[Guard()], observers=[Witness()])
    spec = decode(encode(whole), AgentSpec)
    model = ScriptedModel(["Hi."] * 2)
    with pytest.raises(Misuse, match="agent 'a' was written without its deciders"):
        await run(spec, "?", model=model)
    assert (await run(replace(spec, omitted=()), "?", model=model)).committed
    watched = Agent("a", observers=[Witness()]).spec()
    assert (await run(watched, "?", model=model)).success
