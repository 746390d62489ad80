"""What a client says in a conversation, held against what the log says of it.

A client of some protocols sends the whole conversation each time. Nothing of what came before is
taken from it: only the id of the last answer is read, which is that of a run, and says where in the
conversation the client stands.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Sequence
from fnmatch import fnmatch
from typing import Any, NamedTuple

from msgspec.structs import replace

from upshot.contract.agent_spec import AgentCard
from upshot.contract.base.enums import Effect
from upshot.contract.codec import encode
from upshot.contract.events import SeedReference
from upshot.contract.message import File, Image, Message
from upshot.contract.model_calls import Request
from upshot.contract.protocols import RunSummary
from upshot.entry.run_handle import RunHandle, chain_from
from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.serve.public import PublicEvent
from upshot.serve.site import Site
from upshot.serve.users import Missing, User

# Under this the message of a request keeps the id that its client gave it.
_MESSAGE_ID = "message_id"


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


class Said(NamedTuple):
    """What a client says to an agent.

    Attributes:
        chat: The id of the chat.
        id: The id that the client gave the message.
        message: What the user says.
        answers: The ids of the answers that come before it, oldest first: the run of each.
        edit: Names what the message takes the place of; "" where it comes after all that was said.
        is_again: Whether another answer is wanted where one is there that has ended.
    """

    chat: str
    id: str
    message: Message
    answers: Sequence[str]
    edit: str = ""
    is_again: bool = False


async def begin_turn(site: Site, user: User, agent_id: str, said: Said) -> RunHandle:
    """The run that a message begins; or began, where it is sent again.

    Raises:
        Missing: There is no such agent, or a run is another's.
        Refused: The user may not start runs of the agent.
        Differs: As of ``place_of``.
    """
    said = said._replace(chat=await site.conversation_of(user, said.chat))
    what = encode([said.chat, said.id, said.message]).decode()
    journal = await site.app.open()
    time = 0
    while True:
        edit = f"{said.edit}\n{time or ''}{what}" if said.edit else ""
        named = encode([user.tenant, user.id, agent_id, what, edit])
        run_id = f"run-{hashlib.sha256(named).hexdigest()[:16]}"
        if not await site.sees(user, run_id):
            break
        (run,) = await journal.runs(run_id=run_id)
        if not (said.is_again and run.ended):
            return await site.run_of(user, run_id)
        _check_void([run])
        time += 1
    place = await place_of(site, user, said.chat, said.answers, edit=edit)
    options: dict[str, Any] = {} if place.history is None else {"history": place.history}
    message = replace(said.message, metadata={_MESSAGE_ID: said.id})
    return await site.submit(
        user,
        agent_id,
        Request(message, run_id=run_id),
        conversation=place.conversation,
        if_waiting="tell",
        **options,
    )


def card_of(app: App, agent_id: str) -> AgentCard:
    """What an agent says of itself.

    Raises:
        Missing: There is no such agent.
    """
    if agent_id not in app.agents:
        raise Missing(f"there is no agent {agent_id[:80]!r}")
    return app.agents[agent_id].card or AgentCard()


def attachment(data: bytes, kind: str, name: str, card: AgentCard) -> Image | File:
    """What a client sends beside its text, if the agent takes it.

    Args:
        data: The content.
        kind: Its media type.
        name: What it is called, "" if it has no name.
        card: That of the agent.

    Raises:
        Misuse: The agent does not take it.
    """
    accepted = card.default_input_modes
    if not any(fnmatch(kind, one) for one in accepted):
        known = ", ".join(accepted)
        raise Misuse(f"a file is of media type {kind[:80]}: the agent takes {known}")
    if kind.startswith("image/"):
        return Image(data=data, media_type=kind)
    return File(data=data, media_type=kind, name=name)


def from_data_url(url: str) -> tuple[bytes, str]:
    """The content of a ``data:`` URL, and its media type.

    Raises:
        Misuse: It is none of the form ``data:...;base64,...``.

    Source:
        RFC 2397.
    """
    head, comma, text = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64") or not comma:
        raise Misuse("the data of a file must be of the form data:...;base64,...")
    try:
        return base64.b64decode(text, validate=True), head[5:-7].partition(";")[0]
    except binascii.Error:
        raise Misuse("the data of a file is no base64") from None


async def asked(handle: RunHandle) -> tuple[str, str]:
    """The id and the text of the message that began a run; "" and "" where there is no such run."""
    started = (await handle.state()).started
    if started is None:
        return "", ""
    message = started.request.message
    if isinstance(message, str):
        return f"{handle.id}.request", message
    return str(message.metadata.get(_MESSAGE_ID) or f"{handle.id}.request"), message.text


async def waits_at(app: App, handle: RunHandle, event: PublicEvent) -> bool:
    """Whether a run, or one of its chain, still waits where an event says that it parked."""
    if await handle.result(0) is None:
        return False
    run_id, _, seq = str(event["cursor"]).rpartition("/")
    return (await (await app.run(run_id)).state()).seq == int(seq)


async def read_to_questions(
    app: App,
    handle: RunHandle,
    events: AsyncGenerator[PublicEvent],
    ids: Container[str],
    add: Callable[[PublicEvent], object],
) -> bool:
    """Read what a run told until it asked one of some questions.

    Args:
        app: Whose run it is.
        handle: The run.
        events: Its public events.
        ids: The ids of the questions.
        add: Is called with each event that was read.

    Returns:
        Whether it asked one of them; False once it has ended, or waits for something else.
    """
    async for event in events:
        add(event)
        if event["kind"] != "end":
            continue
        questions: Any = event.get("questions", ())
        if any(one["id"] in ids for one in questions):
            return True
        if event["status"] != "input_required" or await waits_at(app, handle, event):
            break
    return False


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
    _check_void([run for run in runs if not last or _began(run) > _began(last)])
    mark = hashlib.sha256(f"{last and last.run_id}\n{edit}".encode()).hexdigest()[:16]
    before = SeedReference(conversation=conversation, revision=since)
    return Place(f"{chat}/{mark}", await journal.seed_messages(before) if last else ())


async def branch_after(site: Site, run_id: str, name: str) -> Place:
    """A branch of a conversation that goes on after one of its answers, whatever came later.

    Args:
        site: The site.
        run_id: The answer.
        name: What the id of the branch ends with.

    Raises:
        Differs: The answer is not kept in its conversation, as that of a run that failed.
    """
    journal: Any = await site.app.open()
    if (run := await _kept(journal, run_id)) is None:
        raise Differs(f"{run_id} is not kept in its conversation: go on from one that is completed")
    before = SeedReference(conversation=run.context_id, revision=run.revision)
    return Place(f"{run.context_id}/{name}", await journal.seed_messages(before))


def _check_void(runs: Iterable[RunSummary]) -> None:
    """Refuse to leave what is under way or has done something."""
    if done := [run.run_id for run in runs if not run.ended or run.effect is not Effect.NONE]:
        raise Differs(
            f"what was answered there is under way or has done something ({', '.join(done)}), and "
            "cannot be taken back: say in a new message what is to change"
        )


def _began(run: RunSummary) -> float:
    return run.started_at.timestamp() if run.started_at else 0.0


async def newest_of(site: Site, user: User, chat: str) -> RunSummary | None:
    """The newest turn of a user in a chat, in whichever branch of it; None where there is none."""
    conversation = await site.conversation_of(user, chat)
    journal = await site.app.open()
    for run in await journal.runs(owner=user.id, tenant=user.tenant, limit=_LOOKED_AT):
        if is_of(run.context_id, conversation) and not run.parent_run_id:
            return run
    return None


def is_of(conversation: str, chat: str) -> bool:
    """Whether a conversation is a chat, or a branch of it; both by their ids in the journal."""
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
        (begun,) = await journal.runs(run_id=first.id)
        if not is_of(begun.context_id, chat):
            raise Differs(f"run {run_id} is no answer in this chat")
        if run := await _kept(journal, first.id):
            return run
    return None


async def _kept(journal: Any, run_id: str) -> RunSummary | None:
    """The last run of a chain that the conversation keeps, None where it keeps none."""
    for one in reversed(await chain_from(run_id, journal)):
        for run in await journal.runs(run_id=one):
            if run.revision:
                return run
    return None
