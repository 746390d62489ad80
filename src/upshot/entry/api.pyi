"""Made by ``python -m tests.docs.stubs``: the module, with each option by name."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal, overload

from typing_extensions import TypeVar

from upshot.contract.agent import Agent, ToolItem
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import (
    ArtifactStore,
    Clock,
    Decider,
    Engine,
    Host,
    Model,
    Observer,
)
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.settings import Budget, ModelSettings, Policy, Quota, Retry
from upshot.entry.handoff_loop import LiveHandoffs
from upshot.entry.replay_run import Replay
from upshot.entry.run_handle import RunHandle
from upshot.journal.shared import InboxItem
from upshot.models.prices import Prices
from upshot.runs.limits.pacer import Pacer
from upshot.runs.live_run import LiveRun
from upshot.runs.plan import Approver, Committer, History, Seeder, Where
from upshot.tools.gates.approval_gate import PreToolHook
from upshot.tools.gates.standard_gates import GateChoice
from upshot.wire.pricing import Price

T = TypeVar("T", default=str)
Deps = TypeVar("Deps", default=Any)

async def run(
    agent: Agent[T, Deps] | AgentSpec,
    request: Request | str,
    *,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    conversation: str = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Deps = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    if_waiting: Literal["refuse", "tell"] = ...,
    journal: Where | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    remember: bool = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AgentResult[T]:
    """Run *agent* on *request* until there is a result.

    Args:
        agent: The agent. The names in a spec are looked up in the options ``tools`` and ``engine``.
        request: The user's request.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The id of the conversation that the run is a turn of, in place of the
            request's ``context_id``. It needs a journal.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What happens to the turn while another turn waits for answers: with "refuse" it
            fails with ``conflict``, with "tell" it starts and the model reads what is waiting.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        The result. Whatever a model, a tool, a provider, the user or a limit does is in it; none of
        that is raised. If the agent handed over, ``handoff`` names the next agent: follow it
        yourself, or use ``run_with_handoffs``.

    Raises:
        Misuse: An argument is wrong; nothing was started.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """

def run_sync(
    agent: Agent[T, Deps] | AgentSpec,
    request: Request | str,
    *,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    conversation: str = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Deps = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    if_waiting: Literal["refuse", "tell"] = ...,
    journal: Where | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    remember: bool = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AgentResult[T]:
    """Like ``run``, for use outside an event loop.

    Tasks that ignore their cancellation are left behind at the end and named in a warning.

    Args:
        agent: The agent, as for ``run``.
        request: The user's request.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The id of the conversation that the run is a turn of, in place of the
            request's ``context_id``. It needs a journal.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What happens to the turn while another turn waits for answers: with "refuse" it
            fails with ``conflict``, with "tell" it starts and the model reads what is waiting.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        The result, as for ``run``.

    Raises:
        Misuse: An argument is wrong, or an event loop is running: await ``run`` there.
        JournalError: The journal cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed. The run is stopped and finalised first: it gets 2 s,
            or ``write_grace_s`` if a write is in progress. A second Ctrl-C cuts that short.
    """

def start(
    agent: Agent[T, Deps] | AgentSpec,
    request: Request | str,
    *,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    conversation: str = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Deps = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    if_waiting: Literal["refuse", "tell"] = ...,
    journal: Where | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    remember: bool = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Start a run and watch it: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end.

    Args:
        agent: The agent, as for ``run``.
        request: The user's request.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The id of the conversation that the run is a turn of, in place of the
            request's ``context_id``. It needs a journal.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What happens to the turn while another turn waits for answers: with "refuse" it
            fails with ``conflict``, with "tell" it starts and the model reads what is waiting.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        An async context manager of the live run; ``await live.result()`` returns its result.
        Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong and nothing was started, or the context manager was not
            entered.
        JournalError: The journal cannot be opened.
    """

async def answer(
    run_id: str, answers: Sequence[AnyAnswer], *, journal: Where, secrets: Iterable[str] = ()
) -> tuple[Taken | Outdated, ...]:
    """Answer what a parked run waits for, without resuming it; the next session reads the answers.

    Any process may answer. The first answer to a question wins.

    Args:
        run_id: The parked run.
        answers: The answers, for its child runs too. An answer to a call carries the digest of what
            was shown, as the ``approve()``, ``deny()`` and ``edit()`` of an item of ``pending``
            return it.
        journal: The journal that has its log.
        secrets: The secrets of the run. They are masked in the answers: by marks in the journal,
            by ``***`` in the audit. Without them the journal stores the answers unchanged, and
            the audit has ``***`` for everything that was typed.

    Returns:
        For each answer, whether it was accepted or came too late, and if so the earlier answer.
        Repeating the same answer as the same person counts as accepted.

    Raises:
        Misuse: There is no such run, it does not wait for such an answer, or an answer has no
            digest.
        JournalError: The journal cannot be read or written, or the run is being worked on.
    """

async def inbox(
    *,
    journal: Where,
    limit: int | None = 20,
    before: str = "",
    agent: str = "",
    conversation: str = "",
    tool: str = "",
    owner: str = "",
    tenant: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[InboxItem, ...]:
    """Return the unanswered questions of a journal's runs, the longest waiting first.

    Args:
        journal: The journal that has the logs.
        limit: The items of at most this many runs, from 1; None returns all.
        before: Only runs after this one: the run id of the last item on the previous page.
        agent: Only runs of this agent; "" for all.
        conversation: Only runs of this conversation; "" for all.
        tool: Only calls of this tool; "" for all items.
        owner: Only runs of this user (of *tenant*, or of no tenant); "" for all.
        tenant: Only runs of this tenant; "" for all.
        since: Only items asked at or after this moment, with a time zone; None for all.
        until: Only items asked before it; None for all.

    Returns:
        The items, grouped by run; ``answer(item.run_id, ...)`` answers one.

    Raises:
        Misuse: *limit* is not a positive whole number, a moment has no time zone, or there is no
            run *before*.
        JournalError: The journal cannot be opened.
    """

async def note(run_id: str, name: str, value: Json, *, by: str = "", journal: Where) -> None:
    """Attach a note to a run, such as a thumb or a label. It is stored beside the log.

    The note is exported and removed with the run; a fork does not have it.

    Args:
        run_id: The run, in any state.
        name: The name of the note, at most 100 characters. A later note by the same person with
            the same name replaces it.
        value: JSON of at most 10,000 bytes; None removes the note.
        by: The person who makes the note.
        journal: The journal that has the run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or written.
    """

async def broadcast(
    name: str,
    value: Json = None,
    *,
    journal: Where,
    key: str = "",
    by: str = "",
    agent_id: str = ...,
    before: str = ...,
    context_id: str = ...,
    currency: str = ...,
    effect: str = ...,
    error_code: str = ...,
    limit: int | None = ...,
    model: str = ...,
    owner: str = ...,
    parent_run_id: str | None = ...,
    prefix: str = ...,
    run_id: str = ...,
    since: datetime | None = ...,
    sort: str = ...,
    tenant: str = ...,
    text: str = ...,
    tool: str = ...,
    until: datetime | None = ...,
) -> list[str]:
    """Send a signal to every run of a journal that has not ended; see ``RunHandle.signal``.

    Repeat an interrupted broadcast with the same *key*: no run gets the signal twice.

    Args:
        name: The name of the signal.
        value: What ``host.wait_signal(name)`` returns.
        journal: The journal that has the runs.
        key: Identifies the signal; "" for none.
        by: Who sends it, "" if unknown.
        agent_id: Only runs of this agent.
        before: Only runs that come after this one in the list: the last run of the previous page.
        context_id: Only runs of this conversation.
        currency: Only runs that cost money in this currency, such as "EUR".
        effect: Only runs with this worst effect: "none", "applied" or "unknown".
        error_code: Only runs that failed with this code.
        limit: The maximum number of runs, from 1; None returns all.
        model: Only runs whose last session has ended and that called this model, "provider:name".
        owner: Only runs of this user: ``user`` of their attributes. With *tenant*, it is a user of
            that tenant, otherwise a user without a tenant.
        parent_run_id: Only child runs of this run; "" gives root runs.
        prefix: Only runs whose id starts with this.
        run_id: Only this run.
        since: Only runs that started, or were submitted, at this moment or later; timezone-aware.
        sort: Sort by the largest first instead of the newest first, and omit runs without a value:
            "cost" (one currency after the other), "tokens", "took" (from a tenth of a second), or
            "effect", where unknown is the largest.
        tenant: Only runs of this ``tenant`` of their attributes.
        text: Only runs whose listed request or answer contains this text, in any case.
        tool: Only runs that called this tool, or wait to.
        until: Only runs that started, or were submitted, before this moment.

    Returns:
        The ids of the runs that have the signal.

    Raises:
        Misuse: The name or a filter is not allowed, or JSON cannot express the value.
        JournalError: The journal cannot be read or written.
    """

def attach(run_id: str, *, journal: Where) -> AbstractAsyncContextManager[RunHandle]:
    """Watch and answer a run, whichever process works on it.

    ::

        async with upshot.attach(run_id, journal="runs.db") as run:
            async for event in run.events(until="parked"):
                ...
            result = await run.result()

    Args:
        run_id: A run of the journal.
        journal: The journal that has its log.

    Returns:
        An async context manager of the run's handle. Leaving it does not affect the run.

    Raises:
        Misuse: There is no such run.
        JournalError: The journal cannot be opened or read.
    """

@overload
async def resume(
    run_id: str,
    agent: Agent[T, Deps] | AgentSpec,
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Deps = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AgentResult[T]:
    """Continue a run that is parked, or whose process died.

    Finished calls are not repeated. If the run has ended, its result is returned and nothing is
    written. If this event loop is working on the run, its result is awaited: the run keeps its own
    agent and options, and a cancel ends only the waiting. Answers to such a run are refused. A run
    that another event loop or another living process on this machine works on is left alone.

    Args:
        run_id: The run.
        agent: The agent of the run; a warning says if it has changed since. For a run of
            ``run_with_handoffs``, give the same agents as there: any of its runs can be resumed,
            and the chain continues until an agent answers. If you give one agent only, a handoff to
            an agent outside its ``handoffs`` is not followed, and a warning says so.
        journal: The journal that has its log.
        answers: The user's answers, for its child runs too; unanswered questions stay pending.
            Write an id that several runs use as ``<run_id>/<id>``.
        take_over: Claim the run even if a session works on it, in this process or in another living
            one. That session fails at its next write to the log; what it does until then is done
            twice.
        continue_stopped: Also continue a run that was interrupted or canceled, and what was stopped
            inside it: interrupted calls have their outcomes, and a reply that was cut off is
            followed by a message that asks for the rest.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        The result of the whole run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """

@overload
async def resume(
    run_id: str,
    agent: Sequence[Agent[Any]],
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Any = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AgentResult[Any]:
    """Continue a run that is parked, or whose process died.

    Finished calls are not repeated. If the run has ended, its result is returned and nothing is
    written. If this event loop is working on the run, its result is awaited: the run keeps its own
    agent and options, and a cancel ends only the waiting. Answers to such a run are refused. A run
    that another event loop or another living process on this machine works on is left alone.

    Args:
        run_id: The run.
        agent: The agent of the run; a warning says if it has changed since. For a run of
            ``run_with_handoffs``, give the same agents as there: any of its runs can be resumed,
            and the chain continues until an agent answers. If you give one agent only, a handoff to
            an agent outside its ``handoffs`` is not followed, and a warning says so.
        journal: The journal that has its log.
        answers: The user's answers, for its child runs too; unanswered questions stay pending.
            Write an id that several runs use as ``<run_id>/<id>``.
        take_over: Claim the run even if a session works on it, in this process or in another living
            one. That session fails at its next write to the log; what it does until then is done
            twice.
        continue_stopped: Also continue a run that was interrupted or canceled, and what was stopped
            inside it: interrupted calls have their outcomes, and a reply that was cut off is
            followed by a message that asks for the rest.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        The result of the whole run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """

def reopen(
    run_id: str,
    agent: Agent[T, Deps] | AgentSpec,
    *,
    journal: Where,
    answers: Sequence[AnyAnswer] = (),
    take_over: bool = False,
    continue_stopped: bool = False,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Deps = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AbstractAsyncContextManager[LiveRun[T]]:
    """Like ``resume``, but watched like ``start``.

    If this event loop is working on the run, you become one more reader of its events, from now
    on; leaving the block does not affect that run.

    Args:
        run_id: A run that is parked, or whose process died.
        agent: The agent, as for ``resume``.
        journal: The journal that has its log: a path or an open journal.
        answers: The user's answers.
        take_over: Claim the run even if a session works on it, as for ``resume``.
        continue_stopped: Also continue a run that was stopped, as for ``resume``.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        An async context manager of the live run.

    Raises:
        Misuse: There is no such run, it has ended, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """

async def cancel(run_id: str, *, journal: Where) -> AgentResult[Any]:
    """Cancel a run that waits, has not started, or whose process died; its agent is not needed.

    If a process works on the run, that process ends it. The result says what was in progress when
    a process died; the effect of a call that may write is then unknown. A canceled turn no longer
    blocks its conversation.

    Args:
        run_id: The run.
        journal: The journal that has its log: a path or an open journal.

    Returns:
        Its result, canceled.

    Raises:
        Misuse: There is no such run, or it has ended.
        JournalError: The journal cannot be opened or read, or a live process works on the run and
            has not ended it within 10 s. The request stays in force.
    """

async def fork(
    run_id: str, *, at: int, journal: Where, conversation: str = "", ask_writes: bool = False
) -> str:
    """Start a new run from a point of another one, which stays as it is.

    The new run has the events of the other up to *at*, copies of its artifacts under new ids, the
    answers to questions given by then, and the usage up to then. Continue it with ``resume``; what
    waits there for an answer can be answered differently. It shares child runs that had ended by
    then; others run again.

    Approvals are for the other run: a call that the new run makes and that needs an approval is
    asked about, even if a standing approval covered it there.

    Args:
        run_id: The run to fork.
        at: The last event to keep, by its ``seq``, from 1.
        journal: The journal that has its log, and stores the log of the new run.
        conversation: The conversation that the new run is a turn of; "" for none.
        ask_writes: Whether every call that may write needs an approval in the new run, since it may
            repeat what the other run did.

    Returns:
        The id of the new run.

    Raises:
        Misuse: There is no such run or event, the run has ended there, or a call was approved by
            then and had not started.
        JournalError: The journal cannot be opened, read or written.
    """

async def replay(
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    *,
    journal: Where,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Any = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> Replay:
    """Run *agent* against the record of a run, and report the first difference.

    If the agent does the same, two things still count as differences: a tool that was called and
    has changed or is gone, and a model request that the agent itself would have made differently.

    Nothing outside is touched: replies of models, outcomes of tools, answers of the user, keyed
    steps and child runs come from the record, and what is not recorded does not happen. Observers,
    committers, approvers and the host are not called, and nothing is written; deciders,
    instructions and the engine do run.

    Args:
        run_id: A run, ended or not.
        agent: The agent of the run, or one to compare with it.
        journal: The journal that has its log.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        The first difference, or None if there is none, and the result of the replayed run.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or read.
    """

async def run_with_handoffs(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    *,
    start: Agent[Any] | str | None = None,
    max_depth: float = 8,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    conversation: str = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Any = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    if_waiting: Literal["refuse", "tell"] = ...,
    journal: Where | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    remember: bool = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AgentResult[Any]:
    """Run agents on *request*: each works until it hands over, the last one until it answers.

    The next agent gets the request, the note and, unless the Handoff says ``history=False``, the
    messages so far. Each agent has a run of its own; a budget among the options limits the tokens,
    money and time of all of them together.

    Args:
        agents: The agents that may work on the request. You need not list agents that are
            themselves items of ``handoffs``.
        request: The user's request; its run_id is used for the first run only.
        start: The agent that starts, or its id; None is the first of *agents*.
        max_depth: How often the request may be handed over.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The id of the conversation that the run is a turn of, in place of the
            request's ``context_id``. It needs a journal.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What happens to the turn while another turn waits for answers: with "refuse" it
            fails with ``conflict``, with "tell" it starts and the model reads what is waiting.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        The result of the last agent, with the usage and cost of all agents; ``state["path"]`` has
        their ids in order. If the request was handed over too often, or to an agent that had it
        before, the status is failed with code budget_exceeded.

    Raises:
        Misuse: An argument is wrong, or a handoff leads to an unknown agent.
        JournalError: The journal cannot be opened.
        asyncio.CancelledError: The caller was cancelled; the run was finalised first.
    """

def start_with_handoffs(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    *,
    start: Agent[Any] | str | None = None,
    max_depth: float = 8,
    approve: Approver | None = ...,
    artifact_store: ArtifactStore | None = ...,
    artifacts: Iterable[str] = ...,
    attributes: Mapping[str, Any] | None = ...,
    budget: Budget | None = ...,
    clock: Clock | None = ...,
    committers: Iterable[Committer] = ...,
    conversation: str = ...,
    deciders: Iterable[Decider | object] = ...,
    dependencies: Any = ...,
    engine: Engine | None = ...,
    gates: GateChoice | None = ...,
    history: History = ...,
    host: Host | object | None = ...,
    if_waiting: Literal["refuse", "tell"] = ...,
    journal: Where | None = ...,
    launch: JsonObject = ...,
    max_attempts: int = ...,
    model: str | Model | None = ...,
    observers: Iterable[Observer | object] = ...,
    on_pre_tool_use: PreToolHook | None = ...,
    pacer: Pacer | None = ...,
    parent_run_id: str = ...,
    policy: Policy | None = ...,
    prepare: Seeder | None = ...,
    prices: Prices | Mapping[str, Price] | None = ...,
    priority: int = ...,
    quotas: Iterable[Quota] = ...,
    remember: bool = ...,
    resume_from: Checkpoint | None = ...,
    retry: Retry | None = ...,
    secrets: Iterable[str] = ...,
    settings: ModelSettings | None = ...,
    tools: Iterable[ToolItem] = ...,
    write_grace_s: float = ...,
) -> AbstractAsyncContextManager[LiveHandoffs]:
    """Like ``run_with_handoffs``, but watched like ``start``: the events of all runs, in order.

    Leaving the block early cancels the current run and waits for its end.

    Args:
        agents: The agents that may work on the request, as for ``run_with_handoffs``.
        request: The user's request.
        start: The agent that starts, or its id; None is the first of *agents*.
        max_depth: How often the request may be handed over.
        approve: Asked before a tool that needs approval; returns True, False, or None to defer.
            Holds for child runs too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, or in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get no attributes
            themselves. Identity is separate, so attributes cannot forge it.
        budget: Limits; replaces the agent's budget as a whole.
        clock: The clock, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The id of the conversation that the run is a turn of, in place of the
            request's ``context_id``. It needs a journal.
        deciders: Called after the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``. Overrides what
            ``Agent.dependencies`` makes.
        engine: Decides the steps; the loop engine if neither call nor agent names one.
        gates: Your own gates, asked before the user is asked; or a function that gets the standard
            gates and returns all gates in order. Holds for child runs. Pass them again when you
            resume.
        history: Messages or an earlier result, put before the request. In a conversation, only its
            first turn may have it.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What happens to the turn while another turn waits for answers: with "refuse" it
            fails with ``conflict``, with "tell" it starts and the model reads what is waiting.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: The number of attempts that deciders may ask for, the first included; at least
            1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. Pass it again when you resume.
        pacer: Makes model calls wait for their turn in the provider's limits. Child runs share it
            unless they have their own. Pass it again when you resume.
        parent_run_id: Overrides the id of the run that this one is started in.
        policy: Rules on tools, checked at every call.
        prepare: Makes the board from (info, request), once for each attempt.
        prices: Prices of models, looked up before the public table; for models given by name.
        priority: Of the calls that wait for the pacer, those with the larger number go first; use
            numbers below 0 for work that can wait, such as batches. Child runs inherit it.
        quotas: Caps that runs share. They need a journal, which stores them, and hold for child
            runs, handoffs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint, for an engine that keeps none.
        retry: How failed model calls are retried, also those of agents in the run's graph or
            machine. None turns retries off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log has marks in
            their place, so pass the same secrets when you resume, in any order. With more or fewer,
            the run warns ``secrets_changed``, and the marks in the log are not replaced.
        settings: Merged over the agent's, field by field.
        tools: What names in ``Agent.tools`` refer to; if that is None, these are all added.
        write_grace_s: Seconds that a call or a step that writes may continue after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. Pass it
            again when you resume.

    Returns:
        An async context manager of the runs; ``await live.result()`` returns what
        ``run_with_handoffs`` returns. Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong; nothing was started.
        JournalError: The journal cannot be opened.
    """

def run_in_own_loop(
    work: Callable[[], Coroutine[Any, Any, T]], ask_to_stop: Callable[[], bool] | None = None
) -> T:
    """Run *work* in a new event loop; then close the loop and its open connections.

    ``asyncio.run`` waits without limit for tasks that ignore their cancellation; here they get
    ``_CLOSE_S`` and are then left behind, named in a RuntimeWarning. The first Ctrl-C stops the
    work so that it can finalise; the second is raised wherever the program is.

    Args:
        work: Makes the coroutine to run.
        ask_to_stop: Asks the work to stop at Ctrl-C; if it returns False, the work is cancelled.

    Raises:
        Misuse: An event loop is running in this thread.
        KeyboardInterrupt: Ctrl-C was pressed.
    """

class _CtrlC:
    """Handles Ctrl-C for a loop, unless the user has a handler.

    Attributes:
        pressed: Whether it was pressed.
    """
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def watch(self, task: asyncio.Task[Any], ask_to_stop: Callable[[], bool] | None) -> None:
        """Stop *task* at Ctrl-C from now on."""
    def close(self) -> None:
        """Restore the default Ctrl-C handler."""
