"""Answering: what people say of a parked run is logged, for the sitting that goes on with it."""

from __future__ import annotations

from collections.abc import Sequence

from ..clock import SYSTEM_CLOCK
from ..contract import (
    Answer,
    AnyAnswer,
    ApprovalAnswered,
    Approve,
    Deny,
    Edit,
    QuestionAnswered,
    Status,
)
from ..errors import Misuse
from ..journal import open_journal
from ..runs import Past, Where
from ..runs.recorder import Recorder
from .planning import read_past

__all__ = ["check_answers", "keep_answers"]


async def keep_answers(run_id: str, answers: Sequence[AnyAnswer], *, journal: Where) -> None:
    """Log what people answered, without going on with the run; ``resume`` then finds it.

    Args:
        run_id: A run that is parked.
        answers: What they answered.
        journal: Where its log is.

    Raises:
        Misuse: There is no such run, it is not parked, or nobody waits for such an answer.
        JournalError: The journal cannot be read or written.
    """
    async with open_journal(journal, create=False) as opened:
        past = await read_past(run_id, opened)
        if past.result is None or past.result.status is not Status.INPUT_REQUIRED:
            raise Misuse(f"run {run_id} does not wait for people now")
        check_answers(answers, past)
        epoch = await opened.claim(run_id)
        recorder = Recorder(run_id, clock=SYSTEM_CLOCK, journal=opened, epoch=epoch, seq=past.seq)
        recorder.attempt = past.attempt
        for answer in answers:
            if isinstance(answer, Answer):
                recorder.emit(QuestionAnswered(id=answer.id, value=answer.value))
            else:
                digest = past.asked[answer.call_id].digest
                recorder.emit(ApprovalAnswered(answer=answer, digest=digest))
        await recorder.barrier()


def check_answers(answers: Sequence[AnyAnswer], past: Past) -> None:
    """Check that each answer is for something that is waited for.

    Raises:
        Misuse: One is not; the message names what is.
    """
    if not isinstance(answers, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"answers is one {type(answers).__name__}: give a list: answers=[...]")
    for answer in answers:
        if not isinstance(answer, Approve | Deny | Edit | Answer):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            kind = type(answer).__name__
            raise Misuse(f"answers hold a {kind}: give Approve, Deny, Edit or Answer")
        if isinstance(answer, Answer):
            name, known = answer.id, past.questions
        else:
            name, known = answer.call_id, past.asked.keys()
        if name not in known:
            waits = ", ".join(sorted({*past.questions, *past.asked})) or "nothing"
            raise Misuse(f"nobody waits for an answer to {name!r}: the run waits for {waits}")
