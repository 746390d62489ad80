"""Agents that another agent calls as tools, each call in a child run."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from upshot.contract.agent import Agent, AgentTool
from upshot.contract.base.enums import Status, worst_effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.result import AgentResult
from upshot.contract.tool_context import ToolContext
from upshot.runs.plan import OutputType
from upshot.runs.run_context import current_run
from upshot.tools.call_state import AgentWaits, running_call
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


# Cached, so that all runs of an agent share their catalog of tools.
@functools.lru_cache(maxsize=256)
def _tool_of(item: AgentTool) -> Tool:
    wanted = None if item.input is None else OutputType.of(item.input, what="input of an agent")
    made = Tool.from_schema(
        item.name,
        item.description,
        _REQUEST if wanted is None or wanted.schema is None else wanted.schema,
        _AgentBody(item.agent, wanted).ask,
        # Itself it changes nothing: what its agent does is in the child run, and counts.
        effect="read",
        approval=item.approval,
        timeout_s=item.timeout_s,
        error_key=None,
    )
    object.__setattr__(made, "runs_agent", True)
    return made


class _AgentBody:
    """The body of a tool that runs an agent."""

    def __init__(self, agent: Agent[Any], wanted: OutputType | None) -> None:
        self._agent = agent
        self._wanted = wanted

    async def ask(self, context: ToolContext[object], given: JsonObject) -> Json:
        """Run the agent, or resume its run, and return its answer.

        Raises:
            AgentWaits: It waits for an answer.
            ToolError: It did not complete.
        """
        link, agent = current_run.get(), self._agent
        if link is None or link.child is None:
            text = f"{context.tool_name} runs an agent, which works only in the run of an agent"
            raise ToolError(text, retryable=False)
        # The key is in the log, so a call that is made again finds the run of its agent.
        result = await link.child(agent, self._request(given), key=context.idempotency_key)
        call = running_call.get()
        if call is not None:
            # A run that had ended before this session reports nothing.
            call.inside = worst_effect((call.inside, result.effect))
        if result.status is Status.INPUT_REQUIRED:
            raise AgentWaits(result.pending)
        if not result.success:
            raise _error_of(agent, result)
        return cast("Json", result.content if result.output is None else result.output)

    def _request(self, given: JsonObject) -> Request:
        if self._wanted is None:
            return Request(cast("str", given["request"]))
        try:
            self._wanted.build(given)
        except ValueError as error:
            raise ToolError(str(error), effect="none") from error
        return Request(msgspec.json.encode(given).decode(), inputs=given)


def _error_of(agent: Agent[Any], result: AgentResult[Any]) -> ToolError:
    error = result.error
    text = f"The agent {agent.id} ended as {result.status}"
    if error is None:
        return ToolError(text)
    return ToolError(f"{text}: {error.message}", code=error.code, retry_after_s=error.retry_after_s)
