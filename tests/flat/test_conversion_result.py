"""Results, made as flat code makes them."""

from decimal import Decimal

import pytest

from upshot.contract import AgentResult as Result
from upshot.contract import FinishReason, decode, encode, to_contract
from upshot.errors import Misuse
from upshot.flat import (
    AgentResponse,
    AgentResult,
    CostInfo,
    ErrorInfo,
    RateLimitInfo,
    UsageInfo,
    build_rate_limit_state,
    coerce_agent_result,
)


def test_it_makes_results_of_the_contract():
    result = AgentResult(output={"a": 1}, content="Hi")
    assert isinstance(result, Result)
    assert isinstance(result, AgentResult)
    assert result == Result(output={"a": 1}, content="Hi")
    assert decode(encode(result)) == result


def test_what_is_no_result_is_no_instance():
    assert not isinstance({"content": "Hi"}, AgentResult)


def test_an_empty_one_is_a_success_that_says_nothing():
    result = AgentResult()
    assert result.success
    assert (result.output, result.content, result.error, result.rate_limit) == (None,) * 4
    assert result.output_payload() == {}


def test_mappings_become_structs():
    result = AgentResult(
        content="Hi",
        usage={"input_tokens": 100, "output_tokens": 50, "cache_read_tokens": 10},
        cost={"input": 0.001, "output": 0.002, "total": 0.003},
        finish_reason="stop",
        rate_limit={"limited": False, "retry_after": None, "windows": []},
        provider_data={"provider": "openai", "raw_headers": {"x-request-id": "r1"}},
    )
    assert (result.usage.cache_read_tokens, result.usage.total_tokens) == (10, 150)
    assert result.cost.total == Decimal("0.003")
    assert result.finish_reason is FinishReason.STOP
    assert result.rate_limit.limited is False
    assert result["provider_data"]["raw_headers"] == {"x-request-id": "r1"}


def test_flat_structures_become_structs():
    result = AgentResult(
        content="Hi",
        usage=UsageInfo(10, 5, 15, cost=CostInfo(total=0.5)),
        error=ErrorInfo("RateLimitError", "slow down", 429, True),
        rate_limit=RateLimitInfo(raw_headers={"x-ratelimit-remaining-requests": "0"}),
    )
    assert (result.usage.total_tokens, float(result.cost)) == (15, 0.5)
    assert (result.error.code, result.error.type) == ("rate_limit", "RateLimitError")
    assert result.rate_limit.limited


def test_a_built_state_is_taken():
    state = build_rate_limit_state({"x-ratelimit-remaining-requests-minute": "0"})
    assert AgentResult(rate_limit=state).rate_limit == state.value


@pytest.mark.parametrize("cost", [0.5, Decimal("0.5"), {"total": 0.5}, CostInfo(total=0.5)])
def test_a_cost_may_be_a_number(cost):
    assert AgentResult(content="Hi", cost=cost).cost.total == Decimal("0.5")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": "rate_limit", "message": "slow down"}, "failed"),
        ({"code": "canceled", "message": "by hand"}, "canceled"),
        ("it broke", "failed"),
        (None, "completed"),
    ],
)
def test_the_status_follows_from_the_error(error, status):
    assert AgentResult(error=error).status == status


def test_a_status_that_fits_is_taken():
    assert AgentResult(error={"code": "internal"}, status="aborted").status == "aborted"


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "completed", "error": {"code": "internal", "message": "x"}},
        {"status": "failed"},
        {"status": "no such word"},
        {"usage": {"input_tokens": "many"}},
    ],
)
def test_a_contradiction_is_a_value_error(fields):
    with pytest.raises(ValueError) as caught:
        AgentResult(**fields)
    assert isinstance(caught.value, Misuse)


def test_an_unknown_keyword_is_named():
    with pytest.raises(TypeError, match="contents"):
        AgentResult(contents="Hi")


def test_the_native_reply_stays_in_the_process():
    raw = object()
    result = AgentResult(content="Hi", raw=raw)
    assert result.raw is raw
    assert decode(encode(result)).raw is None


def test_the_payload_is_the_output_or_the_text_under_content():
    assert AgentResult(output={"a": 1}, content="Hi").output_payload() == {"a": 1}
    assert AgentResult(content="Hi").output_payload() == {"content": "Hi"}


def test_a_result_is_returned_as_it_is():
    result = AgentResult(content="Hi")
    assert coerce_agent_result(result) is result


def test_a_contract_dict_is_read_and_null_fields_are_absent():
    result = coerce_agent_result(
        {"output": {"a": 1}, "content": "Hi", "finish_reason": "stop", "error": None}
    )
    assert (result.output, result.finish_reason, result.success) == ({"a": 1}, "stop", True)


def test_a_contract_dict_may_carry_its_native_reply():
    raw = object()
    result = coerce_agent_result({"content": "Hi", "raw": raw})
    assert (result.content, result.raw) == ("Hi", raw)


def test_any_other_dict_is_the_output():
    data = {"custom": 1, "raw": 2}
    assert coerce_agent_result(data).output == data
    assert coerce_agent_result(data).raw == data


def test_a_text_is_the_content_and_nothing_is_nothing():
    assert coerce_agent_result("Hi").content == "Hi"
    assert to_contract(coerce_agent_result(None)) == {}


def test_a_flat_response_is_taken():
    result = coerce_agent_result(AgentResponse(content="Hi", usage=UsageInfo(1, 2, 3)))
    assert (result.content, result.usage.total_tokens) == ("Hi", 3)


def test_an_exception_is_a_failure():
    assert coerce_agent_result(ValueError("broken")).error.message == "broken"
