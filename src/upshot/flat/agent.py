"""An agent as flat code calls one, over any model."""

from __future__ import annotations

from ..contract import Message, Model, ModelRequest
from .conversion import to_agent_response
from .response import AgentResponse

__all__ = ["FlatAgent"]


class FlatAgent:
    """One call of a model, asked by a prompt: ``await FlatAgent(model).call(prompt="Hello")``.

    Attributes:
        provider: The provider of the model's name.
        model: The model's name without it.
    """

    def __init__(self, model: Model, *, system: str | None = None) -> None:
        """Make an agent.

        Args:
            model: What answers, such as ``upshot.resolve("openai:gpt-5")``.
            system: Instructions that go with every call.
        """
        self._model = model
        self._system = system
        self.provider: str
        self.model: str
        self.provider, _, self.model = model.name.partition(":")

    async def call(self, prompt: str) -> AgentResponse:
        """Ask *prompt*.

        Returns:
            What came of it, errors as values too.
        """
        request = ModelRequest((Message("user", prompt),), system=self._system)
        return to_agent_response(await self._model.call(request))
