"""Reads a log to go on: the state, the history, the answers.

An answer for a child run is written into that run's own log before its parent goes on, so it is
there once, however the process ends then.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from secrets import token_hex
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.checks import did_you_mean, shown
from upshot.contract.base.enums import DeniedReason, Origin, Role, Status
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.error import RunWarning
from upshot.contract.events import Event, RunSettled, RunStarted
from upshot.contract.message import Message, Unknown
from upshot.contract.model_calls import Request
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    PendingApproval,
    PendingExternal,
    PendingQuestion,
    answers_question,
)
from upshot.contract.protocols import Engine, Journal
from upshot.contract.result import AgentResult
from upshot.contract.run_control import SPEC_VERSION, Checkpoint
from upshot.contract.tool_calls import ToolCall, ToolDenied, outcome_to_model_content
from upshot.entry.option_checks import check_run_id
from upshot.entry.run_lease import taken
from upshot.errors import Misuse
from upshot.journal.artifact_store import StoredArtifact
from upshot.journal.export_file import ExportedRun, read_lines, write_lines
from upshot.journal.opening import open_journal
from upshot.runs.callbacks import call, raised
from upshot.runs.plan import DEPENDENCIES_OPTION, Plan, RunOptions, Where
from upshot.runs.recorder import Recorder
from upshot.runs.redaction import Redaction, lift_secrets, marks_for, name_marks, shown_by
from upshot.runs.resumption import (
    is_asked,
    is_under_way,
    log_answers,
    point_of,
    reads_checkpoints,
    spent_in,
)
from upshot.state.child_runs import FORKED_FROM, bare_id, child_id, origins_of
from upshot.state.run_state import RunState
from upshot.state.stored_events import Seeds, read_event, result_of, with_seed

# The nearest id is looked for among this many of the newest runs.
_MAX_NAMED = 1_000


async def read_past(
    run_id: str, journal: Journal, *, secrets: Sequence[str] = (), seeds: Seeds | None = None
) -> RunState:
    """Fold the log of a run."""
    past = RunState()
    await read_on(past, run_id, journal, secrets=secrets, seeds=seeds)
    if past.started is None:
        if await journal.runs(run_id=run_id):
            raise Misuse(f"the journal knows the run {run_id!r}, but has no event of it any more")
        ids = [summary.run_id for summary in await journal.runs(limit=_MAX_NAMED)]
        hint = did_you_mean(run_id, ids, "`upshot runs` lists those it has")
        raise Misuse(f"the journal has no run {run_id!r}: {hint}")
    return past


async def read_on(
    past: RunState,
    run_id: str,
    journal: Journal,
    *,
    secrets: Sequence[str] = (),
    seeds: Seeds | None = None,
) -> None:
    """Fold what was logged since *past* was read, with the secrets put back for their marks."""
    # Tools and models work with the real values.
    read = lift_secrets(secrets, hides_others=False)
    if past.started is not None:
        read(past.started)
    async for event in journal.events(run_id, after=past.seq):
        if isinstance(event, RunStarted):
            past.show = shown_by(secrets, event)
        read_event(past, read(event), seeds=seeds)


async def read_children(past: RunState, journal: Journal) -> None:
    """Find out what the child runs used that had not ended when the log was written."""
    origins = set[str]() if past.started is None else set(origins_of(past.started.options))
    for run_id, spent in past.children.items():
        if spent is not None and spent.is_final:
            continue
        child = RunState()
        await read_on(child, run_id, journal)
        # A child run that had not ended when its parent was forked is run anew.
        if child.started is not None and child.started.parent_run_id not in origins:
            await read_children(child, journal)
            past.children_found[run_id] = spent_in(child)


async def history_of(
    request: Request, options: RunOptions, journal: Journal | None
) -> Sequence[Message]:
    """The messages that a run begins with, as its options say.

    A call that was not made, such as one that still waits for approval, is shown as cancelled: no
    provider takes a conversation in which a call has no outcome.
    """
    history = options.get("history") or ()
    if isinstance(history, AgentResult):
        return _with_outcomes(history.all_messages(), request)
    if not isinstance(history, str):
        return _with_outcomes(_messages(history), request) if history else ()
    if history != "context":
        raise Misuse(f"history must be messages, an AgentResult or 'context', got {history!r}")
    if journal is None or not request.context_id:
        raise Misuse("history='context' needs a journal and a Request with a context_id")
    return _with_outcomes(await _context_messages(request.context_id, journal), request)


def _messages(history: object) -> tuple[Message, ...]:
    items = (
        tuple(cast("Iterable[object]", history)) if isinstance(history, Iterable) else (history,)
    )
    for item in items:
        if not isinstance(item, Message):
            wanted = "messages, such as Message('user', 'Hi')"
            raise Misuse(f"history must be {wanted}, got {shown(item)} in it")
    return cast("tuple[Message, ...]", items)


async def _context_messages(context_id: str, journal: Journal) -> Sequence[Message]:
    """What earlier committed runs of the context asked and produced, oldest first.

    What was asked inside one of them is no turn of the conversation.
    """
    messages: list[Message] = []
    summaries = await journal.runs(context_id=context_id)
    ids = {summary.run_id for summary in summaries}
    for summary in reversed(summaries):
        if not summary.ended or summary.parent_run_id in ids:
            continue
        past = await read_past(summary.run_id, journal)
        if past.started is None:
            continue
        result = result_of(past)
        if result is not None and result.committed:
            messages += [past.started.request.to_message(), *result.messages]
    return messages


def _with_outcomes(messages: Sequence[Message], request: Request) -> Sequence[Message]:
    """*messages* with an outcome after every reply for each call of it that has none.

    An outcome may stand anywhere after its call, and may be the request itself.
    """
    waiting = _unanswered([*messages, request.to_message()])
    if not any(waiting.values()):
        return messages
    closed: list[Message] = []
    missing: list[ToolCall] = []
    for place, message in enumerate(messages):
        if message.role is not Role.TOOL:
            closed += map(_cancelled, missing)
            missing = []
        missing += waiting.get(place, ())
        closed.append(message)
    return [*closed, *map(_cancelled, missing)]


def _unanswered(messages: Sequence[Message]) -> dict[int, list[ToolCall]]:
    """The calls that no later message answers, by the place of their reply."""
    waiting = {place: list(one.tool_calls) for place, one in enumerate(messages)}
    told = [(place, one) for place, one in enumerate(messages) if one.role is Role.TOOL]
    # One that names no call is of any, so those that name theirs come first.
    for place, outcome in sorted(told, key=lambda one: not one[1].tool_call_id):
        _answer(waiting, place, outcome.tool_call_id)
    return waiting


def _answer(waiting: dict[int, list[ToolCall]], place: int, call_id: str | None) -> None:
    """Take out the call that the outcome at *place* answers.

    It is the nearest before it, for providers use ids again.
    """
    for before in range(place - 1, -1, -1):
        for number, asked in enumerate(waiting[before]):
            if not call_id or asked.id == call_id:
                del waiting[before][number]
                return


def _cancelled(call: ToolCall) -> Message:
    outcome = ToolDenied(
        call_id=call.id,
        tool_name=call.name,
        reason=DeniedReason.CANCELLED,
        details="the conversation went on without it",
    )
    return Message(
        Role.TOOL, outcome_to_model_content(outcome), tool_call_id=call.id, name=call.name
    )


class _Wait(msgspec.Struct, frozen=True):
    """Something that is waited for; a call that is not waited for any more has no *asked*."""

    run_id: str
    outer_id: str
    id: str
    is_question: bool
    choices: tuple[str, ...] = ()
    asked: PendingApproval | None = None
    times_asked: int = 0

    @property
    def is_open(self) -> bool:
        return self.is_question or self.asked is not None

    def fault(self, answer: AnyAnswer) -> str:
        """Why *answer*, which is for it, is not taken; "" if it is."""
        if isinstance(answer, Answer):
            return ""
        named = f"{type(answer).__name__}({self.id!r})"
        if self.asked is None:
            return f"{named} came too late: call {self.id} does not wait for approval any more"
        if answers_question(answer, self.asked, times_asked=self.times_asked):
            return ""
        if isinstance(answer, Approve | Edit) and answer.digest:
            return f"{named} is to another question than the one that is open: it is asked anew"
        return (
            f"{named} does not say which of {self.times_asked} questions about calls of this id "
            "it is to, and is asked anew: give the digest of what was shown, as "
            "PendingApproval.approve() and edit() do"
        )

    def has(self, name: str) -> bool:
        """Whether *name* is its id with the run in front: by run id, or by key."""
        before, slash, rest = name.rpartition(f"/{self.id}")
        if not self.outer_id or not slash or rest:
            return False
        return before == self.run_id or child_id(self.outer_id, before) == self.run_id


async def keep_answers(run_id: str, answers: Sequence[AnyAnswer], *, journal: Where) -> None:
    """Log the user's answers without resuming the run; ``resume`` then finds them.

    Args:
        run_id: A run that is parked.
        answers: The answers, also for its child runs.
        journal: Where its log is.

    Raises:
        Misuse: There is no such run, it is not parked, or it does not wait for such an answer.
        JournalError: The journal cannot be read or written, or a run is being worked on.
    """
    async with open_journal(journal, create=False) as opened:
        # First without a lease: a process that works on the run keeps it if the answer is refused.
        await _sort_parked(answers, run_id, opened)
        async with taken(run_id, opened, take_over=False) as hold:
            # The holder until now may have gone on with the run meanwhile.
            given = await _sort_parked(answers, run_id, opened)
            own = given.pop(run_id, [])
            for gone in await hand_down(given, opened):
                raise _not_waiting(gone)
            await _write(own, run_id, opened, hold.epoch, ())


class SortedAnswers(NamedTuple):
    """The user's answers.

    Attributes:
        given: Those that are taken, by the run that asks; a yes names its question.
        outdated: Why others are not, a line for each.
    """

    given: dict[str, list[AnyAnswer]]
    outdated: list[str]


async def sort_answers(
    answers: Sequence[AnyAnswer], past: RunState, run_id: str, journal: Journal
) -> SortedAnswers:
    """Find out which run each answer is for.

    Raises:
        Misuse: Two are for the same call or question, or one is for nothing, or no choice.
    """
    _check_types(answers)
    met: set[tuple[str, str, bool]] = set()
    sorted_: dict[str, list[AnyAnswer]] = {}
    outdated: list[str] = []
    if not answers:
        return SortedAnswers(sorted_, outdated)
    waits = _waits_of(past, run_id)
    waits += await _waits_inside(past, run_id, journal)
    for answer in answers:
        wait = _find(answer, waits, past)
        if isinstance(answer, Answer) and wait.choices and answer.value not in wait.choices:
            listed = ", ".join(map(repr, wait.choices))
            raise Misuse(f"{answer.value!r:.60} is no answer to {answer.id!r}: choose of {listed}")
        if fault := wait.fault(answer):
            outdated.append(fault)
            continue
        place = wait.run_id, wait.id, wait.is_question
        if place in met:
            raise Misuse(f"{_id_of(answer)!r} is answered twice: give one answer for each")
        met.add(place)
        sorted_.setdefault(wait.run_id, []).append(_bound(answer, wait))
    return SortedAnswers(sorted_, outdated)


def outdated_warnings(lines: Iterable[str]) -> tuple[RunWarning, ...]:
    """The warnings that answers were not taken."""
    return tuple(
        RunWarning(code="answer_outdated", message=line, origin=Origin.CALLER) for line in lines
    )


def too_late(answers: Sequence[AnyAnswer], run_id: str) -> tuple[RunWarning, ...]:
    """The warnings that answers came to a run that has ended."""
    _check_types(answers)
    named = (f"{type(answer).__name__}({_id_of(answer)!r})" for answer in answers)
    return outdated_warnings(f"{one} came too late: run {run_id} has ended" for one in named)


async def hand_down(
    answers: Mapping[str, Iterable[AnyAnswer]],
    journal: Journal,
    *,
    secrets: Sequence[str] = (),
    take_over: bool = False,
) -> Sequence[str]:
    """Write answers into the logs of the runs that ask, which find them when they go on."""
    gone: list[str] = []
    async with AsyncExitStack() as stack:
        # All before the first is written: where one is refused, no answer is kept.
        holds = {
            run_id: await stack.enter_async_context(taken(run_id, journal, take_over=take_over))
            for run_id in answers
        }
        for run_id, given in answers.items():
            if not await _write(given, run_id, journal, holds[run_id].epoch, secrets):
                gone.append(run_id)
    return gone


async def _sort_parked(
    answers: Sequence[AnyAnswer], run_id: str, journal: Journal
) -> dict[str, list[AnyAnswer]]:
    """Sort answers to a run that has to be parked."""
    past = await read_past(run_id, journal)
    if past.last_settled is None or past.ended:
        raise _not_waiting(run_id)
    given, outdated = await sort_answers(answers, past, run_id, journal)
    if outdated:
        # Nobody goes on with the run now, to whom it could be told.
        raise Misuse("; ".join(outdated))
    return given


def _not_waiting(run_id: str) -> Misuse:
    return Misuse(f"run {run_id} does not wait for answers now")


async def _write(
    answers: Iterable[AnyAnswer], run_id: str, journal: Journal, epoch: int, secrets: Sequence[str]
) -> bool:
    """Write answers into the log of a run that was taken; false where it has ended meanwhile."""
    past = await read_past(run_id, journal, secrets=secrets)
    if past.ended:
        return False
    marks = "" if past.started is None else marks_for(secrets, past.started)
    redaction = Redaction(secrets, name=marks or name_marks()) if secrets else None
    recorder = Recorder(
        run_id, clock=SYSTEM_CLOCK, state=past, journal=journal, epoch=epoch, redaction=redaction
    )
    recorder.attempt = past.attempt
    log_answers(answers, recorder)
    await recorder.barrier()
    return True


def _check_types(answers: Sequence[AnyAnswer]) -> None:
    if not isinstance(answers, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"answers is one {type(answers).__name__}: give a list: answers=[...]")
    for answer in answers:
        if not isinstance(answer, Approve | Deny | Edit | Answer):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"answers must be Approve, Deny, Edit or Answer, got {shown(answer)}")


def _find(answer: AnyAnswer, waits: Sequence[_Wait], past: RunState) -> _Wait:
    """What *answer* is for: as it was shown, else the only one of that id."""
    name, is_question = _id_of(answer), isinstance(answer, Answer)
    fitting = [one for one in waits if one.is_open and one.is_question is is_question]
    # By "" the run's own stand in its result.
    shown = {(one.run_id, bare_id(one)) for one in past.pending if one.id == name}
    groups = (
        [wait for wait in fitting if not wait.outer_id and wait.id == name],
        [wait for wait in fitting if wait.outer_id and (wait.run_id, wait.id) in shown],
        [wait for wait in fitting if wait.id == name],
        [wait for wait in fitting if wait.has(name)],
    )
    found = next((group for group in groups if group), list[_Wait]())
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(f"{wait.run_id}/{wait.id}" for wait in found)
        raise Misuse(f"several runs wait for an answer to {name!r}: say which, {names}")
    named = [wait for wait in waits if wait.id == name or wait.has(name)]
    if named and not is_question and not named[0].is_open:
        return named[0]
    if named:
        needed = "a call: give Approve, Deny or Edit" if is_question else "a question: give Answer"
        raise Misuse(f"{name!r} is {needed}, and no {type(answer).__name__}")
    listed = ", ".join(_listed([wait for wait in waits if wait.is_open])) or "nothing"
    raise Misuse(f"no question {name!r} waits for an answer: the run waits for {listed}")


def _listed(waits: Sequence[_Wait]) -> list[str]:
    ids = [wait.id for wait in waits]
    return sorted(
        f"{wait.run_id}/{wait.id}" if wait.outer_id and ids.count(wait.id) > 1 else wait.id
        for wait in waits
    )


def _waits_of(past: RunState, run_id: str, outer_id: str = "") -> list[_Wait]:
    """What the run itself waits for; answered calls may be answered anew until they are settled."""
    questions = [
        _Wait(run_id, outer_id, id, is_question=True, choices=_choices_of(one))
        for id, one in sorted(past.waits.items())
    ]
    calls = [
        _Wait(run_id, outer_id, id, False, asked=past.asked.get(id), times_asked=times)
        for id, times in past.times_asked.items()
    ]
    return questions + calls


def _choices_of(wait: PendingQuestion | PendingExternal) -> tuple[str, ...]:
    return wait.choices if isinstance(wait, PendingQuestion) else ()


async def _waits_inside(past: RunState, run_id: str, journal: Journal) -> list[_Wait]:
    """What the child runs wait for, and theirs."""
    waits: list[_Wait] = []
    origins = set[str]() if past.started is None else set(origins_of(past.started.options))
    for child, spent in past.children.items():
        if spent is not None and spent.is_final:
            continue
        inner = RunState()
        await read_on(inner, child, journal)
        # A child run that had not ended when its parent was forked is run anew.
        if inner.started is None or inner.ended or inner.started.parent_run_id in origins:
            continue
        waits += _waits_of(inner, child, run_id)
        waits += await _waits_inside(inner, child, journal)
    return waits


def _id_of(answer: AnyAnswer) -> str:
    return answer.id if isinstance(answer, Answer) else answer.call_id


def _bound(answer: AnyAnswer, wait: _Wait) -> AnyAnswer:
    """*answer* with the id that the run which asks knows, and a yes with the question's digest."""
    if isinstance(answer, Answer):
        return replace(answer, id=wait.id)
    if isinstance(answer, Deny) or wait.asked is None:
        return replace(answer, call_id=wait.id)
    return replace(answer, call_id=wait.id, digest=wait.asked.digest)


async def check_checkpoint(checkpoint: Checkpoint | None, engine: Engine) -> None:
    """Ask an engine whether it can begin at a checkpoint."""
    if checkpoint is None:
        return
    name = type(engine).__name__
    if checkpoint.spec_version != SPEC_VERSION:
        raise Misuse(
            f"the checkpoint is of the form {checkpoint.spec_version!r}, and this version reads "
            f"{SPEC_VERSION!r}"
        )
    if not callable(getattr(engine, "can_resume", None)):
        if reads_checkpoints(engine):
            return
        raise Misuse(f"{name} cannot resume: it has no can_resume(checkpoint)")
    if not await _can_resume(engine, checkpoint):
        raise Misuse(f"{name} cannot resume from the checkpoint at step {checkpoint.step!r}")


def check_dependencies(past: RunState, plan: Plan) -> None:
    """See that a run that had dependencies goes on with some.

    Raises:
        Misuse: It does not: its tools would get None.
    """
    if plan.dependencies is None and past.options.get(DEPENDENCIES_OPTION):
        raise Misuse(
            f"run {plan.run_id!r} was given dependencies, which no log can hold: go on with it in "
            "Python, with resume(..., dependencies=...); the command line cannot give any"
        )


async def check_onward(past: RunState, plan: Plan) -> None:
    """Ask an engine whether it can go on where the log of its run stands."""
    engine = plan.engine
    if not is_under_way(past) or not is_asked(engine):
        return
    point = point_of(past)
    if not await _can_resume(engine, point):
        name = type(engine).__name__
        place = f"at step {point.step!r}" if point.step else "where no checkpoint was made"
        raise Misuse(
            f"{name} cannot go on with run {plan.run_id!r}, which stands {place}: begin another "
            "run, or have its can_resume(checkpoint) say that it can"
        )


async def _can_resume(engine: Engine, checkpoint: Checkpoint) -> bool:
    """What an engine says that has ``can_resume``."""
    name = type(engine).__name__
    try:
        return bool(await call(cast("Any", engine).can_resume, checkpoint))
    except Exception as error:
        # The caller's engine; nothing has begun.
        raise Misuse(raised(f"{name}.can_resume", error)) from error


async def fork_run(run_id: str, *, at: int, journal: Where, seeds: Seeds | None = None) -> str:
    """See ``fork``."""
    check_run_id(run_id)
    if not isinstance(at, int) or isinstance(at, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"at is {at!r:.60}: give the seq of an event of the run, from 1")
    async with open_journal(journal, create=False) as opened:
        new_id = f"run-{token_hex(8)}"
        with tempfile.TemporaryDirectory(prefix="upshot-") as folder:
            whole, part = os.path.join(folder, "whole"), os.path.join(folder, "part")
            events = await opened.export(run_id, whole)
            if not 1 <= at <= events:
                raise Misuse(f"run {run_id} has no event {at}: give one from 1 to {events}")
            await asyncio.to_thread(_write_fork, whole, part, new_id=new_id, at=at, seeds=seeds)
            return await opened.import_(part)


def _write_fork(whole: str, part: str, *, new_id: str, at: int, seeds: Seeds | None) -> None:
    """Write the first events of the run in *whole* to *part*, as a run of its own."""
    bodies: list[bytes] = []
    artifacts: list[StoredArtifact] = []
    last: Event | None = None
    for line in read_lines(whole):
        if isinstance(line, StoredArtifact):
            artifacts.append(line)
        elif line.entry.seq <= at:
            last = line.event
            event = with_seed(line.event, seeds)
            bodies.append(_forked_event(event, line.entry.seq, new_id, at))
    if isinstance(last, RunSettled) and last.result.status is not Status.INPUT_REQUIRED:
        raise Misuse(f"the run has ended at event {at}: fork it at an earlier one")
    kept = [one for one in artifacts if any(one.id.encode() in body for body in bodies)]
    # Ids of artifacts are hard to guess, so nothing else in the log reads like one.
    names = {one.id.encode(): f"art-{token_hex(12)}".encode() for one in kept}
    renamed = [replace(one, id=names[one.id.encode()].decode(), run_id=new_id) for one in kept]
    bodies = [_translated(body, names) for body in bodies]
    write_lines(part, ExportedRun(new_id, len(bodies), bodies, len(renamed), renamed))


def _translated(body: bytes, names: dict[bytes, bytes]) -> bytes:
    for old, new in names.items():
        body = body.replace(old, new)
    return body


def _forked_event(event: Event, seq: int, new_id: str, at: int) -> bytes:
    if isinstance(event, Unknown):
        raise Misuse(f"event {seq} is of a kind that this version does not know")
    run_id = event.run_id
    event = replace(event, run_id=new_id)
    match event:
        case RunStarted():
            origins = event.options.get(FORKED_FROM)
            known = origins if isinstance(origins, list) else []
            origin: Json = {"run_id": run_id, "seq": at}
            options = {**event.options, FORKED_FROM: [*known, origin]}
            request = replace(event.request, run_id="")
            event = replace(event, options=options, request=request)
        case _:
            pass
    return encode(event)
