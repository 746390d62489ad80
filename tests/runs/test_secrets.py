"""What is registered as a secret is in no log, event, error or result of a run."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import upshot
from upshot import (
    Agent,
    AgentError,
    Approve,
    Deny,
    Failed,
    FinalizeDecision,
    ModelResponse,
    Request,
    ScriptedModel,
    ScriptEngine,
    TextDelta,
    ToolCall,
    encode,
    resume,
    run,
    start,
    to_execution_result,
    tool,
)

SECRET = "hunter2-is-secret"


@pytest.fixture
def got() -> list[str]:
    """What the tool was called with."""
    return []


def keeper(got: list[str], *, approval: bool = False) -> Agent[str]:
    @tool(effect="write", approval=approval)
    async def login(password: str) -> str:
        got.append(password)
        return f"logged in with {password}"

    return Agent("keeper", tools=[login])


def calling() -> ScriptedModel:
    call = ToolCall("1", "login", {"password": SECRET})
    return ScriptedModel(
        [ModelResponse(content=f"I use {SECRET}", tool_calls=(call,)), f"It was {SECRET}."]
    )


def bytes_of(journal: Path) -> bytes:
    return b"".join(file.read_bytes() for file in journal.parent.iterdir())


async def test_a_secret_is_in_no_event_no_result_and_no_file(got: list[str], tmp_path: Path):
    journal = tmp_path / "runs.db"
    asked = Request(f"Log in with {SECRET}", inputs={"key": SECRET}, metadata={"key": SECRET})
    options: dict[str, Any] = {"model": calling(), "secrets": [SECRET], "journal": journal}
    async with start(keeper(got), asked, observers=[_Teller()], **options) as live:
        events = [encode(event) async for event in live]
        result = await live.result()
    assert got == [SECRET]
    assert result.success
    assert SECRET.encode() not in b"".join(events)
    assert SECRET.encode() not in encode(result)
    assert SECRET.encode() not in bytes_of(journal)


class Halting(ScriptedModel):
    """A model that says the secret in two pieces, with room for others in between."""

    def __init__(self) -> None:
        super().__init__([])
        self.is_between, self.may_continue = asyncio.Event(), asyncio.Event()

    async def stream(self, request: Any) -> Any:
        for piece in ("It is ", SECRET[:9]):
            yield TextDelta(text=piece)
        self.is_between.set()
        await self.may_continue.wait()
        for piece in (SECRET[9:], "."):
            yield TextDelta(text=piece)
        yield ModelResponse(content=f"It is {SECRET}.")


async def test_what_happens_between_its_pieces_shows_no_secret():
    model = Halting()

    async def script(run: Any, host: Any, board: Any) -> Any:
        asked = asyncio.ensure_future(run.call_model("?"))
        await model.is_between.wait()
        board.set("n", 1)
        model.may_continue.set()
        return (await asked).content

    agent = Agent("a", model=model, engine=ScriptEngine(script))
    async with start(agent, "?", secrets=[SECRET]) as live:
        told = [event.text async for event in live if isinstance(event, TextDelta)]
    assert "".join(told) == "It is ***."


async def test_pieces_of_two_replies_at_once_show_no_secret():
    model = Halting()

    async def script(run: Any, host: Any, board: Any) -> Any:
        asked = asyncio.ensure_future(run.call_model("?"))
        await model.is_between.wait()
        await run.call_model("?", model=ScriptedModel(["Another. "]))
        model.may_continue.set()
        return (await asked).content

    agent = Agent("a", model=model, engine=ScriptEngine(script))
    async with start(agent, "?", secrets=[SECRET]) as live:
        told = [event.text async for event in live if isinstance(event, TextDelta)]
    assert "".join(told) == "It is Another. ***."


@pytest.mark.parametrize("stop", ["cancel", "interrupt"])
async def test_a_reply_that_is_stopped_within_a_secret_shows_none_of_it(stop: str):
    model, told = Halting(), list[str]()
    async with start(Agent("a", model=model), "?", secrets=[SECRET]) as live:
        async for event in live:
            if isinstance(event, TextDelta):
                told.append(event.text)
                await model.is_between.wait()
                getattr(live, stop)()
                model.may_continue.set()
        result = await live.result()
    assert (told, result.content) == (["It is "], "It is ")


class Breaking(ScriptedModel):
    def __init__(self, end: ModelResponse | ValueError) -> None:
        super().__init__([])
        self.end = end

    async def stream(self, request: Any) -> Any:
        for piece in ("It is ", SECRET[:9]):
            yield TextDelta(text=piece)
        if isinstance(self.end, ValueError):
            raise self.end
        yield self.end


DOWN = AgentError("server_error", "It is down.")


@pytest.mark.parametrize(
    "end",
    [
        ValueError("a bug"),
        ModelResponse(error=DOWN),
        ModelResponse(error=DOWN, content=f"It is {SECRET[:9]}"),
    ],
    ids=["raised", "error", "error with the text"],
)
async def test_a_reply_that_breaks_within_a_secret_shows_none_of_it(end: Any):
    async with start(Agent("a", model=Breaking(end)), "?", secrets=[SECRET], retry=None) as live:
        events = [event async for event in live]
    told = [event.text for event in events if isinstance(event, TextDelta)]
    assert told == ["It is "]
    assert SECRET[:9].encode() not in b"".join(map(encode, events))


class _Teller:
    def on_run_start(self, info: object, request: object) -> None:
        raise ValueError(f"I saw {SECRET}")


async def test_an_error_holds_no_secret(tmp_path: Path):
    async def script(run: Any, host: Any, board: Any) -> None:
        raise Failed("invalid_request", f"bad key {SECRET}", details={"key": SECRET})

    agent = Agent("x", engine=ScriptEngine(script))
    journal = tmp_path / "runs.db"
    result = await run(agent, "Go.", secrets=[SECRET], journal=journal)
    assert result.error is not None
    assert result.error.message == "bad key ***"
    assert SECRET.encode() not in encode(result)
    assert SECRET.encode() not in bytes_of(journal)


def _chain(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))


async def test_what_unwrap_raises_holds_no_secret_in_its_chain():
    async def script(run: Any, host: Any, board: Any) -> None:
        try:
            raise ValueError(f"the server said {SECRET}")
        except ValueError as error:
            error.add_note(f"asked with {SECRET}")
            raise RuntimeError("it failed") from error

    result = await run(Agent("x", engine=ScriptEngine(script)), "Go.", secrets=[SECRET])
    with pytest.raises(upshot.RunFailed) as raised:
        result.unwrap()
    assert SECRET not in _chain(raised.value)
    assert "RuntimeError: it failed" in _chain(raised.value)
    assert "in script" in _chain(raised.value)


async def test_what_raised_and_tells_no_secret_is_kept_as_it_is():
    told = RuntimeError("it failed")

    async def script(run: Any, host: Any, board: Any) -> None:
        raise told

    result = await run(Agent("x", engine=ScriptEngine(script)), "Go.", secrets=[SECRET])
    assert result.raw is told


async def test_a_resumed_call_gets_the_real_value(got: list[str], tmp_path: Path):
    journal = tmp_path / "runs.db"
    agent, secrets = keeper(got, approval=True), ["another", SECRET]
    parked = await run(agent, "Go.", model=calling(), secrets=secrets, journal=journal)
    assert parked.status == "input_required"
    assert SECRET.encode() not in bytes_of(journal)
    result = await resume(
        parked.run_id,
        agent,
        model=calling(),
        journal=journal,
        secrets=secrets,
        answers=[Approve("1")],
    )
    assert result.success, result.error
    assert got == [SECRET]
    assert SECRET.encode() not in bytes_of(journal)


async def test_a_run_inside_a_run_keeps_its_secrets_too(tmp_path: Path):
    async def script(run: Any, host: Any, board: Any) -> str:
        child = await run.child(Agent("inner", engine=ScriptEngine(inner)), f"with {SECRET}")
        return child.content or ""

    async def inner(run: Any, host: Any, board: Any) -> str:
        return f"was told {SECRET}"

    journal = tmp_path / "runs.db"
    agent = Agent("outer", engine=ScriptEngine(script))
    result = await run(agent, "Go.", secrets=[SECRET], journal=journal)
    assert result.success, result.error
    assert SECRET.encode() not in bytes_of(journal)


async def test_the_model_works_with_the_real_text():
    model = ScriptedModel(["done"])
    await run(Agent("x"), f"use {SECRET}", model=model, secrets=[SECRET])
    assert SECRET in model.calls[0].messages[0].text


async def test_an_ended_run_says_the_same_when_it_is_read_again(got: list[str], tmp_path: Path):
    journal = tmp_path / "runs.db"
    options: dict[str, Any] = {"model": calling(), "secrets": [SECRET], "journal": journal}
    first = await run(keeper(got), "Go.", **options)
    again = await upshot.resume(first.run_id, keeper(got), **options)
    assert again == first


def shouting(*_: Any) -> Any:
    raise ValueError(f"cannot use {SECRET}")


class Stating:
    """A decider that puts the secret where all see it."""

    def before_finalize(self, *_: Any) -> FinalizeDecision:
        return FinalizeDecision.discard(f"no {SECRET}", state={"why": SECRET})


SHOUTERS: dict[str, dict[str, Any]] = (
    {
        f"decider in {hook}": {"deciders": [SimpleNamespace(**{hook: shouting})]}
        for hook in ("before_model", "before_finalize")
    }
    | {
        f"observer in {hook}": {"observers": [SimpleNamespace(**{hook: shouting})]}
        for hook in ("on_run_start", "on_attempt_start", "on_attempt_end", "on_run_end")
    }
    | {
        "decider's state": {"deciders": [Stating()]},
        "committer": {"committers": [shouting]},
        "seeder": {"prepare": shouting},
        "engine": {"engine": ScriptEngine(shouting)},
        "host": {"host": SimpleNamespace(publish=shouting)},
    }
)


@pytest.mark.parametrize("options", SHOUTERS.values(), ids=SHOUTERS)
async def test_no_hook_puts_a_secret_into_the_result(options: dict[str, Any], tmp_path: Path):
    journal = tmp_path / "runs.db"
    options = {"model": ScriptedModel(["Hi."]), **options}
    result = await run(Agent("a"), "?", secrets=[SECRET], journal=journal, **options)
    assert SECRET.encode() not in encode(result)
    assert SECRET not in str(result)
    assert SECRET.encode() not in bytes_of(journal)


async def test_no_view_of_a_result_holds_a_secret_that_was_asked_with(tmp_path: Path):
    agent = Agent("x", model=ScriptedModel(["done"]))
    result = await run(agent, f"use {SECRET}", secrets=[SECRET])
    assert [message.text for message in result.all_messages()] == ["use ***", "done"]
    assert SECRET not in str(to_execution_result(result))


@pytest.mark.parametrize(
    "order", [["a-longer-secret-yet", SECRET], [SECRET, "a-longer-secret-yet"]]
)
async def test_a_resume_may_name_the_secrets_in_any_order(
    got: list[str], tmp_path: Path, order: list[str]
):
    options: dict[str, Any] = {"model": calling(), "journal": tmp_path / "runs.db"}
    agent, first = keeper(got, approval=True), ["a-longer-secret-yet", SECRET]
    parked = await run(agent, "Go.", secrets=first, **options)
    answers = [Approve("1")]
    result = await resume(parked.run_id, agent, answers=answers, secrets=order, **options)
    assert (result.success, got, result.warnings) == (True, [SECRET], ())


@pytest.mark.parametrize("others", [[], ["a-longer-secret-yet", SECRET]], ids=["none", "one more"])
async def test_a_resume_with_other_secrets_puts_none_in_the_place_of_another(
    got: list[str], tmp_path: Path, others: list[str]
):
    journal = tmp_path / "runs.db"
    options: dict[str, Any] = {"model": calling(), "journal": journal}
    agent = keeper(got, approval=True)
    parked = await run(agent, "Go.", secrets=[SECRET], **options)
    result = await resume(parked.run_id, agent, answers=[Deny("1")], secrets=others, **options)
    assert [warning.code for warning in result.warnings] == ["secrets_changed"]
    assert others == [] or not any(one.encode() in bytes_of(journal) for one in others)
    (call,) = result.messages[0].tool_calls
    assert "<secret " in str(call.arguments)


async def test_a_secret_as_the_name_of_a_tool_is_masked_and_a_tool_of_that_name_works(
    tmp_path: Path,
) -> None:
    @tool(name=SECRET, effect="write", approval=True)
    async def login() -> str:
        return "in"

    known, unknown = ToolCall("1", SECRET, {}), ToolCall("2", f"use-{SECRET}", {})
    agent = Agent("a", model=ScriptedModel([known, unknown, "Done."]), tools=[login])
    path = tmp_path / "runs.db"
    options: Any = {"journal": path, "secrets": [SECRET]}
    parked = await run(agent, Request("?", run_id="r"), **options)
    done = await resume("r", agent, answers=[Approve("1")], **options)
    assert done.content == "Done."
    assert [outcome.kind for outcome in done.tool_outcomes] == [
        "tool_execution_result",
        "tool_denied",
    ]
    read = await resume("r", agent, **options)
    for result in (parked, done, read):
        for shown in (encode(result).decode(), repr(result), str(to_execution_result(result))):
            assert SECRET not in shown
    assert SECRET.encode() not in bytes_of(path)


async def test_a_short_secret_leaves_names_as_they_are(got: list[str]) -> None:
    agent = keeper(got)
    result = await run(agent, "?", model=calling(), secrets=["log"])
    assert result.tools_used == ("login",)
