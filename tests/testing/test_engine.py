"""The suite of engines: run on every engine that ships, and on broken ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from upshot import (
    Agent,
    Checkpoint,
    Engine,
    Failed,
    Graph,
    GraphEngine,
    Interrupted,
    LoopEngine,
    MachineEngine,
    Message,
    ModelRequest,
    ScriptEngine,
    load_machine,
)
from upshot.engines import AgentTask
from upshot.testing import EngineContract


class TestLoop(EngineContract):
    def make(self) -> Engine:
        return LoopEngine()


class TestLoopWithItsOwnModel(EngineContract):
    def make(self) -> Engine:
        return LoopEngine(self.model)


async def ask(run: Any, host: Any, board: Any) -> None:
    """What a sound engine does."""
    wish = await host.interrupts()
    if wish:
        raise Interrupted(wish.cause, wish.detail)
    response = await run.call_model(ModelRequest(board.messages()))
    response.unwrap()
    board.append(response.to_message())


async def work(run: Any, host: Any, board: Any) -> Any:
    """A script of two steps."""
    wish = await host.interrupts()
    if wish:
        raise Interrupted(wish.cause, wish.detail)
    facts = await host.once("look", "read", lambda: {"facts": 3})
    result = await run.child(Agent("writer", model=run.model), "Write.")
    if not result.success:
        raise Failed(result.error)
    return {"text": result.content, **facts}


class TestScript(EngineContract):
    def make(self) -> Engine:
        return ScriptEngine(work)


class TestGraph(EngineContract):
    def make(self) -> Engine:
        return GraphEngine(
            Graph(
                nodes={
                    "plan": lambda board: {"plan": "short"},
                    "write": AgentTask(Agent("writer", model=self.model), "Write."),
                },
                edges=[("plan", "write")],
                start="plan",
            )
        )


class TestMachine(EngineContract):
    def make(self) -> Engine:
        states = {
            "plan": {
                "type": "initial",
                "output_to_context": {"plan": "'short'"},
                "transitions": [{"to": "write"}],
            },
            "write": {"type": "final", "agent": "writer", "input": {"plan": "context.plan"}},
        }
        machine = load_machine({"spec": "upshot.machine/1", "name": "two", "states": states})
        return MachineEngine(machine, agents={"writer": Agent("writer", model=self.model)})


class TestForeign(EngineContract):
    """An engine that asks a model by other ways and tells what that used."""

    def make(self) -> Engine:
        model = self.model

        class Foreign:
            async def execute(self, run: Any, host: Any, board: Any) -> str:
                wish = await host.interrupts()
                if wish:
                    raise Interrupted(wish.cause, wish.detail)
                response = await model.call(board.messages())
                await host.report_usage(response)
                if response.error is not None:
                    raise Failed(response.error)
                return response.content or ""

        return Foreign()


class Silent:
    async def execute(self, run: Any, host: Any, board: Any) -> None:
        return None


class Unwritable:
    async def execute(self, run: Any, host: Any, board: Any) -> object:
        return object()


class Secretive(ScriptEngine):
    """Asks the model behind the run's back."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> str:
            return (await run.model.call(board.messages())).content

        super().__init__(script)


class Optimist(ScriptEngine):
    """Takes an error for an answer."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> str:
            response = await run.call_model(ModelRequest(board.messages()))
            return response.content or "You said: nothing"

        super().__init__(script)


class Deaf(ScriptEngine):
    """Takes a cancel for a hiccup, and does not look for wishes."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> str:
            try:
                response = await run.call_model(ModelRequest(board.messages()))
            except BaseException:
                return "Whatever."
            return response.content

        super().__init__(script)


class Bold(ScriptEngine):
    """Says that it can go on from anywhere."""

    def __init__(self) -> None:
        super().__init__(ask)

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        return True


class Forgetful(ScriptEngine):
    """Saves points from which it cannot go on."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            if run.resume_from is not None:
                raise KeyError(run.resume_from.step)
            await host.checkpoint(Checkpoint(run.id, "here", board.snapshot()))
            await ask(run, host, board)

        super().__init__(script)

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.step == "here"


class Fresh(ScriptEngine):
    """Wants a board on which nothing was done."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            assert len(board.messages()) == 1
            await ask(run, host, board)

        super().__init__(script)


class Shared:
    """Keeps what belongs to a run."""

    def __init__(self) -> None:
        self.board: Any = None

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        self.board = board
        await asyncio.sleep(0)
        await ask(run, host, self.board)
        return self.board


class Careless(ScriptEngine):
    """Leaves a task behind."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []

        async def script(run: Any, host: Any, board: Any) -> None:
            self.tasks.append(asyncio.create_task(asyncio.Event().wait()))
            await ask(run, host, board)

        super().__init__(script)


class Crashing(ScriptEngine):
    """Turns an error of the model into one of its own."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            response = await run.call_model(ModelRequest(board.messages()))
            board.append(Message("assistant", response.content + "!"))

        super().__init__(script)


class Meddler(ScriptEngine):
    """Closes the run's log."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            await ask(run, host, board)
            host._recorder.is_settled = True

        super().__init__(script)


class Coping(EngineContract):
    copes = True

    def make(self) -> Engine:
        return Optimist()


def test_an_engine_may_have_an_answer_when_the_model_is_down() -> None:
    Coping().test_a_model_that_is_down_is_no_answer_and_no_crash()


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Silent, "test_it_answers"),
        (Unwritable, "test_it_answers"),
        (Secretive, "test_it_tells_what_it_used"),
        (Meddler, "test_a_run_ends_once_whatever_happens"),
        (Optimist, "test_a_model_that_is_down_is_no_answer_and_no_crash"),
        (Crashing, "test_a_model_that_is_down_is_no_answer_and_no_crash"),
        (Deaf, "test_a_cancel_ends_it"),
        (Deaf, "test_a_wish_to_stop_ends_it"),
        (Deaf, "test_what_ends_a_run_passes_through"),
        (Bold, "test_it_resumes_or_says_that_it_cannot"),
        (Forgetful, "test_it_resumes_or_says_that_it_cannot"),
        (Fresh, "test_it_goes_on_wherever_its_log_was_cut"),
        (Shared, "test_one_of_it_drives_many_runs_at_once"),
        (Careless, "test_it_leaves_no_task_behind"),
    ],
)
def test_a_broken_engine_is_found_out(broken: Any, check: str) -> None:
    class Suite(EngineContract):
        def make(self) -> Engine:
            return broken()

    with pytest.raises(AssertionError):
        getattr(Suite(), check)()


def test_an_engine_that_nobody_made_is_told() -> None:
    with pytest.raises(NotImplementedError, match="make"):
        EngineContract().test_it_answers()


def test_every_check_of_the_suite_is_tried() -> None:
    marks: Any = test_a_broken_engine_is_found_out.pytestmark  # type: ignore[attr-defined]
    tried = {check for _, check in marks[0].args[1]}
    assert tried == {name for name in dir(EngineContract) if name.startswith("test_")}
