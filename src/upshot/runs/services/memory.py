"""Memory: tools by which a model stores facts for later conversations, and finds them again.

The tools pass the same gates, limits and log as any others: storing and forgetting are writes, and
repeating an interrupted call changes nothing more. A fact that was stored after a run had read
untrusted content keeps that mark, and brings it into every run that recalls it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from upshot.contract.base.checks import format_value
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import encode
from upshot.contract.tool_calls import UNTRUSTED
from upshot.contract.tool_context import ToolContext
from upshot.errors import Misuse
from upshot.journal.facts import Fact, FactStore, JournalFacts
from upshot.journal.shared import shared_journal
from upshot.runs.run_context import current_run
from upshot.state.summary import owner_of
from upshot.tools.call_state import running_call
from upshot.tools.catalog import ToolSet
from upshot.tools.definition.tool import tool
from upshot.tools.definition.tool_error import ToolError

Scope: TypeAlias = Literal["user", "agent", "conversation"] | Callable[[ToolContext[Any]], str]

_SCOPES = ("user", "agent", "conversation")
_MOST_FOUND = 50
_SHOWN = 10


def memory_tools(scope: Scope = "user", *, store: FactStore | None = None) -> ToolSet:
    """Return tools that give an agent a memory across conversations; an item of ``Agent.tools``.

    They are ``remember(text)``, ``recall(query, limit)`` and ``forget(id)``.

    Args:
        scope: Whose facts they are: "user" is the user of the run, from its ``user`` and ``tenant``
            attributes, so that no user gets another one's facts; "agent" shares them among all
            runs of the agent; "conversation" keeps them in one; a function of the context names
            the scope itself.
        store: Where facts are stored; None is the journal of the run.

    Raises:
        Misuse: There is no such scope.
    """
    if not callable(scope) and scope not in _SCOPES:
        raise Misuse(
            f"scope is {', '.join(_SCOPES)} or a function of the context, got {format_value(scope)}"
        )
    memory = _Memory(scope, store)

    @tool(effect="write", idempotent=True)
    async def remember(context: ToolContext[Any], text: str) -> JsonObject:
        """Store a fact for later conversations, in one sentence that is clear without this one.

        Args:
            text: The fact.
        """
        return await memory.remember(context, text)

    @tool(effect="read")
    async def recall(context: ToolContext[Any], query: str = "", limit: int = _SHOWN) -> JsonObject:
        """Find facts from earlier conversations. Look here before you ask what may be known.

        Args:
            query: Words of the fact; empty for the newest facts.
            limit: How many facts at most.
        """
        return await memory.recall(context, query, limit)

    @tool(effect="write", idempotent=True)
    async def forget(context: ToolContext[Any], id: str) -> JsonObject:
        """Remove a fact that is wrong or no longer wanted.

        Args:
            id: The id of the fact, as recall shows it.
        """
        return await memory.forget(context, id)

    return ToolSet([remember, recall, forget])


class _Memory:
    """The bodies of the tools."""

    def __init__(self, scope: Scope, store: FactStore | None) -> None:
        self._scope = scope
        self._store = store

    async def remember(self, context: ToolContext[Any], text: str) -> JsonObject:
        call = running_call.get()
        key = f"{context.run_id} {context.idempotency_key}"
        fact = Fact(
            # The same for a repeated call, which then stores the fact only once.
            id=hashlib.sha256(key.encode()).hexdigest()[:12],
            text=text.strip(),
            at=datetime.now(UTC),
            run_id=context.run_id,
            conversation=context.context_id,
            taint=None if call is None else call.turn.tainted,
        )
        if not fact.text:
            raise ToolError("the text is empty: write one sentence", effect="none")
        try:
            await self._open().add(self._name(context), fact)
        except ValueError as error:
            raise ToolError(str(error), effect="none") from error
        return {"id": fact.id}

    async def recall(self, context: ToolContext[Any], query: str, limit: int) -> JsonObject:
        most = max(1, min(limit, _MOST_FOUND))
        found = await self._open().search(self._name(context), query, limit=most)
        call = running_call.get()
        if call is not None and any(one.taint is not None for one in found):
            call.trust = UNTRUSTED
        facts: list[Json] = [
            {"id": one.id, "text": one.text, "at": one.at.isoformat()} for one in found
        ]
        return {"facts": facts}

    async def forget(self, context: ToolContext[Any], id: str) -> JsonObject:
        return {"was_there": await self._open().remove(self._name(context), id)}

    def _open(self) -> FactStore:
        if self._store is not None:
            return self._store
        link = current_run.get()
        journal = None if link is None else link.context.plan.journal
        if journal is None or shared_journal(journal) is None:
            raise _unusable("the run has no journal to remember in")
        return JournalFacts(journal)

    def _name(self, context: ToolContext[Any]) -> str:
        """Return the name of the scope.

        Raises:
            ToolError: The run has none.
        """
        scope = self._scope
        if callable(scope):
            name = scope(context)
            if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]  # the caller's own function
                raise _unusable("the function for the scope of the memory returned no name")
            return encode(["own", name]).decode()
        link = current_run.get()
        if scope == "agent":
            parts = ["" if link is None else link.context.plan.agent.id]
        elif scope == "conversation":
            parts = [context.context_id]
        else:
            user, tenant = owner_of(context.attributes)
            parts = [tenant, user] if user else [""]
        if not parts[-1]:
            raise _unusable(f"the run has no {scope} whose memory it could use")
        return encode([scope, *parts]).decode()


def _unusable(why: str) -> ToolError:
    return ToolError(why, retryable=False, effect="none")
