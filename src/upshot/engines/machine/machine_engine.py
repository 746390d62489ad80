"""MachineEngine: runs a machine, from state to state.

A visit is one stay in a state and one step in the log. Its value has the changes of the context,
the outcome of the work, and the next state. A resumed run reads that from the log and does not
enter the state again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

from upshot.contract.agent import Agent
from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Effect, ErrorCode, Role
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.forms.flat_form import ResultView
from upshot.contract.message import MAIN_CHANNEL, Message
from upshot.contract.protocols import Clock
from upshot.contract.result import OUTPUT_VAR, AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.engines.common import ask_about, asked_in, hand_over, warn_of_unread
from upshot.engines.graph.branches import Change
from upshot.engines.machine.machine import Machine, Retrying, State, Task, Vote
from upshot.engines.machine.machine_hooks import MachineContext, MachineHooks
from upshot.engines.machine.resolver import MachineAgent, Resolver
from upshot.engines.machine.state_outcome import NOTHING, Outcome, Unhandled, summed
from upshot.engines.machine.variables import Variables
from upshot.engines.machine.voting import Tally
from upshot.engines.walk import Visits, Walk, together
from upshot.errors import Misuse
from upshot.native.returned import coerce_result
from upshot.runs.engine_api.exceptions import Failed
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board


class MachineEngine:
    """Runs *machine*; each state is a step in the log, and a resumed run does not enter it again.

    The initial context is the machine's, updated by what is on the board: the inputs of the
    request. Its variables are those of the board. The answer is the ``output`` of the final state,
    or the outcome of the last state that did something.

    Args:
        machine: As ``load_machine`` returns it.
        agents: By name, overriding those that the machine describes: Agents, Engines, or objects
            with ``async execute(input, context)``, whose return value goes through
            ``coerce_result``.
        functions: By name, sync or async; they get the state's input as keywords.
        hooks: Any object with some of on_state_enter, on_state_exit, on_transition, on_error,
            sync or async.
        clock: The clock for waits before retries; None is the run's clock.
        tools: The tools that described agents name.

    Raises:
        Misuse: Agents or functions are missing; all of them are named.
    """

    # It resumes from the log, so it is not asked whether it can resume.
    goes_on_by_log: ClassVar[bool] = True

    def __init__(
        self,
        machine: Machine,
        *,
        agents: Mapping[str, MachineAgent] | None = None,
        functions: Mapping[str, Callable[..., object]] | None = None,
        hooks: object = None,
        clock: Clock | None = None,
        tools: Iterable[object] = (),
    ) -> None:
        if not isinstance(machine, Machine):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            found = kind_of(machine)
            raise Misuse(f"a MachineEngine drives a Machine, not {found}: load_machine(path)")
        self.machine = machine
        self._resolver = Resolver(
            machine, agents=agents or {}, functions=functions or {}, tools=tools
        )
        self._hooks = MachineHooks(hooks)
        self._clock = clock

    def __repr__(self) -> str:
        return f"MachineEngine({self.machine!r})"

    @property
    def agents(self) -> tuple[Agent[Any], ...]:
        """The agents of its states that call a model, without duplicates."""
        return self._resolver.agents

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is named after a state; the machine then starts there."""
        return checkpoint.step in self.machine.states

    def check_models(self, *, has_model: bool) -> None:
        """Check that all its agents have a model, before anything starts.

        Args:
            has_model: Whether the run has a model that agents without one may use.

        Raises:
            Misuse: Some have none; all of them are named.
        """
        self._resolver.check_models(has_model=has_model)

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Run the machine from its initial state, or from the state that a checkpoint names.

        Raises:
            Interrupted: The run was asked to stop, between states or in an agent.
            Aborted: An agent was aborted, and no transition handles that.
            Failed: A failure that no transition handles, a dead end, the step limit, a broken
                expression, or a hook that raised.
            Parked: The run waits for the user.
        """
        walk, machine = Walk(run, host, board, "machine"), self.machine
        first = await walk.begin(machine.initial, machine.digest)
        variables = first.variables()
        whole = MachineWalk(
            walk,
            machine,
            resolver=self._resolver,
            hooks=self._hooks,
            clock=self._clock,
            key=walk.key,
            given=_expression_input(run, first, variables),
            context={**deepcopy(machine.context), **variables},
        )
        try:
            outcome = await whole.run(walk.start, walk.commit)
        except Unhandled as unhandled:
            raise unhandled.ending from unhandled.ending.__cause__
        finally:
            # Keep what was done in the result, however the walk ended.
            walk.flush()
        if outcome.payload is not None:
            board.set(OUTPUT_VAR, outcome.payload)
        await hand_over(run, host, outcome.handoff)
        return board


def _expression_input(run: Run, board: Board, variables: JsonObject) -> JsonObject:
    """Return what expressions see as ``input``: the request's inputs, and its text as message."""
    asked = [message for message in board.messages(MAIN_CHANNEL) if message.role is Role.USER]
    text = asked_in(asked, run.feedback, otherwise=run.request.to_message().text)
    return {"message": text, **run.request.inputs}


Commit: TypeAlias = Callable[[Sequence[Change]], None]

_ONCE = Retrying()
_NOTHING = AgentResult[Json]()


class MachineWalk:
    """One walk through one machine, from its initial state to its end.

    Args:
        walk: The engine's walk that it belongs to.
        machine: The machine.
        resolver: Agents and functions.
        hooks: The user's hooks.
        clock: The clock for waits between tries; None is the run's clock.
        key: The prefix of the keys of its steps.
        given: What expressions see as ``input``.
        context: The initial context.
        prefix: The sub-machines that it is in, for the names of states.
    """

    def __init__(
        self,
        walk: Walk,
        machine: Machine,
        *,
        resolver: Resolver,
        hooks: MachineHooks,
        clock: Clock | None,
        key: str,
        given: JsonObject,
        context: JsonObject,
        prefix: str = "",
    ) -> None:
        self.walk = walk
        self.machine = machine
        self.resolver = resolver
        self.hooks = hooks
        self.clock = clock
        self.given = given
        self.context: MachineContext = MachineContext(context)
        self.prefix = prefix
        self._visits = Visits(
            walk,
            machine.states,
            machine.max_steps,
            key=key,
            word="state",
            option="settings.max_steps",
            prefix=prefix,
        )
        self._last: Outcome = NOTHING
        # The state whose agent made a handoff that nothing has read yet.
        self._unread = ""

    async def run(self, start: str = "", commit: Commit | None = None) -> Outcome:
        """Go from state to state until the machine ends.

        Args:
            start: Another state to start at.
            commit: Called with the changes of each state.

        Returns:
            Its output; the result includes the usage of all states.

        Raises:
            Failed: A failure that no transition handles, a dead end, the step limit, a broken
                expression, or a hook that raised.
            Unhandled: An agent was aborted or interrupted, and no transition handles that.
            Interrupted: The run was asked to stop, between states.
            Parked: The run waits for the user.
        """
        name, text = start or self.machine.initial, ""
        outcomes: list[Outcome] = []
        while True:
            await self.walk.stop_if_asked()
            if self._visits.has_points:
                await self._visits.save_point(name)
            [key] = self._visits.enter(name)
            self._visits.check_known(name)
            state = self.machine.states[name]
            if self._unread:
                await self._look_for_reader(state, key)
            done = await Visit(self, state, key, self._last).run()
            if done.outcome is not self._last:
                is_open = done.outcome.handoff is not None and not self._may_read(state)
                self._unread = done.change.node if is_open else ""
                if done.outcome.spent is not None:
                    outcomes.append(done.outcome)
            if commit is not None:
                commit((done.change,))
            # The text of the last agent is the content of the whole, whatever states follow.
            text = next((m.text for _, added in done.change.messages for m in added), text)
            self._last = done.outcome
            if not done.to:
                return _machine_outcome(done.answer, text, outcomes, done.outcome.handoff)
            name = done.to

    async def _look_for_reader(self, state: State, key: str) -> None:
        """Warn if other states work after a handoff that nothing has read."""
        handoff, host = self._last.handoff, self.walk.host
        if self._may_read(state) or handoff is None:
            self._unread = ""
        elif state.works:
            # If the state is settled, an earlier session has warned.
            if not host.is_settled(key):
                how = "a condition can look at result.handoff"
                place = f"the state {self._unread!r}"
                await warn_of_unread(host, place, handoff.to_agent_id, how)
            self._unread = ""

    def _may_read(self, state: State) -> bool:
        hooks = self.hooks
        return state.reads_handoff or hooks.has("on_state_exit") or hooks.has("on_transition")

    async def _descend(self, machine: Machine, key: str, prefix: str, given: JsonObject) -> Outcome:
        """Run a sub-machine; its failure is the failure of the state that contains it."""
        inner = MachineWalk(
            self.walk,
            machine,
            resolver=self.resolver,
            hooks=self.hooks,
            clock=self.clock,
            key=key,
            given=given,
            # A copy: states change it, and the machine may run again, even at the same time.
            context=deepcopy(machine.context),
            prefix=prefix,
        )
        try:
            return await inner.run()
        except Failed as failure:
            return Outcome.failed(failure)

    # -- the work of a state

    async def work(self, state: State, key: str, scope: Variables, last: Outcome) -> Outcome:
        """Do the work of *state*.

        Returns:
            The outcome; failures are values in it. A state that does nothing passes on the outcome
            of the previous state.

        Raises:
            Failed: An expression is broken.
            Parked: The run waits for the user.
        """
        if state.wait:
            return await self._wait_for(state, key, scope)
        if state.each is not None and state.task is not None:
            return await self._for_each(state, state.task, key, scope)
        if state.vote is not None and state.task is not None:
            return await self._vote(state, state.task, state.vote, key, scope)
        if state.members:
            return await self._run_members(state, key, scope)
        if state.task is None:
            return last
        return await self._try(state.task, key, scope, self.prefix + state.name)

    async def _wait_for(self, state: State, key: str, scope: Variables) -> Outcome:
        question, choices = state.wait, list[str]()
        given = state.input.value(scope) if state.input is not None else None
        if isinstance(given, str):
            question = given
        elif isinstance(given, dict):
            question = str(given.get("question", question))
            listed = given.get("choices")
            choices = [str(one) for one in listed] if isinstance(listed, list) else []
            if given.get("signal"):
                name = str(given["signal"])
                return Outcome(await self.walk.host.wait_signal(name, question, key=key))
        id = await self._name_wait(state.wait, key)
        answer = await self.walk.host.ask_user(question, choices=tuple(choices), key=id)
        return Outcome(answer)

    async def _name_wait(self, wait: str, key: str) -> str:
        """Return the id of the question: the wait's name, numbered if it was used before.

        The log records which visit has which, because branches may come in another order later.
        """
        number = 1
        while True:
            step = f"wait:{wait}#{number}"
            if await self.walk.host.step(step, Effect.READ, lambda: key) == key:
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
            message = f"{each.items.mark}: foreach needs a list or mapping, got {kind_of(found)}"
            raise Failed(ErrorCode.INVALID_REQUEST, message)
        scopes = [scope.but(each.name, item) for item in items]
        given = [self._input_for_item(task, each.name, item) for item in items]
        is_keyed = each.key is not None or isinstance(found, dict)
        if each.key is not None:
            names = [_key_of(each.key.value(one)) for one in scopes]
            # If two items had the same key, one value would be lost.
            _refuse_duplicate_keys(names, str(each.key.mark))
        # Steps are named by position, because the key of an item may be any text.
        works = [
            self._run_member(
                task, f"{key}/{number}", one, f"{self.prefix}{state.name}", name, given=asked
            )
            for number, (name, one, asked) in enumerate(zip(names, scopes, given, strict=True))
        ]
        return await _gather(works, names if is_keyed else None, at_once=each.at_once)

    async def _vote(
        self, state: State, task: Task, vote: Vote, key: str, scope: Variables
    ) -> Outcome:
        """Do *task* until one of its answers leads; a failure is no vote.

        Returns:
            The first outcome with the answer that leads, or the last failure if there is no answer.

        Raises:
            Failed: No answer leads after the last vote; code dead_end.
        """
        tally, place = Tally(vote.lead), f"{self.prefix}{state.name}"
        outcomes, failures, asked = list[tuple[Json, Outcome]](), list[Outcome](), 0
        while more := min(tally.needed, vote.at_most - asked):
            numbers = range(asked + 1, asked + more + 1)
            works = [self._cast_vote(task, f"{key}/vote-{n}", scope, place, n) for n in numbers]
            asked += more
            for outcome in await together(works, at_once=vote.at_once):
                if outcome.error is not None:
                    failures.append(outcome)
                    continue
                seen = scope.but("output", outcome.payload)
                value = outcome.payload if vote.by is None else vote.by.value(seen)
                tally.add(to_free_json(value)[0])
                outcomes.append((value, outcome))
        if not outcomes:
            return failures[-1].named(f"vote {asked}")
        if tally.needed:
            message = f"no answer leads by {vote.lead} after {asked} votes: {tally}"
            raise Failed(ErrorCode.DEAD_END, message)
        return next(outcome for value, outcome in outcomes if tally.is_leading(value))

    async def _cast_vote(
        self, task: Task, key: str, scope: Variables, state: str, number: int
    ) -> Outcome:
        """Do the work of a vote, as a step of its own; a failure is a vote that is not counted."""
        made: list[Outcome] = []

        async def body() -> dict[str, object]:
            outcome = await self._try(task, key, scope, f"{state}/vote {number}")
            made.append(outcome)
            return outcome.to_form()

        form: Any = await self.walk.host.step(key, Effect.WRITE, body, idempotent=True)
        return made[0] if made else Outcome.read(form)

    async def _run_members(self, state: State, key: str, scope: Variables) -> Outcome:
        works = [
            self._run_member(task, f"{key}/{name}", scope, f"{self.prefix}{state.name}", name)
            for name, task in state.members.items()
        ]
        return await _gather(works, list(state.members))

    def _input_for_item(self, task: Task, name: str, item: Any) -> JsonObject:
        """Return the default input for *item*: the machine's input and the item."""
        if task.input is not None or task.kind == "function":
            return self.given
        value = to_free_json(item)[0]
        text = ask_about(value, str(self.given.get("message", "")))
        return {**self.given, name: value, "message": text}

    async def _run_member(
        self,
        task: Task,
        key: str,
        scope: Variables,
        state: str,
        name: str,
        *,
        given: JsonObject | None = None,
    ) -> Outcome:
        """Do the work of an item or member, as a step of its own, so that it is not repeated."""
        # Kept here, because the log has neither the exception nor all of the result.
        made: list[Outcome] = []

        async def body() -> dict[str, object]:
            outcome = await self._try(task, key, scope, f"{state}/{name}", given=given)
            if outcome.error is not None:
                # A failed step must not be logged as finished.
                raise _MemberFailed(outcome.named(name))
            made.append(outcome)
            return outcome.to_form()

        # Its effect outside is unknown. If it is interrupted, it runs again, as a state does.
        form: Any = await self.walk.host.step(key, Effect.WRITE, body, idempotent=True)
        return made[0] if made else Outcome.read(form)

    async def _try(
        self, task: Task, key: str, scope: Variables, name: str, *, given: JsonObject | None = None
    ) -> Outcome:
        """Do *task* with retries; without an input expression it gets *given*."""
        # Evaluated once, so that each try gets the same input.
        if task.input is None:
            asked = to_free_json(self.given if given is None else given)[0]
        else:
            asked = task.input.value(scope)
        retry = task.retry or _ONCE
        tries = 1 + await self.walk.tries_before(key, self.clock)
        while True:
            # A child run that failed has ended, so a further try is another run.
            outcome = await self._do_once(
                task, key if tries == 1 else f"{key}~{tries}", asked, name
            )
            if outcome.error is None or not await self._may_try_again(outcome, retry, tries, key):
                return outcome
            tries += 1

    async def _may_try_again(self, outcome: Outcome, retry: Retrying, tries: int, key: str) -> bool:
        error = outcome.error
        # An exception does not say whether a retry would help, so retry it.
        if error is None or not (error.retryable or outcome.exception is not None):
            return False
        limits = outcome.result.rate_limit
        floor_s = max(error.retry_after_s or 0.0, (limits and limits.retry_after) or 0.0)
        return await self.walk.may_try_again(
            tries,
            retry.max_attempts,
            retry.backoff_s,
            key=key,
            floor_s=floor_s,
            clock=self.clock,
        )

    async def _do_once(self, task: Task, key: str, given: Json, name: str) -> Outcome:
        if task.kind == "function":
            return await self.resolver.call(task, given)
        if task.machine is None:
            return await self.resolver.ask(
                task, given, self.context.values, walk=self.walk, key=key
            )
        if not isinstance(given, dict):
            message = f"{task.mark}: the input of the machine {task.name!r} is not a mapping"
            raise Failed(ErrorCode.INVALID_REQUEST, message)
        return await self._descend(task.machine, f"{key}/", f"{name}/", given)


def _machine_outcome(
    answer: Json, text: str, outcomes: Sequence[Outcome], handoff: HandoffEvent | None
) -> Outcome:
    """Return the outcome of a machine, with the usage of its states and the last handoff."""
    spent = summed(outcomes)
    if spent is None and not text:
        return Outcome(answer)
    usage, cost = spent or (None, None)
    used: dict[str, Any] = {} if usage is None else {"usage": usage, "cost": cost}
    result = AgentResult[Any](output=answer, content=text or None, handoff=handoff, **used)
    return Outcome(answer, result, say=text)


class Done(NamedTuple):
    """The outcome of a visit.

    Attributes:
        change: What it changed, for the board.
        outcome: The outcome of its work.
        to: The next state, "" if the machine ends.
        answer: The output of the machine, if it ends.
    """

    change: Change
    outcome: Outcome
    to: str
    answer: Json


class Visit:
    """One visit of one state.

    Args:
        shared: What all states of the machine share.
        state: The state.
        key: The key of its step.
        last: The outcome of the previous state.
    """

    def __init__(self, shared: MachineWalk, state: State, key: str, last: Outcome) -> None:
        self._shared = shared
        self._hooks = shared.hooks
        self._context = shared.context
        self._state = state
        self._key = key
        self._last = last
        # The name that hooks get, with the sub-machines that it is in.
        self._name = shared.prefix + state.name
        self._outcome: Outcome | None = None

    async def run(self) -> Done:
        """Run the state, or return its logged outcome.

        Raises:
            Failed: The state failed and nothing handles the failure, no transition holds, an
                expression is broken, or a hook raised.
            Parked: The run waits for the user.
        """
        host, state = self._shared.walk.host, self._state
        entered: JsonObject = {}
        if self._hooks.has("on_state_enter"):
            # A step of its own, so that a state that waits for the user is entered once.
            key = f"{self._key}:enter"
            form: Any = await host.step(key, Effect.WRITE, self._enter, idempotent=True)
            entered = self._context.apply(form)
            if "to" in form:
                return self._to_done(entered, {"to": form["to"], "same": True})
        asked: Outcome | None = None
        if state.wait:
            # Before its step starts, because parking would look like an interrupted step.
            asked = await self._work()

        async def stay() -> dict[str, object]:
            self._shared.walk.flush()
            outcome = asked or await self._work()
            return await self._leave(outcome)

        # The effect of a hook is unknown, so with any hook the step counts as a write.
        effect = Effect.WRITE if state.works or self._hooks else Effect.READ
        form = await host.step(self._key, effect, stay, idempotent=True)
        return self._to_done(entered, form)

    async def _work(self) -> Outcome:
        return await self._shared.work(self._state, self._key, self._scope(self._last), self._last)

    def _to_done(self, entered: JsonObject, form: JsonObject) -> Done:
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
            # From the log, which does not repeat the outcome passed on by a state that did nothing.
            outcome = self._last if form.get("same") else Outcome.read(form)
        return Done(change, outcome, str(form.get("to", "")), form.get("answer"))

    async def _enter(self) -> dict[str, object]:
        self._shared.walk.flush()
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
        """Pass the outcome to hooks, store values, and find the next state."""
        context = self._context
        to = ""
        # Only with hooks, because detecting their changes takes a copy of the context.
        if self._hooks:
            context.lend()
            outcome, to = await self._ask_hooks(outcome)
        form: dict[str, object] = {}
        # A state that does nothing has not failed, even if the previous state has.
        error = None if outcome is self._last else outcome.error
        scope = self._scope(outcome)
        # After the hooks, which may have replaced the outcome that these values come from.
        if error is None and self._state.keeps.fields:
            for name, value in self._state.keeps.value(scope).items():
                context.set(name, value)
        to = to or self._next_state(scope, outcome, error)
        if to:
            form["to"] = await self._ask_on_transition(to)
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
        """Return the outcome after the hooks, and the state that they name, "" for none."""
        context, to = self._context.values, ""
        if outcome.exception is not None and outcome is not self._last:
            returned = await self._hooks.call("on_error", self._name, outcome.exception, context)
            to = returned if isinstance(returned, str) else ""
        if not self._hooks.has("on_state_exit"):
            return outcome, to
        # A state that does nothing has no result, and hooks have seen the previous one.
        own = _NOTHING if outcome is self._last else outcome.result
        # A copy, because changes by hooks must not change the result.
        view = ResultView(own)
        try:
            returned = await self._hooks.call("on_state_exit", self._name, context, view)
        except Failed as failure:
            rescue = await self._rescue(failure)
            return outcome, rescue
        if isinstance(returned, str):
            return outcome, returned
        if returned is None or returned is context:
            return outcome, to
        if isinstance(returned, ResultView) and returned == ResultView(returned.result):
            # Returned unchanged; it may be the view of another result.
            returned = returned.result
        if returned is own:
            return outcome, to
        return _outcome_of_hook(returned, outcome), to

    async def _rescue(self, failure: Failed) -> str:
        """Return the state that ``on_error`` names after another hook raised.

        Raises:
            Failed: It names none.
        """
        bug = failure.__cause__
        if bug is None or failure.error.code != ErrorCode.HOOK_FAILED:
            raise failure
        returned = await self._hooks.call("on_error", self._name, bug, self._context.values)
        if not isinstance(returned, str):
            raise failure
        return returned

    def _replace_context(self, given: object) -> None:
        """Replace the context by what a hook returned, if that is another mapping."""
        values = self._context.values
        if isinstance(given, dict) and given is not values:
            values.clear()
            values.update(cast("JsonObject", given))

    def _next_state(self, scope: Variables, outcome: Outcome, error: AgentError | None) -> str:
        """Return the next state, "" if the machine ends.

        A failure is handled only by a condition that reads the result, or by ``on_error``.
        Otherwise a transition that is meant for success would hide it.

        Raises:
            Unhandled: The agent was aborted or interrupted, and no transition holds.
            Failed: No transition holds.
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
                failed.last_text = outcome.result.content or ""
                failed.result = outcome.result
                raise failed
            return to
        raise Failed(
            ErrorCode.DEAD_END,
            f"{state.mark}: no transition of the state {self._name!r} holds: add one without a "
            "condition",
            details={"state": self._name},
        )

    async def _ask_on_transition(self, to: str) -> str:
        """Return the next state after ``on_transition``, which may name another.

        Raises:
            Failed: There is no such state; code dead_end.
        """
        # Hooks get full names, such as `research/draft`, and may return these too.
        prefix = self._shared.prefix
        to = to.removeprefix(prefix)
        self._check(to)
        # Called last, after values are stored: this hook sees the context as the next state will.
        if self._hooks.has("on_transition"):
            facts = (prefix + to, self._context.values)
            try:
                returned = await self._hooks.call("on_transition", self._name, *facts)
            except Failed as failure:
                returned = await self._rescue(failure)
            if isinstance(returned, str):
                to = returned.removeprefix(prefix)
                self._check(to)
        return to

    def _check(self, to: str) -> None:
        states = self._shared.machine.states
        if to in states:
            return
        raise Failed(
            ErrorCode.DEAD_END,
            f"after the state {self._name!r} a hook names the state {to!r}, which does not exist: "
            f"there are {', '.join(states)}",
            details={"state": self._name, "to": to},
        )

    def _scope(self, outcome: Outcome) -> Variables:
        names: Mapping[str, Any] = {
            "context": self._context.values,
            "input": self._shared.given,
            "output": outcome.payload,
        }
        return Variables(names, lambda: outcome.result)


def _outcome_of_hook(returned: object, outcome: Outcome) -> Outcome:
    """Return the outcome that a hook returned in place of another."""
    made = Outcome.of(
        coerce_result(dict(returned) if isinstance(returned, ResultView) else returned)
    )
    if made.error is None:
        made.say = made.result.content or outcome.say
    made.by_agent = outcome.by_agent
    return made


class _MemberFailed(Failed):
    """An item or member failed, so the others are cancelled."""

    def __init__(self, outcome: Outcome) -> None:
        error = outcome.error
        assert error is not None
        super().__init__(error)
        self.outcome = outcome


async def _gather(
    works: Sequence[Any], names: Sequence[str] | None, *, at_once: int | None = None
) -> Outcome:
    """Combine outcomes: into a list, or a mapping by *names*. The first failure is the outcome."""
    if not works:
        return Outcome([] if names is None else {})
    try:
        outcomes = await together(works, at_once=at_once)
    except _MemberFailed as broken:
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


def _refuse_duplicate_keys(names: Sequence[str], place: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            message = f"{place}: two items of foreach have the key {name!r}"
            raise Failed(ErrorCode.CONFLICT, message, details={"key": name})
        seen.add(name)
