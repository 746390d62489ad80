"""The suite of hosts: run on the one that ships, on sound ones and on broken ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest import SkipTest

import pytest

from tests.testing.suites import assert_red, assert_skipped, checks_of, run_check, tried_by
from upshot import Agent, Checkpoint, Interrupt, Parked, ScriptEngine, Usage, start
from upshot.testing import HostContract


class TestRunHost(HostContract):
    """What engines get."""

    @asynccontextmanager
    async def make(self) -> AsyncIterator[Any]:
        given, done = asyncio.Queue[Any](), asyncio.Event()

        async def script(run: Any, host: Any, board: Any) -> str:
            given.put_nowait(host)
            await done.wait()
            return "done"

        async with start(Agent("outer", engine=ScriptEngine(script)), "?") as live:
            self.live = live
            yield await given.get()
            done.set()
            await live.result()

    def interrupt(self, host: Any, wish: Interrupt) -> None:
        self.live.interrupt(wish.cause, wish.detail)


class Plain:
    """A host whose methods are sync."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.wish: Interrupt | None = None

    def publish(self, event: Any) -> None:
        self.told.append(event)

    def interrupts(self) -> Interrupt | None:
        return self.wish

    def ask_user(self, question: str) -> str:
        return "The red one."

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        self.told.append(checkpoint)

    def report_usage(self, delta: Usage) -> None:
        self.told.append(delta)


class Waiting:
    """A host whose methods are async, and which nobody attends."""

    def __init__(self) -> None:
        self.wish: Interrupt | None = None

    async def publish(self, event: Any) -> None: ...

    async def interrupts(self) -> Interrupt | None:
        return self.wish

    async def ask_user(self, question: str) -> str:
        raise Parked

    async def checkpoint(self, checkpoint: Checkpoint) -> None: ...

    async def report_usage(self, delta: Usage) -> None: ...


class Bare:
    """A host whose wish is a value, and that answers."""

    interrupts: Interrupt | None = None

    async def ask_user(self, question: str) -> str:
        return "The red one."


class TestPlain(HostContract):
    def make(self) -> object:
        return Plain()

    def interrupt(self, host: Any, wish: Interrupt) -> None:
        host.wish = wish


class TestWaiting(HostContract):
    def make(self) -> object:
        return Waiting()

    def interrupt(self, host: Any, wish: Interrupt) -> None:
        host.wish = wish


class TestBare(HostContract):
    async def make(self) -> object:
        return Bare()


class TestNothing(HostContract):
    def make(self) -> object:
        return object()


class Raising(Plain):
    def publish(self, event: Any) -> None:
        raise ConnectionError("nobody listens")


class Shy:
    publish = "not a method"


class Talkative(Plain):
    def publish(self, event: Any) -> Any:
        return event

    def report_usage(self, delta: Usage) -> Any:
        return delta


class Strict(Plain):
    """Takes a step once only."""

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        assert not self.told, "it was here before"
        self.told.append(checkpoint)


class Exact(Plain):
    def report_usage(self, delta: Usage) -> None:
        assert delta


class Foggy(Plain):
    def ask_user(self, question: str) -> Any:
        return {1, 2}


class Lost(Plain):
    def ask_user(self, question: str) -> Any:
        raise LookupError("nobody is there")


class Nervous(Plain):
    def interrupts(self) -> Any:
        return Interrupt("custom", "always")


class Stubborn(Plain):
    def interrupts(self) -> None:
        return None


class Silent(Plain):
    """Forgets why."""

    def interrupts(self) -> Any:
        return self.wish and Interrupt("custom", "")


class Eager(Plain):
    """Runs a step as often as it is asked."""

    async def once(self, key: str, effect: Any, body: Any) -> Any:
        return await body()


class Single(Plain):
    """Belongs to the first run that it hears of."""

    def publish(self, event: Any) -> None:
        super().publish(event)
        if len({one.run_id for one in self.told if hasattr(one, "run_id")}) > 1:
            raise ValueError("another run")


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Raising, "test_a_run_under_it_comes_to_its_end", "nobody listens"),
        (Nervous, "test_a_run_under_it_comes_to_its_end", "it ended as interrupted"),
        (Shy, "test_what_it_has_can_be_called", "its publish is 'not a method' and no method"),
        (Talkative, "test_it_takes_every_event", "publish gave StepStarted"),
        (Raising, "test_it_takes_every_event", "raised ConnectionError('nobody listens')"),
        (Strict, "test_it_takes_checkpoints", "it was here before"),
        (Exact, "test_it_takes_usage", "report_usage(Usage()) raised"),
        (Talkative, "test_it_takes_usage", "report_usage gave Usage("),
        (Foggy, "test_it_answers_a_question_or_parks", "which is not a JSON value"),
        (Lost, "test_it_answers_a_question_or_parks", "ask_user raised LookupError"),
        (Nervous, "test_it_requests_no_stop_by_itself", "no stop was requested, and it requests"),
        (Stubborn, "test_its_stop_request_is_seen", "it should stop, and it ended as"),
        (Silent, "test_its_stop_request_is_seen", "and the engine saw"),
        (Eager, "test_a_step_runs_once", "the body of one step ran 6 times"),
        (Single, "test_one_of_it_serves_many_runs_at_once", "another run"),
    ],
)
def test_a_broken_host_is_found_out(broken: Any, check: str, words: str) -> None:
    def interrupt(suite: Any, host: Any, wish: Interrupt) -> None:
        host.wish = wish

    assert_red(HostContract, check, broken, words, interrupt=interrupt)


def test_every_check_of_the_suite_is_tried() -> None:
    assert tried_by(test_a_broken_host_is_found_out) == checks_of(HostContract)


def test_a_method_for_wishes_is_looked_at_where_the_suite_can_make_it_wish() -> None:
    assert_skipped(HostContract, "test_its_stop_request_is_seen", Plain, "give interrupt(self")


def test_a_stop_request_that_cannot_be_set_is_tried_where_the_suite_can_make_it() -> None:
    class Fixed(Plain):
        interrupts = property(lambda self: None)  # type: ignore[assignment]

    assert_skipped(HostContract, "test_its_stop_request_is_seen", Fixed, "give interrupt(self")


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("test_it_takes_every_event", "publish"),
        ("test_it_takes_checkpoints", "checkpoint"),
        ("test_it_takes_usage", "report_usage"),
        ("test_it_answers_a_question_or_parks", "ask_user"),
        ("test_it_requests_no_stop_by_itself", "interrupts"),
        ("test_its_stop_request_is_seen", "interrupts"),
    ],
)
def test_what_a_host_does_not_have_is_skipped(check: str, name: str) -> None:
    with pytest.raises(SkipTest, match=f"the host has no {name}"):
        run_check(HostContract, check, object)
