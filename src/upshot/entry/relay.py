"""The relay: agents that hand one request on until one of them has the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from ..contract import (
    Agent,
    AgentError,
    AgentResult,
    Cost,
    ErrorCode,
    HandoffEvent,
    Message,
    Origin,
    Request,
    Role,
    Status,
    Usage,
    handoffs_of,
)
from ..errors import Misuse
from ..runs import Child, RunOptions
from .opening import begin

__all__ = ["relay"]


async def relay(
    agents: Iterable[Agent[Any]] | Agent[Any],
    request: Request | str,
    options: RunOptions,
    *,
    start: Agent[Any] | str | None,
    max_depth: int,
    child: Child,
) -> AgentResult[Any]:
    """Run agents on *request* until one of them does not hand over.

    Args:
        child: Starts a run inside one of these.

    The others, what it returns and raises: see ``run_with_handoffs``.
    """
    if max_depth < 0:
        raise Misuse(f"max_depth is {max_depth}: give 0 or more")
    return await _Relay(_Cast(agents, start), request, max_depth, options, child).go()


class _Cast:
    """Everybody who may get the request, by id.

    Attributes:
        first: Who begins.
    """

    def __init__(
        self, agents: Iterable[Agent[Any]] | Agent[Any], start: Agent[Any] | str | None
    ) -> None:
        self._by_id: dict[str, Agent[Any]] = {}
        listed = (agents,) if isinstance(agents, Agent) else tuple(agents)
        for agent in (*listed, *((start,) if isinstance(start, Agent) else ())):
            self._add(agent)
        # Who is listed wins over who is only reached.
        for agent in tuple(self._by_id.values()):
            self._reach(agent)
        self._check()
        if start is None and not listed:
            raise Misuse("run_with_handoffs needs an agent: give [Agent(...), ...]")
        first = listed[0].id if start is None else start if isinstance(start, str) else start.id
        if first not in self._by_id:
            raise Misuse(f"start is {first!r}: there are {', '.join(self._by_id)}")
        self.first = self._by_id[first]

    def __getitem__(self, agent_id: str) -> Agent[Any]:
        return self._by_id[agent_id]

    def _add(self, agent: object) -> None:
        if not isinstance(agent, Agent):
            raise Misuse(f"agents hold a {type(agent).__name__}: give Agents")
        known = cast("Agent[Any]", agent)
        if self._by_id.setdefault(known.id, known) is not known:
            raise Misuse(f"two agents are called {known.id!r}: give one of them another id")

    def _reach(self, agent: Agent[Any]) -> None:
        for item in agent.handoffs:
            if isinstance(item, Agent) and item.id not in self._by_id:
                self._by_id[item.id] = item
                self._reach(item)

    def _check(self) -> None:
        for agent in self._by_id.values():
            for handoff in handoffs_of(agent):
                if handoff.to_agent_id not in self._by_id:
                    raise Misuse(
                        f"agent {agent.id!r} hands over to {handoff.to_agent_id!r}, "
                        f"which is not among the agents: {', '.join(self._by_id)}"
                    )


class _Relay:
    """One request on its way from agent to agent."""

    def __init__(
        self,
        known: _Cast,
        request: Request | str,
        max_depth: int,
        options: RunOptions,
        child: Child,
    ) -> None:
        self._known = known
        self._request = request
        self._max_depth = max_depth
        self._options = options
        self._child = child
        self._path: list[str] = []
        self._results: list[AgentResult[Any]] = []

    async def go(self) -> AgentResult[Any]:
        """Go on until somebody does not hand over."""
        agent, handed = self._known.first, tuple[Any, ...]()
        while True:
            result = await self._run(agent, handed)
            self._path.append(agent.id)
            self._results.append(result)
            event = result.handoff
            if event is None or not result.success:
                return self._sum_up(result)
            fault = self._fault(event.to_agent_id)
            if fault:
                return self._sum_up(_too_deep(result, fault, self._max_depth, len(self._path)))
            handed = tuple(_handed_on(agent, result, event, handed))
            agent = self._known_or_misuse(event)
            self._prepare_next(result)

    async def _run(self, agent: Agent[Any], handed: Sequence[Message]) -> AgentResult[Any]:
        run_it = begin(
            agent, self._request, self._options, watch=False, child=self._child, handed=handed
        )
        async with run_it as live:
            return await live.finish()

    def _fault(self, agent_id: str) -> str:
        """Why the request goes no further, "" where it may."""
        if agent_id in self._path:
            ring = " -> ".join((*self._path, agent_id))
            return f"The request was handed over in a ring: {ring}."
        if len(self._path) > self._max_depth:
            return f"The request was handed over more than {self._max_depth} times."
        return ""

    def _known_or_misuse(self, event: HandoffEvent) -> Agent[Any]:
        try:
            return self._known[event.to_agent_id]
        except KeyError:
            # Only an engine that makes its own events can name somebody unknown.
            raise Misuse(f"handed over to {event.to_agent_id!r}, which is not known") from None

    def _prepare_next(self, result: AgentResult[Any]) -> None:
        """A run of its own: another id, no checkpoint, and what is left of the budget."""

        request = self._request
        if isinstance(request, Request) and request.run_id:
            self._request = msgspec.structs.replace(request, run_id="")
        options = {name: one for name, one in self._options.items() if name != "resume_from"}
        budget = self._options.get("budget")
        if budget is not None:
            used_s = result.duration_ms / 1000
            cost = result.cost.total if result.cost is not None else None
            options["budget"] = msgspec.structs.replace(
                budget,
                deadline_s=_left(budget.deadline_s, used_s),
                max_tokens=_left(budget.max_tokens, result.usage.total_tokens),
                max_cost_usd=_left(budget.max_cost_usd, cost),
            )
        self._options = cast("RunOptions", options)

    def _sum_up(self, result: AgentResult[Any]) -> AgentResult[Any]:
        usage = sum((one.usage for one in self._results), Usage())
        paid = [one.cost for one in self._results if one.usage.api_calls or one.cost is not None]
        state = {**result.state, "path": list(self._path)}
        return msgspec.structs.replace(result, usage=usage, cost=Cost.of_calls(paid), state=state)


def _left(limit: Any, used: Any) -> Any:
    return limit if limit is None or used is None else max(limit - used, type(limit)(0))


def _handed_on(
    sender: Agent[Any], result: AgentResult[Any], event: HandoffEvent, before: Sequence[Message]
) -> Iterator[Message]:
    """What the receiver gets beside the request: the messages so far, and the note."""

    if _keeps_history(sender, event):
        yield from before
        yield from _produced(result)
    said = ": ".join(filter(None, (event.reason, event.note)))
    yield Message(Role.USER, f"Handed over by {sender.id}{f': {said}' if said else '.'}")


def _keeps_history(sender: Agent[Any], event: HandoffEvent) -> bool:

    found = [one for one in handoffs_of(sender) if one.to_agent_id == event.to_agent_id]
    return not found or found[0].history


def _produced(result: AgentResult[Any]) -> Sequence[Message]:
    """What the main channel has got since the run's seed."""
    seeded = result.local.get("seeded") if result.local is not None else ()
    board = cast("Any", result.last_board)
    return board.messages()[len(cast("Sequence[Message]", seeded)) :]


def _too_deep(result: AgentResult[Any], message: str, limit: int, used: int) -> AgentResult[Any]:

    error = AgentError(
        ErrorCode.BUDGET_EXCEEDED,
        message,
        origin=Origin.LIMIT,
        details={"dimension": "depth", "limit": limit, "used": used},
    )
    return msgspec.structs.replace(result, status=Status.FAILED, error=error, committed=False)
