"""The page of a run as one HTML file, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from html import escape
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.base.words import clean_lines, count, duration, moment, money, tokens, visible
from upshot.contract.codec import encode
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import Event, RunResumed
from upshot.contract.forms.html_form import bar, tone_of
from upshot.contract.forms.public_form import to_public_event
from upshot.contract.message import File
from upshot.contract.pending import (
    Pending,
    PendingApproval,
    PendingEffect,
    PendingExternal,
    PendingQuestion,
)
from upshot.state.activity import words_of_answer
from upshot.state.cause import Cause
from upshot.state.redacted_events import redacted_words
from upshot.state.run_state import RunState
from upshot.state.run_view import Answered, Head, Row, RunView, RunViewer, Said

Part: TypeAlias = Literal["arguments", "results", "text"]
PARTS: tuple[Part, ...] = ("arguments", "results", "text")
"""The parts that can be left out of a page."""


class PublicViewer:
    """Reads the events of one run, and shows the parts that ``to_public_event`` makes public.

    Args:
        tools: The public names of tools by their own names; other tools are not shown.
    """

    def __init__(self, tools: Mapping[str, str] | None = None) -> None:
        self._tools = dict(tools or {})
        self._viewer = RunViewer()
        self._said: list[Said] = []
        self._end: dict[str, Any] = {}

    def add(self, event: Event, state: RunState | None = None) -> None:
        """Process the next event, and the state after it if given."""
        self._viewer.add(event, state)
        if isinstance(event, RunResumed):
            self._end = {}
        shown = cast("dict[str, Any]", to_public_event(event, tools=self._tools) or {})
        match shown.get("kind"):
            case "message" if shown["text"]:
                seq: int = shown["seq"]
                self._said.append(Said(id=seq, seq=seq, role="assistant", text=shown["text"]))
            case "reset" if "attempt" in shown:
                self._said.clear()
            case "end":
                self._end = shown
            case _:
                pass

    def view(self) -> RunView:
        """Return the public page, without anything that a decider may still discard."""
        whole = self._viewer.view()
        head, end = whole.head, self._end
        is_completed = end.get("status") == Status.COMPLETED
        asked = tuple(map(_public_question, end.get("questions", ())))
        return RunView(
            head=Head(
                run_id=head.run_id,
                agent=head.agent,
                status=head.status,
                request=head.request,
                started_at=head.started_at,
                took_s=head.took_s,
                answer=end.get("text", "") if is_completed else "",
                error=AgentError(ErrorCode(end["error"]), "") if "error" in end else None,
                pending=asked,
                seq=head.seq,
                is_masked=head.is_masked,
            ),
            rows=tuple(
                _public_row(row, self._tools[row.name])
                for row in whole.rows
                if row.kind == "tool" and row.name in self._tools
            ),
            messages=(*whole.messages[:1], *(self._said if is_completed else ())),
        )


def _public_question(shown: dict[str, Any]) -> Pending:
    if shown["kind"] == "question":
        return PendingQuestion(
            id=shown["id"], question=shown["question"], choices=tuple(shown["choices"])
        )
    return PendingApproval(
        call_id=shown["id"],
        tool_name=shown["tool"],
        arguments=shown["arguments"],
        effect=Effect(shown["effect"]),
        digest=shown["digest"],
        audience="user",
    )


def _public_row(row: Row, name: str) -> Row:
    is_open = row.end_s is None
    word = "under way" if is_open else "done" if row.tone == "good" else "failed"
    return Row(
        id=row.id,
        kind="tool",
        name=name,
        start_s=row.start_s,
        end_s=row.end_s,
        word=word,
        tone=row.tone,
        seq=row.seq,
        end_seq=row.end_seq,
    )


def without_parts(view: RunView, without: Collection[Part]) -> RunView:
    """Return *view* without the given ``PARTS``. Times, costs, effects and outcomes remain."""
    hides_text = "text" in without
    head = view.head
    if hides_text:
        head = replace(
            head,
            request="",
            answer="",
            error=head.error and AgentError(head.error.code, ""),
            cause=Cause(),
            warnings=tuple(RunWarning(code=one.code) for one in head.warnings),
        )
    if "results" in without:
        head = replace(head, artifacts=())
    return replace(
        view,
        head=replace(head, pending=tuple(_bare_question(one, without) for one in head.pending)),
        rows=tuple(_bare_row(row, without) for row in view.rows),
        messages=tuple(_bare_messages(view, without)),
        text="" if hides_text else view.text,
    )


def _bare_question(asked: Pending, without: Collection[Part]) -> Pending:
    match asked:
        case PendingApproval():
            # The reason may quote what was read; choices that a stranger offered are values too.
            kept: JsonObject = {} if "arguments" in without else asked.arguments
            return PendingApproval(
                call_id=asked.call_id,
                tool_name=asked.tool_name,
                effect=asked.effect,
                arguments=kept,
                digest="" if "arguments" in without else asked.digest,
                reason="" if without else asked.reason,
                asked_at=asked.asked_at,
                run_id=asked.run_id,
            )
        case PendingEffect() if without:
            # The question contains the arguments.
            return PendingEffect(
                id=asked.id, question="Did this happen?", tool_name=asked.tool_name
            )
        case PendingQuestion():
            return PendingQuestion(id=asked.id) if "text" in without else asked
        case PendingExternal():
            return PendingExternal(id=asked.id) if "text" in without else asked


def _bare_row(row: Row, without: Collection[Part]) -> Row:
    """Return *row*. Its details are removed with any part, as they may quote each of them."""
    return replace(row, detail="", note="", reason="") if without else row


def _bare_messages(view: RunView, without: Collection[Part]) -> Iterator[Said]:
    for message in view.messages:
        text, calls = message.text, message.calls
        if ("results" if message.role == "tool" else "text") in without:
            text = ""
        if "arguments" in without:
            calls = tuple({**call, "arguments": {}} for call in calls)
        if text or calls:
            yield replace(message, text=text, is_cut=message.is_cut and bool(text), calls=calls)


def run_page(view: RunView, *, without: Collection[Part] = (), is_public: bool = False) -> str:
    """Return the page of a run as the text of an HTML file.

    Everything that models, tools and users wrote appears as text; invisible characters are shown as
    escapes.

    Args:
        view: The run, or its public part from a ``PublicViewer``.
        without: The parts to leave out.
        is_public: Whether *view* is the public part; the page then says so.
    """
    shown = without_parts(view, without) if without else view
    return "".join(_page(shown, _notes(shown, without, is_public=is_public)))


def _notes(view: RunView, without: Collection[Part], *, is_public: bool) -> Iterator[str]:
    """Yield the notes in which the page describes itself."""
    yield f"A copy of the log up to event {view.head.seq}."
    if view.head.is_masked:
        yield "Secrets are masked as in the log: *** stands for each."
    if is_public:
        yield "Only what is public is shown."
    if without:
        yield f"Left out: {', '.join(part for part in PARTS if part in without)}."


def _page(view: RunView, notes: Iterator[str]) -> Iterator[str]:
    head = view.head
    title = _line(f"{head.agent} {head.run_id}")
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<meta name="referrer" content="no-referrer"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><header><h1>{_line(head.agent)} "
        f'<b class="{tone_of(head.status)}">{_line(head.status)}</b></h1>'
        f"<p><code>{_line(head.run_id)}</code></p></header>\n<main>"
    )
    yield "<section><h2>Facts</h2><dl>"
    for name, fact in _facts(head):
        yield f"<dt>{name}</dt><dd>{fact}</dd>\n"
    yield "</dl></section>\n"
    if head.pending:
        yield "<section><h2>Waits for</h2>"
        yield from map(question_html, head.pending)
        yield "</section>\n"
    if view.rows:
        yield from _timeline(view)
    if view.messages or view.text:
        yield '<section><h2>Transcript</h2><ol class="said">'
        yield from map(_message, view.messages)
        if view.text:
            yield f'<li class="assistant"><b>assistant, still writing</b>{_text(view.text)}</li>'
        yield "</ol></section>\n"
    yield f"</main>\n<footer>{' '.join(map(_line, notes))}</footer></body></html>\n"


def _facts(head: Head) -> Iterator[tuple[str, str]]:
    """Yield names and HTML of the facts about the whole run."""
    if head.redacted is not None:
        yield "redacted", _line(redacted_words(head.redacted))
    if head.cause.says:
        yield "why", _line(head.cause.says)
    if head.error is not None and head.error.code is ErrorCode.BUDGET_EXCEEDED and head.cause.spent:
        yield "spent", _line(head.cause.spent)
    if head.request:
        yield "request", _text(head.request)
    if head.answer:
        yield "answer", _text(head.answer)
    if head.error is not None and not head.pending:
        text = f": {head.error.message}" if head.error.message else ""
        yield "error", _line(f"{head.error.code}{text}")
    sessions = f" in {head.sessions} sessions" if head.sessions > 1 else ""
    yield "started", _line(f"{moment(head.started_at)}, worked {duration(head.took_s)}{sessions}")
    if head.sessions:
        # A public page has none of these.
        yield from _usage_facts(head)
    yield from _more_facts(head)
    places = {
        "conversation": head.conversation,
        "started by": head.parent_run_id,
        "child runs": ", ".join(head.children),
        "user": head.owner,
        "tenant": head.tenant,
    }
    yield from ((name, _line(place)) for name, place in places.items() if place)


def _more_facts(head: Head) -> Iterator[tuple[str, str]]:
    for one in head.answered:
        yield "answered", _answer_line(one)
    for warning in head.warnings:
        yield "warning", _line(f"{warning.code}{': ' * bool(warning.message)}{warning.message}")
    for window in head.rate_limit.windows if head.rate_limit is not None else ():
        left = "unknown" if window.remaining is None else f"{window.remaining:,}"
        of = "" if window.limit is None else f" of {window.limit:,}"
        yield "rate limit", _line(f"{window.name}: {left}{of} left")
    for artifact in head.artifacts:
        for file in artifact.parts:
            if isinstance(file, File):
                yield "artifact", _line(f"{file.id} {file.name} {file.media_type}")


def _usage_facts(head: Head) -> Iterator[tuple[str, str]]:
    calls = count(head.usage.api_calls, "model call")
    yield "tokens", _line(f"{tokens(head.usage)} in {calls}")
    yield "cost", _line(money(head.cost))
    yield "worst effect", _line(str(head.effect))
    if head.model:
        yield "model", _line(head.model)


def _answer_line(one: Answered) -> str:
    asked = one.asked
    about = asked.tool_name if isinstance(asked, PendingApproval) else ""
    return _line(f"{about} {words_of_answer(one.answer)}, {moment(one.at)}".lstrip())


def question_html(asked: Pending) -> str:
    """Return the HTML of what a run waits for, with all arguments."""
    match asked:
        case PendingApproval(tool_name=tool, effect=effect):
            reason = f"<p>{_line(asked.reason)}</p>" if asked.reason else ""
            text = f"<b>approval of {_line(tool)}</b> (effect {effect}){reason}"
            return f'<div class="waits">{text}{_arguments(asked.arguments)}</div>'
        case PendingExternal(id=id, description=description):
            return f'<div class="waits"><b>a result</b>{_text(description or id)}</div>'
        case _:
            offered = f"<p>{_line(', '.join(asked.choices))}</p>" if asked.choices else ""
            return f'<div class="waits"><b>an answer</b>{_text(asked.question)}{offered}</div>'


def _timeline(view: RunView) -> Iterator[str]:
    length_s = max(
        (row.start_s if row.end_s is None else row.end_s + row.wait_s for row in view.rows),
        default=0.0,
    )
    length_s = max(length_s, view.head.took_s) or 1.0
    seqs = {message.seq for message in view.messages}
    yield f'<section><h2>Timeline, {duration(length_s)}</h2><ol class="rows">\n'
    for row in sorted(view.rows, key=lambda row: (row.start_s, row.id)):
        end_s = length_s if row.end_s is None else row.end_s
        first, last = 100 * row.start_s / length_s, 100 * end_s / length_s
        until = min(100.0, 100 * (end_s + row.wait_s) / length_s)
        wait = f'<rect class="wait" x="{last:.2f}" width="{until - last:.2f}" height="8"/>'
        drawn = bar(first, first if row.kind == "mark" else last, row.tone)
        took = "" if row.kind == "mark" or row.end_s is None or row.lost else end_s - row.start_s
        at = f'<a href="#m{row.end_seq}">' if row.end_seq in seqs else ""
        yield (
            f'<li class="{row.kind}"><span class="name">{at}{_line(row.name)}{"</a>" * bool(at)}'
            f'</span><span class="time">{"" if took == "" else duration(took)}</span>'
            '<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
            f'{drawn}{wait if row.wait_s else ""}</svg><span class="how"><b class="{row.tone}">'
            f"{_line(row.word)}</b> {_line(', '.join(_step_facts(row)))}</span></li>\n"
        )
    yield "</ol></section>\n"


def _step_facts(row: Row) -> Iterator[str]:
    """Yield the further facts of a step."""
    if row.detail or row.note:
        yield row.detail or row.note
    if row.effect is not Effect.NONE:
        yield f"effect {row.effect}"
    if row.gate:
        yield f"gate {row.gate}"
    if row.kind == "model" and row.usage.api_calls:
        yield f"{tokens(row.usage)} tokens"
        yield money(row.cost)
    if row.child:
        yield f"child run {row.child}"
    yield (
        f"event {row.seq}" if row.end_seq in (0, row.seq) else f"events {row.seq} to {row.end_seq}"
    )


def _message(message: Said) -> str:
    who = f"{message.name} ({message.call_id})" if message.role == "tool" else message.role
    calls = "".join(
        f"<div><b>{_line(str(call['name']))}</b> <small>{_line(str(call['id']))}</small>"
        f"{_arguments(call['arguments'])}</div>"
        for call in message.calls
    )
    more = "<p><small>There is more of it in the log.</small></p>" if message.is_cut else ""
    failed = " failed" if message.is_error else ""
    return (
        f'<li id="m{message.seq}" class="{message.role}{failed}"><b>{_line(who)}</b> '
        f"<small>event {message.seq}</small>{_text(message.text)}{calls}{more}</li>\n"
    )


def _arguments(value: object) -> str:
    """Return arguments as HTML, with every invisible character as an escape."""
    if not value:
        return ""
    shown = msgspec.json.format(encode(value), indent=2).decode()
    return f"<pre>{escape(visible(shown))}</pre>"


def _text(text: str) -> str:
    return f"<pre>{escape(clean_lines(text))}</pre>" if text else ""


def _line(text: str) -> str:
    return escape(" ".join(visible(text).split()))


_STYLE = """
:root{color-scheme:light dark;--ground:#fbfbfa;--paper:#fff;--ink:#1c1d1f;--soft:#5b5f66;
--line:#dfdfdb;--good:#1a6b3c;--odd:#855400;--bad:#b3261e;--plain:#1f5fbf}
@media(prefers-color-scheme:dark){:root{--ground:#131416;--paper:#1a1c1f;--ink:#e8e8e6;
--soft:#a3a8b0;--line:#33363b;--good:#7fd6a0;--odd:#eebd62;--bad:#ff9d94;--plain:#86b4f7}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1100px;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.3rem;margin:0}h2{font-size:.95rem;margin:24px 0 8px}p{margin:4px 0}
code,pre{font:.88em/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
pre{margin:4px 0;white-space:pre-wrap}small,dt,.time,footer{color:var(--soft)}
a{color:inherit}
dl{margin:0;display:grid;grid-template-columns:max-content 1fr;gap:2px 16px}dd{margin:0}
dd pre{margin:0;font:inherit}
.good{color:var(--good)}.odd{color:var(--odd)}.bad{color:var(--bad)}
ol{list-style:none;margin:0;padding:0}
.rows li{display:grid;grid-template-columns:minmax(110px,22ch) 9ch minmax(80px,1fr) minmax(0,2fr);
gap:0 12px;align-items:center;padding:3px 0;border-top:1px solid var(--line)}
.time{text-align:right;font-variant-numeric:tabular-nums}.how{font-size:.88em;color:var(--soft)}
.model .name{font-weight:600}
svg{width:100%;height:8px;display:block}rect{fill:var(--plain)}rect.good{fill:var(--good)}
rect.odd{fill:var(--odd)}rect.bad{fill:var(--bad)}rect.wait{fill:var(--line)}
.said li,.waits{margin:8px 0;padding:8px 12px;background:var(--paper);border:1px solid var(--line);
border-radius:8px}
.said .user{border-left:3px solid var(--plain)}.said .tool{margin-left:24px}
.said .failed{border-left:3px solid var(--bad)}.waits{border-left:3px solid var(--odd)}
footer{margin-top:32px;border-top:1px solid var(--line);padding-top:8px}
@media(max-width:640px){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:6px}
.rows li{grid-template-columns:1fr 9ch}.rows svg,.how{grid-column:1/-1}.said .tool{margin-left:8px}}
"""
