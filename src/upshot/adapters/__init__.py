"""Other people's agents in upshot's shapes: native results and exceptions become AgentResults.

Each adapter reads its library's objects by attribute or key; none of the libraries has to be
installed, and none is imported. What a native object does not say is None in the result, and named
in ``metadata["unknown"]``.
"""

from upshot.adapters.chat_clients import from_aisuite, from_litellm
from upshot.adapters.openai_agents import from_openai_agents
from upshot.adapters.pi_agent import from_pi_agent
from upshot.adapters.pydantic_ai import from_pydantic_ai
from upshot.adapters.smolagents import from_smolagents

__all__ = [
    "from_aisuite",
    "from_litellm",
    "from_openai_agents",
    "from_pi_agent",
    "from_pydantic_ai",
    "from_smolagents",
]
