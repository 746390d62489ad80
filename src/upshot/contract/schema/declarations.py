"""What the contract types declare, for any language."""

from __future__ import annotations

import inspect as python_inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias, TypedDict, Union, cast, get_args

import msgspec
from msgspec import UNSET, UnsetType, inspect

from upshot.contract.base.enums import OpenWord
from upshot.contract.base.json_values import to_json
from upshot.contract.base.structs import Json, Local
from upshot.contract.codec import STANDALONE
from upshot.contract.events import Event
from upshot.contract.message import UNKNOWN_TAG, Part, Unknown
from upshot.contract.pending import AnyAnswer, Pending
from upshot.contract.tool_calls import ToolOutcome

__all__ = [
    "Choice",
    "Declaration",
    "Either",
    "Field",
    "JSON_OBJECT",
    "JSON_VALUE",
    "Many",
    "Named",
    "Plain",
    "Record",
    "Shape",
    "Table",
    "Words",
    "read_declarations",
]


class Named(msgspec.Struct, frozen=True):
    """A reference to a declaration, or to one of the two JSON types.

    Attributes:
        name: The declaration's name.
    """

    name: str


class Plain(msgspec.Struct, frozen=True):
    """A scalar.

    Attributes:
        word: null, boolean, integer, number, string, money, moment, day or base64.
    """

    word: str


class Many(msgspec.Struct, frozen=True):
    """An array of any length.

    Attributes:
        item: What each item is.
    """

    item: Shape


class Table(msgspec.Struct, frozen=True):
    """An object with free keys.

    Attributes:
        item: What stands under each key.
    """

    item: Shape


class Either(msgspec.Struct, frozen=True):
    """One of several shapes.

    Attributes:
        options: The shapes, at least two.
    """

    options: tuple[Shape, ...]


class Words(msgspec.Struct, frozen=True):
    """Fixed texts, and where it is open any other text too.

    Attributes:
        words: The texts, in order.
        name: Of the declaration; "" where it stands in a field.
        text: What it is, one line.
        open: Whether words may be added by anybody.
    """

    words: tuple[str, ...]
    name: str = ""
    text: str = ""
    open: bool = False


Shape: TypeAlias = Named | Plain | Many | Table | Either | Words

JSON_VALUE = Named("Json")
JSON_OBJECT = Named("JsonObject")


class Field(msgspec.Struct, frozen=True):
    """One field of an object.

    Attributes:
        name: As it is written.
        shape: What it holds.
        text: What it says, "" where nobody wrote it down.
        always: Whether it is written even where it equals its default.
        default: What its absence means, as JSON; UNSET where that is unknown, or never absent.
    """

    name: str
    shape: Shape
    text: str = ""
    always: bool = False
    default: Json | UnsetType = UNSET


class Record(msgspec.Struct, frozen=True):
    """An object.

    Attributes:
        name: Of the type.
        text: What it is, one line.
        kind: The word under ``kind``, None where it has none.
        fields: In order; none of an object that may hold anything.
    """

    name: str
    text: str = ""
    kind: str | None = None
    fields: tuple[Field, ...] = ()

    @property
    def unknown(self) -> bool:
        """Whether it stands for objects of any kind that nobody knows yet."""
        return self.kind == UNKNOWN_TAG


class Choice(msgspec.Struct, frozen=True):
    """One of several objects, told apart by their kind.

    Attributes:
        name: Of the union.
        text: What it is, one line.
        members: The objects.
    """

    name: str
    text: str
    members: tuple[Record, ...]


Declaration: TypeAlias = Record | Words | Choice

_PLAIN: dict[type[inspect.Type], str] = {
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "string",
    inspect.DecimalType: "money",
    inspect.DateTimeType: "moment",
    inspect.DateType: "day",
    inspect.BytesType: "base64",
}
# msgspec leaves a field out that holds an empty one of these.
_LEFT_OUT: tuple[object, ...] = (dict, list, set)
_ATTRIBUTE = re.compile(r"(?P<name>\w+): (?P<text>.*)")
_CONSTANTS = {"None": "null", "True": "true", "False": "false"}
_CONSTANT = re.compile(rf"\b({'|'.join(_CONSTANTS)})\b")


def read_declarations(
    types: Iterable[Any], unions: Mapping[str, tuple[Any, str]]
) -> tuple[Declaration, ...]:
    """Read what *types* and all types in their fields declare.

    Args:
        types: Structs and typed dicts.
        unions: By name, unions of structs that get a declaration of their own, each with
            one line that says what it is. Fields refer to them by name.

    Returns:
        One declaration a type, word list and union, sorted by name.

    Raises:
        TypeError: A field holds what has no JSON form.
    """
    reader = _Reader({name: get_args(union) for name, (union, _) in unions.items()})
    for seen in inspect.multi_type_info([*types, *(union for union, _ in unions.values())]):
        reader.shape(seen)
    for name, (union, text) in unions.items():
        members = (reader.found[_origin(member).__name__] for member in get_args(union))
        reader.found[name] = Choice(name, text, tuple(cast("Iterator[Record]", members)))
    return tuple(reader.found[name] for name in sorted(reader.found))


class _Reader:
    """Collects declarations while it reads types."""

    def __init__(self, unions: Mapping[str, tuple[Any, ...]]) -> None:
        self.found: dict[str, Declaration] = {}
        self._unions = {
            name: {Named(_origin(member).__name__) for member in members}
            for name, members in unions.items()
        }

    def shape(self, seen: inspect.Type) -> Shape:
        word = _PLAIN.get(type(seen))
        if word is not None:
            return Plain(word)
        match seen:
            case inspect.AnyType():
                return JSON_VALUE
            case inspect.LiteralType(values=values) if all(isinstance(v, str) for v in values):
                return Words(tuple(map(str, values)))
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return Many(self.shape(item))
            case inspect.DictType(value_type=item):
                return JSON_OBJECT if isinstance(item, inspect.AnyType) else Table(self.shape(item))
            case inspect.UnionType(types=types):
                return self._either([self.shape(option) for option in types])
            case inspect.CustomType(cls=cls) if cls is Local:
                return Plain("null")
            case _:
                return self._named(seen)

    def _named(self, seen: inspect.Type) -> Named:
        if not isinstance(seen, inspect.EnumType | inspect.StructType | inspect.TypedDictType):
            raise TypeError(f"{seen!r} has no form in JSON that is known here")
        cls = _origin(seen.cls)
        if cls.__name__ in self.found:
            return Named(cls.__name__)
        text = _summary(cls)
        if isinstance(seen, inspect.EnumType):
            words = tuple(str(word.value) for word in seen.cls)
            self.found[cls.__name__] = Words(
                words, cls.__name__, text, open=issubclass(cls, OpenWord)
            )
            return Named(cls.__name__)
        kind = str(seen.tag) if isinstance(seen, inspect.StructType) and seen.tag else None
        fields = () if kind == UNKNOWN_TAG else self._fields(cls, seen.fields)
        self.found[cls.__name__] = Record(cls.__name__, text, kind, fields)
        return Named(cls.__name__)

    def _fields(self, cls: type, fields: Iterable[inspect.Field]) -> tuple[Field, ...]:
        texts = _attribute_texts(cls)
        read = [
            Field(
                field.encode_name,
                self.shape(field.type),
                texts.get(field.name, ""),
                always=_always_written(field),
                default=_default(field),
            )
            for field in fields
        ]
        if not issubclass(cls, msgspec.Struct):
            # Those of a typed dict come sorted; the order of the source tells more.
            order = list(cls.__annotations__)
            read.sort(key=lambda field: order.index(field.name))
        return tuple(read)

    def _either(self, options: list[Shape]) -> Shape:
        if JSON_VALUE in options:
            return JSON_VALUE
        for name, members in self._unions.items():
            if members.issubset(options):
                options = [Named(name), *(option for option in options if option not in members)]
        options = list(dict.fromkeys(options))
        # Null is said last, as people write it.
        options.sort(key=lambda option: option == Plain("null"))
        return options[0] if len(options) == 1 else Either(tuple(options))


def _origin(cls: Any) -> type[Any]:
    """The class itself where *cls* is one with its parameter filled in."""
    return getattr(cls, "__origin__", cls)


def _always_written(field: inspect.Field) -> bool:
    if field.required:
        return True
    return field.default_factory is not msgspec.NODEFAULT and not _is_left_out(field)


def _is_left_out(field: inspect.Field) -> bool:
    return any(field.default_factory is factory for factory in _LEFT_OUT)


def _default(field: inspect.Field) -> Json | UnsetType:
    if _is_left_out(field):
        return _as_json(field.default_factory())
    if field.default is None or field.default is msgspec.NODEFAULT:
        return UNSET
    return _as_json(field.default)


def _as_json(value: object) -> Json:
    return msgspec.json.decode(to_json(value))


def _summary(cls: type) -> str:
    return _for_any_language((cls.__doc__ or "").partition("\n")[0])


def _attribute_texts(cls: type) -> dict[str, str]:
    """What the docstrings of *cls* and its bases say of their attributes."""
    texts: dict[str, str] = {}
    # A typed dict has no bases but dict at run time.
    for base in reversed(cls.__mro__):
        if base not in (object, dict, msgspec.Struct, TypedDict):
            texts.update(_attributes_section(python_inspect.cleandoc(base.__doc__ or "")))
    return texts


def _attributes_section(docstring: str) -> Iterator[tuple[str, str]]:
    _, _, section = docstring.partition("\nAttributes:\n")
    for entry in re.split(r"\n(?=    \w)", "\n" + section):
        found = _ATTRIBUTE.match(" ".join(entry.split()))
        if found is not None and entry.startswith("    "):
            yield found["name"], _for_any_language(found["text"])


def _for_any_language(text: str) -> str:
    """*text* with Python's constants and double backticks as others write them."""
    text = _CONSTANT.sub(lambda found: _CONSTANTS[found[0]], text)
    return text.replace("``", "`")


STANDALONE_NAME = "Standalone"
# The base of events is none itself, and a model request is written in each provider's own form.
_NEVER_WRITTEN = {"ModelRequest", "RunEvent"}


@cache
def contract_declarations() -> tuple[Declaration, ...]:
    standing: Any = Union[tuple(kind for kind in STANDALONE if kind is not Unknown)]  # noqa: UP007  # made at run time
    return read_declarations(
        _public_structs(),
        {
            STANDALONE_NAME: (standing, "Every kind of value that stands alone."),
            "AnyAnswer": (AnyAnswer, "What people answer."),
            "Event": (Event, "Everything that a run's log and its watchers get."),
            "Part": (Part, "A part of a message or an artifact."),
            "Pending": (Pending, "What a parked run waits for."),
            "ToolOutcome": (ToolOutcome, "What came of a tool call. Closed."),
        },
    )


def _public_structs() -> Iterator[type[msgspec.Struct]]:
    """Every struct that the package exports, so that a new one is declared without a line here."""
    package = sys.modules["upshot.contract"]
    for name in package.__all__:
        value: object = getattr(package, name)
        if not isinstance(value, type) or name in _NEVER_WRITTEN:
            continue
        if issubclass(value, msgspec.Struct):
            yield value
