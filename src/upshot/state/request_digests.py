"""Digests of model requests: equal requests have equal digests, in any run.

The log has digests of the four parts of each request: instructions, tools, settings with the output
schema, and messages. They are computed from the text as logged, without what differs between two
runs that do the same: the run's id, the names of its artifacts, the marks of its secrets. The
digest of a message covers all messages before it. So one digest stands for a conversation, each
step hashes only what is new, and two conversations are equal up to where their digests differ.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import count
from operator import is_not, methodcaller
from typing import Any

from msgspec.structs import force_setattr

from upshot.contract.base.json_values import JSON, UnserializableError, to_free_json, to_json
from upshot.contract.message import Message, MessageList, without_mark
from upshot.contract.model_calls import ModelRequest, RequestDigests
from upshot.contract.tool_calls import FENCE_OPENING, ToolSpec

# Bound once: this runs for every model call.
_copy: Callable[[Any], Any] = methodcaller("__copy__")

# They compare requests and protect nothing, so 64 bits are enough.
_SIZE_BYTES = 8
# Random, or made from the run's id: marks of secrets, fences around untrusted text, artifacts.
_OF_THE_RUN = re.compile(rb"(<secret |untrusted-|art-)[0-9a-f]{12,24}")

_NAMES = (b"<secret ", b"untrusted-", b"art-")

# Tool tuples that all runs of an agent share, by identity: a schema is a dict and has no hash.
_KEPT_TOOL_SETS = 64
_tool_sets: dict[int, tuple[tuple[ToolSpec, ...], str]] = {}


def chained(before: str, message: Message, *, is_named: bool) -> str:
    """Return the digest of a conversation that ends with *message*.

    Args:
        before: The digest of the messages before it, "" for none.
        message: The message as logged.
        is_named: Whether the log has secrets or artifacts, whose names differ in every run.
    """
    content = message.content
    is_fenced = type(content) is str and content.startswith(FENCE_OPENING)
    return _digest(without_mark(message), before, is_named=is_named or is_fenced)


def chain_of(messages: Iterable[Message]) -> list[str]:
    """Return the digests of *messages* as a run without secrets sends them."""
    chain: list[str] = []
    for message in messages:
        chain.append(chained(chain[-1] if chain else "", message, is_named=False))
    return chain


def digest_of_messages(messages: Iterable[Message], *, before: str = "") -> str:
    """Return the digest of a conversation with nothing left out, "" for an empty one.

    Args:
        messages: Its messages, or those after some others.
        before: The digest of those others, "" for none.
    """
    last = before
    for message in messages:
        last = _digest(without_mark(message), last, is_named=False)
    return last


def _digest(value: object, before: str = "", *, is_named: bool) -> str:
    # Encoded inline, because this runs for every message of every run.
    try:
        data = JSON.encode(value)
    except (TypeError, ValueError, RecursionError):
        data = _to_json(value)
    # A substring search is cheap, and a regular expression is not.
    if is_named and any(name in data for name in _NAMES):
        data = _OF_THE_RUN.sub(rb"\1", data)
    return blake2b(before.encode() + data, digest_size=_SIZE_BYTES).hexdigest()


def _to_json(value: object) -> bytes:
    try:
        return to_json(value)
    except (TypeError, ValueError, RecursionError):
        # Settings may contain anything in ``extra``; the model may refuse it.
        try:
            return to_json(to_free_json(value)[0])
        except UnserializableError as error:
            return str(error).encode(errors="replace")


class RequestDigester:
    """Makes the digests of one session's requests, and caches what it has hashed.

    Args:
        mask: Replaces secrets by marks, as in the log; None without secrets.

    Attributes:
        is_named: See ``chained``.
    """

    def __init__(self, mask: Callable[[Any], Any] | None = None, *, is_named: bool = False) -> None:
        self.is_named: bool = is_named or mask is not None
        self._mask = mask
        self._parts: dict[str, tuple[object, object, str]] = {}
        self._plain: tuple[Sequence[Message], list[str]] = ((), [])
        # The previous request, and the digests of all but its messages.
        self._asked: ModelRequest | None = None
        self._rest = RequestDigests()

    def hash_ahead(self, messages: Sequence[Message], most: int) -> None:
        """Hash the first *most* of *messages* now, so that ``digests`` has less to do later."""
        ahead = messages.so_far(most) if isinstance(messages, MessageList) else messages[:most]
        self._chain(ahead)

    def digests(self, request: ModelRequest, known: Sequence[str]) -> RequestDigests:
        """Return the digests of *request*.

        Args:
            request: As it is sent, before any provider's form.
            known: The message digests of the previous request, from the log.
        """
        messages = request.messages
        chain, number = self._chain(messages), len(messages)
        asked = self._asked
        # Usually only the messages differ from the previous request.
        if asked is None or not (
            request.system is asked.system
            and request.tools is asked.tools
            and request.settings is asked.settings
            and request.output_schema is asked.output_schema
        ):
            self._asked, self._rest = request, self._rest_of(request)
        digests: RequestDigests = _copy(self._rest)
        if number:
            force_setattr(digests, "messages", chain[number - 1])
            force_setattr(digests, "count", number)
            kept = _common(known, chain, number)
            force_setattr(digests, "added", tuple(chain[kept:number]))
        return digests

    def begins_with(self, request: ModelRequest, known: RequestDigests) -> bool:
        """Whether *request* starts with the messages of the request with the digests *known*."""
        count, chain = known.count, self._chain(request.messages)
        return not count or (count <= len(request.messages) and chain[count - 1] == known.messages)

    def _rest_of(self, request: ModelRequest) -> RequestDigests:
        """Return the digests of everything except the messages."""
        system, tools = request.system, request.tools
        settings, schema = request.settings, request.output_schema
        has_settings = settings is not None or schema is not None
        return RequestDigests(
            instructions="" if system is None else self._part("instructions", system),
            tools=self._tools(tools) if tools else "",
            settings=self._part("settings", settings, schema) if has_settings else "",
        )

    def _chain(self, messages: Sequence[Message]) -> list[str]:
        """Return the digests of *messages*; the list may continue beyond them."""
        if isinstance(messages, MessageList):
            chain: Any = messages.encoded.get(self)
            if chain is None:
                chain = messages.encoded[self] = []
        else:
            known, hashed = self._plain
            same = next(
                (at for at, differs in zip(count(), map(is_not, known, messages)) if differs),
                min(len(known), len(messages)),
            )
            chain = hashed[:same]
            self._plain = tuple(messages), chain
        last, mask = chain[-1] if chain else "", self._mask
        for message in messages[len(chain) :]:
            shown = message if mask is None else mask(message)
            last = chained(last, shown, is_named=self.is_named)
            chain.append(last)
        return chain

    def _part(self, name: str, value: object, beside: object = None) -> str:
        """Return the digest of a part, hashing it again only if it is another object."""
        known = self._parts.get(name)
        if known is not None and known[0] is value and known[1] is beside:
            return known[2]
        pair = [value, beside]
        shown = pair if self._mask is None else self._mask(pair)
        digest = _digest(shown, is_named=self.is_named)
        self._parts[name] = value, beside, digest
        return digest

    def _tools(self, tools: tuple[ToolSpec, ...]) -> str:
        if self.is_named:
            return self._part("tools", tools)
        known = _tool_sets.get(id(tools))
        if known is not None and known[0] is tools:
            return known[1]
        digest = self._part("tools", tools)
        if len(_tool_sets) >= _KEPT_TOOL_SETS:
            _tool_sets.clear()
        _tool_sets[id(tools)] = tools, digest
        return digest


def _common(known: Sequence[str], chain: Sequence[str], number: int) -> int:
    """Return the number of equal messages at the start of two conversations.

    A digest covers all messages before it, so a binary search finds where they differ.
    """
    most = min(len(known), number)
    if not most or known[most - 1] == chain[most - 1]:
        return most
    return bisect_left(range(most), True, key=lambda at: known[at] != chain[at])
