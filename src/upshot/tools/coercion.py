"""Safe coercions: a value that the schema refuses is changed where nothing has to be guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from ..contract import Coercion, Json, JsonObject
from .canonical import canonical_json
from .fault import pointer, union_branches, wanted_types
from .place import Absent, Place, above, changed, floats_in, found_at
from .proposal import Edit, Proposal, faults_by_place, proposals

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = ["Mender", "round_integers"]

# Each trial validates the whole value, and tries one reading of every place at once.
_MAX_TRIALS = 64
_MAX_NESTING = 5
_MAX_FAULTS = 20_000
# From here on a float no longer tells every integer from the next.
_MAX_EXACT = 2**53

_Faults: TypeAlias = dict[Place, list["ValidationError"]]
# What the model would not know again: better to tell of its own words.
_UNTOLD = ("absent", "array")


class _Win(NamedTuple):
    """A reading that the schema takes.

    Attributes:
        value: What the place holds then.
        edits: The changes, those inside of new values included.
    """

    value: Json | Absent
    edits: tuple[Edit, ...]


class Mender:
    """Changes what a schema refuses, all places at a time.

    A change is kept only if it leaves no fault at its place, and if no other reading of that
    place does so as well.

    Attributes:
        coercions: What was changed.
    """

    def __init__(self, validator: Validator) -> None:
        self.coercions: list[Coercion] = []
        self._validator = validator
        self._trials = _MAX_TRIALS

    def mend(self, value: Json) -> tuple[Json, list[ValidationError]]:
        """Mend what can be mended.

        Returns:
            The value as far as it was mended, and the faults that are left. *value* itself is
            not changed.
        """
        faults = self._faults(value)
        if len(faults) > _MAX_FAULTS:
            return value, faults
        mended, edits, near = self._mend(value, faults, _MAX_NESTING)
        self.coercions = [edit.coercion for edit in edits]
        left = self._faults(mended) if edits else faults
        return mended, _nearer(left, near)

    def _faults(self, value: Json) -> list[ValidationError]:
        return list(self._validator.iter_errors(value))

    def _mend(
        self, value: Json, faults: Sequence[ValidationError], nesting: int
    ) -> tuple[Json, tuple[Edit, ...], _Faults]:
        """The value with all places mended that can be, how, and what is wrong at the others."""
        offers = _offers(faults) if nesting else {}
        wins: dict[Place, list[_Win]] = {}
        near: _Faults = {}
        for turn in range(max(map(len, offers.values()), default=0)):
            if self._trials <= 0:
                break
            chosen = {place: offer[turn] for place, offer in offers.items() if turn < len(offer)}
            wrong = self._try(value, chosen, wins, nesting)
            for place, found in wrong.items():
                if len(offers[place]) == 1 and not any(e.rule in _UNTOLD for e in chosen[place]):
                    near[place] = found
        kept = {place: found[0] for place, found in wins.items() if _agree(found)}
        if not kept:
            return value, (), near
        mended = changed(value, ((place, win.value) for place, win in kept.items()))
        return mended, tuple(edit for win in kept.values() for edit in win.edits), near

    def _try(
        self,
        value: Json,
        chosen: Mapping[Place, Proposal],
        wins: dict[Place, list[_Win]],
        nesting: int,
    ) -> _Faults:
        """Try one reading of each place; what is right goes to *wins*, what is wrong comes back."""
        self._trials -= 1
        trial = changed(
            value, ((one.place, one.after) for edits in chosen.values() for one in edits)
        )
        edits = {place: list(proposal) for place, proposal in chosen.items()}
        wrong = _wrong(self._faults(trial), chosen)
        if wrong:
            # What was text may hold more that is only written wrongly.
            inside = [fault for found in wrong.values() for fault in found]
            trial, more, near = self._mend(trial, inside, nesting - 1)
            for edit in more:
                edits[cast("Place", above(edit.place, chosen))].append(edit)
            wrong = _wrong(self._faults(trial), chosen) if more else wrong
            wrong = {place: _nearer(found, near) for place, found in wrong.items()}
        for place in chosen:
            if place not in wrong:
                wins.setdefault(place, []).append(_Win(found_at(trial, place), tuple(edits[place])))
        return wrong


def round_integers(
    value: JsonObject, validator: Validator, coercions: list[Coercion]
) -> JsonObject | str:
    """Make ints of integral floats where a schema wants an integer; JSON Schema takes both.

    Args:
        value: Arguments that fit the schema.
        validator: The schema.
        coercions: What is changed is added here.

    Returns:
        *value* itself where nothing is to be changed; text on what cannot be changed without
        loss.
    """
    # Most arguments are texts and whole numbers.
    if not any(isinstance(item, float | dict | list) for item in value.values()):
        return value
    found = {place: number for place, number in floats_in(value) if number.is_integer()}
    # Where a half is refused, and only there, integers are wanted, however the schema says so.
    # (Above 2**53 there are no halves.)
    if not found:
        return value
    halves = changed(value, ((place, _half(number)) for place, number in found.items()))
    wanted = set(_integer_places(validator.iter_errors(halves)))
    whole = {place: number for place, number in found.items() if place in wanted}
    for place, number in whole.items():
        if abs(number) > _MAX_EXACT:
            return f"{pointer(place)}: {number} is too large to be exact; write it out in digits"
        after = int(number)
        coercions.append(Coercion(path=pointer(place), rule="integer", before=number, after=after))
    return cast("JsonObject", changed(value, ((p, int(n)) for p, n in whole.items())))


def _half(number: float) -> float:
    return number + 0.5 if abs(number) < _MAX_EXACT / 4 else 0.5


def _integer_places(faults: Iterable[ValidationError]) -> Iterable[Place]:
    """Where *faults*, those in unions included, ask for an integer."""
    for fault in faults:
        wanted = wanted_types(fault)
        if ("integer" in wanted and "number" not in wanted) or _is_choice_of_integers(fault):
            yield tuple(fault.instance_path)
        for branch in union_branches(fault):
            yield from _integer_places(branch)


def _is_choice_of_integers(fault: ValidationError) -> bool:
    kind: Any = fault.kind
    options: Sequence[object] = ()
    if kind.name == "enum":
        options = kind.options
    elif kind.name == "const":
        options = [kind.expected_value]
    numbers = [one for one in options if isinstance(one, int | float)]
    return bool(numbers) and all(isinstance(one, int) for one in numbers)


def _offers(faults: Sequence[ValidationError]) -> dict[Place, list[Proposal]]:
    """Readings by place; none of the places lies inside another."""
    offers: dict[Place, list[Proposal]] = {}
    places = faults_by_place(faults)
    for place in sorted(places, key=len):
        if above(place, offers) is None and (found := proposals(place, places[place])):
            offers[place] = found
    return offers


def _wrong(faults: Iterable[ValidationError], chosen: Mapping[Place, Proposal]) -> _Faults:
    """Those of *faults* that lie at or under one of the places, by place."""
    wrong: _Faults = {}
    for fault in faults:
        kind: Any = fault.kind
        place = above(fault.instance_path, chosen)
        if place is None and kind.name == "required":
            place = above((*fault.instance_path, str(kind.property)), chosen)
        if place is not None:
            wrong.setdefault(place, []).append(fault)
    return wrong


def _nearer(faults: Sequence[ValidationError], near: _Faults) -> list[ValidationError]:
    """*faults*, with what was wrong in the only reading of a place instead of those there."""
    # That says more than that a text is no number.
    found = {place: None for fault in faults if (place := above(fault.instance_path, near))}
    told = [fault for fault in faults if above(fault.instance_path, near) is None]
    return told + [fault for place in found for fault in near[place]]


def _agree(found: Sequence[_Win]) -> bool:
    said = {b"" if isinstance(win.value, Absent) else canonical_json(win.value) for win in found}
    return len(said) == 1
