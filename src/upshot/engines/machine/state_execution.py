"""One stay in a state, with its hooks and their context.

A visit: one stay of a machine in one of its states, which is one step of the log.

In the log it is what it changed in the context, what came of its work, and where it leads. A
run that goes on takes that from there and does not enter the state again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple, cast

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Effect, ErrorCode, Origin, Role
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.forms.flat_form import ResultView, coerce_result
from upshot.contract.message import MAIN_CHANNEL, Message
from upshot.contract.result import AgentResult
from upshot.engines.graph.branches import Change
from upshot.engines.graph.graph_run import GraphRun
from upshot.engines.machine.cel import Variables
from upshot.engines.machine.machine import Machine, State
from upshot.engines.machine.state_outcome import Outcome, Unhandled
from upshot.errors import Misuse
from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked

__all__ = ["Done", "MachineContext", "MachineHooks", "NAMES", "Visit"]


# What cannot be changed in place, and is the same where it is equal.
_FIXED = (str, int, bool, type(None))


class _Encoded(bytes):
    """A list or mapping as it was, in JSON."""


class MachineContext:
    """The variables, and what was changed since they were last marked.

    Args:
        values: What it begins with.

    Attributes:
        values: The dict that hooks get; they may change it, also deep inside.
    """

    def __init__(self, values: JsonObject) -> None:
        self.values = values
        self._before: dict[str, object] = {}
        self._set: JsonObject = {}
        self._is_lent = False

    def lend(self) -> None:
        """From now on somebody else may change it."""
        # What cannot be changed in place is its own copy.
        self._before = {
            name: value if type(value) in _FIXED else _Encoded(msgspec.json.encode(value))
            for name, value in self.values.items()
        }
        self._is_lent = True

    def set(self, name: str, value: Json) -> None:
        """Set a variable to JSON that nobody else has."""
        self.values[name] = value
        self._set[name] = value

    def take_changes(self) -> dict[str, object]:
        """What was changed, as JSON, for the log.

        Raises:
            Failed: A hook put something into it that has no JSON form; code hook_failed.
        """
        changed, gone = self._set, list[str]()
        if self._is_lent:
            changed, gone = self._compare()
        self._set, self._is_lent = {}, False
        form: dict[str, object] = {}
        if changed:
            form["set"] = changed
        if gone:
            form["drop"] = gone
        return form

    def apply(self, form: JsonObject) -> JsonObject:
        """Have the context as the log has it.

        Returns:
            What was set.
        """
        changed = cast("JsonObject", form.get("set", {}))
        for name, value in changed.items():
            # What stands in the log is not for hooks to change.
            self.values[name] = deepcopy(value) if isinstance(value, list | dict) else value
        for name in cast("list[str]", form.get("drop", ())):
            self.values.pop(name, None)
        return changed

    def _compare(self) -> tuple[JsonObject, list[str]]:
        changed: JsonObject = {}
        before = self._before
        for name, value in list(self.values.items()):
            if type(value) in _FIXED:
                if value is self._set.get(name, self):
                    # It is JSON already.
                    changed[name] = value
                    continue
                known = before.get(name, self)
                if type(known) is type(value) and known == value:
                    continue
            try:
                clean = to_free_json({name: value})[0]
            except UnserializableError as error:
                message = f"a hook put into the context what is no JSON, {name!r}: {error.reason}"
                raise Failed("hook_failed", message) from error
            [(key, found)] = cast("JsonObject", clean).items()
            known = before.get(key)
            if not isinstance(known, _Encoded) or known != msgspec.json.encode(found):
                changed[key] = found
        return changed, [name for name in before if name not in self.values]


NAMES = ("on_state_enter", "on_state_exit", "on_transition", "on_error")


class MachineHooks:
    """The hooks of a user, of which each may be missing, sync or async.

    Args:
        subject: Any object with some of the methods; None has none.

    Raises:
        Misuse: It has none of them, or one that cannot be called; or it is a class, whose methods
            need an object.
    """

    def __init__(self, subject: object) -> None:
        found = {name: getattr(subject, name, None) for name in NAMES}
        self._methods: dict[str, Callable[..., Any]] = {}
        for name, method in found.items():
            if isinstance(subject, type) and _needs_self(subject, name):
                kind = subject.__name__
                raise Misuse(f"hooks is the class {kind}: give an object of it, hooks={kind}()")
            if callable(method):
                self._methods[name] = method
            elif method is not None:
                raise Misuse(f"hooks.{name} is {kind_of(method)}: give a function")
        if subject is not None and not self._methods:
            raise Misuse(f"hooks is {kind_of(subject)} that has none of {', '.join(NAMES)}")

    def __bool__(self) -> bool:
        return bool(self._methods)

    def has(self, name: str) -> bool:
        """Whether there is a hook *name*."""
        return name in self._methods

    async def call(self, name: str, state: str, *facts: object) -> Any:
        """Call the hook *name*.

        Returns:
            What it returned, None where it is missing.

        Raises:
            Failed: It raised; code hook_failed, and the exception is its cause.
        """
        method = self._methods.get(name)
        if method is None:
            return None
        try:
            value = method(state, *facts)
            return await value if inspect.isawaitable(value) else value
        except (Parked, Interrupted, Aborted, Failed):
            # Words of the run's own, by which a hook may end it.
            raise
        except Exception as error:
            # The edge to a user's hook: what it raises is told as its failure.
            message = f"{name} of the state {state!r} raised {type(error).__name__}: {error}"
            raise Failed(
                AgentError(
                    ErrorCode.HOOK_FAILED, message, type=type(error).__name__, origin=Origin.HOST
                )
            ) from error


def _needs_self(subject: type, name: str) -> bool:
    """Whether *name* is a method of the objects of a class, and not of the class itself."""
    return inspect.isfunction(inspect.getattr_static(subject, name, None))


_NOTHING = AgentResult[Json]()

Work = Callable[[State, str, Variables], Awaitable[Outcome]]


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
        trip: GraphRun,
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

    def _way_on(self, scope: Variables, outcome: Outcome, error: AgentError | None) -> str:
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

    def _scope(self, outcome: Outcome) -> Variables:
        names: Mapping[str, Any] = {
            "context": self._context.values,
            "input": self._given,
            "output": outcome.payload,
        }
        return Variables(names, lambda: outcome.result)


def _replaced(told: object, outcome: Outcome) -> Outcome:
    """What a hook puts in the place of an outcome."""
    made = Outcome.of(coerce_result(dict(told) if isinstance(told, ResultView) else told))
    if made.error is None:
        made.say = made.result.content or outcome.say
    made.by_agent = outcome.by_agent
    return made
