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
from datetime import datetime
from inspect import signature
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent, DependencyFactory
from upshot.contract.base.checks import Allowed, check_argument, did_you_mean
from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.base.secrets import Secrets
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.conversation import Conversation
from upshot.contract.effects import EffectCheck, EffectEntry, EffectFilters
from upshot.contract.error import RunWarning
from upshot.contract.events import ToolSettled, ToolStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import Journal, Model, RunCounts, RunFilters, RunSummary
from upshot.contract.result import AgentResult
from upshot.contract.settings import Policy, Quota
from upshot.effects import settling
from upshot.entry.answers import answer_run
from upshot.entry.conversations import check_not_redacted, with_conversation
from upshot.entry.grants import Grant, list_grants, withdraw_grant
from upshot.entry.handoff_loop import AgentRegistry, OnLive, finished, relay, resume_any
from upshot.entry.later import assign_item, put_off, shown_to
from upshot.entry.notes import keep_note
from upshot.entry.planning import known_of, new_run_id
from upshot.entry.replay_run import Replay, replay_run
from upshot.entry.run_handle import RunHandle, handle_of
from upshot.entry.run_lease import is_at_work
from upshot.entry.session_setup import KnownRun, begin, check_again, has_log, run_child
from upshot.errors import JournalError, Misuse, need_of_extra
from upshot.fleet.submission import (
    AppOptions,
    SubmitOptions,
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
from upshot.journal.opening import open_journal
from upshot.journal.shared import DueRun, InboxFilters, InboxItem, Submission, needs_shared
from upshot.runs.callbacks import call, raised
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

    from upshot.serve.users import UserOf

AsgiEvent = MutableMapping[str, object]
"""A scope or an event of ASGI."""

AsgiApp = Callable[
    [AsgiEvent, Callable[[], Awaitable[AsgiEvent]], Callable[[AsgiEvent], Awaitable[None]]],
    Awaitable[None],
]
"""An application as ASGI 3 has it."""

Notify: TypeAlias = Callable[[Sequence[InboxItem]], Awaitable[None] | None]

_FACTORY = Allowed("a function of the RunInfo that makes them", methods=("__call__",))
_AGENTS = Allowed("a list of Agents, App(agents=[...])", items=Allowed("an Agent", (Agent,)))
_NAMED = Allowed("an agent of the App, or its id", (str, Agent))
_WHOLE = Allowed("a whole number", (int,), but=(bool,))
_NOTIFY = Allowed("a function of the items", methods=("__call__",))
_STRING = Allowed("a string", (str,))
_MOMENT = Allowed("a moment, such as datetime.now(UTC)", (datetime, type(None)))
_DIGEST_CHARS = 12
# How often a request may be handed over, as run_with_handoffs has it.
_DEPTH = 8
# So long a turn is put off that finds another one of its conversation in the way.
_TURN_WAIT_S = 1.0


class App:
    """Agents and what they are given, for runs that any process may begin, watch and work on.

    Used as an async context manager, or closed by ``aclose``. The journal is opened at first use.

    Args:
        agents: The agents, each under an id of its own. Agents that they hand over to need not be
            listed.
        dependencies: Makes the dependencies of a session from its RunInfo, once a session: a
            function, plain or async, or one that returns an async context manager. It wins over
            what agents have.
        journal: A path, "memory:", a database's URL, or an open journal.
        model: "provider:name" or a Model, in place of those of the agents.
        pacer: Has the model calls of all runs wait for their turn in the provider's limits.
        policy: Rules on tools, for runs that are submitted without rules of their own.
        quotas: Caps on the money, tokens and runs of all runs.
        secrets: Texts that are masked in the journal and in what is shown; a worker needs the same.
        notify: Called with what a run waits for whenever one parks here with something to answer;
            plain or async. What it raises is a warning of the result.
        version: Names the code; None is a digest of agents, instructions and tool schemas.
        options: Options of ``run`` that every session is given: any of approve, artifact_store,
            committers, deciders, gates, host, observers, on_pre_tool_use, prices, tools.

    Attributes:
        agents: The agents by id, with those that they hand over to.
        journal: Where the runs are; may be set until the journal is opened.
        version: The code's name.

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
        if dependencies is not None:
            check_argument("dependencies of an App", dependencies, _FACTORY)
        if notify is not None:
            check_argument("notify of an App", notify, _NOTIFY)
        if version is not None:
            check_argument("version of an App", version, _STRING)
        self.agents: Mapping[str, Agent[Any]] = AgentRegistry(_listed(agents), None).by_id
        self.journal: Where | None = journal
        self.version: str = _digest(self.agents.values()) if version is None else version
        self._notify = notify
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
        """The journal, opened.

        Raises:
            Misuse: The App has none, or one through which processes cannot share runs.
            JournalError: It cannot be opened.
        """
        if self._journal is None:
            if self.journal is None:
                raise Misuse("the App has no journal: give App(..., journal='runs.db')")
            opened = await self._opened.enter_async_context(open_journal(self.journal))
            needs_shared(opened)
            self._journal = self._journal or opened
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
        """Have a run worked on by whoever takes it up; it is in the journal when this returns.

        Args:
            agent: An agent of the App, or its id.
            request: What is asked.
            conversation: The conversation of which it is a turn; it waits for the turn before.
            at: From when on it may be taken up, timezone-aware; None is at once.
            key: Names the request for you: submitted again with it, it gives the same run, until
                30 days after its end.
            priority: Runs with a larger one are taken up first, and go first with the pacer.
            options: Options that are data: any of artifacts, attributes, budget, history,
                if_waiting, max_attempts, model, policy, quotas, remember, retry, settings.

        Returns:
            The handle of the run.

        Raises:
            Misuse: An argument is wrong or no data, there is no such agent, the journal has a run
                of the request's run_id, or *key* was used for another request (conflict).
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
                f"conflict: the key {key!r} was used for another request, that of run "
                f"{kept.run_id}: give each request a key of its own"
            )
        return RunHandle(kept.run_id, journal)

    async def run(self, run_id: str) -> RunHandle:
        """The handle of a run of the journal, whoever works on it.

        Raises:
            Misuse: There is no such run.
            JournalError: The journal cannot be read.
        """
        check_run_id(run_id)
        return await handle_of(run_id, await self.open())

    async def answer(self, run_id: str, *answers: AnyAnswer) -> tuple[Taken | Outdated, ...]:
        """Answer what a parked run waits for; see ``upshot.answer``."""
        return await answer_run(run_id, answers, journal=await self.open())

    async def replay(self, run_id: str) -> Replay:
        """Run a run once more against its record; see ``upshot.replay``.

        It has the agent of the App, and what the App and who submitted it gave it.

        Args:
            run_id: A run of the journal, ended or not; one that was handed over is one of several.

        Returns:
            The first difference, None if there is none, and the result of the replayed run.

        Raises:
            Misuse: There is no such run, nobody has begun it yet, it was redacted, its engine
                cannot be replayed, or the App lacks its agent or what it was given.
            JournalError: The journal cannot be read.
        """
        journal = await self.open()
        started = (await (await self.run(run_id)).state()).started
        if started is None:
            raise Misuse(f"run {run_id} cannot be replayed: nobody has begun it yet")
        new = await needs_shared(journal).submission(run_id)
        agent = self.agent_of(started.agent.id)
        return await replay_run(run_id, agent, journal=journal, options=self._onward(new))

    async def note(self, run_id: str, name: str, value: Json, *, by: str = "") -> None:
        """Note something of a run; see ``upshot.note``."""
        await keep_note(run_id, name, value, by=by, journal=await self.open())

    async def inbox(
        self, *, user: str = "", assignee: str = "", **filters: Unpack[InboxFilters]
    ) -> tuple[InboxItem, ...]:
        """All that the runs wait for and nobody has answered; see ``upshot.inbox``.

        Args:
            user: Without what this user put off by ``later``; "" gives all.
            assignee: Only what ``assign`` gave to this user; "" gives all.
            filters: As ``upshot.inbox`` takes them.
        """
        filters.setdefault("limit", 20)
        journal = needs_shared(await self.open())
        return await shown_to(user, assignee, journal, filters)

    async def inbox_size(self, **filters: Unpack[InboxFilters]) -> int:
        """How many items wait, those that a user put off among them; filters as of ``inbox``."""
        return await needs_shared(await self.open()).inbox_size(**filters)

    async def grants(
        self, *, owner: str = "", tenant: str = "", limit: int = 100, withdrawn: bool = False
    ) -> tuple[Grant, ...]:
        """The standing approvals: what people let run ``always`` in runs that have not ended.

        Args:
            owner: Only those of runs of this user of *tenant*, or of none; "" for all.
            tenant: Only those of runs of this tenant, "" for all.
            limit: Of at most so many runs at work, and so many that wait, the newest.
            withdrawn: Whether to list those too that were withdrawn, with who did it and when.

        Raises:
            Misuse: *limit* is not a positive whole number.
            JournalError: A log is damaged, or the journal cannot be read.
        """
        journal = await self.open()
        return await list_grants(
            journal, owner=owner, tenant=tenant, limit=limit, withdrawn=withdrawn
        )

    async def withdraw(self, grant_id: str, *, by: str = "") -> None:
        """Withdraw a standing approval: the next call that it covered is asked about, in whichever
        process the run is worked on.

        Args:
            grant_id: The id of one of ``grants``.
            by: Who wants it; ``grants(withdrawn=True)`` says so.

        Raises:
            Misuse: There is none of that id.
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
        """Settle an unknown effect; returns the entry as it stands: the first answer counts.

        Args:
            id: The id of one of ``effects``.
            applied: Whether it was made. If not, its key is free again.
            by: Who found out, such as "ann" or "webhook:stripe".
            note: What they saw.

        Raises:
            Misuse: There is no such effect, it is not unknown, or nobody is named.
            JournalError: The journal cannot be read or written.
        """
        ledger = settling.needs_ledger(await self.open())
        return await settling.settle(ledger, id, applied=applied, by=by, note=note)

    async def check(self, id: str) -> EffectCheck:
        """Ask ``verify`` about an unknown effect now; what it finds out settles the effect.

        Workers ask by themselves, again and again; call this if you do not want to wait.

        Args:
            id: The id of one of ``effects``.

        Raises:
            Misuse: There is no such effect, or the journal keeps none.
            JournalError: The journal cannot be read or written.
        """
        found = await Verifier(cast("Any", self)).look(id)
        return Secrets(self._secrets).mask(found)

    async def redact(self, *, conversation: str, by: str) -> Sequence[str]:
        """Take out of the journal all that was said in a conversation, for good.

        What it cost and did, and who approved what and when, stays; see
        ``SharedJournal.redact``.

        Args:
            conversation: The conversation.
            by: Who wants it.

        Returns:
            The ids of its runs, of their child runs and of their forks.

        Raises:
            Misuse: There is no such conversation, or a run of it has not ended.
            JournalError: The journal cannot be read or written.
        """
        return await needs_shared(await self.open()).redact(conversation=conversation, by=by)

    async def assign(self, run_id: str, item_id: str, *, to: str, by: str) -> None:
        """Say who is to answer an item of the inbox: ``inbox(assignee=to)`` lists it, and its
        ``assigned`` says so to all. Others may answer it as before.

        Args:
            run_id: The run of the item.
            item_id: The id of what is asked, ``item.pending.id``.
            to: The user; "" takes it back.
            by: Who says so.

        Raises:
            Misuse: An argument is wrong, or the inbox has no such item.
            JournalError: The journal cannot be read or written.
        """
        await assign_item(run_id, item_id, to, by, needs_shared(await self.open()))

    async def later(self, run_id: str, item_id: str, *, until: datetime | None, by: str) -> None:
        """Put an item of the inbox off: ``inbox(user=by)`` leaves it out until then.

        It still waits, and is there for everybody else.

        Args:
            run_id: The run of the item.
            item_id: The id of what is asked, ``item.pending.id``.
            until: Until when, timezone-aware; None has it there again.
            by: The user.

        Raises:
            Misuse: An argument is wrong, or the inbox has no such item.
            JournalError: The journal cannot be read or written.
        """
        check_argument("until", until, _MOMENT)
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
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        currency: str = "",
        sort: str = "",
        before: str = "",
        limit: int | None = 100,
    ) -> Sequence[RunSummary]:
        """The runs of the journal, newest first.

        Args:
            status: Only those of this status, or in this phase: "queued", "running", "due",
                "parked", "died" or "ended".
            agent: Only those of this agent.
            conversation: Only those of this conversation.
            effect: Only those of which this is the worst that they did: "none", "applied" or
                "unknown".
            error_code: Only those that failed with this code.
            owner: Only those of this user: ``user`` of their attributes. A user is named by both:
                with a *tenant* it is that of the tenant, without one the user of no tenant.
            tenant: Only those of this ``tenant`` of their attributes.
            tool: Only those that called this tool, or wait to.
            text: Only those with this text in what is listed of request or answer, in any case.
            since: Only those that began, or were submitted, then or later; timezone-aware.
            until: Only those that began, or were submitted, before that.
            currency: Only those that cost money in this currency, such as "EUR".
            sort: In place of the newest first, the largest first, of those that have any: "cost"
                (one currency after the other), "tokens", "took" (from a tenth of a second), or
                "effect", where what nobody knows is the largest.
            before: Only those that come after this one: the last of the previous page.
            limit: The most to give, from 1; None gives all.

        Raises:
            Misuse: *limit* is not a positive whole number, there is no run *before*, no such
                effect or order, or a moment without a time zone.
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
            text=text,
            since=since,
            until=until,
            currency=currency,
            sort=sort,
            before=before,
            limit=limit,
        )

    async def counts(self, status: str | None = None, **filters: Unpack[RunFilters]) -> RunCounts:
        """How many runs there are by status and error, and their cost by day.

        Args:
            status: As of ``runs``.
            filters: Which runs; as ``Journal.runs`` takes them.

        Raises:
            Misuse: As of ``runs``.
            JournalError: The journal cannot be read.
        """
        return await needs_shared(await self.open()).counts(status, **filters)

    async def conversation(self, id: str) -> Conversation:
        """What the runs of a conversation come to.

        Raises:
            JournalError: A log of it is damaged.
        """
        return await cast("MemoryJournal", await self.open()).conversation(id)

    async def due(self, *, limit: int | None = None) -> Sequence[DueRun]:
        """The runs of its agents that somebody has to take up now, by ``activate``.

        Args:
            limit: The most that are due; those whose holder died come beside them.

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
    ) -> Starlette:
        """The App behind HTTP: the console, the inbox, and the protocols of others.

        To be served alone or mounted in another application, whose lifespan then has to enter
        ``router.lifespan_context`` of this one. It opens the journal as it starts, and closes it.
        It needs the extra ``serve``.

        Args:
            user: Says who sent a request, a ``upshot.serve.User`` or None for nobody; plain or
                async.
            hosts: The names under which it is reached, beside those of this machine.
            origins: Origins of other sites whose pages may send requests.
            work: Whether runs are worked on in this process too, while it serves.
            max_body: How many bytes a request may have.
            rate: How many requests one client address may send within ten seconds.
            trace_url: Where the spans of a run are seen, with ``{run_id}`` in the place of its id;
                the page of a run links there.

        Raises:
            Misuse: *user* is missing, an argument is wrong, or the extra is not installed.
        """
        if user is None:
            raise Misuse(
                "asgi() needs user=, a function of the request that gives a upshot.serve.User, or "
                "None for nobody: without it everybody would see and answer everything"
            )
        try:
            from upshot.serve.site import Site
        except ModuleNotFoundError as error:
            raise Misuse(need_of_extra("App.asgi", "serve")) from error
        site = Site(
            self,  # pyright: ignore[reportArgumentType]  # the stub's App is this one
            user=user,
            hosts=hosts,
            origins=origins,
            work=work,
            max_body=max_body,
            rate=rate,
            trace_url=trace_url,
        )
        return site.asgi()

    def tools_of(self, agent_id: str) -> tuple[Any, ...]:
        """What runs of an agent are given as tools: those of the agent, and of the App."""
        agent = self.agents.get(agent_id)
        own = () if agent is None else (agent.tools or ())
        return (*own, *self._options.get("tools", ()))

    def each_tool(self, agent_id: str) -> Iterator[Tool[..., Any]]:
        """The tools among what runs of an agent are given, those of tool sets too."""
        return _tools_in(self.tools_of(agent_id))

    async def call_of(self, entry: EffectEntry) -> tuple[ToolStarted | None, ToolSettled | None]:
        """The start and the end of the call of an effect, as the log of its run has them.

        The App's secrets are put back for their marks.

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
        """Whether what an agent says may still be discarded or revised until its run ends."""
        agent = self.agents.get(agent_id)
        own = () if agent is None else tuple(agent.deciders)
        return bool((*own, *self._options.get("deciders", ())))

    def agent_of(self, agent: Agent[Any] | str) -> Agent[Any]:
        """The agent of the App that is meant.

        Raises:
            Misuse: It has no such agent.
        """
        check_argument("agent", agent, _NAMED)
        name = agent if isinstance(agent, str) else agent.id
        found = self.agents.get(name)
        if found is None or not (agent is found or isinstance(agent, str)):
            hint = did_you_mean(name, self.agents, f"there are {', '.join(self.agents)}")
            if found is not None:
                hint = "that of the App is another one; give its id"
            raise Misuse(f"the App has no such agent {name!r}: {hint}")
        return found

    async def activate(
        self, run_id: str, *, on_live: OnLive | None = None
    ) -> AgentResult[Any] | None:
        """Take up a run and work on it until it ends or parks.

        It begins from its submission, or goes on from its log. Several that take up one run at
        once begin it once. A cancel ends the run as one of ``run`` does.

        Args:
            run_id: A run of the journal.
            on_live: Told of the run as it begins, so that it can be stopped, and of each that a
                request is handed over to.

        Returns:
            What came of it. None if there was nothing to do here: another session works on it, or
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
            # Another session was faster.
            return None
        is_parked = result.status == Status.INPUT_REQUIRED
        if is_parked and self._notify is not None:
            return await self._notified(result, journal, self._notify)
        if result.error is None or result.error.code != ErrorCode.CONFLICT:
            return result
        if await has_log(run_id, journal):
            return result
        await needs_shared(journal).make_due(run_id, "conversation", delay_s=_TURN_WAIT_S)
        return None

    async def _notified(
        self, result: AgentResult[Any], journal: Journal, notify: Notify
    ) -> AgentResult[Any]:
        """Tell what a run waits for that has parked."""
        run_id = result.run_id
        items = await needs_shared(journal).inbox(run_id=run_id)
        if not items:
            return result
        try:
            await call(notify, items)
        except Exception as error:
            # The caller's function; the run is parked all the same.
            message = raised("notify", error)
            warning = RunWarning(code="notify_failed", message=message, origin=Origin.HOST)
            return replace(result, warnings=(*result.warnings, warning))
        return result

    async def _work_on(
        self, run_id: str, journal: Journal, on_live: OnLive | None
    ) -> AgentResult[Any]:
        """Begin a run, or go on with it."""
        new = await needs_shared(journal).submission(run_id)
        if await has_log(run_id, journal) or (new is not None and new.after):
            return await self._go_on(run_id, new, journal, on_live)
        if new is None:
            raise Misuse(f"the journal has no run {run_id!r} to take up")
        return await self._begin(new, journal, on_live)

    async def _begin(
        self, new: Submission, journal: Journal, on_live: OnLive | None
    ) -> AgentResult[Any]:
        """Begin a run as it was submitted, and work on it."""
        agent, new = self.agent_of(new.agent_id), lifted(new, self._secrets)
        request = replace(new.request, run_id=new.run_id)
        given = self._given(new, goes_on=False)
        options = cast("RunOptions", {**given, "journal": journal})
        if agent.handoffs:
            agents = self.agents.values()
            chain = relay(agents, request, options, start=agent, max_depth=_DEPTH, child=run_child)
            chain.on_live = on_live
            return await chain.go()
        async with begin(agent, request, options, watch=False, child=run_child) as live:
            return await finished(live, on_live)

    def _given(self, new: Submission | None, *, goes_on: bool) -> dict[str, Any]:
        """What a session is given: by the App, and by who submitted its run."""
        submitted = {} if new is None else from_data(new.options, goes_on=goes_on)
        given = {**self._options, **submitted}
        given["quotas"] = (*self._options["quotas"], *submitted.get("quotas", ()))
        given["priority"] = 0 if new is None else new.priority
        return given

    async def _go_on(
        self, run_id: str, new: Submission | None, journal: Journal, on_live: OnLive | None
    ) -> AgentResult[Any]:
        """Go on from the log of a run, and with those that follow it."""
        return await resume_any(
            run_id,
            [*self.agents.values()],
            journal,
            (),
            self._onward(new),
            child=run_child,
            take_over=False,
            continue_stopped=False,
            on_live=on_live,
        )

    def _onward(self, new: Submission | None) -> ResumeOptions:
        """The options with which a run goes on."""
        given = self._given(new and lifted(new, self._secrets), goes_on=True)
        if new is not None and new.after:
            # What is left of it for this run stands in the log.
            given.pop("budget", None)
        return cast("ResumeOptions", given)

    async def why_left(self, run: DueRun) -> str:
        """Why this App cannot go on with a run, or leaves it to others at first; "" if neither.

        Args:
            run: One of those that are due; nothing is taken.
        """
        journal = await self.open()
        if not run.has_begun:
            return ""
        try:
            new = await needs_shared(journal).submission(run.run_id)
            await check_again(run.run_id, self.agent_of(run.agent_id), self._onward(new), journal)
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


def _listed(agents: object) -> tuple[Agent[Any], ...]:
    """The agents that an App was given."""
    check_argument("agents of an App", agents, _AGENTS)
    if found := tuple(cast("Iterable[Agent[Any]]", agents)):
        return found
    raise Misuse("an App needs an agent: give App(agents=[Agent('support', ...)])")


def _digest(agents: Iterable[Agent[Any]]) -> str:
    """A name for the code: of agents, instructions and tool schemas."""
    told: list[object] = []
    for agent in sorted(agents, key=lambda one: one.id):
        known = known_of(agent)
        told.append((agent.spec(), [tool.version for tool in known.tools or ()]))
    return hashlib.sha256(encode(told)).hexdigest()[:_DIGEST_CHARS]


def check_at(at: object) -> None:
    """Check a moment from which on a run is due."""
    check_argument("at", at, _MOMENT)
    if isinstance(at, datetime) and at.utcoffset() is None:
        raise Misuse("at has no time zone: give an aware moment, such as datetime.now(UTC)")
