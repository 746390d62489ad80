"""What a client says of a conversation, held against what the log says of it.

A client of some protocols sends the whole conversation each time. Nothing of what came before is
taken from it: only the id of the last answer is read, which is that of a run, and says where in the
conversation the client stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from upshot.contract.base.enums import Effect
from upshot.contract.events import SeedReference
from upshot.contract.message import Message
from upshot.contract.protocols import RunSummary
from upshot.entry.run_handle import chain_from
from upshot.errors import Misuse
from upshot.serve.site import Site
from upshot.serve.users import User


class Differs(Misuse):
    """The client does not know how the conversation went on: 409."""


class Place(NamedTuple):
    """Where a new message belongs.

    Attributes:
        conversation: The conversation of which it is a turn.
        history: What was said before it, where it begins a branch; None where the conversation
            itself has that.
    """

    conversation: str
    history: Sequence[Message] | None = None


async def place_of(
    site: Site, user: User, chat: str, answers: Sequence[str], *, edit: str = ""
) -> Place:
    """Where a new message of a chat belongs.

    A chat is a conversation of that id. An edit begins a branch of it, a conversation whose id has
    that of the chat in front; the answers that the client knows say in which one it is.

    Args:
        site: The site.
        user: Who says it.
        chat: The id of the chat.
        answers: The ids of the answers that come before it, oldest first: the run of each.
        edit: Names what the message takes the place of, together with what it says; "" where it
            comes after all that was said.

    Raises:
        Missing: A run is another's, or there is none.
        Differs: There is more in the conversation than the client knows, or what an edit would
            take back has done something.
    """
    last = await _last_turn(site, user, chat, answers)
    conversation = chat if last is None else last.context_id
    journal: Any = await site.app.open()
    runs = await journal.runs(context_id=conversation)
    since = last.revision if last else 0
    if not edit or not runs:
        if any(run.revision > since for run in runs):
            raise Differs(
                "the conversation has gone on meanwhile: load it again, then say it once more"
            )
        return Place(conversation)
    later = [run for run in runs if not last or _began(run) > _began(last)]
    if done := [run.run_id for run in later if not run.ended or run.effect is not Effect.NONE]:
        raise Differs(
            f"what was answered there is under way or has done something ({', '.join(done)}), and "
            "cannot be taken back: say in a new message what is to change"
        )
    mark = hashlib.sha256(f"{last and last.run_id}\n{edit}".encode()).hexdigest()[:16]
    before = SeedReference(conversation=conversation, revision=since)
    return Place(f"{chat}/{mark}", await journal.seed_messages(before) if last else ())


def _began(run: RunSummary) -> float:
    return run.started_at.timestamp() if run.started_at else 0.0


async def newest_of(site: Site, user: User, chat: str) -> RunSummary | None:
    """The newest turn of a user in a chat, in whichever branch of it; None where there is none."""
    for run in await site.runs_of(user, limit=_LOOKED_AT):
        if run.owner == user.id and is_of(run.context_id, chat) and not run.parent_run_id:
            return run
    return None


def is_of(conversation: str, chat: str) -> bool:
    """Whether a conversation is a chat, or a branch of it."""
    return conversation == chat or conversation.startswith(f"{chat}/")


# A page that comes back asks for what is under way, which is among the newest.
_LOOKED_AT = 50


async def _last_turn(
    site: Site, user: User, chat: str, answers: Sequence[str]
) -> RunSummary | None:
    """The last answer that the client knows and that counts; one that failed was not kept."""
    journal = await site.app.open()
    for run_id in reversed(answers):
        first = await site.run_of(user, run_id)
        for one in reversed(await chain_from(first.id, journal)):
            for run in await journal.runs(run_id=one):
                if not is_of(run.context_id, chat):
                    raise Differs(f"run {run_id} is no answer in this chat")
                if run.revision:
                    return run
    return None
