"""Struct bases, validation of fields, and the base of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from operator import attrgetter, contains
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, cast, get_args, get_type_hints

import msgspec

from upshot.contract.base.checks import did_you_mean
from upshot.errors import Misuse

__all__ = [
    "ArgumentsMeta",
    "Formed",
    "JSON",
    "Json",
    "JsonObject",
    "KeywordMeta",
    "Local",
    "Moment",
    "Root",
    "RunEvent",
    "SCHEMA_VERSION",
    "Tagged",
    "Value",
    "check_types",
    "empty_object",
    "encode_other",
    "freeze",
    "set_field",
    "settle_moments",
    "to_snake",
    "written",
]


class KeywordMeta(msgspec.StructMeta):
    """Makes a struct that names the nearest field where a keyword is unknown.

    Decoding does not come by here, and passes over fields that it does not know.
    """

    # A type checker reads the fields themselves, and knows misspelt ones already.
    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Make the struct, or raise ``Misuse``."""
            if args:
                raise Misuse(f"{cls.__name__} takes keywords only, such as {_first(cls)}=")
            for name in fields:
                if name not in cls.__struct_fields__:
                    raise Misuse(_no_field(cls, name, cls.__struct_fields__))
            return super().__call__(**fields)


class ArgumentsMeta(type):
    """Makes an object and says what is wrong with the arguments where they do not fit."""

    if not TYPE_CHECKING:

        def __call__(cls, *args, **fields):
            """Make the object, or raise ``Misuse``."""
            try:
                return super().__call__(*args, **fields)
            except TypeError as error:
                wrong = _misfit(cls, args, fields)
                if not wrong:
                    # It is not of the call.
                    raise
                raise Misuse(wrong) from error

        @property
        def __signature__(cls):
            """What the class takes, for help and editors: not what ``__call__`` above does."""
            from inspect import signature

            known = signature(cls.__init__)
            return known.replace(parameters=[*known.parameters.values()][1:])


def _misfit(kind: type, args: tuple[object, ...], fields: dict[str, object]) -> str:
    """What is wrong with the arguments of a call, "" where nothing is."""
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


def _first(kind: type[msgspec.Struct]) -> str:
    return kind.__struct_fields__[0]


def _no_field(kind: type, name: str, names: Iterable[str]) -> str:
    names = tuple(names)
    hint = did_you_mean(name, names, f"it has {', '.join(names)}")
    return f"{kind.__name__} has no field {name!r}: {hint}"


SCHEMA_VERSION = 1
_MAX_SHOWN = 60
_SCALARS = (bool, int, str, float, NoneType)

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
else:
    # msgspec resolves annotations at run time and knows no recursive alias.
    Json = Any
JsonObject: TypeAlias = dict[str, Json]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A moment with its time zone; structs keep it in UTC."""

D = TypeVar("D")


@cache
def to_snake(name: str) -> str:
    """Turn a class name into the ``kind`` that stands for it: ``ToolCall`` to ``tool_call``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def written(default: D) -> D:
    """A field's default that is written to JSON all the same, for absent means unknown there."""
    # Written in C, for it is called for every event and result.
    return msgspec.field(default_factory=repeat(default).__next__)


def empty_object() -> JsonObject:
    """A new empty object; a factory that is no builtin, so that an empty one is written too."""
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
    """Check the fields that people write by hand; only for use in ``__post_init__``.

    Args:
        value: Whose fields; msgspec itself checks them only where it decodes.
        names: Which fields; without any, all.

    Raises:
        Misuse: One is not of its type; the message names it and what it takes.
    """
    hints, plain, values_of = _checks_of(type(value), names)
    values = values_of(value)
    if all(map(contains, plain, map(type, values))):
        return
    for (name, hint), given in zip(hints.items(), values, strict=False):
        try:
            msgspec.convert(given, hint)
        except msgspec.ValidationError as error:
            said = str(error).replace("`", "").replace("null", "None")
            raise Misuse(
                f"{type(value).__name__}({name}={_cut(repr(given))}): {said[:1].lower()}{said[1:]}"
            ) from error


def settle_moments(value: msgspec.Struct, *names: str) -> None:
    """Turn the moments among these fields into UTC; only for use in ``__post_init__``.

    Raises:
        Misuse: One does not say its time zone, or is out of range in UTC.
    """
    for name in names:
        moment: datetime | None = getattr(value, name)
        if moment is None or moment.tzinfo is UTC:
            continue
        if moment.utcoffset() is None:
            raise Misuse(f"{name} has no time zone: give an aware moment, datetime.now(UTC)")
        try:
            set_field(value, name, moment.astimezone(UTC))
        except OverflowError as error:
            raise Misuse(f"{name} is out of range: {moment}") from error


class Formed:
    """What is no struct, and says itself what stands for it in JSON."""

    __slots__ = ()

    def json_form(self) -> object:
        """One step towards JSON: plain values, and structs within them."""
        raise NotImplementedError


def encode_other(value: object) -> object:
    """One step towards JSON from what msgspec does not know.

    Raises:
        TypeError: *value* has no JSON form.
    """
    if isinstance(value, Formed):
        return value.json_form()
    if hasattr(type(value), "model_dump"):
        # A pydantic model, as typed outputs may be; told by its method, for it is not imported.
        return cast("Any", value).model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON: convert it before it enters a result")


JSON = msgspec.json.Encoder(decimal_format="number", enc_hook=encode_other)


@cache
def _checks_of(
    kind: type[msgspec.Struct], names: tuple[str, ...]
) -> tuple[dict[str, Any], list[frozenset[type]], Callable[[object], tuple[object, ...]]]:
    """Annotations by field, types whose every value is right, and what gives the values."""
    names = names or kind.__struct_fields__
    all_hints = get_type_hints(kind)
    hints = {name: all_hints[name] for name in names}
    plain = [frozenset(_plain_types(hint)) for hint in hints.values()]
    # A getter of one name gives no tuple.
    return hints, plain, attrgetter(*names, "__class__")


def _plain_types(hint: Any) -> Iterator[type]:
    for one in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        if isinstance(one, type) and (one in _SCALARS or issubclass(one, msgspec.Struct)):
            yield one


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """A frozen value; what equals its default is left out of the JSON, and when it is shown."""

    def __repr__(self) -> str:
        # Loaded when something is shown.
        from upshot.contract.base.reprs import portray

        return portray(self)


class Tagged(Value, frozen=True, kw_only=True, tag_field="kind", tag=to_snake):
    """A value that stands in a union or alone; its JSON names its kind."""

    @property
    def kind(self) -> str:
        """The word in the JSON that tells which type this is."""
        return str(type(self).__struct_config__.tag)


class Root(Tagged, frozen=True, kw_only=True):
    """A value that is stored or sent on its own.

    Attributes:
        schema_version: The version of the form it was written in; always written.
    """

    schema_version: int = written(SCHEMA_VERSION)


class Local(Formed):
    """What lives in this process only: equal to any other, and null in JSON.

    Attributes:
        values: The objects by name, such as ``raw``.
    """

    __slots__ = ("values",)

    def __init__(self, **values: object) -> None:
        self.values: dict[str, object] = values

    @classmethod
    def of(cls, values: dict[str, object]) -> Local:
        """What is in *values*, which it keeps; it costs half of what keywords do."""
        local = cls.__new__(cls)
        local.values = values
        return local

    def json_form(self) -> None:
        """Nothing: nobody else could have it."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Local)

    def __hash__(self) -> int:
        # It equals None, so it has to hash alike.
        return hash(None)

    def __repr__(self) -> str:
        return f"Local({', '.join(self.values)})"

    def get(self, name: str) -> object:
        """The object called *name*, None where there is none."""
        return self.values.get(name)

    def __copy__(self) -> Local:
        return Local(**self.values)

    def __deepcopy__(self, memo: dict[int, object]) -> Local:
        # Boards and native results are handed on, never copied.
        return Local(**self.values)

    def __reduce__(self) -> tuple[type[Local], tuple[()]]:
        # Pickled values leave the process, and this does not.
        return Local, ()


class RunEvent(Root, frozen=True, kw_only=True):
    """The base of all events.

    Attributes:
        run_id: The run that it is of.
        attempt: The attempt that it belongs to, from 1; 0 before the first.
        time: When it happened, UTC.
        seq: Place in the run's log, from 1; a delta has that of the durable event before it.
        part: 0 on durable events; 1, 2, ... on the deltas that follow one.
        literal: In a log, the fields that are as they stand there, though they look as if they
            had been left out, to be derived from earlier events; empty elsewhere.
    """

    run_id: str = ""
    attempt: int = 0
    time: Moment | None = None
    seq: int = 0
    part: int = 0
    literal: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from upshot.contract.base.reprs import portray_briefly

        return portray_briefly(self, without=("run_id", "attempt", "time"))
