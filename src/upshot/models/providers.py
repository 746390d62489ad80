"""The table of providers: their addresses, keys and API surfaces.

Source:
    Each provider's reference of its API, read November 2026: for the addresses of clouds,
    https://docs.aws.amazon.com/general/latest/gr/bedrock.html,
    https://cloud.google.com/vertex-ai/docs/reference/rest and
    https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle.
"""

from __future__ import annotations

import os
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

SurfaceName: TypeAlias = Literal["chat", "responses", "messages", "generate", "converse", "invoke"]
"""An API surface of a provider."""


class Place(NamedTuple):
    """A part of an address that the environment says, such as a region.

    Attributes:
        meaning: What it is, for messages.
        variables: The environment variables that may have it; the first that is set counts.
        default: What it is if none is set, "" if it must be given.
        is_address: Whether it is an address itself.
    """

    meaning: str
    variables: tuple[str, ...]
    default: str = ""
    is_address: bool = False

    def read(self) -> str:
        """Return what the environment says, "" if nothing."""
        found = (os.environ.get(variable, "").strip() for variable in self.variables)
        return next(filter(None, found), "")


PLACES: Final = {
    "region": Place("a region", ("AWS_REGION", "AWS_DEFAULT_REGION")),
    "project": Place("a project", ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")),
    "location": Place("a location", ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"), "global"),
    "endpoint": Place("an address", ("AZURE_OPENAI_ENDPOINT",), is_address=True),
}
"""The parts of addresses that stand in braces."""


class Provider(msgspec.Struct, frozen=True):
    """A provider: its address, its key, and the API surfaces it supports.

    Attributes:
        name: The part before the ":" of a model's name.
        base_url: The part before the path of the surface; parts in braces are ``PLACES``.
        key_variable: The environment variable of its key, "" if it needs none.
        surface: The API surface to use, unless the caller names another.
        key_header: The header of the key; in "authorization" it is sent as a bearer token.
        headers: Further headers of every request.
        reports_cost: Whether its replies report their cost.
        other_surfaces: Further surfaces at the same address.
        other_variable: Another name of the key's variable, "" if there is none.
        example: A sample ``base_url``, if the caller may have to give one.
        cloud: The cloud whose credentials sign requests without a key, "" if there is none.
        tokens: Whether a function that is passed as the key returns a bearer token.
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
    cloud: Literal["", "aws", "google"] = ""
    tokens: bool = False

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
    # A token in the variable lasts an hour; credentials of google-auth are refreshed.
    Provider(
        "vertex",
        "https://{host}/v1/projects/{project}/locations/{location}/publishers/{publisher}",
        "CLOUDSDK_AUTH_ACCESS_TOKEN",
        surface="generate",
        other_surfaces=("messages",),
        example="https://aiplatform.googleapis.com/v1/projects/NAME/locations/global"
        "/publishers/google",
        cloud="google",
    ),
    Provider(
        "bedrock",
        "https://bedrock-runtime.{region}.amazonaws.com",
        "AWS_BEARER_TOKEN_BEDROCK",
        surface="converse",
        other_surfaces=("invoke",),
        example="https://bedrock-runtime.us-east-1.amazonaws.com",
        cloud="aws",
    ),
    # Each resource has its own address.
    Provider(
        "azure",
        "{endpoint}/openai/v1",
        "AZURE_OPENAI_API_KEY",
        key_header="api-key",
        other_surfaces=("responses",),
        example="https://NAME.openai.azure.com/openai/v1",
        tokens=True,
    ),
    Provider(
        "alibaba", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    # Amazon's servers for OpenAI's surfaces; only a key is accepted here.
    Provider(
        "bedrock-mantle",
        "https://bedrock-mantle.{region}.api.aws/v1",
        "AWS_BEARER_TOKEN_BEDROCK",
        other_surfaces=("responses",),
        example="https://bedrock-mantle.us-east-1.api.aws/v1",
    ),
    Provider("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    Provider(
        "cohere",
        "https://api.cohere.ai/compatibility/v1",
        "COHERE_API_KEY",
        other_variable="CO_API_KEY",
    ),
    Provider(
        "deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", other_surfaces=("responses",)
    ),
    Provider(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        other_surfaces=("responses",),
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
    Provider("vercel-gateway", "https://ai-gateway.vercel.sh/v1", "AI_GATEWAY_API_KEY"),
    Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY", other_surfaces=("responses",)),
    Provider("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    Provider("llamacpp", "http://localhost:8080/v1", other_surfaces=("responses", "messages")),
    Provider("ollama", "http://localhost:11434/v1", other_surfaces=("responses", "messages")),
    Provider("vllm", "http://localhost:8000/v1", other_surfaces=("responses", "messages")),
)

PROVIDERS: Final[dict[str, Provider]] = {provider.name: provider for provider in _ALL}
"""All providers by name."""

ALIASES: Final = {"gemini": "google"}
"""Other names of providers."""
