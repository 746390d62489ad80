"""Made by ``python -m tests.docs.stubs``: the module, with each option by name."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, overload

from typing_extensions import TypeVar

from upshot.contract.agent import Agent, ToolItem
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import ArtifactStore, Clock, Decider, Engine, Host, Model, Observer
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
        agent: The agent; the names in a spec are found in the options ``tools`` and ``engine``.
        request: What is asked.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The conversation of which the run is a turn, in place of the request's
            ``context_id``. It needs a journal.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What becomes of the turn while another one waits for answers: by "refuse" it
            fails with ``conflict``, by "tell" it begins, and the model is told what waits.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        The result. Everything that a model, a tool, a provider, the user or a limit does is in
        it, and none of that is raised. If the agent handed over, ``handoff`` names the next one;
        the caller follows it, or ``run_with_handoffs`` does.

    Raises:
        Misuse: An argument is wrong; nothing was begun.
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
    """The same as ``run``, outside an event loop.

    Work that ignores its cancellation is left behind at the end and named in a warning.

    Args:
        agent: Who works on it, as for ``run``.
        request: What is asked.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The conversation of which the run is a turn, in place of the request's
            ``context_id``. It needs a journal.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What becomes of the turn while another one waits for answers: by "refuse" it
            fails with ``conflict``, by "tell" it begins, and the model is told what waits.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        What came of it, as of ``run``.

    Raises:
        Misuse: An argument is wrong, or an event loop is running: await ``run`` there.
        JournalError: The journal cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed. The run is stopped and finalised first: what is under
            way has 2 s, a write ``write_grace_s``. A second Ctrl-C cuts that short.
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
    """Begin a run and watch it: ``async with start(...) as live: async for event in live: ...``.

    Leaving the block early cancels the run and waits for its end.

    Args:
        agent: Who works on it, as for ``run``.
        request: What is asked.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The conversation of which the run is a turn, in place of the request's
            ``context_id``. It needs a journal.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What becomes of the turn while another one waits for answers: by "refuse" it
            fails with ``conflict``, by "tell" it begins, and the model is told what waits.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        An async context manager of the live run; ``await live.result()`` gives its result.
        Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong, nothing was begun; or it is used otherwise than entered.
        JournalError: The journal cannot be opened.
    """

async def answer(
    run_id: str, answers: Sequence[AnyAnswer], *, journal: Where
) -> tuple[Taken | Outdated, ...]:
    """Answer what a parked run waits for, without going on with it: whoever does takes the answers.

    Any process may answer. Of several answers to a question the first one stands.

    Args:
        run_id: A run that is parked.
        answers: The answers, also for its child runs; those to calls have the digest of what was
            shown, as the ``approve()``, ``deny()`` and ``edit()`` of an item of ``pending`` give
            them.
        journal: Where its log is.

    Returns:
        For each answer whether it stands or came too late, and then what was answered before it.
        The same answer by the same person again stands.

    Raises:
        Misuse: There is no such run, it waits for nothing or for no such answer, or an answer has
            no digest.
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
) -> tuple[InboxItem, ...]:
    """All that the runs of a journal wait for and nobody has answered, the longest wait first.

    Args:
        journal: Where the logs are.
        limit: The items of at most so many runs, from 1; None returns all.
        before: Only runs that come after this one: that of the last item of the previous page.
        agent: Only runs of this agent, "" for all.
        conversation: Only runs of this conversation, "" for all.
        tool: Only calls of this tool, "" for all items.
        owner: Only runs of this user of *tenant*, or of none; "" for all.
        tenant: Only runs of this tenant, "" for all.

    Returns:
        The items, those of a run together; ``answer(item.run_id, ...)`` answers one.

    Raises:
        Misuse: *limit* is not a positive whole number, or there is no run *before*.
        JournalError: The journal cannot be opened.
    """

async def note(run_id: str, name: str, value: Json, *, by: str = "", journal: Where) -> None:
    """Note something of a run, such as a thumb or a label, beside its log.

    It is exported and removed with the run; a fork does not have it.

    Args:
        run_id: The run, in whichever state it is.
        name: What is noted, at most 100 characters. Another note of that name by the same person
            takes the place of this one.
        value: What is said of it: JSON of at most 10,000 bytes. None takes the note back.
        by: Who says so.
        journal: Where the run is.

    Raises:
        Misuse: There is no such run, or an argument is wrong.
        JournalError: The journal cannot be opened or written.
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
        journal: Where its log is.

    Returns:
        An async context manager of its handle. Leaving it leaves the run alone.

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

    Finished calls are not made again. A run that has ended gives its result, and nothing
    is written. A run that is under way in this event loop is followed: its result is waited for,
    with its own agent and options; a cancel ends the waiting only. Answers to such a run are
    refused, and a run that another event loop or another living process on this machine works
    on is left to that.

    Args:
        run_id: The run.
        agent: The agent of the run; a warning says if it has changed since then. For a run of
            ``run_with_handoffs`` the same agents as there: from any of its runs, it goes on
            until an agent answers. With one agent alone, a hand-off to an agent that is not in
            its ``handoffs`` is not followed, and a warning says so.
        journal: Where its log is.
        answers: The user's answers, for its child runs too; the others stay pending. An id that
            several runs use is ``<run_id>/<id>``.
        take_over: Take the run also from a session that works on it, in this process or in
            another living one. That session fails at its next write to the log; what it does
            until then is done twice.
        continue_stopped: Go on also with a run that was interrupted or canceled, and with what was
            stopped inside it: calls that were cut off have their outcomes, and a reply that was cut
            off is followed by a message that asks for the rest.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

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

    Finished calls are not made again. A run that has ended gives its result, and nothing
    is written. A run that is under way in this event loop is followed: its result is waited for,
    with its own agent and options; a cancel ends the waiting only. Answers to such a run are
    refused, and a run that another event loop or another living process on this machine works
    on is left to that.

    Args:
        run_id: The run.
        agent: The agent of the run; a warning says if it has changed since then. For a run of
            ``run_with_handoffs`` the same agents as there: from any of its runs, it goes on
            until an agent answers. With one agent alone, a hand-off to an agent that is not in
            its ``handoffs`` is not followed, and a warning says so.
        journal: Where its log is.
        answers: The user's answers, for its child runs too; the others stay pending. An id that
            several runs use is ``<run_id>/<id>``.
        take_over: Take the run also from a session that works on it, in this process or in
            another living one. That session fails at its next write to the log; what it does
            until then is done twice.
        continue_stopped: Go on also with a run that was interrupted or canceled, and with what was
            stopped inside it: calls that were cut off have their outcomes, and a reply that was cut
            off is followed by a message that asks for the rest.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

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

    Of a run that is under way in this event loop it shows the events from now on, beside its
    other readers; leaving the block leaves that run alone.

    Args:
        run_id: A run that is parked, or whose process died.
        agent: Who works on it, as for ``resume``.
        journal: Where its log is: a path or an open journal.
        answers: The user's answers.
        take_over: Take the run also from a session that works on it, as for ``resume``.
        continue_stopped: Go on also with a run that was stopped, as for ``resume``.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        An async context manager of the live run.

    Raises:
        Misuse: There is no such run, it has ended, or an argument is wrong.
        JournalError: The journal cannot be opened or read, or the run is being worked on.
    """

async def cancel(run_id: str, *, journal: Where) -> AgentResult[Any]:
    """End a run that waits, was not begun, or whose process died, without its agent.

    A run that is worked on is ended by whoever works on it, in any process. What was under way when
    a process died is told in the result: of a call that may write it is unknown what it did. A turn
    of a conversation is in the way no more.

    Args:
        run_id: The run.
        journal: Where its log is: a path or an open journal.

    Returns:
        Its result, canceled.

    Raises:
        Misuse: There is no such run, or it has ended.
        JournalError: The journal cannot be opened or read, or a live process works on the run and
            has not ended it within 10 s; it will when it can.
    """

async def fork(
    run_id: str, *, at: int, journal: Where, conversation: str = "", ask_writes: bool = False
) -> str:
    """Begin a new run from a point of another one, which stays as it is.

    The new run has the events of the other up to *at*, its artifacts under ids of their own,
    what the user answered and allowed until then, and what it had used. Go on with it by
    ``resume``; what waits there for an answer can be answered otherwise. Its child runs that had
    ended by then are shared; others are run anew.

    Args:
        run_id: The other run.
        at: The last event to keep, its ``seq``, from 1.
        journal: Where its log is, and where that of the new run goes.
        conversation: The conversation of which the new run is a turn; "" for none.
        ask_writes: Whether every call that may write needs an approval in the new run, for it may
            do again what the other has done; approvals that stand in the other do not count.

    Returns:
        The id of the new run.

    Raises:
        Misuse: There is no such run or event, or the run has ended there; with *ask_writes*, a
            call was approved by then and had not begun.
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

    If it does the same, a called tool that has changed or is gone is still a difference, and so
    is a model request that the agent itself would have made differently.

    Nothing outside is touched: replies of models, outcomes of tools, answers of the user, keyed
    steps and child runs come from the record, and what is not recorded is not done. Neither
    observers, committers, approvers nor the host are called, and nothing is written; deciders,
    instructions and the engine are run.

    Args:
        run_id: A run, ended or not.
        agent: The agent of the run, or one to compare with it.
        journal: Where its log is.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        The first difference, None if there is none, and the result of the replayed run.

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
    """Run agents on *request*; each works until it hands over, the last one until it answers.

    A receiver gets the request, the note and, unless its Handoff says ``history=False``, the
    messages so far. Each is a run of its own; tokens, money and time of a budget among the
    options are those of all.

    Args:
        agents: Those that may work on it; agents that are themselves items of ``handoffs``
            need not be listed.
        request: What is asked; only the first run takes its run_id.
        start: The agent that begins, or its id; None is the first of *agents*.
        max_depth: How often it may be handed over.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The conversation of which the run is a turn, in place of the request's
            ``context_id``. It needs a journal.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What becomes of the turn while another one waits for answers: by "refuse" it
            fails with ``conflict``, by "tell" it begins, and the model is told what waits.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        The result of the last agent, with usage and cost of all, and their ids in order as
        ``state["path"]``. If it was handed over too often, or to an agent that had it before, the
        status is failed with code budget_exceeded.

    Raises:
        Misuse: An argument is wrong, or a hand-off leads to an agent that is not known.
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
    """Like ``run_with_handoffs``, but watched like ``start``: the events of all runs, one by one.

    Leaving the block early cancels the run that is under way and waits for its end.

    Args:
        agents: Those that may work on it, as for ``run_with_handoffs``.
        request: What is asked.
        start: The agent that begins, or its id; None is the first of *agents*.
        max_depth: How often it may be handed over.
        approve: Asked before a tool that needs approval; True, False, or None to defer. Holds for
            runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks, and for child runs that get none of their
            own; identity is apart and cannot be forged by it.
        budget: Limits; wins over the agent's as a whole.
        clock: Time, for tests.
        committers: Called with (info, request, result) when a run is to be committed.
        conversation: The conversation of which the run is a turn, in place of the request's
            ``context_id``. It needs a journal.
        deciders: After the agent's own.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``; wins over what
            ``Agent.dependencies`` makes.
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        gates: Your own gates, asked before the user is, or a function of the standard gates that
            gives all, in order; for child runs too. A resume has to give them again.
        history: Messages or an earlier result, put before the request; in a conversation only with
            its first turn.
        host: Any object with some of the methods of ``Host``.
        if_waiting: What becomes of the turn while another one waits for answers: by "refuse" it
            fails with ``conflict``, by "tell" it begins, and the model is told what waits.
        journal: A path, "memory:" or an open journal; None keeps no log.
        launch: What a command line needs to start the run again; kept in the log, never a key.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments, also of child runs: Allow,
            Refuse, Ask or EditArguments; None is Allow. A resume has to give it again.
        pacer: Has model calls wait for their turn in the provider's limits; those of child runs
            too, unless they have their own. A resume has to give it again.
        parent_run_id: Wins over the run that this one is started in.
        policy: Rules on tools, held at every call.
        prepare: Makes the board from (info, request); once an attempt.
        prices: What models cost, before the public table; for models that are given by name.
        priority: Of those that wait for the pacer, runs with a larger one go first; below 0 are
            those that may wait, such as batches. Holds for child runs.
        quotas: Caps that runs share; they need a journal, are kept in it, and hold for child runs,
            hand-offs and later sessions.
        remember: Whether it is a turn; if not, it sees the conversation and adds nothing to it.
        resume_from: A checkpoint for an engine that keeps none.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        settings: Merged over the agent's, field by field.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        write_grace_s: How many seconds a call or a step that writes may go on after the run was
            asked to stop, 10 by default; everything else has 2. Child runs inherit it. A resume has
            to give it again.

    Returns:
        An async context manager of the runs; ``await live.result()`` gives what
        ``run_with_handoffs`` gives. Entering it raises what ``run`` raises.

    Raises:
        Misuse: An argument is wrong, nothing was begun.
        JournalError: The journal cannot be opened.
    """

def run_in_own_loop(
    work: Callable[[], Coroutine[Any, Any, T]], ask_to_stop: Callable[[], bool] | None = None
) -> T:
    """Run *work* in a new event loop and close it, and the connections that it holds.

    ``asyncio.run`` waits for tasks that ignore their cancellation, without an end; here
    they get ``_CLOSE_S`` and are then left behind, named in a RuntimeWarning. Ctrl-C
    stops the work once, so that it can finalise; the second time it is raised where the
    program stands.

    Args:
        work: Makes the coroutine to run.
        ask_to_stop: Asks the work to stop at Ctrl-C; False if it cannot. Then it is cancelled.

    Raises:
        Misuse: An event loop is running in this thread.
        KeyboardInterrupt: Ctrl-C was pressed.
    """

class _CtrlC:
    """Takes Ctrl-C for a loop, where no handler of the user's own does.

    Attributes:
        pressed: Whether it was pressed.
    """
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def watch(self, task: asyncio.Task[Any], ask_to_stop: Callable[[], bool] | None) -> None:
        """From now on stop *task*."""
    def close(self) -> None:
        """Give Ctrl-C back."""
