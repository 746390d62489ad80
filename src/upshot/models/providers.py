"""The table of providers: their addresses, keys and API surfaces."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

SurfaceName: TypeAlias = Literal["chat", "responses", "messages", "generate"]
"""An API surface of a provider."""


class Provider(msgspec.Struct, frozen=True):
    """A provider: its address, its key, and the API surfaces it supports.

    Attributes:
        name: The part before the ":" of a model's name.
        base_url: The part before the path of the surface; "" if the caller must give it.
        key_variable: The environment variable of its key, "" if it needs none.
        surface: The API surface to use, unless the caller names another.
        key_header: The header of the key; in "authorization" it is sent as a bearer token.
        headers: Further headers of every request.
        reports_cost: Whether its replies report their cost.
        other_surfaces: Further surfaces at the same address.
        other_variable: Another name of the key's variable, "" if there is none.
        example: A sample ``base_url``, if the caller must give one.
    """

    name: str
    base_url: str
    key_variable: str = ""
    surface: SurfaceName = "chat"
    key_header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    reports_cost: bool = False
    other_surfaces: tuple[SurfaceName, ...] = ()
    other_variable: str = ""
    example: str = ""

    def speak(self, surface: str) -> Provider | None:
        """Return this provider with *surface*; None if it does not support it."""
        for known in (self.surface, *self.other_surfaces):
            if known == surface:
                return msgspec.structs.replace(self, surface=known)
        return None


_ALL = (
    Provider(
        "openai", "https://api.openai.com/v1", "OPENAI_API_KEY", other_surfaces=("responses",)
    ),
    Provider(
        "anthropic",
        "https://api.anthropic.com/v1",
        "ANTHROPIC_API_KEY",
        surface="messages",
        key_header="x-api-key",
        headers=(("anthropic-version", "2023-06-01"),),
    ),
    Provider(
        "google",
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY",
        surface="generate",
        key_header="x-goog-api-key",
        other_variable="GOOGLE_API_KEY",
    ),
    # A token of gcloud lasts an hour: programs that run longer pass a function as api_key.
    Provider(
        "vertex",
        "",
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        surface="generate",
        example="https://aiplatform.googleapis.com/v1/projects/NAME/locations/global"
        "/publishers/google",
    ),
    # Each resource has its own address.
    Provider(
        "azure",
        "",
        "AZURE_OPENAI_API_KEY",
        key_header="api-key",
        other_surfaces=("responses",),
        example="https://NAME.openai.azure.com/openai/v1",
    ),
    Provider(
        "alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    Provider("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    Provider(
        "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", other_surfaces=("responses",)
    ),
    Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    Provider("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    Provider("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    Provider("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    Provider(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        reports_cost=True,
        other_surfaces=("responses",),
    ),
    Provider("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", reports_cost=True),
    Provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY", other_surfaces=("responses",)),
    Provider("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    Provider("ollama", "http://localhost:11434/v1", other_surfaces=("responses",)),
    Provider("vllm", "http://localhost:8000/v1", other_surfaces=("responses",)),
)

PROVIDERS: Final[dict[str, Provider]] = {provider.name: provider for provider in _ALL}
"""All providers by name."""

ALIASES: Final = {"gemini": "google"}
"""Other names of providers."""
