"""What a model of the user's raises: a failure of its client is a value, a bug is raised."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from upshot import (
    Agent,
    Failed,
    Fallback,
    Interrupted,
    Misuse,
    ModelResponse,
    Retry,
    ScriptedModel,
    TextDelta,
    run,
    start,
)
from upshot.models.retry import reply_of
from upshot.testing import FakeClock


class RateLimitError(Exception):
    """As the clients of providers have it."""

    status_code = 429
    headers = {"retry-after": "7"}  # as theirs are


class Breaking:
    """Raises *errors* one after the other, then answers; streams *said* before it raises."""

    name = "test:breaking"

    def __init__(self, *errors: Exception, said: str = "") -> None:
        self._errors, self._said = list(errors), said

    async def call(self, request: Any) -> ModelResponse:
        if self._errors:
            raise self._errors.pop(0)
        return ModelResponse(content="Hello.")

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        if self._said:
            yield TextDelta(text=self._said)
        yield await self.call(request)


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (RateLimitError("Too many requests."), "rate_limit", True),
        (ConnectionResetError("reset by peer"), "server_error", True),
        (TimeoutError("no answer"), "timeout", True),
    ],
)
async def test_a_failure_of_the_client_is_that_of_the_model(
    error: Exception, code: str, *, retryable: bool
) -> None:
    model = Breaking(error)
    result = await run(Agent("a", model=model), "?", retry=None)
    assert result.error is not None
    assert (result.status, result.error.code, result.error.origin) == ("failed", code, "model")
    assert (result.error.type, result.error.retryable) == (type(error).__name__, retryable)
    assert result.usage.api_calls == 1


@pytest.mark.parametrize("watched", [True, False])
async def test_it_is_tried_again_and_waits_as_long_as_it_is_told(*, watched: bool) -> None:
    clock, agent = FakeClock(), Agent("a", model=Breaking(RateLimitError("Too many.")))
    if watched:
        async with start(agent, "?", clock=clock) as live:
            kinds = [event.kind async for event in live]
            result = await live.result()
        assert kinds.count("model_retried") == kinds.count("model_replied") == 1
    else:
        result = await run(agent, "?", clock=clock)
    assert (result.content, result.usage.api_calls) == ("Hello.", 2)
    assert len(clock.sleeps) == 1 and clock.sleeps[0] >= 7


async def test_what_people_saw_of_a_stream_that_broke_off_is_kept() -> None:
    model = Breaking(ConnectionResetError("reset"), said="Well, ")
    agent = Agent("a", model=model, retry=None)
    async with start(agent, "?") as live:
        kinds = [event.kind async for event in live]
        result = await live.result()
    assert result.error is not None
    assert (result.error.code, result.content) == ("server_error", "Well, ")
    assert kinds.count("model_started") == kinds.count("model_replied") == 1


@pytest.mark.parametrize("watched", [True, False])
async def test_a_fallback_goes_on_at_what_a_model_raises(*, watched: bool) -> None:
    model = Fallback(Breaking(TimeoutError("no answer")), ScriptedModel(["Here I am."]))
    agent = Agent("a", model=model, retry=Retry(max_tries=1))
    if watched:
        async with start(agent, "?") as live:
            result = await live.result()
    else:
        result = await run(agent, "?")
    assert result.content == "Here I am."


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("error", [KeyError("timeout"), ValueError("bad"), OSError("disk full")])
async def test_a_bug_of_a_model_is_one(error: Exception, *, fallback: bool, watched: bool) -> None:
    model: Any = Breaking(error)
    agent = Agent("a", model=Fallback(model, ScriptedModel(["no"])) if fallback else model)
    if watched:
        async with start(agent, "?") as live:
            result = await live.result()
    else:
        result = await run(agent, "?")
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("internal", type(error).__name__)
    assert result.error.details["raised_by"] in (
        "the model 'test:breaking'",
        f"the model {agent.model.name!r}",
    )


@pytest.mark.parametrize(
    "error", [Interrupted("deadline", "timeout"), Failed("timeout", "late"), Misuse("status 429")]
)
def test_what_upshot_raises_is_no_reply(error: Exception) -> None:
    assert reply_of(error) is None
