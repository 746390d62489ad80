"""Conversations: the combined messages, usage and state of their runs."""

from __future__ import annotations

from upshot.contract.base.structs import Moment, Value
from upshot.contract.message import Message
from upshot.contract.pending import Pending
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import Cost, Usage


class Conversation(Value, frozen=True, kw_only=True):
    """The current state of a conversation, combined from its runs.

    Attributes:
        id: The conversation: the ``context_id`` of its requests.
        messages: The messages of its committed turns, in the order in which the turns ended; a
            summary replaces the messages that compaction removed.
        usage: The usage of all its runs, including failed runs and child runs.
        cost: The cost of that usage; None if nothing had a price.
        pending: What its runs wait for; ``run_id`` names the run that asks.
        runs: All its runs, oldest first.
        revision: How many turns were committed.
    """

    id: str = ""
    messages: tuple[Message, ...] = ()
    usage: Usage = Usage()
    cost: Cost | None = None
    pending: tuple[Pending, ...] = ()
    runs: tuple[RunSummary, ...] = ()
    revision: int = 0


class ConversationSummary(Value, frozen=True, kw_only=True):
    """One line in the list of conversations.

    Attributes:
        id: The conversation.
        title: The start of its first request, 200 characters or fewer.
        last_at: When its last run started.
        revision: How many turns were committed.
        cost: The cost of all its runs that settled once; None if nothing had a price.
        waiting: How many of its runs wait for answers.
    """

    id: str = ""
    title: str = ""
    last_at: Moment | None = None
    revision: int = 0
    cost: Cost | None = None
    waiting: int = 0
