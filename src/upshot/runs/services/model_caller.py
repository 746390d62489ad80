"""Model calls inside a run: deciders, log, retry, budget and accounting in one place."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from typing import Any, Final, NoReturn, TypedDict

import msgspec

from upshot.contract.base.enums import ErrorCode, FinishReason, Origin
from upshot.contract.error import RunWarning
from upshot.contract.events import UsageReported
from upshot.contract.message import Image, ServerToolBlock, Text
from upshot.contract.model_calls import (
    ModelReplied,
    ModelRequest,
    ModelResponse,
    ModelRetried,
    ModelStarted,
    RequestDigests,
    TextDelta,
    ToolCallDelta,
    name_of,
)
from upshot.contract.prompt import Prompt
from upshot.contract.protocols import Clock, Model, StreamItem
from upshot.contract.run_control import Interrupt
from upshot.contract.settings import Retry
from upshot.contract.tool_calls import ToolSpec
from upshot.contract.usage import Usage
from upshot.models.retry import (
    UNANSWERED,
    call_with_retry,
    judge_answer,
    read_stream,
    reply_or_raise,
)
from upshot.runs.budget import Elsewhere, money_of, tokens_of
from upshot.runs.callbacks import blame, raised
from upshot.runs.engine_api.exceptions import Failed, Interrupted
from upshot.runs.limits.held_call import HeldCall
from upshot.runs.redaction import has_marks
from upshot.runs.run_context import RunContext
from upshot.runs.services.hooks import before_model
from upshot.runs.task_supervisor import PausingClock
from upshot.state.call_ids import StreamedIds, with_unique_ids
from upshot.state.child_runs import Spent
from upshot.state.request_digests import RequestDigester
from upshot.state.run_state import NO_TRIES, FailedTries
from upshot.tools.execution.batch import SLICE


def count_conversation(context: RunContext) -> None:
    """Include the usage of the conversation's other runs in the budget."""
    look = partial(_count_other_runs, context, asyncio.get_running_loop())
    context.budget.look_elsewhere = look


async def _count_other_runs(context: RunContext, loop: asyncio.AbstractEventLoop) -> None:
    """Read what the other runs of the conversation have used so far from the journal."""
    id, own, parent = context.info.context_id, context.budget, context.parent
    if parent is not None and (look := parent.context.budget.look_elsewhere) is not None:
        await look()
    used = getattr(context.plan.journal, "used_elsewhere", None)
    if used is None or asyncio.get_running_loop() is not loop:
        # A journal belongs to one event loop. A child run in another loop uses the last numbers.
        return
    outer = context
    while outer.parent is not None and outer.parent.context.info.context_id == id:
        outer = outer.parent.context
    answers = own.refuses_unmeasured
    spent: Spent = await used(id, without=outer.info.run_id, answers=answers)
    tokens, money = tokens_of(spent.usage), money_of(spent.cost)
    unmeasured = spent.unmeasured_answers
    if outer is not context:
        (all_usage, all_cost), (own_usage, own_cost) = outer.budget.total, own.total
        tokens += tokens_of(all_usage) - tokens_of(own_usage)
        money += money_of(all_cost) - money_of(own_cost)
        unmeasured += outer.budget.unmeasured_answers - own.unmeasured_answers
    own.elsewhere = Elsewhere(tokens, money, unmeasured)


async def call_model(
    context: RunContext,
    model: Model,
    request: ModelRequest,
    *,
    purpose: str = "",
    turn: int | None = None,
    step: str = "",
) -> ModelResponse:
    """Call *model*; the response may have an error. Every model call of a run goes through here.

    Args:
        context: The run.
        model: The model to call.
        request: The request to send.
        purpose: "" for a turn of the engine; others are not streamed, nor the run's last reply.
        turn: The number of the turn, if an earlier session started it and was interrupted.
        step: The key of the ``host.once`` whose body makes the call, "" for none.

    Raises:
        Failed: A budget is spent, so no call was made; or a guardrail refused the run's request.
        Interrupted: A request to stop came while the reply streamed, or before a retry.
        Misuse: The run has ended.
    """
    recorder, budget, interrupt = context.recorder, context.budget, context.interrupt
    recorder.check_open()
    # A run that is left to another session starts no more calls.
    first = budget.look_elsewhere if recorder.held is None else recorder.held.wait
    if first is not None:
        await first()
    # Before the deciders, which need not see a request that cannot be sent.
    if (spent := budget.spent()) is not None:
        raise Failed(spent)
    tools = request.tools
    if context.plan.deciders or context.parent is not None:
        request = await before_model(context, request)
    name, digests, held = name_of(model), None, None
    if recorder.is_heard or request.settings is not None:
        digests = await _digests(context, request, name, purpose)
    budget.turns += 1
    # Turns count from 1 in each attempt; the budget counts the turns of all attempts.
    turn = budget.turns - budget.turns_before if turn is None else turn
    started = ModelStarted(model=name, turn=turn, request=digests, purpose=purpose, step=step)
    if request.tools is not tools or context.prompt is not None:
        started = _with_origin(started, context.prompt, tools, request)
    if (context.plan.pacer or context.plan.quotas) and context.recording is None:
        held = HeldCall(context, model, request, interrupt)  # It may be delayed, or refused.
        request = await held.begin(started)
    else:
        recorder.emit(started)
        # The log so far must be safe before more money is spent.
        await recorder.barrier()
    if context.plan.journal is not None:
        _watch_for_others(context)
    call = ModelCall(context, model, request, started, interrupt=interrupt, held=held)
    recording, checks = context.recording, context.guardrails
    ask = call.ask if checks is None else partial(checks.beside, call)
    response = await ask() if recording is None else recording.reply(name, step)
    response = judge_answer(
        with_unique_ids(response, context.state.call_ids),
        allow_filtered=context.plan.agent.allow_filtered,
        is_typed=request.output_schema is not None,
    )
    # The same response as in the log, because a resumed run counts the logged one.
    budget.add(response)
    tries = call.failed_tries + 1
    replied = ModelReplied(model=name, turn=turn, tries=tries, response=response, purpose=purpose)
    recorder.emit(replied)
    if recorder.is_heard and getattr(model, "tries_once", False):
        await recorder.barrier()  # It could not be asked for again.
    if context.state.taint is not None and context.toolbox is not None:
        # The provider's own tools may have read the untrusted content.
        context.toolbox.distrust(context.state.taint)
    _warn_of_reply(context, request, response, purpose)
    return response


def _with_origin(
    started: ModelStarted,
    prompt: Prompt | None,
    tools: Iterable[ToolSpec],
    request: ModelRequest,
) -> ModelStarted:
    """Return *started* with the file of the instructions, and the *tools* that were left out."""
    names = {tool.name for tool in request.tools}
    is_sent = prompt is not None and prompt.text == request.system
    return msgspec.structs.replace(
        started,
        withheld=tuple(tool.name for tool in tools if tool.name not in names),
        prompt=prompt.version if prompt is not None and is_sent else "",
    )


def _watch_for_others(context: RunContext) -> None:
    """Start streaming to other processes if the journal knows that they watch the run."""
    recorder, journal = context.recorder, context.plan.journal
    is_watched: Callable[[str], bool] | None = getattr(journal, "is_watched", None)
    if is_watched is not None and not recorder.is_fed and is_watched(recorder.run_id):
        recorder.is_fed = True
        recorder.watch(getattr(journal, "show"))  # noqa: B009  # no part of Journal


async def _digests(
    context: RunContext, request: ModelRequest, name: str, purpose: str
) -> RequestDigests | None:
    """Return the digests of *request* to the model *name*; None if nothing needs them."""
    settings = request.settings
    is_cached = settings is not None and settings.cache is True
    if not (context.recorder.is_heard or is_cached):
        return None
    digester, state = context.digester, context.state
    if digester is None:
        redaction = context.redaction
        mask = None if redaction is None else redaction.write
        past = state if context.recording is None else context.recording.past
        digester = context.digester = RequestDigester(mask, is_named=has_marks(past.started))
    if state.stored:
        digester.is_named = True
    for most in range(len(state.sent) + SLICE, len(request.messages), SLICE):
        digester.hash_ahead(request.messages, most)
        await asyncio.sleep(0)
    digests = digester.digests(request, state.sent)
    if is_cached and not purpose:
        _warn_of_lost_cache(context, digester, request, name, digests)
    return digests


def _warn_of_lost_cache(
    context: RunContext,
    digester: RequestDigester,
    request: ModelRequest,
    name: str,
    digests: RequestDigests,
) -> None:
    """Warn if a request that should be cached does not start like the previous one.

    Only for engines like the loop: others may alternate between different requests.
    """
    state = context.state
    before, compacted = next(reversed(state.models.values()), None), state.board.compacted
    if before is None or not getattr(context.plan.engine, "goes_on_by_log", False):
        return
    known = before.request
    if known is None or (compacted is not None and compacted.turn >= before.turn):
        return
    changed = [part for part in _CACHED if getattr(known, part) != getattr(digests, part)]
    if not digester.begins_with(request, known):
        changed.append("messages")
    if before.model != name:
        changed.append("model")
    message = f"{_NOT_CACHED}: {', '.join(changed)}"
    warning = RunWarning(code="cache_lost", message=message, origin=Origin.CALLER)
    if changed and warning not in state.warnings:
        context.recorder.warn(warning)


# The longest wait, in seconds, for which a run is parked.
_MAX_WAIT_S = 3600.0
# The parts of a request that come before its messages.
_CACHED = ("instructions", "tools")
_NOT_CACHED = (
    "caching is on, but the provider cannot reuse its cache, because the start of the request "
    "has changed"
)
# The warning for a reply that was cut off, by finish reason.
_CUT_REPLIES: Final = {
    FinishReason.LENGTH: (
        "truncated",
        "the reply was cut off at the limit on tokens: raise ModelSettings(max_tokens=)",
    ),
    FinishReason.CONTENT_FILTER: (
        "filtered",
        "the provider's filter cut the reply off, and allow_filtered=True takes it as an answer",
    ),
}


def _warn_of_reply(
    context: RunContext, request: ModelRequest, response: ModelResponse, purpose: str
) -> None:
    """Warn of parts that another provider was not sent, and of a refused or cut-off answer."""
    provider = str(response.provider_data.get("provider", ""))
    if provider and provider != context.provider:
        context.provider = provider
        if len(request.messages) > 1:
            _warn_of_left_out(context, request, provider)
    if purpose:
        return
    refused, error = response.refusal, response.error
    # A reply that failed on its way may have been anything.
    if refused and (error is None or error.code == ErrorCode.REFUSAL):
        context.recorder.warn(RunWarning(code="refusal", message=refused, origin=Origin.MODEL))
    finish = response.finish_reason
    if response.error is None and finish is not None and finish in _CUT_REPLIES:
        code, message = _CUT_REPLIES[finish]
        context.recorder.warn(RunWarning(code=code, message=message, origin=Origin.MODEL))


def _warn_of_left_out(context: RunContext, request: ModelRequest, provider: str) -> None:
    """Warn of tool results and images of another provider, which *provider* was not sent."""
    owners = {
        part.provider
        for message in request.messages
        if not isinstance(message.content, str)
        for part in message.content
        if (isinstance(part, ServerToolBlock) and part.provider != provider)
        or (isinstance(part, Image) and part.provider not in ("", provider))
    }
    if owners:
        message = f"{provider} was not sent what the tools of {', '.join(sorted(owners))} did"
        context.recorder.warn(
            RunWarning(code="parts_left_out", message=message, origin=Origin.MODEL)
        )


def _count_unfinished(context: RunContext, reported: Usage | None) -> None:
    """Count an abandoned try: the usage streamed so far, or an unmeasured call without any."""
    cost = reported.cost if reported else None
    count_without_reply(context, ModelResponse(usage=reported or Usage(), cost=cost))


def count_without_reply(context: RunContext, used: ModelResponse) -> None:
    """Count what a call without a logged reply has *used*; unmeasured if that is unknown."""
    if not used.usage:
        # The provider may charge for it, but how much is unknown.
        context.budget.add_unfinished()
        return
    context.budget.add(used)
    if not context.recorder.is_settled:
        # The log has no reply of this call, so log its usage for later sessions.
        context.recorder.emit(UsageReported(number=0, response=used))


def _with_streamed_usage(response: ModelResponse, reported: Usage | None) -> ModelResponse:
    """Return *response* with the streamed usage, which an exception in the stream lacks."""
    if reported is None or response.error is None or response.usage:
        return response
    return msgspec.structs.replace(response, usage=reported, cost=reported.cost)


def _with_seen_text(response: ModelResponse, whole: str, seen: str) -> ModelResponse:
    """Return *response*, which broke off after *whole*, with the text that watchers have *seen*."""
    if response.content not in (None, whole):
        return response
    parts = (*response.reasoning, Text(seen), *response.tool_calls)
    return msgspec.structs.replace(response, parts=parts)


def _interrupt_signal(context: RunContext) -> Interrupted:
    """Return the signal that ends a model call of a run that was asked to stop."""
    asked = context.interrupt or Interrupt()
    return Interrupted(asked.cause, asked.detail)


class _RetryArguments(TypedDict):
    """How failed model calls are retried, as arguments of ``call_with_retry``."""

    retry: Retry | None
    clock: Clock
    allow_empty: bool
    deadline_monotonic: float | None
    before: FailedTries


def _retry_arguments(context: RunContext, before: FailedTries, model: Model) -> _RetryArguments:
    """Return how *model* is retried; the caller of one with ``tries_once`` retries it instead."""
    plan, parking = context.plan, context.supervisor.parking
    retry, clock = plan.retry, context.supervisor.interruptible_clock
    if parking is not None:
        clock = PausingClock(plan.clock, partial(parking.pause, context, is_asking=True))
        if retry is not None and retry.max_wait_s is None:
            retry = msgspec.structs.replace(retry, max_wait_s=_MAX_WAIT_S)
    tries_once = bool(getattr(model, "tries_once", False))
    return {
        "retry": None if tries_once else retry,
        "clock": clock,
        "allow_empty": tries_once or plan.agent.allow_empty,
        "deadline_monotonic": context.budget.deadline,
        "before": before,
    }


class ModelCall:
    """One model call with its tries, while it is under way.

    Args:
        context: The run.
        model: The model to call.
        request: The request to send.
        started: Its logged start.
        interrupt: The request to stop that came before the call, None without one. A call made
            in spite of it, for example for last words, may finish.
        held: Makes its tries wait for quotas and the pacer, None without either.

    Attributes:
        failed_tries: How many tries failed and were repeated.
    """

    def __init__(
        self,
        context: RunContext,
        model: Model,
        request: ModelRequest,
        started: ModelStarted,
        *,
        interrupt: Interrupt | None,
        held: HeldCall | None,
    ) -> None:
        self._started, failed = started, context.state.failed_calls
        # Tries of an earlier session that left the run, or died, before a reply came.
        self._before = failed.of(started.turn, started.model) if failed else NO_TRIES
        self.failed_tries: int = self._before.count
        self._context = context
        self._model = model
        self._request = request
        self._known_interrupt = interrupt
        self._in_flight = False
        self._shown_pieces: list[str] = []
        self._streamed_usage: Usage | None = None
        self._held = held

    async def ask(self) -> ModelResponse:
        """Call until there is a response, or an error that a retry cannot fix."""
        context, held = self._context, self._held
        try:
            response, _ = await call_with_retry(
                self._try if held is None else held.call_by(self._try),
                on_retry=self._on_retry,
                **_retry_arguments(context, self._before, self._model),
            )
        except asyncio.CancelledError:
            text = self._shown_text()
            if text and context.supervisor.is_stopped():
                context.cut.append(text)
            if self._in_flight:
                _count_unfinished(context, self._streamed_usage)
            raise
        except Exception as error:
            self._shown_text()
            blame(error, f"the model {self._started.model!r}", context.recorder.run_id)
            raise
        if self._shown_pieces and response.error is not None:
            response = _with_seen_text(response, "".join(self._shown_pieces), self._shown_text())
        context.recorder.end_pieces(self)
        return response

    async def _try(self) -> ModelResponse:
        """Make one try. If the run is watched, the reply streams to watchers."""
        # A run that was asked to stop is not retried. A first try was made in spite of the request.
        if self._context.interrupt is not None and self.failed_tries:
            raise _interrupt_signal(self._context)
        self._in_flight, self._streamed_usage = True, None
        model: Any = self._model
        is_watched = self._context.recorder.watched and not self._started.purpose
        if is_watched and callable(getattr(model, "stream", None)):
            return await self._read_stream_items(model.stream)
        if hasattr(model, "call_each"):
            return await self._read_stream_items(model.call_each)
        # Models of users may be sync, and may return something else than a response.
        try:
            made: Any = model.call(self._request)
            response = await made if inspect.isawaitable(made) else made
        except Exception as error:
            # They may also raise the exceptions of their client, which become error values here.
            response = reply_or_raise(error)
        if not isinstance(response, ModelResponse):
            raise TypeError(
                f"the model {self._started.model!r} returned a value of type "
                f"{type(response).__name__}: return a ModelResponse(content=...)"
            )
        return response

    async def _read_stream_items(
        self, ask: Callable[[ModelRequest], AsyncIterator[StreamItem]]
    ) -> ModelResponse:
        """Read the items of a reply, and pass its pieces to watchers; returns the whole reply."""
        context, response = self._context, UNANSWERED
        ids = StreamedIds(context.state.call_ids)
        async with aclosing(read_stream(partial(ask, self._request))) as items:
            async for item in items:
                if isinstance(item, ModelResponse):
                    response = item
                elif isinstance(item, Usage):
                    self._streamed_usage = item
                elif isinstance(item, ModelRetried):
                    await self._count_fallback_failure(item)
                    ids = StreamedIds(context.state.call_ids)
                else:
                    if context.interrupt is not self._known_interrupt:
                        await self._stop_reading(items)
                    if isinstance(item, TextDelta):
                        self._shown_pieces.append(item.text)
                    is_call = isinstance(item, ToolCallDelta)
                    context.recorder.show(ids.make_unique(item) if is_call else item, self)
        return _with_streamed_usage(response, self._streamed_usage)

    async def _stop_reading(self, items: AsyncGenerator[StreamItem]) -> NoReturn:
        """Stop in the middle of a streamed reply. The text shown so far is kept.

        Raises:
            Interrupted: Always.
        """
        context = self._context
        try:
            # Between two pieces only the stream itself is under way.
            await items.aclose()
        except Exception as error:
            # Boundary: a run that was asked to stop does so even if its model fails to clean up.
            message = raised(f"the model {self._started.model!r}, left in a reply,", error)
            context.recorder.warn(
                RunWarning(code="model_failed", message=message, origin=Origin.MODEL)
            )
        if text := self._shown_text():
            context.cut.append(text)
        _count_unfinished(context, self._streamed_usage)
        raise _interrupt_signal(context)

    def _shown_text(self) -> str:
        """Return the text that watchers have seen; nothing follows it."""
        return self._context.recorder.break_off("".join(self._shown_pieces), self)

    async def _count_fallback_failure(self, failed: ModelRetried) -> None:
        """Count the failed reply of a Fallback's model, before the next model is called."""
        if self._held is not None:
            self._held.pass_on(failed.response)
        await self._count_failed(failed.response, next_model=failed.next_model)
        if self._context.interrupt is not self._known_interrupt:
            raise _interrupt_signal(self._context)
        self._in_flight, self._streamed_usage = True, None

    async def _on_retry(self, tries: int, wait_s: float, response: ModelResponse) -> None:
        self.failed_tries = tries
        await self._count_failed(response, wait_s=wait_s)

    async def _count_failed(
        self, response: ModelResponse, *, wait_s: float = 0.0, next_model: str = ""
    ) -> None:
        """Count and log a failed reply before the next try. Watchers must drop its text."""
        # Until the next try starts, nothing is under way that could cost money.
        self._in_flight = False
        self._shown_text()
        self._shown_pieces.clear()
        self._context.budget.add(response)
        self._context.recorder.emit(
            ModelRetried(
                model=self._started.model,
                turn=self._started.turn,
                tries=self.failed_tries,
                wait_s=wait_s,
                next_model=next_model,
                response=response,
            )
        )
        # The log must be safe before the next try spends more.
        await self._context.recorder.barrier()
