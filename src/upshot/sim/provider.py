"""From a request to an answer: chooses the reply, fills in its templates, and applies faults.

A template is text with ``{{ path }}`` in it. A path starts with ``results``, ``all`` or
``request``, followed by ``.name``, ``["any name"]`` and ``[index]``. With ``| default(value)``,
where the value is a literal, a path may lead nowhere. A literal ``{{`` is written ``{{ "{{" }}``.
That is all: a scenario repeats what tools really returned, and cannot compute.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from upshot.contract.protocols import Clock
from upshot.errors import Misuse
from upshot.sim.chat_api import ChatSurface
from upshot.sim.exchange import (
    Ask,
    Call,
    Counts,
    Envelope,
    Playback,
    Problem,
    Quotes,
    Received,
    Reception,
    Surface,
    Turn,
    count_tokens,
    usual_message,
)
from upshot.sim.faults import (
    CutFault,
    ErrorFault,
    Fault,
    FaultBox,
    HangFault,
    MalformedFault,
    PageFault,
    ResetFault,
    SlowFault,
    StatusFault,
    placed,
)
from upshot.sim.messages_api import MessagesSurface
from upshot.sim.scenario import Latency, Reply, Scenario
from upshot.sim.token_buckets import LimitGauge, Limits, OverLimit


def replaced(fault: Fault, reception: Reception) -> Playback | None:
    """Return the playback that replaces the reply; None if the fault needs the reply itself."""
    match fault:
        case StatusFault():
            return reception.refusal(_status_problem(fault))
        case PageFault():
            return Playback(
                status=fault.status,
                headers={"content-type": "text/html"},
                chunks=(fault.body.encode(),),
            )
        case ResetFault():
            return Playback(ending="reset")
        # If events are sent before the silence, it needs the reply; only this form is decided here.
        case HangFault(after_events=0):
            return Playback(ending="hang")
        case _:
            return None


def damaged(playback: Playback, fault: Fault, reception: Reception) -> Playback:
    """Apply *fault* to the reply; faults that do not affect its body leave it unchanged."""
    match fault:
        case CutFault():
            return _cut(playback, fault.after_events)
        case HangFault():
            return replace(_cut(playback, fault.after_events), ending="hang")
        case MalformedFault():
            return _break_json(playback, fault.after_events, reception)
        case ErrorFault():
            return _error_inside(playback, fault, reception)
        case _:
            return playback


def _status_problem(fault: StatusFault) -> Problem:
    return Problem(
        fault.status,
        fault.message or usual_message(fault.status),
        code=fault.code,
        retry_after_s=fault.retry_after_s,
        headers=fault.headers,
    )


def _cut(playback: Playback, after_events: int) -> Playback:
    if playback.streamed:
        return replace(playback, chunks=playback.chunks[:after_events], ending="cut")
    # The full length is announced, so the client notices that the rest is missing.
    body = playback.chunks[0]
    return replace(playback, chunks=(_first_half(body),), length_bytes=len(body), ending="cut")


def _break_json(playback: Playback, after_events: int, reception: Reception) -> Playback:
    # Here the length is correct: the HTTP is valid, only the JSON is not.
    if not playback.streamed:
        return replace(playback, chunks=(_first_half(playback.chunks[0]),))
    # One event is replaced, not added, so that a reader which skips it also loses its text.
    before, after = playback.chunks[:after_events], playback.chunks[after_events + 1 :]
    return replace(playback, chunks=(*before, reception.surface.broken_event(), *after))


def _error_inside(playback: Playback, fault: ErrorFault, reception: Reception) -> Playback:
    problem = Problem(fault.status, fault.message or usual_message(fault.status), code=fault.code)
    if not playback.streamed:
        return replace(playback, chunks=(reception.surface.problem(problem, reception.request_id),))
    event = reception.surface.problem_event(problem)
    return replace(playback, chunks=(*playback.chunks[: fault.after_events], event))


def _first_half(body: bytes) -> bytes:
    return body[: len(body) // 2]


_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON = {"content-type": "application/json"}
_CHAT = ChatSurface()
_MESSAGES = MessagesSurface()


class _Plan(Struct, frozen=True):
    """A reply that was chosen and filled in, before limits and faults."""

    position: int
    reply: Reply
    turn: Turn
    counts: Counts
    faults: FaultBox


class Provider:
    """A simulated account at a provider: its scripts, buckets and remaining faults."""

    def __init__(
        self,
        scenario: Scenario,
        where: str = "scenario",
        *,
        clock: Clock,
        limits: Limits | None = None,
        faults: Sequence[Fault] = (),
        api_key: str | None = None,
        strict: bool = True,
    ) -> None:
        self._scenario = scenario
        self._scripts = compile_scripts(scenario, where)
        self._clock = clock
        self._gauge = LimitGauge(limits or scenario.limits or Limits(), now=clock.monotonic())
        self._faults = FaultBox((*faults, *scenario.faults))
        self._api_key = api_key
        self._strict = strict
        # Ids differ between servers and between requests, without new randomness for each.
        self._id_seed = os.urandom(8).hex()
        self._served = 0

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """Return the answer to *received*, which came with that API *key* ("" for none)."""
        # Counted before anything is decided, because refusals have ids too.
        self._served += 1
        reception = Reception(
            _MESSAGES if received.path.endswith("/messages") else _CHAT,
            f"{self._id_seed}{self._served:08x}",
        )
        ask = self._admit(reception.surface, received, key)
        if isinstance(ask, Problem):
            return reception.refusal(ask)
        plan = self._plan(reception.surface, ask, len(received.raw))
        if isinstance(plan, Problem):
            return reception.refusal(plan)
        return self._play(reception, ask, plan)

    def _admit(self, surface: Surface[Any], received: Received, key: str) -> Ask | Problem:
        # By its end only: clients differ in what precedes it (/v1, /openai/deployments/x).
        if not received.path.endswith(("/chat/completions", "/messages")):
            return Problem(
                404, f"Unknown request URL: {received.method} {received.path}.", code="unknown_url"
            )
        if received.method != "POST":
            return Problem(405, f"Not allowed to {received.method} on {received.path}: use POST.")
        if self._api_key is not None and key != self._api_key:
            return Problem(
                401, "Incorrect API key provided." if key else "You did not provide an API key."
            )
        return surface.read(received.raw, strict=self._strict)

    def _plan(self, surface: Surface[Any], ask: Ask, request_bytes: int) -> _Plan | Problem:
        script = self._scripts.get(ask.model) or self._scripts.get(None)
        if script is None:
            return Problem(
                404, f"The model `{ask.model}` does not exist or you do not have access to it."
            )
        position = script.position(ask.index)
        if isinstance(position, Problem):
            return position
        # Filled in before the limits are checked, since a request costs the tokens of its reply
        # too.
        turn = script.turn(position, ask.quotes, index=ask.index, id_prefix=surface.id_prefix)
        if isinstance(turn, Problem):
            return turn
        reply = script.reply(position)
        return _Plan(
            position, reply, turn, count_tokens(turn, request_bytes, reply.usage), script.faults
        )

    def _play(self, reception: Reception, ask: Ask, plan: _Plan) -> Playback:
        now = self._clock.monotonic()
        refused = self._gauge.admit(tokens=plan.counts.total, now=now)
        # A 429 has the state as well, so the headers are made for both cases.
        limits = reception.surface.limit_headers(self._gauge.readings(now), self._clock.now())
        reception = reception.with_headers(limits)
        if refused is not None:
            return reception.refusal(_over_limit(ask.model, refused))
        # A refused request never reached the model, so it uses up no fault.
        fault = plan.faults.pick(plan.position) or self._faults.pick(ask.index)
        if fault is not None and (instead := replaced(fault, reception)) is not None:
            return instead
        playback = self._reply(reception, ask, plan, fault)
        return playback if fault is None else damaged(playback, fault, reception)

    def _reply(self, reception: Reception, ask: Ask, plan: _Plan, fault: Fault | None) -> Playback:
        latency = plan.reply.latency or self._scenario.latency
        envelope = Envelope(
            reception.id,
            ask.model,
            int(self._clock.now().timestamp()),
            None if plan.reply.omit_usage else plan.counts,
        )
        surface = reception.surface
        if ask.stream:
            chunks = tuple(surface.events(plan.turn, envelope, include_usage=ask.include_usage))
        else:
            chunks = (surface.reply(plan.turn, envelope),)
        return Playback(
            headers={
                **(_STREAM if ask.stream else _JSON),
                **reception.headers,
                **plan.reply.headers,
            },
            chunks=chunks,
            streamed=ask.stream,
            first_byte_s=_first_byte_s(latency, fault),
            between_s=latency.between_chunks_ms / 1000,
        )


def _first_byte_s(latency: Latency, fault: Fault | None) -> float:
    extra_ms = fault.first_byte_ms if isinstance(fault, SlowFault) else 0
    return (latency.first_byte_ms + extra_ms) / 1000


def _over_limit(model: str, refused: OverLimit) -> Problem:
    reading = refused.reading
    message = (
        f"Rate limit reached for {model} on {reading.resource} per min: Limit {reading.limit}, "
        f"Remaining {reading.remaining}, Requested {refused.needed}."
    )
    if refused.retry_after_s is not None:
        message += f" Please try again in {refused.retry_after_s:.3f}s."
    return Problem(429, message, resource=reading.resource, retry_after_s=refused.retry_after_s)


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
_EXPECTED = 'a path such as results.NAME or request.text, perhaps with | default("...")'


class Missing(LookupError):
    """A path of a template leads nowhere; the message names the path and the value found."""


class Quote(Struct, frozen=True):
    """One ``{{ path }}`` of a template."""

    root: str
    steps: tuple[str | int, ...]
    default: object = UNSET

    def value(self, quotes: Quotes) -> object:
        """Return the quoted value."""
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
            if lack := _why_missing(value, step):
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
            # If a tool has several results, the last one is used.
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
        return _unquote(found["text"])
    steps = tuple(
        int(step["index"]) if step["index"] else step["name"] or _unquote(step["key"])
        for step in _STEP.finditer(found["steps"])
    )
    default = found["default"]
    if default is None:
        return Quote(found["root"], steps)
    literal = _unquote(default) if default[0] in "\"'" else msgspec.json.decode(default)
    return Quote(found["root"], steps, literal)


def _unquote(literal: str) -> str:
    """Return the text of a literal; unlike in JSON, it may have line breaks and escape anything."""
    return re.sub(
        r"\\(.)", lambda at: {"n": "\n", "t": "\t"}.get(at[1], at[1]), literal[1:-1], flags=re.S
    )


def fill(template: str, quotes: Quotes, *, as_text: bool = True) -> object:
    """Fill a template in."""
    parts = parse_template(template)
    if not as_text and len(parts) == 1 and isinstance(parts[0], Quote):
        return parts[0].value(quotes)
    return "".join(
        part if isinstance(part, str) else _format_value(part.value(quotes)) for part in parts
    )


def _format_value(value: object) -> str:
    """Format a value in a text: a list of objects as a Markdown table, others as compact JSON."""
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
    """Return a text unchanged, which may be broken JSON; anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cell(value: object) -> str:
    text = _as_text(value)
    # A bar or a line break would end the cell.
    return "" if value is None else text.replace("|", "\\|").replace("\n", " ")


def _why_missing(value: object, step: str | int) -> str:
    """Return why *step* leads nowhere in *value*; "" if it leads somewhere."""
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
    """The replies for one model, or the shared ones for all models without their own."""

    def __init__(self, scenario: Scenario, replies: Sequence[Reply | str], place: str) -> None:
        self._scenario = scenario
        self._place = place
        self._replies = [
            Reply(text=reply) if isinstance(reply, str) else reply for reply in replies
        ]
        # Replies without a quote, the common case: their turns are cached.
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
        """Return the place of the reply after *index* assistant messages, or that none is left."""
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
        """Return the reply at *position*."""
        return self._replies[position]

    def turn(
        self, position: int, quotes: Callable[[], Quotes], *, index: int, id_prefix: str
    ) -> Turn | Problem:
        """Return the turn of the model, or the quoted value that the request lacks."""
        # Not if replies repeat: ids of calls contain the index, and must differ from turn to turn.
        kept = self._kept.get((position, id_prefix)) if index == position else None
        if kept is not None:
            return kept
        reply, is_plain = self._replies[position], self._is_plain[position]
        place = f"{self._place}[{position}]"
        offered = Quotes([], "", "") if is_plain else quotes()
        try:
            filled = _fill_templates(reply, offered, place)
        except Missing as error:
            return Problem(400, str(error), param="messages")
        arguments = [_as_text(one["arguments"]) for one in filled["tool_calls"]]
        calls = (
            Call(call.id or f"{id_prefix}{index:04d}_{number}", call.name, arguments[number])
            for number, call in enumerate(reply.tool_calls)
        )
        turn = Turn(
            text=_format_value(filled["text"]),
            reasoning=_format_value(filled["reasoning"]),
            refusal=_format_value(filled["refusal"]),
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
    # The place is known only deep inside, the file only here.
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
    """Return the templates of *reply*, keyed as messages name their places."""
    calls = [{"arguments": call.arguments} for call in reply.tool_calls]
    texts = {name: getattr(reply, name) for name in ("text", "reasoning", "refusal")}
    return {**texts, "tool_calls": calls}


def _fill_templates(reply: Reply, quotes: Quotes, place: str) -> dict[str, Any]:
    """Fill in the templates of *reply*; a template of one quote becomes its value."""

    def filled(text: str, where: str) -> object:
        try:
            return fill(text, quotes, as_text=False)
        except Missing as error:
            raise Missing(f"{where}: {error}") from error

    return cast("dict[str, Any]", _change_texts(_templates(reply), place, filled))


def _change_texts(value: object, place: str, change: Callable[[str, str], object]) -> object:
    """Replace every text in *value* by what *change* returns for it and its place."""
    if isinstance(value, str):
        return change(value, place)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _change_texts(item, f"{place}.{name}", change) for name, item in items}
    if isinstance(value, list | tuple):
        items = enumerate(cast("list[object]", value))
        return [_change_texts(item, f"{place}[{number}]", change) for number, item in items]
    return value
