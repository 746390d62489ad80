"""The suite of hosts: run on the one that ships, on sound ones and on broken ones."""

from __future__ import annotations

from typing import Any, cast

import pytest

from upshot import Checkpoint, Interrupt, ModelResponse, Parked, Usage
from upshot.runs import RunHost
from upshot.runs.host import Steps
from upshot.runs.recorder import Recorder
from upshot.runs.tally import Tally
from upshot.testing import FakeClock, HostContract


class Counting:
    """Counts whatever is reported."""

    def count(self, response: ModelResponse) -> bool:
        return True


class TestRunHost(HostContract):
    """What engines get."""

    def make(self) -> RunHost:
        recorder = Recorder("run-0123456789abcdef", clock=FakeClock())
        return RunHost(None, recorder=recorder, steps=Steps(), tally=cast("Tally", Counting()))

    def interrupt(self, host: Any, wish: Interrupt) -> None:
        host.interrupt = wish


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
    """A host that only has a wish."""

    interrupts: Interrupt | None = None


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
    def make(self) -> object:
        return Bare()

    def interrupt(self, host: Any, wish: Interrupt) -> None:
        host.interrupts = wish


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


class Nervous(Plain):
    def interrupts(self) -> Any:
        return Interrupt("custom", "always")


class Stubborn(Plain):
    def interrupts(self) -> None:
        return None


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
    ("broken", "check"),
    [
        (Raising, "test_a_run_under_it_comes_to_its_end"),
        (Nervous, "test_a_run_under_it_comes_to_its_end"),
        (Shy, "test_what_it_has_can_be_called"),
        (Talkative, "test_it_takes_every_event"),
        (Strict, "test_it_takes_checkpoints"),
        (Exact, "test_it_takes_usage"),
        (Talkative, "test_it_takes_usage"),
        (Foggy, "test_it_answers_a_question_or_parks"),
        (Nervous, "test_it_wishes_nothing_by_itself"),
        (Stubborn, "test_its_wish_to_stop_is_seen"),
        (Eager, "test_a_step_runs_once"),
        (Single, "test_one_of_it_serves_many_runs_at_once"),
    ],
)
def test_a_broken_host_is_found_out(broken: Any, check: str) -> None:
    class Suite(HostContract):
        def make(self) -> object:
            return broken()

        def interrupt(self, host: Any, wish: Interrupt) -> None:
            host.wish = wish

    with pytest.raises(AssertionError):
        getattr(Suite(), check)()


def test_a_host_with_wishes_says_how_it_is_made_to_wish() -> None:
    class Suite(HostContract):
        def make(self) -> object:
            return Plain()

    with pytest.raises(NotImplementedError, match="interrupt"):
        Suite().test_its_wish_to_stop_is_seen()


def test_every_check_of_the_suite_is_tried() -> None:
    marks: Any = test_a_broken_host_is_found_out.pytestmark  # type: ignore[attr-defined]
    tried = {check for _, check in marks[0].args[1]}
    assert tried == {name for name in dir(HostContract) if name.startswith("test_")}
