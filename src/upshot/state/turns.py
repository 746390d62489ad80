"""Turns of a conversation: folds the logs of its runs for the next turn.

A turn is one request and its outcome: a run, or the runs that handed the request on. Its messages
count once it is committed. The next turn gets a notice of what an uncommitted turn did, until a
committed turn has had it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import Effect, Role, Status
from upshot.contract.base.json_values import to_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.conversation import Conversation, ConversationSummary
from upshot.contract.events import REDACTED, BoardChanged, Event, SeedReference
from upshot.contract.message import MAIN_CHANNEL, Message
from upshot.contract.model_calls import CountedCall, counted_run, sum_of
from upshot.contract.pending import Pending, PendingApproval, TaintOrigin
from upshot.contract.protocols import RunSummary
from upshot.contract.usage import Cost, Usage
from upshot.errors import JournalError
from upshot.state.child_runs import TURN_OPTION, Spent, pending_in
from upshot.state.compaction import tokens_sent
from upshot.state.request_digests import digest_of_messages
from upshot.state.run_effects import awaited_by
from upshot.state.run_state import RunState
from upshot.state.stored_events import read_event, unmeasured_answers_in, used_in

_PREPARED = -1
_MAX_KEPT = 32
BLOCK_TURNS = 8
"""The number of turns in one stored block."""
# Called with the events of one log before they are folded.
Lift: TypeAlias = Callable[[Event], Event]
_NOT_READ = (Effect.WRITE, Effect.DESTRUCTIVE)
_DONE = (Effect.APPLIED, Effect.UNKNOWN)


class EarlierCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that may write, from a turn whose messages are not in the conversation.

    Attributes:
        run_id: The run that made it.
        call_id: The call.
        tool_name: The tool.
        arguments: Its arguments.
        effect: "applied" or "unknown"; "" while it waits for approval.
    """

    run_id: str
    call_id: str
    tool_name: str
    arguments: JsonObject
    effect: str = ""

    @property
    def state(self) -> str:
        """The state of the call, in words."""
        return _STATES.get(self.effect, "waits for approval")


_STATES = {"applied": "was applied", "unknown": "may have been applied"}


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the log of a run says of its turn.

    Attributes:
        head: The first run of the turn, if its request was handed to this one; "" is the run
            itself.
        revision: How many turns were committed when it started.
        remember: Whether the run is a turn; if not, it sees the conversation and adds nothing.
        known: How many messages of the seed come from the conversation; -1 if the host prepared
            the board.
        earlier: The calls in earlier turns that its notice lists.
        tokens: The input tokens of the last model call in the previous turn, as the provider
            counted them; None if it gave no count.
    """

    head: str = ""
    revision: int = 0
    remember: bool = True
    known: int = 0
    earlier: tuple[EarlierCall, ...] = ()
    tokens: int | None = None


PREPARED = Turn(known=_PREPARED)


def turn_of(options: JsonObject) -> Turn | None:
    """Return the turn that a run takes or sees, from the options of its start; None for none."""
    noted = options.get(TURN_OPTION)
    return None if noted is None else msgspec.convert(noted, Turn)


def note_on_calls(calls: Sequence[EarlierCall]) -> Message | None:
    """Return the message about *calls* for the next turn; None without calls."""
    if not calls:
        return None
    listed = ", ".join(
        f"{one.tool_name}({to_json(one.arguments).decode()}) {one.state}" for one in calls
    )
    return Message(
        Role.USER,
        f"Not shown above, in an earlier turn that did not complete: {listed}; the same call with "
        "the same arguments will be refused.",
    )


def folded(events: Iterable[Event], read: Lift | None = None) -> RunState:
    """Return the state of a run, for reading only what it added to its conversation.

    Args:
        events: As the journal has them.
        read: Called with each of them first, as for ``states``.
    """
    state = RunState()
    for event in events:
        shown = event if read is None else read(event)
        if isinstance(shown, BoardChanged) and shown.seed is not None:
            # The earlier messages are in the logs of earlier turns.
            state.named_seed, shown = (shown.seed, ()), replace(shown, seed=None)
        read_event(state, shown)
    return state


class TurnsBlock(msgspec.Struct, frozen=True):
    """What a fixed number of committed turns added to the blocks before them. It is stored so that
    their logs need not be read again.

    Attributes:
        run_ids: The runs of these turns; they tell whether the block is still valid.
        messages: Messages added to the current list, and the lists that compactions have started
            since; the next block continues the last one.
        asked: What users asked in these turns; see ``CommittedTurns``.
        tokens: The value after them; see ``CommittedTurns``.
        told: The calls that the notices of these turns list.
        taint: The value after them.
        ends: The number of messages after each turn, and in which of the lists.
        digest: Of the messages after them.
    """

    run_ids: list[str]
    messages: list[list[Message]]
    asked: tuple[tuple[int, Message], ...]
    tokens: int | None
    told: list[tuple[str, str]]
    taint: TaintOrigin | None
    ends: list[tuple[int, int]]
    digest: str


class CommittedTurns:
    """The messages of the committed turns of a conversation, in the order of their ends.

    Attributes:
        run_ids: The runs that were added.
        messages: The messages that the next turn starts with.
        asked: What users asked, each with the number of turns committed by then.
        tokens: The input tokens of the last model call, as its provider counted them; None if
            unknown.
        told: The calls that the notice of a committed turn listed, each with its run.
        taint: The first untrusted content that reached one of them, None for none.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all turns."""
        self.run_ids: list[str] = []
        self.messages: list[Message] = []
        self.asked: tuple[tuple[int, Message], ...] = ()
        self.tokens: int | None = None
        self.told: set[tuple[str, str]] = set()
        self.taint: TaintOrigin | None = None
        self._ends: list[tuple[list[Message], int]] = [(self.messages, 0)]
        self._digest = ""
        self._blocks: dict[int, TurnsBlock] = {}
        self._close_block()

    def restore(self, blocks: Iterable[TurnsBlock]) -> None:
        """Add the turns of stored blocks, from the first on."""
        for block in blocks:
            self.run_ids += block.run_ids
            self.messages += block.messages[0]
            lists = [self.messages, *block.messages[1:]]
            self._ends += [(lists[place], count) for place, count in block.ends]
            self.messages = lists[-1]
            self.asked, self.tokens = self.asked + block.asked, block.tokens
            self.told.update(block.told)
            self.taint, self._digest = block.taint, block.digest
        self._close_block()

    def pop_blocks(self) -> dict[int, TurnsBlock]:
        """Return the full blocks that are not stored yet, by their numbers from 0."""
        blocks, self._blocks = self._blocks, {}
        return blocks

    def _close_block(self) -> None:
        """Start the next block after the current turns."""
        self._runs_before, self._asked_before = len(self.run_ids), len(self.asked)
        self._told_before, self._revision_before = set(self.told), self.revision

    def _fill_block(self) -> None:
        """Make a block of the turns since the last one, to be stored."""
        (current, known), *ends = self._ends[self._revision_before :]
        counts = {id(messages): (messages, count) for messages, count in [(current, known), *ends]}
        places = {key: place for place, key in enumerate(counts)}
        (messages, count), *begun = counts.values()
        self._blocks[self.revision // BLOCK_TURNS - 1] = TurnsBlock(
            run_ids=self.run_ids[self._runs_before :],
            messages=[messages[known:count], *(other[:most] for other, most in begun)],
            asked=self.asked[self._asked_before :],
            tokens=self.tokens,
            told=sorted(self.told - self._told_before),
            taint=self.taint,
            ends=[(places[id(messages)], count) for messages, count in ends],
            digest=self._digest,
        )
        self._close_block()

    @property
    def revision(self) -> int:
        """The number of turns."""
        return len(self._ends) - 1

    def at(self, revision: int) -> tuple[Message, ...]:
        """Return the messages after *revision* turns, or all if there are fewer turns."""
        messages, count = self._ends[min(revision, self.revision)]
        return tuple(messages[:count])

    def reference(self, conversation: str) -> SeedReference:
        """Return the reference that stands for the current messages in a log."""
        return SeedReference(conversation=conversation, revision=self.revision, digest=self._digest)

    def add(self, runs: Sequence[RunState]) -> None:
        """Add a turn: its run, or the runs that handed its request on."""
        known, compacted = len(self.messages), None
        for place, state in enumerate(runs):
            began = _initial_messages(state, is_first=not place)
            self.messages += began
            started = state.started
            if not place and started is not None and not started.depth:
                # The request of a child run does not count, because most often a model wrote it.
                self.asked += tuple((self.revision + 1, message) for message in began[-1:])
            self.messages += state.board.produced()
            if self._is_board_of(state, known):
                compacted = state.board.compacted
            turn = None if started is None else turn_of(started.options)
            if turn is not None:
                self.told.update((one.run_id, one.call_id) for one in turn.earlier if one.effect)
            run_id = "" if started is None else started.run_id
            if self.taint is None and state.taint is not None:
                self.taint = state.taint.seen_from(run_id)
            self.run_ids.append(run_id)
        self.tokens = tokens_sent(runs[-1])
        if compacted is None:
            self._digest = digest_of_messages(self.messages[known:], before=self._digest)
        else:
            # A new list, because earlier revisions refer to the old one.
            self.messages = compacted.sent(self.messages)
            self._digest = digest_of_messages(self.messages)
        self._ends.append((self.messages, len(self.messages)))
        if not self.revision % BLOCK_TURNS:
            self._fill_block()

    def _is_board_of(self, state: RunState, known: int) -> bool:
        """Whether the messages are those on a run's board, so that its compaction applies to them.

        They are not if other turns were committed since it started, if the host prepared the
        board, or if the run did not get the earlier messages.
        """
        turn = None if state.started is None else turn_of(state.started.options)
        if turn is None or turn.known < 0 or turn.revision != self.revision:
            return False
        before = 0 if state.named_seed is None else known
        return before + state.board.count() == len(self.messages)


def _initial_messages(state: RunState, *, is_first: bool) -> list[Message]:
    """Return what a run was given beside the messages of earlier turns; the request is last."""
    if state.started is None:
        return []
    messages = [
        one for change in state.seed if change.channel == MAIN_CHANNEL for one in change.messages
    ]
    if not is_first:
        # Its seed repeats the messages of the run before, and adds a note at the end.
        return messages[-1:]
    turn = turn_of(state.started.options) or PREPARED
    if turn.known < 0:
        return [state.started.request.to_message()]
    return messages[turn.known if state.named_seed is None else 0 :]


class KeptTurns:
    """The committed turns of the conversations that were read last, so that a turn reads only what
    is new.
    """

    def __init__(self) -> None:
        self._kept: dict[str, CommittedTurns] = {}

    def of(self, id: str) -> CommittedTurns:
        """Return the turns of a conversation that have been read."""
        found = self._kept.pop(id, None) or CommittedTurns()
        self._kept[id] = found
        if len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    def forget(self) -> None:
        """Remove all conversations."""
        self._kept.clear()


class ConversationState(msgspec.Struct, kw_only=True, eq=False):
    """A conversation as its journal has it.

    Attributes:
        id: The conversation.
        runs: All its runs, oldest first.
        messages: The messages of its committed turns.
        asked: As in ``CommittedTurns``.
        tokens: As in ``CommittedTurns``.
        seed: The reference to these messages in a log.
        taint: The first untrusted content that reached one of its turns, committed or not; None
            for none.
        usage: What all its runs used.
        cost: Their cost, None if nothing had a price.
        pending: What its runs wait for, each with the run that asks.
        undone: The calls of uncommitted turns that no committed turn has had a notice of.
        waiting: The calls of turns that wait; calls that wait for approval come last.
    """

    id: str
    runs: Sequence[RunSummary]
    messages: tuple[Message, ...]
    asked: tuple[tuple[int, Message], ...]
    seed: SeedReference
    tokens: int | None = None
    taint: TaintOrigin | None = None
    usage: Usage = Usage()
    cost: Cost | None = None
    pending: tuple[Pending, ...] = ()
    undone: tuple[EarlierCall, ...] = ()
    waiting: tuple[EarlierCall, ...] = ()

    def shown(self) -> Conversation:
        """Return the value that users get."""
        return Conversation(
            id=self.id,
            messages=self.messages,
            usage=self.usage,
            cost=self.cost,
            pending=self.pending,
            runs=tuple(self.runs),
            revision=self.seed.revision,
        )


def committed_turns(
    runs: Sequence[RunSummary], state_of: Callable[[str], RunState], kept: CommittedTurns
) -> CommittedTurns:
    """Fold the committed turns among *runs*.

    Args:
        runs: The runs of one conversation, oldest first.
        state_of: Reads the log of one of them.
        kept: The turns of an earlier reading; new ones are added to it.

    Raises:
        JournalError: The log of one is damaged.
    """
    ends = sorted((run for run in runs if run.revision), key=lambda run: run.revision)
    turns = _turns_in(runs)
    chains = [[run.run_id for run in turns.get(end.turn, [end])] for end in ends]
    known = [one for ids in chains for one in ids][: len(kept.run_ids)]
    if known != kept.run_ids or any(run.request == REDACTED for run in runs):
        # Runs were removed or redacted.
        kept.clear()
    for ids in chains[kept.revision :]:
        states = [state_of(run_id) for run_id in ids]
        if not states[-1].ended:
            raise JournalError(
                f"run {ids[-1]} is a committed turn of its conversation, and its log has no end: "
                "it is damaged",
                run_id=ids[-1],
            )
        kept.add(states)
    return kept


def read_conversation(
    id: str,
    runs: Sequence[RunSummary],
    state_of: Callable[[str], RunState],
    kept: CommittedTurns,
    *,
    without: str = "",
) -> ConversationState:
    """Fold the runs of a conversation.

    Args:
        id: The conversation.
        runs: All its runs, oldest first.
        state_of: Reads the log of one of them.
        kept: As for ``committed_turns``.
        without: The first run of a turn that is about to start, "" for none.
    """
    committed = committed_turns(runs, state_of, kept)
    found = ConversationState(
        id=id,
        runs=runs,
        messages=tuple(committed.messages),
        asked=committed.asked,
        tokens=committed.tokens,
        seed=committed.reference(id),
        taint=committed.taint,
    )
    found.usage, found.cost = used_in_all(runs, state_of)
    for head, turn in _turns_in(runs).items():
        if head == without or any(run.revision for run in turn):
            continue
        last = turn[-1]
        calls, taint = _calls_in(turn, runs, state_of)
        found.taint = found.taint or taint
        if last.status == Status.INPUT_REQUIRED:
            pending = pending_in(last.run_id, state_of(last.run_id).pending)
            found.pending += pending
            found.waiting += (*calls, *_waiting_calls(pending))
        elif last.ended:
            found.undone += tuple(
                one for one in calls if (one.run_id, one.call_id) not in committed.told
            )
    return found


def summarised(id: str, runs: Sequence[RunSummary]) -> ConversationSummary:
    """Return a conversation's line in the list; *runs* are its runs, oldest first."""
    roots = [*roots_of(runs)]
    used = sum_of(counted_run(run.usage, run.cost) for run in roots)
    return ConversationSummary(
        id=id,
        title=runs[0].request,
        last_at=runs[-1].started_at,
        revision=max(run.revision for run in runs),
        cost=used[1],
        waiting=sum(run.status == Status.INPUT_REQUIRED for run in roots),
    )


def roots_of(runs: Sequence[RunSummary]) -> Iterator[RunSummary]:
    """Yield the runs whose usage no other run of the conversation includes."""
    ids = {run.run_id for run in runs}
    return (run for run in runs if run.is_chained or run.parent_run_id not in ids)


def used_in_all(
    runs: Sequence[RunSummary], state_of: Callable[[str], RunState], *, without: str = ""
) -> tuple[Usage, Cost | None]:
    """Return what the runs of a conversation used; from the log if no session of a run has ended.

    Args:
        runs: Oldest first.
        state_of: Reads the log of one of them.
        without: A run to leave out, with its child runs; "" for none.
    """
    found: list[CountedCall] = []
    for run in roots_of(runs):
        if run.run_id != without:
            is_known = run.status != "running"
            used, cost = (run.usage, run.cost) if is_known else used_in(state_of(run.run_id))
            found.append(counted_run(used, cost))
    return sum_of(found)


def used_in_all_measured(
    runs: Sequence[RunSummary],
    state_of: Callable[[str], RunState],
    *,
    without: str,
    answers: bool,
) -> Spent:
    """The same as ``used_in_all``, and with *answers* whether a reply came without its usage.

    Which calls without usage were replies is in the logs alone, so it costs reading those.
    """
    usage, cost = used_in_all(runs, state_of, without=without)
    unsure = (
        run.run_id
        for run in roots_of(runs if answers else ())
        if run.run_id != without and (run.usage.unmeasured_calls or run.status == "running")
    )
    is_unsure = any(unmeasured_answers_in(state_of(run_id)) for run_id in unsure)
    return Spent(usage, cost, unmeasured_answers=int(is_unsure))


def _turns_in(runs: Iterable[RunSummary]) -> dict[str, list[RunSummary]]:
    """Return the runs of each turn, by its first run."""
    found: defaultdict[str, list[RunSummary]] = defaultdict(list)
    for run in runs:
        if run.turn:
            found[run.turn].append(run)
    return found


def _calls_in(
    turn: Collection[RunSummary],
    runs: Iterable[RunSummary],
    state_of: Callable[[str], RunState],
) -> tuple[tuple[EarlierCall, ...], TaintOrigin | None]:
    """Return what the runs of a turn and their child runs wrote, or may have written; and the first
    untrusted content that they read.
    """
    family = {run.run_id for run in turn}
    found: list[EarlierCall] = []
    taint: TaintOrigin | None = None
    for run in runs:
        # Oldest first, so a run comes after its parent.
        if run.run_id not in family and run.parent_run_id not in family:
            continue
        family.add(run.run_id)
        state = state_of(run.run_id)
        if taint is None and state.taint is not None:
            taint = state.taint.seen_from(run.run_id)
        # A handoff is not a write that a later turn needs to know of.
        handed_over = "" if state.handoff is None else state.handoff.tool_name
        found += [
            EarlierCall(
                run.run_id,
                one.call_id,
                one.tool_name,
                one.arguments_executed or one.arguments_validated or {},
                one.effect,
            )
            for one in state.records
            if one.effect in _DONE
            # A process that ended a dead run may not have had its tools.
            and one.declared_effect is not Effect.READ
            and one.tool_name != handed_over
        ]
        found += [
            EarlierCall(
                run.run_id,
                one.call.id,
                one.call.name,
                one.arguments,
                "" if awaited_by(state, run.run_id, one) else Effect.UNKNOWN,
            )
            for one in state.begun.values()
            if one.effect in _NOT_READ
        ]
    return tuple(found), taint


def _waiting_calls(pending: Iterable[Pending]) -> Iterator[EarlierCall]:
    for one in pending:
        if isinstance(one, PendingApproval):
            yield EarlierCall(one.run_id, one.call_id, one.tool_name, one.arguments)
