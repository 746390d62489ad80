"""What engines share: agents in them, errors, hand-offs, and checks of functions.

A hand-off that an agent inside made is shown where the next step is chosen. Where the agent was the
last to do anything, it becomes the hand-off of the whole run, as if its own model had made it.
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
from upshot.native.returned import result_of_exception, told_error
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run


def asked_in(messages: Sequence[Message], feedback: str, *, otherwise: str = "") -> str:
    """The text of the last message; what a decider wants changed follows what was asked.

    Args:
        messages: Those of the main channel.
        feedback: What a decider wants changed, "" in the first attempt. It is the last message, and
            alone it would not say what the task is.
        otherwise: What was asked where no message says it.
    """
    last = messages[-1] if messages else None
    if last is None:
        return otherwise
    if not feedback or last.role is not Role.USER or last.text != feedback:
        return last.text
    before = messages[-2].text if len(messages) > 1 else otherwise
    return f"{before}\n\n{feedback}" if before else feedback


def ask_about(item: Json, text: str) -> str:
    """The request to an agent that works on *item*; *text* is the request without the item."""
    written = item if isinstance(item, str) else msgspec.json.encode(item).decode()
    return f"{text}\n\n{written}" if text else written


def read_failure(exception: Exception) -> AgentResult[Any] | None:
    """The failure that *exception* stands for; None where it is a bug of what raised it."""
    if isinstance(exception, RunFailed) or told_error(exception) is not None:
        return result_of_exception(exception)
    return None


def check_fit(function: Callable[..., object], what: str, *arguments: str) -> None:
    """Check that *function* can be called with these arguments, before a run starts.

    Args:
        function: What was given. One that does not tell its parameters, as some built-in ones,
            passes.
        what: What it is, for the message, such as "a script".
        arguments: The names of what it is called with, by position.

    Raises:
        Misuse: It cannot be called with these.
    """
    try:
        # A decorator may add arguments of its own, or drop some: what it wraps does not count.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        given = f"({', '.join(arguments)})"
        raise Misuse(
            f"{what} is called with {given}; {name} is not made for it: {error}"
        ) from error


_FIELDS = ("to_agent_id", "tool_name", "call_id", "reason", "note")


def form_of(event: HandoffEvent) -> JsonObject:
    """The hand-off as JSON, for the log."""
    return {name: getattr(event, name) for name in _FIELDS}


def read_handoff(form: Json) -> HandoffEvent | None:
    """The hand-off in the log, None where there is none."""
    if not isinstance(form, dict):
        return None
    fields: dict[str, Any] = {name: str(form.get(name, "")) for name in _FIELDS}
    return HandoffEvent(**fields)


async def hand_over(run: Run, host: RunHost, event: HandoffEvent | None) -> None:
    """Make *event* the hand-off of the run, unless it has made one."""
    if event is not None and run.handoff is None:
        await host.publish(event)


async def warn_of_unread(host: RunHost, place: str, to_agent_id: str, how: str) -> None:
    """Warn that a hand-off was made and nothing looked at it.

    Args:
        host: Of the run.
        place: Who made it, such as "the state 'ask'".
        to_agent_id: The agent that it was handed to.
        how: How it could be looked at.
    """
    message = f"{place} handed over to {to_agent_id!r}, and nothing asked whether it did: {how}"
    warning = RunWarning(code="handoff_not_followed", message=message, origin=Origin.ENGINE)
    await host.publish(Warned(warning=warning))


def lent_options(run: Run) -> dict[str, Any]:
    """The options of the run that hold for an agent inside it too.

    Returns:
        How model calls are tried again, where the call said it: an option of the call wins over
        that of any agent. ``Run.child`` lends the model and the dependencies.
    """
    options: dict[str, Any] = {}
    if run.is_retry_given:
        options["retry"] = run.retry
    return options


def check_models(agents: Iterable[Agent[Any]], *, has_model: bool) -> None:
    """Check that *agents* have a model, also those in graphs and machines that drive them.

    Args:
        agents: Those that will work.
        has_model: Whether the run has a model that agents without one may use.

    Raises:
        Misuse: One has none; all are named.
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
