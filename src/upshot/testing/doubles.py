"""FakeClock, and ScriptedTool with the faults that it can play."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

from upshot.contract.base.checks import check_amount
from upshot.contract.base.structs import JsonObject
from upshot.errors import Misuse
from upshot.tools.definition.tool import EffectWord, Tool


class FakeClock:
    """A clock for tests: waiting on it takes no time and is recorded.

    Args:
        start: The first moment, aware; None is 2030-01-01 in UTC.

    Attributes:
        sleeps: Every wait so far, in seconds and in order.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2030, 1, 1, tzinfo=UTC)
        self._passed_s = 0.0
        self.sleeps: list[float] = []

    def now(self) -> datetime:
        """Return the start plus all time that has passed."""
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed_s

    def advance(self, delay_s: float) -> None:
        """Advance the time by *delay_s* seconds, without a wait."""
        self._passed_s += delay_s

    async def sleep(self, delay_s: float) -> None:
        """Advance the time by *delay_s* seconds at once; other tasks get their turn."""
        self.sleeps.append(delay_s)
        self.advance(delay_s)
        await asyncio.sleep(0)


_ANY_ARGUMENTS: JsonObject = {"type": "object"}


@dataclass(frozen=True, slots=True)
class TimeoutAfterEffect:
    """The effect takes place, but the call times out before there is an answer."""


@dataclass(frozen=True, slots=True)
class CrashAfterStart:
    """The whole process is killed while the call runs; for a process that a test started.

    Attributes:
        applied: Whether the effect takes place before that.
    """

    applied: bool = False


@dataclass(frozen=True, slots=True)
class LateReturn:
    """The call ignores its cancellation and returns later.

    Attributes:
        value: What it returns.
        delay_s: After how many real seconds.
    """

    value: object = None
    delay_s: float = 0.05

    def __post_init__(self) -> None:
        check_amount("delay_s", self.delay_s, is_endless=False)


ToolStep: TypeAlias = object
"""A value to return, an exception to raise, a fault, or a function of the arguments."""


class ScriptedTool:
    """A tool whose calls play a script, one item each.

    ::

        pay = ScriptedTool("pay", [TimeoutAfterEffect(), {"paid": True}], effect="write")
        box = Toolbox([pay.tool])

    Args:
        name: The name of the tool.
        script: What each call does: a value is returned, an exception is raised, a function gets
            the arguments and returns the value, a fault takes place.
        parameters: JSON Schema of the arguments; None accepts any object.
        effect: What it may do; None is undeclared.
        idempotent: As for ``Tool``.
        timeout_s: As for ``Tool``.

    Attributes:
        tool: The tool, for a Toolbox or an agent.
        calls: The arguments of every call that started.
        applied: The arguments of every call whose effect took place.
    """

    def __init__(
        self,
        name: str,
        script: Iterable[ToolStep],
        *,
        parameters: JsonObject | None = None,
        effect: EffectWord | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        self._script = list(script)
        self.calls: list[JsonObject] = []
        self.applied: list[JsonObject] = []
        self.tool: Tool = Tool.from_schema(
            name,
            f"Plays a script of {len(self._script)} items.",
            _ANY_ARGUMENTS if parameters is None else parameters,
            self._play,
            effect=effect,
            idempotent=idempotent,
            timeout_s=timeout_s,
        )

    def assert_finished(self) -> None:
        """Check that the whole script was played.

        Raises:
            AssertionError: Items are left.
        """
        left = len(self._script) - len(self.calls)
        assert left <= 0, f"{self.tool.name} has {left} of {len(self._script)} items left"

    async def _play(self, arguments: JsonObject) -> object:
        place = len(self.calls)
        self.calls.append(arguments)
        if place >= len(self._script):
            raise Misuse(f"the script of {self.tool.name} has only {len(self._script)} items")
        match self._script[place]:
            case TimeoutAfterEffect():
                self.applied.append(arguments)
                await asyncio.Event().wait()
            case CrashAfterStart(applied=applied):
                if applied:
                    self.applied.append(arguments)
                os.kill(os.getpid(), signal.SIGKILL)
            case LateReturn(value=value, delay_s=delay_s):
                await _outlast(delay_s)
                return self._apply(arguments, value)
            case BaseException() as error:
                raise error
            case step if callable(step):
                made = cast("Callable[[JsonObject], object]", step)(arguments)
                return self._apply(arguments, made)
            case value:
                return self._apply(arguments, value)
        return None

    def _apply(self, arguments: JsonObject, value: object) -> object:
        self.applied.append(arguments)
        return value


async def _outlast(delay_s: float) -> None:
    """Wait for *delay_s*, ignoring cancellation."""
    loop = asyncio.get_running_loop()
    until = loop.time() + delay_s
    while (left := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            # This is the fault: a body that ignores its cancellation.
            continue
