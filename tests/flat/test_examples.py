"""What the flat contract and its metrics are used for, as code for them is written.

Only the import and the making of the agent differ from such code.
"""

import pytest

from upshot.contract import AgentError, Cost, ModelResponse, RateLimitState, Usage, to_contract
from upshot.flat import (
    AgentResult,
    FinishReason,
    FlatAgent,
    build_rate_limit_state,
    build_rate_limit_windows,
    extract_cerebras_rate_limits,
)
from upshot.models import ScriptedModel

BUCKETS = {
    "x-ratelimit-remaining-requests-minute": "0",
    "x-ratelimit-limit-requests-minute": "30",
    "x-ratelimit-remaining-requests-hour": "50",
    "x-ratelimit-remaining-tokens-day": "0",
    "x-ratelimit-reset-tokens-day": "5400.5",
}


def agent_that_gets(**fields):
    return FlatAgent(ScriptedModel([ModelResponse(**fields)]))


def refusal(headers, *, retry_after=None):
    """What a hook is given of a refused call."""
    result = AgentResult(
        error={
            "code": "rate_limit",
            "type": "RateLimitError",
            "message": "wait",
            "retryable": True,
        },
        rate_limit=build_rate_limit_state(headers, retry_after),
        provider_data={"provider": "cerebras", "raw_headers": headers},
    )
    return to_contract(result)


class Hooks:
    """Hooks of a machine that read results as dicts."""

    def on_state_exit(self, state_name, context, output):
        if output and isinstance(output, dict):
            error = output.get("error")
            if error and error.get("code") == "rate_limit":
                return self.next_state(context, output.get("rate_limit", {}))
            if error and not error.get("retryable"):
                context["fatal"] = error.get("message")
                return "give_up"
        return output

    def next_state(self, context, rate_limit):
        if not rate_limit.get("limited"):
            return None
        spent = [window for window in rate_limit.get("windows", []) if window["remaining"] == 0]
        if any("day" in window.get("name", "") for window in spent):
            return "other_provider"
        context["wait_seconds"] = rate_limit.get("retry_after", 60)
        return "wait"


def test_a_hook_lets_a_good_output_pass():
    output = to_contract(AgentResult(output={"answer": 1}))
    assert Hooks().on_state_exit("ask", {}, output) == {"output": {"answer": 1}}


def test_a_hook_gives_up_on_what_cannot_be_tried_again():
    context = {}
    output = to_contract(AgentResult(error={"code": "auth_error", "message": "bad key"}))
    assert Hooks().on_state_exit("ask", context, output) == "give_up"
    assert context == {"fatal": "bad key"}


def test_a_hook_leaves_a_provider_whose_day_is_spent():
    assert Hooks().on_state_exit("ask", {}, refusal(BUCKETS)) == "other_provider"


def test_a_hook_waits_as_long_as_the_window_says():
    context = {}
    headers = {**BUCKETS, "x-ratelimit-remaining-tokens-day": "5"}
    assert Hooks().on_state_exit("ask", context, refusal(headers)) == "wait"
    assert context == {"wait_seconds": 60}


def test_a_hook_waits_as_long_as_the_reply_says():
    context = {}
    headers = {**BUCKETS, "x-ratelimit-remaining-tokens-day": "5"}
    Hooks().on_state_exit("ask", context, refusal(headers, retry_after=7))
    assert context == {"wait_seconds": 7}


def test_a_hook_reads_the_raw_headers():
    raw = refusal(BUCKETS).get("provider_data", {}).get("raw_headers", {})
    assert raw.get("x-ratelimit-remaining-requests-hour") == "50"
    assert raw.get("x-ratelimit-remaining-tokens-hour") is None


def test_the_windows_of_headers_are_dicts():
    named = {window["name"]: window["remaining"] for window in build_rate_limit_windows(BUCKETS)}
    assert named == {"requests_per_minute": 0, "requests_per_hour": 50, "tokens_per_day": 0}


async def test_an_executor_makes_a_result_of_a_response():
    agent = agent_that_gets(content="Hi", provider_data={"raw_headers": BUCKETS})
    response = await agent.call(prompt="Hello")
    rate_limit = None
    if response.rate_limit:
        rate_limit = build_rate_limit_state(
            response.rate_limit.raw_headers, response.rate_limit.retry_after
        )
    result = AgentResult(
        output=response.output,
        content=response.content,
        error=response.error,
        rate_limit=rate_limit,
        provider_data={
            "provider": agent.provider,
            "model": agent.model,
            "raw_headers": response.rate_limit.raw_headers if response.rate_limit else {},
        },
    )
    assert result.success
    assert result.rate_limit.limited
    assert result["provider_data"]["provider"] == "scripted"


async def usage_report(agent):
    response = await agent.call(prompt="Hello")
    if response.success:
        tokens = f"{response.usage.input_tokens} in, {response.usage.output_tokens} out"
        return f"{response.content} ({tokens}, {response.finish_reason})"
    if response.error.retryable:
        return f"{response.error.error_type}: wait {response.rate_limit.get_retry_delay() or 60} s"
    return f"{response.error.error_type}: {response.error.message}"


@pytest.mark.parametrize(
    ("fields", "report"),
    [
        (
            {
                "content": "Hi",
                "usage": Usage(input_tokens=9, output_tokens=2),
                "finish_reason": "stop",
            },
            "Hi (9 in, 2 out, stop)",
        ),
        ({"content": "Hi"}, "Hi (0 in, 0 out, None)"),
        (
            {
                "error": AgentError("rate_limit", "slow down", "RateLimitError", 429, True),
                "rate_limit": RateLimitState(limited=True, retry_after=7),
            },
            "RateLimitError: wait 7 s",
        ),
        (
            {"error": AgentError("server_error", "oops", "ServerError", 500, True)},
            "ServerError: wait 60 s",
        ),
        ({"error": AgentError("auth_error", "bad key", "AuthError", 401)}, "AuthError: bad key"),
    ],
    ids=["measured", "unmeasured", "limited", "without a delay", "final"],
)
async def test_usage_is_checked(fields, report):
    assert await usage_report(agent_that_gets(**fields)) == report


async def test_cached_tokens_are_watched():
    usage = Usage(input_tokens=100, output_tokens=5, cache_read_tokens=80, cache_write_tokens=10)
    agent = agent_that_gets(content="Hi", usage=usage, cost=Cost(input="0.001", output="0.002"))
    response = await agent.call(prompt="Hello")
    seen = ""
    if response.usage:
        used = response.usage
        seen = f"{used.input_tokens} in, {used.cache_read_tokens} read, "
        seen += f"{used.cache_write_tokens} written"
        if used.cost:
            seen += f", ${used.cost.total:.6f} of which ${used.cost.input:.6f}"
    assert seen == "100 in, 80 read, 10 written, $0.003000 of which $0.001000"


@pytest.mark.parametrize(("left", "delay"), [("7", None), ("0", 30)])
async def test_rate_limits_are_watched(left, delay):
    headers = {
        "x-ratelimit-remaining-requests": left,
        "x-ratelimit-remaining-tokens": "900",
        "retry-after": "30",
    }
    agent = agent_that_gets(
        content="Hi",
        rate_limit=build_rate_limit_state(headers).value,
        provider_data={"raw_headers": headers},
    )
    response = await agent.call(prompt="Generate text")
    waited = None
    if response.rate_limit:
        limits = response.rate_limit
        assert (limits.remaining_requests, limits.remaining_tokens) == (int(left), 900)
        if limits.is_limited():
            waited = limits.get_retry_delay() or 60
    assert waited == delay


async def test_the_buckets_of_cerebras_are_looked_at():
    agent = agent_that_gets(content="Hi", provider_data={"raw_headers": BUCKETS})
    response = await agent.call(prompt="Fast inference")
    waited = None
    if response.rate_limit and response.rate_limit.raw_headers:
        cerebras = extract_cerebras_rate_limits(response.rate_limit.raw_headers)
        if bucket := cerebras.get_most_restrictive_bucket():
            waited = (bucket, cerebras.get_suggested_wait_seconds())
    assert waited == ("day", 5401)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("stop", "done"),
        ("length", "truncated"),
        ("tool_use", "calls"),
        ("content_filter", "filtered"),
        ("error", "broken"),
        ("aborted", "something else"),
    ],
)
async def test_finish_reasons_are_matched(reason, said):
    response = await agent_that_gets(content="Hi", finish_reason=reason).call(prompt="Hello")
    match response.finish_reason:
        case FinishReason.STOP:
            found = "done"
        case FinishReason.LENGTH:
            found = "truncated"
        case FinishReason.TOOL_USE:
            found = "calls"
        case FinishReason.CONTENT_FILTER:
            found = "filtered"
        case FinishReason.ERROR:
            found = "broken"
        case _:
            found = "something else"
    assert found == said
