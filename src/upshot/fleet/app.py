"""App: agents, what they are given, and the journal through which processes share their runs."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack, cast

from msgspec.structs import replace

from upshot.contract.agent import Agent, DependencyFactory
from upshot.contract.base.checks import Allowed, check_argument, did_you_mean
from upshot.contract.base.enums import ErrorCode, Origin, Status
from upshot.contract.codec import encode
from upshot.contract.conversation import Conversation
from upshot.contract.error import RunWarning
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.pending import AnyAnswer, Outdated, Taken
from upshot.contract.protocols import Journal, Model, RunSummary
from upshot.contract.result import AgentResult
from upshot.contract.settings import Policy, Quota
from upshot.entry.answers import answer_run
from upshot.entry.conversations import with_conversation
from upshot.entry.handoff_loop import AgentRegistry, OnLive, finished, relay, resume_any
from upshot.entry.inbox import InboxItem, items_of, read_inbox
from upshot.entry.option_checks import OPTIONS, check_run_id, to_request
from upshot.entry.planning import known_of, new_run_id
from upshot.entry.run_handle import RunHandle, handle_of
from upshot.entry.run_lease import is_at_work
from upshot.entry.session_setup import KnownRun, begin, has_log, run_child
from upshot.errors import Misuse
from upshot.fleet.submission import (
    SubmitOptions,
    check_data,
    digest_of,
    from_data,
    lifted,
    masked,
    to_data,
)
from upshot.journal.lease_holder import RunHeld
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.opening import open_journal
from upshot.journal.shared import DueRun, Submission, needs_shared
from upshot.runs.callbacks import call, raised
from upshot.runs.dependencies import MadeBy
from upshot.runs.limits.pacer import Pacer
from upshot.runs.plan import ResumeOptions, RunOptions, Where

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
    ) -> None:
        given: dict[str, Any] = {
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
            options: Options that are data: any of artifacts, attributes, budget, if_waiting,
                max_attempts, model, policy, remember, retry, settings.

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

    async def inbox(
        self, *, limit: int | None = 20, before: str = "", conversation: str = ""
    ) -> tuple[InboxItem, ...]:
        """All that the runs wait for and nobody has answered; see ``upshot.inbox``."""
        journal = await self.open()
        return await read_inbox(journal, limit=limit, before=before, conversation=conversation)

    async def runs(
        self,
        status: str | None = None,
        *,
        agent: str = "",
        conversation: str = "",
        before: str = "",
        limit: int | None = 100,
    ) -> Sequence[RunSummary]:
        """The runs of the journal, newest first.

        Args:
            status: Only those of this status, or in this phase: "queued", "running", "due",
                "parked", "died" or "ended".
            agent: Only those of this agent.
            conversation: Only those of this conversation.
            before: Only those that come after this one: the last of the previous page.
            limit: The most to give, from 1; None gives all.

        Raises:
            Misuse: *limit* is not a positive whole number, or there is no run *before*.
            JournalError: The journal cannot be read.
        """
        return await (await self.open()).runs(
            status, agent_id=agent, context_id=conversation, before=before, limit=limit
        )

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
            Larger priorities first, then those that have waited longest.

        Raises:
            JournalError: The journal cannot be read.
        """
        return await needs_shared(await self.open()).due_runs(self.agents, limit=limit)

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
        items = await items_of(run_id, journal)
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
        if await has_log(run_id, journal):
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
        given = {**self._options, **from_data(new.options, goes_on=False), "journal": journal}
        given["priority"] = new.priority
        options = cast("RunOptions", given)
        if agent.handoffs:
            agents = self.agents.values()
            chain = relay(agents, request, options, start=agent, max_depth=_DEPTH, child=run_child)
            chain.on_live = on_live
            return await chain.go()
        async with begin(agent, request, options, watch=False, child=run_child) as live:
            return await finished(live, on_live)

    async def _go_on(
        self, run_id: str, new: Submission | None, journal: Journal, on_live: OnLive | None
    ) -> AgentResult[Any]:
        """Go on from the log of a run, and with those that follow it."""
        given = {} if new is None else from_data(lifted(new, self._secrets).options, goes_on=True)
        given["priority"] = 0 if new is None else new.priority
        return await resume_any(
            run_id,
            [*self.agents.values()],
            journal,
            (),
            cast("ResumeOptions", {**self._options, **given}),
            child=run_child,
            take_over=False,
            continue_stopped=False,
            on_live=on_live,
        )


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
