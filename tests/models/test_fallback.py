"""Several models as one."""

import asyncio
from decimal import Decimal

import pytest

from upshot.contract import (
    AgentError,
    Cost,
    ErrorCode,
    ModelResponse,
    ModelRetried,
    RateLimitState,
    Retry,
    TextDelta,
    Usage,
)
from upshot.contract.model_calls import counted, sum_of
from upshot.errors import Misuse
from upshot.models import Fallback, Prices, ScriptedModel, call_with_retry, missing_key, resolve
from upshot.testing.doubles import FakeClock


def model(*script, name="a"):
    return ScriptedModel(script, name=f"scripted:{name}")


def failed(code="server_error", *, wait_s=None, retryable=True, status=None):
    return AgentError(code, "no", retryable=retryable, retry_after_s=wait_s, status_code=status)


def spent(cost=None, error=None, *, tokens=10):
    return ModelResponse(
        content=None if error else "ok",
        usage=Usage(input_tokens=tokens, output_tokens=tokens, api_calls=1),
        cost=None if cost is None else Cost(total=Decimal(cost)),
        error=error,
        duration_ms=5,
    )


async def test_the_first_model_answers_alone():
    first, second = model("one"), model("two")
    response = await Fallback(first, second).call("hi")
    assert (response.content, second.calls) == ("one", [])
    assert "fallback" not in response.provider_data


@pytest.mark.parametrize(
    "code", ["rate_limit", "timeout", "server_error", "model_unavailable", "auth_error"]
)
async def test_the_next_model_is_asked_where_one_fails(code):
    row = Fallback(model(failed(code)), model(failed(code)), model("three"))
    assert (await row.call("hi")).content == "three"


@pytest.mark.parametrize(
    "code", ["invalid_request", "context_length", "content_filter", "internal", "canceled"]
)
async def test_what_would_fail_anywhere_ends_it(code):
    second = model("two")
    response = await Fallback(model(failed(code)), second).call("hi")
    assert (response.error.code, second.calls) == (code, [])


async def test_the_codes_can_be_chosen():
    row = Fallback(model(failed("context_length")), model("long"), on=["context_length"])
    assert (await row.call("hi")).content == "long"
    row = Fallback(model(failed("server_error")), model("two"), on=["context_length"])
    assert (await row.call("hi")).error.code == "server_error"


async def test_a_cancellation_is_no_failure_even_where_it_is_named():
    row = Fallback(model(failed("canceled")), model("two"), on=[ErrorCode.CANCELED])
    assert (await row.call("hi")).error.code == "canceled"


async def test_a_cancelled_call_asks_nobody_else():
    started = asyncio.Event()

    async def wait(_):
        started.set()
        await asyncio.Event().wait()

    second = model("two")
    task = asyncio.create_task(Fallback(model(wait), second).call("hi"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert second.calls == []


async def test_what_failed_models_used_is_counted():
    row = Fallback(model(spent("0.5", failed())), model(spent("0.25", tokens=1), name="b"))
    response = await row.call("hi")
    usage = response.usage
    assert (usage.input_tokens, usage.total_tokens, usage.api_calls) == (11, 22, 2)
    assert (response.cost.total, response.cost.unpriced_calls) == (Decimal("0.75"), 0)
    assert (response.duration_ms, response.content) == (10, "ok")


async def test_the_account_names_who_failed_and_who_answered():
    refusal = failed("rate_limit", status=429)
    response = await Fallback(model(refusal), model(spent("1"), name="b")).call("hi")
    first, second = response.provider_data["fallback"]
    assert first == {
        "model": "scripted:a", "duration_ms": 0, "code": "rate_limit", "message": "no",
        "status_code": 429,
    }  # fmt: skip
    assert (second["model"], second["cost"]) == ("scripted:b", 1.0)
    assert second["usage"]["input_tokens"] == 10


@pytest.mark.parametrize(
    ("first", "unpriced", "unmeasured"),
    [(failed(status=503), 0, 0), (spent(None, failed()), 1, 0), (failed(), 1, 1)],
    ids=["refused", "used tokens", "broke off"],
)
async def test_a_failed_call_of_unknown_cost_is_counted_unless_it_was_refused(
    first, unpriced, unmeasured
):
    response = await Fallback(model(first), model(spent("1"))).call("hi")
    assert response.cost.unpriced_calls == unpriced
    assert (response.usage.unmeasured_calls, response.usage.api_calls) == (unmeasured, 2)


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ([failed(wait_s=9), failed(wait_s=3), failed(wait_s=5)], 1),
        ([failed(wait_s=9), failed("auth_error", retryable=False)], 0),
        ([failed("auth_error", retryable=False), failed(wait_s=60)], 1),
        ([failed("auth_error", retryable=False), failed("model_unavailable", retryable=False)], 0),
        ([failed(), failed()], 0),
    ],
    ids=["shortest wait", "retryable first", "retryable last", "none retryable", "alike"],
)
async def test_where_all_failed_the_error_is_the_one_retry_can_do_most_with(errors, chosen):
    response = await Fallback(*map(model, errors)).call("hi")
    assert response.error == errors[chosen]
    assert len(response.provider_data["fallback"]) == len(errors)


async def test_a_wait_that_only_the_windows_tell_counts():
    limited = ModelResponse(error=failed(), rate_limit=RateLimitState(retry_after=9))
    response = await Fallback(model(limited), model(failed(wait_s=2))).call("hi")
    assert response.error.retry_after_s == 2


async def test_the_last_models_own_mistake_is_told():
    row = Fallback(model(failed()), model(failed("invalid_request", retryable=False)))
    assert (await row.call("hi")).error.code == "invalid_request"


async def test_retry_tries_the_whole_row_again():
    first, second = model(failed(), failed(), "one"), model(failed(wait_s=2), failed())
    row, clock = Fallback(first, second), FakeClock()
    response, tries = await call_with_retry(
        lambda: row.call("hi"), Retry(), clock=clock, draw=lambda: 0.0
    )
    assert (response.content, tries, clock.sleeps) == ("one", 3, [0.5, 1])
    assert (len(first.calls), len(second.calls)) == (3, 2)


class Streaming:
    """A model whose stream is given."""

    name = "test:streaming"

    def __init__(self, *items):
        self.items, self.closed = items, False

    async def stream(self, request):
        try:
            for item in self.items:
                yield item
        finally:
            self.closed = True


FAILED = ModelResponse(error=failed())


async def stream(*models):
    return [item async for item in Fallback(*models).stream("hi")]


async def test_a_stream_voids_what_a_model_that_failed_has_yielded():
    first, failed, *deltas, last = await stream(
        Streaming(TextDelta(text="a"), FAILED), model("two words")
    )
    assert first == TextDelta(text="a")
    assert failed == ModelRetried(model="test:streaming", next_model="scripted:a", response=FAILED)
    assert [delta.text for delta in deltas] == ["two ", "words"]
    assert (last.content, len(last.provider_data["fallback"])) == ("two words", 2)


@pytest.mark.parametrize("streams", [False, True])
async def test_each_reply_is_counted_once_and_as_soon_as_it_is_there(streams):
    row = Fallback(model(spent("0.5", failed())), model(spent("0.25", tokens=1), name="b"))
    items = [item async for item in (row.stream("hi") if streams else row.call_each("hi"))]
    first, last = [item for item in items if not isinstance(item, TextDelta)]
    assert (first.response.usage.input_tokens, first.response.cost.total) == (10, Decimal("0.5"))
    assert (last.usage.input_tokens, last.cost.total, last.duration_ms) == (1, Decimal("0.25"), 5)


@pytest.mark.parametrize("refused_last", [False, True])
async def test_where_all_failed_the_sums_do_not_hang_on_whose_error_is_told(refused_last):
    broke, refused = failed(wait_s=3), failed("rate_limit", status=429, wait_s=9)
    # The error that is told is the one with the shorter wait, whoever comes first.
    if not refused_last:
        broke, refused = failed(wait_s=9), failed("rate_limit", status=429, wait_s=3)
    errors = [broke, refused] if refused_last else [refused, broke]
    response = await Fallback(*map(model, errors)).call("hi")
    call = counted(response)
    assert (call.usage.api_calls, call.usage.unmeasured_calls) == (2, 1)
    *passed, last = [item async for item in Fallback(*map(model, errors)).call_each("hi")]
    calls = [counted(item.response) for item in passed] + [counted(last)]
    assert sum_of(calls)[0] == call.usage


async def test_a_fallback_in_a_fallback_tells_each_model_once():
    inner = Fallback(model(spent("1", failed())), model(spent("2", failed()), name="b"))
    row = Fallback(inner, model(spent("4"), name="c"))
    *passed, last = [item async for item in row.call_each("hi")]
    assert [item.next_model for item in passed] == ["scripted:b", "scripted:c"]
    costs = [float(item.response.cost.total) for item in passed]
    assert (costs, float(last.cost.total)) == ([1, 2], 4)
    told = last.provider_data["fallback"]
    assert [one["cost"] for one in told] == [3, 4]


async def test_a_stream_without_a_response_is_an_error_of_the_model():
    (last,) = await stream(Streaming())
    assert last.error.code == "internal"


async def test_a_stream_left_early_is_closed():
    inner = Streaming(TextDelta(text="a"), FAILED)
    items = Fallback(inner).stream("hi")
    async for _ in items:
        break
    await items.aclose()
    assert inner.closed


def test_names_are_resolved():
    row = Fallback("openai:gpt-5", model("x"))
    assert row.name == "fallback:openai:gpt-5,scripted:a"
    assert repr(row) == "Fallback('openai:gpt-5', 'scripted:a')"


def test_no_models_are_misuse():
    with pytest.raises(Misuse, match="needs models"):
        Fallback()


def test_it_is_priced_where_all_its_models_are():
    own = Prices({}, only=True)
    known, unknown = resolve("openai:gpt-4o"), resolve("openai:gpt-4o", prices=own)
    assert (Fallback(known, known).priced, Fallback(known, unknown).priced) == (True, False)


@pytest.mark.parametrize(
    ("models", "missing"),
    [
        (["openai:m", "groq:m"], "OPENAI_API_KEY"),
        (["openai:m", "ollama:m"], None),
        ([model("x"), "openai:m"], None),
    ],
)
def test_a_key_is_missing_where_no_model_can_be_called(models, missing):
    assert missing_key(Fallback(*models)) == missing


@pytest.mark.parametrize(("on", "said"), [(["empty_reply"], "Hi."), (["server_error"], None)])
async def test_an_empty_reply_is_followed_by_the_next_model_where_that_is_asked_for(on, said):
    models = Fallback(model(ModelResponse()), model("Hi.", name="b"), on=on)
    assert (await models.call("?")).content == said
