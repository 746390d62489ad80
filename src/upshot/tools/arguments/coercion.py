"""Safe coercions of values that a schema refuses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from upshot.contract.base.json_values import canonical_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.tool_calls import Coercion
from upshot.tools.arguments.schema_faults import (
    ABSENT,
    Absent,
    Place,
    above,
    changed,
    floats_in,
    found_at,
    is_too_deep,
    pointer,
    union_branches,
    wanted_types,
)

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


# Bounded, because int() and Decimal() take more than linear time.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,299})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,2})?")
# How many readings of one place are tried.
_MAX_READINGS = 4
_OPENERS = ("[", "{")
_NAMING = ("properties", "patternProperties")
_APPLYING = (
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
)


class Edit(msgspec.Struct, frozen=True):
    """One change.

    Attributes:
        place: Where.
        rule: Why it is not a guess, in a word.
        before: The value that the model gave.
        after: The new value.
    """

    place: Place
    rule: str
    before: Json
    after: Json | Absent

    @property
    def coercion(self) -> Coercion:
        """The edit as the tool record stores it."""
        after = None if isinstance(self.after, Absent) else self.after
        return Coercion(path=pointer(self.place), rule=self.rule, before=self.before, after=after)


# All changes of one reading.
CoercionCandidate: TypeAlias = tuple[Edit, ...]


def faults_by_place(faults: Iterable[ValidationError]) -> dict[Place, list[ValidationError]]:
    """Group *faults* by their place, in order."""
    found: dict[Place, list[ValidationError]] = {}
    for fault in faults:
        found.setdefault(tuple(fault.instance_path), []).append(fault)
    return found


def proposals(place: Place, faults: Sequence[ValidationError]) -> list[CoercionCandidate]:
    """Return every reading of the value at *place* that is not a guess; usually one or none.

    Args:
        place: Where the value is.
        faults: All faults that the schema found there.
    """
    value = cast("Json", faults[0].instance)
    wanted = list(dict.fromkeys(kind for fault in faults for kind in wanted_types(fault)))
    found = [(Edit(place, rule, value, new),) for rule, new in _plain(value, wanted, faults)]
    if not found:
        inside = (_of_branch(place, branch) for fault in faults for branch in union_branches(fault))
        found = _distinct(itertools.chain.from_iterable(inside))
    if not found and "array" in wanted and place and isinstance(place[-1], str):
        # Never an item of an array, because it would be unclear which bracket is missing.
        found = [(Edit(place, "array", value, new),) for new in _wrap_in_list(value)]
    return found[:_MAX_READINGS]


def _plain(
    value: Json, wanted: Sequence[str], faults: Sequence[ValidationError]
) -> Iterator[tuple[str, Json | Absent]]:
    if value is None:
        if any(map(_is_declared, faults)):
            yield "absent", ABSENT
    elif isinstance(value, str):
        seen: set[str] = set()
        choices = [choice for fault in faults for choice in _choices(fault)]
        for rule, new in itertools.chain(_of_text(value, wanted), _of_choice(value, choices)):
            # A change is listed once, however many rules produce it.
            if repr(new) not in seen:
                seen.add(repr(new))
                yield rule, new


def _is_declared(fault: ValidationError) -> bool:
    """Whether the place is a property that the schema names, not an entry of a free map."""
    last = ""
    steps = iter(fault.evaluation_path)
    for step in steps:
        if step in _NAMING or step in _APPLYING:
            last = str(step)
        if step in _NAMING or step == "dependentSchemas":
            # What follows is a name, even if it looks like a keyword.
            next(steps, None)
    return last == "properties"


def _of_branch(place: Place, branch: Sequence[ValidationError]) -> list[CoercionCandidate]:
    """Return the readings that satisfy one branch of a union, as far as can be seen."""
    parts: list[list[CoercionCandidate]] = []
    for inner, faults in faults_by_place(branch).items():
        # At the place itself, only a nested union has something to add.
        found = _nested_readings(inner, faults) if inner == place else proposals(inner, faults)
        if not found:
            return []
        parts.append(found)
    products = itertools.islice(itertools.product(*parts), _MAX_READINGS)
    return [tuple(itertools.chain.from_iterable(one)) for one in products]


def _nested_readings(place: Place, faults: Sequence[ValidationError]) -> list[CoercionCandidate]:
    if not all(any(union_branches(fault)) for fault in faults):
        return []
    branches = (branch for fault in faults for branch in union_branches(fault))
    return [one for branch in branches for one in _of_branch(place, branch)]


def _distinct(found: Iterable[CoercionCandidate]) -> list[CoercionCandidate]:
    return list({repr(one): one for one in found}.values())


def _of_text(text: str, wanted: Sequence[str]) -> Iterator[tuple[str, Json]]:
    if "number" in wanted or "integer" in wanted:
        yield from _of_number(text, wanted)
    if "boolean" in wanted and text.lower() in ("true", "false"):
        yield "boolean", text.lower() == "true"
    if text.lstrip().startswith(_OPENERS):
        parsed = _parse(text)
        if isinstance(parsed, dict) and "object" in wanted:
            yield "object", parsed
        if isinstance(parsed, list) and "array" in wanted:
            yield "array", parsed


def _of_number(text: str, wanted: Sequence[str]) -> Iterator[tuple[str, Json]]:
    if _INTEGER.fullmatch(text):
        yield ("integer" if "integer" in wanted else "number"), int(text)
        return
    if not _NUMBER.fullmatch(text):
        return
    exact = Decimal(text)
    if "number" not in wanted:
        if exact == exact.to_integral_value():
            yield "integer", int(exact)
        return
    # Never a lossy number: the float must equal what the text says.
    if Decimal(repr(float(text))) == exact:
        yield "number", float(text)


def _parse(text: str) -> Json:
    try:
        value = msgspec.json.decode(text)
        return None if is_too_deep(text, value) else value
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _choices(fault: ValidationError) -> list[object]:
    kind: Any = fault.kind
    match kind.name:
        case "enum":
            return list(kind.options)
        case "const":
            return [kind.expected_value]
        case _:
            inner = (one for branch in union_branches(fault) for one in branch)
            same = [one for one in inner if one.instance_path == fault.instance_path]
            return [choice for one in same for choice in _choices(one)]


def _of_choice(text: str, choices: Sequence[object]) -> Iterator[tuple[str, Json]]:
    folded = {c for c in choices if isinstance(c, str) and c.casefold() == text.casefold()}
    if len(folded) == 1:
        yield "enum", folded.pop()
    numbers = {c for c in choices if type(c) is int and str(c) == text}
    if len(numbers) == 1:
        yield "enum", numbers.pop()


def _wrap_in_list(value: Json) -> Iterator[list[Json]]:
    if value is None or isinstance(value, list):
        return
    if isinstance(value, str) and value.lstrip().startswith(_OPENERS):
        # A broken list or object, not an item; but a complete object may be an item.
        parsed = _parse(value)
        if isinstance(parsed, dict):
            yield [parsed]
        return
    yield [value]


# Each trial validates the whole value, with one reading of every place at once.
_MAX_TRIALS = 64
_MAX_NESTING = 5
_MAX_FAULTS = 20_000
# From here on a float cannot represent every integer.
_MAX_EXACT = 2**53

_Faults: TypeAlias = dict[Place, list["ValidationError"]]
# The model would not recognise these changes, so faults refer to its own words.
_UNTOLD = ("absent", "array")


class _Win(NamedTuple):
    """A reading that the schema accepts.

    Attributes:
        value: The resulting value of the place.
        edits: The changes, including those inside new values.
    """

    value: Json | Absent
    edits: tuple[Edit, ...]


class Coercer:
    """Changes values that a schema refuses, at all places together.

    A change is kept only if it leaves no fault at its place, and if no other reading of that
    place does so too.

    Attributes:
        coercions: The changes made.
    """

    def __init__(self, validator: Validator) -> None:
        self.coercions: list[Coercion] = []
        self._validator = validator
        self._trials = _MAX_TRIALS

    def mend(self, value: Json) -> tuple[Json, list[ValidationError]]:
        """Fix every fault that can be fixed.

        Returns:
            The value with the fixes, and the remaining faults. *value* itself is not changed.
        """
        faults = self._faults(value)
        if len(faults) > _MAX_FAULTS:
            return value, faults
        mended, edits, near = self._mend(value, faults, _MAX_NESTING)
        self.coercions = [edit.coercion for edit in edits]
        left = self._faults(mended) if edits else faults
        return mended, _refine_faults(left, near)

    def _faults(self, value: Json) -> list[ValidationError]:
        return list(self._validator.iter_errors(value))

    def _mend(
        self, value: Json, faults: Sequence[ValidationError], nesting: int
    ) -> tuple[Json, tuple[Edit, ...], _Faults]:
        """Return the value with its fixes, the fixes, and the faults at the other places."""
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
        kept = {place: found[0] for place, found in wins.items() if _are_equal(found)}
        if not kept:
            return value, (), near
        mended = changed(value, ((place, win.value) for place, win in kept.items()))
        return mended, tuple(edit for win in kept.values() for edit in win.edits), near

    def _try(
        self,
        value: Json,
        chosen: Mapping[Place, CoercionCandidate],
        wins: dict[Place, list[_Win]],
        nesting: int,
    ) -> _Faults:
        """Try one reading of each place; adds successes to *wins* and returns the faults."""
        self._trials -= 1
        trial = changed(
            value, ((one.place, one.after) for edits in chosen.values() for one in edits)
        )
        edits = {place: list(proposal) for place, proposal in chosen.items()}
        wrong = _faults_at(self._faults(trial), chosen)
        if wrong:
            # A value that was text may contain more that needs coercion.
            inside = [fault for found in wrong.values() for fault in found]
            trial, more, near = self._mend(trial, inside, nesting - 1)
            for edit in more:
                edits[cast("Place", above(edit.place, chosen))].append(edit)
            wrong = _faults_at(self._faults(trial), chosen) if more else wrong
            wrong = {place: _refine_faults(found, near) for place, found in wrong.items()}
        for place in chosen:
            if place not in wrong:
                wins.setdefault(place, []).append(_Win(found_at(trial, place), tuple(edits[place])))
        return wrong


def round_integers(
    value: JsonObject, validator: Validator, coercions: list[Coercion]
) -> JsonObject | str:
    """Turn integral floats into ints where a schema wants an integer; JSON Schema allows both.

    Args:
        value: Arguments that match the schema.
        validator: The schema.
        coercions: Every change is appended here.

    Returns:
        *value* itself if nothing has to change; a text about what cannot be changed without
        loss.
    """
    found = {place: number for place, number in floats_in(value) if number.is_integer()}
    # Integers are wanted exactly where a half is refused, however the schema expresses it.
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
    """Yield the places where *faults*, including those in unions, ask for an integer."""
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


def _offers(faults: Sequence[ValidationError]) -> dict[Place, list[CoercionCandidate]]:
    """Return readings by place; no place lies inside another."""
    offers: dict[Place, list[CoercionCandidate]] = {}
    places = faults_by_place(faults)
    for place in sorted(places, key=len):
        if above(place, offers) is None and (found := proposals(place, places[place])):
            offers[place] = found
    return offers


def _faults_at(
    faults: Iterable[ValidationError], chosen: Mapping[Place, CoercionCandidate]
) -> _Faults:
    """Return those of *faults* that lie at or below one of the places, by place."""
    wrong: _Faults = {}
    for fault in faults:
        kind: Any = fault.kind
        place = above(fault.instance_path, chosen)
        if place is None and kind.name == "required":
            place = above((*fault.instance_path, str(kind.property)), chosen)
        if place is not None:
            wrong.setdefault(place, []).append(fault)
    return wrong


def _refine_faults(faults: Sequence[ValidationError], near: _Faults) -> list[ValidationError]:
    """Replace *faults* at places with a single reading by the faults of that reading."""
    # That is more helpful than "a text is not a number".
    found = {place: None for fault in faults if (place := above(fault.instance_path, near))}
    kept = [fault for fault in faults if above(fault.instance_path, near) is None]
    return kept + [fault for place in found for fault in near[place]]


def _are_equal(found: Sequence[_Win]) -> bool:
    encoded = {b"" if isinstance(win.value, Absent) else canonical_json(win.value) for win in found}
    return len(encoded) == 1
