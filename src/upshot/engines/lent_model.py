"""Lent model: which model an agent inside a graph or machine works with."""

from __future__ import annotations

from typing import Any

from ..contract import Agent, Model
from ..errors import Misuse
from ..runs import Run

__all__ = ["model_for"]


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
    is_own = model is own or (isinstance(own, str) and model.name == own)
    return None if is_own and (agent.model is not None or agent.engine is not None) else model
