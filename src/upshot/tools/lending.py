"""Lending: the tools of a Toolbox for agents of other people's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .foreign import Box

__all__ = ["Lending"]


class Lending:
    """What a Toolbox does for other frameworks: their agents, our gates, outcomes and records."""

    def for_pydantic_ai(self: Box) -> list[Any]:
        """The tools on offer as Pydantic AI's own, each call through the gates to an outcome.

        The outcome is the metadata of what the tool returns. Call ``new_turn()`` for each
        request. A call that needs approval is deferred by ``ApprovalRequired``.

        Raises:
            Misuse: The package is not installed.
        """
        from .foreign import to_pydantic_ai

        return to_pydantic_ai(self)

    def for_openai_agents(self: Box) -> list[Any]:
        """The tools on offer as function tools of the OpenAI Agents SDK; see ``for_pydantic_ai``.

        A tool that always needs approval interrupts the SDK's run; else the model is told that
        the call waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from .foreign import to_openai_agents

        return to_openai_agents(self)

    def for_langchain(self: Box) -> list[Any]:
        """The tools on offer as LangChain's own, for async calls; see ``for_pydantic_ai``.

        The outcome is the artifact of the message. Of a call that needs approval the model is
        told that it waits, and ``pending`` has it.

        Raises:
            Misuse: The package is not installed.
        """
        from .foreign import to_langchain

        return to_langchain(self)
