"""App: agents, what they are given, and the journal through which processes share their runs."""

from __future__ import annotations

import hashlib
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent, DependencyFactory
from upshot.contract.base.checks import Allowed, check_argument, did_you_mean
from upshot.contract.base.enums import ErrorCode, Status
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.conversation import Conversation
from upshot.contract.effects import EffectCheck, EffectEntry, EffectFilters
from upshot.contract.events import ToolSettled, ToolStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import Journal, Model, RunCounts, RunFilters, RunSummary
from upshot.contract.result import AgentResult
from upshot.contract.settings import Policy, Quota
from upshot.effects import settling
from upshot.entry.annotations import (
    Grant,
    assign_item,
    keep_note,
    list_grants,
    put_off,
    visible_items,
    withdraw_grant,
)
from upshot.entry.answers import answer_run
from upshot.entry.conversations import check_not_redacted, with_conversation
from upshot.entry.handoff_loop import AgentRegistry, OnLive, relay, resume_any, wait_until_finished
from upshot.entry.planning import known_of, new_run_id
from upshot.entry.replay_run import Replay, replay_run
from upshot.entry.run_handle import RunHandle, handle_of
from upshot.entry.run_lease import is_at_work
from upshot.entry.session_setup import KnownRun, begin, check_again, has_log
from upshot.errors import JournalError, Misuse, need_of_extra
from upshot.fleet.answer_links import AnswerLinks, notify_parked
from upshot.fleet.schedules import (
    Missed,
    RequestSource,
    Schedule,
    Scheduler,
    ScheduleState,
    make_rule,
    make_schedule,
)
from upshot.fleet.submission import (
    MOMENT,
    AppOptions,
    SubmitOptions,
    check_at,
    check_data,
    digest_of,
    from_data,
    lifted,
    masked,
    to_data,
)
from upshot.fleet.verifier import Verifier
from upshot.journal.lease_holder import RunHeld
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.opening import needs_renewal, open_journal
from upshot.journal.shared import DueRun, InboxFilters, InboxItem, Submission, needs_shared
from upshot.lazy import load_above
from upshot.runs.limits.pacer import Pacer
from upshot.runs.plan import (
    OPTIONS,
    MadeBy,
    ResumeOptions,
    RunOptions,
    Where,
    check_encodable,
    check_options,
    check_run_id,
    to_request,
)
from upshot.runs.redaction import lift_secrets
from upshot.state.stored_events import seeds_of, states
from upshot.tools.definition.tool import Tool

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from upshot.contract.user import UserOf

AsgiEvent = MutableMapping[str, object]
"""An ASGI scope or event."""

AsgiApp = Callable[
    [AsgiEvent, Callable[[], Awaitable[AsgiEvent]], Callable[[AsgiEvent], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI 3 application."""

Notify: TypeAlias = Callable[[Sequence[InboxItem]], Awaitable[None] | None]

_FACTORY = Allowed("a function of the RunInfo that makes them", methods=("__call__",))
_AGENTS = Allowed("a list of Agents, App(agents=[...])", items=Allowed("an Agent", (Agent,)))
_NAMED = Allowed("an agent of the App, or its id", (str, Agent))
_WHOLE = Allowed("a whole number", (int,), but=(bool,))
_NOTIFY = Allowed("a function of the items", methods=("__call__",))
_LINKS = Allowed("an AnswerLinks", (AnswerLinks,))
_STRING = Allowed("a string", (str,))
_DIGEST_CHARS = 12
# How often a request may be handed over, as in run_with_handoffs.
_DEPTH = 8
# How long a turn is postponed if another turn of its conversation is in the way.
_TURN_WAIT_S = 1.0


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
        options: Options of ``run`` for every session: any of approve, artifact_store,
            committers, deciders, gates, host, observers, on_pre_tool_use, prices, tools.

    Attributes:
        agents: The agents by id, with those that they hand over to.
        journal: The journal of the runs; may be set until it is opened.
        version: The code's name.
        schedules: The schedules by name; see ``schedule``.
        answer_links: As given.

    Raises:
        Misuse: An argument is wrong, or two agents have one id.
    """

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
        **options: Unpack[AppOptions],
    ) -> None:
        for name in options.keys() - AppOptions.__optional_keys__:
            known = [*AppOptions.__optional_keys__, *signature(App).parameters]
            hint = did_you_mean(name, known, f"there are {', '.join(sorted(known))}")
            raise Misuse(f"an App has no option {name!r}: {hint}")
        check_options(options)
        given: dict[str, Any] = {
            **options,
            "secrets": secrets,
            "model": model,
            "pacer": pacer,
            "policy": policy,
            "quotas": tuple(quotas),
        }
        given = {name: value for name, value in given.items() if value is not None}
        for name, value in given.items():
            check_argument(f"{name} of an App", value, OPTIONS[name])
        others = {"dependencies": (dependencies, _FACTORY), "notify": (notify, _NOTIFY)}
        others |= {"answer_links": (answer_links, _LINKS), "version": (version, _STRING)}
        for name, (value, allowed) in others.items():
            if value is not None:
                check_argument(f"{name} of an App", value, allowed)
        self.agents: Mapping[str, Agent[Any]] = AgentRegistry(_check_agents(agents), None).by_id
        self.journal: Where | None = journal
        self.version: str = _digest(self.agents.values()) if version is None else version
        self.schedules: dict[str, Schedule] = {}
        self._notify = notify
        self.answer_links: AnswerLinks | None = answer_links
        self._secrets: tuple[str, ...] = tuple(secrets)
        given["secrets"] = self._secrets
        if dependencies is not None:
            given["dependencies"] = MadeBy(dependencies)
        # What every session of a run is given.
        self._options: dict[str, Any] = given
        self._opened = AsyncExitStack()
        self._journal: Journal | None = None

    def __repr__(self) -> str:
        return f"App({', '.join(self.agents)})"

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the journal, unless it was given open; may be called again."""
        self._journal = None
        await self._opened.aclose()

    async def open(self) -> Journal:
        """Return the journal, opened.

        Raises:
            Misuse: The App has no journal, or one through which processes cannot share runs.
            JournalError: It cannot be opened.
        """
        if self._journal is None or needs_renewal(self._journal, self.journal):
            if self.journal is None:
                raise Misuse("the App has no journal: give App(..., journal='runs.db')")
            opened = await self._opened.enter_async_context(open_journal(self.journal))
            needs_shared(opened)
            self._journal = opened
        return self._journal

    async def submit(
        self,
        agent: Agent[Any] | str,
        request: Request | Message | str,
        *,
        conversation: str | None = None,
        at: datetime | None = None,
        key: str | None = None,
        priority: int = 0,
        **options: Unpack[SubmitOptions],
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
            options: Options that are data: any of artifacts, attributes, budget, history,
                if_waiting, max_attempts, model, policy, quotas, remember, retry, settings.

        Returns:
            The handle of the run.

        Raises:
            Misuse: An argument is wrong or not data, there is no such agent, the journal already
                has a run with the request's run_id, or *key* was used for another request
                (conflict).
            JournalError: The journal cannot be written.
        """
        found = self.agent_of(agent)
        check_data(options)
        check_argument("priority", priority, _WHOLE)
        if key is not None:
            check_argument("key", key, _STRING)
            check_encodable("key", key)
            if not key:
                raise Misuse("key is empty: give a text that names the request, or leave it out")
        check_at(at)
        journal = await self.open()
        asked = with_conversation(
            to_request(request), RunOptions(conversation=conversation or ""), journal
        )
        data = to_data(options)
        new = Submission(
            run_id=asked.run_id or new_run_id(),
            agent_id=found.id,
            request=asked,
            options=data,
            priority=priority,
            at=at,
            key=key or "",
            digest=digest_of(found.id, asked, data, self._secrets),
            version=self.version,
        )
        if asked.context_id:
            runs = await journal.runs(context_id=asked.context_id, limit=1)
            await check_not_redacted(runs, journal)
        kept = await needs_shared(journal).submit(masked(new, self._secrets))
        if kept.digest != new.digest:
            raise Misuse(
                f"conflict: the key {key!r} was used for another request, in run "
                f"{kept.run_id}: give each request its own key"
            )
        return RunHandle(kept.run_id, journal, secrets=self._secrets)

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
        **options: Unpack[SubmitOptions],
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
            options: As for ``submit``.

        Raises:
            Misuse: An argument is wrong, or another schedule has the name.
        """
        rule, id = make_rule(name, cron, every, at, tz), self.agent_of(agent).id
        made = make_schedule(name, id, request, rule, missed, overlap=overlap, options=options)
        if self.schedules.setdefault(name, made) is not made:
            raise Misuse(f"the App has a schedule {name!r} already: give each one its own name")

    async def schedule_states(self) -> tuple[ScheduleState, ...]:
        """Return when each schedule runs next, when it last did, and what it missed.

        Raises:
            JournalError: The journal cannot be read.
        """
        return await Scheduler(cast("Any", self)).states()

    async def run(self, run_id: str) -> RunHandle:
        """Return the handle of a run of the journal, whichever process works on it.

        Raises:
            Misuse: There is no such run.
            JournalError: The journal cannot be read.
        """
        check_run_id(run_id)
        return await handle_of(run_id, await self.open(), secrets=self._secrets)

    async def answer(self, run_id: str, *answers: AnyAnswer) -> tuple[Taken | Outdated, ...]:
        """Answer what a parked run waits for; see ``upshot.answer``."""
        journal = await self.open()
        return await answer_run(run_id, answers, journal=journal, secrets=self._secrets)

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
        journal = await self.open()
        started = (await (await self.run(run_id)).state()).started
        if started is None:
            raise Misuse(f"run {run_id} cannot be replayed: it has not started yet")
        new = await needs_shared(journal).submission(run_id)
        agent = self.agent_of(started.agent.id)
        return await replay_run(run_id, agent, journal=journal, options=self._resume_options(new))

    async def note(self, run_id: str, name: str, value: Json, *, by: str = "") -> None:
        """Attach a note to a run; see ``upshot.note``."""
        await keep_note(run_id, name, value, by=by, journal=await self.open())

    async def inbox(
        self, *, user: str = "", assignee: str = "", **filters: Unpack[InboxFilters]
    ) -> tuple[InboxItem, ...]:
        """Return the unanswered questions of the runs; see ``upshot.inbox``.

        Args:
            user: Leave out what this user snoozed with ``later``; "" returns all.
            assignee: Only what ``assign`` gave to this user; "" returns all.
            filters: As for ``upshot.inbox``.
        """
        filters.setdefault("limit", 20)
        journal = needs_shared(await self.open())
        return await visible_items(user, assignee, journal, filters)

    async def inbox_size(self, **filters: Unpack[InboxFilters]) -> int:
        """Return how many items wait, snoozed ones included; filters as for ``inbox``."""
        return await needs_shared(await self.open()).inbox_size(**filters)

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
        journal = await self.open()
        return await list_grants(
            journal, owner=owner, tenant=tenant, limit=limit, withdrawn=withdrawn
        )

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
        await withdraw_grant(grant_id, await self.open(), by)

    async def effects(self, **filters: Unpack[EffectFilters]) -> Sequence[EffectEntry]:
        """Return the effects that match, the unknown ones first; see ``EffectFilters``.

        Raises:
            Misuse: A filter is wrong, or the journal keeps no effects.
            JournalError: The journal cannot be read.
        """
        return await settling.needs_ledger(await self.open()).effects(**filters)

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
        ledger = settling.needs_ledger(await self.open())
        return await settling.settle(ledger, id, applied=applied, by=by, note=note)

    async def check(self, id: str) -> EffectCheck:
        """Call ``verify`` about an unknown effect now, and settle the effect with the answer.

        Workers do this repeatedly in the background; call this if you do not want to wait.

        Args:
            id: The id of one of ``effects``.

        Raises:
            Misuse: There is no such effect, or the journal keeps none.
            JournalError: The journal cannot be read or written.
        """
        found = await Verifier(cast("Any", self)).check_now(id)
        return Secrets(self._secrets).mask(found)

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
        return await needs_shared(await self.open()).redact(conversation=conversation, by=by)

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
        await assign_item(run_id, item_id, to, by, needs_shared(await self.open()))

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
        check_argument("until", until, MOMENT)
        await put_off(run_id, item_id, until, by, needs_shared(await self.open()))

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
        return await (await self.open()).runs(
            status,
            agent_id=agent,
            context_id=conversation,
            effect=effect,
            error_code=error_code,
            owner=owner,
            tenant=tenant,
            tool=tool,
            model=model,
            text=text,
            since=since,
            until=until,
            currency=currency,
            sort=sort,
            before=before,
            limit=limit,
        )

    async def counts(self, status: str | None = None, **filters: Unpack[RunFilters]) -> RunCounts:
        """Return the number of runs by status and error, and their cost by day.

        Args:
            status: As for ``runs``.
            filters: Which runs; as for ``Journal.runs``.

        Raises:
            Misuse: As for ``runs``.
            JournalError: The journal cannot be read.
        """
        return await needs_shared(await self.open()).counts(status, **filters)

    async def conversation(self, id: str) -> Conversation:
        """Return the state of a conversation, folded from its runs.

        Raises:
            JournalError: One of its logs is damaged.
        """
        return await cast("MemoryJournal", await self.open()).conversation(id)

    async def due(self, *, limit: int | None = None) -> Sequence[DueRun]:
        """Return the runs of its agents that are due; ``activate`` works on one.

        Args:
            limit: The maximum number of due runs; those whose holder died come in addition.

        Returns:
            See ``SharedJournal.due_runs``.

        Raises:
            JournalError: The journal cannot be read.
        """
        return await needs_shared(await self.open()).due_runs(self.agents, limit=limit)

    def asgi(
        self,
        *,
        user: UserOf | None = None,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        work: bool = True,
        max_body: int = 1_000_000,
        rate: int = 1_000,
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
        if user is None:
            raise Misuse(
                "asgi() needs user=, a function of the request that returns an upshot.serve.User, "
                "or None to refuse it: without it every visitor could see and answer everything"
            )
        try:
            site_of = load_above("Site")
        except ModuleNotFoundError as error:
            raise Misuse(need_of_extra("App.asgi", "serve")) from error
        return site_of(
            self,
            user=user,
            hosts=hosts,
            origins=origins,
            work=work,
            max_body=max_body,
            rate=rate,
            trace_url=trace_url,
            lab=lab,
            datasets=datasets,
        ).asgi()

    def tools_of(self, agent_id: str) -> tuple[Any, ...]:
        """Return the tools that runs of an agent are given: the agent's and the App's."""
        agent = self.agents.get(agent_id)
        own = () if agent is None else (agent.tools or ())
        return (*own, *self._options.get("tools", ()))

    def each_tool(self, agent_id: str) -> Iterator[Tool[..., Any]]:
        """Yield the tools that runs of an agent are given, those in toolsets too."""
        return _tools_in(self.tools_of(agent_id))

    async def call_of(self, entry: EffectEntry) -> tuple[ToolStarted | None, ToolSettled | None]:
        """Return the start and the end of an effect's call, from the log of its run.

        The App's secrets are put back in place of their marks.

        Raises:
            JournalError: The log is damaged or cannot be read.
        """
        journal = await self.open()
        started: ToolStarted | None = None
        last = max(entry.started_seq, entry.settled_seq)
        read = lift_secrets(self._secrets, hides_others=False)
        logged = journal.events(entry.run_id)
        async for event, _ in states(logged, read=read, seeds=seeds_of(journal)):
            if isinstance(event, ToolStarted) and event.call_id == entry.call_id:
                started = event
            if event.seq >= last:
                if isinstance(event, ToolSettled) and event.call_id == entry.call_id:
                    return started, event
                break
        return started, None

    def has_deciders(self, agent_id: str) -> bool:
        """Whether an agent's answer may still be discarded or revised until its run ends."""
        agent = self.agents.get(agent_id)
        own = () if agent is None else tuple(agent.deciders)
        return bool((*own, *self._options.get("deciders", ())))

    def agent_of(self, agent: Agent[Any] | str) -> Agent[Any]:
        """Return the agent of the App that *agent* names.

        Raises:
            Misuse: The App has no such agent.
        """
        check_argument("agent", agent, _NAMED)
        name = agent if isinstance(agent, str) else agent.id
        found = self.agents.get(name)
        if found is None or not (agent is found or isinstance(agent, str)):
            hint = did_you_mean(name, self.agents, f"there are {', '.join(self.agents)}")
            if found is not None:
                hint = "the App has another agent with this id; give the id"
            raise Misuse(f"the App has no such agent {name!r}: {hint}")
        return found

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
        check_run_id(run_id)
        journal = await self.open()
        if is_at_work(run_id, journal):
            return None
        try:
            result = await self._work_on(run_id, journal, on_live)
        except (RunHeld, KnownRun):
            # Another session claimed it first.
            return None
        is_parked = result.status == Status.INPUT_REQUIRED
        if is_parked and self._notify is not None:
            return await notify_parked(result, journal, self._notify, self.answer_links)
        if result.error is None or result.error.code != ErrorCode.CONFLICT:
            return result
        if await has_log(run_id, journal):
            return result
        await needs_shared(journal).make_due(run_id, "conversation", delay_s=_TURN_WAIT_S)
        return None

    async def _work_on(
        self, run_id: str, journal: Journal, on_live: OnLive | None
    ) -> AgentResult[Any]:
        """Start a run, or resume it."""
        new = await needs_shared(journal).submission(run_id)
        if await has_log(run_id, journal) or (new is not None and new.after):
            agents, options = [*self.agents.values()], self._resume_options(new)
            return await resume_any(run_id, agents, journal, (), options, on_live=on_live)
        if new is None:
            raise Misuse(f"the journal has no run {run_id!r} to work on")
        return await self._start(new, journal, on_live)

    async def _start(
        self, new: Submission, journal: Journal, on_live: OnLive | None
    ) -> AgentResult[Any]:
        """Start a run as it was submitted, and work on it."""
        agent, new = self.agent_of(new.agent_id), lifted(new, self._secrets)
        request = replace(new.request, run_id=new.run_id)
        given = self._session_options(new, goes_on=False)
        options = cast("RunOptions", {**given, "journal": journal})
        if agent.handoffs:
            agents = self.agents.values()
            chain = relay(agents, request, options, start=agent, max_depth=_DEPTH)
            chain.on_live = on_live
            return await chain.run()
        async with begin(agent, request, options) as live:
            return await wait_until_finished(live, on_live)

    def _session_options(self, new: Submission | None, *, goes_on: bool) -> dict[str, Any]:
        """Return the options of a session: those of the App, and those it was submitted with."""
        submitted = {} if new is None else from_data(new.options, goes_on=goes_on)
        given = {**self._options, **submitted}
        given["quotas"] = (*self._options["quotas"], *submitted.get("quotas", ()))
        given["priority"] = 0 if new is None else new.priority
        return given

    def _resume_options(self, new: Submission | None) -> ResumeOptions:
        """Return the options for resuming a run."""
        given = self._session_options(new and lifted(new, self._secrets), goes_on=True)
        if new is not None and new.after:
            # The log has the budget that is left for this run.
            given.pop("budget", None)
        return cast("ResumeOptions", given)

    async def why_left(self, run: DueRun) -> str:
        """Return why this App cannot resume a run, or leaves it to others at first; "" if neither.

        Args:
            run: A due run; it is not claimed.
        """
        journal = await self.open()
        if not run.has_begun:
            return ""
        try:
            new = await needs_shared(journal).submission(run.run_id)
            await check_again(
                run.run_id, self.agent_of(run.agent_id), self._resume_options(new), journal
            )
        except (Misuse, JournalError) as error:
            return str(error)
        if new is None or new.version == self.version:
            return ""
        return f"it began with version {new.version}"


def _tools_in(items: Iterable[object]) -> Iterator[Tool[..., Any]]:
    for item in items:
        if isinstance(item, Tool):
            yield cast("Tool[..., Any]", item)
        elif isinstance(item, Iterable) and not isinstance(item, str):
            yield from _tools_in(cast("Iterable[object]", item))


def _check_agents(agents: object) -> tuple[Agent[Any], ...]:
    """Return the agents that an App was given."""
    check_argument("agents of an App", agents, _AGENTS)
    if found := tuple(cast("Iterable[Agent[Any]]", agents)):
        return found
    raise Misuse("an App needs an agent: give App(agents=[Agent('support', ...)])")


def _digest(agents: Iterable[Agent[Any]]) -> str:
    """Return a name for the code: a digest of agents, instructions and tool schemas."""
    facts: list[object] = []
    for agent in sorted(agents, key=lambda one: one.id):
        known = known_of(agent)
        facts.append((agent.spec(), [tool.version for tool in known.tools or ()]))
    return hashlib.sha256(encode(facts)).hexdigest()[:_DIGEST_CHARS]
