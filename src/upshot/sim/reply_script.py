"""Script: the replies of a scenario, compiled, and the choice of the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from upshot.errors import Misuse
from upshot.sim.exchange import Problem
from upshot.sim.faults import FaultBox, placed
from upshot.sim.scenario import Reply, Scenario, ScriptedCall
from upshot.sim.templates import Quotes, Template, TemplateSyntax, Unquotable, compile_template

__all__ = ["Call", "CompiledReply", "Script", "Turn", "compile_scripts"]

Tree: TypeAlias = "Template | list[object] | dict[str, object] | object"
"""JSON whose strings have become templates."""

_NO_QUOTES = Quotes({}, [], {}, {})


class Call(Struct, frozen=True):
    """One tool call as it is said; ``arguments`` is its text, usually JSON."""

    id: str
    name: str
    arguments: str


class Turn(Struct, frozen=True):
    """What the model says in one reply; hashable, so that its encoded form can be kept."""

    text: str
    reasoning: str
    refusal: str
    calls: tuple[Call, ...]
    finish: str
    chunk_chars: int


class CompiledReply:
    """A reply with its templates compiled.

    Args:
        reply: The reply.
        place: Where it stands, for messages: ``replies[0]``.

    Raises:
        Misuse: A template breaks the grammar; the message names its place.
    """

    def __init__(self, reply: Reply, place: str) -> None:
        self.reply = reply
        self._place = place
        self._text = _compiled(reply.text, f"{place}.text")
        self._reasoning = _compiled(reply.reasoning, f"{place}.reasoning")
        self._refusal = _compiled(reply.refusal, f"{place}.refusal")
        self._calls = [
            (call, _compiled_tree(call.arguments, f"{place}.tool_calls[{number}].arguments"))
            for number, call in enumerate(reply.tool_calls)
        ]
        self.is_static: bool = all(
            _is_static(part)
            for part in (
                self._text,
                self._reasoning,
                self._refusal,
                *(tree for _, tree in self._calls),
            )
        )

    def turn(self, quotes: Quotes, *, index: int, id_prefix: str, chunk_chars: int) -> Turn:
        """Fill it in.

        Args:
            quotes: What the request offers.
            index: The number of assistant messages in the request; goes into the ids of calls.
            id_prefix: How the API's ids of calls begin.
            chunk_chars: Characters a stream event carries, where the reply does not say.

        Raises:
            Unquotable: It quotes what the request does not hold; the message names both places.
        """
        return Turn(
            text=str(_filled(self._text, quotes, f"{self._place}.text", as_text=True)),
            reasoning=str(
                _filled(self._reasoning, quotes, f"{self._place}.reasoning", as_text=True)
            ),
            refusal=str(_filled(self._refusal, quotes, f"{self._place}.refusal", as_text=True)),
            calls=tuple(
                self._call(number, call, tree, quotes, f"{id_prefix}{index:04d}_{number}")
                for number, (call, tree) in enumerate(self._calls)
            ),
            finish=self.reply.finish_reason or self._usual_finish(),
            chunk_chars=self.reply.chunk_chars or chunk_chars,
        )

    def _call(
        self, number: int, call: ScriptedCall, tree: Tree, quotes: Quotes, usual_id: str
    ) -> Call:
        place = f"{self._place}.tool_calls[{number}].arguments"
        arguments = _filled(tree, quotes, place)
        # A text is sent unquoted: that is how broken JSON is played.
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        return Call(call.id or usual_id, call.name, text)

    def _usual_finish(self) -> str:
        if self.reply.tool_calls:
            return "tool_use"
        return "stop"


class Script:
    """The replies for one model, or for all that have none of their own.

    Args:
        scenario: Whose settings hold.
        replies: The replies, at least one.
        place: Their key in the scenario, for messages.

    Attributes:
        faults: The faults that stand inside the replies, with what is left of them.

    Raises:
        Misuse: A template breaks the grammar.
    """

    def __init__(self, scenario: Scenario, replies: Sequence[Reply | str], place: str) -> None:
        self._scenario = scenario
        self._place = place
        self._replies = [
            CompiledReply(
                Reply(text=reply) if isinstance(reply, str) else reply, f"{place}[{number}]"
            )
            for number, reply in enumerate(replies)
        ]
        # Filled turns that quote nothing: the common case in measurements, and never a long list.
        self._kept: dict[tuple[int, str], Turn] = {}
        self.faults: FaultBox = FaultBox(
            fault
            for number, compiled in enumerate(self._replies)
            for fault in placed(compiled.reply.faults, number)
        )

    def position(self, index: int) -> int | Problem:
        """Which reply a request with *index* assistant messages gets, or that none is left."""
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
        return self._replies[position].reply

    def turn(
        self, position: int, quotes: Callable[[], Quotes], *, index: int, id_prefix: str
    ) -> Turn | Problem:
        """What the model says, or what the request lacks to fill it in.

        Args:
            position: The reply.
            quotes: Gives what the request offers; asked only where something is quoted.
            index: The number of assistant messages in the request.
            id_prefix: How the API's ids of calls begin.
        """
        compiled = self._replies[position]
        # Not where replies repeat: ids of calls hold the index, and must differ from turn to turn.
        kept = self._kept.get((position, id_prefix)) if index == position else None
        if kept is not None:
            return kept
        try:
            turn = compiled.turn(
                _NO_QUOTES if compiled.is_static else quotes(),
                index=index,
                id_prefix=id_prefix,
                chunk_chars=self._scenario.chunk_chars,
            )
        except Unquotable as error:
            return Problem(400, str(error.args[0]), param="messages")
        if compiled.is_static and index == position:
            self._kept[position, id_prefix] = turn
        return turn


def compile_scripts(scenario: Scenario, where: str = "scenario") -> dict[str | None, Script]:
    """Compile all replies of *scenario*.

    Args:
        scenario: What to compile.
        where: What to call it in messages; a file's path.

    Returns:
        Scripts by model name; under None the one for all other models, if there is one.

    Raises:
        Misuse: A template breaks the grammar; the message names *where* and its place.
    """
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


def _compiled(text: str, place: str) -> Template:
    try:
        return compile_template(text)
    except TemplateSyntax as error:
        raise Misuse(f"{place}: {error} in {_around(text, error.position)!r}") from error


def _around(text: str, position: int) -> str:
    start = max(0, position - 30)
    return text[start : position + 30]


def _compiled_tree(value: object, place: str) -> Tree:
    if isinstance(value, str):
        return _compiled(value, place)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _compiled_tree(item, f"{place}.{name}") for name, item in items}
    if isinstance(value, (list, tuple)):
        items = cast("list[object]", value)
        return [_compiled_tree(item, f"{place}[{number}]") for number, item in enumerate(items)]
    return value


def _is_static(tree: Tree) -> bool:
    if isinstance(tree, Template):
        return tree.is_static
    if isinstance(tree, dict):
        return all(_is_static(item) for item in cast("dict[str, object]", tree).values())
    if isinstance(tree, list):
        return all(_is_static(item) for item in cast("list[object]", tree))
    return True


def _filled(tree: Tree, quotes: Quotes, place: str, *, as_text: bool = False) -> object:
    if isinstance(tree, Template):
        try:
            return tree.text(quotes) if as_text else tree.value(quotes)
        except Unquotable as error:
            raise Unquotable(f"{place}: {error.args[0]}") from error
    if isinstance(tree, dict):
        members = cast("dict[str, object]", tree).items()
        return {name: _filled(item, quotes, f"{place}.{name}") for name, item in members}
    if isinstance(tree, list):
        items = cast("list[object]", tree)
        return [_filled(item, quotes, f"{place}[{number}]") for number, item in enumerate(items)]
    return tree
