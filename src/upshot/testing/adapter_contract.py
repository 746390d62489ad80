"""AdapterContract: what every adapter of another library's results must do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, TypeAlias, cast
from unittest import SkipTest

from upshot.contract.base.enums import ErrorCode, FinishReason, Status
from upshot.contract.codec import decode, encode
from upshot.contract.message import Message
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolDenied, ToolExecutionResult, ToolFailure
from upshot.testing.suite import Role, Suite

Adapter: TypeAlias = Callable[[Any], AgentResult[Any]]

CASES: Final = (
    "text",
    "two calls",
    "length",
    "429",
    "500",
    "a tool raises",
    "cancel",
    "empty reply",
)
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


class _Hostile:
    """An object of a library, each of whose attributes raises."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        raise RuntimeError(f"no {name}")


class _Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class AdapterContract(Suite[Adapter]):
    """Tests of an adapter: a function from a library's result or exception to an ``AgentResult``.

    Define ``make``, which returns the adapter.

    Attributes:
        natives: What the library returned or raised, by case: "text", "two calls", "length",
            "429", "500", "a tool raises", "cancel" and "empty reply". A case that is left out
            is skipped.
    """

    natives: ClassVar[Mapping[str, object]] = {}
    _role: Role = Role("an adapter", ("__call__",))

    async def test_it_never_raises(self) -> None:
        """Whatever it is given becomes a result that can be written down."""
        given: list[object] = [None, 5, "text", b"", [], {}, [None], object(), _Hostile()]
        given += [[{"role": "assistant", "content": 5}], {"messages": 5, "usage": "x"}]
        given += [ValueError("x"), KeyError(), _Wordless(), SystemExit(3)]
        async with self._made() as adapter:
            for native in (*given, *self.natives.values()):
                kind = f"a {type(native).__name__}"
                try:
                    result: object = adapter(native)
                except Exception as error:
                    raise AssertionError(f"given {kind}, it raised {error!r:.200}") from error
                got = f"given {kind}, it returned a {type(result).__name__}"
                assert isinstance(result, AgentResult), got
                kept = cast("AgentResult[Any]", result)
                again = decode(encode(kept), AgentResult[Any])
                assert again.status is kept.status, f"given {kind}, its result changed in JSON"

    async def test_it_keeps_the_native_object(self) -> None:
        """The native object is ``result.raw``."""
        for case, native, result in await self._results():
            assert result.raw is native, f"the result of {case!r} has {result.raw!r:.60} as raw"

    async def test_what_is_unknown_is_none_and_listed(self) -> None:
        """``metadata["unknown"]`` lists each fact that is None, and no other."""
        for case, _, result in await self._results():
            listed = result.metadata.get("unknown")
            assert isinstance(listed, list), f"{case!r} has no list of names under 'unknown'"
            usage = {f"usage.{name}": getattr(result.usage, name) for name in _COUNTS}
            facts = ("cost", "finish_reason", "started_at")
            known = usage | {name: getattr(result, name) for name in facts}
            for name, value in known.items():
                is_listed = name in listed
                assert is_listed is (value is None), (
                    f"in {case!r}, {name} is {value!r}, and is {'' if is_listed else 'not '}listed"
                )

    async def test_an_exception_is_a_failure(self) -> None:
        """An exception has a code: that of its class, or of what it says."""
        async with self._made() as adapter:
            for error, code in (
                (TimeoutError("slow"), ErrorCode.TIMEOUT),
                (asyncio.CancelledError(), ErrorCode.CANCELED),
                (_Limited("Slow down."), ErrorCode.RATE_LIMIT),
            ):
                result, name = adapter(error), type(error).__name__
                assert result.error is not None, f"{name} became a result without an error"
                assert result.error.code is code, f"{name} became {result.error.code}"

    async def test_a_text_is_the_answer(self) -> None:
        """The content is what the model said last."""
        result = await self._result("text")
        ended = f"{result.status}: {result.error}"
        assert result.status is Status.COMPLETED, ended
        assert result.content, "it has no content"
        assert result.messages, "it has no messages"

    async def test_each_call_has_its_outcome(self) -> None:
        """Each outcome answers a call of the messages, and no effect is made up."""
        result = await self._result("two calls")
        asked = {call.id: call.name for one in result.messages for call in one.tool_calls}
        assert len(asked) > 1, f"its messages have the calls {asked}"
        answered = {one.call_id: one.tool_name for one in result.tool_outcomes}
        assert answered == asked, f"{asked} were asked for, and {answered} answered"
        for outcome in result.tool_outcomes:
            kind = type(outcome).__name__
            assert isinstance(outcome, ToolExecutionResult), f"{outcome.call_id} is a {kind}"
        shown = [one.text for one in _tool_messages(result.messages)]
        assert len(shown) == len(asked), f"the messages have {len(shown)} of {len(asked)} results"
        assert len(result.tool_records) == len(asked), "it has no record for each call"

    async def test_the_tokens_are_whole(self) -> None:
        """The input includes what was cached, and the output includes reasoning."""
        usage = (await self._result("two calls")).usage
        if not usage:
            raise SkipTest("it reports no tokens")
        cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
        assert (usage.input_tokens or 0) >= cached, f"{cached} of {usage.input_tokens} were cached"
        assert (usage.output_tokens or 0) >= (usage.reasoning_tokens or 0), f"{usage}"
        assert usage.api_calls, "its tokens are those of no call"

    async def test_a_cut_reply_does_not_look_whole(self) -> None:
        """The finish reason is length, or unknown."""
        result = await self._result("length")
        reason = result.finish_reason
        assert reason in (None, FinishReason.LENGTH), f"the finish reason is {reason}"

    async def test_a_refused_call_has_its_code(self) -> None:
        """429 is a rate limit and 500 a server error, and no text of an error is the answer."""
        for case, code in (("429", ErrorCode.RATE_LIMIT), ("500", ErrorCode.SERVER_ERROR)):
            result = await self._result(case)
            assert result.error is not None, f"{case} became a result without an error"
            assert result.error.code is code, f"{case} became {result.error.code}"
            assert result.error.retryable, f"{case} is not retryable"
            assert not result.content, f"{case} has the content {result.content!r:.60}"

    async def test_a_tool_that_raised_did_not_succeed(self) -> None:
        """The call is a failure, or the run failed without outcomes."""
        result = await self._result("a tool raises")
        first = result.tool_outcomes[0] if result.tool_outcomes else None
        if first is None:
            assert result.error is not None, "the tool raised, and nothing says so"
            return
        assert isinstance(first, ToolFailure | ToolDenied), f"its outcome is {first!r:.80}"

    async def test_a_canceled_run_is_canceled(self) -> None:
        """It did not complete, and the library's notice is not the answer."""
        result = await self._result("cancel")
        assert result.status is Status.CANCELED, f"it {result.status}: {result.error}"

    async def test_an_empty_reply_has_no_content(self) -> None:
        """Nothing stands in for a text that is not there."""
        result = await self._result("empty reply")
        assert not result.content, f"it has the content {result.content!r:.60}"

    async def _result(self, case: str) -> AgentResult[Any]:
        async with self._made() as adapter:
            if case not in self.natives:
                raise SkipTest(f"natives has no {case!r}")
            return adapter(self.natives[case])

    async def _results(self) -> list[tuple[str, object, AgentResult[Any]]]:
        cases: dict[str, object] = {**self.natives, "an exception": ValueError("x")}
        async with self._made() as adapter:
            return [(case, native, adapter(native)) for case, native in cases.items()]


class _Limited(Exception):
    """As client libraries raise it."""

    status_code = 429


def _tool_messages(messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if message.tool_call_id]
