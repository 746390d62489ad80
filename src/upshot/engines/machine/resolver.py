"""The agents and functions that a machine names, found before anything starts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.base.checks import expected, kind_of
from upshot.contract.base.enums import Status
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json
from upshot.contract.model_calls import ModelResponse, Request
from upshot.contract.protocols import Engine
from upshot.engines.common import check_models, lent_options
from upshot.engines.machine.machine import Machine, Task
from upshot.engines.machine.state_outcome import Outcome
from upshot.engines.walk import Walk
from upshot.errors import Misuse
from upshot.native.returned import coerce_result, read_result
from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.tools.catalog import resolve_tools


@runtime_checkable
class Executor(Protocol):
    """An agent of another kind: what it returns goes through ``coerce_result``."""

    async def execute(self, input: Any, context: Any) -> Any:
        """Work on the input; the context is a copy."""
        ...


MachineAgent: TypeAlias = Agent[Any] | Engine | Executor


class Resolver:
    """The agents and functions of a machine, by the tasks of its states.

    Args:
        machine: The machine.
        agents: By name; they override those that the machine describes.
        functions: By name.
        tools: The tools that described agents name.

    Raises:
        Misuse: Some are missing or cannot be used; all missing ones are named.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        agents: Mapping[str, MachineAgent],
        functions: Mapping[str, Callable[..., Any]],
        tools: Iterable[object],
    ) -> None:
        _check_named(agents, "agents", "agent")
        _check_named(functions, "functions", "function")
        self._functions = dict(functions)
        self._tools = tuple(tools)
        self._given = {name: _check_agent(name, agent) for name, agent in agents.items()}
        for name, function in self._functions.items():
            if not callable(cast("object", function)):
                raise Misuse(f"functions[{name!r}] is {kind_of(function)}: give a function")
        # By task, because a name may stand for another agent in a sub-machine.
        self._agents: dict[int, Agent[Any] | Executor] = {}
        self._find_all(machine)

    def _find_all(self, machine: Machine) -> None:
        missing: list[str] = []
        for holder, task in machine.tasks():
            if task.kind == "agent":
                # A sub-machine may use the agents of the outermost machine.
                described = holder.agents.get(task.name) or machine.agents.get(task.name)
                agent = self._given.get(task.name) or described
                if agent is None:
                    known = (*self._given, *machine.agents, *holder.agents)
                    missing.append(_missing_message("agent", task, known))
                else:
                    self._agents[id(task)] = agent
                    missing += self._missing_tools(task, agent)
            elif task.kind == "function" and task.name not in self._functions:
                missing.append(_missing_message("function", task, self._functions))
        if missing:
            raise Misuse("; ".join(dict.fromkeys(missing)))

    def _missing_tools(self, task: Task, agent: Agent[Any] | Executor) -> list[str]:
        """Return messages about tools that *agent* names and that do not exist."""
        named = agent.tools or () if isinstance(agent, Agent) else ()
        wanted = [tool for tool in named if isinstance(tool, str)]
        if not wanted:
            return []
        known = [tool.name for tool in resolve_tools(self._tools)]
        return [
            f"{task.mark}: the agent {task.name!r} names the tool {name!r}: expected "
            + expected(name, known, "one of those given, tools=[...]")
            for name in wanted
            if name not in known
        ]

    @property
    def agents(self) -> tuple[Agent[Any], ...]:
        """The agents that call a model, without duplicates."""
        found = (agent for agent in self._agents.values() if isinstance(agent, Agent))
        return tuple({agent.id: agent for agent in found if agent.engine is None}.values())

    def check_models(self, *, has_model: bool) -> None:
        """Check that all agents have a model.

        Args:
            has_model: Whether the run has a model that agents without one may use.

        Raises:
            Misuse: Some have none; all of them are named.
        """
        agents = (agent for agent in self._agents.values() if isinstance(agent, Agent))
        check_models(agents, has_model=has_model)

    async def call(self, task: Task, given: Json) -> Outcome:
        """Call a function with its input as keywords.

        Returns:
            What it returned, or the failure that it raised.

        Raises:
            Failed: Its input is not a mapping.
        """
        # The machine's input is for agents; functions would not know these keywords.
        keywords = {} if task.input is None else given
        if not isinstance(keywords, dict):
            message = f"{task.mark}: the input of the function {task.name!r} is not a mapping"
            raise Failed("invalid_request", message)
        value: object = await _call(self._functions[task.name], **keywords)
        if value is None or isinstance(value, str | int):
            return Outcome(value)
        # It raised, and ``_call`` has converted that.
        if isinstance(value, Outcome):
            return value
        result = read_result(value, or_data=True)
        if result is not None and (result.error is not None or not isinstance(value, Mapping)):
            return Outcome.of(result)
        try:
            return Outcome(to_free_json(cast("object", value))[0])
        except UnserializableError:
            return Outcome.of(coerce_result(cast("object", value)))

    async def ask(
        self, task: Task, given: Json, context: Mapping[str, Json], *, walk: Walk, key: str
    ) -> Outcome:
        """Run an agent on its input.

        Args:
            task: The task.
            given: The input.
            context: The machine's context; foreign agents get a copy of it.
            walk: The walk that it belongs to.
            key: The key of the child run, which resumes with this run.

        Returns:
            The outcome.

        Raises:
            Parked: It waits for the user.
        """
        agent, run = self._agents[id(task)], walk.run
        if not isinstance(agent, Agent):
            # A copy, because changes by foreign code would not be in the log.
            return await _execute(agent, given, deepcopy(dict(context)), run=run, host=walk.host)
        options = lent_options(run)
        if self._tools and any(isinstance(tool, str) for tool in agent.tools or ()):
            options["tools"] = self._tools
        if task.retry is not None:
            # Retry is in one place: if the state has retries, its model calls have none.
            options["retry"] = None
        result = await run.child(agent, _request(given), key=key, **options)
        if result.status is Status.INPUT_REQUIRED:
            raise Parked(*result.pending)
        return Outcome.of_agent(result)


async def _call(function: Callable[..., Any], *arguments: object, **keywords: object) -> Any:
    """Return what *function* returned; an Outcome if it raised, which is a failure of the state."""
    try:
        value = function(*arguments, **keywords)
        return await value if inspect.isawaitable(value) else value
    except (Parked, Interrupted, Aborted):
        raise
    except Exception as error:
        # The boundary to functions and agents of users.
        return Outcome.raised(error)


async def _execute(
    agent: Executor, given: Json, context: dict[str, Json], *, run: Run, host: RunHost
) -> Outcome:
    value = await _call(agent.execute, given, context)
    if isinstance(value, Outcome):
        return value
    result = coerce_result(value)
    if result.parent_run_id != run.id and (result.usage or result.cost is not None):
        # A child run that it started has been counted already.
        await host.report_usage(ModelResponse(usage=result.usage, cost=result.cost))
    return Outcome.of_agent(result)


def _check_named(given: object, what: str, one: str) -> None:
    if not isinstance(given, Mapping):
        raise Misuse(f"{what} is {kind_of(given)}: give a mapping by name: {what}={{'x': {one}}}")


def _check_agent(name: str, agent: object) -> Agent[Any] | Executor:
    if isinstance(agent, Agent):
        return cast("Agent[Any]", agent)
    execute = getattr(agent, "execute", None)
    if not callable(execute):
        raise Misuse(
            f"agents[{name!r}] is {kind_of(agent)}: give an Agent, an Engine, or an "
            "object with async execute(input, context)"
        )
    if _takes_input(execute):
        return cast("Executor", agent)
    return Agent[Any](name, engine=cast("Engine", agent))


def _takes_input(execute: Callable[..., object]) -> bool:
    """Whether it is ``execute(input, context)``; an engine's takes run, host and board.

    Raises:
        Misuse: It is neither.
    """
    try:
        parameters = inspect.signature(execute).parameters
    except (TypeError, ValueError):
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [one for one in parameters.values() if one.kind in plain]
    needed = [one for one in places if one.default is inspect.Parameter.empty]
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters.values())
    if len(needed) > 3 or (len(places) < 2 and not takes_any):
        raise Misuse(
            f"execute{inspect.signature(execute)} can be called neither with input and context, as "
            "an agent's, nor with run, host and board, as an engine's"
        )
    return len(needed) <= 2 <= len(places)


def _missing_message(what: str, task: Task, known: Iterable[str]) -> str:
    wanted = expected(task.name, dict.fromkeys(known), f"one of those given, {what}s={{...}}")
    return f"{task.mark}: there is no {what} {task.name!r}: expected {wanted}"


def _request(given: Json) -> Request:
    """Return an agent's request: a text; the ``message`` of a mapping; else the whole as JSON."""
    if isinstance(given, str):
        return Request(given)
    if not isinstance(given, dict):
        return Request(_to_text(given))
    message = given.get("message")
    if isinstance(message, str):
        return Request(message, inputs={n: v for n, v in given.items() if n != "message"})
    return Request(_to_text(given), inputs=given)


def _to_text(value: Json) -> str:
    return msgspec.json.encode(value).decode()
