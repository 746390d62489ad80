"""Lent model: which model an agent inside a graph or machine works with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..contract import Agent, Model
from ..errors import Misuse
from ..models import name_of
from ..runs import Run
from .loop import LoopEngine

__all__ = ["check_models", "model_for"]


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
