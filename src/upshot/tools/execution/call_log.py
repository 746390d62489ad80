"""The log of one call, for a body that asks the user or continues in a later session.

Such a body belongs to a tool with ``continues``. It finds the log in ``running_call``. While it has
something saved, its call may be made again after a crash: the body then finds what it saved, and
must not repeat what it did before. It saves None just before it does something whose outcome a
later session could not find out; a crash from then on leaves an unknown effect.

If nobody can answer a question now, ``ask`` parks the call: it stays open, and the run ends with
status ``input_required``. With the answers, a later session makes the call again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.events import ToolStarted, ToolStateSaved
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.pending import PendingQuestion
from upshot.contract.tool_calls import ToolOutcome
from upshot.tools.call_state import CallState, CallWaits

if TYPE_CHECKING:
    from upshot.tools.toolbox_state import ToolboxState


StandIn: TypeAlias = Callable[[CallState], Awaitable[ToolOutcome | None]]
"""Returns the outcome of a call whose body must not run; None runs the body."""


class RunCalls(Protocol):
    """What the log of a run knows of its calls, and whom calls can ask."""

    @property
    def stand_in(self) -> StandIn | None:
        """What answers calls in place of their bodies; None where bodies run."""
        ...

    @property
    def answers(self) -> Mapping[str, Json]:
        """The answers to questions, by the id of the question."""
        ...

    def is_copied(self, started: ToolStarted) -> bool:
        """Return whether this start is of the run that the run is a fork of."""
        ...

    async def note_approval(self, call: CallState, arguments: JsonObject) -> None:
        """Add an approval that no user gave for this very call to the audit, before it is made."""
        ...

    def agent_effect(self, key: str) -> Effect | None:
        """Return the worst effect of the agent that the call with this idempotency key ran,
        unknown if it may still work; None if it ran none.
        """
        ...

    def saved(self, key: str) -> Json:
        """Return what the body of the call with this idempotency key saved, or None."""
        ...

    async def ask_live(self, question: PendingQuestion) -> bool:
        """Ask the user's host. Returns whether it answered; the answer is then in ``answers``."""
        ...

    async def ask_model(self, request: ModelRequest) -> ModelResponse:
        """Ask the run's model, under its budget.

        Raises:
            Misuse: The run has no model.
        """
        ...


class CallLog:
    """The log of one call. Outside a run, nothing can be saved and nobody can be asked."""

    __slots__ = ("_call", "_calls", "_state")

    def __init__(self, state: ToolboxState, call: CallState) -> None:
        self._state = state
        self._call = call
        self._calls = state.run_calls

    @property
    def run_id(self) -> str:
        """The run of the call, or the made-up id of a Toolbox outside a run."""
        return self._state.identity.run_id

    @property
    def is_in_run(self) -> bool:
        """Whether the call belongs to a run."""
        return self._calls is not None

    @property
    def saved(self) -> Json:
        """What the body saved last, in this or an earlier session; None for nothing."""
        return None if self._calls is None else self._calls.saved(self._call.idempotency_key)

    async def save(self, value: Json) -> bool:
        """Save what the body needs to continue the call; returns once it is on disk.

        Args:
            value: JSON; None if an interrupted call must not be continued any more.

        Returns:
            Whether it was saved: not outside a run, and not if it contains a secret, because the
            log has none.

        Raises:
            JournalError: It could not be logged.
        """
        state, call = self._state, self._call
        if self._calls is None or state.mask(value) != value:
            return False
        state.emit(
            ToolStateSaved(
                call_id=call.call_id,
                tool_name=call.tool_name,
                idempotency_key=call.idempotency_key,
                state=value,
            )
        )
        if state.barrier is not None:
            await state.barrier()
        return True

    def id_of(self, name: str) -> str:
        """Return the id of a question about this call."""
        return f"{self._call.call_id}-{name}"

    async def ask(self, questions: Sequence[PendingQuestion]) -> dict[str, Json] | None:
        """Return the answers, by the id of the question.

        Returns:
            The answers; None if nobody can be asked, because there is no run.

        Raises:
            CallWaits: Some have no answer yet. Save first what the body needs.
        """
        calls = self._calls
        if calls is None:
            return None
        left = [
            one
            for one in questions
            if one.id not in calls.answers and not await calls.ask_live(one)
        ]
        if left:
            raise CallWaits(tuple(left))
        return {one.id: calls.answers[one.id] for one in questions}

    async def ask_live(self, question: PendingQuestion) -> tuple[bool, Json]:
        """Return whether there is an answer now, and the answer; the call is never parked."""
        calls = self._calls
        if calls is None or not (question.id in calls.answers or await calls.ask_live(question)):
            return False, None
        return True, calls.answers[question.id]

    async def ask_model(self, request: ModelRequest) -> ModelResponse | None:
        """Return a response of the run's model, or None outside a run.

        Raises:
            Misuse: The run has no model.
        """
        return None if self._calls is None else await self._calls.ask_model(request)
