"""Models that LiteLLM asks, with a module in its place."""

import asyncio
from decimal import Decimal
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from tests.models.completion import USAGE, Stream, chunk, completion
from upshot.contract import (
    Message,
    ModelRequest,
    ModelSettings,
    Reasoning,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from upshot.errors import Misuse
from upshot.flat import FlatAgent
from upshot.models import Price, Prices, Timeouts, missing_key, resolve
from upshot.models.library_models import LiteLLMModel


class RateLimitError(Exception):
    """As LiteLLM makes it."""

    status_code = 429
    litellm_response_headers = {
        "retry-after": "7",
        "llm_provider-x-ratelimit-limit-requests": "50",
        "llm_provider-x-ratelimit-remaining-requests": "0",
    }


class FakeLiteLLM:
    """The part of the module that is used; plays replies and keeps what it was asked."""

    def __init__(self, *replies, missing=(), costs=None):
        self.replies = list(replies)
        self.asked = []
        self.missing = missing
        self.costs = costs

    async def acompletion(self, **arguments):
        self.asked.append(arguments)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def get_llm_provider(self, model):
        if model == "gpt-5":
            return model, "openai", None, None
        if "/" not in model:
            raise ValueError("LLM Provider NOT provided")
        return model.partition("/")[2], model.partition("/")[0], None, None

    def validate_environment(self, model):
        return {"keys_in_environment": not self.missing, "missing_keys": list(self.missing)}

    def get_model_info(self, model):
        if self.costs is None:
            raise KeyError("This model isn't mapped yet")
        return self.costs


def made(*replies, name="openai/gpt-4o", missing=(), costs=None, **options):
    module = FakeLiteLLM(*replies, missing=missing, costs=costs)
    return LiteLLMModel(name, module=module, **options), module


async def ask(reply, request="hi", **options):
    model, module = made(reply, **options)
    return await model.call(request), module.asked[0]


async def stream(*items, hidden=None, **options):
    model, module = made(Stream(*items, hidden=hidden), **options)
    return [item async for item in model.stream("hi")], module


async def test_a_reply_becomes_a_response():
    response, _ = await ask(completion(hidden={"custom_llm_provider": "openai"}))
    assert (response.content, response.finish_reason) == ("hello", "stop")
    assert (response.usage.input_tokens, response.usage.output_tokens) == (10, 5)
    data = response.provider_data
    assert (data["provider"], data["model"], data["library"]) == ("openai", "gpt-4o", "litellm")


async def test_a_request_is_put_as_chat_completions():
    request = ModelRequest(
        [Message("user", "hi")],
        system="be brief",
        tools=(ToolSpec(name="f"),),
        settings=ModelSettings(temperature=1, reasoning="low", extra={"drop_params": True}),
    )
    _, asked = await ask(completion(), request, settings=ModelSettings(temperature=0, seed=7))
    assert asked == {
        "model": "openai/gpt-4o",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "temperature": 1,
        "seed": 7,
        "reasoning_effort": "low",
        "drop_params": True,
        "max_retries": 0,
    }


async def test_what_is_given_is_handed_on():
    async def key():
        return "k"

    _, asked = await ask(
        completion(),
        api_key=key,
        base_url="http://here",
        headers={"x-mine": "1"},
        timeouts=Timeouts(total_s=9),
    )
    assert (asked["api_key"], asked["api_base"], asked["timeout"]) == ("k", "http://here", 9)
    assert asked["extra_headers"] == {"x-mine": "1"}


@pytest.mark.parametrize("key", ["a-secret-key", lambda: "a-secret-key"], ids=["text", "function"])
async def test_an_error_repeats_no_key_header_or_credential_of_the_address(key):
    said = ConnectionError("http://me:b-secret@here refused a-secret-key and c-secret")
    given = {"base_url": "http://me:b-secret@here/v1", "headers": {"x-mine": "c-secret"}}
    response, _ = await ask(said, api_key=key, **given)
    assert "refused *** and ***" in response.error.message
    assert "secret" not in repr(response.error) + repr(response.provider_data)


async def test_limits_are_read_from_the_providers_headers():
    headers = {
        "llm_provider-x-ratelimit-limit-requests": "50",
        "llm_provider-x-ratelimit-remaining-requests": "49",
        "llm_provider-x-request-id": "q-1",
    }
    response, _ = await ask(completion(hidden={"additional_headers": headers}))
    (window,) = response.rate_limit.windows
    assert (window.limit, window.remaining) == (50, 49)
    assert response.provider_data["request_id"] == "q-1"


HIDDEN = {"response_cost": 0.00025}


async def test_litellms_cost_is_an_estimate_of_its_own():
    cost = (await ask(completion(hidden=HIDDEN)))[0].cost
    assert (cost.total, cost.source, cost.estimated) == (Decimal("0.00025"), "litellm", True)


CACHED = USAGE | {"prompt_tokens_details": {"cached_tokens": 4, "cache_creation_tokens": 2}}
CACHE_COSTS = {
    "input_cost_per_token": 1e-05,
    "output_cost_per_token": 3e-05,
    "cache_read_input_token_cost": 1e-06,
    "cache_creation_input_token_cost": 1.25e-05,
}


@pytest.mark.parametrize(
    ("usage", "total", "parts"),
    [
        (USAGE, 10 * 1e-05 + 5 * 3e-05, ("0.0001", "0.00015", None, None)),
        (CACHED, 0.000219, ("0.00004", "0.00015", "0.000004", "0.000025")),
        # Tools, tiers and further charges, of which only the library knows.
        (USAGE, 0.5, (None, None, None, None)),
    ],
    ids=["plain", "cached", "with more than tokens"],
)
async def test_litellms_cost_has_parts_where_its_prices_add_up_to_it(usage, total, parts):
    reply = completion(usage=usage, hidden=HIDDEN | {"response_cost": total})
    cost = (await ask(reply, costs=CACHE_COSTS))[0].cost
    wanted = tuple(None if part is None else Decimal(part) for part in parts)
    assert (cost.input, cost.output, cost.cache_read, cost.cache_write) == wanted
    known = [part for part in wanted if part is not None]
    assert cost.total == (sum(known) if known else Decimal("0.5"))
    assert (cost.source, cost.estimated) == ("litellm", True)


async def test_a_flat_agent_names_the_provider_behind_litellm():
    agent = FlatAgent(made(name="anthropic/claude-x")[0])
    assert (agent.provider, agent.model) == ("anthropic", "claude-x")
    assert FlatAgent(made(name="gpt-5")[0]).provider == "openai"


async def test_an_own_price_wins_over_litellms_estimate():
    prices = {"litellm:openai/gpt-4o": Price(input_per_mtok=1, output_per_mtok=1)}
    assert (await ask(completion(hidden=HIDDEN), prices=prices))[0].cost.source == "own"
    assert (await ask(completion(), prices=Prices(only=True)))[0].cost is None


async def test_a_stream_gives_deltas_and_then_the_response():
    usage = USAGE | {"cost": 0.5}
    (*deltas, last), module = await stream(
        chunk("hel"), chunk("lo"), chunk(finish="stop"), chunk(usage=usage), hidden={"_": 1}
    )
    assert deltas == [TextDelta(text="hel"), TextDelta(text="lo")]
    assert (last.content, last.finish_reason) == ("hello", "stop")
    assert (last.usage.total_tokens, last.provider_data["provider"]) == (15, "openai")
    # LiteLLM puts its own estimate where providers report theirs.
    assert (last.cost.total, last.cost.source, last.cost.estimated) == (0.5, "litellm", True)
    assert module.asked[0]["stream"] is True


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
HIDDEN_THOUGHT = {"type": "redacted_thinking", "data": "d"}
THOUGHTS = (
    Reasoning(text="hm", signature="s", provider="anthropic"),
    Reasoning(signature="d", provider="anthropic", redacted=True),
)


async def test_thoughts_are_kept_with_their_signatures():
    blocks = [THINKING, HIDDEN_THOUGHT]
    response, _ = await ask(completion(thinking_blocks=blocks), name="anthropic/claude")
    assert response.reasoning == THOUGHTS


async def test_thoughts_of_a_stream_are_put_together():
    (first, *_, last), _ = await stream(
        chunk("", reasoning_content="h", thinking_blocks=[{"type": "thinking", "thinking": "h"}]),
        chunk("", reasoning_content="m", thinking_blocks=[{"type": "thinking", "thinking": "m"}]),
        chunk("", thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "s"}]),
        chunk("", thinking_blocks=[HIDDEN_THOUGHT]),
        chunk("", thinking_blocks=[{"type": "thinking", "thinking": "and"}]),
        chunk(finish="stop"),
        name="anthropic/claude",
    )
    assert first == ReasoningDelta(text="h")
    assert last.reasoning == (*THOUGHTS, Reasoning(text="and", provider="anthropic"))


@pytest.mark.parametrize(
    ("name", "sent"),
    [("anthropic/claude", [THINKING, HIDDEN_THOUGHT]), ("openai/gpt-4o", None)],
)
async def test_thoughts_go_back_to_their_provider(name, sent):
    talk = [
        Message("user", "a"),
        Message("assistant", THOUGHTS, tool_calls=(ToolCall("t" * 90, "f"),)),
        Message("tool", "7", tool_call_id="t" * 90),
    ]
    _, asked = await ask(completion(), ModelRequest(talk, system="s"), name=name)
    said = asked["messages"][2]
    assert said.get("thinking_blocks") == sent
    # LiteLLM keeps signatures of Gemini in the ids, which are long then.
    assert said["tool_calls"][0]["id"] == asked["messages"][3]["tool_call_id"] == "t" * 90


async def test_an_exception_is_an_error_with_its_headers():
    response, _ = await ask(RateLimitError("litellm.RateLimitError: slow down"))
    error = response.error
    assert (error.code, error.status_code, error.retry_after_s) == ("rate_limit", 429, 7)
    assert (response.rate_limit.limited, response.finish_reason) == (True, "error")
    assert response.provider_data["provider"] == "openai"
    assert response.usage.api_calls == 1


async def test_a_stream_that_fails_keeps_what_came():
    (delta, last), _ = await stream(chunk("hel"), RateLimitError("slow down"))
    assert delta == TextDelta(text="hel")
    assert (last.content, last.error.code, last.finish_reason) == ("hel", "rate_limit", "error")


async def test_a_stream_without_a_finish_was_cut():
    (_, last), _ = await stream(chunk("hel"))
    assert (last.content, last.error.code, last.error.retryable) == ("hel", "server_error", True)


async def test_a_stream_left_early_is_closed():
    inner = Stream(chunk("a"), chunk("b"))
    model, _ = made(inner)
    items = model.stream("hi")
    async for _ in items:
        break
    await items.aclose()
    assert inner.closed


async def test_a_key_that_is_missing_is_named():
    model, _ = made(
        ConnectionError("Missing credentials. Please pass an `api_key`"), missing=["X_API_KEY"]
    )
    response = await model.call("hi")
    assert (response.error.code, response.error.retryable) == ("auth_error", False)
    assert "set X_API_KEY" in response.error.message
    assert missing_key(model) == "X_API_KEY"
    assert missing_key(made(missing=["X_API_KEY"], api_key="k")[0]) is None
    assert missing_key(made(missing=["OLLAMA_API_BASE"])[0]) is None


async def test_a_cancellation_passes_through():
    model, _ = made(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await model.call("hi")


async def test_a_model_that_litellm_does_not_know_is_asked_all_the_same():
    response, asked = await ask(completion(), name="gpt-4o")
    assert (response.content, asked["model"]) == ("hello", "gpt-4o")


def test_it_is_priced_where_litellm_knows_a_price():
    assert made(costs={"input_cost_per_token": 0.001})[0].priced
    assert not made(name="nobody/knows")[0].priced


async def test_a_schema_makes_the_text_an_output():
    request = ModelRequest([Message("user", "hi")], output_schema={"type": "object"})
    response, asked = await ask(completion('{"a": 1}'), request)
    assert response.output == {"a": 1}
    assert asked["response_format"]["type"] == "json_schema"


async def test_an_object_of_any_shape_is_a_response_or_an_error():
    for reply in (None, 7, SimpleNamespace(choices=[None]), Stream()):
        assert (await ask(reply))[0].error.code == "server_error"


@pytest.mark.skipif(find_spec("litellm") is not None, reason="litellm is installed here")
def test_without_the_package_a_sentence_says_what_to_install():
    with pytest.raises(
        Misuse, match=r"litellm needs an extra: pip install 'upshot-agents\[litellm\]'"
    ):
        resolve("litellm:openai/gpt-4o")


def test_a_transport_of_upshot_is_of_no_use():
    with pytest.raises(Misuse, match="its own transport"):
        resolve("litellm:openai/gpt-4o", transport=object())
