"""Whatever a tool, a hook or a store does: one typed outcome for each call, that can be written."""

import asyncio
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from upshot.contract import (
    ToolCall,
    ToolDenied,
    ToolFailure,
    ToolOutcome,
    ToolRecord,
    decode,
    encode,
    outcome_to_model_content,
)
from upshot.errors import Misuse
from upshot.tools import InMemoryArtifacts, Toolbox, ToolError, tool
from upshot.tools.gates.pipeline import Rewind


class Own(BaseException):
    """What no framework expects."""


class Bare(ToolError):
    def __init__(self) -> None:
        """Leaves out what the parent does."""


# Called as no type checker would let it.
wrong: Any = ToolError


class Sly(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        raise LookupError("not today")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class SlyText:
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def settled(raised: Any, *, plain: bool = False, **options: Any) -> ToolOutcome:
    """What comes of a body that calls *raised*; there is one record of it, and it can be read."""

    def body() -> Any:
        return raised()

    async def async_body() -> Any:
        return raised()

    box = Toolbox([tool(name="f", **options)(body if plain else async_body)])
    outcomes = await box.dispatch([ToolCall("1", "f")])
    assert len(outcomes) == len(box.records) == 1
    assert decode(encode(box.records[0]), ToolRecord) == box.records[0]
    return outcomes[0]


def throw(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "raised",
    [
        lambda: throw(wrong("x", code=404)),
        lambda: throw(wrong("x", effect="bad")),
        lambda: throw(wrong("x", retry_after_s="5")),
        lambda: throw(wrong("x", retryable="no")),
        lambda: throw(ToolError("x", retry_after_s=float("nan"))),
        lambda: throw(wrong(SlyText())),
        lambda: throw(Bare()),
        lambda: throw(GeneratorExit()),
        lambda: throw(Own("odd")),
        lambda: throw(SystemExit(2)),
        lambda: throw(asyncio.CancelledError()),
        Sly,
        lambda: {"error": "x", "retry_after_s": 10**400},
        lambda: {"error": "x", "code": "\ud800"},
    ],
)
async def test_a_call_is_a_failure_whatever_its_body_does(raised: Any, plain: bool):
    assert isinstance(await settled(raised, plain=plain), ToolFailure)


@pytest.mark.parametrize(
    "options",
    [
        {"code": 404},
        {"effect": "bad"},
        {"effect": "write"},
        {"retry_after_s": "5"},
        {"retry_after_s": -1},
        {"retry_after_s": float("inf")},
        {"retry_after_s": True},
        {"retryable": "no"},
        {"retryable": 1},
    ],
)
def test_a_tool_error_says_which_argument_is_wrong(options: dict[str, Any]):
    name, value = next(iter(options.items()))
    with pytest.raises(Misuse) as caught:
        ToolError("x", **options)
    assert str(caught.value).startswith(f"ToolError({name}={value!r}): give ")


def test_a_tool_error_takes_words_and_whole_seconds():
    error = ToolError("x", code="not_found", retry_after_s=5, effect="none")
    assert (error.code, error.retry_after_s, error.effect) == ("not_found", 5.0, "none")


async def test_a_store_that_returns_nothing_useful_fails_only_its_call():
    class Store(InMemoryArtifacts):
        async def put(self, *args: Any, **options: Any) -> Any:
            return None

    @tool(effect="write")
    async def much() -> str:
        return "x" * 20_000

    box = Toolbox([much], artifacts=Store())
    outcomes = await box.dispatch([ToolCall("1", "much")])
    assert isinstance(outcomes[0], ToolFailure)
    assert (outcomes[0].code, outcomes[0].effect) == ("internal", "unknown")
    assert len(box.records) == 1


def trace() -> str:
    try:
        raise ValueError("bad name")
    except ValueError:
        return traceback.format_exc()


@pytest.mark.parametrize(
    "raised",
    [
        lambda: {"error": trace()},
        lambda: {"error": {"kind": "x", "trace": [trace()]}},
        lambda: throw(ToolError(trace())),
        lambda: throw(RuntimeError(f"it broke: {trace()}")),
        lambda: throw(RuntimeError(" ".join(trace().split()))),
    ],
)
async def test_no_error_holds_a_traceback(raised: Any):
    content = outcome_to_model_content(await settled(raised))
    assert "ValueError: bad name" in content
    assert "Traceback" not in content
    assert "File" not in content


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [asyncio.CancelledError(), Own("odd"), TimeoutError()], ids=repr)
@pytest.mark.parametrize("option", ["on_pre_tool_use", "approve", "gates"])
async def test_a_hook_that_raises_denies_even_by_a_cancel(
    option: str, error: BaseException, is_async: bool
):
    def refuse(_: Any) -> Any:
        raise error

    async def refuse_later(_: Any) -> Any:
        raise error

    class Gate:
        name = "mine"

        def check(self, case: Any) -> Any:
            return refuse_later(case) if is_async else refuse(case)

    @tool(effect="destructive")
    async def wipe() -> None: ...

    hook: Any = [Gate()] if option == "gates" else refuse_later if is_async else refuse
    box = Toolbox([wipe], **{option: hook})
    (outcome,) = await box.dispatch([ToolCall("1", "wipe")])
    assert isinstance(outcome, ToolDenied)
    reasons = {"on_pre_tool_use": "pre_hook", "approve": "write_denied", "gates": "policy"}
    assert outcome.reason == reasons[option]
    said = f"failed: {type(error).__name__}" + (f": {error}" if str(error) else "")
    assert outcome.details.endswith(said)


async def test_a_real_cancel_while_a_hook_thinks_still_reaches_the_caller():
    asked = asyncio.Event()

    async def think(_: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    @tool(effect="read")
    async def look() -> None: ...

    box = Toolbox([look], on_pre_tool_use=think)
    task = asyncio.create_task(box.dispatch([ToolCall("1", "look")]))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [getattr(record.outcome, "reason", "") for record in box.records] == ["cancelled"]


@pytest.mark.parametrize("said", [True, "no", Rewind("nowhere")], ids=repr)
async def test_a_gate_that_gives_no_verdict_denies(said: Any):
    class Gate:
        name = "mine"

        def check(self, case: Any) -> Any:
            return said

    @tool(effect="read")
    async def look() -> None: ...

    (outcome,) = await Toolbox([look], gates=[Gate()]).dispatch([ToolCall("1", "look")])
    assert isinstance(outcome, ToolDenied)
    assert (outcome.reason, "the gate mine answered" in outcome.details) == ("policy", True)
