"""The flat contract as Python objects, for code that was written for it.

The flat contract is a dict with nine keys (``upshot.contract.forms.flat_form``). Agents that use it
build their results from plain dataclasses, read rate limits as dicts, and classify exceptions with
a few functions. This package provides those names, on top of the contract's own values:

- ``structures``: ``AgentResponse``, ``UsageInfo``, ``CostInfo``, ``ErrorInfo`` and ``ToolCall``,
  mutable dataclasses.
- ``conversion``: between these and the contract, for results, errors and rate limits;
  ``StructView``, a struct that is also a dict; ``FlatAgent``, one model behind ``call(prompt)``;
  ``AgentResult(...)`` and ``coerce_agent_result``, which accept the structures, mappings and
  numbers wherever the contract has a struct.

The life of a value: ``to_agent_response`` converts a model's reply or a run's result to an
``AgentResponse``, flat code reads or changes it, and ``from_agent_response`` converts it back to a
result. ``AgentResult(...)`` creates such a result directly.

Invariants:

- The structures have 0 where the contract has None, since flat code adds without checking. On the
  way back a usage of zeros, or a cache count of 0, becomes unknown again.
- ``AgentResult`` here creates results of the contract, equal to any other and encoded alike; it is
  a class only so that ``isinstance`` works.
- Nothing needs a run: the package works without the layers above the wire. Only ``FlatAgent`` calls
  a model, the one that it is given.

Traps: ``ToolCall`` here is the flat structure, not the contract's. ``Cost.total`` of 0 means free,
but a part of 0 may be unknown. And ``build_rate_limit_state`` returns a dict, not a struct.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.contract.base.enums import FinishReason as FinishReason
    from upshot.contract.forms.execution_form import AgentExecutionResult as AgentExecutionResult
    from upshot.flat.conversion import (
        AgentResult as AgentResult,
        FlatAgent as FlatAgent,
        StructView as StructView,
        build_rate_limit_state as build_rate_limit_state,
        build_rate_limit_windows as build_rate_limit_windows,
        coerce_agent_result as coerce_agent_result,
        extract_headers_from_error as extract_headers_from_error,
        extract_headers_from_response as extract_headers_from_response,
        extract_rate_limit_info as extract_rate_limit_info,
        extract_status_code as extract_status_code,
        from_agent_response as from_agent_response,
        from_pi_agent as from_pi_agent,
        from_smolagents as from_smolagents,
        is_retryable_error as is_retryable_error,
        to_agent_response as to_agent_response,
    )
    from upshot.flat.structures import (
        AgentResponse as AgentResponse,
        CostInfo as CostInfo,
        ErrorInfo as ErrorInfo,
        ToolCall as ToolCall,
        UsageInfo as UsageInfo,
    )
    from upshot.wire.rate_limits import (
        AnthropicRateLimits as AnthropicRateLimits,
        CerebrasRateLimits as CerebrasRateLimits,
        OpenAIRateLimits as OpenAIRateLimits,
        RateLimitInfo as RateLimitInfo,
        extract_anthropic_rate_limits as extract_anthropic_rate_limits,
        extract_cerebras_rate_limits as extract_cerebras_rate_limits,
        extract_openai_rate_limits as extract_openai_rate_limits,
    )
