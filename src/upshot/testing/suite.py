"""Async suites as pytest tests; models and witnesses for them.

Checks: async methods of a suite as tests for pytest, on whatever ``make`` gives.

pytest is not needed to import this.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeVar, cast
from unittest import SkipTest

from upshot.contract.base.structs import RunEvent
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelInput, ModelRequest, ModelResponse, TextDelta
from upshot.contract.protocols import StreamItem
from upshot.contract.result import AgentResult
from upshot.contract.usage import Usage
from upshot.entry.api import run_in_own_loop
from upshot.models.aiohttp_transport import aclose_transports

__all__ = [
    "PlainModel",
    "Role",
    "Seen",
    "Suite",
    "TOKENS",
    "Witness",
    "check",
    "ending",
    "raising",
    "settle",
    "skip",
    "tasks_beside",
    "value_of",
]

# What has no methods of anybody's own, and is given by mistake.
_VALUES = (str, bytes, int, float, complex, dict, list, tuple, set, frozenset)
# Who is taken back may take so long to go; the loop's end waits for the others.
_GOING_S = 2.5
_OTHER_LOOP = "A check has an event loop of its own: open in make() what belongs to one."

S = TypeVar("S", bound="Suite")


class Role(NamedTuple):
    """What ``make`` has to give.

    Attributes:
        noun: With its article, such as "an engine".
        needs: What it must have.
        some_of: Of what it must have something; empty demands nothing.
        methods: Whether what it must have has to be callable.
    """

    noun: str
    needs: tuple[str, ...] = ()
    some_of: tuple[str, ...] = ()
    methods: bool = True

    def check(self, subject: object, who: str) -> None:
        """Say what is wrong with *subject*, which *who* gave.

        Raises:
            AssertionError: It does not play the role.
        """
        assert subject is not None, f"{who} gave None: return {self.noun}"
        if isinstance(subject, type):
            name = subject.__name__
            raise AssertionError(f"{who} gave the class {name}: return {self.noun} made of it")
        gave = f"{who} gave {_shown(subject)}, which is not {self.noun}"
        assert not isinstance(subject, _VALUES), gave
        for name in self.needs:
            found = inspect.getattr_static(subject, name, None) or getattr(subject, name, None)
            assert found is not None, f"{gave}: it has no {name}"
            if self.methods:
                assert callable(getattr(subject, name)), f"{gave}: its {name} is no method"
        if self.some_of and not any(hasattr(subject, name) for name in self.some_of):
            raise AssertionError(f"{gave}: it has none of {', '.join(self.some_of)}")


class Suite:
    """What the contract suites share.

    Attributes:
        patience_s: How many seconds a check may take; a longer one is red.
    """

    patience_s: float = 30.0
    _role: Role

    def make(self) -> Any:
        """What is looked at."""
        raise NotImplementedError(f"{type(self).__name__} gives {self._role.noun} in make()")

    @asynccontextmanager
    async def _made(self) -> AsyncGenerator[Any]:
        """What ``make`` gives; open within the block, and certainly of the role."""
        who = f"{type(self).__name__}.make()"
        stack = AsyncExitStack()
        subject, is_ours = await _enter(self.make(), stack)
        try:
            self._role.check(subject, who)
            if is_ours:
                stack.push_async_callback(self._close, subject)
            yield subject
        except BaseException as error:
            # By hand: its end may neither hide this error nor swallow it.
            try:
                await stack.__aexit__(type(error), error, error.__traceback__)
            except Exception as second:
                # This promise is that the first error is told; the second stands beside it.
                if second is not error:
                    error.add_note(f"what {who} gave could not be closed either: {second!r}")
            raise
        await stack.aclose()

    async def _close(self, subject: Any) -> None:
        """Close what no context manager closes; nothing unless overridden."""


def check(play: Callable[[S], Coroutine[Any, Any, None]]) -> Callable[[S], None]:
    """Make a test for pytest of *play*, whose docstring is the sentence that it checks.

    It has an event loop of its own, and an end. What it raises names the sentence in a note.
    """
    suite = play.__qualname__.partition(".")[0]
    sentence = " ".join((play.__doc__ or "").split())

    def test(self: S) -> None:
        __tracebackhide__ = True
        try:
            with warnings.catch_warnings():
                # The check is red by itself where work was left behind.
                warnings.filterwarnings("default", "left behind", RuntimeWarning)
                run_in_own_loop(lambda: _in_time(self, play), closing=aclose_transports)
        except Exception as error:
            if "different loop" in str(error):
                error.add_note(_OTHER_LOOP)
            if not isinstance(error, SkipTest):
                error.add_note(f"The contract ({suite}): {sentence}")
            raise

    test.__name__, test.__doc__ = play.__name__, play.__doc__
    test.__qualname__, test.__module__ = play.__qualname__, play.__module__
    return test


def skip(why: str) -> SkipTest:
    """What is raised by a check that has nothing to look at; pytest shows it as skipped."""
    return SkipTest(why)


class raising:
    """A block that must raise: ``with raising(JournalError, "a gap was taken")``.

    Args:
        expected: What it must raise.
        otherwise: What is wrong if it raises nothing.
        words: What the message must hold.
    """

    def __init__(self, expected: type[Exception], otherwise: str, *, words: str = "") -> None:
        self._expected = expected
        self._otherwise = otherwise
        self._words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        name = self._expected.__name__
        assert error is not None, f"{self._otherwise}; a {name} was expected"
        if not isinstance(error, self._expected):
            if not isinstance(error, Exception):
                return False
            raise AssertionError(f"a {name} was expected, and it raised {error!r}") from error
        message = f"the {name} does not say {self._words!r}: {error}"
        assert self._words in str(error), message
        return True


async def value_of(given: object) -> Any:
    """What a sync or async function gave."""
    return await given if inspect.isawaitable(given) else given


async def _in_time(suite: S, play: Callable[[S], Coroutine[Any, Any, None]]) -> None:
    task = asyncio.ensure_future(play(suite))
    await asyncio.wait((task,), timeout=suite.patience_s)
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait((task,), timeout=_GOING_S)
    if task.done() and not task.cancelled():
        # Looked at, so that asyncio does not tell of it.
        task.exception()
    raise AssertionError(f"it did not come to an end within {suite.patience_s:g} s (patience_s)")


async def _enter(made: object, stack: AsyncExitStack) -> tuple[object, bool]:
    """The subject, and whether nobody else closes it."""
    if inspect.isasyncgen(made):
        made = asynccontextmanager(_giving(made))()
    elif inspect.isgenerator(made):
        made = contextmanager(_giving(made))()
    elif inspect.isawaitable(made) and not hasattr(made, "__aenter__"):
        made = await made
    if isinstance(made, type):
        return made, False
    if hasattr(made, "__aenter__"):
        return await stack.enter_async_context(cast("Any", made)), False
    if hasattr(made, "__enter__"):
        return stack.enter_context(cast("Any", made)), False
    return made, True


def _giving(made: object) -> Callable[[], Any]:
    return lambda: made


def _shown(subject: object) -> str:
    kind = type(subject).__name__
    return f"{subject!r:.60} ({kind})" if isinstance(subject, _VALUES) else f"a {kind}"


TOKENS = 15


class PlainModel:
    """A model that answers everything at once, or never.

    Attributes:
        name: "contract:plain".
        calls: How often it was asked.
        later_calls: How often after an answer, and while it was answering nobody else.
        asked: Set when it was asked first.
        answers: Whether it ever answers.
        error: What it ends with instead of an answer, None for an answer.
    """

    name = "contract:plain"

    def __init__(self, *, answers: bool = True, error: AgentError | None = None) -> None:
        self.calls: int = 0
        self.later_calls: int = 0
        self._under_way = 0
        self.asked: asyncio.Event = asyncio.Event()
        self.answers = answers
        self.error = error

    async def call(self, request: ModelInput) -> ModelResponse:
        """Answer with the text of the last message; 10 tokens in, 5 out."""
        self.later_calls += self.calls > 0 and not self._under_way
        self.calls += 1
        self.asked.set()
        self._under_way += 1
        try:
            # Its answer takes a moment, so that calls at the same time are seen to be that.
            await (asyncio.sleep(0) if self.answers else asyncio.Event().wait())
        finally:
            self._under_way -= 1
        usage = Usage(input_tokens=10, output_tokens=TOKENS - 10, api_calls=1)
        if self.error is not None:
            return ModelResponse(error=self.error, usage=usage, finish_reason="error")
        messages = ModelRequest.of(request).messages
        text = f"You said: {messages[-1].text if messages else ''}"
        return ModelResponse(content=text, usage=usage, finish_reason="stop")

    async def stream(self, request: ModelInput) -> AsyncIterator[StreamItem]:
        """The same, its text as one delta."""
        response = await self.call(request)
        if response.content:
            yield TextDelta(text=response.content)
        yield response


class Witness:
    """An observer that counts the ends of runs."""

    def __init__(self) -> None:
        self.ends: int = 0

    def on_run_end(self, info: object, result: object) -> None:
        """Count one."""
        self.ends += 1


class Seen(NamedTuple):
    """One run as it was seen from outside.

    Attributes:
        result: What came of it.
        events: All of it.
        ends: How often observers were told of its end.
    """

    result: AgentResult[Any]
    events: list[RunEvent]
    ends: int

    @property
    def said(self) -> tuple[Any, ...]:
        """What an equal run says too."""
        result = self.result
        texts = tuple(message.text for message in result.messages)
        return result.status, result.content, result.output, texts


def ending(result: AgentResult[Any]) -> str:
    """How a run ended, for a message."""
    error = result.error
    said = f"it ended as {result.status}"
    return said if error is None else f"{said}, {error.code}: {error.message}"


def tasks_beside() -> set[asyncio.Task[Any]]:
    """All tasks but the current one."""
    current = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not current}


async def settle(wanted: Callable[[], bool], *, turns: int = 100) -> bool:
    """Let other tasks have their turn until *wanted* holds; whether it does."""
    for _ in range(turns):
        if wanted():
            return True
        await asyncio.sleep(0)
    return wanted()
