"""What could have been meant at a place that a schema refuses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from ..contract import Coercion, Json
from .fault import pointer, union_branches, wanted_types
from .place import ABSENT, Absent, Place, is_too_deep

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

__all__ = ["Edit", "Proposal", "faults_by_place", "proposals"]

# Bounded, for int() and Decimal() take time that grows faster than their text.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,299})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,99})?([eE][+-]?[0-9]{1,2})?")
# So many readings of one place are looked at.
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
        rule: Why it is no guess, in a word.
        before: What the model gave.
        after: What becomes of it.
    """

    place: Place
    rule: str
    before: Json
    after: Json | Absent

    @property
    def coercion(self) -> Coercion:
        """It as a record has it."""
        after = None if isinstance(self.after, Absent) else self.after
        return Coercion(path=pointer(self.place), rule=self.rule, before=self.before, after=after)


# All changes of one reading.
Proposal: TypeAlias = tuple[Edit, ...]


def faults_by_place(faults: Iterable[ValidationError]) -> dict[Place, list[ValidationError]]:
    """*faults* by the place where they were found, in their order."""
    found: dict[Place, list[ValidationError]] = {}
    for fault in faults:
        found.setdefault(tuple(fault.instance_path), []).append(fault)
    return found


def proposals(place: Place, faults: Sequence[ValidationError]) -> list[Proposal]:
    """Every reading of the value at *place* that guesses nothing; most often one or none.

    Args:
        place: Where the value is.
        faults: All that a schema has against it there.
    """
    value = cast("Json", faults[0].instance)
    wanted = list(dict.fromkeys(kind for fault in faults for kind in wanted_types(fault)))
    found = [(Edit(place, rule, value, new),) for rule, new in _plain(value, wanted, faults)]
    if not found:
        inside = (_of_branch(place, branch) for fault in faults for branch in union_branches(fault))
        found = _distinct(itertools.chain.from_iterable(inside))
    if not found and "array" in wanted and place and isinstance(place[-1], str):
        # Never an item of an array: there it is open which bracket is missing.
        found = [(Edit(place, "array", value, new),) for new in _wrapped(value)]
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
            # One change is listed once, however many rules ask for it.
            if repr(new) not in seen:
                seen.add(repr(new))
                yield rule, new


def _is_declared(fault: ValidationError) -> bool:
    """Whether the place is a property that the schema names, and no entry of a free map."""
    last = ""
    steps = iter(fault.evaluation_path)
    for step in steps:
        if step in _NAMING or step in _APPLYING:
            last = str(step)
        if step in _NAMING or step == "dependentSchemas":
            # The next is a name, whatever it looks like.
            next(steps, None)
    return last == "properties"


def _of_branch(place: Place, branch: Sequence[ValidationError]) -> list[Proposal]:
    """The readings that satisfy one branch of a union, as far as can be seen."""
    parts: list[list[Proposal]] = []
    for inner, faults in faults_by_place(branch).items():
        # At the place itself only a union in the union has something new to say.
        found = _deeper(inner, faults) if inner == place else proposals(inner, faults)
        if not found:
            return []
        parts.append(found)
    products = itertools.islice(itertools.product(*parts), _MAX_READINGS)
    return [tuple(itertools.chain.from_iterable(one)) for one in products]


def _deeper(place: Place, faults: Sequence[ValidationError]) -> list[Proposal]:
    if not all(any(union_branches(fault)) for fault in faults):
        return []
    branches = (branch for fault in faults for branch in union_branches(fault))
    return [one for branch in branches for one in _of_branch(place, branch)]


def _distinct(found: Iterable[Proposal]) -> list[Proposal]:
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
    # Never a lossy number: what the float says must be what the text said.
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


def _wrapped(value: Json) -> Iterator[list[Json]]:
    if value is None or isinstance(value, list):
        return
    if isinstance(value, str) and value.lstrip().startswith(_OPENERS):
        # A list or an object that went wrong, and no item; but a whole object may be one.
        parsed = _parse(value)
        if isinstance(parsed, dict):
            yield [parsed]
        return
    yield [value]
