"""HttpModel against a server that answers with exact bytes."""

import asyncio
import json
import zlib
from contextlib import asynccontextmanager

import pytest

from upshot.contract import (
    ErrorCode,
    FinishReason,
    Message,
    MessageList,
    ModelRequest,
    ModelSettings,
    TextDelta,
    ToolSpec,
    Usage,
)
from upshot.errors import Misuse
from upshot.models import (
    AiohttpTransport,
    Price,
    ReplyLimits,
    Timeouts,
    aclose_transports,
    resolve,
)
from upshot.testing.doubles import FakeClock

KEY = "a-very-secret-key"
CHAT = {
    "model": "m-1",
    "choices": [{"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
MESSAGES = {
    "model": "c-1",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
EVENTS = {"content-type": "text/event-stream"}


def sse(*documents, done=True) -> bytes:
    lines = [f"data: {json.dumps(document)}\n\n" for document in documents]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def piece(text, finish=None):
    return {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}


def failed(message, code=None):
    return {"error": {"message": message, "code": code}}


@pytest.fixture(autouse=True)
async def closed_transports():
    yield
    await aclose_transports()


async def ask(server, name="openai:m", request="hi", **options):
    return await resolve(name, base_url=server.url, **options).call(request)


async def test_a_chat_reply_becomes_a_response(serve, http_reply):
    async with serve(http_reply(CHAT, headers={"x-request-id": "r-1"})) as server:
        response = await ask(server)
    assert (response.content, response.finish_reason) == ("hello", FinishReason.STOP)
    assert response.usage.total_tokens == 5
    data = response.provider_data
    assert (data["provider"], data["model"], data["request_id"]) == ("openai", "m-1", "r-1")


async def test_a_chat_request_is_sent_to_its_path_with_its_key(serve, http_reply):
    async with serve(http_reply(CHAT)) as server:
        await ask(server, api_key=KEY, temperature=0.5, headers={"x-mine": "1"})
    asked = server.asked[0]
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert (asked.headers["authorization"], asked.headers["x-mine"]) == (f"Bearer {KEY}", "1")
    assert asked.headers["content-type"] == "application/json"
    assert asked.json() == {
        "model": "m",
        "temperature": 0.5,
        "messages": [{"role": "user", "content": "hi"}],
    }


async def test_a_messages_request_has_its_own_path_and_headers(serve, http_reply):
    async with serve(http_reply(MESSAGES)) as server:
        response = await ask(server, "anthropic:claude-sonnet-4-5", api_key=KEY)
    asked = server.asked[0]
    assert asked.line == "POST /v1/messages HTTP/1.1"
    assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in asked.headers
    assert response.content == "hello"


RESPONSES = {
    "model": "o-1",
    "status": "completed",
    "output": [
        {"type": "reasoning", "id": "rs-1", "summary": [], "encrypted_content": "secret"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hello"}],
        },
    ],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}
GENERATE = {
    "modelVersion": "g-1",
    "candidates": [{"content": {"parts": [{"text": "hello"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
}


async def test_a_responses_request_has_its_own_path_and_form(serve, http_reply):
    async with serve(http_reply(RESPONSES)) as server:
        response = await ask(server, "openai-responses:m", api_key=KEY, prices=PRICES)
    asked = server.asked[0]
    assert asked.line == "POST /v1/responses HTTP/1.1"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json()["input"] == [{"role": "user", "content": "hi"}]
    assert (response.content, response.finish_reason) == ("hello", "stop")
    # It is the same model at the same price, whatever the surface.
    assert (response.cost.total, response.provider_data["provider"]) == (7, "openai")


async def test_thoughts_of_responses_go_back_to_it(serve, http_reply):
    async with serve([http_reply(RESPONSES), http_reply(RESPONSES)]) as server:
        model = resolve("openai-responses:m", base_url=server.url)
        first = await model.call("hi")
        await model.call([Message("user", "hi"), first.to_message(), Message("user", "so?")])
    thought = server.asked[1].json()["input"][1]
    assert (thought["type"], thought["encrypted_content"]) == ("reasoning", "secret")


async def test_a_stream_of_responses_gives_deltas_and_then_the_response(serve, http_reply):
    body = sse(
        {"type": "response.output_item.added", "output_index": 0,
         "item": {"type": "message", "role": "assistant", "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
         "delta": "hello"},
        {"type": "response.completed", "response": RESPONSES},
        done=False,
    )  # fmt: skip
    async with serve(http_reply(body, headers=EVENTS)) as server:
        stream = resolve("openai-responses:m", base_url=server.url).stream("hi")
        *deltas, last = [item async for item in stream]
    assert deltas == [last.usage, TextDelta(text="hello")]
    assert (last.content, last.usage.total_tokens, last.error) == ("hello", 5, None)


async def test_a_gemini_request_names_its_model_in_the_path(serve, http_reply):
    async with serve(http_reply(GENERATE)) as server:
        response = await ask(server, "gemini:g-1", api_key=KEY, temperature=0.5)
    asked = server.asked[0]
    assert asked.line == "POST /v1beta/models/g-1:generateContent HTTP/1.1"
    assert asked.headers["x-goog-api-key"] == KEY
    assert "authorization" not in asked.headers
    assert asked.json() == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"temperature": 0.5},
    }
    assert (response.content, response.usage.total_tokens) == ("hello", 5)
    assert response.provider_data["provider"] == "google"


async def test_a_stream_of_gemini_has_its_own_path(serve, http_reply):
    first = {"candidates": [{"content": {"parts": [{"text": "hel"}]}}]}
    last = {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}]}
    async with serve(http_reply(sse(first, GENERATE | last, done=False), headers=EVENTS)) as server:
        stream = resolve("google:g-1", base_url=server.url).stream("hi")
        *deltas, last = [item async for item in stream]
    assert server.asked[0].line == "POST /v1beta/models/g-1:streamGenerateContent?alt=sse HTTP/1.1"
    # Where the usage stands depends on how the network cuts the stream.
    assert [one for one in deltas if one != last.usage] == [
        TextDelta(text="hel"),
        TextDelta(text="lo"),
    ]
    assert last.usage in deltas
    assert (last.content, last.finish_reason, last.error) == ("hello", "stop", None)


async def test_a_stream_of_gemini_that_ends_too_early_is_an_error(serve, http_reply):
    piece_ = {"candidates": [{"content": {"parts": [{"text": "hel"}]}}]}
    async with serve(http_reply(sse(piece_, done=False), headers=EVENTS)) as server:
        response = await ask(server, "google:g-1")
    assert (response.content, response.finish_reason) == ("hel", None)
    assert (response.error.code, response.error.retryable) == (ErrorCode.SERVER_ERROR, True)


async def test_vertex_takes_a_token_from_a_function(serve, http_reply):
    async with serve(http_reply(GENERATE)) as server:
        model = resolve("vertex:g-1", base_url=f"{server.url}/v1/projects/p", api_key=lambda: KEY)
        response = await model.call("hi")
    asked = server.asked[0]
    assert asked.line == "POST /v1/projects/p/models/g-1:generateContent HTTP/1.1"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert response.content == "hello"


async def test_a_bad_key_that_gemini_refuses_is_an_auth_error(serve, http_reply):
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    refusal = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
                         "details": details}}  # fmt: skip
    async with serve(http_reply(refusal, status=400)) as server:
        error = (await ask(server, "google:g-1", api_key=KEY)).error
    assert (error.code, error.status_code, error.retryable) == ("auth_error", 400, False)
    assert "check the api_key" in error.message


async def test_settings_of_the_request_win(serve, http_reply):
    request = ModelRequest([Message("user", "hi")], settings=ModelSettings(temperature=1))
    async with serve(http_reply(CHAT)) as server:
        await ask(server, request=request, temperature=0, seed=7)
    sent = server.asked[0].json()
    assert (sent["temperature"], sent["seed"]) == (1, 7)


PRICES = {"openai:m": Price(input_per_mtok=1_000_000, output_per_mtok=2_000_000)}


async def test_a_reply_has_a_cost(serve, http_reply):
    async with serve(http_reply(CHAT)) as server:
        response = await ask(server, prices=PRICES)
    assert (response.cost.input, response.cost.output, response.cost.total) == (3, 4, 7)
    assert response.usage.cost is response.cost


async def test_a_stream_has_a_cost(serve, http_reply):
    body = sse(piece("a", "stop"), {"choices": [], "usage": CHAT["usage"]})
    async with serve(http_reply(body, headers=EVENTS)) as server:
        model = resolve("openai:m", base_url=server.url, prices=PRICES)
        *_, response = [item async for item in model.stream("hi")]
    assert response.cost.total == 7


async def test_a_failure_that_used_tokens_has_a_cost(serve, http_reply):
    async with serve(http_reply(CHAT | failed("upstream broke"))) as server:
        response = await ask(server, prices=PRICES)
    assert (response.success, response.cost.total) == (False, 7)


async def test_a_refused_request_costs_nothing_that_is_known(serve, http_reply):
    async with serve(http_reply(failed("no"), status=429)) as server:
        assert (await ask(server, prices=PRICES)).cost is None


@pytest.mark.parametrize(
    ("name", "prices", "priced"),
    [
        ("openai:m", PRICES, True),
        ("openai:gpt-4o", None, True),
        ("openai:nobody-knows", None, False),
        ("vllm:gpt-4o", None, False),
        ("openrouter:nobody/knows", None, True),
    ],
)
def test_a_model_says_whether_its_cost_will_be_known(name, prices, priced):
    assert resolve(name, prices=prices).priced is priced


async def test_a_schema_makes_the_text_an_output(serve, http_reply):
    request = ModelRequest([Message("user", "hi")], output_schema={"type": "object"})
    answer = {"choices": [{"message": {"content": '```json\n{"a": 1}\n```'}}]}
    async with serve(http_reply(answer)) as server:
        response = await ask(server, request=request)
    assert response.output == {"a": 1}


async def test_a_conversation_is_encoded_once(serve, http_reply):
    talk = MessageList([Message("user", "one")])
    async with serve(http_reply(CHAT)) as server:
        model = resolve("openai:m", base_url=server.url)
        await model.call(talk)
        (kept,) = talk.encoded.values()
        talk.append(Message("assistant", "two"))
        await model.call(ModelRequest(talk, tools=(ToolSpec(name="t"),)))
    assert list(talk.encoded.values()) == [kept]
    assert [len(asked.json()["messages"]) for asked in server.asked] == [1, 2]
    assert server.asked[1].json()["messages"][1] == {"role": "assistant", "content": "two"}


async def test_a_conversation_as_it_was_is_sent_as_it_was(serve, http_reply):
    talk = MessageList([Message("user", "one")])
    earlier = talk.so_far()
    talk.append(Message("assistant", "two"))
    async with serve(http_reply(CHAT)) as server:
        model = resolve("openai:m", base_url=server.url)
        await model.call(talk)
        (made,) = talk.encoded.values()
        for said in (earlier, talk.so_far()):
            await model.call(said)
    assert [len(asked.json()["messages"]) for asked in server.asked] == [2, 1, 2]
    # What the longer one is made of goes on to serve.
    assert [*talk.encoded.values()] == [made]


async def test_one_conversation_can_be_put_to_two_providers(serve, http_reply):
    talk = MessageList([Message("user", "one")])
    async with serve([http_reply(CHAT), http_reply(MESSAGES)]) as server:
        replies = [await ask(server, name, talk) for name in ("openai:m", "anthropic:claude")]
    assert [reply.content for reply in replies] == ["hello", "hello"]
    assert len(talk.encoded) == 2


async def test_a_stream_gives_deltas_and_then_the_response(serve, http_reply):
    body = sse(piece("hel"), piece("lo"), piece("", "stop"))
    async with serve(http_reply(body, headers=EVENTS)) as server:
        stream = resolve("openai:m", base_url=server.url).stream("hi")
        *deltas, last = [item async for item in stream]
    assert deltas == [TextDelta(text="hel"), TextDelta(text="lo")]
    assert (last.content, last.finish_reason) == ("hello", FinishReason.STOP)
    assert server.asked[0].json()["stream"] is True


async def test_a_stream_that_breaks_off_keeps_its_text_and_is_an_error(serve, http_reply):
    async def answer(asked, writer):
        writer.write(http_reply(sse(piece("hel"), done=False), headers=EVENTS, length=10_000))
        await writer.drain()
        writer.close()

    async with serve(answer) as server:
        stream = resolve("openai:m", base_url=server.url).stream("hi")
        *_, last = [item async for item in stream]
    assert (last.content, last.error.code) == ("hel", ErrorCode.SERVER_ERROR)
    assert last.error.retryable
    assert "broke off" in last.error.message


@pytest.mark.parametrize("streams", [False, True])
async def test_a_reply_with_its_finish_reason_survives_a_reset_before_its_end_mark(
    serve, http_reply, streams
):
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    told = sse(piece("all"), piece("", "stop"), {"choices": [], "usage": usage}, done=False)

    async def answer(asked, writer):
        if streams:
            writer.write(http_reply(told, headers=EVENTS, length=10_000))
        else:
            writer.write(http_reply(CHAT, length=10_000))
        await writer.drain()
        writer.transport.abort()

    async with serve(answer) as server:
        model = resolve("openai:m", base_url=server.url)
        response = await (last_of(model) if streams else model.call("hi"))
    assert (response.error, response.finish_reason) == (None, FinishReason.STOP)
    assert response.content == ("all" if streams else "hello")
    assert not streams or response.usage.total_tokens == 5


async def test_a_reply_that_was_over_survives_what_breaks_after_it(serve, http_reply):
    async def answer(asked, writer):
        writer.write(http_reply(sse(piece("all", "stop")), headers=EVENTS, length=10_000))
        await writer.drain()
        writer.close()

    async with serve(answer) as server:
        response = await ask(server)
    assert (response.content, response.error) == ("all", None)


async def test_a_stream_that_ends_too_early_is_an_error(serve, http_reply):
    async with serve(http_reply(sse(piece("hel"), done=False), headers=EVENTS)) as server:
        response = await ask(server)
    assert (response.content, response.finish_reason) == ("hel", None)
    assert response.error is not None
    assert response.error.retryable


async def test_leaving_a_stream_frees_its_connection(serve):
    gone = asyncio.Event()

    async def answer(asked, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        while not writer.is_closing():
            writer.write(sse(piece("x"), done=False))
            try:
                await writer.drain()
            except ConnectionError:
                break
            await asyncio.sleep(0.001)
        gone.set()

    async with serve(answer) as server, asyncio.timeout(60):
        stream = resolve("openai:m", base_url=server.url).stream("hi")
        assert await anext(stream) == TextDelta(text="x")
        await stream.aclose()
        await gone.wait()


async def test_an_error_reply_is_an_error_value(serve, http_reply):
    reply = http_reply(failed("slow down"), status=429, headers={"retry-after": "3"})
    async with serve(reply) as server:
        response = await ask(server)
    error = response.error
    assert error is not None
    assert (error.code, error.status_code, error.retry_after_s) == (ErrorCode.RATE_LIMIT, 429, 3)
    assert response.rate_limit is not None
    assert response.rate_limit.limited


async def test_a_wrong_key_says_which_variable_to_check_and_not_the_key(
    serve, http_reply, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with serve(http_reply(failed(f"bad key {KEY}."), status=401)) as server:
        response = await ask(server)
    assert response.error is not None
    assert response.error.code == ErrorCode.AUTH_ERROR
    assert "check OPENAI_API_KEY" in response.error.message
    assert KEY not in repr(response.error) + repr(response.provider_data)


@pytest.mark.parametrize("streams", [False, True])
async def test_an_error_repeats_no_header_and_no_credential_of_the_address(
    serve, http_reply, streams
):
    told = "Basic dXNlcjpwYXNz", "gateway-token-77", "query-token-88", "pa/ss-word"
    said = " ".join((*told, "query\\u002dtoken\\u002d88")).replace("/", "\\/")
    async with serve(http_reply(f'{{"error": "I got {said}"}}', status=500)) as server:
        address = server.url.replace("://", "://name:pa%2Fss-word@") + "/v1?token=query-token-88"
        headers = {"Proxy-Authorization": told[0], "x-gateway": told[1]}
        model = resolve("openai:m", base_url=address, api_key=KEY, headers=headers)
        if streams:
            response = [item async for item in model.stream("hi")][-1]
        else:
            response = await model.call("hi")
    shown = repr(response.error) + repr(response.provider_data)
    assert "I got ***" in shown
    assert not [one for one in (*told, "dXNlcjpwYXNz", "u002dtoken") if one in shown]


async def test_a_refused_request_without_a_key_says_how_to_give_one(serve, http_reply):
    async with serve(http_reply(failed("who are you?"), status=401)) as server:
        error = (await ask(server)).error
    assert error is not None
    assert "no key was sent: set OPENAI_API_KEY" in error.message


async def test_an_unknown_model_is_named(serve, http_reply):
    reply = http_reply(failed("The model `m` does not exist", "model_not_found"), status=404)
    async with serve(reply) as server:
        error = (await ask(server)).error
    assert error is not None
    assert error.code == ErrorCode.MODEL_UNAVAILABLE
    assert "check the name in 'openai:m'" in error.message


async def test_a_wrong_path_asks_about_the_base_url(serve, http_reply):
    async with serve(http_reply("<h1>Not Found</h1>", status=404)) as server:
        error = (await ask(server)).error
    assert error is not None
    assert f"{server.url}/v1/chat/completions was asked" in error.message


async def test_a_redirect_names_its_target(serve, http_reply):
    moved = http_reply("", status=308, headers={"Location": "https://new.example/v1"})
    async with serve(moved) as server:
        error = (await ask(server)).error
    assert error is not None
    assert "https://new.example/v1" in error.message
    assert not error.retryable


@pytest.mark.parametrize("body", ["", "<html>busy</html>", '{"choices": '])
async def test_a_reply_that_is_no_json_is_an_error(serve, http_reply, body):
    async with serve(http_reply(body, headers={"content-type": "application/json"})) as server:
        response = await ask(server)
    assert response.error is not None
    assert response.error.code == ErrorCode.SERVER_ERROR


async def test_a_server_that_is_not_there_is_named(refusing_url):
    error = (await resolve("openai:m", base_url=refusing_url).call("hi")).error
    assert error is not None
    assert error.message.startswith(
        f"cannot reach {refusing_url}/v1/chat/completions: connection refused"
    )
    assert "base_url" in error.message
    assert (error.code, error.retryable) == (ErrorCode.SERVER_ERROR, True)


async def test_a_silent_server_is_a_timeout_that_names_its_limit(serve):
    async def answer(asked, writer):
        await asyncio.Event().wait()

    async with serve(answer) as server:
        error = (await ask(server, timeouts=Timeouts(None, 0.03, None))).error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.TIMEOUT, True)
    assert "for 0.03 s; Timeouts(read_s=...)" in error.message


async def test_a_server_that_speaks_no_tls_is_said():
    async def answer(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        error = (await resolve("openai:m", base_url=url).call("hi")).error
    assert error is not None
    assert "uses https" in error.message


async def test_a_certificate_that_is_not_trusted_is_said_and_final(serve, http_reply):
    async with serve(http_reply(CHAT), tls=True) as server:
        error = (await ask(server)).error
    assert error is not None
    assert error.message.startswith(f"cannot trust {server.url}/v1")
    assert not error.retryable


async def test_a_transport_of_ones_own_may_raise_anything():
    class Broken:
        def send(self, *args, **kwargs):
            raise ZeroDivisionError("oops")

    model = resolve("openai:m", base_url="http://localhost", transport=Broken())
    error = (await model.call("hi")).error
    assert error is not None
    assert (error.code, error.type, error.retryable) == (
        ErrorCode.INTERNAL,
        "ZeroDivisionError",
        False,
    )


async def test_a_cancellation_passes_through(serve):
    async def answer(asked, writer):
        await asyncio.Event().wait()

    async with serve(answer) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await ask(server)


async def test_misuse_of_a_transport_passes_through():
    class Refusing:
        def send(self, *args, **kwargs):
            raise Misuse("not like this")

    model = resolve("openai:m", base_url="http://localhost", transport=Refusing())
    with pytest.raises(Misuse):
        await model.call("hi")


async def test_without_a_key_nothing_is_sent_and_the_variable_is_named():
    response = await resolve("openai:m").call("hi")
    assert response.error is not None
    assert response.error.code == ErrorCode.AUTH_ERROR
    assert "set OPENAI_API_KEY" in response.error.message
    assert (response.usage.api_calls, response.provider_data["model"]) == (0, "m")


async def test_a_stream_without_a_key_is_the_error_alone():
    (response,) = [item async for item in resolve("anthropic:claude").stream("hi")]
    assert "set ANTHROPIC_API_KEY" in response.error.message


async def test_a_function_is_asked_for_a_key_before_each_request(serve, http_reply):
    keys = iter(["first", "second"])

    async def fetch_key():
        return next(keys)

    async with serve(http_reply(CHAT)) as server:
        model = resolve("openai:m", base_url=server.url, api_key=fetch_key)
        await model.call("hi")
        await model.call("hi")
    assert [asked.headers["authorization"] for asked in server.asked] == [
        "Bearer first",
        "Bearer second",
    ]


@pytest.mark.parametrize(
    ("api_key", "said"),
    [(lambda: "", "returned no key"), (lambda: 1 / 0, "raised ZeroDivisionError")],
    ids=["none", "raises"],
)
async def test_a_function_that_gives_no_key_is_an_error_value(api_key, said):
    error = (await resolve("openai:m", api_key=api_key).call("hi")).error
    assert error is not None
    assert error.code == ErrorCode.AUTH_ERROR
    assert said in error.message


async def test_no_repr_shows_the_key():
    model = resolve("openai:m", api_key=KEY)
    assert KEY not in repr(model) + repr(model.endpoint)
    assert repr(model) == "HttpModel('openai:m', 'https://api.openai.com/v1/chat/completions')"


async def test_duration_is_from_the_monotonic_clock(serve, http_reply):
    clock = FakeClock()

    async def answer(asked, writer):
        clock.advance(1.5)
        writer.write(http_reply(CHAT))

    async with serve(answer) as server:
        named = resolve("openai:m", base_url=server.url)
        response = await type(named)("m", named.endpoint, clock=clock).call("hi")
    assert response.duration_ms == 1500


async def test_a_model_can_have_a_transport_of_its_own(serve, http_reply):
    transport = AiohttpTransport()
    async with serve(http_reply(CHAT)) as server:
        assert (await ask(server, transport=transport)).success
        await transport.aclose()


def event(text):
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


async def last_of(model):
    return [item async for item in model.stream("hi")][-1]


async def pour(writer, status, beginning, *, packed):
    """Answer without an end; what is packed swells to a hundred times of what is sent."""
    packer = zlib.compressobj(wbits=31)
    coding = b"content-encoding: gzip\r\n" if packed else b""
    writer.write(b"HTTP/1.1 %d X\r\n" % status + coding + b"\r\n")
    data = beginning + b"a" * 65536
    while True:
        sent = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH) if packed else data
        writer.write(sent)
        await writer.drain()
        # What is packed is so small that drain never waits.
        await asyncio.sleep(0)
        data = b"a" * 65536


PACKED = pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])


@PACKED
async def test_a_reply_without_an_end_is_an_error(serve, packed):
    async def answer(asked, writer):
        await pour(writer, 200, b'{"a": "', packed=packed)

    async with serve(answer) as server:
        error = (await ask(server, limits=ReplyLimits(reply_bytes=10**6))).error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.SERVER_ERROR, False)
    assert "larger than 1,000,000 bytes; ReplyLimits(reply_bytes=...)" in error.message
    assert error.details["limit"] == "reply_bytes"


@PACKED
async def test_a_line_without_an_end_is_an_error(serve, packed):
    async def answer(asked, writer):
        await pour(writer, 200, b"data: ", packed=packed)

    async with serve(answer) as server:
        url = f"{server.url}/v1"
        model = resolve("openai:m", base_url=url, limits=ReplyLimits(line_bytes=10**6))
        error = (await last_of(model)).error
    assert error is not None and error.details["limit"] == "line_bytes"


async def test_many_short_lines_are_no_long_one(serve, http_reply):
    body = event("a") * 50 + b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    reply = http_reply(body, headers={"content-type": "text/event-stream"})
    async with serve(reply) as server:
        url = f"{server.url}/v1"
        model = resolve("openai:m", base_url=url, limits=ReplyLimits(line_bytes=100))
        response = await last_of(model)
    assert (response.error, response.content) == (None, "a" * 50)


@PACKED
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "invalid_request"), (429, "rate_limit"), (500, "server_error")],
)
async def test_a_refusal_without_an_end_keeps_its_status(serve, status, code, streams, packed):
    async def answer(asked, writer):
        await pour(writer, status, b"", packed=packed)

    async with serve(answer) as server:
        model = resolve("openai:m", base_url=f"{server.url}/v1")
        error = (await (last_of(model) if streams else model.call("hi"))).error
    assert error is not None
    assert (error.code, error.status_code) == (code, status)
    assert len(error.message) < 2000


async def test_a_large_piece_leaves_other_tasks_their_turn(serve):
    class Large:
        @asynccontextmanager
        async def send(self, *asked, timeouts):
            async def pieces():
                yield event("a") * 5000

            yield 200, [("content-type", "text/event-stream")], pieces()

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turns = 0
    counting = asyncio.ensure_future(count())
    await resolve("openai:m", base_url="http://localhost", transport=Large()).call("hi")
    counting.cancel()
    assert turns > 5


async def test_what_was_not_sent_used_nothing(refusing_url):
    response = await resolve("openai:m", base_url=refusing_url).call("hi")
    assert response.error is not None
    facts = {name: response.error.details[name] for name in ("phase", "kind", "limit", "reused")}
    assert facts == {"phase": "unsent", "kind": "refused", "limit": None, "reused": False}
    assert "nothing was sent" in response.error.message
    assert response.usage == Usage()


async def test_what_another_transport_raises_counts_as_sent():
    class ConnectTimeout(Exception): ...

    class Slow:
        def send(self, *asked, timeouts):
            raise ConnectTimeout

    model = resolve("openai:m", base_url="http://localhost", transport=Slow())
    error = (await model.call("hi")).error
    assert error is not None
    assert (error.code, error.details["phase"]) == (ErrorCode.TIMEOUT, "sent")
    assert "Timeouts(connect_s=...)" in error.message


async def test_an_address_with_a_password_is_named_without_it(refusing_url):
    url = refusing_url.replace("//", "//me:a-secret@") + "/v1?token=a-secret"
    error = (await resolve("openai:m", base_url=url).call("hi")).error
    assert error is not None
    assert refusing_url in error.message
    assert "a-secret" not in error.message


@pytest.mark.parametrize("url", ["http://me:a-secret@h/v1", "http://h/v1?token=a-secret"])
def test_a_repr_shows_no_password_of_an_address(url):
    model = resolve("openai:m", base_url=url)
    assert repr(model) == "HttpModel('openai:m', 'http://h/v1/chat/completions')"
    assert "a-secret" not in repr(model.endpoint)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("https://me:a-secret@h/v2?token=a-secret#a-secret", "https://h/v2;"),
        ("/v2?token=a-secret", "/v2;"),
        ("http://[::1", "an address that cannot be read;"),
    ],
)
async def test_where_a_redirect_leads_is_named_without_a_password(serve, http_reply, target, named):
    async with serve(http_reply("", status=307, headers={"location": target})) as server:
        error = (await ask(server)).error
    assert error is not None
    assert f"redirects to {named}" in error.message
    assert "a-secret" not in error.message
