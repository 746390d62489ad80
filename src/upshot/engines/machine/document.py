"""Reads YAML or JSON text as pieces with locations, and reports faults at them.

YAML is read from the parser's events and never by loading objects. Plain words mean what YAML 1.2
says: ``yes`` and ``no`` are texts, so states may have these names. An alias is not copied, and the
expanded size of all aliases is limited, so a short text cannot become a huge machine. A merge key,
``<<: *base``, adds the keys that a mapping lacks; each piece keeps the location where it is
written.

Source:
    YAML 1.2.2; for merge keys "Merge Key Language-Independent Type for YAML Version 1.1", which
    1.2 omits and users write nevertheless.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from upshot.contract.base.structs import Json
from upshot.errors import Misuse, need_of_extra

Severity = Literal["fault", "warning"]

# More would only hide the first ones.
_MAX_LISTED = 50
_MAX_SHOWN = 60


class Mark(NamedTuple):
    """A place in a machine.

    Attributes:
        file: As it was given, "" if the machine is not from a file.
        line: From 1; 0 without a text.
        column: From 1; 0 without a text.
        path: The path of keys, such as "states.draft.transitions[0].to".
    """

    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.line:
            return f"{self.file or 'machine'}:{self.line}:{self.column}"
        return ": ".join(filter(None, (self.file, self.path))) or "machine"


class MachineFault(NamedTuple):
    """One thing that is wrong with a machine.

    Attributes:
        mark: Where.
        found: What is there.
        expected: What should be.
        severity: "fault", or "warning" for what may be a mistake.
        kind: A word for it, such as "unknown_state".
    """

    mark: Mark
    found: str
    expected: str
    severity: Severity = "fault"
    kind: str = "wrong"

    def __str__(self) -> str:
        word = "" if self.severity == "fault" else f"{self.severity}: "
        return f"{self.mark}: {word}{self.found}: expected {self.expected}"


class BrokenMachine(Misuse):
    """A machine cannot be loaded; the message lists everything that is wrong with it.

    Attributes:
        faults: All faults, in the order of the text.
    """

    def __init__(self, faults: Sequence[MachineFault]) -> None:
        self.faults: tuple[MachineFault, ...] = tuple(faults)
        fatal = [fault for fault in faults if fault.severity == "fault"]
        lines = [str(fault) for fault in fatal[:_MAX_LISTED]]
        if more := len(fatal) - len(lines):
            lines.append(f"and {more} more")
        if len(lines) > 1:
            lines.insert(0, f"the machine has {len(fatal)} faults")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[BrokenMachine], tuple[tuple[MachineFault, ...]]]:
        return type(self), (self.faults,)


MAX_BYTES = 1_000_000
_MAX_DEPTH = 64
_MAX_PIECES = 50_000

_INTEGER = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,240}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
_DIGITS = re.compile(r"[-+]?[0-9]+")
_TOO_LONG = 10**300
_TOO_MANY_DIGITS = ("a number of more than 300 digits", "one of at most 300")
_WANTED_NUMBER = "a number that JSON has"
_SURROGATE = re.compile("[\ud800-\udfff]")
_WANTED_TEXT = "text that can be written in UTF-8"
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_ITEMS_WANTED = f"at most {_MAX_PIECES} values, aliases counted as often as they are used"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text, number, truth value or null.

    Attributes:
        mark: Where it starts.
        value: Its value.
        text: As it is written, without quotes.
        style: The YAML style: "" for plain, a quotation mark, "|" or ">".
    """

    mark: Mark
    value: str | float | bool | None
    text: str = ""
    style: str = ""
    weight: int = 1


@dataclass(slots=True)
class Listing:
    """Several pieces in order."""

    mark: Mark
    items: list[Piece] = field(default_factory=list["Piece"])
    weight: int = 1


@dataclass(slots=True)
class Table:
    """Pieces by name, in order; if a name occurs twice, the first piece is kept."""

    mark: Mark
    items: dict[str, Piece] = field(default_factory=dict[str, "Piece"])
    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    weight: int = 1


Piece: TypeAlias = Scalar | Listing | Table


def plain(piece: Piece) -> Json:
    """Return *piece* as plain data."""
    match piece:
        case Table(items=items):
            return {name: plain(inner) for name, inner in items.items()}
        case Listing(items=items):
            return [plain(inner) for inner in items]
        case Scalar(value=value):
            return value


def describe_node(piece: Piece) -> str:
    """Return what *piece* is, for a fault."""
    match piece:
        case Table(items=items):
            return "a mapping" if items else "an empty mapping"
        case Listing():
            return "a list"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=""):
            return "an empty text"
        case Scalar(value=value):
            kinds: dict[type, str] = {bool: "the truth value", str: "the text"}
            return f"{kinds.get(type(value), 'the number')} {piece.text[:_MAX_SHOWN]!r}"


def read_data(data: object, faults: list[MachineFault]) -> Piece | None:
    """Make pieces from plain data.

    Args:
        data: Mappings, lists, texts, numbers, truth values and None.
        faults: Faults are added to it.

    Returns:
        The whole; None if it is too large or contains itself.
    """
    try:
        return _Pieces(faults).of(data, "", 0)
    except _TooLarge as problem:
        faults.append(_too_large(Mark(""), str(problem)))
        return None


def read_yaml(text: str, faults: list[MachineFault], *, file: str = "") -> Piece | None:
    """Make pieces from a YAML text; JSON is a part of YAML.

    Args:
        text: One document.
        faults: Faults are added to it.
        file: The file that its marks name.

    Returns:
        The whole; None if it is empty or cannot be read to its end.

    Raises:
        Misuse: The extra is not installed.
    """
    try:
        # Not an import statement, because it is an extra without type stubs.
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise Misuse(need_of_extra("a machine in YAML", "machine")) from error
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        faults.append(_too_large(Mark(file, 1, 1), f"more than {MAX_BYTES:,} bytes"))
        return None
    if (lone := _SURROGATE.search(text)) is not None:
        before = text[: lone.start()]
        mark = Mark(file, before.count("\n") + 1, lone.start() - before.rfind("\n"))
        faults.append(MachineFault(mark, f"the character {lone[0]!r}", _WANTED_TEXT, kind="yaml"))
        return None
    composer = _Composer(faults, file)
    try:
        composer.compose(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except _TooLarge as problem:
        faults.append(_too_large(composer.mark, str(problem)))
        return None
    except yaml.YAMLError as error:
        # libyaml 0.2.6 has a depth limit of its own, and reaches it before the composer counts.
        if "nesting depth" in str(error):
            faults.append(_too_large(composer.mark, _TOO_DEEP))
        else:
            faults.append(_unreadable(error, text, file))
        return None
    return composer.root


class _TooLarge(Exception):
    """The text is deeper or larger than any real machine."""


def _too_large(mark: Mark, found: str) -> MachineFault:
    return MachineFault(mark, found, f"a machine of a size that a person can read: {_LIMITS}")


_TOO_DEEP = f"more than {_MAX_DEPTH} levels"
_LIMITS = f"{MAX_BYTES:,} bytes, {_MAX_DEPTH} levels, {_ITEMS_WANTED}"


def _unreadable(error: Any, text: str, file: str) -> MachineFault:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    problem_text, wanted = " ".join(str(problem or error).split()), "one YAML document"
    if (
        mark
        and "cannot start any token" in problem_text
        and _is_at_tab(text, mark.line, mark.column)
    ):
        problem_text, wanted = "a tab in the indentation", "spaces: YAML takes no tabs there"
    # YAML counts from 0, editors from 1.
    place = Mark(file, mark.line + 1, mark.column + 1) if mark else Mark(file, 1, 1)
    return MachineFault(place, f"this is not YAML ({problem_text})", wanted, kind="yaml")


def _is_at_tab(text: str, line: int, column: int) -> bool:
    lines = text.splitlines()
    if line >= len(lines):
        return False
    before, at = lines[line][:column], lines[line][column : column + 1]
    return at == "\t" and not before.strip()


class _Pieces:
    """Makes pieces from plain data."""

    def __init__(self, faults: list[MachineFault]) -> None:
        self._faults = faults
        self._count = 0

    def of(self, value: object, path: str, depth: int) -> Piece:
        self._count += 1
        if depth > _MAX_DEPTH or self._count > _MAX_PIECES:
            raise _TooLarge("this much data")
        mark = Mark("", path=path)
        if isinstance(value, Mapping):
            table = Table(mark)
            for name, item in cast("Mapping[object, object]", value).items():
                key = self._text(name, mark) if isinstance(name, str) else str(name)
                at = Mark("", path=_child_path(path, key))
                if not isinstance(name, str):
                    self._faults.append(MachineFault(at, f"the key {name!r}", "a text as key"))
                table.marks[key] = at
                table.items[key] = self.of(item, at.path, depth + 1)
            return table
        if isinstance(value, list | tuple):
            items = enumerate(cast("Iterable[object]", value))
            return Listing(mark, [self.of(item, f"{path}[{n}]", depth + 1) for n, item in items])
        if isinstance(value, str):
            text = self._text(value, mark)
            return Scalar(mark, text, text, '"')
        if value is None or isinstance(value, bool):
            return Scalar(mark, value, {None: "null", True: "true", False: "false"}[value])
        if isinstance(value, int | float):
            return self._number(value, mark)
        found = f"{type(value).__name__} {value!r:.40}"
        wanted = "a mapping, list, text, number, true, false or null"
        self._add_fault(mark, found, wanted)
        return Scalar(mark, None)

    def _text(self, value: str, mark: Mark) -> str:
        # A subclass may define another __str__.
        text = str.__str__(value)
        if _SURROGATE.search(text) is None:
            return text
        self._add_fault(mark, f"the text {text!r:.40}", _WANTED_TEXT)
        return text.encode("utf-8", "replace").decode()

    def _number(self, value: float, mark: Mark) -> Scalar:
        if isinstance(value, int):
            if abs(value) < _TOO_LONG:
                return Scalar(mark, int(value), str(int(value)))
            self._add_fault(mark, *_TOO_MANY_DIGITS)
        elif math.isfinite(value):
            return Scalar(mark, float(value), str(float(value)))
        else:
            self._add_fault(mark, f"the number {float(value)}", _WANTED_NUMBER)
        return Scalar(mark, None)

    def _add_fault(self, mark: Mark, found: str, wanted: str) -> None:
        self._faults.append(MachineFault(mark, found, wanted, kind="type"))


def _child_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _Composer:
    """Makes pieces from YAML events, on an explicit stack, so that deep texts need no recursion."""

    def __init__(self, faults: list[MachineFault], file: str) -> None:
        self.root: Piece | None = None
        self.mark = Mark(file, 1, 1)
        self._faults = faults
        self._file = file
        self._open: list[Listing | Table] = []
        # For each open mapping, the key whose value comes next.
        self._keys: list[Scalar | None] = []
        self._anchors: dict[str, Piece | None] = {}
        self._names: list[str | None] = []
        # For each open piece, the mappings that its merge key names.
        self._bases: list[list[Table]] = []
        self._documents = 0

    def compose(self, events: Iterable[Any]) -> None:
        for event in events:
            kind = type(event).__name__
            start = event.start_mark
            path = self._path()
            self.mark = Mark(self._file, start.line + 1, start.column + 1, path)
            if kind == "ScalarEvent":
                self._refuse_tag(event)
                self._attach(self._remember_anchor(event, self._scalar(event)))
            elif kind == "AliasEvent":
                self._attach(self._alias(event.anchor))
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self._refuse_tag(event)
                self._open_piece(Table(self.mark) if kind[0] == "M" else Listing(self.mark), event)
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self._close_piece()
            elif kind == "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    self._add_fault("another document", "one document in a file")
                    return

    def _open_piece(self, piece: Listing | Table, event: Any) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise _TooLarge(_TOO_DEEP)
        if event.anchor:
            # It cannot be used before it is complete.
            self._anchors[event.anchor] = None
        self._names.append(event.anchor)
        self._open.append(piece)
        self._keys.append(None)
        self._bases.append([])

    def _close_piece(self) -> None:
        piece, anchor = self._open.pop(), self._names.pop()
        key = self._keys.pop()
        if key is not None:
            self._add_fault(f"the key {key.text!r} without a value", "a value")
        for base in self._bases.pop():
            assert isinstance(piece, Table)
            for name, inner in base.items.items():
                # The mapping's own keys win, and then the bases named first.
                piece.items.setdefault(name, inner)
                piece.marks.setdefault(name, base.marks[name])
        if anchor:
            self._anchors[anchor] = piece
        self._attach(piece)

    def _attach(self, piece: Piece) -> None:
        """Put a complete piece where it belongs."""
        if not self._open:
            self.root = self.root or piece
            return
        holder = self._open[-1]
        holder.weight += piece.weight
        if holder.weight > _MAX_PIECES:
            raise _TooLarge("more values than any machine has")
        if isinstance(holder, Listing):
            holder.items.append(piece)
            return
        key = self._keys[-1]
        if key is not None:
            self._keys[-1] = None
            if key.text == "<<" and not key.style:
                self._merge(key, piece)
            elif key.text in holder.items:
                first = holder.marks[key.text].line
                found = f"the key {key.text!r} a second time"
                mark = key.mark._replace(path=_child_path(self._path(), key.text))
                wanted = f"each key once; line {first} has it already"
                self._faults.append(MachineFault(mark, found, wanted, kind="duplicate"))
            else:
                holder.items[key.text], holder.marks[key.text] = piece, key.mark
        elif isinstance(piece, Scalar):
            path = _child_path(piece.mark.path, piece.text)
            mark = piece.mark._replace(path=path)
            self._keys[-1] = Scalar(mark, piece.value, piece.text, piece.style)
        else:
            self._faults.append(
                MachineFault(piece.mark, "a key that is not a text", "a text as key")
            )
            self._keys[-1] = Scalar(piece.mark, None, "?")

    def _merge(self, key: Scalar, piece: Piece) -> None:
        """Store the mappings to merge when the open mapping ends."""
        named = piece.items if isinstance(piece, Listing) else [piece]
        bases = [one for one in named if isinstance(one, Table)]
        if self._bases[-1]:
            wanted = "one with a list: <<: [*one, *other]"
            self._faults.append(MachineFault(key.mark, "a second <<", wanted, kind="duplicate"))
        elif len(bases) < len(named):
            found = "<< with a value that is not a mapping"
            wanted = "<<: *name of a mapping, or a list of such"
            self._faults.append(MachineFault(key.mark, found, wanted, kind="yaml"))
        else:
            self._bases[-1] += bases

    def _path(self) -> str:
        path = ""
        for holder, key in zip(self._open, self._keys, strict=True):
            if isinstance(holder, Listing):
                path = f"{path}[{len(holder.items)}]"
            elif key is not None:
                path = _child_path(path, key.text)
        return path

    def _remember_anchor(self, event: Any, piece: Scalar) -> Scalar:
        if event.anchor:
            self._anchors[event.anchor] = piece
        return piece

    def _scalar(self, event: Any) -> Scalar:
        style = event.style or ""
        # libyaml does not reject escaped surrogates, which UTF-8 cannot encode.
        text = cast("str", event.value)
        plain = style == "" and event.tag is None
        value = _resolve(text) if plain else text
        if isinstance(value, float) and _DIGITS.fullmatch(text):
            self._add_fault(*_TOO_MANY_DIGITS)
        elif isinstance(value, float) and not math.isfinite(value):
            self._add_fault(f"the number {text:.40}", _WANTED_NUMBER)
        return Scalar(self.mark, value, text, style)

    def _alias(self, name: str) -> Piece:
        piece = self._anchors.get(name)
        if piece is None:
            held = name in self._anchors
            found = f"the alias *{name} " + ("inside its own value" if held else "of nothing")
            self._add_fault(found, f"an anchor &{name} before it")
            return Scalar(self.mark, None)
        return piece

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag not in _TAGS:
            self._add_fault(f"the tag {event.tag}", "no tags: a machine is plain data")

    def _add_fault(self, found: str, expected: str) -> None:
        self._faults.append(MachineFault(self.mark, found, expected, kind="yaml"))


# The tags that "!", "!!str" and the like resolve to.
_TAGS = {"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq"))}


def _resolve(text: str) -> str | float | bool | None:
    """Return the value of a plain word in YAML 1.2.

    Source:
        YAML 1.2.2, section 10.3.2, the core schema.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
