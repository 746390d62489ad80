"""Text that quotes the request, and its filters.

Templates of a scenario: text that quotes the request, and nothing more.

The grammar::

    template   = *( text / "{{" expression "}}" )
    expression = source *( "|" filter )
    source     = path / string
    path       = root *( "." name / "[" integer "]" / "[" string "]" )
    root       = "results" / "all" / "request"
    filter     = name [ "(" literal *( "," literal ) ")" ]
    literal    = string / number / "true" / "false" / "null"

There are no variables, no arithmetic and no conditions: a scenario can only repeat what tools
really returned. A literal ``{{`` is written ``{{ "{{" }}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct

__all__ = [
    "Expression",
    "FILTERS",
    "Filter",
    "FilterCall",
    "Lookup",
    "Missing",
    "Quotes",
    "ROOTS",
    "Template",
    "TemplateSyntax",
    "Unquotable",
    "compile_template",
    "shown",
]


class Unquotable(LookupError):
    """A template does not fit the request; the message names the path or filter."""


class Missing(Struct, frozen=True):
    """What a path that leads nowhere gives, so that ``default`` can replace it.

    Attributes:
        message: Which path, and what was found in its place.
    """

    message: str


class Filter(Struct, frozen=True):
    """One filter.

    Attributes:
        function: Takes the value and the arguments; raises Unquotable where the value does not fit.
        usage: Its arguments in words, for messages.
        least: How many arguments it needs.
        most: How many it takes; None is any number.
        types: What every argument must be.
        takes_missing: It is also asked where there is no value.
    """

    function: Callable[..., object]
    usage: str
    least: int = 0
    most: int | None = 0
    types: tuple[type, ...] = (str,)
    takes_missing: bool = False

    def accepts(self, arguments: Sequence[object]) -> bool:
        """Whether it can be called with *arguments*."""
        enough = self.least <= len(arguments) and (self.most is None or len(arguments) <= self.most)
        return enough and all(isinstance(argument, self.types) for argument in arguments)

    def apply(self, value: object, arguments: Sequence[object]) -> object:
        """Filter *value*; a missing one passes unless the filter takes it. Raises Unquotable."""
        # It travels through the filters, so that a default may stand at the end of the pipe.
        if isinstance(value, Missing) and not self.takes_missing:
            return value
        return self.function(value, *arguments)


def shown(value: object) -> str:
    """A value as text: a string as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _items(value: object, filter_name: str) -> list[object]:
    if not isinstance(value, list):
        raise Unquotable(f"the filter {filter_name} wants a list, got {shown(value)[:60]}")
    return cast("list[object]", value)


def _as_object(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _default(value: object, otherwise: object) -> object:
    return otherwise if value is None or isinstance(value, Missing) else value


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _count(value: object) -> int:
    if isinstance(value, (list, Mapping, str)):
        return len(cast("list[object]", value))
    raise Unquotable(f"the filter count wants a list, an object or a text, got {shown(value)[:60]}")


def _first(value: object, number: int = 1) -> object:
    return (
        value[: max(0, number)]
        if isinstance(value, str)
        else _items(value, "first")[: max(0, number)]
    )


def _last(value: object, number: int = 1) -> object:
    sequence = value if isinstance(value, str) else _items(value, "last")
    return sequence[max(0, len(sequence) - max(0, number)) :]


def _join(value: object, separator: str = ", ") -> str:
    return separator.join(shown(item) for item in _items(value, "join"))


def _bullets(value: object) -> str:
    return "\n".join(f"- {shown(item)}" for item in _items(value, "bullets"))


def _each(value: object, name: str) -> list[object]:
    return [_field(item, name) for item in _items(value, "each")]


def _field(item: object, name: str) -> object:
    mapping = _as_object(item)
    if mapping is not None and name in mapping:
        return mapping[name]
    raise Unquotable(f"the filter each wants objects with {name!r}, got {shown(item)[:60]}")


def _table(value: object, *columns: str) -> str:
    rows = _rows(value, columns)
    # A dict keeps the order of first appearance, which a set would lose.
    names = list(columns) if columns else list({name: None for row in rows for name in row})
    if not names:
        return "(no rows)"
    lines = [
        names,
        ["---"] * len(names),
        *([_cell(row.get(name)) for name in names] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows(value: object, columns: Sequence[str]) -> list[Mapping[str, object]]:
    """Read a list, or an object, whose entries become rows of two columns."""
    mapping = _as_object(value)
    if mapping is not None:
        key, content = columns if len(columns) == 2 else ("name", "value")
        return [{key: name, content: item} for name, item in mapping.items()]
    single = columns[0] if columns else "value"
    return [_as_object(item) or {single: item} for item in _items(value, "table")]


def _cell(value: object) -> str:
    # A bar or a line break would end the cell.
    return "" if value is None else shown(value).replace("|", "\\|").replace("\n", " ")


FILTERS: Mapping[str, Filter] = {
    "default": Filter(
        _default, "one value", 1, 1, types=(str, int, float, bool, type(None)), takes_missing=True
    ),
    "json": Filter(_json, "no argument"),
    "count": Filter(_count, "no argument"),
    "first": Filter(_first, "at most one whole number", 0, 1, types=(int,)),
    "last": Filter(_last, "at most one whole number", 0, 1, types=(int,)),
    "join": Filter(_join, "at most one text", 0, 1),
    "each": Filter(_each, "one field name", 1, 1),
    "bullets": Filter(_bullets, "no argument"),
    "table": Filter(_table, "column names", 0, None),
}
"""Every filter by its name in templates."""

ROOTS = ("results", "all", "request")

_TOKEN = re.compile(
    r"""\s*(?:(?P<close>\}\})
        |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
        |(?P<number>-?\d{1,15}(?:\.\d{1,15})?)
        |(?P<name>[^\W\d][\w-]*)
        |(?P<mark>[.\[\]|(),]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_LITERAL_NAMES: dict[str, object] = {"true": True, "false": False, "null": None}


class TemplateSyntax(ValueError):
    """A template that breaks the grammar; the message says where and what was expected.

    Attributes:
        position: Index of the offending character in the template.
    """

    def __init__(self, expected: str, position: int) -> None:
        super().__init__(f"at character {position}: expected {expected}")
        self.position = position


class Quotes(Struct, frozen=True):
    """What a request offers to be quoted.

    Attributes:
        named: Last result of each tool, by tool name.
        ordered: Every tool result, in the order of the request.
        every: All results of each tool, by tool name, in order.
        request: ``text`` (of the last user message) and ``model``.
    """

    named: Mapping[str, object]
    ordered: list[object]
    every: Mapping[str, list[object]]
    request: Mapping[str, object]


class Lookup(Struct, frozen=True):
    """A path into the quotes.

    Attributes:
        root: One of :data:`ROOTS`.
        segments: Names and indexes, outermost first; a negative index counts from the end.
    """

    root: str
    segments: tuple[str | int, ...]

    def __str__(self) -> str:
        return _path_text(self.root, self.segments)


class FilterCall(Struct, frozen=True):
    """One filter with its literal arguments."""

    name: str
    arguments: tuple[object, ...] = ()


class Expression(Struct, frozen=True):
    """What stands between ``{{`` and ``}}``: a path or a literal string, and filters."""

    source: Lookup | str
    filters: tuple[FilterCall, ...] = ()

    def value(self, quotes: Quotes) -> object:
        """The JSON value quoted.

        Raises:
            Unquotable: The path leads nowhere, or a filter does not fit the value.
        """
        value = _look_up(self.source, quotes) if isinstance(self.source, Lookup) else self.source
        for call in self.filters:
            value = FILTERS[call.name].apply(value, call.arguments)
        if isinstance(value, Missing):
            raise Unquotable(value.message)
        return value


class Template(Struct, frozen=True):
    """A compiled template.

    Attributes:
        pieces: Plain text and expressions, in order; no two texts are neighbours.
    """

    pieces: tuple[str | Expression, ...]

    @property
    def is_static(self) -> bool:
        """True if it quotes nothing."""
        return not any(
            isinstance(piece, Expression) and isinstance(piece.source, Lookup)
            for piece in self.pieces
        )

    def text(self, quotes: Quotes) -> str:
        """Fill it as text; a quoted value that is no string is compact JSON. Raises Unquotable."""
        return "".join(
            piece if isinstance(piece, str) else shown(piece.value(quotes)) for piece in self.pieces
        )

    def value(self, quotes: Quotes) -> object:
        """Fill it: the JSON value where it is one expression, else text. Raises Unquotable."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Expression):
            return self.pieces[0].value(quotes)
        return self.text(quotes)


def compile_template(text: str) -> Template:
    """Compile a template.

    Raises:
        TemplateSyntax: It breaks the grammar, or names an unknown root or filter.
    """
    pieces: list[str | Expression] = []
    # Single braces are plain text: code and JSON in a reply need no escaping.
    position = 0
    while (start := text.find("{{", position)) >= 0:
        if start > position:
            pieces.append(text[position:start])
        reader = _Reader(text, start + 2)
        pieces.append(reader.expression())
        position = reader.position
    if position < len(text):
        pieces.append(text[position:])
    return Template(tuple(pieces))


class _Token(Struct, frozen=True):
    kind: str
    text: str
    start: int


class _Reader:
    """Reads one expression; ``position`` is where the next token is looked for."""

    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position

    def expression(self) -> Expression:
        # Tokens, not a search for "}}": a quoted text may hold braces.
        source = self._source()
        filters: list[FilterCall] = []
        while self._peek() == "|":
            self._take()
            filters.append(self._filter())
        self._expect("}}")
        return Expression(source, tuple(filters))

    def _source(self) -> Lookup | str:
        token = self._take()
        if token.kind == "string":
            return _unquote(token.text)
        if token.text not in ROOTS:
            raise TemplateSyntax(f"one of {', '.join(ROOTS)}, or a quoted text", token.start)
        return Lookup(token.text, tuple(self._segments()))

    def _segments(self) -> Iterator[str | int]:
        while self._peek() in (".", "["):
            if self._take().text == ".":
                yield self._name("a name after the dot").text
            else:
                yield self._index()
                self._expect("]")

    def _index(self) -> str | int:
        token = self._take()
        if token.kind == "string":
            return _unquote(token.text)
        if token.kind == "number" and "." not in token.text:
            return int(token.text)
        raise TemplateSyntax("a whole number or a quoted name in the brackets", token.start)

    def _filter(self) -> FilterCall:
        token = self._name("a filter after the bar")
        if token.text not in FILTERS:
            raise TemplateSyntax(f"a filter, one of {', '.join(FILTERS)}", token.start)
        arguments = tuple(self._arguments()) if self._peek() == "(" else ()
        wanted = FILTERS[token.text]
        if not wanted.accepts(arguments):
            raise TemplateSyntax(f"{token.text} with {wanted.usage}", token.start)
        return FilterCall(token.text, arguments)

    def _arguments(self) -> Iterator[object]:
        self._expect("(")
        if self._peek() != ")":
            yield self._literal()
            while self._peek() == ",":
                self._take()
                yield self._literal()
        self._expect(")")

    def _literal(self) -> object:
        token = self._take()
        if token.kind == "string":
            return _unquote(token.text)
        if token.kind == "number":
            return float(token.text) if "." in token.text else int(token.text)
        if token.text in _LITERAL_NAMES:
            return _LITERAL_NAMES[token.text]
        raise TemplateSyntax("a quoted text, a number, true, false or null", token.start)

    def _name(self, expected: str) -> _Token:
        token = self._take()
        if token.kind != "name":
            raise TemplateSyntax(expected, token.start)
        return token

    def _expect(self, text: str) -> None:
        token = self._take()
        if token.text != text or token.kind == "string":
            raise TemplateSyntax(text, token.start)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self.position)
        return match.group(match.lastgroup or "close") if match else ""

    def _take(self) -> _Token:
        match = _TOKEN.match(self._text, self.position)
        if match is None or match.lastgroup is None:
            raise TemplateSyntax("a path, a filter or the closing }}", self.position)
        self.position = match.end()
        return _Token(match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup))


def _unquote(literal: str) -> str:
    return _ESCAPED.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), literal[1:-1])


def _look_up(path: Lookup, quotes: Quotes) -> object:
    value = _enter(path, quotes)
    for place, segment in enumerate(path.segments):
        found = _step(value, segment)
        if isinstance(found, Missing):
            before = _path_text(path.root, path.segments[:place])
            return Missing(f"nothing at {path}: {before} {found.message}")
        value = found
    return value


def _enter(path: Lookup, quotes: Quotes) -> object:
    """Resolve the root: for ``results`` it depends on whether a name or an index follows."""
    if path.root == "request":
        return quotes.request
    if path.root == "all":
        return quotes.every
    # Two views of the same results; a name that looks like a number cannot be meant by [0].
    by_position = not path.segments or isinstance(path.segments[0], int)
    return quotes.ordered if by_position else quotes.named


def _step(value: object, segment: str | int) -> object:
    if isinstance(value, Mapping) and isinstance(segment, str):
        mapping = cast("Mapping[str, object]", value)
        if segment in mapping:
            return mapping[segment]
        return Missing(f"has no {segment!r} (it has {_names(mapping)})")
    if isinstance(value, list) and isinstance(segment, int):
        items = cast("list[object]", value)
        in_range = -len(items) <= segment < len(items)
        return items[segment] if in_range else Missing(f"has {len(items)} items")
    return Missing(f"is {_described(cast('object', value))}")


def _described(value: object) -> str:
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else msgspec.json.encode(value).decode()[:60]


def _names(mapping: Mapping[str, object]) -> str:
    return ", ".join(sorted(map(str, mapping))[:12]) or "nothing"


def _path_text(root: str, segments: tuple[str | int, ...]) -> str:
    return root + "".join(
        f"[{segment}]" if isinstance(segment, int) else f".{segment}" for segment in segments
    )
