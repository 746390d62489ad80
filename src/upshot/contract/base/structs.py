"""Struct bases, validation of fields, and the base of events."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache, partial
from itertools import repeat
from operator import attrgetter, contains
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from upshot.contract.base.checks import did_you_mean
from upshot.errors import Misuse


class KeywordMeta(msgspec.StructMeta):
    """Metaclass of structs: for an unknown keyword the error names the nearest field.

    Decoding bypasses it and ignores unknown fields.
    """

    # A type checker reads the fields themselves and reports misspelt ones already.
    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Create the struct, or raise ``Misuse``."""
            if args:
                first = next(one for one in cls.__struct_fields__ if one != "schema_version")
                raise Misuse(f"{cls.__name__} takes keywords only, such as {first}=")
            for name in fields:
                if name not in cls.__struct_fields__:
                    raise Misuse(_no_field(cls, name, cls.__struct_fields__))
            return super().__call__(**fields)


class ArgumentsMeta(type):
    """Metaclass that raises ``Misuse`` if the arguments of the constructor are wrong."""

    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Create the object, or raise ``Misuse``."""
            try:
                return super().__call__(*args, **fields)
            except TypeError as error:
                wrong = _misfit(cls, args, fields)
                if not wrong:
                    # The TypeError was raised inside, not by the call.
                    raise
                raise Misuse(wrong) from error

        @property
        def __signature__(cls):
            """The parameters of ``__init__`` rather than ``__call__``, for help and editors."""
            from inspect import signature

            known = signature(cls.__init__)
            return known.replace(parameters=[*known.parameters.values()][1:])


def _misfit(kind: type, args: tuple[object, ...], fields: dict[str, object]) -> str:
    """Return what is wrong with the arguments of a call, "" if nothing is."""
    from inspect import signature

    known = signature(kind.__init__)
    names = [name for name in known.parameters if name != "self"]
    for name in fields:
        if name not in names:
            return _no_field(kind, name, names)
    try:
        known.bind(None, *args, **fields)
    except TypeError as error:
        return f"{kind.__name__}: {error}; it takes {', '.join(names)}"
    return ""


def _no_field(kind: type, name: str, names: Iterable[str]) -> str:
    names = tuple(names)
    module = sys.modules[kind.__module__]
    for field, annotation in kind.__annotations__.items():
        # As text: not every name in it exists at run time.
        for word in re.findall(r"\w+", str(annotation)):
            if name in getattr(getattr(module, word, None), "__struct_fields__", ()):
                return f"{kind.__name__} has no field {name!r}: give {field}={word}({name}=...)"
    hint = did_you_mean(name, names, f"it has {', '.join(names)}")
    return f"{kind.__name__} has no field {name!r}: {hint}"


SCHEMA_VERSION = 1
_MAX_SHOWN = 60
_SCALARS = (bool, int, str, float, NoneType)

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
else:
    # msgspec resolves annotations at run time and does not support recursive aliases.
    Json = Any
JsonObject: TypeAlias = dict[str, Json]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment with its time zone; structs convert it to UTC."""

D = TypeVar("D")
S = TypeVar("S", bound=msgspec.Struct)


@cache
def to_snake(name: str) -> str:
    """Return the ``kind`` of a class in JSON: ``ToolCall`` becomes ``tool_call``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def written(default: D) -> D:
    """Mark a default as always written to JSON, because an absent field means unknown."""
    # A factory in C: it is called for every event and result.
    return msgspec.field(default_factory=repeat(default).__next__)


def empty_object() -> JsonObject:
    """Return an empty object; msgspec omits empty fields only if the factory is ``dict``."""
    return {}


def set_field(value: msgspec.Struct, name: str, new: object) -> None:
    """Set a field of a frozen struct; only for use in ``__post_init__``."""
    msgspec.structs.force_setattr(value, name, new)


def freeze(value: msgspec.Struct, *names: str) -> None:
    """Turn the lists among these fields into tuples; only for use in ``__post_init__``."""
    for name in names:
        items: object = getattr(value, name)
        if isinstance(items, list):
            set_field(value, name, tuple(cast("list[object]", items)))


def check_types(value: msgspec.Struct, *names: str) -> None:
    """Check the types of fields; only for use in ``__post_init__``.

    Args:
        value: The struct; msgspec itself checks types only when it decodes.
        names: The fields to check; all if none is given.

    Raises:
        Misuse: A field has the wrong type; the message names the field and its type.
    """
    hints, plain, values_of = _checks_of(type(value), names)
    values = values_of(value)
    if all(map(contains, plain, map(type, values))):
        return
    for (name, hint), given in zip(hints.items(), values, strict=False):
        try:
            found: object = msgspec.convert(given, hint)
            # msgspec converts a dict to a struct and a string to a moment; here that is an error.
            if isinstance(found, _MADE) and not isinstance(given, type(found)):
                kinds = type(found).__name__, type(given).__name__
                raise msgspec.ValidationError("Expected {}, got {}".format(*kinds))
        except msgspec.ValidationError as error:
            text = str(error).replace("`", "").replace("null", "None")
            raise Misuse(
                f"{type(value).__name__}({name}={_cut(repr(given))}): {text[:1].lower()}{text[1:]}"
            ) from error


_MADE = (msgspec.Struct, datetime)
_make = msgspec.StructMeta.__call__


class CheckedMeta(msgspec.StructMeta):
    """Metaclass of structs that users create: a field of the wrong type is refused at once.

    Decoding bypasses it, since it checks types too. Values created at every step of a run do not
    use it; the journal refuses the ones that it could not read.
    """

    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Make the struct, or raise ``Misuse``."""
            made = _make(cls, *args, **fields)
            check_given(made, (*cls.__match_args__[: len(args)], *fields))
            return made


def unchecked(like: S) -> Callable[..., S]:
    """Return a function that creates structs like *like* from valid values, without checks.

    Fields that are not given are taken from *like*, including the same dict objects, so always
    give the dicts.
    """
    # It costs a quarter of calling the class, which goes through its metaclass.
    return partial(msgspec.structs.replace, like)


def check_given(value: msgspec.Struct, names: Iterable[str]) -> None:
    """Check the types of the given fields; quick, since it does not look inside containers.

    Raises:
        Misuse: A field has the wrong type; the message names the field and its type.
    """
    names, outer, values_of = _outer_types_of(type(value), tuple(names))
    if all(map(contains, outer, map(type, values_of(value)))):
        return
    for name, types in zip(names, outer, strict=True):
        if type(getattr(value, name)) not in types:
            check_types(value, name)


@cache
def _outer_types_of(
    kind: type[msgspec.Struct], names: tuple[str, ...]
) -> tuple[list[str], list[frozenset[type]], Callable[[object], tuple[object, ...]]]:
    """Return the fields that do not accept any type, the types they accept, and their getter."""
    hints = get_type_hints(kind)
    outer = {
        name: types
        for name in names
        if name in hints and object not in (types := frozenset(_outer_types(hints[name])))
    }
    return [*outer], [*outer.values()], attrgetter(*outer, "__class__", "__class__")


def _outer_types(hint: Any) -> Iterator[type]:
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        for one in get_args(hint):
            yield from _outer_types(one)
    else:
        outer = get_origin(hint) or hint
        yield outer if isinstance(outer, type) and outer is not Any else object


def settle_moments(value: msgspec.Struct, *names: str) -> None:
    """Convert the moments in these fields to UTC; only for use in ``__post_init__``.

    Raises:
        Misuse: One has no time zone, or is out of range in UTC.
    """
    for name in names:
        moment: datetime | None = getattr(value, name)
        if moment is None or getattr(moment, "tzinfo", None) is UTC:
            continue
        check_types(value, name)
        if moment.utcoffset() is None:
            raise Misuse(f"{name} has no time zone: give an aware moment, datetime.now(UTC)")
        try:
            set_field(value, name, moment.astimezone(UTC))
        except OverflowError as error:
            raise Misuse(f"{name} is out of range: {moment}") from error


class Formed:
    """Base of classes that are not structs but have a JSON form."""

    __slots__ = ()

    def json_form(self) -> object:
        """Return the next step towards JSON: plain values, which may contain structs."""
        raise NotImplementedError


def encode_other(value: object) -> object:
    """Convert a value that msgspec does not know by one step towards JSON.

    Raises:
        TypeError: JSON cannot express *value*.
    """
    if isinstance(value, Formed):
        return value.json_form()
    if hasattr(type(value), "model_dump"):
        # A typed output may be a pydantic model, recognized without importing pydantic.
        return cast("Any", value).model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON: convert it before it enters a result")


JSON = msgspec.json.Encoder(decimal_format="number", enc_hook=encode_other)


@cache
def _checks_of(
    kind: type[msgspec.Struct], names: tuple[str, ...]
) -> tuple[dict[str, Any], list[frozenset[type]], Callable[[object], tuple[object, ...]]]:
    """Return annotations by field, types that need no further check, and a getter of the values."""
    names = names or kind.__struct_fields__
    all_hints = get_type_hints(kind)
    hints = {name: all_hints[name] for name in names}
    plain = [
        frozenset(
            one
            for one in (get_args(hint) if isinstance(hint, UnionType) else (hint,))
            if isinstance(one, type) and (one in _SCALARS or issubclass(one, msgspec.Struct))
        )
        for hint in hints.values()
    ]
    # A getter of a single name does not return a tuple, so a second name is added.
    return hints, plain, attrgetter(*names, "__class__")


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A frozen value; fields that equal their default are left out of its JSON and its repr."""

    def __repr__(self) -> str:
        # Imported here: most processes never show a value.
        from upshot.contract.base.reprs import portray

        return portray(self)


class Tagged(Value, frozen=True, kw_only=True, tag_field="kind", tag=to_snake):
    """A value of a union, or a standalone one; its JSON names its kind."""

    @property
    def kind(self) -> str:
        """The word in the JSON that identifies the type."""
        return str(type(self).__struct_config__.tag)


class Root(Tagged, frozen=True, kw_only=True):
    """A value that is stored or sent on its own.

    Attributes:
        schema_version: The version of the schema that it was written with; always written.
    """

    schema_version: int = written(SCHEMA_VERSION)


class Local(Formed):
    """Objects that exist in this process only; equal to any other ``Local``, and null in JSON.

    Attributes:
        values: The objects by name, such as ``raw``.
    """

    __slots__ = ("values",)

    def __init__(self, **values: object) -> None:
        self.values: dict[str, object] = values

    @classmethod
    def of(cls, values: dict[str, object]) -> Local:
        """Wrap *values* without copying; half the cost of passing keywords."""
        local = cls.__new__(cls)
        local.values = values
        return local

    def json_form(self) -> None:
        """Return null: the objects cannot leave the process."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Local)

    def __hash__(self) -> int:
        # It equals None, so it must have the same hash.
        return hash(None)

    def __repr__(self) -> str:
        return f"Local({', '.join(self.values)})"

    def get(self, name: str) -> object:
        """Return the object called *name*, None if there is none."""
        return self.values.get(name)

    def __copy__(self) -> Local:
        return Local(**self.values)

    def __deepcopy__(self, memo: dict[int, object]) -> Local:
        # Boards and native results are passed on, never copied.
        return Local(**self.values)

    def __reduce__(self) -> tuple[type[Local], tuple[()]]:
        # A pickled value leaves the process; the objects do not.
        return Local, ()


class RunEvent(Root, frozen=True, kw_only=True):
    """The base of all events.

    Attributes:
        run_id: The run.
        attempt: The attempt that it belongs to, from 1; 0 before the first.
        time: When it happened, UTC.
        seq: Position in the run's log, from 1; a delta repeats the ``seq`` of the durable event
            before it.
        part: 0 on durable events; 1, 2, ... on the deltas that follow one.
        literal: In a log, the fields whose values are meant as written, although they look omitted
            and would otherwise be derived from earlier events; empty elsewhere.
        path: For an event of a child run, as a subscriber of an outer run gets it: the ids of the
            runs that the child is nested in, starting with the subscribed one. Empty on a run's own
            events, and in logs.
    """

    run_id: str = ""
    attempt: int = 0
    time: Moment | None = None
    seq: int = 0
    part: int = 0
    literal: tuple[str, ...] = ()
    path: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from upshot.contract.base.reprs import portray_briefly

        return portray_briefly(self, without=("run_id", "attempt", "time"))


def path_of(event: object) -> tuple[str, ...]:
    """Return the path of an event of a child run; empty for the run's own and unknown events."""
    return event.path if isinstance(event, RunEvent) else ()
