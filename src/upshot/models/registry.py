"""Makes a Model from a name such as "openai:gpt-5"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict, Unpack

from upshot.contract.base.checks import did_you_mean, nearest
from upshot.contract.base.structs import JsonObject
from upshot.contract.protocols import Model
from upshot.contract.settings import ModelSettings, ReasoningEffort
from upshot.errors import Misuse
from upshot.models.endpoint import ApiKey, Endpoint
from upshot.models.http_model import HttpModel
from upshot.models.prices import Prices
from upshot.models.providers import ALIASES, PROVIDERS, Provider
from upshot.models.scripted import open_script
from upshot.models.transport import ReplyLimits, Timeouts, Transport
from upshot.wire.pricing import Price

_LIBRARIES = ("aisuite", "litellm")
_EXAMPLE = 'write "provider:model", such as "openai:gpt-5" or "anthropic:claude-sonnet-4-5"'


class SettingFields(TypedDict, total=False):
    """The fields of ``ModelSettings``, as keywords; see there."""

    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    stop: tuple[str, ...] | None
    seed: int | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    reasoning: ReasoningEffort | int | None
    cache: bool | None
    hosted_tools: tuple[str | JsonObject, ...] | None
    extra: JsonObject


def resolve(
    name: str,
    *,
    base_url: str | None = None,
    api_key: ApiKey | None = None,
    headers: Mapping[str, str] | None = None,
    transport: Transport | None = None,
    timeouts: Timeouts | None = None,
    limits: ReplyLimits | None = None,
    prices: Prices | Mapping[str, Price] | None = None,
    openers: Mapping[str, Callable[[str], Model]] | None = None,
    credentials: object = None,
    **settings: Unpack[SettingFields],
) -> Model:
    """Make a model from its name. Nothing is sent yet; only a script's file is read.

    Args:
        name: "provider:model", with a provider of ``PROVIDERS``, or one with another of its
            surfaces, such as "openai-responses"; "litellm:MODEL" or "aisuite:MODEL" for a model
            that is called through one of these libraries; or "scripted:FILE" (see
            ``open_script``), which ignores the other options.
        base_url: Another server with the provider's surface: the part before
            "/chat/completions", "/responses", "/messages", "/models/" or "/model/". Without a path,
            "/v1" is added; for Gemini's surface, "/v1beta"; for Bedrock's, nothing. None uses the
            provider's own address; for azure, bedrock and vertex the environment says parts of it.
        api_key: The key, or a sync or async function that returns it, called before each request.
            None reads the provider's environment variable at each request; a server on loopback
            needs no key. For azure, a function returns an Entra ID token or a key.
        headers: Further headers of each request.
        transport: Sends the requests; None is the default, ``AiohttpTransport``.
        timeouts: How long one request may take.
        limits: How much of a reply is read.
        prices: The prices of models, by "provider:model". A mapping is looked up before
            genai-prices; ``Prices(table, only=True)`` replaces genai-prices.
        openers: Further providers: functions of the part after the ":".
        credentials: What signs the requests to a cloud instead of a key: for bedrock a session or
            credentials of boto3 or botocore, for vertex credentials of google-auth. None means the
            key, and without one what these libraries find.
        settings: Fields of ``ModelSettings``; a request's own settings override them.

    Raises:
        Misuse: There is no such provider or model, or an option is not allowed.
    """
    provider_name, colon, model = name.strip().partition(":")
    provider_name = provider_name.lower()
    if not colon:
        raise Misuse(f"{name!r} names no model: {_EXAMPLE}")
    # Checked first, so that a caller may replace a provider.
    if openers is not None and provider_name in openers:
        return openers[provider_name](model)
    if provider_name == "scripted":
        return open_script(model)
    provider = _find(provider_name)
    if provider is None and provider_name not in _LIBRARIES:
        raise Misuse(_unknown(provider_name, model, openers or {}))
    if not model:
        raise Misuse(f"{name!r} names no model of {provider_name}: {_EXAMPLE}")
    if provider is None:
        given = {"limits": limits, "transport": transport, "credentials": credentials}
        _check_for_library(provider_name, given)
        if provider_name == "aisuite" and (callable(api_key) or headers or timeouts is not None):
            raise Misuse("aisuite accepts no headers, no timeouts, and only a string as api_key")
        more: dict[str, Any] = {"headers": headers, "timeouts": timeouts}
        return _library(provider_name)(
            model,
            settings=_to_settings(settings),
            api_key=api_key,
            base_url=base_url,
            prices=prices,
            **(more if provider_name == "litellm" else {}),
        )
    return HttpModel(
        model,
        Endpoint(
            provider,
            base_url=base_url,
            api_key=api_key,
            headers=headers,
            credentials=credentials,
        ),
        settings=_to_settings(settings),
        transport=transport,
        timeouts=timeouts,
        limits=limits,
        prices=Prices.of(prices),
    )


def missing_key(model: Model) -> str | None:
    """Return the unset environment variable that *model* needs, None if it can be called."""
    holder = model.endpoint if isinstance(model, HttpModel) else model
    ask: Callable[[], str | None] | None = getattr(holder, "missing_key", None)
    return None if ask is None else ask()


_LIBRARY_HAS: Final = {
    "limits": "reads its replies itself",
    "transport": "has its own transport",
    "credentials": "finds its own credentials",
}


def _check_for_library(name: str, given: Mapping[str, object]) -> None:
    """Check that no option of *given* is set, which a library does not take."""
    for option, value in given.items():
        if value is not None:
            raise Misuse(f"{name} {_LIBRARY_HAS[option]}: leave out {option}=")


def _library(name: str) -> Callable[..., Model]:
    """Return the class of models called through a library; its module is imported only here."""
    from upshot.models import library_models

    return library_models.LiteLLMModel if name == "litellm" else library_models.AISuiteModel


def _find(name: str) -> Provider | None:
    """Return the provider called *name*; the name may end with one of its other surfaces."""
    name = ALIASES.get(name, name)
    provider = PROVIDERS.get(name)
    if provider is not None:
        return provider
    owner, _, surface = name.rpartition("-")
    provider = PROVIDERS.get(ALIASES.get(owner, owner))
    return None if provider is None else provider.speak(surface)


def _to_settings(fields: SettingFields) -> ModelSettings:
    unknown = sorted(set(fields) - set(ModelSettings.__struct_fields__))
    if unknown:
        fields_known = ModelSettings.__struct_fields__
        hint = did_you_mean(unknown[0], fields_known, "put what is the provider's own in extra=")
        raise Misuse(f"there is no setting {unknown[0]!r}: {hint}")
    return ModelSettings(**fields)


def _unknown(provider: str, model: str, openers: Mapping[str, object]) -> str:
    known = sorted({*PROVIDERS, *ALIASES, *_LIBRARIES, *openers, "scripted"})
    if near := nearest(provider, known):
        return f"there is no provider {provider!r}: did you mean {near[0]}:{model}?"
    return (
        f"there is no provider {provider!r}: there are {', '.join(known)}; any other server that "
        f"speaks Chat Completions is openai:{model} with base_url="
    )
