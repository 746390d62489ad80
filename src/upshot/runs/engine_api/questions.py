"""The questions that a run asks, and which of them are open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from upshot.contract.base.enums import Origin
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json
from upshot.contract.error import RunWarning
from upshot.contract.events import QuestionAnswered, QuestionAsked
from upshot.contract.pending import Pending, PendingQuestion
from upshot.runs.callbacks import call, method
from upshot.runs.engine_api.exceptions import Parked, signal_of
from upshot.runs.run_context import RunContext, body_of


class Questions:
    """The questions of one session.

    Args:
        context: The run.
        answers: The known answers by question key; new ones are added.
    """

    def __init__(self, context: RunContext, answers: dict[str, Json]) -> None:
        self._user = context.plan.host
        self._recorder = context.recorder
        self._context = context
        # Stops counting while a person is asked.
        self._working = context.budget.working
        self._answers = answers
        self._open: dict[str, tuple[int, PendingQuestion]] = {}
        # The number of questions without a key, by attempt.
        self._asked: dict[int, int] = {}

    @property
    def open(self) -> list[PendingQuestion]:
        """The questions that were asked in this attempt and are not answered."""
        now = self._recorder.attempt
        return [pending for attempt, pending in self._open.values() if attempt == now]

    async def ask(
        self,
        question: str,
        choices: tuple[str, ...],
        key: str | None,
        warn: Callable[[str, BaseException], None],
    ) -> Json:
        """See ``RunHost.ask_user``. *warn* is called with an exception of the user's host."""
        if key is None:
            key = f"question-{self._recorder.attempt}-{self.next_place()}"
        if key in self._answers:
            return self._answers[key]
        earlier = self._context.state.waits.get(key)
        # The wait started when the first session asked; resuming does not restart it.
        asked_at = self._recorder.now() if earlier is None else earlier.asked_at
        pending = PendingQuestion(id=key, question=question, choices=choices, asked_at=asked_at)
        self._recorder.emit(QuestionAsked(pending=pending))
        answer = await self._ask_host(pending, warn)
        if choices and answer not in choices:
            message = f"host.ask_user returned {answer!r:.60}, which is not one of the choices"
            self._recorder.warn(RunWarning(code="host_failed", message=message, origin=Origin.HOST))
            raise self._leave_open(pending)
        self._answers[key] = answer
        self._open.pop(key, None)
        self._recorder.emit(QuestionAnswered(id=key, value=answer))
        return answer

    async def _ask_host(
        self, pending: PendingQuestion, warn: Callable[[str, BaseException], None]
    ) -> Json:
        """Return the answer of the user's host."""
        asked = method(self._user, "ask_user")
        if asked is None:
            raise self._leave_open(pending)
        try:
            with nullcontext() if self._working is None else self._working.asking():
                answer, _ = to_free_json(await call(asked, pending.question))
        except Exception as error:
            signal = signal_of(error)
            if signal is not None and not isinstance(signal, Parked):
                raise
            if signal is None:
                # A host that cannot ask does not fail the run: the question stays open.
                warn("ask_user", error)
            raise self._leave_open(pending, *(signal.pending if signal else ())) from error
        return answer

    def next_place(self) -> str:
        """Return the body and number of the next question or wait without a key."""
        attempt, body = self._recorder.attempt, body_of(self._recorder.run_id)
        if body is not None:
            body.questions += 1
            return f"{body.key}-{body.questions}"
        self._asked[attempt] = self._asked.get(attempt, 0) + 1
        return str(self._asked[attempt])

    def _leave_open(self, pending: PendingQuestion, *others: Pending) -> Parked:
        """Add to the open questions, and return the signal that parks the run."""
        self._open[pending.id] = self._recorder.attempt, pending
        return Parked(pending, *(one for one in others if one.id != pending.id))
