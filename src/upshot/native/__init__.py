"""What objects of other libraries say, read by attribute or key; none of them is imported."""

from .completion import read_completion, read_completion_message
from .headers import find_headers, find_rate_limit
from .pi_agent import read_pi_message
from .reader import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_moment,
    as_object,
    as_text,
    look,
)
from .smolagents import (
    read_call,
    read_smolagents_message,
    read_smolagents_text,
    read_smolagents_usage,
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
