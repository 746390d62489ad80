"""HostContract: what every host must do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from unittest import SkipTest

from upshot.contract.agent import Agent
from upshot.contract.base.enums import Effect, InterruptCause, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.events import StepSettled, StepStarted, Warned
from upshot.contract.model_calls import ModelResponse, TextDelta
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint, Interrupt
from upshot.contract.usage import Usage
from upshot.engines.script import ScriptEngine
from upshot.entry.api import run
from upshot.runs.engine_api.exceptions import Interrupted, Parked
from upshot.state.board import Board
from upshot.testing.suite import Role, Suite, ending, value_of

_CAPABILITIES = ("publish", "interrupts", "ask_user", "checkpoint", "report_usage")
_AT_ONCE = 5


class HostContract(Suite[object]):
    """A suite for pytest: inherit, and define a ``make`` that returns a new host.

    A host is any object with some of publish, interrupts, ask_user, checkpoint and
    report_usage, sync or async, and perhaps ``once``; checks of missing methods are skipped. A new
    host requests no stop::

        class TestMyHost(HostContract):
            def make(self):
                return MyHost()

            def interrupt(self, host, request):
                host.request = request
    """

    _role: Role = Role("a host")

    def interrupt(self, host: Any, request: Interrupt) -> None:
        """Make *host* request that its run stop.

        By default it sets the attribute ``interrupts``. Override this if that is a method;
        otherwise the check is skipped.
        """
        needed = "give interrupt(self, host, request), which makes the host request that a run stop"
        if callable(getattr(host, "interrupts", None)):
            raise SkipTest(needed)
        try:
            host.interrupts = request
        except AttributeError as error:
            raise SkipTest(needed) from error

    async def test_a_run_under_it_comes_to_its_end(self) -> None:
        """None of its methods raises, whatever an engine passes."""
        async with self._made() as host:
            _check_sound(await _run_under(host))

    async def test_what_it_has_can_be_called(self) -> None:
        """A capability is a method; ``interrupts`` may be a value."""
        async with self._made() as host:
            for name in (*_CAPABILITIES, "once"):
                found = getattr(host, name, None)
                is_fine = found is None or callable(found) or name == "interrupts"
                assert is_fine, f"its {name} is {found!r:.60} and no method"

    async def test_it_takes_every_event(self) -> None:
        """It takes deltas and durable events and returns nothing."""
        facts = (
            StepStarted(key="one", seq=1),
            TextDelta(text="a piece", seq=1, part=1),
            StepSettled(key="one", value={"n": 1}, seq=2),
            Warned(seq=3),
        )
        await self._give("publish", *facts)

    async def test_it_takes_checkpoints(self) -> None:
        """The same step may come again."""
        point = Checkpoint("run-0123456789abcdef", "one", Board().snapshot())
        await self._give("checkpoint", point, point)

    async def test_it_takes_usage(self) -> None:
        """It accepts usage even without any figures."""
        measured = Usage(input_tokens=10, output_tokens=5, api_calls=1)
        await self._give("report_usage", measured, Usage())

    async def test_it_answers_a_question_or_parks(self) -> None:
        """The answer is a JSON value; Parked says that no user can answer now."""
        async with self._with_capability("ask_user") as host:
            try:
                answer = await value_of(host.ask_user("Which one?"))
            except Parked:
                return
            except Exception as error:
                # A host must not raise; report it as a breach of the contract.
                raise AssertionError(f"ask_user raised {error!r}") from error
            try:
                kept = to_free_json(answer)[0]
            except (TypeError, ValueError):
                kept = None
            assert kept == answer, f"ask_user gave {answer!r:.60}, which is not a JSON value"

    async def test_it_requests_no_stop_by_itself(self) -> None:
        """A run stops only if that was requested."""
        async with self._with_capability("interrupts", even_none=True) as host:
            request = await _request_of(host)
            assert not request, f"no stop was requested, and it requests {request!r}"

    async def test_its_stop_request_is_seen(self) -> None:
        """The engine sees it at the next safe point, with cause and detail."""
        request = Interrupt(InterruptCause.USER_INPUT, "wait for me")
        async with self._with_capability("interrupts", even_none=True) as host:
            self.interrupt(host, request)
            result = await _run_under(host)
        assert result.status is Status.INTERRUPTED, f"it should stop, and {ending(result)}"
        actual, expected = (result.cause, result.detail), (request.cause, request.detail)
        assert actual == expected, f"it was to request {expected}, and the engine saw {actual}"

    async def test_a_step_runs_once(self) -> None:
        """Concurrent and later calls run the body once and return its value."""

        async def under_it(_: Any, host: Any, __: Any) -> None:
            await _step_once(host)

        async with self._made() as host:
            if getattr(host, "once", None) is not None:
                await _step_once(host)
        async with self._made() as host:
            engine = ScriptEngine(under_it)
            result = await run(Agent("contract", engine=engine), "?", host=host)
        assert result.status is Status.COMPLETED, ending(result)

    async def test_one_of_it_serves_many_runs_at_once(self) -> None:
        """None of its state belongs to one run only."""
        async with self._made() as host:
            for result in await asyncio.gather(*(_run_under(host) for _ in range(_AT_ONCE))):
                _check_sound(result)

    @asynccontextmanager
    async def _with_capability(self, name: str, *, even_none: bool = False) -> AsyncGenerator[Any]:
        """Yield the host, if it has the capability *name*."""
        async with self._made() as host:
            is_there = hasattr(host, name) if even_none else getattr(host, name, None) is not None
            if not is_there:
                raise SkipTest(f"the host has no {name}")
            yield host

    async def _give(self, name: str, *facts: object) -> None:
        async with self._with_capability(name) as host:
            for fact in facts:
                try:
                    given = await value_of(getattr(host, name)(fact))
                except Exception as error:
                    # A host must not raise; report it as a breach of the contract.
                    raise AssertionError(f"{name}({fact!r:.80}) raised {error!r}") from error
                assert given is None, f"{name} gave {given!r:.60} back"


async def _step_once(host: Any) -> None:
    """Check that a step runs once on *host*."""
    ran: list[str] = []

    async def body() -> dict[str, int]:
        ran.append("body")
        await asyncio.sleep(0)
        return {"n": len(ran)}

    calls = (host.once("key", Effect.READ, body) for _ in range(_AT_ONCE))
    values = [*await asyncio.gather(*calls), await host.once("key", Effect.READ, body)]
    assert len(ran) == 1, f"the body of one step ran {len(ran)} times"
    assert values == [{"n": 1}] * len(values), f"once() gave {values} for one value"


async def _run_under(host: object) -> AgentResult[Any]:
    """Run an engine that uses every method of the host."""

    async def script(run: Any, host: Any, board: Any) -> str:
        await host.publish(TextDelta(text="a piece"))
        request = await host.interrupts()
        if request:
            raise Interrupted(request.cause, request.detail)
        await host.checkpoint(Checkpoint(run.id, "one", board.snapshot()))
        await host.report_usage(ModelResponse(usage=Usage(input_tokens=10, api_calls=1)))
        await host.once("step", Effect.READ, lambda: 1)
        return str(await host.ask_user("Which one?"))

    return await run(Agent("contract", engine=ScriptEngine(script)), "?", host=host)


async def _request_of(host: Any) -> object:
    asked = host.interrupts
    return await value_of(asked() if callable(asked) else asked)


def _check_sound(result: AgentResult[Any]) -> None:
    """Check that the run ended, and that no method of its host raised."""
    raised = [one.message for one in result.warnings if one.code == "host_failed"]
    assert not raised, f"a run under it warns: {'; '.join(raised)}"
    assert result.status in (Status.COMPLETED, Status.INPUT_REQUIRED), ending(result)
