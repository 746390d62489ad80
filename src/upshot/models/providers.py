"""Who can be asked, and where: the providers as one table."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["PROVIDERS", "Provider"]


class Provider(msgspec.Struct, frozen=True):
    """Where a provider is asked, and how it wants to be paid.

    Attributes:
        name: What stands before the ":" of a model's name.
        base_url: What stands before the path of the surface; "" where the caller has to say it.
        key_variable: The environment variable of its key, "" where it wants none.
        surface: The API surface that it speaks.
        key_header: The header that carries the key; "authorization" takes it as a bearer token.
        headers: What else every request carries.
        reports_cost: Whether its replies say what they cost.
    """

    name: str
    base_url: str
    key_variable: str = ""
    surface: Literal["chat", "messages"] = "chat"
    key_header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    reports_cost: bool = False


_ALL = (
    Provider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    Provider(
        "anthropic",
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        surface="messages",
        key_header="x-api-key",
        headers=(("anthropic-version", "2023-06-01"),),
    ),
    # Each resource has its own address, such as https://NAME.openai.azure.com/openai/v1.
    Provider("azure", "", "AZURE_OPENAI_API_KEY", key_header="api-key"),
    Provider(
        "alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    Provider("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    Provider("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    Provider("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    Provider("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    Provider("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", reports_cost=True),
    Provider("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", reports_cost=True),
    Provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    Provider("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    Provider("ollama", "http://localhost:11434/v1"),
    Provider("vllm", "http://localhost:8000/v1"),
)

PROVIDERS: Final[dict[str, Provider]] = {provider.name: provider for provider in _ALL}
"""All providers by name."""
