"""Reading the keys of a mapping: what is missing, unknown or of another kind becomes a fault."""

from __future__ import annotations

from collections.abc import Collection
from types import UnionType
from typing import cast

from upshot.contract.base.structs import Json
from upshot.engines.machine.document import (
    Listing,
    MachineFault,
    Mark,
    Piece,
    Scalar,
    Table,
    expected,
)
from upshot.engines.machine.expressions import (
    BadExpression,
    Constant,
    Expression,
    Fields,
    Formula,
    Items,
)
from upshot.engines.machine.machine_schema import FORMS

__all__ = ["TableReader", "plain"]

_MAX_SHOWN = 60
_QUOTES = ("'", '"')


class TableReader:
    """Reads pieces and keeps all that is wrong with them.

    Attributes:
        faults: What is wrong, in the order in which it was found.
    """

    def __init__(self, faults: list[MachineFault]) -> None:
        self.faults = faults

    def tell(self, mark: Mark, found: str, expected: str, *, kind: str = "wrong") -> None:
        """Keep a fault."""
        self.faults.append(MachineFault(mark, found, expected, kind=kind))

    def warn(self, mark: Mark, found: str, expected: str, *, kind: str) -> None:
        """Keep a warning."""
        self.faults.append(MachineFault(mark, found, expected, "warning", kind))

    def table(self, piece: Piece, form: str, what: str) -> Table | None:
        """A mapping with keys of *form* and no others; unknown ones are told."""
        table = self.mapping(piece, what)
        if table is None:
            return None
        keys = FORMS[form]
        for name, mark in table.marks.items():
            if name not in keys:
                self.tell(mark, f"the key {name!r}", expected(name, keys, "a key of " + what),
                          kind="unknown_key")  # fmt: skip
        for name, key in keys.items():
            if key.required and name not in table.items:
                self.tell(table.mark, f"{what} without {name!r}", f"the key {name!r}",
                          kind="missing_key")  # fmt: skip
        return table

    def mapping(self, piece: Piece, what: str) -> Table | None:
        """A mapping."""
        if isinstance(piece, Table):
            return piece
        self.tell(piece.mark, shown(piece), f"a mapping: {what}", kind="type")
        return None

    def listing(self, piece: Piece, what: str) -> Listing | None:
        """A list."""
        if isinstance(piece, Listing):
            return piece
        self.tell(piece.mark, shown(piece), f"a list: {what}", kind="type")
        return None

    def name(self, piece: Piece, what: str) -> str:
        """A name as it is written, "" where there is none."""
        if isinstance(piece, Scalar) and piece.value is not None and piece.text.strip():
            return piece.text
        self.tell(piece.mark, shown(piece), what, kind="type")
        return ""

    def text(self, piece: Piece, what: str) -> str:
        """A text, "" where there is none."""
        if isinstance(piece, Scalar) and isinstance(piece.value, str):
            return piece.value
        self.tell(piece.mark, shown(piece), f"a text: {what}", kind="type")
        return ""

    def word(self, piece: Piece, what: str) -> str:
        """A text that is not empty, "" where there is none."""
        if isinstance(piece, Scalar) and piece.value == "":
            self.tell(piece.mark, "an empty text", what, kind="type")
            return ""
        return self.text(piece, what)

    def count(self, piece: Piece, what: str) -> int | None:
        """A whole number from 1."""
        value = piece.value if isinstance(piece, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return value
        self.tell(piece.mark, shown(piece), f"a whole number from 1: {what}", kind="type")
        return None

    def seconds(self, piece: Piece, what: str) -> float | None:
        """A number from 0."""
        value = piece.value if isinstance(piece, Scalar) else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and 0 <= (number := float(cast("float", value))) < float("inf"):
            return number
        self.tell(piece.mark, shown(piece), f"seconds, 0 or more: {what}", kind="type")
        return None

    def expression(
        self, piece: Piece, what: str, items: Collection[str] = (), *, hint: str = ""
    ) -> Expression | None:
        """An expression, which is a text."""
        if not isinstance(piece, Scalar) or not isinstance(piece.value, str):
            self.tell(piece.mark, shown(piece), f"a text that is an expression: {what}",
                      kind="type")  # fmt: skip
            return None
        try:
            return Expression(piece.text, piece.mark, items)
        except BadExpression as problem:
            mark = _inside(piece, problem)
            self.tell(mark, problem.found, problem.expected + hint, kind="expression")
            return None

    def condition(self, piece: Piece) -> Expression | None:
        """An expression that gives true or false, or one of these itself."""
        if isinstance(piece, Scalar) and isinstance(piece.value, bool):
            return Expression("true" if piece.value else "false", piece.mark)
        made = self.expression(piece, "a condition, such as context.count < 3; or true or false")
        if made is not None and not self.gives(made, bool, "a condition: true or false"):
            return None
        return made

    def gives(self, made: Expression, kinds: type | UnionType, what: str) -> bool:
        """Whether *made* may give one of *kinds*; what it always gives is known here."""
        misfit = made.misfit(kinds)
        if misfit:
            found = f"the expression {made.source.strip()[:_MAX_SHOWN]!r}, which {misfit}"
            self.tell(made.mark, found, what, kind="expression")
        return not misfit

    def formula(self, piece: Piece, items: Collection[str] = ()) -> Formula:
        """A value: an expression, a literal text, or a mapping or list of values."""
        match piece:
            case Table(items={"text": Scalar(value=str(text)), **more}) if not more:
                return Constant(text)
            case Table():
                return self.fields(piece, items)
            case Listing():
                return Items([self.formula(item, items) for item in piece.items])
            case Scalar(value=value) if not isinstance(value, str):
                return Constant(value)
            case Scalar():
                hint = "; a literal text is {text: ...}"
                made = self.expression(piece, "a value", items, hint=hint)
                if made is None or not self.gives(made, object, "a value"):
                    return Constant(None)
                return made

    def fields(self, table: Table, items: Collection[str] = ()) -> Fields:
        """Values by name."""
        return Fields({name: self.formula(piece, items) for name, piece in table.items.items()})

    def values(self, piece: Piece, items: Collection[str] = ()) -> Formula:
        """Values by name, where ``text`` is a name like any other; or one that gives all."""
        return self.fields(piece, items) if isinstance(piece, Table) else self.formula(piece, items)


def plain(piece: Piece) -> Json:
    """The plain data that *piece* stands for."""
    match piece:
        case Table(items=items):
            return {name: plain(inner) for name, inner in items.items()}
        case Listing(items=items):
            return [plain(inner) for inner in items]
        case Scalar(value=value):
            return value


def shown(piece: Piece) -> str:
    """What *piece* is, for a fault."""
    match piece:
        case Table():
            return "a mapping"
        case Listing():
            return "a list"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=value):
            kinds: dict[type, str] = {bool: "the truth value", str: "the text"}
            return f"{kinds.get(type(value), 'the number')} {piece.text[:_MAX_SHOWN]!r}"


def _inside(piece: Scalar, problem: BadExpression) -> Mark:
    """The place in the file of a place in an expression.

    It is exact where the expression stands on one line as it is; a text with escapes or one
    that is folded is told by its beginning.
    """
    mark = piece.mark
    if not mark.line:
        return mark
    lines = piece.text.count("\n")
    if piece.style == "|" and problem.line <= lines + 1:
        # The block begins in the next line; how deep it is indented is not known here.
        return mark._replace(line=mark.line + problem.line)
    if (
        lines
        or piece.style == ">"
        or "\\" in piece.text
        or "'" in piece.text * (piece.style == "'")
    ):
        return mark
    return mark._replace(column=mark.column + (piece.style in _QUOTES) + problem.column - 1)
