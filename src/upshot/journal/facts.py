"""Facts that agents remember across conversations, stored beside the logs of a journal.

The facts of a scope, such as a user, are one shared value, so every process sees the same ones. A
second value names the scopes in which a run has stored something, so that redacting a conversation
removes what was remembered in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from upshot.contract.base.structs import Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.pending import TaintOrigin
from upshot.contract.protocols import Journal
from upshot.errors import Misuse
from upshot.journal.shared import SharedValues, needs_shared

T = TypeVar("T")

MAX_FACTS: Final = 1_000
"""How many facts a scope of a journal holds."""

MAX_FACT_CHARS: Final = 2_000
"""How long a fact may be."""

_WORD = re.compile(r"\w+")


class Fact(Value, frozen=True, kw_only=True):
    """Something that an agent remembers.

    Attributes:
        id: Identifies it in its scope.
        text: The fact, in the agent's words.
        at: When it was stored.
        run_id: The run that stored it, "" if it was no run.
        conversation: The conversation of that run, "" for none.
        taint: The untrusted content that this run had read by then, None for none. A run that
            recalls the fact has then read untrusted content too.
    """

    id: str
    text: str
    at: Moment
    run_id: str = ""
    conversation: str = ""
    taint: TaintOrigin | None = None


class FactStore(Protocol):
    """Stores facts by scope; implement it to search by meaning, or to use another database.

    A scope is a text that names whose facts they are. A store keeps all fields of a fact.
    """

    async def add(self, scope: str, fact: Fact) -> None:
        """Store *fact*, or replace the one with its id.

        Raises:
            ValueError: It cannot be stored; the model reads the message.
        """
        ...

    async def search(self, scope: str, query: str, *, limit: int) -> Sequence[Fact]:
        """Return at most *limit* facts, the best match first; "" returns the newest."""
        ...

    async def remove(self, scope: str, id: str) -> bool:
        """Remove a fact; returns whether it was there."""
        ...


class JournalFacts:
    """Facts in a journal; implements FactStore.

    It finds facts that share words with the query. Redacting a conversation removes the facts
    that its runs stored; pruning runs does not.

    Args:
        journal: An open journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = needs_shared(journal)

    async def add(self, scope: str, fact: Fact) -> None:
        """See ``FactStore.add``."""
        if len(fact.text) > MAX_FACT_CHARS:
            raise ValueError(
                f"a fact has at most {MAX_FACT_CHARS:,} characters, got {len(fact.text):,}"
            )

        def change(values: SharedValues) -> bool:
            name = _name_of(scope)
            known = {one.id: one for one in _read(values.read(name))}
            known.pop(fact.id, None)
            if len(known) >= MAX_FACTS:
                return False
            values.write(name, _written([*known.values(), fact]))
            if fact.run_id:
                place = facts_of_run(fact.run_id)[0]
                scopes = _scopes(values.read(place))
                if scope not in scopes:
                    values.write(place, encode([*scopes, scope]).decode())
            return True

        if not await self._journal.change_values(change):
            raise ValueError(f"all {MAX_FACTS:,} facts are in use: remove one first")

    async def search(self, scope: str, query: str, *, limit: int) -> Sequence[Fact]:
        """See ``FactStore.search``."""
        if limit < 1:
            raise Misuse(f"limit is a whole number from 1, got {limit}")
        wanted = _words(query)
        newest = reversed(await self.facts(scope))
        if not wanted:
            return [*newest][:limit]
        # Sorting is stable, so equal matches stay newest first.
        ranked = sorted(((_match(wanted, one.text), one) for one in newest), key=_by_match)
        return [one for match, one in ranked if match][:limit]

    async def remove(self, scope: str, id: str) -> bool:
        """See ``FactStore.remove``."""

        def change(values: SharedValues) -> bool:
            known = _read(values.read(_name_of(scope)))
            left = [one for one in known if one.id != id]
            values.write(_name_of(scope), _written(left))
            return len(left) < len(known)

        return await self._journal.change_values(change)

    async def facts(self, scope: str) -> Sequence[Fact]:
        """Return all facts of a scope, oldest first."""
        return _read(await self._journal.value(_name_of(scope)))

    async def clear(self, scope: str) -> None:
        """Remove all facts of a scope, for example when a user leaves."""
        name = _name_of(scope)
        await self._journal.change_values(lambda values: values.forget(name, f"{name} "))


def facts_of_run(run_id: str) -> tuple[str, str]:
    """Return the name of a run's list of fact scopes, and the name that ends its range."""
    name = f"facts of {run_id}"
    return name, f"{name} "


def forget_facts(values: SharedValues, run_id: str) -> None:
    """Remove the facts that a run stored."""
    place, end = facts_of_run(run_id)
    for scope in _scopes(values.read(place)):
        name = _name_of(scope)
        left = [one for one in _read(values.read(name)) if one.run_id != run_id]
        values.write(name, _written(left))
    values.forget(place, end)


def _name_of(scope: str) -> str:
    # A scope may be any text, of any length.
    return f"facts in {hashlib.sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _read(text: str) -> list[Fact]:
    return decode(text.encode(), decoder_of(list[Fact])) if text else []


def _written(facts: Sequence[Fact]) -> str:
    return encode([*facts]).decode() if facts else ""


def _scopes(text: str) -> list[str]:
    return decode(text.encode(), decoder_of(list[str])) if text else []


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _match(wanted: frozenset[str], text: str) -> int:
    """Return how many of the *wanted* words a text has, a longer form of a word included."""
    found = _words(text)
    return sum(
        any(one == word or (len(word) > 3 and one.startswith(word)) for one in found)
        for word in wanted
    )


def _by_match(ranked: tuple[int, Fact]) -> int:
    return -ranked[0]
