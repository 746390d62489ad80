"""Reads the replies of model providers and encodes the requests to them. No I/O happens here.

Providers have a handful of API surfaces: ``chat`` (OpenAI Chat Completions and the many servers
that follow it), ``responses``, ``messages`` (Anthropic), ``generate`` (Gemini), and Amazon
Bedrock's ``converse`` and ``invoke``. Each has a module with three parts: a
function that reads a whole reply, a class that reads the events of a stream, and an encoder of
requests. ``reader.SURFACES`` is the table of them.

A reply on its way in:

1. ``StreamReader`` takes bytes, cut anywhere. It detects the framing from the first bytes, since a
   server may answer a streamed request with one document or the other way round, and ``streams``
   turns the bytes into events.
2. The surface puts what it reads into a ``ReplyAccumulator``: the parts of the reply in their
   original order, usage, the finish reason, an error. Deltas are returned as they come.
3. ``ReplyAccumulator.to_response`` makes the ``ModelResponse``. A stream and a whole reply with
   the same content give equal parts.

A conversation on its way out: a ``RequestEncoder`` encodes each message once and keeps its bytes,
so that a run of n turns encodes n messages; ``body`` joins them to a request. An assistant message
is sent back with its parts in order. Parts that only one provider can read (signatures, encrypted
thoughts, citations, blocks of its built-in tools) name that provider, and are omitted for others.

What holds throughout:

- A reader never raises on what a peer sends. If a field has the wrong type, the ``as_`` functions
  of ``decoding`` return an empty value; a body that is not a reply gives an error value.
- An unknown figure is None, never 0.
- Time is passed in (``now``), so that a reply can be read again with the same result.
- There is one reader of rate limits (``rate_limits``), one of header values (``headers``), and one
  classification of errors (``error_classification``). Nothing else looks at a header.

Traps: a field may mean different things at different providers (Anthropic's input tokens exclude
the cached ones, Gemini's output tokens exclude thoughts); some servers send the same index for
every call; a 200 may contain an error. Each is handled where it is read, with a comment.
"""

from upshot.lazy import lazy_imports

with lazy_imports(globals()):
    from upshot.wire.accumulator import (
        StreamEvent as StreamEvent,
        parse_finish_reason as parse_finish_reason,
    )
    from upshot.wire.decoding import (
        NOT_JSON as NOT_JSON,
        NotJson as NotJson,
        parse_json as parse_json,
    )
    from upshot.wire.encoding import RequestEncoder as RequestEncoder
    from upshot.wire.error_classification import classify_error as classify_error
    from upshot.wire.headers import parse_duration as parse_duration, parse_reset as parse_reset
    from upshot.wire.pricing import (
        Billing as Billing,
        Price as Price,
        Rate as Rate,
        price_usage as price_usage,
        read_billing as read_billing,
    )
    from upshot.wire.rate_limits import (
        AnthropicRateLimits as AnthropicRateLimits,
        CerebrasRateLimits as CerebrasRateLimits,
        OpenAIRateLimits as OpenAIRateLimits,
        RateLimitInfo as RateLimitInfo,
        build_rate_limit_state as build_rate_limit_state,
        build_rate_limit_windows as build_rate_limit_windows,
        extract_anthropic_rate_limits as extract_anthropic_rate_limits,
        extract_cerebras_rate_limits as extract_cerebras_rate_limits,
        extract_openai_rate_limits as extract_openai_rate_limits,
    )
    from upshot.wire.reader import (
        Mode as Mode,
        StreamReader as StreamReader,
        make_request_encoder as make_request_encoder,
        read_response as read_response,
    )
