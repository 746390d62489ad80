"""Where an exception came from, and whose it was."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from traceback import extract_tb, walk_tb
from typing import Any

import pytest

from tests.runs.kit import Do, log_of
from upshot import (
    Agent,
    AgentResult,
    Failed,
    Graph,
    GraphEngine,
    RunFailed,
    ScriptEngine,
    decode,
    encode,
    run,
)
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.runs.run_context import RunContext
from upshot.runs.session import Session


def broken(*_: Any) -> Any:
    secret = {"password": "hunter2"}
    return secret["k"]


async def script(run: Any, host: Any, board: Any) -> Any:
    return broken()


class Model:
    name = "my:model"

    async def call(self, request: Any) -> Any:
        broken()


async def stepping(run: Any, host: Any, board: Any) -> Any:
    await host.once("one", "read", broken)


AGENT = Agent("a", model=ScriptedModel(["Hi."]))
PLACES: dict[str, tuple[Agent[Any], dict[str, Any]]] = {
    "the script": (AGENT, {"engine": ScriptEngine(script)}),
    "the engine Do": (AGENT, {"engine": Do(broken)}),
    "the model 'my:model'": (AGENT, {"model": Model()}),
    "the agent's instructions": (AGENT.but(instructions=broken), {}),
    "the step 'one'": (AGENT, {"engine": Do(stepping)}),
    "the node 'one'": (AGENT, {"engine": GraphEngine(Graph({"one": broken}, start="one"))}),
    "prepare": (AGENT, {"prepare": broken}),
}


@pytest.mark.parametrize("who", PLACES)
async def test_the_details_say_what_raised_whose_it_was_and_where(who: str) -> None:
    agent, options = PLACES[who]
    result = await run(agent, "?", **options)
    line = broken.__code__.co_firstlineno + 2
    assert result.error is not None
    assert (result.error.code, result.error.message, result.error.type) == (
        "internal",
        "'k'",
        "KeyError",
    )
    assert result.error.details == {
        "type": "KeyError",
        "raised_by": who,
        "file": str(Path("tests/runs/test_callbacks_traceback.py")),
        "line": line,
        "function": "broken",
    }
    assert "hunter2" not in encode(result).decode()
    assert decode(encode(result), AgentResult).error == result.error


class Broken:
    """A decider; one method of it raises."""

    def __init__(self, method: str) -> None:
        setattr(self, method, broken)


@pytest.mark.parametrize("method", ["before_model", "before_finalize"])
async def test_the_details_say_which_decider_raised_and_where(method: str) -> None:
    result = await run(AGENT, "?", deciders=[Broken(method)])
    assert result.error is not None
    assert result.error.code == "hook_failed"
    assert result.error.details == {
        "type": "KeyError",
        "raised_by": f"Broken.{method}",
        "file": str(Path("tests/runs/test_callbacks_traceback.py")),
        "line": broken.__code__.co_firstlineno + 2,
        "function": "broken",
    }


async def test_one_exception_that_is_raised_in_two_runs_is_whose_it_is_in_each() -> None:
    error = KeyError("down")

    class Down(Model):
        async def call(self, request: Any) -> Any:
            raise error

    async def script(run: Any, host: Any, board: Any) -> None:
        raise error

    first = await run(AGENT, "?", model=Down())
    second = await run(AGENT, "?", engine=ScriptEngine(script))
    told = [one.error.details["raised_by"] for one in (first, second) if one.error]
    assert told == ["the model 'my:model'", "the script"]


async def test_what_an_engine_calls_an_attribute_says_nothing_of_whose_an_exception_is() -> None:
    class Counting(Do):
        called = 1

    result = await run(AGENT, "?", engine=Counting(broken))
    assert result.error is not None
    assert result.error.details["raised_by"] == "the engine Counting"


async def test_the_users_own_frame_goes_before_that_of_a_library() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        json.loads("{")

    result = await run(AGENT, "?", engine=Do(work))
    assert result.error is not None
    assert str(result.error.details["function"]).endswith("<locals>.work")


async def test_a_file_elsewhere_is_told_without_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = await run(AGENT, "?", engine=Do(broken))
    assert result.error is not None
    assert result.error.details["file"] == str(Path("runs/test_callbacks_traceback.py"))


async def test_what_upshot_itself_refuses_has_no_place_of_the_user() -> None:
    def lacking(run: Any, host: Any) -> None: ...

    # So that it is found out when it is called, and not before.
    vars(lacking)["__signature__"] = inspect.signature(lambda run, host, board: None)
    script: Any = lacking
    result = await run(AGENT, "?", engine=ScriptEngine(script))
    assert result.error is not None
    assert result.error.details == {"type": "TypeError", "raised_by": "the script"}


async def test_a_step_that_failed_has_its_trail_in_the_log() -> None:
    journal = MemoryJournal()
    result = await run(AGENT, "?", engine=Do(stepping), journal=journal)
    log: list[Any] = await log_of(journal, result.run_id)
    (settled,) = [event for event in log if event.kind == "step_settled"]
    assert settled.error.details["raised_by"] == "the step 'one'"


async def test_what_ends_a_run_by_a_word_has_no_trail() -> None:
    def work(run: Any, host: Any, board: Any) -> None:
        raise Failed("conflict", "taken")

    result = await run(AGENT, "?", engine=Do(work))
    assert result.error is not None
    assert result.error.details == {}


async def test_what_a_seeder_raised_still_has_the_way_to_its_place() -> None:
    result = await run(AGENT, "?", prepare=broken)
    assert isinstance(result.raw, KeyError)
    assert extract_tb(result.raw.__traceback__)[-1].name == "broken"


async def test_what_a_seeder_raised_does_not_lead_back_to_the_parts_of_the_run() -> None:
    result = await run(AGENT, "?", prepare=broken)
    assert isinstance(result.raw, KeyError)
    frames = walk_tb(result.raw.__traceback__)
    held = [one for frame, _ in frames for one in frame.f_locals.values()]
    assert not [one for one in held if isinstance(one, RunContext | Session)]


async def test_unwrapping_raises_from_what_was_raised() -> None:
    result = await run(AGENT, "?", engine=Do(broken))
    with pytest.raises(RunFailed) as caught:
        result.unwrap()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__ is result.raw
    with pytest.raises(RunFailed) as caught:
        decode(encode(result), AgentResult).unwrap()
    assert caught.value.__cause__ is None
