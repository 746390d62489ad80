"""Simulated tools: a function or an agent answers a call in the tool's place.

It gets the tool's declaration, what was recorded in the case, and what has been answered so far in
this trial. What an agent answers is a run in the journal of the experiment, so it is asked once.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypeAlias, cast

from upshot.contract.agent import Agent
from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import outcome_to_object
from upshot.errors import JournalError, Misuse
from upshot.lab.dataset import Case, RecordedCall
from upshot.models.registry import resolve
from upshot.runs.plan import without_fence
from upshot.tools.definition.tool_error import ToolError
from upshot.tools.execution.executor import BodyValue, Raised

_INSTRUCTIONS = """\
You stand in for a tool in a trial run of an AI agent. You get the tool's description and JSON
Schema, the calls that were recorded in a real run of the same request, the calls of the trial so
far, and one call. Answer with the JSON that the tool would return for this call, and nothing else.
Keep to the form of the recorded outcomes, and to what they and the calls so far say. A write
succeeds unless they show why it would not; later calls see what it changed."""
_MOST_OUTCOME_CHARACTERS = 4_000
NOT_SIMULATED = "the simulator "
"""How the text of a ``NotSimulated`` begins."""


@dataclass(frozen=True)
class SimulatedCall:
    """A tool call that a simulator answers.

    Attributes:
        tool: The tool.
        arguments: Its arguments, valid by its schema.
        description: What the tool says of itself.
        parameters: The JSON Schema of the arguments.
        effect: The effect that the tool declares.
        case: The case, with the calls that were recorded.
        earlier: The calls of this trial that have an outcome.
    """

    tool: str
    arguments: JsonObject
    description: str
    parameters: JsonObject
    effect: Effect
    case: Case
    earlier: Sequence[RecordedCall] = ()


Simulator: TypeAlias = "Callable[[SimulatedCall], Any] | Agent[Any] | str"
"""A function, sync or async, that returns or raises what the tool would; an agent with its own
instructions; or the name of a model, which gets the lab's."""
AskSimulator: TypeAlias = Callable[[Agent[Any], str, str], Awaitable[AgentResult[Any]]]
"""Asks an agent a text, for the call with this idempotency key."""


class NotSimulated(Exception):
    """The simulator gave no answer.

    Attributes:
        result: The result of the agent that was asked, None for a function.
    """

    def __init__(self, text: str, result: AgentResult[Any] | None = None) -> None:
        super().__init__(text)
        self.result = result


def check_simulator(given: object) -> Callable[[SimulatedCall], Any] | Agent[Any] | None:
    """Return a simulator as a function or an agent.

    Raises:
        Misuse: It is neither, and no name of a model.
    """
    if isinstance(given, str):
        resolve(given)
        return Agent("simulator", model=given, instructions=_INSTRUCTIONS)
    if given is None or isinstance(given, Agent) or callable(given):
        return cast("Any", given)
    raise Misuse(
        f"simulator is a function, an agent or the name of a model, got {format_value(given)}"
    )


async def simulate(
    call: SimulatedCall,
    simulator: Callable[[SimulatedCall], Any] | Agent[Any],
    ask: AskSimulator,
    *,
    key: str,
) -> BodyValue | Raised:
    """Return how the tool's body would have ended: what the simulator returns, or its ToolError.

    Raises:
        NotSimulated: The function raised something else, or the agent did not complete.
        JournalError: The journal of the experiment failed.
    """
    try:
        if isinstance(simulator, Agent):
            return BodyValue(await _answer_of(cast("Agent[Any]", simulator), call, ask, key))
        made: Any = simulator(call)
        return BodyValue(await made if isawaitable(made) else made)
    except ToolError as error:
        return Raised(error)
    except (NotSimulated, JournalError):
        raise
    except Exception as error:  # the caller's code, whose bug the report must show
        raise NotSimulated(f"{NOT_SIMULATED}raised {type(error).__name__}: {error}") from error


async def _answer_of(agent: Agent[Any], call: SimulatedCall, ask: AskSimulator, key: str) -> Json:
    result = await ask(agent, _text_for(call), key)
    if not result.success:
        why = result.status if result.error is None else result.error.code
        raise NotSimulated(f"{NOT_SIMULATED}did not complete: {why}", result)
    if result.output is not None and not isinstance(result.output, str):
        return to_free_json(result.output)[0]
    text = without_fence(result.content or "")
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text_for(call: SimulatedCall) -> str:
    parts = {
        "tool": {
            "name": call.tool,
            "description": call.description,
            "parameters": call.parameters,
            "effect": str(call.effect),
        },
        "request": call.case.request.text,
        "recorded": [_line_of(one) for one in call.case.calls],
        "so far": [_line_of(one) for one in call.earlier],
        "call": {"tool": call.tool, "arguments": call.arguments},
    }
    return "\n".join(
        f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in parts.items()
    )


def _line_of(call: RecordedCall) -> JsonObject:
    outcome: Json = outcome_to_object(call.outcome)
    text = json.dumps(outcome, ensure_ascii=False)
    if len(text) > _MOST_OUTCOME_CHARACTERS:
        outcome = text[:_MOST_OUTCOME_CHARACTERS] + "..."
    return {"tool": call.tool, "arguments": call.arguments, "outcome": outcome}
