"""Models: from a name such as "openai:gpt-5" to the reply of one call.

A ``Model`` takes a ``ModelRequest`` and returns one ``ModelResponse``, whole (``call``) or with
deltas before it (``stream``). A failure of the provider or the network is a value in that
response; a model raises only for mistakes of the caller. The parts:

- ``registry`` makes a model from its name; ``providers`` is the table of providers.
- ``endpoint`` is the address of a model and its key; ``cloud_credentials`` signs requests to
  Bedrock and gets the tokens for Vertex AI, by the clouds' own libraries.
- ``http_model`` is the model behind an HTTP endpoint. It encodes a request and reads a reply with
  ``upshot.wire``, which does no I/O, and adds advice for the user to errors.
- ``batch_model`` asks a model by batches: it submits a request and polls for its result.
- ``transport`` is the protocol for sending bytes: one method, time limits, and TransportError,
  which says how far a request got. ``aiohttp_transport`` is the default, ``aiohttp_connector`` its
  connection pool.
- ``retry`` calls a model again after errors that may pass; ``fallback`` tries the next model.
- ``prices`` computes the cost of a call. ``scripted`` plays a script, without any network.
  ``library_models`` calls models through LiteLLM and AISuite.

The path of a call: ``retry`` -> ``HttpModel.call`` -> the endpoint's headers, with the current
key -> the encoder of the conversation, which encodes only what was added since the last call ->
the transport -> the reader of the reply, fed piece by piece -> error advice, price and duration.

What always holds:

- Retry happens in one place, above the transport: layers never multiply. A transport sends a
  request at most once, and a call costs nothing if its error's ``details["phase"]`` is "unsent".
- Once the caller has received a delta, that call is neither retried nor passed on to another model.
- A cancelled call closes its connection at once; the provider may bill what it did until then.
- A reply has limits (``ReplyLimits``), and reading it never blocks the event loop for long.
- No repr, error or log shows a key; keys are read for each request, never at import.

Traps: an exception of a user's model or transport becomes a value only if it is one that an API
client raises (``retry.reply_of``); any other is a bug in it and ends the run as internal. After
an exception of a foreign transport the request counts as sent. aiohttp, botocore and google-auth
are imported by the first request, not by this package. The error of a wrong signature repeats the
session's token, which is masked.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.contract.model_calls import name_of as name_of
    from upshot.contract.protocols import Model as Model
    from upshot.contract.settings import Retry as Retry
    from upshot.models.aiohttp_transport import (
        AiohttpTransport as AiohttpTransport,
        aclose_transports as aclose_transports,
        default_transport as default_transport,
    )
    from upshot.models.endpoint import ApiKey as ApiKey, Endpoint as Endpoint
    from upshot.models.fallback import FALLBACK_CODES as FALLBACK_CODES, Fallback as Fallback
    from upshot.models.http_model import HttpModel as HttpModel
    from upshot.models.prices import Prices as Prices
    from upshot.models.providers import PROVIDERS as PROVIDERS, Provider as Provider
    from upshot.models.registry import (
        SettingFields as SettingFields,
        missing_key as missing_key,
        resolve as resolve,
    )
    from upshot.models.retry import (
        OnRetry as OnRetry,
        call_with_retry as call_with_retry,
    )
    from upshot.models.scripted import (
        Reply as Reply,
        ScriptedModel as ScriptedModel,
        ScriptItem as ScriptItem,
        open_script as open_script,
    )
    from upshot.models.transport import (
        Answered as Answered,
        ReplyLimits as ReplyLimits,
        Timeouts as Timeouts,
        Transport as Transport,
        TransportError as TransportError,
        decode_body as decode_body,
    )
    from upshot.wire.pricing import Price as Price
