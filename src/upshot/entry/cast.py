"""Cast: everybody who may get a request that is handed over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ..contract import Agent, HandoffEvent, handoffs_of
from ..contract.article import kind_of
from ..errors import Misuse

__all__ = ["Cast"]


class Cast:
    """Everybody who may get the request, by id.

    Args:
        agents: Those that are listed.
        start: Who begins; None is the first of them.
        is_whole: Whether everybody has to be known to whom anybody may hand over.

    Raises:
        Misuse: Nobody is given, one is no Agent, two have an id, or somebody is missing.

    Attributes:
        first: Who begins.
    """

    def __init__(
        self,
        agents: Iterable[Agent[Any]] | Agent[Any],
        start: Agent[Any] | str | None,
        *,
        is_whole: bool = True,
    ) -> None:
        self._by_id: dict[str, Agent[Any]] = {}
        listed = (agents,) if isinstance(agents, Agent) else tuple(agents)
        for agent in (*listed, *((start,) if isinstance(start, Agent) else ())):
            self._add(agent)
        # Who is listed wins over who is only reached.
        for agent in tuple(self._by_id.values()):
            self._reach(agent)
        if is_whole:
            self._check()
        if start is None and not listed:
            raise Misuse("run_with_handoffs needs an agent: give [Agent(...), ...]")
        first = listed[0].id if start is None else start if isinstance(start, str) else start.id
        if first not in self._by_id:
            raise Misuse(f"start is {first!r}: there are {', '.join(self._by_id)}")
        self.first: Agent[Any] = self._by_id[first]

    def find(self, event: HandoffEvent) -> Agent[Any] | None:
        """Who gets the request; None for somebody unknown."""
        return self._by_id.get(event.to_agent_id)

    def _add(self, agent: object) -> None:
        if not isinstance(agent, Agent):
            raise Misuse(f"agents hold {kind_of(agent)}: give Agents")
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
