"""Lent model: with what of the run an agent works inside its graph or machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..contract import Agent, Model
from ..errors import Misuse
from ..models import name_of
from ..runs import Run
from .loop import LoopEngine

__all__ = ["check_models", "lent_options", "model_for"]


def lent_options(agent: Agent[Any], run: Run) -> dict[str, Any]:
    """The options of the run that hold for *agent* inside of it too.

    Returns:
        Its dependencies; its model, where ``model_for`` gives one; and how model calls are tried
        again, where the call said it: an option of the call wins over that of any agent.
    """
    options: dict[str, Any] = {}
    if run.dependencies is not None:
        options["dependencies"] = run.dependencies
    model = model_for(agent, run)
    if model is not None:
        options["model"] = model
    if run.is_retry_given:
        options["retry"] = run.retry
    return options


def model_for(agent: Agent[Any], run: Run) -> Model | None:
    """The model of the run, where the call named one or the agent has none of its own.

    Returns:
        None where the agent keeps its own.
    """
    try:
        model = run.model
    except Misuse:
        return None
    own = run.agent.model
    is_own = model is own or (isinstance(own, str) and name_of(model) == own)
    return None if is_own and (agent.model is not None or agent.engine is not None) else model


def check_models(agents: Iterable[Agent[Any]], *, has_model: bool) -> None:
    """Look whether *agents* have a model, those in the graphs and machines that drive them too.

    Args:
        agents: Who will work.
        has_model: Whether the run has a model that it lends.

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
