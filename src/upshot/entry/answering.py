"""Answering: what people say of a parked run reaches the run that asks, be it one inside.

An answer for a run inside is written into that run's own log before the outer run goes on. So it
is there once, whatever ends the process then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec
from msgspec.structs import replace

from ..clock import SYSTEM_CLOCK
from ..contract import (
    Answer,
    AnyAnswer,
    ApprovalAnswered,
    Approve,
    Deny,
    Edit,
    Journal,
    PendingExternal,
    PendingQuestion,
    QuestionAnswered,
    Status,
)
from ..contract.article import kind_of
from ..errors import Misuse
from ..journal import open_journal
from ..runs import Past, Where
from ..runs.kin import bare_id, child_id, origins_of
from ..runs.recorder import Recorder
from ..runs.veil import Veil, marks_for, name_marks
from .history import read_on, read_past
from .taking import taken

__all__ = ["hand_down", "keep_answers", "sort_answers"]


class _Wait(msgspec.Struct, frozen=True):
    """Something that is waited for.

    Attributes:
        run_id: The run that asks.
        outer_id: The run round it, "" for the root's own.
        id: By which the asking run knows it.
        is_question: Whether an ``Answer`` answers it, as a result from outside too; else it is a
            call.
        choices: What may be answered; empty for anything.
    """

    run_id: str
    outer_id: str
    id: str
    is_question: bool
    choices: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether *name* is its id with the run in front: by run id, or by key."""
        before, slash, rest = name.rpartition(f"/{self.id}")
        if not self.outer_id or not slash or rest:
            return False
        return before == self.run_id or child_id(self.outer_id, before) == self.run_id


async def keep_answers(run_id: str, answers: Sequence[AnyAnswer], *, journal: Where) -> None:
    """Log what people answered, without going on with the run; ``resume`` then finds it.

    Args:
        run_id: A run that is parked.
        answers: What they answered, also for runs inside it.
        journal: Where its log is.

    Raises:
        Misuse: There is no such run, it is not parked, or nobody waits for such an answer.
        JournalError: The journal cannot be read or written, or a run is being worked on.
    """
    async with open_journal(journal, create=False) as opened:
        # First without taking it: from who works on it nothing is taken to tell the caller so.
        await _sort_parked(answers, run_id, opened)
        async with taken(run_id, opened, take_over=False) as hold:
            # Who had the run until now may have gone on with it meanwhile.
            given = await _sort_parked(answers, run_id, opened)
            own = given.pop(run_id, [])
            for gone in await hand_down(given, opened):
                raise _not_waiting(gone)
            await _write(own, run_id, opened, hold.epoch, ())


async def sort_answers(
    answers: Sequence[AnyAnswer], past: Past, run_id: str, journal: Journal
) -> dict[str, list[AnyAnswer]]:
    """Find out which run each answer is for.

    Args:
        answers: What people answered; each names a call or question of the run or of one inside.
            Where several use an id, ``<run_id>/<id>`` or ``<key>/<id>`` says whose is meant.
        past: The log of the run that was answered.
        run_id: That run.
        journal: Where its log is, and those of the runs inside.

    Returns:
        The answers by the run that asks, which knows them by these ids.

    Raises:
        Misuse: One is for nothing that is waited for, or may be for several, or is none of the
            choices; the message names what is.
    """
    _check_types(answers)
    sorted_: dict[str, list[AnyAnswer]] = {}
    if not answers:
        return sorted_
    waits = _waits_of(past, run_id)
    waits += await _waits_inside(past, run_id, journal)
    for answer in answers:
        wait = _find(answer, waits, past)
        if isinstance(answer, Answer) and wait.choices and answer.value not in wait.choices:
            listed = ", ".join(map(repr, wait.choices))
            raise Misuse(f"{answer.value!r:.60} is no answer to {answer.id!r}: choose of {listed}")
        sorted_.setdefault(wait.run_id, []).append(_renamed(answer, wait.id))
    return sorted_


async def hand_down(
    answers: Mapping[str, Iterable[AnyAnswer]],
    journal: Journal,
    *,
    secrets: Sequence[str] = (),
    take_over: bool = False,
) -> Sequence[str]:
    """Write answers into the logs of the runs that ask, which find them when they go on.

    Args:
        answers: By run, as ``sort_answers`` gives them.
        journal: Where the logs are.
        secrets: What is masked in them.
        take_over: Whether to take runs from who works on them.

    Returns:
        The runs that have ended meanwhile; nothing is written into their logs.

    Raises:
        JournalError: A log cannot be written, or a run is being worked on; nothing is written then.
    """
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
    if past.result is None or past.result.status is not Status.INPUT_REQUIRED:
        raise _not_waiting(run_id)
    return await sort_answers(answers, past, run_id, journal)


def _not_waiting(run_id: str) -> Misuse:
    return Misuse(f"run {run_id} does not wait for people now")


async def _write(
    answers: Iterable[AnyAnswer], run_id: str, journal: Journal, epoch: int, secrets: Sequence[str]
) -> bool:
    """Write answers into the log of a run that was taken; false where it has ended meanwhile."""
    past = await read_past(run_id, journal, secrets=secrets)
    if past.ended:
        return False
    marks = "" if past.started is None else marks_for(secrets, past.started)
    veil = Veil(secrets, name=marks or name_marks()) if secrets else None
    recorder = Recorder(
        run_id, clock=SYSTEM_CLOCK, journal=journal, epoch=epoch, seq=past.seq, veil=veil
    )
    recorder.attempt = past.attempt
    for answer in answers:
        if isinstance(answer, Answer):
            recorder.emit(QuestionAnswered(id=answer.id, value=answer.value))
        elif answer.call_id in past.asked:
            digest = past.asked[answer.call_id].digest
            recorder.emit(ApprovalAnswered(answer=answer, digest=digest))
    await recorder.barrier()
    return True


def _check_types(answers: Sequence[AnyAnswer]) -> None:
    if not isinstance(answers, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"answers is one {type(answers).__name__}: give a list: answers=[...]")
    for answer in answers:
        if not isinstance(answer, Approve | Deny | Edit | Answer):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise Misuse(f"answers hold {kind_of(answer)}: give Approve, Deny, Edit or Answer")


def _find(answer: AnyAnswer, waits: Sequence[_Wait], past: Past) -> _Wait:
    """What *answer* is for: as it was shown, else the only one of that id."""
    name, is_question = _id_of(answer), isinstance(answer, Answer)
    fitting = [wait for wait in waits if wait.is_question is is_question]
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
    if any(wait.id == name or wait.has(name) for wait in waits):
        needed = "a call: give Approve, Deny or Edit" if is_question else "a question: give Answer"
        raise Misuse(f"{name!r} is {needed}, and no {type(answer).__name__}")
    listed = ", ".join(_listed(waits)) or "nothing"
    raise Misuse(f"nobody waits for an answer to {name!r}: the run waits for {listed}")


def _listed(waits: Sequence[_Wait]) -> list[str]:
    ids = [wait.id for wait in waits]
    return sorted(
        f"{wait.run_id}/{wait.id}" if wait.outer_id and ids.count(wait.id) > 1 else wait.id
        for wait in waits
    )


def _waits_of(past: Past, run_id: str, outer_id: str = "") -> list[_Wait]:
    """What the run itself waits for; answered calls may be answered anew until they are settled."""
    questions = [
        _Wait(run_id, outer_id, id, is_question=True, choices=choices)
        for id, choices in sorted(past.questions.items())
    ]
    results = [
        _Wait(run_id, outer_id, bare_id(one), is_question=True)
        for one in past.pending
        if isinstance(one, PendingExternal) and one.run_id in ("", run_id)
    ]
    # What an engine has raised itself, in Parked, was not asked through its host.
    raised = [
        _Wait(run_id, outer_id, bare_id(one), is_question=True, choices=one.choices)
        for one in past.pending
        if isinstance(one, PendingQuestion)
        and one.run_id in ("", run_id)
        and bare_id(one) not in past.questions
        and bare_id(one) not in past.answered
    ]
    calls = [_Wait(run_id, outer_id, id, is_question=False) for id in past.asked]
    return questions + results + raised + calls


async def _waits_inside(past: Past, run_id: str, journal: Journal) -> list[_Wait]:
    """What runs inside wait for, those inside them too."""
    waits: list[_Wait] = []
    origins = set[str]() if past.started is None else set(origins_of(past.started.options))
    for child, spent in past.children.items():
        if spent is not None and spent.is_final:
            continue
        inner = Past()
        await read_on(inner, child, journal)
        # One that stayed behind in the run that this one was forked from is run anew.
        if inner.started is None or inner.ended or inner.started.parent_run_id in origins:
            continue
        waits += _waits_of(inner, child, run_id)
        waits += await _waits_inside(inner, child, journal)
    return waits


def _id_of(answer: AnyAnswer) -> str:
    return answer.id if isinstance(answer, Answer) else answer.call_id


def _renamed(answer: AnyAnswer, id: str) -> AnyAnswer:
    if id == _id_of(answer):
        return answer
    return replace(answer, id=id) if isinstance(answer, Answer) else replace(answer, call_id=id)
