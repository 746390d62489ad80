"""Calling a model: names to models, HTTP, keys, scripts and retry."""

from ..contract import Model, Retry
from .aiohttp_transport import AiohttpTransport, aclose_transports, default_transport
from .endpoint import ApiKey, Endpoint
from .fallback import FALLBACK_CODES, Fallback
from .http_model import HttpModel
from .names import SettingFields, missing_key, name_of, resolve
from .prices import Price, Prices
from .providers import PROVIDERS, Provider
from .retry import OnRetry, call_with_retry, stream_with_retry
from .script_file import open_script
from .scripted import Reply, ScriptedModel, ScriptItem
from .transport import Answered, Timeouts, Transport

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
    "Retry",
    "ScriptItem",
    "ScriptedModel",
    "SettingFields",
    "Timeouts",
    "Transport",
    "aclose_transports",
    "call_with_retry",
    "default_transport",
    "missing_key",
    "name_of",
    "open_script",
    "resolve",
    "stream_with_retry",
]
