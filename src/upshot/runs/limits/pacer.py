"""Pacer: model calls of all processes wait for their turn within the provider's limits."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar, cast

import msgspec

from upshot.contract.base.checks import format_value
from upshot.contract.base.enums import ErrorCode, Origin, Resource
from upshot.contract.error import AgentError
from upshot.contract.model_calls import ModelRequest, ModelResponse, name_of
from upshot.contract.protocols import Clock, Journal, Model
from upshot.contract.usage import Usage
from upshot.errors import JournalError, Misuse
from upshot.journal.shared import MemoryValues, SharedValues, shared_journal
from upshot.runs.limits.lane import SLICE_S, Answer, Back, Lane, Need, Want, need_of

_SALT = "pace"
# How many seconds ahead a request is granted its place. Urgent ones overtake those that can wait.
_AHEAD_S, _BATCH_AHEAD_S = 2.0, 0.25
# Seconds between checks whether replies of other processes allow more requests.
_LOOK_S = 0.25
_MOST_WANTS = 256
_MOST_SLEEP_S = 1.0
# Estimates, used until the provider reports real numbers.
_BYTES_A_TOKEN = 4
_GUESSED_OUTPUT = 256

_COUNTED = (Resource.REQUESTS, Resource.TOKENS)

T = TypeVar("T")
Change = Callable[[SharedValues], T]


class Pacer:
    """Makes model calls wait for their turn, so that the provider does not refuse them.

    One pacer may serve any runs, in several threads. All processes whose runs use the same journal
    share what is known of a provider's limits, by model and key; without a journal, the runs of one
    process share it. The limits are learned from the rate-limit windows of each reply and from
    refusals. Until a window is known, one request goes first, and then the number of requests under
    way doubles with every round.

    Args:
        limits: Requests and tokens a minute by model name, as "provider:model" or a glob such as
            "openai:*". Each model that matches has these limits separately; None means none. The
            first matching name counts. They hold until a reply reports other limits.
        max_wait_s: The longest wait for a turn, in seconds. If a wait would be longer, the call
            fails at once with ``rate_limit``; ``retry_after_s`` says how long it would be.

    Raises:
        Misuse: An argument is none of these.
    """

    def __init__(
        self,
        limits: Mapping[str, tuple[int | None, int | None]] | None = None,
        *,
        max_wait_s: float = 60.0,
    ) -> None:
        self._limits = {name: _check_limits(name, pair) for name, pair in (limits or {}).items()}
        given: Any = max_wait_s
        if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
            raise Misuse(f"max_wait_s must be seconds, 0 or more, got {format_value(given)}")
        self._max_wait_s = max_wait_s
        self._memory = MemoryValues()
        self._lines: dict[object, _Queue] = {}

    def __repr__(self) -> str:
        return f"Pacer({self._limits!r}, max_wait_s={self._max_wait_s:g})"

    def ask(
        self,
        model: Model,
        request: ModelRequest,
        *,
        journal: Journal | None,
        last: Usage | None,
        priority: int,
        most_s: float,
    ) -> Place:
        """Add a call of *model* to the queue.

        Args:
            model: The model.
            request: The request that will be sent.
            journal: The journal through which processes share limits; None for this process alone.
            last: The usage of the run's last call, None without one.
            priority: Calls with a larger number go first; below 0 for calls that can wait.
            most_s: The longest wait, if less than the pacer's.

        Returns:
            The place in the queue. Wait for it, then settle, abandon or leave it.
        """
        name, account = name_of(model), str(getattr(model, "account", ""))
        loop = asyncio.get_running_loop()
        key = (id(loop), id(journal), name, account)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Queue(
                name,
                account,
                self._change_of(journal),
                limits=self._limits_of(name),
                end=lambda: self._lines.pop(key, None),
            )
        need = None if last is None else need_of(last)
        most_s = min(most_s, self._max_wait_s)
        place = Place(line, need or _estimate(request), most_s, is_guess=need is None)
        line.enter(place, priority)
        return place

    def _limits_of(self, name: str) -> dict[str, int]:
        for pattern, limits in self._limits.items():
            if fnmatchcase(name, pattern):
                return limits
        return {}

    def _change_of(self, journal: Journal | None) -> Callable[[Change[T]], Awaitable[T]]:
        shared = None if journal is None else shared_journal(journal)
        if shared is not None:
            return shared.change_values

        async def change(work: Change[T]) -> T:
            return self._memory.change(work)

        return change


class Place:
    """A request's place in the queue.

    Attributes:
        need: What is or will be reserved for it.
        waited_s: How long it waited for its turn.
        is_ready: Whether the wait is over.
        refusal: Why it must not be sent, None if it may.
    """

    def __init__(self, line: _Queue, need: Need, max_wait_s: float, *, is_guess: bool) -> None:
        self.need: Need = need
        self.is_guess = is_guess
        self.waited_s: float = 0.0
        self.is_ready: bool = False
        self.refusal: AgentError | None = None
        loop = asyncio.get_running_loop()
        self._line = line
        self._entered = loop.time()
        self._deadline = self._entered + max_wait_s
        # Resolves to the seconds until it may be sent.
        self._turn: asyncio.Future[float] = loop.create_future()
        self._is_reserved = False

    @property
    def is_waiting(self) -> bool:
        """Whether it was neither granted nor refused."""
        return not self._turn.done()

    async def wait(self, clock: Clock) -> None:
        """Wait for its turn, or its refusal.

        Raises:
            JournalError: The values that the processes share cannot be read.
        """
        delay_s = await self._turn
        if delay_s > 0:
            await clock.sleep(delay_s)
        self.is_ready = True
        self.waited_s = asyncio.get_running_loop().time() - self._entered

    def leave(self) -> None:
        """Give the place up without sending the request."""
        self._turn.cancel()
        self._return_grant(Back(self.need, used=Need(), is_sent=False))

    def settle(self, response: ModelResponse, age_s: float) -> None:
        """Report the reply; returns at once.

        Args:
            response: The reply.
            age_s: How long ago the request was sent.
        """
        error = response.error
        is_refused = error is not None and error.code == ErrorCode.RATE_LIMIT
        is_unsent = error is not None and error.was_unsent
        back = Back(
            self.need,
            used=Need() if is_refused or is_unsent else need_of(response.usage),
            is_sent=not (is_refused or is_unsent),
            limits=response.rate_limit,
            age_s=age_s,
            is_refused=is_refused,
            retry_after_s=None if error is None else error.retry_after_s,
        )
        self._return_grant(back)

    def abandon(self) -> None:
        """Report that the request was sent and its outcome is unknown."""
        self._return_grant(Back(self.need))

    def grant(self, need: Need, delay_s: float) -> None:
        """Allow it to be sent in *delay_s* seconds."""
        self.need = need
        self._is_reserved = True
        self._turn.set_result(delay_s)

    def consider(self, wait_s: float | None) -> None:
        """Refuse it if it would have to wait too long."""
        loop = asyncio.get_running_loop()
        if loop.time() + (wait_s or 0.0) <= self._deadline:
            return
        wait_s = wait_s or _LOOK_S
        self.refusal = AgentError(
            ErrorCode.RATE_LIMIT,
            f"{self._line.name} has no room for another {wait_s:.1f} s, and "
            "Pacer(max_wait_s=) allows no such wait: raise it, or try again later",
            retryable=True,
            retry_after_s=wait_s,
            origin=Origin.LIMIT,
            details={"phase": "unsent"},
        )
        self._turn.set_result(0.0)

    def fail(self, error: Exception) -> None:
        """Raise *error* in the task that waits for the place."""
        if self.is_waiting:
            self._turn.set_exception(error)

    def _return_grant(self, back: Back) -> None:
        if self._is_reserved:
            self._is_reserved = False
            self._line.take_back(back)


@dataclass
class _AdvanceGrant:
    """Requests that were granted in advance and may be sent at once."""

    need: Need
    count: int


@dataclass
class _Queue:
    """The requests of one process that wait for one lane."""

    name: str
    account: str
    change: Callable[..., Awaitable[Any]]
    limits: dict[str, int]
    end: Callable[[], object]
    process: str = field(default_factory=lambda: secrets.token_hex(8))
    waiting: list[tuple[int, int, Place]] = field(default_factory=list[tuple[int, int, Place]])
    backs: list[Back] = field(default_factory=list[Back])
    slices: list[_AdvanceGrant] = field(default_factory=list[_AdvanceGrant])
    numbers: count[int] = field(default_factory=count)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    key: str = ""

    def enter(self, place: Place, priority: int) -> None:
        """Add a request: grant it at once from a slice, or put it in the queue."""
        for one in self.slices:
            # Grants in advance have the size of the request before them.
            if one.count and (
                place.is_guess or one.need.of(Resource.TOKENS) >= place.need.of(Resource.TOKENS)
            ):
                one.count -= 1
                place.grant(one.need, 0.0)
                return
        heappush(self.waiting, (-priority, next(self.numbers), place))
        self._wake()

    def take_back(self, back: Back) -> None:
        """Store the outcome of a request, to report it to the lane."""
        self.backs.append(back)
        self._wake()

    def _wake(self) -> None:
        self.woken.set()
        if self.task is None:
            loop = asyncio.get_running_loop()
            # In an empty context, because it works for all waiting runs.
            self.task = loop.create_task(self._serve(), context=Context())

    async def _serve(self) -> None:
        """Change the lane while requests wait or outcomes are to be reported."""
        try:
            while self.waiting or self.backs:
                self.woken.clear()
                wait_s = await self._turn()
                if self.waiting and not self.backs:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self.woken.wait(), wait_s)
        except Exception as error:
            # Boundary: the waiting calls get the error, and nothing else is affected.
            for _, _, place in self.waiting:
                place.fail(error)
            if self.waiting and not isinstance(error, JournalError):
                raise
            self.waiting.clear()
        finally:
            self.task = None
            if not self.slices:
                self.end()

    async def _turn(self) -> float:
        """Report outcomes and waiting requests to the lane; returns when to check again."""
        while self.waiting and not self.waiting[0][2].is_waiting:
            heappop(self.waiting)
        asking = sorted(one for one in self.waiting if one[2].is_waiting)[:_MOST_WANTS]
        wants = [
            Want(place.need, _AHEAD_S if -urgency >= 0 else _BATCH_AHEAD_S, place.is_guess)
            for urgency, _, place in asking
        ]
        backs, self.backs = self.backs, []
        if not self.key:
            salt = await self.change(_salt)
            digest = blake2b(self.account.encode(), key=bytes.fromhex(salt), digest_size=8)
            self.key = f"{_SALT}/{self.name}/{digest.hexdigest()}"
        answer = cast("Answer", await self.change(self._update(backs, wants)))
        given = zip(asking, answer.needs, answer.delays_s, strict=False)
        for (_, _, place), need, delay_s in given:
            if place.is_waiting:
                place.grant(need, delay_s)
            else:
                # The request was given up in the meantime.
                self.backs.append(Back(need, used=Need(), is_sent=False))
        left = asking[len(answer.needs) :]
        for (_, _, place), wait_s in zip(left, answer.waits_s, strict=True):
            if place.is_waiting:
                place.consider(wait_s)
        self.waiting = [one for one in self.waiting if one[2].is_waiting]
        if answer.ahead:
            self._keep_slice(_AdvanceGrant(answer.needs[-1], answer.ahead))
        first_s = next(iter(answer.waits_s), None)
        return _LOOK_S if first_s is None else min(max(first_s - _AHEAD_S, 0.01), _MOST_SLEEP_S)

    def _update(self, backs: list[Back], wants: list[Want]) -> Change[Answer]:
        def change(values: SharedValues) -> Answer:
            stored, now_us = values.read(self.key), values.now_us
            lane = msgspec.json.decode(stored, type=Lane) if stored else Lane()
            lane.limit(self.limits, now_us)
            answer = lane.update(now_us, self.process, backs, wants)
            values.write(self.key, msgspec.json.encode(lane).decode())
            return answer

        return change

    def _keep_slice(self, given: _AdvanceGrant) -> None:
        """Keep requests granted in advance for SLICE_S seconds."""
        self.slices.append(given)

        def drop() -> None:
            self.slices.remove(given)
            if given.count:
                self.take_back(Back(given.need, given.count, used=Need(), is_sent=False))
            elif self.task is None and not self.slices:
                self.end()

        asyncio.get_running_loop().call_later(SLICE_S, drop, context=Context())


def _salt(values: SharedValues) -> str:
    """Return the salt for digests of API keys; each journal has its own."""
    salt = values.read(_SALT)
    if not salt:
        salt = secrets.token_hex(16)
        values.write(_SALT, salt)
    return salt


def _estimate(request: ModelRequest) -> Need:
    """Estimate what a request takes, until the provider has reported usage."""
    characters = sum(len(message.text) for message in request.messages) + len(request.system or "")
    most = None if request.settings is None else request.settings.max_tokens
    return Need(characters // _BYTES_A_TOKEN + 1, most or _GUESSED_OUTPUT)


def _check_limits(name: object, pair: object) -> dict[str, int]:
    """Check limits given by the caller, and return them by resource."""
    if not isinstance(name, str) or ":" not in name:
        raise Misuse(
            f"limits name models as 'openai:*' or 'openai:gpt-5', got {format_value(name)}"
        )
    problem = (
        f"limits of {name!r} must be (requests a minute, tokens a minute), each a whole number "
        f"from 1 on or None, got {format_value(pair)}"
    )
    if not isinstance(pair, tuple | list):
        raise Misuse(problem)
    numbers = tuple(cast("Sequence[object]", pair))
    fits = [one is None or (type(one) is int and one > 0) for one in numbers]
    if len(numbers) != len(_COUNTED) or not all(fits):
        raise Misuse(problem)
    return {
        resource: one
        for resource, one in zip(_COUNTED, numbers, strict=True)
        if isinstance(one, int)
    }
