"""Models that AISuite asks, with a client in its place."""

from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from tests.models.completion import USAGE, Stream, chunk, completion, to_object
from upshot.contract import Message, ModelRequest, TextDelta, ToolCallDelta, ToolSpec
from upshot.errors import Misuse
from upshot.models import Price, missing_key, resolve
from upshot.models.library_models import AISuiteModel


class LLMError(Exception):
    """As AISuite wraps whatever an SDK raises."""


class FakeClient:
    """The part of ``aisuite.Client`` that is used."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []
        self.chat = SimpleNamespace(completions=self)

    async def acreate(self, **arguments):
        self.asked.append(arguments)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def made(*replies, name="openai:gpt-4o", **options):
    client = FakeClient(*replies)
    return AISuiteModel(name, client=client, **options), client


async def ask(reply, request="hi", **options):
    model, client = made(reply, **options)
    return await model.call(request), client.asked[0]


async def stream(*replies, **options):
    model, client = made(*replies, **options)
    return [item async for item in model.stream("hi")], client


def plain(usage=None):
    """A reply of AISuite's own class, which is no pydantic model."""
    message = {"content": "hello", "role": "assistant", "tool_calls": None, "refusal": None}
    choice = {"finish_reason": None, "message": message}
    return to_object({"choices": [choice], "usage": usage})


async def test_a_reply_becomes_a_response():
    response, asked = await ask(completion())
    assert (response.content, response.usage.total_tokens) == ("hello", 15)
    data = response.provider_data
    assert (data["provider"], data["model"], data["library"]) == ("openai", "gpt-4o", "aisuite")
    assert asked == {"model": "openai:gpt-4o", "messages": [{"role": "user", "content": "hi"}]}


async def test_what_is_not_told_is_none_and_listed():
    response, _ = await ask(plain(), name="groq:llama")
    assert (response.content, response.cost, response.finish_reason) == ("hello", None, None)
    assert (response.usage.input_tokens, response.usage.unmeasured_calls) == (None, 1)
    assert response.provider_data["unknown"] == [
        "finish_reason", "rate_limit", "cost", "input_tokens", "output_tokens",
        "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
    ]  # fmt: skip
    assert response.provider_data["model"] == "llama"


async def test_anthropics_cache_is_put_back_into_the_prompt():
    cache = {"cached_tokens": 7, "cache_creation_tokens": 20}
    usage = USAGE | {"prompt_tokens_details": cache}
    response, _ = await ask(plain(usage), name="anthropic:claude")
    assert (response.usage.input_tokens, response.usage.total_tokens) == (37, 42)
    assert (await ask(plain(usage), name="openai:m"))[0].usage.input_tokens == 10


async def test_a_prompt_is_of_unknown_length_where_writes_to_the_cache_are_not_told():
    usage = USAGE | {"prompt_tokens_details": {"cached_tokens": 7}}
    response, _ = await ask(plain(usage), name="anthropic:claude")
    assert (response.usage.input_tokens, response.usage.total_tokens) == (None, None)
    assert (response.usage.output_tokens, response.usage.cache_read_tokens) == (5, 7)
    assert "input_tokens" in response.provider_data["unknown"]
    assert (await ask(plain(USAGE), name="anthropic:claude"))[0].usage.input_tokens == 10


async def test_an_own_price_makes_a_cost():
    prices = {"aisuite:openai:gpt-4o": Price(input_per_mtok=100_000, output_per_mtok=200_000)}
    response, _ = await ask(completion(), prices=prices)
    assert response.cost.total == 2
    assert "cost" not in response.provider_data["unknown"]
    assert made(prices=prices)[0].priced
    assert not made()[0].priced


async def test_tools_have_what_aisuite_looks_for():
    request = ModelRequest([Message("user", "hi")], tools=(ToolSpec(name="f"),))
    _, asked = await ask(completion(), request)
    assert asked["tools"][0]["function"] == {
        "name": "f",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    }


@pytest.mark.parametrize(("name", "sent"), [("openai:m", True), ("anthropic:m", False)])
async def test_a_schema_is_sent_or_told(name, sent):
    request = ModelRequest([Message("user", "hi")], output_schema={"type": "object"})
    response, asked = await ask(completion('{"a": 1}'), request, name=name)
    assert response.output == {"a": 1}
    assert ("response_format" in asked) is sent
    assert (asked["messages"][0]["role"] == "system") is not sent


@pytest.mark.parametrize(("name", "sent"), [("openai:m", True), ("anthropic:m", False)])
async def test_a_stream_gives_deltas_and_then_the_response(name, sent):
    inner = Stream(chunk("hel"), chunk("lo"), chunk(finish="stop", usage=USAGE))
    (*deltas, last), client = await stream(inner, name=name)
    assert deltas == [TextDelta(text="hel"), TextDelta(text="lo")]
    assert (last.content, last.usage.total_tokens) == ("hello", 15)
    assert client.asked[0]["stream"] is True
    assert ("stream_options" in client.asked[0]) is sent


async def test_a_provider_that_cannot_stream_is_called():
    refusal = LLMError("GroqProvider does not support streaming chat completions.")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    (*deltas, last), client = await stream(
        Stream(refusal), completion(tool_calls=[call]), name="groq:m"
    )
    assert deltas == [
        TextDelta(text="hello"),
        ToolCallDelta(index=0, call_id="c", name="f", arguments='{"a":1}'),
    ]
    assert (last.content, last.error) == ("hello", None)
    assert ["stream" in asked for asked in client.asked] == [True, False]


async def test_what_aisuite_wraps_is_seen():
    class Refused(Exception):
        status_code = 429
        response = SimpleNamespace(headers={"retry-after": "3"}, content=b"")

    outer = LLMError("An error occurred: too many requests")
    outer.__context__ = Refused("too many requests")
    response, _ = await ask(outer)
    assert (response.error.code, response.error.status_code) == ("rate_limit", 429)
    assert response.error.retry_after_s == 3


async def test_a_client_is_made_with_what_was_given():
    class Module:
        def __init__(self):
            self.configs = []

        def Client(self, configs):
            self.configs.append(configs)
            return FakeClient(completion())

    module = Module()
    model = AISuiteModel("openai:m", api_key="k", base_url="http://here", module=module)
    assert module.configs == []
    assert (await model.call("hi")).content == "hello"
    # The SDK's retries would multiply with upshot's.
    assert module.configs == [
        {"openai": {"api_key": "k", "base_url": "http://here", "max_retries": 0}}
    ]


def test_no_key_is_asked_for_beforehand():
    assert missing_key(made()[0]) is None


@pytest.mark.parametrize("name", ["gpt-4o", ":gpt-4o"])
def test_a_name_without_a_provider_is_misuse(name):
    with pytest.raises(Misuse, match="aisuite:provider:model"):
        AISuiteModel(name, client=FakeClient())


@pytest.mark.skipif(find_spec("aisuite") is not None, reason="aisuite is installed here")
def test_without_the_package_a_sentence_says_what_to_install():
    with pytest.raises(
        Misuse, match=r"aisuite needs an extra: pip install 'upshot-agents\[aisuite\]'"
    ):
        resolve("aisuite:openai:gpt-4o")


@pytest.mark.parametrize("option", [{"headers": {"a": "b"}}, {"api_key": lambda: "k"}])
def test_what_aisuite_cannot_take_is_misuse(option):
    with pytest.raises(Misuse, match="accepts no headers"):
        resolve("aisuite:openai:gpt-4o", **option)
