"""The provider: a real server on loopback with four dialects, which keeps the bill of each world.

Its replies depend only on the request: the path names the world and the agent, and the last mark in
the body shows how far the run is. Only the number of requests for a turn is counted, because each
fault happens once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tests.whole.case import Call, Case, Reply, script_key
from upshot.sim import Received
from upshot.sim.chat_api import ChatSurface
from upshot.sim.exchange import Call as WireCall
from upshot.sim.exchange import Counts, Envelope, Playback, Problem, Turn
from upshot.sim.messages_api import MessagesSurface

MARK = re.compile(r"~(\d+)\.(\d+)\.(\w+?)\.(\d+)\b")
TASK = re.compile(r"Task #(\d+)")
REVISION = re.compile(r"Revise #(\d+)")
SUMMARISER = "s"
BETWEEN_S = 0.03
"""Seconds between two events of a stream to a worker, whose watchers poll every 100 ms."""
CUT_AFTER = 4
"""How many last events of a stream mark its end, in any dialect."""


@dataclass(frozen=True)
class Billed:
    """One request that was received.

    Attributes:
        what: The fault that happened, or "reply".
        tokens: What it costs, input and output; zero for a refusal.
        is_told: Whether the reply carried its complete usage.
    """

    mark: str
    what: str
    tokens: tuple[int, int]
    is_told: bool

    def __repr__(self) -> str:
        told = "" if self.is_told else ", not told"
        return f"<{self.mark} {self.what} {self.tokens}{told}>"

    @property
    def is_refused(self) -> bool:
        """Whether its status says that nothing was done."""
        return self.what[:3].isdigit()


@dataclass
class World:
    """One life of a case: what its provider billed, and the callback for its steps."""

    number: int
    case: Case
    bill: list[Billed] = field(default_factory=list[Billed])
    asked: Counter[str] = field(default_factory=Counter[str])
    on_step: Callable[[str], None] = lambda kind: None
    strange: list[str] = field(default_factory=list[str])


class Provider:
    """Answers for all worlds."""

    def __init__(self) -> None:
        self.worlds: dict[int, World] = {}
        self._bodies = {
            "chat": ChatSurface(),
            "messages": MessagesSurface(),
            "responses": ResponsesForm(),
            "gemini": GeminiForm(),
        }

    def answer(self, received: Received, *, key: str = "") -> Playback:
        """Return the reply; *key* is ignored."""
        _, number, agent, *_ = received.path.split("/")
        world = self.worlds[int(number)]
        raw = received.raw.decode("utf-8", "replace")
        # The second model of a fallback has its own faults.
        is_other = agent.endswith("-other")
        mark, reply = self._find(world, agent.removesuffix("-other"), raw)
        if reply is None:
            world.strange.append(f"it asked for {mark}, which is not in its script")
            return _page(500, "not in the script")
        faults, place = reply.other_faults if is_other else reply.faults, f"{agent} {mark}"
        fault = (*faults, *[""] * 99)[world.asked[place]]
        world.asked[place] += 1
        if len(ids := _ids_in(json.loads(raw))) > len({*ids}):
            world.strange.append(f"it was sent one id for two calls: {ids}")
        streamed = '"stream":true' in raw or ":streamGenerateContent" in received.path
        made, billed = self._make(world.case, mark, reply, fault, streamed=streamed, raw=raw)
        world.bill.append(billed)
        world.on_step("request")
        return made

    @staticmethod
    def _find(world: World, agent: str, raw: str) -> tuple[str, Reply | None]:
        """Return which turn of which script is requested."""
        if agent == SUMMARISER:
            return "summary", Reply("In short.", tokens=(7, 3))
        tasks = list(TASK.finditer(raw))
        task = int(tasks[-1][1]) if tasks else 0
        rest = raw[tasks[-1].end() :] if tasks else raw
        revisions = REVISION.findall(rest)
        attempt = int(revisions[-1]) if revisions else 0
        done = {
            int(turn)
            for t, a, who, turn in MARK.findall(rest)
            if (int(t), int(a), who) == (task, attempt, agent)
        }
        turn, key = max(done, default=-1) + 1, script_key(task, attempt, agent)
        script = world.case.scripts.get(key, ())
        if turn == len(script) and script and script[-1].calls and world.case.stop is not None:
            # The run was stopped before its handoff, and resumed.
            return f"{key}.{turn}", Reply(f"{key}.{turn} Not handed over.")
        return f"{key}.{turn}", script[turn] if turn < len(script) else None

    def _make(
        self, case: Case, mark: str, reply: Reply, fault: str, *, streamed: bool, raw: str
    ) -> tuple[Playback, Billed]:
        form = self._bodies[case.dialect]
        if fault[:3].isdigit():
            return _refusal(form, int(fault[:3]), fault), Billed(mark, fault, (0, 0), True)
        if fault == "reset":
            return Playback(ending="reset"), Billed(mark, fault, reply.tokens, False)
        if fault == "no JSON":
            return _page(200, "<html>gateway</html>"), Billed(mark, fault, reply.tokens, False)
        is_told = reply.usage == "told" and fault in ("", "empty")
        billed = Billed(mark, fault or "reply", reply.tokens, is_told)
        turn = _turn(reply) if fault != "empty" else Turn("", "", "", (), "stop", 24)
        counts = None if reply.usage == "missing" else Counts(*reply.tokens, 0, 0, 0)
        if reply.usage == "zero":
            counts = Counts(0, 0, 0, 0, 0)
        if fault in ("cut", "error in a 200") and case.dialect == "messages":
            # The first event would report half of its usage.
            counts = None
        envelope = Envelope("r1", "m", 1_700_000_000, counts)
        if not streamed:
            return _plain(form, form.reply(turn, envelope), fault, reply.cut_at), billed
        include = case.dialect != "chat" or '"include_usage":true' in raw
        events = form.events(turn, envelope, include_usage=include)
        between_s = BETWEEN_S if case.path == "worker" else 0.0
        return _streamed(form, events, fault, reply.cut_at, between_s), billed


def _ids_in(body: Any) -> list[str]:
    """Return the ids of the calls in a request, in any dialect."""
    if isinstance(body, list):
        return [id for one in cast("list[Any]", body) for id in _ids_in(one)]
    if not isinstance(body, dict):
        return []
    found = cast("dict[str, Any]", body)
    if "functionCall" in found:
        return [id for id in [found["functionCall"].get("id")] if id]
    kind = found.get("type")
    if kind in ("function", "tool_use", "function_call"):
        return [one for one in [found.get("call_id") or found.get("id")] if one]
    return [id for one in found.values() for id in _ids_in(one)]


def _plain(form: Any, body: bytes, fault: str, cut_at: float) -> Playback:
    """Return a reply in one piece."""
    if fault == "error in a 200":
        body = form.problem(_BROKEN, "r1")
    if fault == "cut":
        part = body[: int(len(body) * cut_at * 0.9)]
        return Playback(headers=_JSON, chunks=(part,), length_bytes=len(body), ending="cut")
    return Playback(headers=_JSON, chunks=(body,))


def _streamed(
    form: Any, events: Sequence[bytes], fault: str, cut_at: float, between_s: float
) -> Playback:
    """Return a reply in pieces."""
    if fault in ("cut", "error in a 200"):
        last = max(0, len(events) - CUT_AFTER)
        events = events[: round(last * cut_at)]
    if fault == "error in a 200":
        events = (*events, form.problem_event(_BROKEN))
    ending = "cut" if fault == "cut" else "whole"
    chunks = tuple(events)
    return Playback(headers=_SSE, chunks=chunks, streamed=True, ending=ending, between_s=between_s)


_BROKEN = Problem(500, "The server failed.")
_JSON = {"content-type": "application/json"}
_SSE = {"content-type": "text/event-stream"}


def _page(status: int, text: str) -> Playback:
    return Playback(status=status, headers={"content-type": "text/html"}, chunks=(text.encode(),))


def _refusal(form: Any, status: int, fault: str) -> Playback:
    headers = dict(_JSON)
    if fault.endswith("windows"):
        headers |= {
            "retry-after": "0",
            "x-ratelimit-limit-requests": "5",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "0s",
        }
    body = form.problem(Problem(status, "Planted."), "r1")
    return Playback(status=status, headers=headers, chunks=(body,))


def _turn(reply: Reply) -> Turn:
    calls = tuple(WireCall(one.id, one.tool, arguments_of(one)) for one in reply.calls)
    finish = reply.finish or ("tool_use" if calls else "stop")
    return Turn(reply.text, "", reply.refusal, calls, finish, 16)


def arguments_of(call: Call) -> str:
    """Return the arguments of *call* as the provider writes them."""
    given = {"transfer_to_b": {"reason": call.tag}, "b": {"request": f"Task #0: go. {call.tag}"}}
    whole = json.dumps(given.get(call.tool, {"tag": call.tag, "way": call.way}))
    return whole[:-8] if call.is_malformed else whole


def _data(document: object) -> bytes:
    return b"data: %s\n\n" % json.dumps(document).encode()


def _pieces(text: str, size: int = 16) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


class ResponsesForm:
    """OpenAI Responses."""

    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """The ``response`` object."""
        return json.dumps(self._response(turn, envelope)).encode()

    @staticmethod
    def _response(turn: Turn, envelope: Envelope) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if turn.text:
            content.append({"type": "output_text", "text": turn.text, "annotations": []})
        if turn.refusal:
            content.append({"type": "refusal", "refusal": turn.refusal})
        output: list[dict[str, Any]] = []
        if content or not turn.calls:
            output.append({"type": "message", "id": "m1", "role": "assistant", "content": content})
        output += [
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": call.id,
                "name": call.name,
                "arguments": call.arguments,
            }
            for number, call in enumerate(turn.calls)
        ]
        reason = {"length": "max_output_tokens"}.get(turn.finish, turn.finish)
        is_cut = turn.finish in ("length", "content_filter")
        made: dict[str, Any] = {
            "id": "r1",
            "object": "response",
            "model": envelope.model,
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": reason} if is_cut else None,
            "output": output,
        }
        if (counts := envelope.counts) is not None:
            made["usage"] = {
                "input_tokens": counts.input,
                "output_tokens": counts.output,
                "total_tokens": counts.total,
            }
        return made

    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> list[bytes]:
        """The events from ``response.created`` on."""
        whole = self._response(turn, envelope)
        shell: dict[str, Any] = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": shell}]
        for index, item in enumerate(whole["output"]):
            blank: dict[str, Any] = (
                {"content": []} if item["type"] == "message" else {"arguments": ""}
            )
            place = {"output_index": index, "item_id": item["id"]}
            events.append(
                {"type": "response.output_item.added", **place, "item": {**item, **blank}}
            )
            if item["type"] == "message":
                events += [
                    {
                        "type": "response.output_text.delta",
                        **place,
                        "content_index": 0,
                        "delta": piece,
                    }
                    for piece in _pieces(turn.text)
                ]
            else:
                events += [
                    {"type": "response.function_call_arguments.delta", **place, "delta": piece}
                    for piece in _pieces(item["arguments"])
                ]
            events.append({"type": "response.output_item.done", **place, "item": item})
        events.append({"type": f"response.{whole['status']}", "response": whole})
        return [b"event: %s\n%s" % (one["type"].encode(), _data(one)) for one in events]

    def problem(self, problem: Problem, request_id: str) -> bytes:
        """The ``error`` object."""
        kind = "server_error" if problem.status >= 500 else "invalid_request_error"
        return json.dumps({"error": {"message": problem.message, "type": kind}}).encode()

    def problem_event(self, problem: Problem) -> bytes:
        """An ``error`` event."""
        return b"event: error\n" + _data(
            {"type": "error", "code": "server_error", "message": problem.message}
        )


class GeminiForm:
    """Google's generateContent."""

    @staticmethod
    def _chunk(parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            words = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
            candidate["finishReason"] = words.get(finish, "STOP")
        return {"candidates": [candidate], "modelVersion": "m"}

    @staticmethod
    def _usage(envelope: Envelope) -> dict[str, Any]:
        counts = envelope.counts
        if counts is None:
            return {}
        told = {
            "promptTokenCount": counts.input,
            "candidatesTokenCount": counts.output,
            "totalTokenCount": counts.total,
        }
        return {"usageMetadata": told}

    @staticmethod
    def _calls(turn: Turn) -> list[dict[str, Any]]:
        return [
            {"functionCall": {"name": one.name, "id": one.id, "args": json.loads(one.arguments)}}
            for one in turn.calls
        ]

    def reply(self, turn: Turn, envelope: Envelope) -> bytes:
        """The whole reply."""
        texts = [{"text": turn.text}] if turn.text else []
        made = self._chunk([*texts, *self._calls(turn)], turn.finish) | self._usage(envelope)
        return json.dumps(made).encode()

    def events(self, turn: Turn, envelope: Envelope, *, include_usage: bool) -> list[bytes]:
        """Return its pieces; no event marks the end."""
        chunks = [self._chunk([{"text": piece}]) for piece in _pieces(turn.text)]
        chunks += [self._chunk([call]) for call in self._calls(turn)]
        return [
            *map(_data, chunks),
            _data(self._chunk([], turn.finish) | self._usage(envelope)),
        ]

    def problem(self, problem: Problem, request_id: str) -> bytes:
        """The ``error`` object."""
        words = {429: "RESOURCE_EXHAUSTED", 401: "UNAUTHENTICATED", 400: "INVALID_ARGUMENT"}
        word = words.get(problem.status, "INTERNAL")
        return json.dumps(
            {"error": {"code": problem.status, "message": problem.message, "status": word}}
        ).encode()

    def problem_event(self, problem: Problem) -> bytes:
        """The same object as the data of an event."""
        return b"data: " + self.problem(problem, "") + b"\n\n"
