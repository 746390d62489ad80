"""Made by ``python -m tests.docs.stubs``: the module, with each option by name."""

from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, Literal, Self, TypeAlias

from starlette.applications import Starlette

from upshot.contract.agent import Agent, DependencyFactory, ToolItem
from upshot.contract.base.structs import Json
from upshot.contract.conversation import Conversation
from upshot.contract.effects import EffectCheck, EffectEntry, EffectState
from upshot.contract.events import ToolSettled, ToolStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import (
    ArtifactStore,
    Decider,
    Host,
    Journal,
    Model,
    Observer,
    RunCounts,
    RunSummary,
)
from upshot.contract.result import AgentResult
from upshot.contract.settings import Budget, ModelSettings, Policy, Quota, Retry
from upshot.contract.user import UserOf
from upshot.entry.annotations import Grant
from upshot.entry.handoff_loop import OnLive
from upshot.entry.replay_run import Replay
from upshot.entry.run_handle import RunHandle
from upshot.fleet.answer_links import AnswerLinks
from upshot.fleet.schedules import Missed, RequestSource, Schedule, ScheduleState
from upshot.journal.shared import DueRun, InboxItem
from upshot.models.prices import Prices
from upshot.runs.limits.pacer import Pacer
from upshot.runs.plan import Approver, Committer, Where
from upshot.tools.definition.tool import Tool
from upshot.tools.gates.approval_gate import PreToolHook
from upshot.tools.gates.standard_gates import GateChoice
from upshot.wire.pricing import Price

AsgiEvent = MutableMapping[str, object]
AsgiApp = Callable[
    [AsgiEvent, Callable[[], Awaitable[AsgiEvent]], Callable[[AsgiEvent], Awaitable[None]]],
    Awaitable[None],
]
Notify: TypeAlias = Callable[[Sequence[InboxItem]], Awaitable[None] | None]

class App:
    """Agents and what they are given, for runs that any process may start, watch and work on.

    Use it as an async context manager, or close it with ``aclose``. The journal is opened at first
    use.

    Args:
        agents: The agents, each with its own id. You need not list agents that they hand over to.
        dependencies: Makes the dependencies from the RunInfo, once per session: a function, plain
            or async, or one that returns an async context manager. It wins over what agents have.
        journal: A path, "memory:", a database's URL, or an open journal.
        model: "provider:name" or a Model, in place of the agents' models.
        pacer: Makes the model calls of all runs wait for their turn in the provider's limits.
        policy: Rules on tools, for runs that are submitted without rules of their own.
        quotas: Caps on the money, tokens and runs of all runs.
        secrets: Texts that are masked in the journal and in what is shown; a worker needs the same.
        notify: Called with the inbox items of a run that parks here with something to answer;
            plain or async. An exception in it becomes a warning of the result.
        answer_links: Links in these items by which users answer without signing in.
        version: Names the code; None is a digest of agents, instructions and tool schemas.
        approve: Asked before a tool that needs approval.
        artifact_store: Stores large outputs.
        committers: Called when a run is committed.
        deciders: Asked after the agent's own.
        gates: Your own gates, or a function of the standard gates that returns all gates.
        host: Any object with some of the methods of ``Host``.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments.
        prices: The prices of models; they win over the public table.
        tools: Tools for the names in ``Agent.tools``.
        write_grace_s: Seconds that a call which writes may continue after its run is asked to stop.

    Attributes:
        agents: The agents by id, with those that they hand over to.
        journal: The journal of the runs; may be set until it is opened.
        version: The code's name.
        schedules: The schedules by name; see ``schedule``.
        answer_links: As given.

    Raises:
        Misuse: An argument is wrong, or two agents have one id.
    """

    agents: Mapping[str, Agent[Any]]
    journal: Where | None
    version: str
    schedules: dict[str, Schedule]
    answer_links: AnswerLinks | None
    def __init__(
        self,
        agents: Iterable[Agent[Any]],
        *,
        dependencies: DependencyFactory[Any] | None = None,
        journal: Where | None = None,
        model: str | Model | None = None,
        pacer: Pacer | None = None,
        policy: Policy | None = None,
        quotas: Iterable[Quota] = (),
        secrets: Iterable[str] = (),
        notify: Notify | None = None,
        answer_links: AnswerLinks | None = None,
        version: str | None = None,
        approve: Approver | None = ...,
        artifact_store: ArtifactStore | None = ...,
        committers: Iterable[Committer] = ...,
        deciders: Iterable[Decider | object] = ...,
        gates: GateChoice | None = ...,
        host: Host | object | None = ...,
        observers: Iterable[Observer | object] = ...,
        on_pre_tool_use: PreToolHook | None = ...,
        prices: Prices | Mapping[str, Price] | None = ...,
        tools: Iterable[ToolItem] = ...,
        write_grace_s: float = ...,
    ) -> None: ...
    def __repr__(self) -> str: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *raised: object) -> None: ...
    async def aclose(self) -> None:
        """Close the journal, unless it was given open; may be called again."""
    async def open(self) -> Journal:
        """Return the journal, opened.

        Raises:
            Misuse: The App has no journal, or one through which processes cannot share runs.
            JournalError: It cannot be opened.
        """
    async def submit(
        self,
        agent: Agent[Any] | str,
        request: Request | Message | str,
        *,
        conversation: str | None = None,
        at: datetime | None = None,
        key: str | None = None,
        priority: int = 0,
        artifacts: Sequence[str] = ...,
        attributes: Mapping[str, Any] = ...,
        budget: Budget = ...,
        history: Sequence[Message] = ...,
        if_waiting: Literal["refuse", "tell"] = ...,
        max_attempts: int = ...,
        model: str = ...,
        policy: Policy = ...,
        quotas: Sequence[Quota] = ...,
        remember: bool = ...,
        retry: Retry | None = ...,
        settings: ModelSettings = ...,
    ) -> RunHandle:
        """Submit a run for any worker to work on; it is in the journal when this returns.

        Args:
            agent: An agent of the App, or its id.
            request: The user's request.
            conversation: The conversation that the run is a turn of; it waits for the turn before
                it.
            at: When the run becomes due, timezone-aware; None is at once.
            key: Your name for the request. Submitting it again with this key returns the same run,
                until 30 days after the run's end.
            priority: Runs with a higher priority are claimed first, and go first with the pacer.
            artifacts: Channels whose messages become artifacts of the result.
            attributes: Free JSON for engine, tools and hooks.
            budget: Limits.
            history: Messages that come before the request.
            if_waiting: While another turn of the conversation waits for answers, "refuse" waits
                too, "tell" starts without waiting.
            max_attempts: The number of attempts that deciders may ask for.
            model: "provider:name".
            policy: Rules on tools, in place of those of the App.
            quotas: Caps that runs share, in addition to those of the App.
            remember: Whether the run is a turn of its conversation.
            retry: How failed model calls are retried.
            settings: Settings of model calls.

        Returns:
            The handle of the run.

        Raises:
            Misuse: An argument is wrong or not data, there is no such agent, the journal already
                has a run with the request's run_id, or *key* was used for another request
                (conflict).
            JournalError: The journal cannot be written.
        """
    def schedule(
        self,
        name: str,
        agent: Agent[Any] | str,
        request: RequestSource,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        at: datetime | Sequence[datetime] | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        overlap: bool = False,
        artifacts: Sequence[str] = ...,
        attributes: Mapping[str, Any] = ...,
        budget: Budget = ...,
        history: Sequence[Message] = ...,
        if_waiting: Literal["refuse", "tell"] = ...,
        max_attempts: int = ...,
        model: str = ...,
        policy: Policy = ...,
        quotas: Sequence[Quota] = ...,
        remember: bool = ...,
        retry: Retry | None = ...,
        settings: ModelSettings = ...,
    ) -> None:
        """Submit a run at certain moments, while a worker of the App works; call it before.

        However many workers there are, each moment gets one run, ``NAME-20261128T090000Z``. Its
        attribute ``schedule`` is a ``Scheduled``: the moment, and how many were missed before it.

        Args:
            name: Names the schedule in the journal; up to 60 letters, digits, ".", "_" and "-".
            agent: An agent of the App, or its id.
            request: What is asked, or a function of the ``Scheduled`` that returns it.
            cron: Five fields, such as "0 9 * * MON-FRI"; needs the extra ``cron``.
            every: From a second on; ``timedelta(hours=1)`` is each full hour, since 1970 in UTC.
            at: One moment or several, timezone-aware.
            tz: The time zone of *cron*.
            missed: What moments get that passed without a worker: "latest" makes one run, for the
                latest of them; "all" makes one for each of the latest 100; "skip" makes none for a
                moment that is over a minute late.
            overlap: Whether to submit while the previous run has not ended; otherwise it is missed.
            artifacts: Channels whose messages become artifacts of the result.
            attributes: Free JSON for engine, tools and hooks.
            budget: Limits.
            history: Messages that come before the request.
            if_waiting: While another turn of the conversation waits for answers, "refuse" waits
                too, "tell" starts without waiting.
            max_attempts: The number of attempts that deciders may ask for.
            model: "provider:name".
            policy: Rules on tools, in place of those of the App.
            quotas: Caps that runs share, in addition to those of the App.
            remember: Whether the run is a turn of its conversation.
            retry: How failed model calls are retried.
            settings: Settings of model calls.

        Raises:
            Misuse: An argument is wrong, or another schedule has the name.
        """
    async def schedule_states(self) -> tuple[ScheduleState, ...]:
        """Return when each schedule runs next, when it last did, and what it missed.

        Raises:
            JournalError: The journal cannot be read.
        """
    async def run(self, run_id: str) -> RunHandle:
        """Return the handle of a run of the journal, whichever process works on it.

        Raises:
            Misuse: There is no such run.
            JournalError: The journal cannot be read.
        """
    async def answer(self, run_id: str, *answers: AnyAnswer) -> tuple[Taken | Outdated, ...]:
        """Answer what a parked run waits for; see ``upshot.answer``."""
    async def replay(self, run_id: str) -> Replay:
        """Replay a run against its record; see ``upshot.replay``.

        It uses the agent of the App, the App's options and those that the run was submitted with.

        Args:
            run_id: A run of the journal, ended or not; of a chain of handoffs, only this run.

        Returns:
            The first difference, or None if there is none, and the result of the replayed run.

        Raises:
            Misuse: There is no such run, it has not started yet, it was redacted, its engine
                cannot be replayed, or the App lacks its agent or what it was given.
            JournalError: The journal cannot be read.
        """
    async def note(self, run_id: str, name: str, value: Json, *, by: str = "") -> None:
        """Attach a note to a run; see ``upshot.note``."""
    async def inbox(
        self,
        *,
        user: str = "",
        assignee: str = "",
        agent: str = ...,
        before: str = ...,
        conversation: str = ...,
        limit: int | None = ...,
        owner: str = ...,
        run_id: str = ...,
        since: datetime | None = ...,
        tenant: str = ...,
        tool: str = ...,
        until: datetime | None = ...,
    ) -> tuple[InboxItem, ...]:
        """Return the unanswered questions of the runs; see ``upshot.inbox``.

        Args:
            user: Leave out what this user snoozed with ``later``; "" returns all.
            assignee: Only what ``assign`` gave to this user; "" returns all.
            agent: Only runs of this agent.
            before: Only runs that come after this one, the run of the previous page's last item.
            conversation: Only runs of this conversation.
            limit: The items of at most so many runs, from 1; None means all.
            owner: Only runs of this user: ``user`` of their attributes. Owner and tenant together
                identify a user: without a *tenant*, it is the user who belongs to no tenant.
            run_id: Only this run.
            since: Only items asked at or after this moment, with a time zone.
            tenant: Only runs of this tenant.
            tool: Only calls of this tool.
            until: Only items asked before it.
        """
    async def inbox_size(
        self,
        *,
        agent: str = ...,
        before: str = ...,
        conversation: str = ...,
        limit: int | None = ...,
        owner: str = ...,
        run_id: str = ...,
        since: datetime | None = ...,
        tenant: str = ...,
        tool: str = ...,
        until: datetime | None = ...,
    ) -> int:
        """Return how many items wait, snoozed ones included; filters as for ``inbox``."""
    async def grants(
        self, *, owner: str = "", tenant: str = "", limit: int = 100, withdrawn: bool = False
    ) -> tuple[Grant, ...]:
        """Return the standing approvals (``always``) of runs that have not ended.

        Args:
            owner: Only approvals in runs of this user (of *tenant*, or of no tenant); "" for all.
            tenant: Only approvals in runs of this tenant; "" for all.
            limit: Read at most this many running runs and this many waiting ones, the newest.
            withdrawn: Whether to list withdrawn ones too, with who did it and when.

        Raises:
            Misuse: *limit* is not a positive whole number.
            JournalError: A log is damaged, or the journal cannot be read.
        """
    async def withdraw(self, grant_id: str, *, by: str = "") -> None:
        """Withdraw a standing approval: the next call that it covered needs an approval again, in
        whichever process the run is worked on.

        Args:
            grant_id: The id of one of ``grants``.
            by: The person who withdraws it; ``grants(withdrawn=True)`` shows the name.

        Raises:
            Misuse: There is no standing approval with that id.
            JournalError: The journal cannot be read or written.
        """
    async def effects(
        self,
        *,
        after: str = ...,
        key: str = ...,
        limit: int | None = ...,
        run_id: str = ...,
        since: datetime | None = ...,
        state: EffectState | None = ...,
        tenant: str = ...,
        tool: str = ...,
        until: datetime | None = ...,
        user: str = ...,
    ) -> Sequence[EffectEntry]:
        """Return the effects that match, the unknown ones first; see ``EffectFilters``.

        Raises:
            Misuse: A filter is wrong, or the journal keeps no effects.
            JournalError: The journal cannot be read.
        """
    async def settle(self, id: str, *, applied: bool, by: str, note: str = "") -> EffectEntry:
        """Settle an unknown effect and return its entry; the first settlement wins.

        Args:
            id: The id of one of ``effects``.
            applied: Whether the effect happened. If not, its key is free again.
            by: Who found out, such as "ann" or "webhook:stripe".
            note: What they saw.

        Raises:
            Misuse: There is no such effect, it is not unknown, or *by* is empty.
            JournalError: The journal cannot be read or written.
        """
    async def check(self, id: str) -> EffectCheck:
        """Call ``verify`` about an unknown effect now, and settle the effect with the answer.

        Workers do this repeatedly in the background; call this if you do not want to wait.

        Args:
            id: The id of one of ``effects``.

        Raises:
            Misuse: There is no such effect, or the journal keeps none.
            JournalError: The journal cannot be read or written.
        """
    async def redact(self, *, conversation: str, by: str) -> Sequence[str]:
        """Permanently remove from the journal everything that was said in a conversation.

        What it cost and did, and who approved what and when, stays; see
        ``SharedJournal.redact``.

        Args:
            conversation: The conversation.
            by: The person who asks for it.

        Returns:
            The ids of its runs, of their child runs and of their forks.

        Raises:
            Misuse: There is no such conversation, or a run of it has not ended.
            JournalError: The journal cannot be read or written.
        """
    async def assign(self, run_id: str, item_id: str, *, to: str, by: str) -> None:
        """Assign an inbox item to a user: ``inbox(assignee=to)`` lists it, and its ``assigned``
        shows it to all. Other users may still answer it.

        Args:
            run_id: The run of the item.
            item_id: The id of the question, ``item.pending.id``.
            to: The user; "" removes the assignment.
            by: The person who assigns it.

        Raises:
            Misuse: An argument is wrong, or the inbox has no such item.
            JournalError: The journal cannot be read or written.
        """
    async def later(self, run_id: str, item_id: str, *, until: datetime | None, by: str) -> None:
        """Snooze an inbox item: ``inbox(user=by)`` leaves it out until then.

        It still waits for an answer, and other users still see it.

        Args:
            run_id: The run of the item.
            item_id: The id of the question, ``item.pending.id``.
            until: When it shows again, timezone-aware; None shows it at once.
            by: The user.

        Raises:
            Misuse: An argument is wrong, or the inbox has no such item.
            JournalError: The journal cannot be read or written.
        """
    async def runs(
        self,
        status: str | None = None,
        *,
        agent: str = "",
        conversation: str = "",
        effect: str = "",
        error_code: str = "",
        owner: str = "",
        tenant: str = "",
        tool: str = "",
        model: str = "",
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        currency: str = "",
        sort: str = "",
        before: str = "",
        limit: int | None = 100,
    ) -> Sequence[RunSummary]:
        """Return the runs of the journal, newest first.

        Args:
            status: Only runs with this status, or in this phase: "queued", "running", "due",
                "parked", "died" or "ended".
            agent: Only runs of this agent.
            conversation: Only runs of this conversation.
            effect: Only runs whose worst effect is this: "none", "applied" or "unknown".
            error_code: Only runs that failed with this code.
            owner: Only runs of this user, the ``user`` of their attributes. With a *tenant* it is
                that tenant's user, otherwise the user without a tenant.
            tenant: Only runs with this ``tenant`` in their attributes.
            tool: Only runs that called this tool, or wait to.
            model: Only runs that called this model, "provider:name", and have ended or wait.
            text: Only runs with this text in the listed part of request or answer, or at the
                beginning of the id; case is ignored.
            since: Only runs that started, or were submitted, at this moment or later;
                timezone-aware.
            until: Only runs that started, or were submitted, before this moment.
            currency: Only runs that cost money in this currency, such as "EUR".
            sort: Largest first, instead of newest first, and without runs that lack the figure:
                "cost" (one currency after another), "tokens", "took" (0.1 s or more), or "effect",
                where unknown is the largest.
            before: Only runs that come after this one: the last of the previous page.
            limit: The maximum number of runs, from 1; None returns all.

        Raises:
            Misuse: *limit* is not a positive whole number, there is no run *before*, no such
                effect or order, or a moment has no time zone.
            JournalError: The journal cannot be read.
        """
    async def counts(
        self,
        status: str | None = None,
        *,
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
    ) -> RunCounts:
        """Return the number of runs by status and error, and their cost by day.

        Args:
            status: As for ``runs``.
            agent_id: Only runs of this agent.
            before: Only runs that come after this one in the list: the last run of the previous
                page.
            context_id: Only runs of this conversation.
            currency: Only runs that cost money in this currency, such as "EUR".
            effect: Only runs with this worst effect: "none", "applied" or "unknown".
            error_code: Only runs that failed with this code.
            limit: The maximum number of runs, from 1; None returns all.
            model: Only runs whose last session has ended and that called this model,
                "provider:name".
            owner: Only runs of this user: ``user`` of their attributes. With *tenant*, it is a user
                of that tenant, otherwise a user without a tenant.
            parent_run_id: Only child runs of this run; "" gives root runs.
            prefix: Only runs whose id starts with this.
            run_id: Only this run.
            since: Only runs that started, or were submitted, at this moment or later; timezone-
                aware.
            sort: Sort by the largest first instead of the newest first, and omit runs without a
                value: "cost" (one currency after the other), "tokens", "took" (from a tenth of a
                second), or "effect", where unknown is the largest.
            tenant: Only runs of this ``tenant`` of their attributes.
            text: Only runs whose listed request or answer contains this text, in any case.
            tool: Only runs that called this tool, or wait to.
            until: Only runs that started, or were submitted, before this moment.

        Raises:
            Misuse: As for ``runs``.
            JournalError: The journal cannot be read.
        """
    async def conversation(self, id: str) -> Conversation:
        """Return the state of a conversation, folded from its runs.

        Raises:
            JournalError: One of its logs is damaged.
        """
    async def due(self, *, limit: int | None = None) -> Sequence[DueRun]:
        """Return the runs of its agents that are due; ``activate`` works on one.

        Args:
            limit: The maximum number of due runs; those whose holder died come in addition.

        Returns:
            See ``SharedJournal.due_runs``.

        Raises:
            JournalError: The journal cannot be read.
        """
    def asgi(
        self,
        *,
        user: UserOf | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        work: bool = True,
        max_body: int = 1000000,
        rate: int = 1000,
        trace_url: str = "",
        lab: Where | None = None,
        datasets: str | PathLike[str] | None = None,
    ) -> Starlette:
        """Return the App as an HTTP application: the console, the inbox, and standard protocols.

        Serve it alone or mount it in another application, whose lifespan must then enter its
        ``router.lifespan_context``. It opens the journal at startup, and closes it at the end.

        Args:
            user: Returns the ``upshot.serve.User`` who sent a request, or None; plain or async.
            hosts: The host names by which it is reached, besides those of this machine.
            origins: Origins of other sites whose pages may send requests.
            work: Whether this process also works on runs while it serves.
            max_body: The maximum size of a request in bytes.
            rate: The number of requests that one client address may send within ten seconds.
            trace_url: Where the spans of a run are, with ``{run_id}`` for its id.
            lab: The journal of experiments that the console shows, such as "lab.db".
            datasets: The folder where users collect runs into datasets.

        Raises:
            Misuse: *user* is missing, an argument is wrong, or the extra ``serve`` is missing.
        """
    def tools_of(self, agent_id: str) -> tuple[Any, ...]:
        """Return the tools that runs of an agent are given: the agent's and the App's."""
    def each_tool(self, agent_id: str) -> Iterator[Tool[..., Any]]:
        """Yield the tools that runs of an agent are given, those in toolsets too."""
    async def call_of(self, entry: EffectEntry) -> tuple[ToolStarted | None, ToolSettled | None]:
        """Return the start and the end of an effect's call, from the log of its run.

        The App's secrets are put back in place of their marks.

        Raises:
            JournalError: The log is damaged or cannot be read.
        """
    def has_deciders(self, agent_id: str) -> bool:
        """Whether an agent's answer may still be discarded or revised until its run ends."""
    def agent_of(self, agent: Agent[Any] | str) -> Agent[Any]:
        """Return the agent of the App that *agent* names.

        Raises:
            Misuse: The App has no such agent.
        """
    async def activate(
        self, run_id: str, *, on_live: OnLive | None = None
    ) -> AgentResult[Any] | None:
        """Claim a run and work on it until it ends or parks.

        It starts from its submission, or resumes from its log. Even if several processes activate
        it at once, it starts once. A cancel ends the run as it does in ``run``.

        Args:
            run_id: A run of the journal.
            on_live: Called with the run when it starts, and with each run that follows it.

        Returns:
            The result. None if there was nothing to do here: another session works on the run, or
            another turn of its conversation is in the way, and it is due again soon.

        Raises:
            Misuse: There is no such run, or the App lacks what it was given.
            JournalError: The journal cannot be read or written.
        """
    async def why_left(self, run: DueRun) -> str:
        """Return why this App cannot resume a run, or leaves it to others at first; "" if neither.

        Args:
            run: A due run; it is not claimed.
        """
