"""Calling a model: names to models, HTTP, keys, scripts and retry."""

from upshot.contract.protocols import Model
from upshot.contract.settings import Retry
from upshot.models.aiohttp_transport import (
    AiohttpTransport,
    aclose_transports,
    default_transport,
)
from upshot.models.fallback import FALLBACK_CODES, Fallback
from upshot.models.http_model import ApiKey, Endpoint, HttpModel
from upshot.models.prices import Prices
from upshot.models.providers import PROVIDERS, Provider
from upshot.models.registry import SettingFields, missing_key, name_of, resolve
from upshot.models.retry import OnRetry, call_with_retry, stream_with_retry
from upshot.models.scripted import Reply, ScriptedModel, ScriptItem, open_script
from upshot.models.transport import Answered, ReplyLimits, Timeouts, Transport, TransportError
from upshot.wire.pricing import Price

__all__ = [
    "AiohttpTransport",
    "Answered",
    "ApiKey",
    "Endpoint",
    "FALLBACK_CODES",
    "Fallback",
    "HttpModel",
    "Model",
    "OnRetry",
    "PROVIDERS",
    "Price",
    "Prices",
    "Provider",
    "Reply",
    "ReplyLimits",
    "Retry",
    "ScriptItem",
    "ScriptedModel",
    "SettingFields",
    "Timeouts",
    "Transport",
    "TransportError",
    "aclose_transports",
    "call_with_retry",
    "default_transport",
    "missing_key",
    "name_of",
    "open_script",
    "resolve",
    "stream_with_retry",
]
