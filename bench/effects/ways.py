"""The fifteen ways in which one refund of order 7 is requested more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["WAYS", "Job", "Way"]

Replies = Sequence[Sequence[Mapping[str, Any]]]
ONCE: Replies = (({},),)
TWICE: Replies = (({},), ({},))


@dataclass(frozen=True)
class Job:
    """The work of one process.

    Attributes:
        do: "talk", or another function of the desk; "function" calls the plain function.
        replies: The calls that the model requests.
        session: The conversation.
        dies: Whether the process is killed once the bank has made the refund.
        refused: How many connections to the bank are refused first.
    """

    do: str = "talk"
    replies: Replies = ONCE
    session: str = "a"
    dies: bool = False
    refused: int = 0


@dataclass(frozen=True)
class Way:
    """A way; its stages run one after the other, and the jobs of a stage at the same moment.

    Attributes:
        name: What happens, in a few words.
        stages: The jobs that make requests.
        faults: What goes wrong at the bank.
        is_unknown: Whether only the bank can know that the refund was made.
    """

    name: str
    stages: tuple[tuple[Job, ...], ...]
    faults: tuple[str, ...] = ()
    is_unknown: bool = False


def _one(*jobs: Job) -> tuple[tuple[Job, ...], ...]:
    return tuple((job,) for job in jobs)


DIES = Job(dies=True)

WAYS = (
    Way("the line breaks after it; asked again", _one(Job(replies=TWICE)), ("reset",), True),
    Way("it times out; asked again", _one(Job(replies=TWICE)), ("hang",), True),
    Way("again in a later reply", _one(Job(replies=TWICE))),
    Way("twice in one reply", _one(Job(replies=[[{}, {}]]))),
    Way("again in another conversation", _one(Job(), Job(session="b"))),
    Way("again in the same conversation", _one(Job(), Job())),
    # The framework's session store exists by then.
    Way(
        "by two processes at one moment",
        ((Job(replies=(), session="c"),), (Job(), Job(session="b"))),
        ("slow", "slow"),
    ),
    Way("by a sub-agent, twice", _one(Job("delegate", TWICE))),
    Way("by the next agent in the conversation", _one(Job(), Job("take_over"))),
    Way("killed after it; resumed", _one(DIES, Job("resume", TWICE)), (), True),
    Way("killed after it; asked anew", _one(DIES, Job(session="b")), (), True),
    Way("a fork of the run", _one(Job(), Job("fork"))),
    Way(
        "an approval edited to the same order",
        _one(Job(), Job("edit", [[{"order_id": "8"}]], session="b")),
    ),
    Way("refused twice, then made", _one(Job(replies=[[{}], [{}], [{}]], refused=2))),
    Way("by a plain function too", _one(Job(), Job("function"))),
)
