"""What is known when a call is judged: a fold of the log of the run.

``Facts`` hold what the user said and what the settled calls returned and made, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import pointer_step
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.provenance import (
    Record,
)
from upshot.tools.provenance.acts import (
    Act,
    Names,
    is_same,
    name_of,
    things_in,
)
from upshot.tools.provenance.saying import (
    Saying,
    compact,
    fold,
)
from upshot.tools.provenance.whereabouts import (
    Result,
    leaves,
    text_of,
)

__all__ = ["Facts", "Known"]


class Known(NamedTuple):
    """A record from a trusted source, or from a write of this run.

    Attributes:
        kind: The kind of the ``Record``.
        id: Its id.
        names: What users call it.
        fields: All of its fields.
        source: The call and the JSON pointer of its place.
    """

    kind: str
    id: Json
    names: tuple[str, ...]
    fields: JsonObject
    source: str


@dataclass(slots=True)
class Facts:
    """What vouches for values: a fold of what was said and of the settled calls.

    Attributes:
        sayings: What the user said.
        records: Records of trusted sources.
        made: Records that clean writes of this run made.
        acts: The writes that were made or are being made: their places by the name of the act.
        private: The tool that returned private data, "" for none.
        unclean: Texts in writes that a stranger may have chosen.
        results: All outputs.
    """

    sayings: tuple[Saying, ...] = ()
    records: list[Known] = field(default_factory=list[Known])
    made: list[Known] = field(default_factory=list[Known])
    acts: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    private: str = ""
    unclean: list[str] = field(default_factory=list[str])
    results: list[Result] = field(default_factory=list[Result])

    def begin(self, act: Act) -> None:
        """Record a write that is about to be made."""
        self.acts.setdefault(self.name_act(act), set()).add(act.place)

    def drop(self, act: Act) -> None:
        """Remove a write that was not made."""
        # It may have had fewer names when it was judged.
        for places in self.acts.values():
            places.discard(act.place)

    def name_act(self, act: Act) -> str:
        """Return the name of an act; other spellings of the same act share a name with it."""
        return name_of(act.tool_name, self.things_in(act))

    def things_in(self, act: Act) -> dict[str, tuple[Names, ...]]:
        """Return the things in an act, with all their known names."""
        today = next((saying.today for saying in self.sayings if saying.today), None)
        return things_in(act, self._aliases, today)

    def was_done(self, act: Act, things: Mapping[str, tuple[Names, ...]]) -> bool:
        """Whether the same act was made before, or is being made."""
        name = name_of(act.tool_name, things)
        return any(places - {act.place} and is_same(name, one) for one, places in self.acts.items())

    def _aliases(self, kind: str, text: str) -> Iterator[str]:
        """Yield the other names of records that *text* may name."""
        wanted = compact(fold(text))
        for record in (*self.records, *self.made):
            if kind and record.kind != kind:
                continue
            parts = () if kind else (part for name in record.names for part in name.split())
            called = [text_of(record.id), *record.names, *parts]
            if any(compact(fold(one)) == wanted for one in called):
                yield from called

    def learn(
        self, act: Act, output: Json, *, call_id: str, is_trusted: bool, is_clean: bool
    ) -> None:
        """Learn from a call that was made.

        Args:
            act: The call.
            output: Its output, None for none.
            call_id: Its id.
            is_trusted: Whether its source was trusted when it was made, and is today.
            is_clean: Whether a stranger cannot have chosen anything in it.
        """
        declaration = act.declaration
        self.results.append(Result(act.tool_name, output))
        if declaration.private:
            self.private = self.private or act.tool_name
        is_read = act.effect is Effect.READ
        found = [
            known
            for record in declaration.records
            if record.trusted or is_trusted or not is_read
            for known in _records_in(output, record, f"call {call_id} ")
        ]
        if is_read:
            self.records += found
            return
        self.begin(act)
        if is_clean:
            self.made += found
        else:
            shown = act.arguments if act.shown is None else act.shown
            self.unclean.extend(fold(text_of(leaf)) for leaf in leaves(shown))


def _records_in(value: Json, record: Record, source: str) -> Iterator[Known]:
    if isinstance(value, list):
        for at, item in enumerate(value):
            if isinstance(item, str) and not record.id:
                yield Known(record.record_kind, item, (item,), {}, f"{source}/{at}")
            yield from _records_in(item, record, f"{source}/{at}")
    elif isinstance(value, dict):
        id = value.get(record.id)
        if isinstance(id, str | int) and not isinstance(id, bool) and id != "":
            names = tuple(
                leaf
                for name in record.names
                for leaf in leaves(value.get(name))
                if isinstance(leaf, str) and leaf.strip()
            )
            yield Known(record.record_kind, id, names, value, source)
        for key, item in value.items():
            yield from _records_in(item, record, f"{source}/{pointer_step(key)}")
