"""What objects of other libraries say, read by attribute or key; none of them is imported."""

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
