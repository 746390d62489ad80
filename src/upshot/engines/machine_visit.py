"""A visit: one stay of a machine in one of its states, which is one step of the log.

In the log it is what it changed in the context, what came of its work, and where it leads. A
run that goes on takes that from there and does not enter the state again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

from ..contract import (
    MAIN_CHANNEL,
    AgentError,
    AgentResult,
    Effect,
    ErrorCode,
    Json,
    JsonObject,
    Message,
    ResultView,
    Role,
    coerce_result,
)
from ..runs import Failed
from .graph_board import Change
from .graph_trip import Trip
from .machine_context import MachineContext
from .machine_hooks import MachineHooks
from .machine_outcome import Outcome, Unhandled
from .machine_scope import Scope
from .machine_state import Machine, State

__all__ = ["Done", "Visit"]

_NOTHING = AgentResult[Json]()

Work = Callable[[State, str, Scope], Awaitable[Outcome]]


class Done(NamedTuple):
    """What came of a visit.

    Attributes:
        change: What it changed, for the board.
        outcome: What came of its work.
        to: The next state, "" where the machine ends.
        answer: What the machine gives, where it ends.
    """

    change: Change
    outcome: Outcome
    to: str
    answer: Json


class Visit:
    """One visit of one state.

    Args:
        trip: What all states of the run share.
        hooks: The user's.
        machine: Whose state it is.
        state: Which.
        key: Of its step.
        name: Of the state as hooks are told, with the sub-machines that it stands in.
        context: The machine's.
        given: What the machine was given.
        last: What came of the state before.
    """

    def __init__(
        self,
        trip: Trip,
        hooks: MachineHooks,
        *,
        machine: Machine,
        state: State,
        key: str,
        name: str,
        context: MachineContext,
        given: JsonObject,
        last: Outcome,
    ) -> None:
        self._trip = trip
        self._hooks = hooks
        self._machine = machine
        self._state = state
        self._key = key
        self._name = name
        self._context = context
        self._given = given
        self._last = last
        self._outcome: Outcome | None = None

    async def take(self, work: Work) -> Done:
        """Do what the state does, or hand back what the log says came of it.

        Raises:
            Failed: The state failed and nothing leads on from a failure, no way holds, an
                expression is broken, or a hook raised.
            Parked: People are waited for.
        """
        host, state = self._trip.host, self._state
        entered: JsonObject = {}
        if self._hooks.has("on_state_enter"):
            # A step of its own: a state that waits for people is entered once.
            key = f"{self._key}:enter"
            form = await host.step(key, Effect.WRITE, self._enter, idempotent=True)
            entered = self._context.apply(cast("JsonObject", form))
            if isinstance(form, dict) and "to" in form:
                return self._done(entered, {"to": form["to"], "same": True})
        asked: Outcome | None = None
        if state.wait:
            # Before its step begins: what is parked is not cut off.
            asked = await work(state, self._key, self._scope(self._last))

        async def stay() -> dict[str, object]:
            self._trip.flush()
            outcome = asked or await work(state, self._key, self._scope(self._last))
            return await self._leave(outcome)

        # What a hook does outside is not known, so any hook makes it a step that writes.
        effect = Effect.WRITE if state.works or self._hooks else Effect.READ
        form = await host.step(self._key, effect, stay, idempotent=True)
        return self._done(entered, cast("JsonObject", form))

    def _done(self, entered: JsonObject, form: JsonObject) -> Done:
        changed = self._context.apply(form)
        say = form.get("say")
        messages = (Message(Role.ASSISTANT, say),) if isinstance(say, str) else ()
        change = Change(
            node=self._name,
            messages=((MAIN_CHANNEL, messages),) if messages else (),
            variables={**entered, **changed} if entered else changed,
        )
        outcome = self._outcome
        if outcome is None:
            # From the log, where the outcome of a state that did nothing does not stand twice.
            outcome = self._last if form.get("same") else Outcome.read(form)
        return Done(change, outcome, str(form.get("to", "")), form.get("answer"))

    async def _enter(self) -> dict[str, object]:
        self._trip.flush()
        context = self._context
        context.lend()
        to = ""
        try:
            given = await self._hooks.call("on_state_enter", self._name, context.values)
        except Failed as failure:
            to = await self._rescue(failure)
            self._check(to)
        else:
            self._replace_context(given)
        return {**context.take_changes(), **({"to": to} if to else {})}

    async def _leave(self, outcome: Outcome) -> dict[str, object]:
        """What becomes of the outcome: hooks, what is kept, and the way on."""
        context = self._context
        to = ""
        # Finding out what somebody else changed takes a copy of all of it; without hooks nobody
        # does.
        if self._hooks:
            context.lend()
            outcome, to = await self._ask_hooks(outcome)
        form: dict[str, object] = {}
        # A state that does nothing has not failed where the one before it did.
        error = None if outcome is self._last else outcome.error
        scope = self._scope(outcome)
        if error is None and self._state.keeps.fields:
            for name, value in self._state.keeps.value(scope).items():
                context.set(name, value)
        to = to or self._way_on(scope, outcome, error)
        if to:
            form["to"] = await self._agree(to)
        else:
            output = self._state.output
            form["answer"] = outcome.answer if output is None else output.value(scope)
        form.update(context.take_changes())
        if outcome is self._last:
            form["same"] = True
        else:
            form.update(outcome.to_form())
            if outcome.say:
                form["say"] = outcome.say
        self._outcome = outcome
        return form

    async def _ask_hooks(self, outcome: Outcome) -> tuple[Outcome, str]:
        """The outcome as the hooks leave it, and the state that they name, "" for none."""
        context, to = self._context.values, ""
        if outcome.exception is not None and outcome is not self._last:
            told = await self._hooks.call("on_error", self._name, outcome.exception, context)
            to = told if isinstance(told, str) else ""
        if not self._hooks.has("on_state_exit"):
            return outcome, to
        # Of a state that does nothing nothing came: what came of the one before was told there.
        own = _NOTHING if outcome is self._last else outcome.result
        view = ResultView(own)
        try:
            told = await self._hooks.call("on_state_exit", self._name, context, view)
        except Failed as failure:
            rescue = await self._rescue(failure)
            return outcome, rescue
        if isinstance(told, str):
            return outcome, told
        if told is None or told is context:
            return outcome, to
        if isinstance(told, ResultView) and told == ResultView(told.result):
            # Handed back as it was; perhaps another's.
            told = told.result
        if told is own:
            return outcome, to
        return _replaced(told, outcome), to

    async def _rescue(self, failure: Failed) -> str:
        """The state that ``on_error`` names after a hook raised.

        Raises:
            Failed: It names none.
        """
        bug = failure.__cause__
        if bug is None or failure.error.code != ErrorCode.HOOK_FAILED:
            raise failure
        told = await self._hooks.call("on_error", self._name, bug, self._context.values)
        if not isinstance(told, str):
            raise failure
        return told

    def _replace_context(self, given: object) -> None:
        """A hook may hand back the context, or another in its place."""
        values = self._context.values
        if isinstance(given, dict) and given is not values:
            values.clear()
            values.update(cast("JsonObject", given))

    def _way_on(self, scope: Scope, outcome: Outcome, error: AgentError | None) -> str:
        """The next state, "" where the machine ends.

        A failure is left only by a condition that looks at the result, or by ``on_error``:
        else a way that is meant for success would hide it.

        Raises:
            Unhandled: The agent was aborted or followed a wish to stop, and no way holds.
            Failed: No way holds.
        """
        state = self._state
        if error is None and state.is_final:
            return ""
        for transition in state.transitions:
            when = transition.when
            if error is not None and (when is None or not when.reads_result):
                continue
            if when is None or when.holds(scope):
                return transition.to
        if error is not None:
            to = state.on_error.get(error.code) or state.on_error.get("", "")
            if not to:
                ending = outcome.ending
                failed = Failed(error) if ending is None else Unhandled(outcome, error, ending)
                failed.said = outcome.result.content or ""
                raise failed
            return to
        raise Failed(
            ErrorCode.DEAD_END,
            f"{state.mark}: no transition of the state {self._name!r} holds: add one without a "
            "condition",
            details={"state": self._name},
        )

    async def _agree(self, to: str) -> str:
        """The next state once ``on_transition`` was told; it may name another.

        Raises:
            Failed: There is no such state; code dead_end.
        """
        # Hooks are told whole names, such as `research/draft`, and may answer with these too.
        prefix = self._name[: len(self._name) - len(self._state.name)]
        to = to.removeprefix(prefix)
        self._check(to)
        if self._hooks.has("on_transition"):
            facts = (prefix + to, self._context.values)
            try:
                told = await self._hooks.call("on_transition", self._name, *facts)
            except Failed as failure:
                told = await self._rescue(failure)
            if isinstance(told, str):
                to = told.removeprefix(prefix)
                self._check(to)
        return to

    def _check(self, to: str) -> None:
        states = self._machine.states
        if to in states:
            return
        raise Failed(
            ErrorCode.DEAD_END,
            f"after the state {self._name!r} a hook names the state {to!r}, which is nowhere: "
            f"there are {', '.join(states)}",
            details={"state": self._name, "to": to},
        )

    def _scope(self, outcome: Outcome) -> Scope:
        names: Mapping[str, Any] = {
            "context": self._context.values,
            "input": self._given,
            "output": outcome.payload,
        }
        return Scope(names, lambda: outcome.result)


def _replaced(told: object, outcome: Outcome) -> Outcome:
    """What a hook puts in the place of an outcome."""
    made = Outcome.of(coerce_result(dict(told) if isinstance(told, ResultView) else told))
    if made.error is None:
        made.say = made.result.content or outcome.say
    made.by_agent = outcome.by_agent
    return made
