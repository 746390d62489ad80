"""Reading the headers of one reply, including normalising.

The names are those that the providers document and their gateways add; the values are made up.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

from bench.interleave import measure
from upshot.wire import build_rate_limit_state

__all__ = ["ANTHROPIC", "OPENAI", "headers"]

NOW = 1_760_000_000.0
READ = 20_000
# More than any cache holds, so that every value is parsed.
VARIED = 1_000
AIM_US = 5

OPENAI = {
    "Date": "Thu, 09 Oct 2025 08:53:20 GMT",
    "Content-Type": "application/json",
    "Transfer-Encoding": "chunked",
    "Connection": "keep-alive",
    "access-control-expose-headers": "X-Request-ID",
    "openai-organization": "acme",
    "openai-processing-ms": "412",
    "openai-project": "proj_0000000000000000",
    "openai-version": "2020-10-01",
    "x-envoy-upstream-service-time": "431",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-limit-tokens": "2000000",
    "x-ratelimit-remaining-requests": "{left}",
    "x-ratelimit-remaining-tokens": "19{left}",
    "x-ratelimit-reset-requests": "{rest}ms",
    "x-ratelimit-reset-tokens": "6m{rest}.5s",
    "x-request-id": "req_00000000000000000000000000000000",
    "CF-Cache-Status": "DYNAMIC",
    "Set-Cookie": "__cf_bm=made-up; path=/; HttpOnly; Secure; SameSite=None",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains; preload",
    "X-Content-Type-Options": "nosniff",
    "Server": "cloudflare",
    "CF-RAY": "0000000000000000-FRA",
    "alt-svc": 'h3=":443"; ma=86400',
}
ANTHROPIC = {
    "Date": "Thu, 09 Oct 2025 08:53:20 GMT",
    "Content-Type": "application/json",
    "Transfer-Encoding": "chunked",
    "Connection": "keep-alive",
    "anthropic-ratelimit-requests-limit": "4000",
    "anthropic-ratelimit-requests-remaining": "{left}",
    "anthropic-ratelimit-requests-reset": "2025-10-09T{moment}Z",
    "anthropic-ratelimit-tokens-limit": "480000",
    "anthropic-ratelimit-tokens-remaining": "47{left}",
    "anthropic-ratelimit-tokens-reset": "2025-10-09T{moment}Z",
    "anthropic-ratelimit-input-tokens-limit": "400000",
    "anthropic-ratelimit-input-tokens-remaining": "39{left}",
    "anthropic-ratelimit-input-tokens-reset": "2025-10-09T{moment}Z",
    "anthropic-ratelimit-output-tokens-limit": "80000",
    "anthropic-ratelimit-output-tokens-remaining": "7{left}",
    "anthropic-ratelimit-output-tokens-reset": "2025-10-09T{moment}Z",
    "request-id": "req_000000000000000000000000",
    "strict-transport-security": "max-age=31536000; includeSubDomains; preload",
    "anthropic-organization-id": "00000000-0000-0000-0000-000000000000",
    "via": "1.1 google",
    "cf-cache-status": "DYNAMIC",
    "X-Robots-Tag": "none",
    "Server": "cloudflare",
    "CF-RAY": "0000000000000000-FRA",
}


def headers() -> None:
    """Read the full header set of one reply of OpenAI and of Anthropic into windows and state."""
    sets = {"OpenAI": OPENAI, "Anthropic": ANTHROPIC}
    candidates = {name: _reader(_replies(fields, 1)) for name, fields in sets.items()}
    varied = {f"{name}, varied": _reader(_replies(sets[name], VARIED)) for name in sets}
    figures = measure({**candidates, **varied})
    for name, fields in sets.items():
        same, other = (figures[each] / READ * 1e6 for each in (name, f"{name}, varied"))
        print(
            f"reading {len(fields)} headers of {name}\n  {same:.2f} us CPU a reply "
            f"(aim <= {AIM_US} us), {other:.2f} us where no two replies are alike"
        )


def _replies(fields: dict[str, str], count: int) -> list[dict[str, str]]:
    """Return *count* replies with distinct counts and resets."""
    return [
        {
            name: value.format(
                left=1000 + n, rest=20 + n % 40, moment=f"09:{n // 60:02}:{n % 60:02}"
            )
            for name, value in fields.items()
        }
        for n in range(count)
    ]


def _reader(replies: list[dict[str, str]]) -> Callable[[], Awaitable[object]]:
    async def read() -> None:
        for reply in itertools.islice(itertools.cycle(replies), READ):
            build_rate_limit_state(reply, now=NOW)

    return read
