"""Agents that another agent calls as tools, each call in a child run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from upshot.contract.agent import Agent, AgentTool
from upshot.contract.base.enums import Effect, Status, worst_effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.result import OUTPUT_VAR, AgentResult, warning_of_unknown
from upshot.contract.tool_calls import UNTRUSTED
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.runs.plan import OutputType
from upshot.runs.run_context import current_run
from upshot.state.run_effects import effect_of_child
from upshot.tools.call_state import CallWaits, running_call
from upshot.tools.definition.tool import Tool
from upshot.tools.definition.tool_error import ToolError

_REQUEST: JsonObject = {
    "type": "object",
    "properties": {
        "request": {
            "type": "string",
            "description": "What to do, with everything that the agent has to know.",
        }
    },
    "required": ["request"],
    "additionalProperties": False,
}


def with_agents(items: Iterable[object]) -> tuple[object, ...]:
    """Return *items* with a Tool in place of each agent.

    Raises:
        Misuse: An agent cannot be a tool.
    """
    return tuple(map(_to_tool, items))


def _to_tool(item: object) -> object:
    if isinstance(item, Agent):
        return _tool_of(cast("Agent[Any]", item).as_tool())
    return _tool_of(item) if isinstance(item, AgentTool) else item


def _tool_of(item: AgentTool) -> Tool:
    """Return the tool of *item*, always the same one, so that runs share their catalog of tools."""
    kept: dict[str, Any] = vars(item)
    if _KEPT not in kept:
        kept[_KEPT] = _make_tool(item)
    return kept[_KEPT]


def _make_tool(item: AgentTool) -> Tool:
    wanted = None if item.input is None else OutputType.of(item.input, what="input of an agent")
    schema = _REQUEST if wanted is None or wanted.schema is None else wanted.schema
    named = schema.get("properties")
    if isinstance(named, dict) and OUTPUT_VAR in named:
        raise Misuse(
            f"the input of the agent {item.agent.id!r} has a field {OUTPUT_VAR!r}, which on its "
            "board is its answer: name the field differently"
        )
    made = Tool.from_schema(
        item.name,
        item.description,
        schema,
        _AgentBody(item.agent, wanted).ask,
        effect="write",
        # What the agent does passes the gates of its own run.
        approval=bool(item.approval),
        timeout_s=item.timeout_s,
        error_key=None,
    ).but(block_scope="key")
    object.__setattr__(made, "runs_agent", True)
    return made


_KEPT = "tool"


class _AgentBody:
    """The body of a tool that runs an agent."""

    def __init__(self, agent: Agent[Any], wanted: OutputType | None) -> None:
        self._agent = agent
        self._wanted = wanted

    async def ask(self, context: ToolContext[object], given: JsonObject) -> Json:
        """Run the agent, or resume its run, and return its answer.

        Raises:
            CallWaits: It waits for an answer.
            ToolError: It did not complete.
        """
        link, agent = current_run.get(), self._agent
        if link is None or link.child is None:
            text = f"{context.tool_name} runs an agent, which works only in the run of an agent"
            raise ToolError(text, retryable=False)
        # The key is in the log, so a call that is made again finds the run of its agent.
        key, request = context.idempotency_key, self._request(given)
        try:
            result = await link.child(agent, request, key=key)
        except Exception as error:
            run = link.context
            inside = effect_of_child(run.state, run.info.run_id, key) or Effect.NONE
            text = f"The agent {agent.id} could not be run: {type(error).__name__}: {error}"
            raise ToolError(text, retryable=inside is Effect.NONE, effect=inside) from error
        call = running_call.get()
        if call is not None:
            # A run that had ended before this session reports nothing.
            call.inside = worst_effect((call.inside, result.effect))
            if result.taint is not None:
                call.trust = UNTRUSTED
        if result.status is Status.INPUT_REQUIRED:
            raise CallWaits(result.pending)
        if not result.success:
            raise _error_of(agent, result)
        answer = cast("Json", result.content if result.output is None else result.output)
        warning = warning_of_unknown(result.effects)
        if warning is not None and isinstance(answer, str):
            # The agent may not have said it.
            return f"{answer}\n\n{warning.message}"
        return answer

    def _request(self, given: JsonObject) -> Request:
        if self._wanted is None:
            return Request(cast("str", given["request"]))
        try:
            self._wanted.build(given)
        except ValueError as error:
            raise ToolError(str(error), effect="none") from error
        return Request(msgspec.json.encode(given).decode(), inputs=given)


def _error_of(agent: Agent[Any], result: AgentResult[Any]) -> ToolError:
    error, text = result.error, f"The agent {agent.id} ended as {result.status}"
    if error is not None:
        text += f": {error.message}"
    if result.effects:
        done = ", ".join(f"{one.tool} ({one.state})" for one in result.effects)
        text += f" Before that it called: {done}."
    return ToolError(
        text,
        code=None if error is None else error.code,
        retryable=result.effect is Effect.NONE,
        retry_after_s=None if error is None else error.retry_after_s,
        effect=result.effect,
    )
