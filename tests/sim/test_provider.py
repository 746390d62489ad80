"""What a simulated account decides: which reply, whether there is room, and what goes wrong."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.sim.client import USER, StillClock, chat_turn, messages_turn, said
from upshot.sim import (
    CutFault,
    ErrorFault,
    HangFault,
    Latency,
    Limits,
    MalformedFault,
    PageFault,
    Reply,
    ResetFault,
    Simulator,
    SlowFault,
    StatusFault,
)

TEXT = "A text that makes a good many pieces."


class EndlessClock(StillClock):
    """A clock on which every sleep lasts until it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.given_up = asyncio.Event(), asyncio.Event()

    async def sleep(self, delay_s: float) -> None:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.given_up.set()
            raise


def content(heard) -> str:
    return heard.body["choices"][0]["message"]["content"]


async def test_the_reply_is_chosen_by_the_number_of_assistant_messages(client):
    async with Simulator(["one", "two", "three"]) as sim:
        heard = [
            content(await client.chat(sim, [USER, *[said("x")] * count])) for count in (2, 0, 1, 1)
        ]
    assert heard == ["three", "one", "two", "two"]


async def test_a_restarted_simulator_goes_on_where_the_conversation_is(client):
    async with Simulator(["one", "two"]) as sim:
        await client.chat(sim)
    async with Simulator(["one", "two"]) as sim:
        assert content(await client.chat(sim, [USER, said("one"), USER])) == "two"


@pytest.mark.parametrize(("when_spent", "reply"), [("last", "two"), ("cycle", "one")])
async def test_a_spent_scenario_repeats_if_it_says_so(client, when_spent, reply):
    async with Simulator({"replies": ["one", "two"], "when_spent": when_spent}) as sim:
        assert content(await client.chat(sim, [USER, *[said("x")] * 4])) == reply


async def test_a_spent_scenario_says_how_many_replies_it_had(client):
    async with Simulator(["one"]) as sim:
        heard = await client.chat(sim, [USER, said("one")])
    assert heard.status == 400
    assert (
        "replies has 1 replies, and the request holds 1 assistant messages"
        in heard.error["message"]
    )


async def test_call_ids_differ_from_turn_to_turn(client):
    scenario = {"replies": [{"tool_calls": [{"name": "f"}]}], "when_spent": "cycle"}
    async with Simulator(scenario) as sim:
        first = await client.chat(sim)
        second = await client.chat(sim, [USER, said("x")])
    ids = [heard.body["choices"][0]["message"]["tool_calls"][0]["id"] for heard in (first, second)]
    assert ids == ["call_0000_0", "call_0001_0"]


async def test_each_model_may_have_replies_of_its_own(client):
    scenario = {"replies": ["any"], "models": {"special": ["mine"]}}
    async with Simulator(scenario) as sim:
        assert content(await client.chat(sim, model="special")) == "mine"
        assert content(await client.chat(sim, model="other")) == "any"


async def test_a_model_without_replies_is_unknown(client):
    async with Simulator({"models": {"special": ["mine"]}}) as sim:
        heard = await client.chat(sim, model="other")
        also = await client.messages(sim, model="other")
    assert (heard.status, heard.error["code"]) == (404, "model_not_found")
    assert (also.status, also.error["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("turn", [chat_turn, messages_turn])
async def test_a_path_that_leads_nowhere_is_a_clear_refusal(client, turn):
    async with Simulator(["one", {"text": "{{ results.count.sum }}"}]) as sim:
        ask = client.chat if turn is chat_turn else client.messages
        heard = await ask(sim, [USER, *turn(("count", {"total": 1}))])
    assert heard.status == 400
    assert heard.error["type"] == "invalid_request_error"
    assert heard.error["message"] == (
        "replies[1].text: nothing at results.count.sum: results.count has no 'sum' (it has total)"
    )


async def test_arguments_take_whole_values_from_results(client):
    arguments = {"files": "{{ results.list.files }}", "note": "n={{ results.list.n }}"}
    script = ["one", {"tool_calls": [{"name": "read", "arguments": arguments}]}]
    async with Simulator(script) as sim:
        turn = messages_turn(("list", {"files": ["a", "b", "c"], "n": 3}))
        heard = await client.messages(sim, [USER, *turn])
    assert heard.body["content"][0]["input"] == {"files": ["a", "b", "c"], "note": "n=3"}


@pytest.mark.parametrize(
    ("result", "quoted"),
    [
        ({"artifact_reference": "art-1", "summary": "long"}, "art-1 / none"),
        ({"status": "error", "error": "it broke", "retryable": True}, "none / it broke"),
    ],
)
async def test_artifacts_and_failures_of_tools_can_be_quoted(client, result, quoted):
    reply = (
        "{{ results.f.artifact_reference | default('none') }} / "
        "{{ results.f.error | default('none') }}"
    )
    async with Simulator(["one", reply]) as sim:
        assert content(await client.chat(sim, [USER, *chat_turn(("f", result))])) == quoted


# ---- limits


async def test_headers_tell_what_the_buckets_hold(client, clock):
    limits = Limits(requests_per_minute=60, tokens_per_minute=6000)
    async with Simulator(["x"], limits=limits, clock=clock) as sim:
        heard = await client.chat(sim)
    used = heard.body["usage"]["total_tokens"]
    assert heard.headers["x-ratelimit-limit-requests"] == "60"
    assert heard.headers["x-ratelimit-remaining-requests"] == "59"
    assert heard.headers["x-ratelimit-reset-requests"] == "1s"
    assert heard.headers["x-ratelimit-remaining-tokens"] == str(6000 - used)


async def test_an_empty_bucket_gives_429_until_it_has_filled_again(client, clock):
    async with Simulator(["x"], limits={"requests_per_minute": 2}, clock=clock) as sim:
        statuses = [(await client.chat(sim)).status for _ in range(2)]
        refused = await client.chat(sim)
        clock.seconds += float(refused.headers["retry-after"])
        again = await client.chat(sim)
    assert statuses == [200, 200]
    assert refused.status == 429
    assert (refused.headers["retry-after"], refused.headers["retry-after-ms"]) == ("30", "30000")
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert (refused.error["type"], refused.error["code"]) == ("requests", "rate_limit_exceeded")
    assert again.status == 200


async def test_anthropic_limits_are_told_as_moments(client, clock):
    async with Simulator(["x"], limits={"requests_per_minute": 1}, clock=clock) as sim:
        served = await client.messages(sim)
        refused = await client.messages(sim)
    assert served.headers["anthropic-ratelimit-requests-limit"] == "1"
    assert served.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert served.headers["anthropic-ratelimit-requests-reset"] == "2025-07-29T15:42:24Z"
    assert (refused.status, refused.error["type"]) == (429, "rate_limit_error")
    assert refused.headers["retry-after"] == "60"


async def test_a_request_over_the_whole_limit_is_told_no_time_to_retry(client, clock):
    async with Simulator(["x"], limits={"tokens_per_minute": 5}, clock=clock) as sim:
        heard = await client.chat(sim)
    assert (heard.status, heard.error["type"]) == (429, "tokens")
    assert "retry-after" not in heard.headers


async def test_without_limits_there_are_no_limit_headers(client):
    async with Simulator(["x"]) as sim:
        heard = await client.chat(sim)
    assert not [name for name in heard.headers if "ratelimit" in name.lower()]


async def test_a_refused_request_uses_up_no_fault(client, clock):
    fault = StatusFault(status=500)
    limits = Limits(requests_per_minute=1)
    async with Simulator(["x"], limits=limits, faults=[fault], clock=clock) as sim:
        statuses = []
        for _ in range(3):
            statuses += [(await client.chat(sim)).status, (await client.chat(sim)).status]
            clock.seconds += 60
    assert statuses == [500, 429, 200, 429, 200, 429]


# ---- faults


async def test_a_status_fault_comes_once_with_its_headers(client):
    fault = {
        "kind": "status",
        "status": 429,
        "retry_after_s": 1,
        "headers": {"x-odd": "1"},
        "at": 0,
    }
    async with Simulator(["fine"], faults=[fault]) as sim:
        first, second = await client.chat(sim), await client.chat(sim)
    assert (first.status, first.headers["retry-after"], first.headers["x-odd"]) == (429, "1", "1")
    assert content(second) == "fine"


@pytest.mark.parametrize(
    ("status", "chat_type", "messages_type"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "invalid_request_error", "authentication_error"),
        (403, "invalid_request_error", "permission_error"),
        (429, "requests", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (503, "server_error", "api_error"),
    ],
)
async def test_errors_have_the_shape_of_each_api(client, status, chat_type, messages_type):
    fault = StatusFault(status=status, times=None)
    async with Simulator(["x"], faults=[fault]) as sim:
        chat, messages = await client.chat(sim), await client.messages(sim)
    assert (chat.status, chat.error["type"]) == (status, chat_type)
    assert (messages.status, messages.error["type"]) == (status, messages_type)
    assert set(chat.error) == {"message", "type", "param", "code"}


async def test_a_fault_inside_a_reply_is_of_that_reply(client):
    async with Simulator(["one", Reply(text="two", faults=(StatusFault(status=503),))]) as sim:
        later = [USER, said("one")]
        statuses = [
            (await client.chat(sim)).status,
            (await client.chat(sim, later)).status,
            (await client.chat(sim, later)).status,
        ]
    assert statuses == [200, 503, 200]


async def test_a_gateway_page_is_html(client):
    async with Simulator(["x"], faults=[PageFault()]) as sim:
        heard = await client.chat(sim)
    assert (heard.status, heard.headers["content-type"]) == (502, "text/html")
    assert heard.text.startswith("<html>")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reset_comes_before_any_byte(client, stream):
    async with Simulator(["x"], faults=[ResetFault(times=None)]) as sim:
        with pytest.raises(aiohttp.ClientOSError):
            await client.chat(sim, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_reply_breaks_off(client, stream):
    async with Simulator([TEXT], faults=[CutFault(times=None)]) as sim:
        with pytest.raises(aiohttp.ClientPayloadError):
            await client.chat(sim, stream=stream)


async def test_a_cut_stream_has_sent_the_events_before_it(client):
    async with Simulator(
        {"replies": [TEXT], "chunk_chars": 4}, faults=[CutFault(after_events=3)]
    ) as sim:
        asked = {"model": "m", "messages": [USER], "stream": True}
        async with client.session.post(f"{sim.base_url}/chat/completions", json=asked) as response:
            received = b""
            with pytest.raises(aiohttp.ClientPayloadError):
                async for data in response.content.iter_any():
                    received += data
    assert received.count(b"data: ") == 3


async def test_a_malformed_body_is_no_json(client):
    async with Simulator([TEXT], faults=[MalformedFault()]) as sim:
        heard = await client.chat(sim)
    assert heard.status == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        _ = heard.body


async def test_a_malformed_event_stands_in_an_otherwise_whole_stream(client):
    async with Simulator([TEXT], faults=[MalformedFault(after_events=1)]) as sim:
        heard = await client.chat(sim, stream=True)
    lines = [line for line in heard.text.split("\n") if line.startswith("data: ")]
    assert lines[1].endswith('[{"del')
    assert lines[-1] == "data: [DONE]"


async def test_an_error_can_hide_in_a_success(client):
    fault = ErrorFault(status=529, message="too much", after_events=2, times=None)
    async with Simulator([TEXT], faults=[fault]) as sim:
        chat = await client.chat(sim)
        chat_stream = await client.chat(sim, stream=True)
        messages_stream = await client.messages(sim, stream=True)
    assert (chat.status, chat.error["message"]) == (200, "too much")
    assert chat_stream.data[-1]["error"]["message"] == "too much"
    assert len(chat_stream.data) == 3
    assert messages_stream.data[-1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "too much"},
    }


@pytest.mark.parametrize("after_events", [0, 2])
async def test_a_hanging_reply_ends_when_the_client_leaves(client, after_events):
    async with Simulator([TEXT], faults=[HangFault(after_events=after_events)]) as sim:
        timeout = aiohttp.ClientTimeout(sock_read=0.03)
        with pytest.raises(asyncio.TimeoutError):
            await client.post(
                f"{sim.base_url}/chat/completions",
                {"model": "m", "messages": [USER], "stream": True},
                timeout=timeout,
            )
        assert (await client.chat(sim)).status == 200


async def test_a_late_reply_is_given_up_when_the_client_leaves(client):
    clock = EndlessClock()
    async with Simulator([TEXT], faults=[SlowFault(first_byte_ms=1)], clock=clock) as sim:
        asking = asyncio.ensure_future(client.chat(sim))
        await clock.begun.wait()
        asking.cancel()
        async with asyncio.timeout(60):
            await clock.given_up.wait()


async def test_closing_ends_a_hanging_reply(client):
    async with Simulator([TEXT], faults=[HangFault()]) as sim:
        asking = asyncio.ensure_future(client.chat(sim))
        while not sim.requests:
            await asyncio.sleep(0)
    with pytest.raises(aiohttp.ClientError):
        await asking


async def test_latencies_are_slept_and_slowness_comes_on_top(client, clock):
    latency = Latency(first_byte_ms=100, between_chunks_ms=10)
    scenario = {"replies": [Reply(text="abcdef", latency=latency)], "chunk_chars": 3}
    async with Simulator(scenario, faults=[SlowFault(first_byte_ms=400)], clock=clock) as sim:
        await client.chat(sim, stream=True)
        await client.chat(sim)
    # Five events after the first: two of text, the finish, and [DONE] make four pauses.
    assert clock.sleeps == [0.5, 0.01, 0.01, 0.01, 0.01, 0.1]


# ---- who is let in


async def test_a_wrong_key_is_refused(client):
    async with Simulator(["x"], api_key="right") as sim:
        url, asked = f"{sim.base_url}/chat/completions", {"model": "m", "messages": [USER]}
        wrong = await client.post(url, asked, headers={"authorization": "Bearer wrong"})
        right = await client.post(url, asked, headers={"authorization": "Bearer right"})
        none = await client.messages(sim)
        header = await client.post(
            f"{sim.base_url}/messages", {**asked, "max_tokens": 1}, headers={"x-api-key": "right"}
        )
    assert (wrong.status, wrong.error["code"]) == (401, "invalid_api_key")
    assert (none.status, none.error["type"]) == (401, "authentication_error")
    assert (right.status, header.status) == (200, 200)


async def test_a_conversation_need_not_be_valid_if_not_strict(client):
    async with Simulator(["one", "two"], strict=False) as sim:
        heard = await client.chat(sim, [USER, *chat_turn(("f", "x"))[:1]])
    assert content(heard) == "two"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/", "/v1/chat"])
async def test_other_paths_are_not_found(client, path):
    async with Simulator(["x"]) as sim:
        heard = await client.post(f"http://127.0.0.1:{sim.port}{path}", {})
    assert heard.status == 404


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/v1/chat/completions", "/openai/v1/chat/completions"]
)
async def test_any_prefix_of_the_path_will_do(client, path):
    async with Simulator(["x"]) as sim:
        asked = {"model": "m", "messages": [USER]}
        heard = await client.post(f"http://127.0.0.1:{sim.port}{path}", asked)
    assert content(heard) == "x"


async def test_other_methods_are_refused(client):
    async with (
        Simulator(["x"]) as sim,
        client.session.get(f"{sim.base_url}/chat/completions") as response,
    ):
        assert response.status == 405
