"""The names that others build on: where each is found, and what it can be called with."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from upshot.runs.plan import ResumeOptions, RunOptions
from upshot.tools.toolbox_options import ToolboxOptions

# As a caller sees them: positional up to the star, then keywords, with the defaults that hold.
# An ellipsis is a default that is no plain value.
CALLS = {
    "upshot": """
def Agent(id, *, model=None, name=None, instructions=None, tools=None, output_type=None,
    handoffs=(), observers=(), deciders=(), engine=None, card=None, budget=None, settings=None,
    retry=...): ...
def Request(message, *, inputs=..., task_id="", context_id="", run_id="", config=None,
    metadata=...): ...
def run(agent, request, *, engine=..., host=..., observers=..., deciders=..., committers=...,
    prepare=..., artifacts=..., attributes=..., parent_run_id=..., resume_from=...,
    max_attempts=..., budget=..., dependencies=..., journal=..., approve=...,
    artifact_store=..., policy=..., secrets=..., model=..., settings=..., history=...,
    tools=..., retry=..., clock=...): ...
def run_sync(agent, request, *, engine=..., journal=..., model=..., tools=...): ...
def start(agent, request, *, engine=..., journal=..., model=..., tools=...): ...
def resume(run_id, agent, *, journal, answers=(), engine=..., model=..., tools=...,
    approve=...): ...
def tool(*, name=None, description=None, effect=None, idempotent=..., repeatable=...,
    network=..., resources=..., approval=..., timeout_s=..., retry_on_timeout=...,
    min_useful_s=..., isolation=..., retries=..., verify=..., error_key=..., concurrency=...,
    trust=...): ...
def ToolError(message, *, code=None, retryable=True, retry_after_s=None): ...
def Budget(*, deadline_s=None, max_turns=50, max_tool_calls=None, max_calls_per_tool=None,
    max_tokens=None, max_cost_usd=None, max_depth=8, tool_timeout_s=45, unpriced="refuse"): ...
def ModelSettings(*, temperature=None, top_p=None, max_tokens=None, stop=None, seed=None,
    tool_choice=None, parallel_tool_calls=None, reasoning=None, cache=None, extra=...): ...
def ModelRequest(messages, *, system=None, tools=(), output_schema=None, settings=None): ...
def Retry(*, max_tries=4, max_wait_s=None, base_s=0.5): ...
def Interrupted(cause, detail=""): ...
def Aborted(message, code="internal"): ...
def Failed(code, message="", *, retryable=False, details=None): ...
def Handoff(to_agent_id, description="", *, tool_name=None, filter=None, on_invoke=None,
    history=True): ...
def Approve(call_id): ...
def Deny(call_id, reason=""): ...
def Edit(call_id, arguments=...): ...
def Answer(id, value=None): ...
def Message(role, content=..., *, tool_calls=(), tool_call_id=None): ...
def Artifact(name, parts=()): ...
def Checkpoint(exec_id, step, board=...): ...
def ToolCall(id, name, arguments=...): ...
def ToolExecutionResult(call_id, tool_name, *, output=..., elapsed_ms=..., was_coerced=False,
    effect=..., code=None): ...
def ToolTimeout(call_id, tool_name, *, deadline_s=0.0, timeout_s=0.0, elapsed_ms=...,
    retryable=..., stopped=True, effect=..., code=None): ...
def ToolFailure(call_id, tool_name, *, error=..., retryable=..., elapsed_ms=..., effect=...,
    code=None): ...
def ToolDenied(call_id, tool_name, *, reason, details="", effect=..., code=None): ...
def ToolArtifactReference(call_id, tool_name, *, artifact_id="", summary="", size_bytes=0,
    effect=..., code=None): ...
def AgentCard(*, name="", description="", skills=(), default_input_modes=...,
    default_output_modes=..., capabilities=...): ...
def Skill(*, id="", name="", description="", tags=(), examples=(), input_modes=(),
    output_modes=()): ...
def AgentCapabilities(*, streaming=False, push_notifications=False): ...
def RequestConfig(*, accepted_output_modes=()): ...
def RunInfo(*, agent_id="", run_id="", task_id="", context_id="", attributes=...,
    resumed=False): ...
def encode(value): ...
def decode(data, type=None): ...
def to_contract(result): ...
def from_contract(data): ...
def to_execution_result(result): ...
def coerce_result(anything): ...
def handoff_tool_name(agent_id): ...
def handoff_tools(handoffs, request=None): ...
def run_with_handoffs(agents, request, *, start=None, max_depth=8, journal=...): ...
def start_with_handoffs(agents, request, *, start=None, max_depth=8, journal=...): ...
def Policy(*, allow=None, deny=(), taint="ask", network=True): ...
def open_mcp(namespace, *, command=None, url=None, trusted=False, include=None, exclude=(),
    timeout_s=30): ...
def outcome_to_model_content(outcome, *, rich=False): ...
def outcome_is_error(outcome): ...
def outcome_is_retryable(outcome): ...
def outcome_blocks_tool(outcome): ...
def open_journal(where): ...
def LoopEngine(model=None): ...
def resolve(name, *, base_url=None, api_key=None, temperature=..., max_tokens=..., extra=...): ...
def ScriptedModel(script): ...
""",
    "upshot.wire": """
def read_response(surface, *, status, headers, body, provider="", mode=None, now=None): ...
def StreamReader(surface, *, provider="", headers=None, mode=None, now=None): ...
def build_rate_limit_windows(headers, *, now=None): ...
def build_rate_limit_state(headers, retry_after=None, *, now=None): ...
def extract_cerebras_rate_limits(headers): ...
def extract_anthropic_rate_limits(headers): ...
def extract_openai_rate_limits(headers): ...
def classify_error(*, status=None, body=None, headers=None, exception=None, provider=""): ...
def parse_duration(text): ...
def parse_reset(text, *, now): ...
def parse_finish_reason(text): ...
""",
    "upshot.models": """
def resolve(name, *, base_url=None, api_key=None): ...
def ScriptedModel(script): ...
def Timeouts(*, connect_s=..., read_s=..., total_s=...): ...
""",
    "upshot.tools": """
def Toolbox(tools, *, budget=None, gates=None, policy=None, approve=None, on_pre_tool_use=None,
    artifacts=None, secrets=(), web_mode=True, parallel=True, replay_scope="turn", journal=None,
    clock=None): ...
def ToolCall(id, name, arguments=...): ...
def outcome_to_model_content(outcome, *, rich=False): ...
def Allow(): ...
def Refuse(reason=...): ...
def Ask(): ...
def EditArguments(arguments): ...
""",
    "upshot.journal": "def open_journal(where): ...",
    "upshot.engines": """
def LoopEngine(model=None): ...
def load_machine(source): ...
def MachineEngine(machine, *, agents=..., functions=..., hooks=None, clock=None): ...
""",
    "upshot.sim": "def Simulator(script, *, limits=..., faults=...): ...",
    "upshot.telemetry": """
def instrument(*, tracer_provider=None, meter_provider=None, prefix="flatagents",
    content=False): ...
""",
}

VALUES = {
    "upshot": (
        "AgentError AgentResult ArtifactStore Board Cost Data Decider ErrorCode File Image "
        "Audio FinalizeDecision FinishReason HANDOFF_FINALIZE_REASON HANDOFF_STATE_KEY "
        "HandoffEvent JournalError LiveHandoffs LiveRun MAIN_CHANNEL Misuse ModelReplied "
        "ModelResponse Observer Parked RateLimitState RateLimitWindow Reasoning ReasoningDelta "
        "RunFailed RunSettled Status TOOL_MESSAGE_MAX_CHARS Text TextDelta ToolCallDelta "
        "ToolContext ToolOutcome ToolProgress ToolRecord ToolSettled ToolStarted Unknown "
        "UpshotError Usage Warned ApprovalRequested AgentSpec DiscardOnInterruptCauses Fallback "
        "AnyResult ApprovalRequest ModelInput RunHost AgentTask ForEach Node Parallel Question "
        "ToolTask VoidText"
    ),
    "upshot.adapters": (
        "as_engine from_adk from_agent_framework from_agno from_aisuite from_claude_agent_sdk "
        "from_crewai from_langchain from_langgraph from_litellm from_openai_agents "
        "from_pi_agent from_pydantic_ai from_smolagents from_strands"
    ),
    "upshot.flat": (
        "AgentExecutionResult AgentResponse AgentResult AnthropicRateLimits CerebrasRateLimits "
        "CostInfo ErrorInfo FinishReason OpenAIRateLimits RateLimitInfo ToolCall UsageInfo "
        "build_rate_limit_state build_rate_limit_windows coerce_agent_result "
        "extract_headers_from_error extract_headers_from_response extract_rate_limit_info "
        "extract_status_code from_agent_response from_pi_agent from_smolagents "
        "is_retryable_error to_agent_response"
    ),
    "upshot.testing": (
        "AdapterContract DeciderContract EngineContract FakeClock HostContract JournalContract "
        "ModelContract ObserverContract ScriptedModel ToolContract"
    ),
    "upshot.wire": "RateLimitInfo RequestEncoder",
    "upshot.models": "Model Transport",
    "upshot.tools": (
        "ArtifactStore TOOL_MESSAGE_MAX_CHARS outcome_blocks_tool outcome_is_error "
        "outcome_is_retryable"
    ),
}
# What a value can do, beyond being made.
MEMBERS = {
    "upshot.AgentResult": "success unwrap output_payload all_messages",
    "upshot.Board": "append messages get set snapshot restore",
    "upshot.LiveRun": "result interrupt cancel run_id text",
    "upshot.LiveHandoffs": "result interrupt cancel run_id text",
    "upshot.RunFailed": "result",
    "upshot.ToolContext": "run_id call_id deadline idempotency_key cancelled progress dependencies "
    "task_id context_id attributes",
    "upshot.tools.Toolbox": "dispatch new_turn records blocked_tool_names pending schemas",
    "upshot.wire.StreamReader": "feed close",
    "upshot.wire.RateLimitInfo": "is_limited get_retry_delay from_headers",
    "upshot.FinalizeDecision": "accept discard keep_partial revise",
}

DOORS = {
    "run": RunOptions,
    "run_sync": RunOptions,
    "run_with_handoffs": RunOptions,
    "start_with_handoffs": RunOptions,
    "start": RunOptions,
    "resume": ResumeOptions,
}
Parameter = tuple[str, bool, Any]
NO_DEFAULT = inspect.Parameter.empty


def promised() -> list[Any]:
    """Every call that is promised: its module, its name, and its parameters."""
    found: list[Any] = []
    for module, text in CALLS.items():
        for function in ast.parse(text).body:
            assert isinstance(function, ast.FunctionDef)
            name = function.name
            found.append(pytest.param(module, name, parameters_of(function), id=f"{module}.{name}"))
    return found


def parameters_of(function: ast.FunctionDef) -> list[Parameter]:
    """Name, whether it is positional, and default of each parameter."""
    plain, named = function.args.args, function.args.kwonlyargs
    missing = [None] * (len(plain) - len(function.args.defaults))
    defaults = [*missing, *function.args.defaults, *function.args.kw_defaults]
    return [
        (one.arg, one in plain, NO_DEFAULT if default is None else ast.literal_eval(default))
        for one, default in zip([*plain, *named], defaults, strict=True)
    ]


def found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def real_parameters(name: str, function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """What the function takes; the options of a door and of a decorator are among its keywords."""
    real = dict(inspect.signature(function).parameters)
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in real.values()):
        return real
    keywords = {
        "tool": lambda: (*found("upshot", "Tool").__dataclass_fields__, "isolation", "verify"),
        "resolve": lambda: found("upshot", "ModelSettings").__struct_fields__,
        "Toolbox": lambda: ToolboxOptions.__optional_keys__,
    }
    options = DOORS[name].__optional_keys__ if name in DOORS else keywords[name]()
    free = (inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=...) for one in options)
    return {**{one.name: one for one in free}, **real}


@pytest.mark.parametrize(("module", "name", "promise"), promised())
def test_a_name_can_be_called_as_promised(module: str, name: str, promise: list[Parameter]) -> None:
    real = real_parameters(name, found(module, name))
    order = [one.name for one in real.values() if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    for place, (parameter, positional, default) in enumerate(promise):
        assert parameter in real
        assert not positional or order.index(parameter) <= place + (name == "tool")
        given = real[parameter].default
        assert default is NO_DEFAULT or given is not NO_DEFAULT
        # A TypedDict of options has no defaults.
        assert ... in (default, given) or default is NO_DEFAULT or given == default
    extra = [one for one in real.values() if one.name not in [p[0] for p in promise]]
    assert all(
        one.default is not NO_DEFAULT or one.kind is inspect.Parameter.VAR_KEYWORD for one in extra
    )


def test_a_name_is_where_it_is_promised() -> None:
    for module, names in VALUES.items():
        assert [name for name in names.split() if found(module, name) is None] == []


@pytest.mark.parametrize("value", MEMBERS)
def test_a_value_can_do_what_is_promised(value: str) -> None:
    module, _, kind = value.rpartition(".")
    type_ = found(module, kind)
    known = {*dir(type_), *getattr(type_, "__annotations__", {}), *made_in_init(type_)}
    assert set(MEMBERS[value].split()) - known == set()


def made_in_init(kind: type) -> set[str]:
    """Attributes that are set in ``__init__``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
