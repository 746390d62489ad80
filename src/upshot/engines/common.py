"""What engines share: agents in them, errors, handoffs, and checks of functions.

The choice of the next step can depend on a handoff made by an agent inside. If that agent was the
last to work, its handoff becomes the handoff of the whole run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.enums import Origin, Role
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import RunWarning
from upshot.contract.events import Warned
from upshot.contract.message import Message
from upshot.contract.result import AgentResult
from upshot.engines.loop import LoopEngine
from upshot.errors import Misuse, RunFailed
from upshot.native.returned import reported_error, result_of_exception
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run


def asked_in(messages: Sequence[Message], feedback: str, *, otherwise: str = "") -> str:
    """Return the text of the last message; feedback of a decider follows the request.

    Args:
        messages: The messages of the main channel.
        feedback: What a decider wants changed, "" in the first attempt. It is the last message, and
            alone it would not say what the task is.
        otherwise: The request, if no message contains it.
    """
    last = messages[-1] if messages else None
    if last is None:
        return otherwise
    if not feedback or last.role is not Role.USER or last.text != feedback:
        return last.text
    before = messages[-2].text if len(messages) > 1 else otherwise
    return f"{before}\n\n{feedback}" if before else feedback


def ask_about(item: Json, text: str) -> str:
    """Return the request to an agent that works on *item*; *text* is the request without it."""
    written = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    return f"{text}\n\n{written}" if text else written


def read_failure(exception: Exception) -> AgentResult[Any] | None:
    """Return the failure that *exception* reports; None if it is a bug."""
    if isinstance(exception, RunFailed) or reported_error(exception) is not None:
        return result_of_exception(exception)
    return None


def check_fit(function: Callable[..., object], what: str, *arguments: str) -> None:
    """Check that *function* can be called with these arguments, before a run starts.

    Args:
        function: The function. One without a readable signature, such as some built-ins, passes.
        what: What it is, for the message, such as "a script".
        arguments: The names of its positional arguments.

    Raises:
        Misuse: It cannot be called with these.
    """
    try:
        # A decorator may add or drop arguments, so check its own signature and not the wrapped one.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        given = f"({', '.join(arguments)})"
        raise Misuse(
            f"{what} is called with {given}, which {name} does not accept: {error}"
        ) from error


_FIELDS = ("to_agent_id", "tool_name", "call_id", "reason", "note")


def form_of(event: HandoffEvent) -> JsonObject:
    """Return the handoff as JSON, for the log."""
    return {name: getattr(event, name) for name in _FIELDS}


def read_handoff(form: Json) -> HandoffEvent | None:
    """Return the logged handoff, None if there is none."""
    if not isinstance(form, dict):
        return None
    fields: dict[str, Any] = {name: str(form.get(name, "")) for name in _FIELDS}
    return HandoffEvent(**fields)


async def hand_over(run: Run, host: RunHost, event: HandoffEvent | None) -> None:
    """Make *event* the handoff of the run, unless it has one."""
    if event is not None and run.handoff is None:
        await host.publish(event)


async def warn_of_unread(host: RunHost, place: str, to_agent_id: str, how: str) -> None:
    """Warn that a handoff was made and nothing read it.

    Args:
        host: The host of the run.
        place: What made it, such as "the state 'ask'".
        to_agent_id: The agent that it was made to.
        how: How the user can read it.
    """
    message = f"{place} handed over to {to_agent_id!r}, and nothing read the handoff: {how}"
    warning = RunWarning(code="handoff_not_followed", message=message, origin=Origin.ENGINE)
    await host.publish(Warned(warning=warning))


def lent_options(run: Run) -> dict[str, Any]:
    """Return the options of the run that agents inside it inherit.

    Returns:
        ``retry``, if the call set it: an option of the call overrides those of all agents.
        ``Run.child`` passes on the model and the dependencies.
    """
    options: dict[str, Any] = {}
    if run.is_retry_given:
        options["retry"] = run.retry
    return options


def check_models(agents: Iterable[Agent[Any]], *, has_model: bool) -> None:
    """Check that *agents* have a model, including those in nested graphs and machines.

    Args:
        agents: The agents that will work.
        has_model: Whether the run has a model that agents without one may use.

    Raises:
        Misuse: Some have none; all of them are named.
    """
    if has_model:
        return
    missing = [repr(agent.id) for agent in agents if _lacks_model(agent)]
    if missing:
        named = " and ".join(dict.fromkeys(missing))
        raise Misuse(
            f"there is no model for {named}: give Agent(model='provider:name') or run(..., model=)"
        )


def _lacks_model(agent: Agent[Any]) -> bool:
    if agent.model is not None:
        return False
    engine = agent.engine
    if engine is None or isinstance(engine, LoopEngine):
        return engine is None or engine.model is None
    check = getattr(engine, "check_models", None)
    if callable(check):
        check(has_model=False)
    return False
