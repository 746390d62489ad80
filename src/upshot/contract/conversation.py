"""Conversations: what the runs of one conversation come to."""

from __future__ import annotations

from upshot.contract.base.structs import Moment, Value
from upshot.contract.message import Message
from upshot.contract.pending import Pending
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import Cost, Usage


class Conversation(Value, frozen=True, kw_only=True):
    """What the runs of a conversation come to, up to now.

    Attributes:
        id: The conversation: the ``context_id`` of its requests.
        messages: Those of its committed turns, in the order in which these ended; a summary stands
            in the place of those that compaction replaced.
        usage: What all its runs used, those that failed and child runs too.
        cost: The money for that; None where nothing had a price.
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
        title: The beginning of its first request, at most 200 characters.
        last_at: When its last run began.
        revision: How many turns were committed.
        cost: The money for all its runs that settled once; None where nothing had a price.
        waiting: How many of its runs wait for answers.
    """

    id: str = ""
    title: str = ""
    last_at: Moment | None = None
    revision: int = 0
    cost: Cost | None = None
    waiting: int = 0
