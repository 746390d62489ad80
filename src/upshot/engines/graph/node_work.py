"""What is done at one node: a function, an agent, a tool, a question."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from upshot.contract.agent_spec import HANDOFF_STATE_KEY
from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import ErrorCode, Origin, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.result import OUTPUT_VAR, AgentResult
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from upshot.engines.common import asked_in, form_of, lent_options
from upshot.engines.graph.branches import BoardCopy
from upshot.engines.graph.nodes import AgentTask, Question, ToolTask
from upshot.engines.walk import Walk
from upshot.errors import Misuse
from upshot.runs.ending import read_returned
from upshot.runs.engine_api.exceptions import Failed, Parked
from upshot.state.board import Board


async def evaluate(function: Callable[..., Any], *arguments: object) -> Any:
    """Call what a user gave, sync or async."""
    value = function(*arguments)
    return await value if inspect.isawaitable(value) else value


async def run_agent(
    walk: Walk, task: AgentTask, board: BoardCopy, key: str, *, is_retried: bool
) -> tuple[Any, JsonObject | None]:
    """Run an agent as a child run; its answer is appended to the board.

    Args:
        walk: The pass that it belongs to.
        task: Who works, and on what.
        board: Of the node.
        key: Names the run of the agent, which goes on where it was cut off.
        is_retried: Whether the node is tried again; its model calls are not as well, for the
            waits would multiply.

    Returns:
        Its output, and the hand-off that it made, None for none; the board shows that too.

    Raises:
        Aborted: It was aborted, and so is the run.
        Interrupted: It was interrupted, and so is the run.
        Failed: It did not complete for another reason.
        Parked: It waits for the user.
    """
    asked = task.request
    if callable(asked):
        asked = await evaluate(asked, board)
    if asked is None:
        asked = board.asked or asked_in(board.messages(), walk.run.feedback)
    request = asked if isinstance(asked, Request) else Request(str(asked))
    options = lent_options(task.agent, walk.run)
    if is_retried:
        options["retry"] = None
    result: AgentResult[Any] = await walk.run.child(task.agent, request, key=key, **options)
    returned = read_returned(result)
    if returned is not None and returned.ending is not None:
        raise returned.ending
    if result.content:
        board.append(Message(Role.ASSISTANT, result.content))
    handoff = None if result.handoff is None else form_of(result.handoff)
    if handoff is not None or (task.agent.handoffs and board.get(HANDOFF_STATE_KEY) is not None):
        # An earlier hand-off is over where this agent made none.
        board.set(HANDOFF_STATE_KEY, handoff)
    return result.output if result.output is not None else result.content, handoff


async def call_tool(walk: Walk, task: ToolTask, board: Board, call_id: str) -> Json:
    """Call a tool of the run; a call that an earlier session settled is not made again.

    Returns:
        What it returned.

    Raises:
        Failed: It was refused, failed, or took too long.
        Parked: It waits for an approval.
    """
    run = walk.run
    arguments = task.arguments
    if callable(arguments):
        arguments = await evaluate(arguments, board)
    given = cast("Mapping[str, Json]", arguments)
    call = ToolCall(call_id, task.tool, dict(given))
    # A graph decides itself what is repeated, so each call is a turn of its own.
    run.tools.new_turn()
    outcomes = await run.tools.dispatch([call])
    if not outcomes:
        raise Parked(*(wait for wait in run.tools.pending if wait.call_id == call_id))
    return _value_of(outcomes[0])


def _value_of(outcome: ToolOutcome) -> Json:
    error = AgentError(
        outcome.code or ErrorCode.INTERNAL,
        f"tool {outcome.tool_name!r} failed",
        type=outcome.kind,
        origin=Origin.TOOL,
    )
    match outcome:
        case ToolExecutionResult(output=output):
            # What was no mapping stands under this name.
            return output["result"] if output.keys() == {"result"} else output
        case ToolArtifactReference(artifact_id=id, summary=summary, size_bytes=size):
            return {"artifact_id": id, "summary": summary, "size_bytes": size}
        case ToolDenied(reason=reason, details=details):
            code = outcome.code or ErrorCode.POLICY_DENIED
            message = f"tool {outcome.tool_name!r} was refused ({reason}): {details}"
            raise Failed(replace(error, code=code, message=message))
        case ToolTimeout(timeout_s=limit, retryable=retryable):
            code = outcome.code or ErrorCode.TIMEOUT
            message = f"tool {outcome.tool_name!r} took longer than {limit:g} s"
            raise Failed(replace(error, code=code, message=message, retryable=retryable))
        case ToolFailure(error=said, retryable=retryable, retry_after_s=after_s):
            message = f"tool {outcome.tool_name!r} failed: {said}"
            raise Failed(
                replace(error, message=message, retryable=retryable, retry_after_s=after_s)
            )


async def ask_person(walk: Walk, question: Question, board: Board, key: str) -> Json:
    """Ask the user.

    Raises:
        Parked: The user cannot answer now.
    """
    text = question.text
    if callable(text):
        text = str(await evaluate(text, board))
    return await walk.questions.ask(key, text, question.choices)


def keep_value(board: Board, value: Any, *, output: str, name: str) -> None:
    """Put on the board what a function returned.

    Args:
        board: Its copy.
        value: What it returned.
        output: The variable that takes it, "" for what speaks for itself.
        name: The node's, for the error.

    Raises:
        Misuse: Without *output*, it is neither None, a board, nor a mapping.
    """
    if output:
        board.set(output, value)
    elif isinstance(value, Board):
        board.adopt(value)
    elif isinstance(value, Mapping):
        for variable, given in cast("Mapping[str, Any]", value).items():
            board.set(variable, given)
    elif value is not None:
        raise Misuse(
            f"node {name!r} returned {kind_of(value)}: return None, the board or a mapping "
            f"of variables, or name the variable that takes it, Node(..., output={OUTPUT_VAR!r})"
        )
