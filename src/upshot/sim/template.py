"""Templates of a scenario: text that quotes the request, and nothing more.

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
from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import Struct

from .filters import FILTERS, Missing, Unquotable, shown

__all__ = [
    "ROOTS",
    "Expression",
    "FilterCall",
    "Lookup",
    "Quotes",
    "Template",
    "TemplateSyntax",
    "compile_template",
]

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
