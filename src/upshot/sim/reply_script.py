"""The replies of a scenario: which one a request gets, and how its templates are filled.

A template is text with ``{{ path }}`` in it. A path begins at ``results``, ``all`` or
``request`` and goes on with ``.name``, ``["any name"]`` and ``[index]``. With
``| default(value)``, where the value is a literal, a path may lead nowhere. A literal
``{{`` is written ``{{ "{{" }}``. That is all: a scenario repeats what tools really returned, and
cannot compute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from upshot.errors import Misuse
from upshot.sim.exchange import Call, Problem, Quotes, Turn
from upshot.sim.faults import FaultBox, placed
from upshot.sim.scenario import Reply, Scenario

_TEXT = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_STEP = re.compile(rf"\.(?P<name>[^\W\d][\w-]*)|\[(?P<index>-?\d{{1,15}})\]|\[(?P<key>{_TEXT})\]")
_STEPS = r"(?:\.[^\W\d][\w-]*|\[-?\d{1,15}\]|\[" + _TEXT + r"\])*"
_LITERAL = rf"{_TEXT}|-?(?:0|[1-9]\d*)(?:\.\d+)?|true|false|null"
_EXPRESSION = re.compile(
    rf"""\{{\{{\s*(?:(?P<text>{_TEXT})
        |(?P<root>results|all|request)(?P<steps>{_STEPS})
         (?:\s*\|\s*default\(\s*(?P<default>{_LITERAL})\s*\))?)\s*\}}\}}""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_EXPECTED = 'a path such as results.NAME or request.text, perhaps with | default("...")'


class Missing(LookupError):
    """A path of a template leads nowhere; the message names the path and the value found."""


class Quote(Struct, frozen=True):
    """One ``{{ path }}`` of a template."""

    root: str
    steps: tuple[str | int, ...]
    default: object = UNSET

    def value(self, quotes: Quotes) -> object:
        """The value quoted."""
        try:
            value = self._find(quotes)
        except Missing:
            if self.default is UNSET:
                raise
            return self.default
        return self.default if value is None and self.default is not UNSET else value

    def _find(self, quotes: Quotes) -> object:
        value = self._root(quotes)
        for place, step in enumerate(self.steps):
            if lack := _lack(value, step):
                path, before = self._path(len(self.steps)), self._path(place)
                raise Missing(f"nothing at {path}: {before} {lack}")
            value = cast("dict[str | int, object]", value)[step]
        return value

    def _root(self, quotes: Quotes) -> object:
        if self.root == "request":
            return {"text": quotes.text, "model": quotes.model}
        if self.root == "all":
            every: dict[str, list[object]] = {}
            for tool, result in quotes.results:
                every.setdefault(tool, []).append(result)
            return every
        if self.steps and isinstance(self.steps[0], str):
            # Of several results of a tool the last one stays.
            return dict(quotes.results)
        return [result for _, result in quotes.results]

    def _path(self, length: int) -> str:
        steps = self.steps[:length]
        return self.root + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)


@lru_cache(1024)
def parse_template(text: str) -> tuple[str | Quote, ...]:
    """Split a template into plain text and quotes."""
    parts: list[str | Quote] = []
    position = 0
    # Single braces are plain text: code and JSON in a reply need no escaping.
    while (start := text.find("{{", position)) >= 0:
        found = _EXPRESSION.match(text, start)
        if found is None:
            around = text[max(0, start - 30) : start + 30]
            raise Misuse(f"at character {start}: expected {_EXPECTED}, got {around!r}")
        parts += [text[position:start], _part(found)]
        position = found.end()
    return tuple(part for part in (*parts, text[position:]) if part != "")


def _part(found: re.Match[str]) -> str | Quote:
    if found["text"] is not None:
        return _unquoted(found["text"])
    steps = tuple(
        int(step["index"]) if step["index"] else step["name"] or _unquoted(step["key"])
        for step in _STEP.finditer(found["steps"])
    )
    default = found["default"]
    if default is None:
        return Quote(found["root"], steps)
    literal = _unquoted(default) if default[0] in "\"'" else msgspec.json.decode(default)
    return Quote(found["root"], steps, literal)


def _unquoted(literal: str) -> str:
    """The text of a literal; unlike in JSON, it may hold line breaks and escape anything."""
    return re.sub(
        r"\\(.)", lambda at: {"n": "\n", "t": "\t"}.get(at[1], at[1]), literal[1:-1], flags=re.S
    )


def fill(template: str, quotes: Quotes, *, as_text: bool = True) -> object:
    """Fill a template in."""
    parts = parse_template(template)
    if not as_text and len(parts) == 1 and isinstance(parts[0], Quote):
        return parts[0].value(quotes)
    return "".join(part if isinstance(part, str) else _shown(part.value(quotes)) for part in parts)


def _shown(value: object) -> str:
    """A value in a text: a list of objects is a Markdown table, anything else compact JSON."""
    rows = cast("list[object]", value) if isinstance(value, list) else []
    named = [cast("dict[str, object]", row) for row in rows if isinstance(row, dict)]
    if not named or len(named) < len(rows):
        return _as_text(cast("object", value))
    # A dict keeps the order of first appearance, which a set would lose.
    names = list(dict.fromkeys(name for row in named for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in named]
    lines = [names, ["---"] * len(names), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _as_text(value: object) -> str:
    """A text unchanged, which may be broken JSON; anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cell(value: object) -> str:
    text = _as_text(value)
    # A bar or a line break would end the cell.
    return "" if value is None else text.replace("|", "\\|").replace("\n", " ")


def _lack(value: object, step: str | int) -> str:
    """Why *step* leads nowhere in *value*; "" if it leads somewhere."""
    if isinstance(value, Mapping):
        names = sorted(cast("Mapping[str, object]", value))
        if isinstance(step, int):
            return "is an object"
        known = ", ".join(names[:12]) or "nothing"
        return "" if step in names else f"has no {step!r} (it has {known})"
    if isinstance(value, list):
        number = len(cast("list[object]", value))
        if isinstance(step, str):
            return "is a list"
        return "" if -number <= step < number else f"has {number} items"
    return f"is {msgspec.json.encode(value).decode()[:60]}"


class Script:
    """The replies for one model, or for all that have none of their own."""

    def __init__(self, scenario: Scenario, replies: Sequence[Reply | str], place: str) -> None:
        self._scenario = scenario
        self._place = place
        self._replies = [
            Reply(text=reply) if isinstance(reply, str) else reply for reply in replies
        ]
        # Replies without a quote: their turns are kept, for they are the common case.
        self._is_plain = [
            _is_plain(reply, f"{place}[{number}]") for number, reply in enumerate(self._replies)
        ]
        self._kept: dict[tuple[int, str], Turn] = {}
        self.faults: FaultBox = FaultBox(
            fault
            for number, reply in enumerate(self._replies)
            for fault in placed(reply.faults, number)
        )

    def position(self, index: int) -> int | Problem:
        """The place of the reply after *index* assistant messages, or that none is left."""
        total = len(self._replies)
        if index < total:
            return index
        if self._scenario.when_spent == "error":
            return Problem(
                400,
                f"the scenario is spent: {self._place} has {total} replies, "
                f"and the request holds {index} assistant messages",
                param="messages",
            )
        return total - 1 if self._scenario.when_spent == "last" else index % total

    def reply(self, position: int) -> Reply:
        """The reply at *position*."""
        return self._replies[position]

    def turn(
        self, position: int, quotes: Callable[[], Quotes], *, index: int, id_prefix: str
    ) -> Turn | Problem:
        """The turn of the model, or what the request lacks to fill it in."""
        # Not where replies repeat: ids of calls hold the index, and must differ from turn to turn.
        kept = self._kept.get((position, id_prefix)) if index == position else None
        if kept is not None:
            return kept
        reply, is_plain = self._replies[position], self._is_plain[position]
        place = f"{self._place}[{position}]"
        offered = Quotes([], "", "") if is_plain else quotes()
        try:
            said = _filled(reply, offered, place)
        except Missing as error:
            return Problem(400, str(error), param="messages")
        arguments = [_as_text(one["arguments"]) for one in said["tool_calls"]]
        calls = (
            Call(call.id or f"{id_prefix}{index:04d}_{number}", call.name, arguments[number])
            for number, call in enumerate(reply.tool_calls)
        )
        turn = Turn(
            text=_shown(said["text"]),
            reasoning=_shown(said["reasoning"]),
            refusal=_shown(said["refusal"]),
            calls=tuple(calls),
            finish=reply.finish_reason or ("tool_use" if reply.tool_calls else "stop"),
            chunk_chars=reply.chunk_chars or self._scenario.chunk_chars,
        )
        if is_plain and index == position:
            self._kept[position, id_prefix] = turn
        return turn


def compile_scripts(scenario: Scenario, where: str = "scenario") -> dict[str | None, Script]:
    """Compile all replies of *scenario*."""
    try:
        scripts: dict[str | None, Script] = {
            model: Script(scenario, replies, f"models[{model!r}]")
            for model, replies in scenario.models.items()
        }
        if scenario.replies:
            scripts[None] = Script(scenario, scenario.replies, "replies")
    # The place is known deep inside, the file only here.
    except Misuse as error:
        raise Misuse(f"{where}: {error}") from error.__cause__
    return scripts


def _is_plain(reply: Reply, place: str) -> bool:
    """Whether *reply* quotes nothing."""
    has_quote = False

    def check(text: str, where: str) -> None:
        nonlocal has_quote
        try:
            parts = parse_template(text)
        except Misuse as error:
            raise Misuse(f"{where}: {error}") from error
        has_quote = has_quote or any(isinstance(part, Quote) for part in parts)

    _change_texts(_templates(reply), place, check)
    return not has_quote


def _templates(reply: Reply) -> dict[str, object]:
    """The templates of *reply*, in the form in which messages name their places."""
    calls = [{"arguments": call.arguments} for call in reply.tool_calls]
    texts = {name: getattr(reply, name) for name in ("text", "reasoning", "refusal")}
    return {**texts, "tool_calls": calls}


def _filled(reply: Reply, quotes: Quotes, place: str) -> dict[str, Any]:
    """The templates of *reply*, each filled in; a template of one quote becomes its value."""

    def filled(text: str, where: str) -> object:
        try:
            return fill(text, quotes, as_text=False)
        except Missing as error:
            raise Missing(f"{where}: {error}") from error

    return cast("dict[str, Any]", _change_texts(_templates(reply), place, filled))


def _change_texts(value: object, place: str, change: Callable[[str, str], object]) -> object:
    """*value* with every text in it replaced by what *change* makes of it and its place."""
    if isinstance(value, str):
        return change(value, place)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _change_texts(item, f"{place}.{name}", change) for name, item in items}
    if isinstance(value, list | tuple):
        items = enumerate(cast("list[object]", value))
        return [_change_texts(item, f"{place}[{number}]", change) for number, item in items]
    return value
