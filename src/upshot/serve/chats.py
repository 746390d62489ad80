"""What the doors of chat protocols share: starting a turn, following it, and answering it.

Their clients send the whole conversation each time. Its earlier messages are ignored: only the id
of the last answer is read. It names a run, and so the place in the conversation that the client
knows, which is checked against the log.

A door reads its requests into ``SentMessage`` and ``answers``, and subclasses ``Writer``, which
says what each public event becomes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from fnmatch import fnmatch
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from upshot.contract.agent_spec import AgentCard
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.events import SeedReference
from upshot.contract.message import File, Image, Message
from upshot.contract.model_calls import Request
from upshot.contract.protocols import RunSummary
from upshot.contract.user import User
from upshot.entry.run_handle import RunHandle, chain_from
from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.journal.shared import InboxItem
from upshot.serve.permissions import Differs, Missing
from upshot.serve.public import PublicEvent, files_in, public_events, questions_in
from upshot.serve.site import Site
from upshot.state.child_runs import bare_id

# The metadata key for the id that the client gave a message.
_MESSAGE_ID = "message_id"


class Place(NamedTuple):
    """Where a new message belongs.

    Attributes:
        conversation: The conversation that it is a turn of.
        history: The messages before it if it starts a branch; None if the conversation itself has
            them.
    """

    conversation: str
    history: Sequence[Message] | None = None


class SentMessage(NamedTuple):
    """What a client says to an agent.

    Attributes:
        chat: The id of the chat.
        id: The id that the client gave the message.
        message: The user's message.
        answers: The ids of the answers before it, oldest first: the run of each.
        edit: Names what the message replaces; "" if it comes after everything else.
        is_again: Whether another answer is wanted although there is one that has ended.
    """

    chat: str
    id: str
    message: Message
    answers: Sequence[str]
    edit: str = ""
    is_again: bool = False


async def begin_turn(site: Site, user: User, agent_id: str, sent: SentMessage) -> RunHandle:
    """Return the run that a message starts, or the one it started if it is sent again.

    Raises:
        Missing: There is no such agent, or a run belongs to another user.
        Refused: The user may not start runs of the agent.
        Differs: As for ``place_of``.
    """
    sent = sent._replace(chat=await site.conversation_of(user, sent.chat))
    what = encode([sent.chat, sent.id, sent.message]).decode()
    time = 0
    while True:
        edit = f"{sent.edit}\n{time or ''}{what}" if sent.edit else ""
        named = encode([user.tenant, user.id, agent_id, what, edit])
        run_id = f"run-{hashlib.sha256(named).hexdigest()[:16]}"
        if not await site.sees(user, run_id):
            break
        run = await site.summary(run_id)
        if not (sent.is_again and run.ended):
            return await site.run_of(user, run_id)
        _check_void([run])
        time += 1
    place = await place_of(site, user, sent.chat, sent.answers, edit=edit)
    options: dict[str, Any] = {} if place.history is None else {"history": place.history}
    message = replace(sent.message, metadata={_MESSAGE_ID: sent.id})
    return await site.submit(
        user,
        agent_id,
        Request(message, run_id=run_id),
        conversation=place.conversation,
        if_waiting="tell",
        **options,
    )


def card_of(app: App, agent_id: str) -> AgentCard:
    """Return the card of an agent.

    Raises:
        Missing: There is no such agent.
    """
    if agent_id not in app.agents:
        raise Missing(f"there is no agent {agent_id[:80]!r}")
    return app.agents[agent_id].card or AgentCard()


def attachment(data: bytes, kind: str, name: str, card: AgentCard) -> Image | File:
    """Return a client's attachment as a part of a message, if the agent accepts it.

    Args:
        data: The content.
        kind: Its media type.
        name: The file's name; "" if it has none.
        card: The card of the agent.

    Raises:
        Misuse: The agent does not accept the media type.
    """
    accepted = card.default_input_modes
    if not any(fnmatch(kind, one) for one in accepted):
        known = ", ".join(accepted)
        raise Misuse(f"a file is of media type {kind[:80]}: the agent takes {known}")
    if kind.startswith("image/"):
        return Image(data=data, media_type=kind)
    return File(data=data, media_type=kind, name=name)


def from_data_url(url: str) -> tuple[bytes, str]:
    """Return the content of a ``data:`` URL, and its media type.

    Raises:
        Misuse: It does not have the form ``data:...;base64,...``.

    Source:
        RFC 2397.
    """
    head, comma, text = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64") or not comma:
        raise Misuse("the data of a file must be of the form data:...;base64,...")
    return from_base64(text), head[5:-7].partition(";")[0]


def from_base64(text: str) -> bytes:
    """Return the content of a file that was sent as base64.

    Raises:
        Misuse: It is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Misuse("the data of a file is no base64") from None


async def request_of(handle: RunHandle) -> tuple[str, str]:
    """Return the id and the text of the message that started a run; "" and "" if there is none."""
    started = (await handle.state()).started
    if started is None:
        return "", ""
    message = started.request.message
    if isinstance(message, str):
        return f"{handle.id}.request", message
    return str(message.metadata.get(_MESSAGE_ID) or f"{handle.id}.request"), message.text


class Writer:
    """Turns public events into the chunks of a protocol, in which a text has a start and an end.

    A subclass says what the chunks are. ``begin_text`` sets ``open``.

    Attributes:
        open: The id of the text that is open; "" if none is.
        text_so_far: The pieces of the last text, joined.
        files_so_far: The files of the last message.
        calls: The ids of the calls that were written.
    """

    def __init__(self) -> None:
        self.open: str = ""
        self.text_so_far: str = ""
        self.files_so_far: list[JsonObject] = []
        self.calls: set[str] = set()

    def add(self, event: PublicEvent) -> list[JsonObject]:
        """Return the chunks for an event."""
        match event["kind"]:
            case "text":
                return self._piece(str(event["text"]))
            case "message":
                text = str(event["text"])
                self.files_so_far = []
                return [*(self._replace(text) if text else []), *self._files(event)]
            case "reset":
                self.files_so_far = []
                return self.void(is_all="attempt" in event)
            case "tool":
                return [*self.tool(event)]
            case "answered":
                return [*self.answered(event)]
            case _:
                text = str(event.get("text", ""))
                last = self._replace(text) if text and text != self.text_so_far else []
                return [*last, *self.close(), *self._files(event), *self.end(event)]

    def _files(self, event: PublicEvent) -> Iterator[JsonObject]:
        """Yield the files of a message or an answer that were not written yet."""
        if (files := files_in(event)) != self.files_so_far:
            self.files_so_far = files
            for file in files:
                yield from self.file(file)

    def _piece(self, text: str) -> list[JsonObject]:
        head: list[JsonObject] = []
        if not self.open:
            self.text_so_far = ""
            head = self.begin_text()
        self.text_so_far += text
        return [*head, self.piece(text)]

    def close(self) -> list[JsonObject]:
        """Close the open text."""
        id, self.open = self.open, ""
        return [self.end_text(id)] if id else []

    def _replace(self, text: str) -> list[JsonObject]:
        """Replace the pieces of a reply with the whole text."""
        if self.open and self.text_so_far == text:
            return self.close()
        return [*self.void(is_all=False), *self._piece(text), *self.close()]

    @abstractmethod
    def begin_text(self) -> list[JsonObject]:
        """Open a text."""

    @abstractmethod
    def piece(self, text: str) -> JsonObject:
        """Return a piece of the open text."""

    @abstractmethod
    def end_text(self, id: str) -> JsonObject:
        """Return the end of a text."""

    @abstractmethod
    def file(self, file: JsonObject) -> Iterable[JsonObject]:
        """Return what an image, a sound or a document becomes."""

    @abstractmethod
    def void(self, *, is_all: bool) -> list[JsonObject]:
        """Void the open text, or all that the run has said."""

    @abstractmethod
    def tool(self, event: PublicEvent) -> Iterable[JsonObject]:
        """Return what a call becomes that has started, works or has ended."""

    @abstractmethod
    def end(self, event: PublicEvent) -> Iterable[JsonObject]:
        """Return what follows the last text: what the user is asked."""

    def answered(self, event: PublicEvent) -> Iterable[JsonObject]:
        """Return what an answered question becomes."""
        return ()


Stage: TypeAlias = Literal["", "waits", "last"]


async def until_asked(
    app: App, handle: RunHandle, events: AsyncGenerator[PublicEvent]
) -> AsyncGenerator[tuple[PublicEvent, Stage]]:
    """Yield the events of a run until it ends or asks its user, and close them.

    Yields:
        Each event with "last" for the last one, "waits" for a park at which the run waits for
        other people, and "" for all others. Parks that were answered since are passed.
    """
    async with aclosing(events):
        async for event in events:
            state: Stage = ""
            if event["kind"] == "end":
                if event["status"] != "input_required":
                    state = "last"
                elif await waits_at(app, handle, event):
                    state = "last" if questions_in(event) else "waits"
            yield event, state
            if state == "last":
                return


@asynccontextmanager
async def at_questions(
    app: App, handle: RunHandle, ids: Container[str], add: Callable[[PublicEvent], object]
) -> AsyncGenerator[tuple[AsyncGenerator[PublicEvent], bool]]:
    """Read a run's events as ``read_to_questions`` does, for a block that answers the questions.

    Yields:
        The events that follow, closed if the block fails, and what ``read_to_questions`` returns.
    """
    events = public_events(app, handle)
    try:
        yield events, await read_to_questions(app, handle, events, ids, add)
    except BaseException:
        await events.aclose()
        raise


def ids_of(items: Iterable[InboxItem]) -> set[str]:
    """Return the ids of what waits; that of a child run also has a shorter one."""
    return {id for one in items for id in (one.pending.id, bare_id(one.pending))}


async def waits_at(app: App, handle: RunHandle, event: PublicEvent) -> bool:
    """Whether a run, or one of its chain, still waits at the park that an event reported."""
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
    """Read the events of a run until it asks one of some questions.

    Args:
        app: The App of the run.
        handle: The run.
        events: Its public events.
        ids: The ids of the questions.
        add: Called with each event that was read.

    Returns:
        Whether it asked one of them; False once it has ended, or waits for something else.
    """
    async for event in events:
        add(event)
        if event["kind"] != "end":
            continue
        if any(str(one["id"]) in ids for one in questions_in(event)):
            return True
        if event["status"] != "input_required" or await waits_at(app, handle, event):
            break
    return False


async def place_of(
    site: Site, user: User, chat: str, answers: Sequence[str], *, edit: str = ""
) -> Place:
    """Return where a new message of a chat belongs.

    A chat is a conversation with that id. An edit starts a branch of it: a conversation whose id
    starts with the chat's id. The answers that the client knows determine which of them it is in.

    Args:
        site: The site.
        user: The user who sends the message.
        chat: The id of the chat.
        answers: The ids of the answers before it, oldest first: the run of each.
        edit: Names what the message replaces, together with what it says; "" if it comes after
            everything else.

    Raises:
        Missing: A run does not exist, or belongs to another user.
        Differs: The conversation has more than the client knows, or what an edit would replace has
            had an effect.
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
    _check_void([run for run in runs if not last or _start_time(run) > _start_time(last)])
    mark = hashlib.sha256(f"{last and last.run_id}\n{edit}".encode()).hexdigest()[:16]
    before = SeedReference(conversation=conversation, revision=since)
    return Place(f"{chat}/{mark}", await journal.seed_messages(before) if last else ())


async def branch_after(site: Site, run_id: str, name: str) -> Place:
    """Return a branch of a conversation that continues after one of its answers, whatever came
    later.

    Args:
        site: The site.
        run_id: The run of the answer.
        name: The end of the branch's id.

    Raises:
        Differs: The answer is not kept in its conversation, for example because its run failed.
    """
    journal: Any = await site.app.open()
    if (run := await _kept_run(journal, run_id)) is None:
        raise Differs(f"{run_id} is not kept in its conversation: go on from one that is completed")
    before = SeedReference(conversation=run.context_id, revision=run.revision)
    return Place(f"{run.context_id}/{name}", await journal.seed_messages(before))


def _check_void(runs: Iterable[RunSummary]) -> None:
    """Refuse to replace runs that are in progress or have had an effect."""
    if done := [run.run_id for run in runs if not run.ended or run.effect is not Effect.NONE]:
        raise Differs(
            f"what was answered there is under way or has done something ({', '.join(done)}), and "
            "cannot be taken back: say in a new message what is to change"
        )


def _start_time(run: RunSummary) -> float:
    return run.started_at.timestamp() if run.started_at else 0.0


async def newest_of(site: Site, user: User, chat: str) -> RunSummary | None:
    """Return the newest turn of a user in a chat or any branch of it; None if there is none."""
    conversation = await site.conversation_of(user, chat)
    journal = await site.app.open()
    for run in await journal.runs(owner=user.id, tenant=user.tenant, limit=_LOOKED_AT):
        if is_of(run.context_id, conversation) and not run.parent_run_id:
            return run
    return None


def is_of(conversation: str, chat: str) -> bool:
    """Whether a conversation is a chat or a branch of it; both by their ids in the journal."""
    return conversation == chat or conversation.startswith(f"{chat}/")


# A page that is reopened asks for the run in progress, which is among the newest.
_LOOKED_AT = 50


async def _last_turn(
    site: Site, user: User, chat: str, answers: Sequence[str]
) -> RunSummary | None:
    """Return the last answer that the client knows and the conversation kept, or None."""
    journal = await site.app.open()
    for run_id in reversed(answers):
        first = await site.run_of(user, run_id)
        (begun,) = await journal.runs(run_id=first.id)
        if not is_of(begun.context_id, chat):
            raise Differs(f"run {run_id} is no answer in this chat")
        if run := await _kept_run(journal, first.id):
            return run
    return None


async def _kept_run(journal: Any, run_id: str) -> RunSummary | None:
    """Return the last run of a chain that the conversation kept, or None."""
    for one in reversed(await chain_from(run_id, journal)):
        for run in await journal.runs(run_id=one):
            if run.revision:
                return run
    return None
