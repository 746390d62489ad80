"""The suite of engines: run on every engine that ships, and on broken ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, ClassVar
from unittest import SkipTest

import pytest

from tests.testing.suites import assert_red, assert_skipped, checks_of, run_check, tried_by
from upshot import (
    Agent,
    AgentError,
    BatchEngine,
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
    ModelResponse,
    Parked,
    ScriptEngine,
    Usage,
    load_machine,
)
from upshot.engines import AgentTask, Parallel
from upshot.models import PROVIDERS, Endpoint
from upshot.models.batch_model import BatchModel
from upshot.testing import EngineContract


class TestLoop(EngineContract):
    def make(self) -> Engine:
        return LoopEngine()


class TestLoopWithItsOwnModel(EngineContract):
    def make(self) -> Engine:
        return LoopEngine(self.model)


class Instant(BatchModel):
    """Batches that have ended once they are submitted, answered by the suite's model."""

    # A provider's batches outlive the sessions of a run.
    asked: ClassVar[dict[str, Any]] = {}

    def __init__(self, model: Any) -> None:
        super().__init__("m", Endpoint(PROVIDERS["openai"], api_key="k"))
        self.answers: Any = model

    async def submit(self, request: Any, *, key: str) -> str | AgentError:
        self.asked[key] = request
        return key

    async def find(self, *, key: str) -> str | AgentError | None:
        return key if key in self.asked else ""

    async def poll(self, batch_id: str, *, key: str) -> ModelResponse | AgentError | None:
        return await self.answers.call(self.asked[key])


class TestBatch(EngineContract):
    def make(self) -> Engine:
        return BatchEngine(Instant(self.model))


async def heed(host: Any) -> None:
    """Follow a wish to stop."""
    wish = await host.interrupts()
    if wish:
        raise Interrupted(wish.cause, wish.detail)


async def answered(run: Any, board: Any) -> ModelResponse:
    """The model's answer; its error ends the run."""
    response = await run.call_model(ModelRequest(board.messages()))
    if response.error is not None:
        raise Failed(response.error)
    return response


async def ask(run: Any, host: Any, board: Any) -> None:
    """What a sound engine does."""
    await heed(host)
    board.append((await answered(run, board)).to_message())


async def work(run: Any, host: Any, board: Any) -> Any:
    """A script of two steps."""
    await heed(host)
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


async def hello(run: Any, host: Any, board: Any) -> str:
    """One step, in which there is nothing to look at."""
    return "hello"


class TestOneStep(EngineContract):
    def make(self) -> Engine:
        return ScriptEngine(hello)


class TestOneModelCall(EngineContract):
    """It need not look at wishes, since there is no second step."""

    async def make(self) -> Engine:
        async def script(run: Any, host: Any, board: Any) -> None:
            board.append((await answered(run, board)).to_message())

        return ScriptEngine(script)


class TestOneThatAsksPeople(EngineContract):
    def make(self) -> Engine:
        async def work(run: Any, host: Any, board: Any) -> str:
            return f"They said {await host.ask_user('May I?')}."

        return ScriptEngine(work)


class TestOneThatTellsItsOwnUsage(EngineContract):
    def make(self) -> Engine:
        async def work(run: Any, host: Any, board: Any) -> str:
            await host.report_usage(Usage(input_tokens=7))
            return "fine"

        return ScriptEngine(work)


async def shrugs(run: Any, host: Any, board: Any) -> Any:
    """Takes no answer for an answer."""
    try:
        return await host.ask_user("May I?")
    except Parked:
        return "Nobody was there."


def test_a_question_that_nobody_answers_now_parks_the_run() -> None:
    make, check = lambda: ScriptEngine(shrugs), "test_what_ends_a_run_passes_through"
    assert_red(EngineContract, check, make, "Parked was raised, and it ended as completed")


class TestOneForkedStep(EngineContract):
    """What is begun side by side is one step."""

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Engine]:
        async def script(run: Any, host: Any, board: Any) -> list[str | None]:
            replies = await asyncio.gather(*(answered(run, board) for _ in range(3)))
            return [reply.content for reply in replies]

        yield ScriptEngine(script)


class TestParallel(EngineContract):
    def make(self) -> Engine:
        workers = {name: AgentTask(Agent(name, model=self.model), "Write.") for name in "ab"}
        return GraphEngine(
            Graph(
                nodes={"both": Parallel(workers), "say": lambda board: {"output": "Done."}},
                edges=[("both", "say")],
                start="both",
            )
        )


class TestWriting(EngineContract):
    """What its step did is in doubt after a crash, and the run says so."""

    def make(self) -> Engine:
        async def script(run: Any, host: Any, board: Any) -> Any:
            return await host.once("pay", "write", lambda: "paid")

        return ScriptEngine(script)


class Silent:
    """Works on the board alone, which is no answer."""

    async def execute(self, run: Any, host: Any, board: Any) -> None:
        board.set("n", 1)


class TestSilent(EngineContract):
    def make(self) -> Engine:
        return Silent()


def test_an_engine_need_not_answer() -> None:
    assert_skipped(EngineContract, "test_it_answers", Silent, "it gives no answer")


class TestForeign(EngineContract):
    """An engine that asks a model by other ways and tells what that used."""

    def make(self) -> Engine:
        model = self.model

        class Foreign:
            async def execute(self, run: Any, host: Any, board: Any) -> str:
                await heed(host)
                response = await model.call(board.messages())
                await host.report_usage(response)
                if response.error is not None:
                    raise Failed(response.error)
                return response.content or ""

        return Foreign()


class NoMethod:
    execute = "not a method"


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


class Hasty(ScriptEngine):
    """Looks before its first step only."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> str:
            await heed(host)
            facts = await host.once("look", "read", lambda: "three facts")
            return await host.once("write", "write", lambda: f"There are {facts}.")

        super().__init__(script)


class Late(ScriptEngine):
    """Looks when all is done."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            for _ in range(2):
                response = await run.call_model(ModelRequest(board.messages()))
            board.append(response.to_message())
            await heed(host)

        super().__init__(script)


class Restless(ScriptEngine):
    """Goes on for ever, step by step."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            for number in count():
                await host.once(f"step {number}", "read", lambda: 1)

        super().__init__(script)


class Idle(ScriptEngine):
    """Goes on for ever, and nobody sees how."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> None:
            while True:
                await asyncio.sleep(0)

        super().__init__(script)


class Polite(ScriptEngine):
    """Looks, and takes the wish for an answer."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> str:
            wish = await host.interrupts()
            if wish:
                return "I was stopped."
            return (await run.call_model(ModelRequest(board.messages()))).unwrap()

        super().__init__(script)


class Capricious(ScriptEngine):
    """Stops without having looked."""

    def __init__(self) -> None:
        async def script(run: Any, host: Any, board: Any) -> str:
            raise Interrupted("custom", "I do not like it")

        super().__init__(script)


class Roundabout:
    """Asks a model by other ways, twice, and does not look."""

    def __init__(self, model: Any) -> None:
        self.model = model

    async def execute(self, run: Any, host: Any, board: Any) -> str:
        for _ in range(2):
            response = await self.model.call(board.messages())
            await host.report_usage(response)
        return response.content


class Undecided(ScriptEngine):
    def __init__(self) -> None:
        super().__init__(ask)

    async def can_resume(self, checkpoint: Checkpoint) -> Any:
        return "perhaps"


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


WISH = "test_a_stop_request_ends_it"


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Unwritable, "test_it_answers", "it ended as failed, internal"),
        (NoMethod, "test_it_answers", "it has no method execute"),
        (Secretive, "test_it_reports_what_it_used", "15 tokens were used and 0 are in the result"),
        (Meddler, "test_a_run_ends_once_whatever_happens", "the log has 0 ends"),
        (
            Optimist,
            "test_a_model_that_is_down_is_no_answer_and_no_crash",
            "the model failed with server_error, and it ended as completed",
        ),
        (
            Crashing,
            "test_a_model_that_is_down_is_no_answer_and_no_crash",
            "and it ended as failed, internal",
        ),
        (Deaf, "test_a_cancel_ends_it", "it swallowed its cancellation"),
        (Hasty, WISH, "came when its first step had started; it began the step write all"),
        (Late, WISH, "it asked the model again before it looked"),
        (Restless, WISH, "it began the step step 1 all the same, and it ended as canceled"),
        (Idle, WISH, "it did not end within 0.2 s"),
        (Polite, WISH, "it got the stop request, and it ended as completed"),
        (Capricious, WISH, "and it was interrupted with"),
        (Deaf, "test_what_ends_a_run_passes_through", "Interrupted was raised, and it ended as"),
        (Bold, "test_it_resumes_or_says_that_it_cannot", "from a step it does not have"),
        (Undecided, "test_it_resumes_or_says_that_it_cannot", "and no bool"),
        (Forgetful, "test_it_resumes_or_says_that_it_cannot", "from its checkpoint 'here' it"),
        (Fresh, "test_it_goes_on_wherever_its_log_was_cut", "cut after"),
        (Shared, "test_one_of_it_drives_many_runs_at_once", "alone it gave"),
        (
            Careless,
            "test_it_leaves_no_task_behind",
            "still running after the end of the run: Event.wait",
        ),
    ],
)
def test_a_broken_engine_is_found_out(broken: Any, check: str, words: str) -> None:
    patience_s = 0.2 if broken is Idle else 30
    assert_red(EngineContract, check, broken, words, patience_s=patience_s)


class Particular:
    """Goes on from no point of its log, and says so."""

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        return False

    async def execute(self, run: Any, host: Any, board: Any) -> Any:
        assert len(board.messages()) == 1
        await ask(run, host, board)


def test_an_engine_may_say_that_it_cannot_go_on() -> None:
    run_check(EngineContract, "test_it_goes_on_wherever_its_log_was_cut", Particular)


def test_a_second_call_beside_the_log_is_seen() -> None:
    class Suite(EngineContract):
        def make(self) -> Any:
            return Roundabout(self.model)

    with pytest.raises(AssertionError, match="it began a model call all the same"):
        asyncio.run(Suite().test_a_stop_request_ends_it())


def test_an_engine_may_have_an_answer_when_the_model_is_down() -> None:
    check = "test_a_model_that_is_down_is_no_answer_and_no_crash"
    run_check(EngineContract, check, Optimist, copes=True)
    assert_red(EngineContract, check, lambda: ScriptEngine(ask), "it copes, and", copes=True)


@pytest.mark.parametrize(
    "check",
    [
        "test_a_model_that_is_down_is_no_answer_and_no_crash",
        "test_a_cancel_ends_it",
        "test_what_ends_a_run_passes_through",
    ],
)
def test_what_was_not_tried_on_an_engine_is_skipped(check: str) -> None:
    with pytest.raises(SkipTest):
        run_check(EngineContract, check, lambda: ScriptEngine(hello))


def test_every_check_of_the_suite_is_tried() -> None:
    assert tried_by(test_a_broken_engine_is_found_out) == checks_of(EngineContract)
