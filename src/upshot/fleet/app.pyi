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
from datetime import datetime
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
from upshot.entry.grants import Grant
from upshot.entry.handoff_loop import OnLive
from upshot.entry.replay_run import Replay
from upshot.entry.run_handle import RunHandle
from upshot.journal.shared import DueRun, InboxItem
from upshot.models.prices import Prices
from upshot.runs.limits.pacer import Pacer
from upshot.runs.plan import Approver, Committer, Where
from upshot.serve.users import UserOf
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
        approve: Asked before a tool that needs approval.
        artifact_store: Where large outputs go.
        committers: Called when a run is to be committed.
        deciders: After the agent's own.
        gates: Your own gates, or a function of the standard gates that gives all.
        host: Any object with some of the methods of ``Host``.
        observers: After the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments.
        prices: What models cost, before the public table.
        tools: Where names in ``Agent.tools`` are found.
        write_grace_s: Seconds that a call which writes may go on after its run was asked to stop.

    Attributes:
        agents: The agents by id, with those that they hand over to.
        journal: Where the runs are; may be set until the journal is opened.
        version: The code's name.

    Raises:
        Misuse: An argument is wrong, or two agents have one id.
    """

    agents: Mapping[str, Agent[Any]]
    journal: Where | None
    version: str
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
        """The journal, opened.

        Raises:
            Misuse: The App has none, or one through which processes cannot share runs.
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
        """Have a run worked on by whoever takes it up; it is in the journal when this returns.

        Args:
            agent: An agent of the App, or its id.
            request: What is asked.
            conversation: The conversation of which it is a turn; it waits for the turn before.
            at: From when on it may be taken up, timezone-aware; None is at once.
            key: Names the request for you: submitted again with it, it gives the same run, until
                30 days after its end.
            priority: Runs with a larger one are taken up first, and go first with the pacer.
            artifacts: Channels whose messages become artifacts of the result.
            attributes: Free JSON for engine, tools and hooks.
            budget: Limits.
            history: Messages that come before the request.
            if_waiting: "refuse" waits while another turn of the conversation waits for answers,
                "tell" begins all the same.
            max_attempts: How often a decider may have it done.
            model: "provider:name".
            policy: Rules on tools, in place of those of the App.
            quotas: Caps that runs share, beside those of the App.
            remember: Whether it is a turn of its conversation.
            retry: Of failed model calls.
            settings: Of model calls.

        Returns:
            The handle of the run.

        Raises:
            Misuse: An argument is wrong or no data, there is no such agent, the journal has a run
                of the request's run_id, or *key* was used for another request (conflict).
            JournalError: The journal cannot be written.
        """
    async def run(self, run_id: str) -> RunHandle:
        """The handle of a run of the journal, whoever works on it.

        Raises:
            Misuse: There is no such run.
            JournalError: The journal cannot be read.
        """
    async def answer(self, run_id: str, *answers: AnyAnswer) -> tuple[Taken | Outdated, ...]:
        """Answer what a parked run waits for; see ``upshot.answer``."""
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
    async def note(self, run_id: str, name: str, value: Json, *, by: str = "") -> None:
        """Note something of a run; see ``upshot.note``."""
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
        tenant: str = ...,
        tool: str = ...,
    ) -> tuple[InboxItem, ...]:
        """All that the runs wait for and nobody has answered; see ``upshot.inbox``.

        Args:
            user: Without what this user put off by ``later``; "" gives all.
            assignee: Only what ``assign`` gave to this user; "" gives all.
            agent: Only runs of this agent.
            before: Only runs that come after this one, the run of the previous page's last item.
            conversation: Only runs of this conversation.
            limit: The items of at most so many runs, from 1; None is all.
            owner: Only runs of this user: ``user`` of their attributes. Owner and tenant together
                identify a user: without a *tenant*, it is the user who belongs to no tenant.
            run_id: Only this run.
            tenant: Only runs of this tenant.
            tool: Only calls of this tool.
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
        tenant: str = ...,
        tool: str = ...,
    ) -> int:
        """How many items wait, those that a user put off among them; filters as of ``inbox``."""
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
        user: str = ...,
    ) -> Sequence[EffectEntry]:
        """Return the effects that match, the unknown ones first; see ``EffectFilters``.

        Raises:
            Misuse: A filter is wrong, or the journal keeps no effects.
            JournalError: The journal cannot be read.
        """
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
    async def check(self, id: str) -> EffectCheck:
        """Ask ``verify`` about an unknown effect now; what it finds out settles the effect.

        Workers ask by themselves, again and again; call this if you do not want to wait.

        Args:
            id: The id of one of ``effects``.

        Raises:
            Misuse: There is no such effect, or the journal keeps none.
            JournalError: The journal cannot be read or written.
        """
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
        """How many runs there are by status and error, and their cost by day.

        Args:
            status: As of ``runs``.
            agent_id: Only runs of this agent.
            before: Only runs that come after this one in the list: the last of the previous page.
            context_id: Only runs of this conversation.
            currency: Only runs that cost money in this currency, such as "EUR".
            effect: Only runs of which this is the worst that they did: "none", "applied" or
                "unknown".
            error_code: Only runs that failed with this code.
            limit: The most runs to return, from 1; None returns all.
            owner: Only runs of this user: ``user`` of their attributes. A user is named by both:
                with a *tenant* it is that of the tenant, without one the user who is of no tenant.
            parent_run_id: Only child runs of this run; "" gives root runs.
            prefix: Only runs whose id begins with this.
            run_id: Only this run.
            since: Only runs that began, or were submitted, at this moment or later; timezone-aware.
            sort: In place of the newest first, the largest first, of those that have any: "cost"
                (one currency after the other), "tokens", "took" (from a tenth of a second), or
                "effect", where what nobody knows is the largest.
            tenant: Only runs of this ``tenant`` of their attributes.
            text: Only runs with this text in what is listed of request or answer, in any case.
            tool: Only runs that called this tool, or wait to.
            until: Only runs that began, or were submitted, before this moment.

        Raises:
            Misuse: As of ``runs``.
            JournalError: The journal cannot be read.
        """
    async def conversation(self, id: str) -> Conversation:
        """What the runs of a conversation come to.

        Raises:
            JournalError: A log of it is damaged.
        """
    async def due(self, *, limit: int | None = None) -> Sequence[DueRun]:
        """The runs of its agents that somebody has to take up now, by ``activate``.

        Args:
            limit: The most that are due; those whose holder died come beside them.

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
    def tools_of(self, agent_id: str) -> tuple[Any, ...]:
        """What runs of an agent are given as tools: those of the agent, and of the App."""
    def each_tool(self, agent_id: str) -> Iterator[Tool[..., Any]]:
        """The tools among what runs of an agent are given, those of tool sets too."""
    async def call_of(self, entry: EffectEntry) -> tuple[ToolStarted | None, ToolSettled | None]:
        """The start and the end of the call of an effect, as the log of its run has them.

        The App's secrets are put back for their marks.

        Raises:
            JournalError: The log is damaged or cannot be read.
        """
    def has_deciders(self, agent_id: str) -> bool:
        """Whether what an agent says may still be discarded or revised until its run ends."""
    def agent_of(self, agent: Agent[Any] | str) -> Agent[Any]:
        """The agent of the App that is meant.

        Raises:
            Misuse: It has no such agent.
        """
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
    async def why_left(self, run: DueRun) -> str:
        """Why this App cannot go on with a run, or leaves it to others at first; "" if neither.

        Args:
            run: One of those that are due; nothing is taken.
        """

def check_at(at: object) -> None:
    """Check a moment from which on a run is due."""
