"""The user's answers: which run each is for, which are accepted, and which come too late.

Everything that waits or waited for an answer is a row of one table of ``_Wait``. An answer to a
closed one is reported as ``answer_outdated``; an answer to nothing in the table is misuse.

Answers are stored as control requests beside the log; the first one for a question wins, whoever
gives it. The session that claims the run copies them into its log. Answers for a child run that
are given with ``resume`` are written into that run's own log before its parent continues, so each
is stored once, however the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import Effect, Origin, Status
from upshot.contract.base.secrets import MASK
from upshot.contract.base.structs import Json
from upshot.contract.effects import EffectEntry, EffectLedger, ledger_of
from upshot.contract.error import RunWarning
from upshot.contract.events import ApprovalAnswered, RunStarted
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    Outdated,
    Pending,
    PendingApproval,
    PendingEffect,
    PendingExternal,
    PendingQuestion,
    Taken,
    already_approved,
    answers_question,
    check_approver,
)
from upshot.contract.protocols import Journal
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import Settlement
from upshot.entry.resume import fold_new_events, read_past, runs_above
from upshot.entry.run_lease import claimed, is_at_work
from upshot.errors import JournalError, Misuse
from upshot.journal.opening import open_journal
from upshot.journal.shared import PlacedAnswer, SharedJournal, needs_shared, shared_journal
from upshot.runs.plan import Where
from upshot.runs.recorder import Recorder
from upshot.runs.redaction import Redaction, has_marks, lift_secrets, marks_for, name_marks
from upshot.runs.resumption import log_answers
from upshot.state.child_runs import bare_id, child_id, origins_of
from upshot.state.run_state import RunState, item_of

T = TypeVar("T")
Allow: TypeAlias = "Callable[[str, Pending | None, AnyAnswer], None]"
"""Called just before an answer is stored, with the agent id of the run, what is asked (None if it
is already closed) and the answer; raises to refuse the answer."""


class NotAsked(Misuse):
    """An answer to something that the run never asked."""


class _Wait(msgspec.Struct, frozen=True):
    """Something that waits for an answer, or waited for one until *closed*."""

    run_id: str
    outer_id: str
    id: str
    is_question: bool
    closed: str = ""
    choices: tuple[str, ...] = ()
    asked: PendingApproval | None = None
    question: PendingQuestion | PendingExternal | None = None
    times_asked: int = 0
    # Names the question; "" if that is not known.
    item: str = ""
    seq: int = 0
    has_answer: bool = False
    started: RunStarted | None = None

    def fault(self, answer: AnyAnswer) -> str:
        """Return why *answer*, which is for it, is refused; "" if it is accepted."""
        if self.closed:
            return _late_message(answer, self.closed)
        asked = self.question
        if isinstance(answer, Answer) and isinstance(asked, PendingEffect):
            if answer.digest in ("", asked.digest):
                return ""
            return (
                f"{_label_of(answer)} is about an earlier attempt: check again, and answer the "
                "open question"
            )
        if isinstance(answer, Answer) or self.asked is None:
            return ""
        if answers_question(answer, self.asked, times_asked=self.times_asked):
            is_second = isinstance(answer, Approve) and self.knows(answer.by)
            return already_approved(answer.by, answer.call_id) if is_second else ""
        named = _label_of(answer)
        if answer.digest:
            return (
                f"{named} answers another question than the open one: the call is asked about again"
            )
        return (
            f"{named} does not say which of {self.times_asked} questions about calls of this id "
            "it answers, and is asked about again: give the digest of what was shown, as "
            "PendingApproval.approve() and edit() do"
        )

    def knows(self, user: str) -> bool:
        """Whether the log has an approval of *user* among those that the call needs."""
        return self.asked is not None and self.asked.approval_of(user) is not None

    def has(self, name: str) -> bool:
        """Whether *name* is its id, or that id after a run: by run id, or by key."""
        if name == self.id:
            return True
        before, slash, rest = name.rpartition(f"/{self.id}")
        if not self.outer_id or not slash or rest:
            return False
        return before == self.run_id or child_id(self.outer_id, before) == self.run_id


async def answer_run(
    run_id: str,
    answers: Sequence[AnyAnswer],
    *,
    journal: Where,
    secrets: Iterable[str] = (),
    allow: Allow | None = None,
) -> tuple[Taken | Outdated, ...]:
    """See ``answer``; *allow* is called for each answer before each try to store them."""
    _check_types(answers)
    for answer in answers:
        if not (isinstance(answer, Answer) or answer.digest):
            raise Misuse(
                f"{_label_of(answer)} does not say what was shown: make it by approve(), deny() or "
                "edit() of an item of result.pending, or give its digest"
            )
    async with open_journal(journal, create=False) as opened:
        seen, texts = None, tuple(secrets)
        while True:
            past = await read_past(run_id, opened)
            canceled = await _canceled_above(past, run_id, opened)
            waits = await _waits_for(answers, past, run_id, opened, canceled)
            found = _match_answers(answers, waits, past)
            _check_scopes(answers, found)
            if allow is not None:
                for answer, wait in zip(answers, found, strict=True):
                    agent_id = "" if past.started is None else past.started.agent.id
                    is_open = not wait.closed
                    allow(agent_id, (wait.asked or wait.question) if is_open else None, answer)
            outcomes = [
                await _store_answer(answer, wait, past, opened, texts)
                for answer, wait in zip(answers, found, strict=True)
            ]
            if None not in outcomes:
                return tuple(one for one in outcomes if one is not None)
            if seen == (seen := [(wait.run_id, wait.seq) for wait in found]):
                raise JournalError(
                    f"run {run_id} is being worked on: answer what it still waits for when it has "
                    "parked",
                    run_id=run_id,
                )


def _check_scopes(answers: Sequence[AnyAnswer], waits: Sequence[_Wait]) -> None:
    """Refuse a standing approval of a destructive tool."""
    for answer, wait in zip(answers, waits, strict=True):
        asked = wait.asked
        is_standing = isinstance(answer, Approve) and answer.always
        if is_standing and asked is not None and asked.effect is Effect.DESTRUCTIVE:
            raise Misuse(
                f"{_label_of(answer)} is a standing approval, and {asked.tool_name} is "
                "destructive: approve each of its calls"
            )


async def _store_answer(
    answer: AnyAnswer, wait: _Wait, past: RunState, journal: Journal, secrets: Sequence[str]
) -> Taken | Outdated | None:
    """Store an answer unless an earlier one wins; None if the run has continued since."""
    ledger, keeper = ledger_of(journal), needs_shared(journal)
    if isinstance(answer, Answer) and ledger is not None:
        if wait.closed and (entry := await ledger.effect(wait.id)) is not None:
            return _answer_closed_effect(answer, wait, entry)
        if _is_effect(wait):
            return await _settle_effect(answer, wait, ledger)
    item = wait.item if isinstance(answer, Answer) else answer.digest
    kept = await keeper.placed_answers(wait.run_id)
    # A closed question's item is not known, so match by id.
    is_over = wait.is_question and wait.closed
    same = [w for w in kept if w.item == item or (is_over and _id_of(w.answer) == wait.id)]
    standing = next((one for one in reversed(same) if not one.part), None)
    if standing is None:
        if fault := wait.fault(answer):
            return Outdated(answer=answer, reason=fault)
        if past.last_settled is None or past.ended:
            raise Misuse(f"run {wait.outer_id or wait.run_id} does not wait for answers now")
        if is_at_work(wait.run_id, journal):
            return None
        return await _place(answer, item, wait, keeper, secrets)
    if standing.answer == _written(_bind(answer, wait), wait, secrets):
        return Taken(answer=answer)
    return _preceded(answer, standing, wait)


async def _place(
    answer: AnyAnswer, item: str, wait: _Wait, keeper: SharedJournal, secrets: Sequence[str]
) -> Taken | Outdated | None:
    """Store an answer beside the log; None if the run has continued since."""
    given = _written(_bind(answer, wait, now := SYSTEM_CLOCK.now()), wait, secrets)
    is_masked = wait.started is not None and marks_for(secrets, wait.started)
    shown = None if is_masked else show_answer(given, wait.started, wait.asked)
    placed = PlacedAnswer(run_id=wait.run_id, item=item, answer=given, at=now)
    standing = await keeper.place_answer(placed, seq=wait.seq, asked=wait.asked, shown=shown)
    if standing is None:
        return None
    if standing.answer == given:
        return Taken(answer=answer, missing=await _missing_after(standing, wait, keeper))
    return _preceded(answer, standing, wait)


def _written(answer: AnyAnswer, wait: _Wait, secrets: Sequence[str]) -> AnyAnswer:
    """Return an answer with marks for *secrets*, if they are those of the run that asks."""
    name = "" if wait.started is None else marks_for(secrets, wait.started)
    return Redaction(secrets, name=name).write(answer) if name else answer


def show_answer(
    answer: AnyAnswer, started: RunStarted | None, asked: PendingApproval | None
) -> AnyAnswer:
    """Return an answer as users and the audit may see it, where the run's secrets are not known.

    If the run has secrets, whatever the user typed may contain one.
    """
    if not has_marks(started):
        return answer
    match answer:
        case Approve():
            return answer
        case Deny():
            return replace(answer, reason=answer.reason and MASK)
        case Edit():
            before = {} if asked is None else asked.arguments
            shown = {
                name: value if name in before and before[name] == value else MASK
                for name, value in answer.arguments.items()
            }
            return replace(answer, arguments=shown)
        case Answer():
            value = answer.value if isinstance(answer.value, bool) else MASK
            return replace(answer, value=value, note=answer.note and MASK)


async def _missing_after(standing: PlacedAnswer, wait: _Wait, keeper: SharedJournal) -> int:
    """Return how many more users must approve a call after a stored answer."""
    if not standing.part or wait.asked is None:
        return 0
    return _with_placed(wait.asked, await keeper.placed_answers(wait.run_id)).missing


def _with_placed(asked: PendingApproval, placed: Iterable[PlacedAnswer]) -> PendingApproval:
    """Return a question with those of its approvals that are stored beside the log."""
    for one in placed:
        if one.part and one.item == asked.digest:
            asked = asked.with_approval(one.answer.by, one.at)
    return asked


async def with_placed_approvals(result: AgentResult[T], journal: Journal) -> AgentResult[T]:
    """Return the result of a parked run, with the approvals that no session has read yet."""
    keeper, pending = shared_journal(journal), [*result.pending]
    for place, one in enumerate(result.pending):
        if keeper is not None and isinstance(one, PendingApproval) and one.approvals > 1:
            placed = await keeper.placed_answers(one.run_id or result.run_id)
            pending[place] = _with_placed(one, placed)
    return result if tuple(pending) == result.pending else replace(result, pending=tuple(pending))


def _preceded(answer: AnyAnswer, standing: PlacedAnswer, wait: _Wait) -> Outdated:
    """Return the response to an answer that came after *standing*."""
    return Outdated(
        answer=answer,
        reason=_preceded_message(answer, standing),
        decision=show_answer(standing.answer, wait.started, wait.asked),
        by=standing.answer.by,
        at=standing.at,
    )


def _answer_closed_effect(answer: Answer, wait: _Wait, entry: EffectEntry) -> Taken | Outdated:
    """Return the response to an answer about an effect whose run has stopped asking.

    It settles nothing.
    """
    known = entry.settled
    if known is None:
        reason = f"{wait.closed}; settle it with `upshot effects settle {entry.id}`"
        return Outdated(answer=answer, reason=_late_message(answer, reason))
    if (_effect_of(answer, wait), answer.by) == (known.effect, known.by):
        return Taken(answer=answer)
    return _outdated_by(answer, known)


async def _settle_effect(answer: Answer, wait: _Wait, ledger: EffectLedger) -> Taken | Outdated:
    """Settle the effect that a run asks about, unless it is settled already."""
    if fault := wait.fault(answer):
        return Outdated(answer=answer, reason=fault)
    effect = _effect_of(answer, wait)
    by, note = answer.by or "answer", answer.note
    given = Settlement(effect=effect, by=by, at=SYSTEM_CLOCK.now(), note=note)
    try:
        known = (await ledger.settle_effect(wait.id, given)).settled
    except Misuse as error:
        # The call itself, or a later one, has reported its effect since.
        return Outdated(answer=answer, reason=str(error))
    if known is None or (known.effect, known.by) == (given.effect, given.by):
        return Taken(answer=answer)
    return _outdated_by(answer, known)


def _effect_of(answer: Answer, wait: _Wait) -> Effect:
    return Effect.APPLIED if _value(answer, wait) in ("yes", True) else Effect.NONE


def _outdated_by(answer: Answer, known: Settlement) -> Outdated:
    return Outdated(
        answer=answer,
        reason=_late_message(
            answer, f"the effect was settled before as {known.effect} by {known.by}"
        ),
        decision=Answer(answer.id, "yes" if known.effect is Effect.APPLIED else "no", by=known.by),
        by=known.by,
        at=known.at,
    )


def _preceded_message(answer: AnyAnswer, standing: PlacedAnswer) -> str:
    if standing.part:
        return already_approved(standing.answer.by, _id_of(answer))
    what = "question" if isinstance(answer, Answer) else "call"
    by = f" by {standing.answer.by}" if standing.answer.by else ""
    return _late_message(answer, f"{what} {_id_of(answer)} was answered before{by}")


async def unlogged_answers(past: RunState, run_id: str, journal: Journal) -> list[PlacedAnswer]:
    """Return the answers to open questions of a run that are stored but not yet in its log."""
    keeper = shared_journal(journal)
    if keeper is None or past.ended or not (past.asked or past.waits):
        return []
    waits = {one.item: one for one in _waits_of(past, run_id) if not (one.closed or one.has_answer)}
    return [
        replace(placed, answer=_bind(placed.answer, waits[placed.item]))
        for placed in await keeper.placed_answers(run_id)
        if placed.item in waits and not (placed.part and waits[placed.item].knows(placed.answer.by))
    ]


async def is_settled(past: RunState, journal: Journal) -> bool:
    """Whether an effect that a parked run asks about has been settled since."""
    ledger = ledger_of(journal)
    for asked in past.pending:
        if ledger is not None and isinstance(asked, PendingEffect):
            entry = await ledger.effect(bare_id(asked))
            # Another call may have made the effect since this one was settled.
            if entry is None:
                continue
            if entry.settled or not entry.is_made_by(asked.call_id, asked.idempotency_key):
                return True
    return False


async def route_answers(
    answers: Sequence[AnyAnswer],
    past: RunState,
    run_id: str,
    journal: Journal,
    *,
    secrets: Sequence[str],
    take_over: bool,
) -> tuple[list[AnyAnswer], list[str]]:
    """Sort answers to a claimed run, and write those for its child runs into their logs.

    Returns:
        The answers that the run itself logs, including those that other processes stored; and a
        line for each refused answer that says why.
    """
    given, outdated = await sort_answers(answers, past, run_id, journal)
    own, late = await _merge_answers(given.pop(run_id, ()), past, run_id, journal, secrets=secrets)
    inside = await _write_to_children(given, journal, secrets=secrets, take_over=take_over)
    return own, [*outdated, *late, *inside]


async def _merge_answers(
    answers: Sequence[AnyAnswer],
    past: RunState,
    run_id: str,
    journal: Journal,
    *,
    secrets: Sequence[str],
) -> tuple[list[AnyAnswer], list[str]]:
    """Merge the answers to a claimed run with those that other processes stored; the first wins.

    Args:
        answers: The holder's answers, sorted.
        past: The log of the run, with the real values of *secrets*.
        run_id: The run.
        journal: The journal that has its log.
        secrets: Masked in what is stored.

    Returns:
        The answers to log for this run, and why some of *answers* are refused.
    """
    keeper = shared_journal(journal)
    if keeper is None or past.started is None:
        return [*answers], []
    redaction = Redaction(secrets, name=marks_for(secrets, past.started) or name_marks())
    outdated: list[str] = []
    # By the row under which each is stored.
    settled: dict[str, AnyAnswer] = {}
    waits = {wait.id: wait for wait in _waits_of(past, run_id) if not wait.closed}
    for answer in answers:
        wait, ledger = waits[_id_of(answer)], ledger_of(journal)
        if isinstance(answer, Answer) and _is_effect(wait) and ledger:
            # Not logged as an answer: the session that continues the run reads the ledger.
            settlement = await _settle_effect(answer, wait, ledger)
            outdated += [settlement.reason] if isinstance(settlement, Outdated) else []
            continue
        item = wait.item
        shown = redaction.write(answer)
        placed = PlacedAnswer(run_id=run_id, item=item, answer=shown, at=SYSTEM_CLOCK.now())
        standing = await keeper.place_answer(placed, asked=wait.asked)
        if standing is None or standing.answer == shown:
            settled[placed.row if standing is None else standing.row] = answer
        else:
            outdated.append(_preceded_message(answer, standing))
    read = lift_secrets(secrets, hides_others=False)
    read(past.started)
    stored: dict[str, AnyAnswer] = {}
    for placed in await unlogged_answers(past, run_id, journal):
        lifted = read(ApprovalAnswered(answer=placed.answer))
        assert isinstance(lifted, ApprovalAnswered)
        stored[placed.row] = lifted.answer
    return [*{**stored, **settled}.values()], outdated


class SortedAnswers(NamedTuple):
    """The user's answers, sorted by run.

    Attributes:
        given: The accepted answers, by the run that asks; an approval names its question.
        outdated: Why the others are refused, a line for each.
    """

    given: dict[str, list[AnyAnswer]]
    outdated: list[str]


async def sort_answers(
    answers: Sequence[AnyAnswer], past: RunState, run_id: str, journal: Journal
) -> SortedAnswers:
    """Find the run that each answer is for.

    Raises:
        Misuse: Two answers are for the same call or question, or one is for nothing or is not
            among the choices.
    """
    _check_types(answers)
    sorted_: dict[str, list[AnyAnswer]] = {}
    outdated: list[str] = []
    if not answers:
        return SortedAnswers(sorted_, outdated)
    waits = await _waits_for(answers, past, run_id, journal)
    for answer, wait in zip(answers, _match_answers(answers, waits, past), strict=True):
        if fault := wait.fault(answer):
            outdated.append(fault)
        else:
            bound = _bind(answer, wait, SYSTEM_CLOCK.now())
            sorted_.setdefault(wait.run_id, []).append(bound)
    return SortedAnswers(sorted_, outdated)


async def _waits_for(
    answers: Sequence[AnyAnswer],
    past: RunState,
    run_id: str,
    journal: Journal,
    canceled: str = "",
) -> list[_Wait]:
    """Return what the run and its child runs wait for; ended ones only if an answer names one.

    Args:
        answers: The answers.
        past: The log of the run.
        run_id: The run.
        journal: The journal that has its log.
        canceled: The run around it that was canceled, "" for none.
    """
    waits = _waits_of(past, run_id, canceled=canceled)
    waits += await _waits_inside(past, run_id, journal, canceled=canceled)
    if not all(any(wait.has(_id_of(answer)) for wait in waits) for answer in answers):
        waits += await _waits_inside(past, run_id, journal, ended=True)
    return waits


async def _canceled_above(past: RunState, run_id: str, journal: Journal) -> str:
    """Return the run around a child run that was canceled, "" for none."""
    async for outer, outer_id in runs_above(past, run_id, journal):
        if _is_canceled(outer):
            return outer_id
    return ""


def _is_canceled(past: RunState) -> bool:
    settled = past.last_settled
    return settled is not None and settled.result.status is Status.CANCELED


def _match_answers(
    answers: Sequence[AnyAnswer], waits: Sequence[_Wait], past: RunState
) -> list[_Wait]:
    """Return what each of *answers* is for.

    Raises:
        Misuse: Two answers are for the same call or question, or one is for nothing or is not
            among the choices.
    """
    found: list[_Wait] = []
    met: set[tuple[str, str, bool]] = set()
    for answer in answers:
        wait = _find_wait(answer, waits, past)
        found.append(wait)
        if wait.fault(answer):
            continue
        if wait.asked is not None:
            check_approver(answer, wait.asked)
        if isinstance(answer, Answer) and not _is_choice(answer, wait):
            listed = ", ".join(map(repr, wait.choices))
            raise Misuse(
                f"{answer.value!r:.60} is not an answer to {answer.id!r}: choose one of {listed}"
            )
        if isinstance(answer, Answer) and answer.note and not _is_effect(wait):
            raise Misuse(f"the answer to {answer.id!r} has a note: only one to a PendingEffect has")
        place = wait.run_id, wait.id, wait.is_question
        if place in met:
            raise Misuse(f"{_id_of(answer)!r} is answered twice: give one answer for each")
        met.add(place)
    return found


def outdated_warnings(lines: Iterable[str]) -> tuple[RunWarning, ...]:
    """Return the warnings about refused answers."""
    return tuple(
        RunWarning(code="answer_outdated", message=line, origin=Origin.CALLER) for line in lines
    )


def too_late(answers: Sequence[AnyAnswer], run_id: str) -> tuple[RunWarning, ...]:
    """Return the warnings about answers to a run that has ended."""
    _check_types(answers)
    return outdated_warnings(_late_message(answer, _ended_message(run_id)) for answer in answers)


def _late_message(answer: AnyAnswer, closed: str) -> str:
    return f"{_label_of(answer)} came too late: {closed}"


def _ended_message(run_id: str) -> str:
    return f"run {run_id} has ended"


def _label_of(answer: AnyAnswer) -> str:
    return f"{type(answer).__name__}({_id_of(answer)!r})"


async def _write_to_children(
    answers: Mapping[str, Iterable[AnyAnswer]],
    journal: Journal,
    *,
    secrets: Sequence[str],
    take_over: bool,
) -> list[str]:
    """Write answers into the logs of the child runs that ask; they read them when they continue.

    Returns:
        A line for each answer that came too late, with the reason.
    """
    outdated: list[str] = []
    async with AsyncExitStack() as stack:
        # Claim all runs before writing to the first: if a claim is refused, no answer is stored.
        holds = {
            run_id: await stack.enter_async_context(claimed(run_id, journal, take_over=take_over))
            for run_id in answers
        }
        for run_id, given in answers.items():
            outdated += await _write_answers(given, run_id, journal, holds[run_id].epoch, secrets)
    return outdated


async def _write_answers(
    answers: Iterable[AnyAnswer], run_id: str, journal: Journal, epoch: int, secrets: Sequence[str]
) -> list[str]:
    """Write answers into the log of a claimed run, except those that came too late."""
    past = await read_past(run_id, journal, secrets=secrets)
    given, outdated = await sort_answers(tuple(answers), past, run_id, journal)
    if past.ended or not given:
        return outdated
    own, late = await _merge_answers(given.get(run_id, ()), past, run_id, journal, secrets=secrets)
    marks = "" if past.started is None else marks_for(secrets, past.started)
    redaction = Redaction(secrets, name=marks or name_marks()) if secrets else None
    recorder = Recorder(
        run_id, clock=SYSTEM_CLOCK, state=past, journal=journal, epoch=epoch, redaction=redaction
    )
    recorder.attempt = past.attempt
    log_answers(own, recorder)
    await recorder.barrier()
    return [*outdated, *late]


def _check_types(answers: Sequence[AnyAnswer]) -> None:
    if not isinstance(answers, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"answers is one {type(answers).__name__}: give a list: answers=[...]")
    for answer in answers:
        if not isinstance(answer, Approve | Deny | Edit | Answer):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(
                f"answers must be Approve, Deny, Edit or Answer, got {format_value(answer)}"
            )


def _find_wait(answer: AnyAnswer, waits: Sequence[_Wait], past: RunState) -> _Wait:
    """Find what *answer* is for: as shown, else the only one with that id; closed ones last."""
    name, is_question = _id_of(answer), isinstance(answer, Answer)
    named = [wait for wait in waits if wait.has(name)]
    fitting = [wait for wait in named if wait.is_question is is_question]
    closed = [wait for wait in fitting if wait.closed]
    fitting = [wait for wait in fitting if not wait.closed]
    # Answers without a run in front prefer the ids that the run's own result shows.
    shown = {(one.run_id, bare_id(one)) for one in past.pending if one.id == name}
    groups = (
        [wait for wait in fitting if not wait.outer_id and wait.id == name],
        [wait for wait in fitting if wait.outer_id and (wait.run_id, wait.id) in shown],
        [wait for wait in fitting if wait.id == name],
        fitting,
        closed[:1],
    )
    found = next((group for group in groups if group), list[_Wait]())
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(f"{wait.run_id}/{wait.id}" for wait in found)
        raise Misuse(f"several runs wait for an answer to {name!r}: say which, {names}")
    if named:
        needed = "a call: give Approve, Deny or Edit" if is_question else "a question: give Answer"
        raise Misuse(f"{name!r} is {needed}, got {type(answer).__name__}")
    listed = ", ".join(_names_of([wait for wait in waits if not wait.closed])) or "nothing"
    raise NotAsked(f"no question {name!r} waits for an answer: the run waits for {listed}")


def _names_of(waits: Sequence[_Wait]) -> list[str]:
    ids = [wait.id for wait in waits]
    return sorted(
        f"{wait.run_id}/{wait.id}" if wait.outer_id and ids.count(wait.id) > 1 else wait.id
        for wait in waits
    )


def _waits_of(
    past: RunState, run_id: str, outer_id: str = "", *, canceled: str = ""
) -> list[_Wait]:
    """Return what the run waits or waited for; a call can be answered until it is settled.

    Args:
        past: The log of the run.
        run_id: The run.
        outer_id: The run for which the answer was given, if it is another one.
        canceled: The run around it that was canceled, "" for none.
    """
    ended = f"run {canceled}, which started it, was canceled" if canceled else ""
    ended = _ended_message(run_id) if past.ended else ended
    now = SYSTEM_CLOCK.now()
    questions = [
        _Wait(
            run_id,
            outer_id,
            id,
            is_question=True,
            closed=ended or _expiry_message(one, now),
            choices=_choices_of(one),
            question=one,
            item=item_of(past, one),
            seq=past.seq,
            started=past.started,
        )
        for id, one in sorted(past.waits.items())
    ]
    questions += [
        _Wait(
            run_id,
            outer_id,
            id,
            True,
            closed=ended or f"question {id} was answered before",
            started=past.started,
        )
        for id in past.answers_given
        if id not in past.waits
    ]
    calls = [
        _Wait(
            run_id,
            outer_id,
            id,
            False,
            closed=ended or ("" if id in past.asked else f"call {id} no longer waits for approval"),
            asked=past.asked.get(id),
            item=past.asked[id].digest if id in past.asked else "",
            times_asked=times,
            seq=past.seq,
            has_answer=id in past.answers,
            started=past.started,
        )
        for id, times in past.times_asked.items()
    ]
    return questions + calls


def _expiry_message(wait: PendingQuestion | PendingExternal, now: datetime) -> str:
    """Return why a wait for a signal is over; its signal goes to the next wait."""
    if isinstance(wait, PendingExternal) and wait.signal and wait.expires_at is not None:
        return "" if now < wait.expires_at else f"the wait ended at {wait.expires_at.isoformat()}"
    return ""


def _choices_of(wait: PendingQuestion | PendingExternal) -> tuple[str, ...]:
    return wait.choices if isinstance(wait, PendingQuestion) else ()


async def _waits_inside(
    past: RunState, run_id: str, journal: Journal, *, ended: bool = False, canceled: str = ""
) -> list[_Wait]:
    """Return what the child runs and their descendants wait for; *ended*: what ended ones did."""
    waits: list[_Wait] = []
    if _is_canceled(past):
        canceled = run_id
    origins = set[str]() if past.started is None else set(origins_of(past.started.options))
    for child, spent in past.children.items():
        if spent is not None and spent.is_final and not ended:
            continue
        inner = RunState()
        await fold_new_events(inner, child, journal)
        # A child run that had not ended when its parent was forked runs again.
        if inner.started is None or inner.started.parent_run_id in origins:
            continue
        if inner.ended is ended:
            waits += _waits_of(inner, child, run_id, canceled=canceled)
        if ended or not inner.ended:
            waits += await _waits_inside(inner, child, journal, ended=ended, canceled=canceled)
    return waits


def _id_of(answer: AnyAnswer) -> str:
    return answer.id if isinstance(answer, Answer) else answer.call_id


def _is_effect(wait: _Wait) -> bool:
    return isinstance(wait.question, PendingEffect)


def _is_choice(answer: Answer, wait: _Wait) -> bool:
    return not wait.choices or _value(answer, wait) in wait.choices


def _value(answer: Answer, wait: _Wait) -> Json:
    """Return the value of an answer; about effects, True and False are yes and no."""
    value = answer.value
    if isinstance(value, bool) and _is_effect(wait):
        return "yes" if value else "no"
    return value


def _bind(answer: AnyAnswer, wait: _Wait, at: datetime | None = None) -> AnyAnswer:
    """Return *answer* with the id that the asking run uses.

    Approvals get a digest. One of several that a call needs also gets the moment *at*, unless that
    is None.
    """
    if isinstance(answer, Answer):
        return replace(answer, id=wait.id, value=_value(answer, wait))
    if wait.asked is None:
        return replace(answer, call_id=wait.id)
    if isinstance(answer, Approve):
        at = (at or answer.at) if wait.asked.approvals > 1 else None
        return replace(answer, call_id=wait.id, digest=wait.asked.digest, at=at)
    return replace(answer, call_id=wait.id, digest=wait.asked.digest)
