"""HostContract: what every host must do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ..contract import (
    Agent,
    AgentResult,
    Checkpoint,
    Effect,
    Host,
    Interrupt,
    InterruptCause,
    ModelResponse,
    Status,
    StepSettled,
    StepStarted,
    TextDelta,
    Usage,
    Warned,
    to_free_json,
)
from ..engines import ScriptEngine
from ..entry import run
from ..runs import Board, Interrupted, Parked

__all__ = ["HostContract"]

_CAPABILITIES = ("publish", "interrupts", "ask_user", "checkpoint", "report_usage")
_AT_ONCE = 5


class HostContract:
    """A suite for pytest: inherit, and give a ``make`` that returns a host.

    A host is any object with some of publish, interrupts, ask_user, checkpoint and
    report_usage, sync or async, and maybe ``once``; what it does not have is not looked at::

        class TestMyHost(HostContract):
            def make(self):
                return MyHost()

            def interrupt(self, host, wish):
                host.wish = wish
    """

    def make(self) -> Host | object:
        """A new host, on which nobody wishes anything yet."""
        raise NotImplementedError("a HostContract gives the host in make()")

    def interrupt(self, host: Any, wish: Interrupt) -> None:
        """Have *host* wish that its run stop; overridden where it has ``interrupts``."""
        raise NotImplementedError("a HostContract whose host has interrupts gives interrupt()")

    def test_a_run_under_it_comes_to_its_end(self) -> None:
        """Whatever an engine tells it, nothing in it raises."""
        result = self._run(self.make)
        assert result.status in (Status.COMPLETED, Status.INPUT_REQUIRED), result.error
        assert not _complaints(result), _complaints(result)

    def test_what_it_has_can_be_called(self) -> None:
        """A capability is a method; ``interrupts`` may be a value."""
        host = self.make()
        for name in (*_CAPABILITIES, "once"):
            found = getattr(host, name, None)
            assert found is None or callable(found) or name == "interrupts", name

    def test_it_takes_every_event(self) -> None:
        """Deltas and durable events, one after another, and gives nothing back."""
        facts = (
            StepStarted(key="one", seq=1),
            TextDelta(text="a piece", seq=1, part=1),
            StepSettled(key="one", value={"n": 1}, seq=2),
            Warned(seq=3),
        )
        self._give("publish", *facts)

    def test_it_takes_checkpoints(self) -> None:
        """The same step may come again."""
        point = Checkpoint("run-0123456789abcdef", "one", Board().snapshot())
        self._give("checkpoint", point, point)

    def test_it_takes_usage(self) -> None:
        """Also one of which nothing is known."""
        measured = ModelResponse(usage=Usage(input_tokens=10, output_tokens=5, api_calls=1))
        self._give("report_usage", measured, ModelResponse())

    def test_it_answers_a_question_or_parks(self) -> None:
        """The answer is a JSON value; Parked says that nobody can answer now."""

        async def ask(host: Any) -> None:
            try:
                answer = await _value_of(host.ask_user("Which one?"))
            except Parked:
                return
            assert to_free_json(answer)[0] == answer, f"{answer!r} is no JSON value"

        self._try("ask_user", ask)

    def test_it_wishes_nothing_by_itself(self) -> None:
        """A run is stopped only by who asked for it."""

        async def look(host: Any) -> None:
            assert not await _wish_of(host)

        self._try("interrupts", look)

    def test_its_wish_to_stop_is_seen(self) -> None:
        """The engine sees it at the next safe point, with cause and detail."""
        wish = Interrupt(InterruptCause.USER_INPUT, "wait for me")

        def make() -> object:
            host = self.make()
            self.interrupt(host, wish)
            return host

        if hasattr(self.make(), "interrupts"):
            result = self._run(make)
            assert result.status is Status.INTERRUPTED, result.status
            assert (result.cause, result.detail) == (wish.cause, wish.detail)

    def test_a_step_runs_once(self) -> None:
        """At the same time and afterwards: one body, and its value for all."""
        ran: list[str] = []

        async def body() -> dict[str, int]:
            ran.append("body")
            await asyncio.sleep(0)
            return {"n": len(ran)}

        async def together(host: Any) -> None:
            calls = (host.once("key", Effect.READ, body) for _ in range(_AT_ONCE))
            values = [*await asyncio.gather(*calls), await host.once("key", Effect.READ, body)]
            assert values == [{"n": 1}] * len(values)
            assert ran == ["body"]

        async def under_it(_: Any, host: Any, __: Any) -> None:
            await together(host)

        if hasattr(self.make(), "once"):
            self._try("once", together)
        ran.clear()
        engine = ScriptEngine(under_it)
        result = asyncio.run(run(Agent("contract", engine=engine), "?", host=self.make()))
        assert result.status is Status.COMPLETED, result.error

    def test_one_of_it_serves_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""

        async def together() -> list[AgentResult[Any]]:
            host = self.make()
            return list(await asyncio.gather(*(_under(host) for _ in range(_AT_ONCE))))

        for result in asyncio.run(together()):
            assert result.status in (Status.COMPLETED, Status.INPUT_REQUIRED), result.error
            assert not _complaints(result), _complaints(result)

    def _run(self, make: Callable[[], object]) -> AgentResult[Any]:
        async def play() -> AgentResult[Any]:
            return await _under(make())

        return asyncio.run(play())

    def _give(self, name: str, *facts: object) -> None:
        async def give(host: Any) -> None:
            for fact in facts:
                given = await _value_of(getattr(host, name)(fact))
                assert given is None, f"{name} gave {given!r}"

        self._try(name, give)

    def _try(self, name: str, use: Callable[[Any], Awaitable[None]]) -> None:
        async def play() -> None:
            host = self.make()
            if getattr(host, name, None) is not None:
                await use(host)

        asyncio.run(play())


async def _under(host: object) -> AgentResult[Any]:
    """A run that tells its host everything there is."""

    async def script(run: Any, host: Any, board: Any) -> str:
        await host.publish(TextDelta(text="a piece"))
        wish = await host.interrupts()
        if wish:
            raise Interrupted(wish.cause, wish.detail)
        await host.checkpoint(Checkpoint(run.id, "one", board.snapshot()))
        await host.report_usage(ModelResponse(usage=Usage(input_tokens=10, api_calls=1)))
        await host.once("step", Effect.READ, lambda: 1)
        return str(await host.ask_user("Which one?"))

    return await run(Agent("contract", engine=ScriptEngine(script)), "?", host=host)


async def _wish_of(host: Any) -> object:
    asked = host.interrupts
    return await _value_of(asked() if callable(asked) else asked)


async def _value_of(given: object) -> Any:
    return await given if inspect.isawaitable(given) else given


def _complaints(result: AgentResult[Any]) -> list[str]:
    return [one.message for one in result.warnings if one.code == "host_failed"]
