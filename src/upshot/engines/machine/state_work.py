"""Working in a state: its task, tried again where it says so; for items and members at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Effect, ErrorCode
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.protocols import Clock
from upshot.contract.result import AgentResult
from upshot.engines.common import ask_about, wait_again
from upshot.engines.graph.graph_run import GraphRun, together
from upshot.engines.machine.cel import Variables
from upshot.engines.machine.machine import Machine, Retrying, State, Task
from upshot.engines.machine.resolver import Resolver
from upshot.engines.machine.state_outcome import Outcome, summed
from upshot.runs.engine_api.exceptions import Failed

__all__ = ["Descend", "Worker"]

# Goes through a sub-machine: (machine, key, name, input) to its outcome.
Descend = Callable[[Machine, str, str, JsonObject], Awaitable[Outcome]]

_ONCE = Retrying()


class Worker:
    """Does what one machine's states ask for.

    Args:
        trip: What all states of the run share.
        crew: Agents and functions.
        descend: Goes through a sub-machine.
        given: What the machine was given.
        context: The machine's, which agents get a copy of.
        prefix: The sub-machines that it stands in, for the names of states.
        clock: What retries wait on, None for the run's.
    """

    def __init__(
        self,
        trip: GraphRun,
        crew: Resolver,
        descend: Descend,
        *,
        given: JsonObject,
        context: Mapping[str, Json],
        prefix: str,
        clock: Clock | None,
    ) -> None:
        self._trip = trip
        self._crew = crew
        self._descend = descend
        self._given = given
        self._context = context
        self._prefix = prefix
        self._clock = clock

    async def work(self, state: State, key: str, scope: Variables, last: Outcome) -> Outcome:
        """Do what *state* does.

        Returns:
            What came of it; a failure is a value here. A state that does nothing hands on
            what came of the one before.

        Raises:
            Failed: An expression is broken.
            Parked: People are waited for.
        """
        if state.wait:
            return await self._wait_for(state, key, scope)
        if state.each is not None and state.task is not None:
            return await self._for_each(state, state.task, key, scope)
        if state.members:
            return await self._all_at_once(state, key, scope)
        if state.task is None:
            return last
        return await self._try(state.task, key, scope, self._prefix + state.name)

    async def _wait_for(self, state: State, key: str, scope: Variables) -> Outcome:
        question, choices = state.wait, list[str]()
        given = state.input.value(scope) if state.input is not None else None
        if isinstance(given, str):
            question = given
        elif isinstance(given, dict):
            question = str(given.get("question", question))
            listed = given.get("choices")
            choices = [str(one) for one in listed] if isinstance(listed, list) else []
        id = await self._name_wait(state.wait, key)
        answer = await self._trip.host.ask_user(question, choices=tuple(choices), key=id)
        return Outcome(answer)

    async def _name_wait(self, wait: str, key: str) -> str:
        """What an answer names: the wait, with a number where the run has waited for it before.

        The log keeps who had which, for branches may come in another order when the run goes on.
        """
        number = 1
        while True:
            step = f"wait:{wait}#{number}"
            if await self._trip.host.step(step, Effect.READ, lambda: key) == key:
                return wait if number == 1 else f"{wait}#{number}"
            number += 1

    async def _for_each(self, state: State, task: Task, key: str, scope: Variables) -> Outcome:
        each = state.each
        assert each is not None
        found = each.items.value(scope)
        names: Sequence[str]
        if isinstance(found, dict):
            names, items = list(found), list(found.values())
        elif isinstance(found, list):
            names, items = [str(number) for number in range(len(found))], found
        else:
            message = f"{each.items.mark}: foreach found no list or mapping but {kind_of(found)}"
            raise Failed(ErrorCode.INVALID_REQUEST, message)
        scopes = [scope.but(each.name, item) for item in items]
        given = [self._about(task, each.name, item) for item in items]
        is_keyed = each.key is not None or isinstance(found, dict)
        if each.key is not None:
            names = [_key_of(each.key.value(one)) for one in scopes]
            _refuse_twins(names, str(each.key.mark))
        # Their steps are called by place, for the key of an item may be any text.
        works = [
            self._one(
                task, f"{key}/{number}", one, f"{self._prefix}{state.name}", name, given=asked
            )
            for number, (name, one, asked) in enumerate(zip(names, scopes, given, strict=True))
        ]
        return await _gather(works, names if is_keyed else None, at_once=each.at_once)

    async def _all_at_once(self, state: State, key: str, scope: Variables) -> Outcome:
        works = [
            self._one(task, f"{key}/{name}", scope, f"{self._prefix}{state.name}", name)
            for name, task in state.members.items()
        ]
        return await _gather(works, list(state.members))

    def _about(self, task: Task, name: str, item: Any) -> JsonObject:
        """What is given for *item* where the state says nothing: what the machine was, and it."""
        if task.input is not None or task.kind == "function":
            return self._given
        value = to_free_json(item)[0]
        text = ask_about(value, str(self._given.get("message", "")))
        return {**self._given, name: value, "message": text}

    async def _one(
        self,
        task: Task,
        key: str,
        scope: Variables,
        state: str,
        name: str,
        *,
        given: JsonObject | None = None,
    ) -> Outcome:
        """An item or member; it is a step of its own, so that it is not done again."""
        made: list[Outcome] = []

        async def body() -> dict[str, object]:
            outcome = await self._try(task, key, scope, f"{state}/{name}", given=given)
            if outcome.error is not None:
                # What failed is no finished step.
                raise _Broken(outcome.named(name))
            made.append(outcome)
            return outcome.to_form()

        # What it does outside is not known. Cut off, it is done again all the same, as a state is.
        form = await self._trip.host.step(key, Effect.WRITE, body, idempotent=True)
        return made[0] if made else Outcome.read(cast("JsonObject", form))

    async def _try(
        self, task: Task, key: str, scope: Variables, name: str, *, given: JsonObject | None = None
    ) -> Outcome:
        """Do *task* as often as it may be tried; without an input it is given *given*."""
        # Found out once, so that each try is asked the same.
        if task.input is None:
            asked = to_free_json(self._given if given is None else given)[0]
        else:
            asked = task.input.value(scope)
        retry, tries = task.retry or _ONCE, 1
        while True:
            # A run inside that failed has ended for good, so a further try is another run.
            outcome = await self._do(task, key if tries == 1 else f"{key}~{tries}", asked, name)
            if outcome.error is None or tries >= retry.max_attempts:
                return outcome
            if not await self._wait(outcome, retry, tries):
                return outcome
            await self._trip.stop_if_asked()
            tries += 1

    async def _wait(self, outcome: Outcome, retry: Retrying, tries: int) -> bool:
        """Wait before the next try; False where it would not help or there is no time."""
        error = outcome.error
        # Of an exception nobody has said that a further try would be of no use.
        if error is None or not (error.retryable or outcome.exception is not None):
            return False
        limits = outcome.result.rate_limit
        floor_s = max(error.retry_after_s or 0.0, (limits and limits.retry_after) or 0.0)
        return await wait_again(retry.backoff_s, tries, floor_s=floor_s, clock=self._clock)

    async def _do(self, task: Task, key: str, given: Json, name: str) -> Outcome:
        if task.kind == "function":
            return await self._crew.call(task, given)
        if task.machine is None:
            return await self._crew.ask(task, given, self._context, trip=self._trip, key=key)
        if not isinstance(given, dict):
            message = f"{task.mark}: the input of the machine {task.name!r} is no mapping"
            raise Failed(ErrorCode.INVALID_REQUEST, message)
        return await self._descend(task.machine, f"{key}/", f"{name}/", given)


class _Broken(Failed):
    """An item or member failed, so that the others are given up."""

    def __init__(self, outcome: Outcome) -> None:
        error = outcome.error
        assert error is not None
        super().__init__(error)
        self.outcome = outcome


async def _gather(
    works: Sequence[Any], names: Sequence[str] | None, *, at_once: int | None = None
) -> Outcome:
    """All outcomes as one: a list, or a mapping of *names*; the first failure is that of all."""
    if not works:
        return Outcome([] if names is None else {})
    try:
        outcomes = await together(works, at_once=at_once)
    except _Broken as broken:
        return broken.outcome
    payloads: list[Json] = [outcome.payload for outcome in outcomes]
    payload: Json = payloads if names is None else dict(zip(names, payloads, strict=True))
    spent = summed(outcomes)
    if spent is None:
        return Outcome(payload)
    usage, cost = spent
    handoff = next((one.handoff for one in outcomes if one.handoff is not None), None)
    result = AgentResult[Any](output=payload, usage=usage, cost=cost, handoff=handoff)
    return Outcome(payload, result)


def _key_of(value: Json) -> str:
    return value if isinstance(value, str) else str(value)


def _refuse_twins(names: Sequence[str], place: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            message = f"{place}: two items of foreach have the key {name!r}"
            raise Failed(ErrorCode.CONFLICT, message, details={"key": name})
        seen.add(name)
