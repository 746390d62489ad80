"""The flat names and the adapters, as a user would write it; checked, never run."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import assert_type

from upshot import Engine, adapters, contract
from upshot.flat import (
    AgentExecutionResult,
    AgentResponse,
    AgentResult,
    AnthropicRateLimits,
    CerebrasRateLimits,
    CostInfo,
    ErrorInfo,
    FinishReason,
    FlatAgent,
    OpenAIRateLimits,
    RateLimitInfo,
    StructView,
    ToolCall,
    UsageInfo,
    build_rate_limit_state,
    build_rate_limit_windows,
    coerce_agent_result,
    extract_anthropic_rate_limits,
    extract_cerebras_rate_limits,
    extract_headers_from_error,
    extract_headers_from_response,
    extract_openai_rate_limits,
    extract_rate_limit_info,
    extract_status_code,
    from_agent_response,
    from_pi_agent,
    from_smolagents,
    is_retryable_error,
    to_agent_response,
)
from upshot.models import Price, resolve

HEADERS = {"x-ratelimit-remaining-requests": "9"}


async def asking() -> None:
    response = await FlatAgent(resolve("openai:gpt"), system="Be brief.").call("Hello")
    assert_type(response, AgentResponse)
    if response.error is not None:
        assert_type(response.error.error_type, str)
    if response.usage is not None and response.usage.cost is not None:
        assert_type(response.usage.cost.total, float)


def making() -> None:
    usage = UsageInfo(input_tokens=7, cost=CostInfo(total=0.5))
    error = ErrorInfo(error_type="RateLimitError", message="slow down", status_code=429)
    call = ToolCall("c1", tool="search")
    response = AgentResponse(content="", usage=usage, error=error, tool_calls=[call])
    assert_type(response.finish_reason, FinishReason | None)
    assert_type(from_agent_response(response), contract.AgentResult[contract.Json])
    print(coerce_agent_result({"content": "hi"}).content, AgentResult(content="hi").success)


def limits() -> None:
    assert_type(extract_rate_limit_info(HEADERS), RateLimitInfo)
    assert_type(extract_openai_rate_limits(HEADERS), OpenAIRateLimits)
    assert_type(extract_anthropic_rate_limits(HEADERS), AnthropicRateLimits)
    assert_type(extract_cerebras_rate_limits(HEADERS), CerebrasRateLimits)
    for window in build_rate_limit_windows(HEADERS):
        assert_type(window, StructView[contract.RateLimitWindow])
    print(build_rate_limit_state(HEADERS))


def failing(error: Exception, native: object) -> None:
    assert_type(extract_status_code(error), int | None)
    assert_type(is_retryable_error(error), bool)
    assert_type(extract_headers_from_error(error), dict[str, str])
    assert_type(extract_headers_from_response(native), dict[str, str])


def elsewhere(native: object, responses: Sequence[contract.ModelResponse]) -> None:
    assert_type(from_pi_agent(native), AgentResponse)
    assert_type(from_smolagents(native), AgentResponse)
    assert_type([to_agent_response(response) for response in responses], list[AgentResponse])
    for read in (
        adapters.from_adk,
        adapters.from_agent_framework,
        adapters.from_agno,
        adapters.from_aisuite,
        adapters.from_claude_agent_sdk,
        adapters.from_crewai,
        adapters.from_langchain,
        adapters.from_langgraph,
        adapters.from_litellm,
        adapters.from_openai_agents,
        adapters.from_pi_agent,
        adapters.from_pydantic_ai,
        adapters.from_smolagents,
        adapters.from_strands,
    ):
        assert_type(read(native), contract.AgentResult[contract.Json])


PRICE = Price(input_per_mtok=Decimal(1), output_per_mtok=Decimal(2))


def driving(native: object) -> Engine:
    assert_type(adapters.as_engine(native, reads={"status"}), Engine)
    return adapters.as_engine(native, prices={"openai:*": PRICE})


def showing(result: contract.AgentResult[contract.Json]) -> AgentExecutionResult:
    assert_type(contract.contract_typescript(), str)
    print(contract.contract_schema())
    return contract.to_execution_result(result)
