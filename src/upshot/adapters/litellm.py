"""LiteLLM: a model call's ``ModelResponse``, or the exception that it raised.

Source:
    litellm 1.83, ``types/utils.py`` and ``exceptions.py``, read in 2026. Its ``prompt_tokens``
    include what was cached, whatever the provider's own convention is.
"""

from __future__ import annotations

from typing import Final

from ..contract import AgentResult, ErrorCode, Json
from ..native import read_completion
from .failure import find_failure
from .findings import Findings

__all__ = ["from_litellm"]

_CODES: Final = {
    "BudgetExceededError": ErrorCode.BUDGET_EXCEEDED,
    "GuardrailRaisedException": ErrorCode.POLICY_DENIED,
    "BlockedPiiEntityError": ErrorCode.POLICY_DENIED,
    "JSONSchemaValidationError": ErrorCode.INVALID_OUTPUT,
}


def from_litellm(native: object) -> AgentResult[Json]:
    """Make a result of what LiteLLM returned or raised.

    Args:
        native: A ``ModelResponse``, its JSON, or an exception.

    Returns:
        The result; ``metadata["unknown"]`` lists what *native* does not say. A cost that LiteLLM
        worked out is marked as estimated. Never raises.
    """
    if isinstance(native, BaseException):
        return find_failure(native, _CODES).to_result()
    response = read_completion(native)
    findings = Findings(raw=native, duration_ms=response.duration_ms or None)
    findings.take(response)
    return findings.to_result()
