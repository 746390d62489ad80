"""Reads the objects of other agent libraries; none of them is imported.

A library's reply, exception or message is read by attribute or key, so that an object and its JSON
form are read alike, and a version that lacks a field is no error:

- ``objects`` looks into any object (``look``), makes plain values of what is there (``as_text``,
  ``as_count``, ...), and finds the headers that it, or the cause of an exception, carries.
- ``completion`` reads chat completions (LiteLLM, AISuite, SDKs of OpenAI's shape): the object
  becomes the JSON that it came from, and ``upshot.wire`` reads that, by one set of rules.
- ``framework_messages`` reads the messages of smolagents and pi.

Each gives a ``ModelResponse`` with the parts in the order in which the object has them. Nothing
here raises on what an object holds: a property that raises says nothing, and what has no JSON form
is the text that it prints as. Rate limits are read by ``upshot.wire.rate_limits`` alone.

Traps: LiteLLM copies a provider's limits to headers with OpenAI's names, and pi counts cached
tokens beside the input, except where Google counts them.
"""

from upshot.native.completion import read_completion, read_completion_message
from upshot.native.framework_messages import (
    read_call,
    read_pi_message,
    read_smolagents_message,
    read_smolagents_text,
    read_smolagents_usage,
)
from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_moment,
    as_object,
    as_text,
    find_headers,
    find_rate_limit,
    look,
)

__all__ = [
    "as_amount",
    "as_arguments",
    "as_count",
    "as_items",
    "as_json",
    "as_moment",
    "as_object",
    "as_text",
    "find_headers",
    "find_rate_limit",
    "look",
    "read_call",
    "read_completion",
    "read_completion_message",
    "read_pi_message",
    "read_smolagents_message",
    "read_smolagents_text",
    "read_smolagents_usage",
]
