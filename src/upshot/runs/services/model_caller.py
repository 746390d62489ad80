"""Calling models inside a run: deciders, log, retry, budget and accounting in one place."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, NoReturn

import msgspec

from upshot.contract.base.enums import Origin
from upshot.contract.error import RunWarning
from upshot.contract.message import ServerToolBlock, Text
from upshot.contract.model_calls import (
    ModelReplied,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    TextDelta,
)
from upshot.contract.protocols import Clock, Model, StreamItem
from upshot.contract.run_control import Interrupt
from upshot.contract.settings import Retry
from upshot.models.registry import name_of
from upshot.models.retry import call_with_retry, reply_of, stream_with_retry
from upshot.runs.budget import RunBudget
from upshot.runs.callbacks import blame, raised
from upshot.runs.engine_api.exceptions import Failed, Interrupted
from upshot.runs.recorder import Recorder
from upshot.runs.replay.recording import Recording
from upshot.runs.services.hooks import Hooks

__all__ = ["ModelCaller"]


class ModelCaller:
    """Every model call of a run goes through here, whatever the engine.

    Attributes:
        interrupt: The wish to stop, None without one; no failed call is tried again after it.
        is_stopped: Whether the run is being stopped from outside.
        cut: Texts of replies that were shown as they came, until the run was stopped.
        recorder: The log.
        ledger: The account.
        retry: How failed calls are tried again; None is not at all.
        clock: What is waited on.
    """

    def __init__(
        self,
        *,
        recorder: Recorder,
        ledger: RunBudget,
        hooks: Hooks,
        retry: Retry | None,
        clock: Clock,
        is_stopped: Callable[[], bool],
        record: Recording | None = None,
    ) -> None:
        self.interrupt: Interrupt | None = None
        self.recorder = recorder
        self.ledger = ledger
        self._hooks = hooks
        self.retry = retry
        self.clock = clock
        self._record = record
        self.is_stopped = is_stopped
        self.cut: list[str] = []
        self._provider = ""

    async def call(
        self,
        model: Model,
        request: ModelRequest,
        *,
        purpose: str = "",
        turn: int | None = None,
        step: str = "",
    ) -> ModelResponse:
        """Ask *model*.

        Args:
            model: Whom to ask.
            request: What to send.
            purpose: What for, "" for a turn of the engine's; only these are shown to watchers
                while they come, and are the run's last reply.
            turn: Which turn it is, where an earlier session began it and was cut off.
            step: The key of the ``host.once`` in whose body it is asked, "" for none.

        Returns:
            What came of it; an error is a value here too.

        Raises:
            Failed: A budget is spent, so nothing was asked.
            Interrupted: A wish to stop came while the reply was shown, or before another try.
            Misuse: The run has ended.
        """
        self.recorder.check_open()
        known_wish = self.interrupt
        # Ahead of the deciders, who need not be asked about what cannot be sent anyway.
        spent = self.ledger.spent()
        if spent is not None:
            raise Failed(spent)
        request, name = await self._hooks.before_model(request), name_of(model)
        self.ledger.turns += 1
        if turn is None:
            # Counted anew in each attempt, while the budget counts those of all.
            turn = self.ledger.turns - self.ledger.turns_before
        self.recorder.emit(
            ModelStarted(
                model=name,
                turn=turn,
                messages=len(request.messages),
                purpose=purpose,
                step=step,
            )
        )
        # What was done so far must be safe before more money is spent on it.
        await self.recorder.barrier()
        asking = _Asking(self, model, request, turn, purpose, known_wish=known_wish)
        if self._record is None:
            response = await asking.ask()
        else:
            response = self._record.reply(name, step)
        self.ledger.note(response, purpose=purpose)
        self.recorder.emit(
            ModelReplied(
                model=name,
                turn=turn,
                tries=asking.failed_tries + 1,
                response=response,
                purpose=purpose,
            )
        )
        if response.refusal and not purpose:
            refused = response.refusal
            self.recorder.warn(RunWarning(code="refusal", message=refused, origin=Origin.MODEL))
        provider = str(response.provider_data.get("provider", ""))
        if provider and provider != self._provider:
            self._provider = provider
            if len(request.messages) > 1:
                self._warn_of_left_out(request, provider)
        return response

    def _warn_of_left_out(self, request: ModelRequest, provider: str) -> None:
        """Warn of what another provider's own tools did, which *provider* was not sent."""
        owners = {
            part.provider
            for message in request.messages
            if not isinstance(message.content, str)
            for part in message.content
            if isinstance(part, ServerToolBlock) and part.provider != provider
        }
        if owners:
            message = f"{provider} was not sent what the tools of {', '.join(sorted(owners))} did"
            self.recorder.warn(
                RunWarning(code="parts_left_out", message=message, origin=Origin.MODEL)
            )


class _Asking:
    """One model call with its tries."""

    def __init__(
        self,
        caller: ModelCaller,
        model: Model,
        request: ModelRequest,
        turn: int,
        purpose: str,
        *,
        known_wish: Interrupt | None,
    ) -> None:
        self.failed_tries = 0
        # Who asks in spite of it, say for a last word, is let finish.
        self._known_wish = known_wish
        self._purpose = purpose
        self._caller = caller
        self._model = model
        self._request = request
        self._turn = turn
        self._in_flight = False
        self._shown: list[str] = []

    async def ask(self) -> ModelResponse:
        """Call or stream until there is an answer, or an error that no try would mend."""
        caller = self._caller
        stream = getattr(self._model, "stream", None)
        try:
            if caller.recorder.watched and callable(stream) and not self._purpose:
                return await self._show()
            response, _ = await call_with_retry(
                self._call,
                caller.retry,
                clock=caller.clock,
                deadline_monotonic=caller.ledger.deadline,
                on_retry=self._on_retry,
            )
        except asyncio.CancelledError:
            text = self._shown_text()
            if text and caller.is_stopped():
                caller.cut.append(text)
            if self._in_flight:
                # The provider may have worked, and nobody will know for how much.
                caller.ledger.add_unfinished()
            raise
        except Exception as error:
            self._shown_text()
            blame(error, f"the model {name_of(self._model)!r}", caller.recorder.run_id)
            raise
        return response

    async def _show(self) -> ModelResponse:
        """Show the pieces of the reply to watchers as they come; returns the whole."""
        caller = self._caller
        response = ModelResponse()
        items = stream_with_retry(
            self._stream,
            caller.retry,
            clock=caller.clock,
            deadline_monotonic=caller.ledger.deadline,
            on_retry=self._on_retry,
        )
        async for item in items:
            if isinstance(item, ModelResponse):
                response = item
            else:
                if caller.interrupt is not self._known_wish:
                    await self._break_off(items)
                if isinstance(item, TextDelta):
                    self._shown.append(item.text)
                caller.recorder.show(item, self)
        if response.error is not None and self._shown:
            whole, seen = "".join(self._shown), self._shown_text()
            if response.content in (None, whole):
                # What people saw of a reply that broke off is kept.
                parts = (*response.reasoning, Text(seen), *response.tool_calls)
                response = msgspec.structs.replace(response, parts=parts)
        caller.recorder.end_pieces(self)
        return response

    async def _break_off(self, items: AsyncGenerator[StreamItem]) -> NoReturn:
        """Follow the wish to stop that came while the reply was shown; what was shown stays.

        Raises:
            Interrupted: Always.
        """
        caller = self._caller
        try:
            # Between two pieces nothing is under way but more of the same.
            await items.aclose()
        except Exception as error:
            # The promise kept: who wished that the run stop is heard, however its model cleans up.
            message = raised(f"the model {name_of(self._model)!r}, left in a reply,", error)
            caller.recorder.warn(
                RunWarning(code="model_failed", message=message, origin=Origin.MODEL)
            )
        if text := self._shown_text():
            caller.cut.append(text)
        caller.ledger.add_unfinished()
        wish = caller.interrupt or Interrupt()
        raise Interrupted(wish.cause, wish.detail)

    def _shown_text(self) -> str:
        """The text that people saw, and that nothing comes after."""
        return self._caller.recorder.break_off("".join(self._shown), self)

    def _begin_try(self) -> None:
        """Begin a try, if nobody wished that the run stop while it was waited for.

        Raises:
            Interrupted: Somebody did.
        """
        wish = self._caller.interrupt
        if wish is not None and self.failed_tries:
            raise Interrupted(wish.cause, wish.detail)
        self._in_flight = True

    async def _call(self) -> ModelResponse:
        self._begin_try()
        # Models of users may be plain, and give what is no reply.
        try:
            made: Any = self._model.call(self._request)
            response = await made if inspect.isawaitable(made) else made
        except Exception as error:
            # They may also pass on what their client raises: it is a value here.
            response = reply_of(error)
            if response is None:
                raise
        if not isinstance(response, ModelResponse):
            raise TypeError(
                f"the model {name_of(self._model)!r} gave a value of type "
                f"{type(response).__name__}: return a ModelResponse(content=...)"
            )
        return response

    def _stream(self) -> AsyncIterator[StreamItem]:
        self._begin_try()
        return self._model.stream(self._request)

    def _on_retry(self, tries: int, wait_s: float, response: ModelResponse) -> None:
        # While it waits for the next try nothing is under way that somebody might charge for.
        self.failed_tries, self._in_flight = tries, False
        self._caller.ledger.note(response, purpose=self._purpose)
        self._caller.recorder.emit(
            ModelRetried(
                model=name_of(self._model),
                turn=self._turn,
                tries=tries,
                wait_s=wait_s,
                response=response,
            )
        )
