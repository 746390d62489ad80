"""``guard``: tools for agents of other frameworks, with calls that are kept in a journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, TypedDict, Unpack, cast
from weakref import WeakKeyDictionary

from upshot.contract.base.checks import did_you_mean, shown
from upshot.contract.protocols import ArtifactStore, Clock
from upshot.contract.settings import Budget, Policy
from upshot.contract.tool_calls import ToolSpec
from upshot.errors import Misuse
from upshot.guard.guarded_run import GuardedRun, Setup
from upshot.runs.plan import ResumeOptions, ToolItem, Where, check_options
from upshot.tools.catalog import catalog_of, resolve_tools
from upshot.tools.definition.tool import Tool
from upshot.tools.export import ForeignCall, Handed, to_langchain, to_pydantic_ai
from upshot.tools.gates.approval_gate import Approver, PreToolHook
from upshot.tools.gates.standard_gates import GateChoice

_Name = str | Callable[[Any], str]


class GuardOptions(TypedDict, total=False):
    """Further options of ``guard``; they are those of ``upshot.run``.

    Attributes:
        approve: Asked before a tool that needs approval; True, False, or None to park.
        artifact_store: Where large outputs go; by default beside the journal.
        attributes: Free JSON of the caller, kept with each run.
        budget: Limits of a run, such as ``max_calls_per_tool``.
        clock: Time, for tests.
        dependencies: One object for tools, ``ToolContext.dependencies``.
        gates: Your own gates, asked before a person is.
        observers: Who is told of each run.
        on_pre_tool_use: Asked about each call with valid arguments.
        policy: Rules on tools.
        secrets: Texts that are masked in the log and in what tools return.
    """

    approve: Approver | None
    artifact_store: ArtifactStore | None
    attributes: Mapping[str, Any] | None
    budget: Budget | None
    clock: Clock | None
    dependencies: object
    gates: GateChoice | None
    observers: Iterable[object]
    on_pre_tool_use: PreToolHook | None
    policy: Policy | None
    secrets: Iterable[str]


def guard(
    tools: Iterable[ToolItem],
    *,
    journal: Where,
    run_id: _Name = "",
    agent: str = "guard",
    **options: Unpack[GuardOptions],
) -> Guard:
    """Keep the calls of another framework's agent in a journal.

    ::

        tools = guard([refund], journal="desk.db")
        agent = pydantic_ai.Agent(model, tools=tools.for_pydantic_ai())

    Args:
        tools: Tools, functions or tool sets, such as those of an MCP server that is connected.
        journal: Where the calls are kept: a path, the URL of a database, or an open journal, whose
            event loop then has to make all calls.
        run_id: The run whose calls they are: one piece of work, or one conversation, whatever
            process is at it. A function is given the framework's own context, pydantic-ai's
            ``RunContext`` or LangGraph's config. By default it is pydantic-ai's
            ``conversation_id`` or LangGraph's ``thread_id``.
        agent: What the agent is called in the journal.
        options: Any of approve, artifact_store, attributes, budget, clock, dependencies, gates,
            observers, on_pre_tool_use, policy, secrets; see ``GuardOptions``.

    Returns:
        What gives the tools in the form of each framework.

    Raises:
        Misuse: A tool or an option cannot be used, or the journal is one that nothing outlives.
    """
    known = GuardOptions.__optional_keys__
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known, f"there are {', '.join(sorted(known))}")
            raise Misuse(f"guard has no option {name!r}: {hint}")
    check_options(options)
    if journal in (None, "memory:"):
        raise Misuse(
            f"guard was given the journal {shown(journal)}, which no process outlives: give a "
            "path, the URL of a database, or an open journal"
        )
    if not isinstance(agent, str) or not agent:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"agent is {shown(agent)}: give what it is called in the journal, a string")
    if not (isinstance(run_id, str) or callable(run_id)):
        raise Misuse(f"run_id is {shown(run_id)}: give the id of a run, or a function that does")
    resolved = resolve_tools(tools)
    return Guard(Setup(resolved, journal, agent, cast("ResumeOptions", options)), run_id)


class Guard:
    """Tools whose calls are kept in a journal; ``guard`` makes one.

    It may be used by any number of conversations, threads and event loops at the same time.

    Attributes:
        is_durable: That its calls outlive this process.
    """

    is_durable: bool = True

    def __init__(self, setup: Setup, run_id: _Name) -> None:
        self._setup = setup
        self._run_id = run_id
        self._catalog = catalog_of(setup.tools)
        # A session belongs to the event loop of its calls.
        self._runs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, GuardedRun]] = (
            WeakKeyDictionary()
        )
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Guard({list(self._catalog.names)}, journal={self._setup.journal!r:.60})"

    def for_pydantic_ai(self) -> list[Any]:
        """The tools as Pydantic AI's own, for ``Agent(tools=...)``.

        A call that needs approval is a deferred one: have ``DeferredToolRequests`` among the
        agent's output types, and give its ``DeferredToolResults`` to the next run. The outcome is
        the metadata of what a tool returns, as JSON.

        Raises:
            Misuse: The package is not installed.
        """
        return to_pydantic_ai(self)

    def for_langchain(self) -> list[Any]:
        """The tools as LangChain's own, for its agents and for any graph of LangGraph.

        A call that needs approval is an ``interrupt``: resume the graph with
        ``Command(resume=True)``, False, ``{"approved": False, "reason": "..."}``, or with
        ``"inbox"`` where the answer is in the journal; with a dict of these by call id where
        several calls of one step may wait. The outcome is the artifact of the message, as JSON.

        Raises:
            Misuse: The package is not installed.
        """
        return to_langchain(self)

    def schemas(self) -> Sequence[ToolSpec]:
        """The tools on offer."""
        return self._catalog.specs

    def find(self, name: str) -> Tool | None:
        """The tool called *name*, None where there is none."""
        return self._catalog.tools.get(name)

    async def make(self, asked: ForeignCall) -> Handed:
        """Make a call of a framework, or find what came of it.

        Args:
            asked: The call, as the framework makes it.

        Returns:
            Its outcome, which is on disk; or what a person is asked.

        Raises:
            Misuse: The framework does not say which run it is of, and nor does *run_id*.
            JournalError: The journal cannot be read or written.
        """
        conversation = asked.conversation()
        run_id = self._run_id(asked.context) if callable(self._run_id) else self._run_id
        run_id = run_id or conversation.id
        if not run_id or not isinstance(run_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # functions may be untyped
            raise Misuse(
                "the framework does not say of which conversation a call is: give "
                "guard(..., run_id=), a conversation_id to pydantic-ai or a thread_id to LangGraph"
            )
        loop = asyncio.get_running_loop()
        with self._lock:
            runs = self._runs.setdefault(loop, {})
        run = runs.setdefault(run_id, GuardedRun(self._setup, run_id))
        try:
            return await run.make(asked, conversation)
        finally:
            if run.is_idle and runs.get(run_id) is run:
                del runs[run_id]
