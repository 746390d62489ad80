"""Calling models of every kind, as a user would write it; checked, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import assert_type

from upshot.contract import ErrorCode, ModelResponse, ToolCall
from upshot.models import (
    FALLBACK_CODES,
    PROVIDERS,
    AiohttpTransport,
    Answered,
    ApiKey,
    Endpoint,
    Fallback,
    HttpModel,
    Model,
    OnRetry,
    Price,
    Prices,
    Provider,
    Reply,
    ReplyLimits,
    Retry,
    ScriptedModel,
    ScriptItem,
    SettingFields,
    Timeouts,
    Transport,
    TransportError,
    aclose_transports,
    call_with_retry,
    decode_body,
    default_transport,
    missing_key,
    name_of,
    open_script,
    resolve,
)


async def rotated() -> str:
    return "made-up"


KEY: ApiKey = rotated
WARM: SettingFields = {"temperature": 0.7, "stop": ("END",)}
FIRST: Reply = ToolCall("c1", "search", {})
SECOND: ScriptItem = "Found."
SMALL = ReplyLimits(reply_bytes=10_000, error_bytes=1_000, line_bytes=1_000)
UNPLUGGED = TransportError("unplugged", phase="unsent", kind="refused", limit=None, reused=False)


class Recorded:
    """A transport of the user's own."""

    def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, *, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Answered]:
        print(method, url, headers, body, timeouts.read_s)
        return self._answer()

    @asynccontextmanager
    async def _answer(self) -> AsyncGenerator[Answered]:
        yield 200, [("content-type", "application/json")], self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        yield b"{}"


async def asking() -> None:
    own = Prices({"openai:ours": Price(input_per_mtok=1, output_per_mtok=0.5)})
    transport: Transport = Recorded()
    model = resolve("groq:llama", api_key=KEY, prices=own, transport=transport, **WARM)
    assert_type(model, Model)
    both: Model = Fallback(model, "anthropic:claude", on=(*FALLBACK_CODES, "invalid_output"))
    assert_type(await both.call("Hello"), ModelResponse)
    assert_type(missing_key(both), str | None)
    assert_type(name_of(both), str)
    scripted = ScriptedModel([FIRST, SECOND, [ToolCall("c2", "search", "{}")]])
    scripted.assert_finished()
    assert_type(open_script("replies.json"), ScriptedModel)
    await aclose_transports()


async def _pieces() -> AsyncIterator[bytes]:
    yield b""


def own_server() -> Model:
    provider = Provider("ours", "http://localhost:8000/v1")
    assert_type(PROVIDERS["openai"], Provider)
    endpoint = Endpoint(provider, api_key=KEY)
    transport = AiohttpTransport(proxy="http://localhost:3128")
    assert_type(default_transport(), AiohttpTransport)
    assert_type(decode_body(_pieces(), "gzip"), AsyncIterator[bytes])
    return HttpModel("small", endpoint, transport=transport, timeouts=Timeouts(read_s=5))


async def again(model: Model) -> None:
    def told(attempt: int, wait_s: float, response: ModelResponse) -> None:
        if response.error is not None:
            assert_type(response.error.code, ErrorCode)
        print(attempt, wait_s)

    listener: OnRetry = told
    response, tries = await call_with_retry(
        lambda: model.call("Hello"), Retry(max_tries=2), on_retry=listener
    )
    assert_type(response, ModelResponse)
    assert_type(tries, int)
