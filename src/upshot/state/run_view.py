"""RunView: everything that the page of a run shows, made from its events or a prefix of them."""

from __future__ import annotations

from typing import Any

from upshot.contract.base.enums import Effect
from upshot.contract.base.secrets import MARKS_OPTION
from upshot.contract.base.structs import Json, JsonObject, Moment, RunEvent, Value
from upshot.contract.codec import encode
from upshot.contract.error import AgentError, RunWarning
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    QuestionAnswered,
    QuestionAsked,
    Redacted,
    RunResumed,
    RunSettled,
    RunStarted,
    ToolSettled,
)
from upshot.contract.message import Artifact, Audio, File, Image
from upshot.contract.model_calls import (
    ModelReplied,
    ModelRetried,
    ModelStarted,
    TextDelta,
    counted_run,
    sum_of,
)
from upshot.contract.pending import Answer, AnyAnswer, Pending
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolExecutionResult,
    outcome_to_model_content,
)
from upshot.contract.usage import Cost, RateLimitState, Usage
from upshot.state.activity import Activity, Step, Tone, ending_of, label_of
from upshot.state.cause import Cause, cause_of
from upshot.state.child_runs import bare_id, child_of
from upshot.state.run_effects import effect_in
from upshot.state.run_state import RunState

_MOST_CHARS = 4_000


class Row(Value, frozen=True, kw_only=True):
    """One step of a run on its timeline.

    Attributes:
        id: Its number, in the order in which the steps were logged.
        kind: "model", "tool", "step" of an engine, or "mark" for what takes no time.
        name: Its name: a tool, a state, "model 2".
        start_s: Seconds of work before it.
        end_s: Seconds of work when it ended, None while it is under way.
        wait_s: Seconds until it was retried.
        word: How it ended, "" for a mark.
        tone: Whether that is good, odd or bad.
        detail: More about it.
        note: The tool's report on its progress.
        lost: Whether its process died while it ran.
        seq: The event that started it; the one that ended it has arguments and result.
        end_seq: The event that ended it, 0 while it is under way.
        model: The model that was called.
        usage: Tokens of the model call or of the child run.
        cost: Its cost, None if it has no price.
        call_id: The tool call.
        effect: What the call did; may be "unknown".
        gate: The gate that refused it.
        reason: Why.
        child: The child run of the step.
    """

    id: int
    kind: str = ""
    name: str = ""
    start_s: float = 0.0
    end_s: float | None = None
    wait_s: float = 0.0
    word: str = ""
    tone: Tone = "plain"
    detail: str = ""
    note: str = ""
    lost: bool = False
    seq: int = 0
    end_seq: int = 0
    model: str = ""
    usage: Usage = Usage()
    cost: Cost | None = None
    call_id: str = ""
    effect: Effect = Effect.NONE
    gate: str = ""
    reason: str = ""
    child: str = ""


class Medium(Value, frozen=True, kw_only=True):
    """An image, a sound or a document in a message, without its bytes.

    Attributes:
        kind: "image", "audio" or "file".
        media_type: Such as "image/png"; "" if unknown.
        name: Its name, "" if it has none.
        url: The address that it was given by; "" if the message has its bytes.
    """

    kind: str
    media_type: str = ""
    name: str = ""
    url: str = ""


class Said(Value, frozen=True, kw_only=True):
    """One message of the transcript.

    Attributes:
        id: Its number from 0.
        seq: The event that has the whole message.
        role: "user", "assistant" or "tool".
        text: The text, at most 4,000 characters.
        is_cut: Whether the text was shortened.
        calls: The calls of a reply: id, name and arguments.
        call_id: The call whose outcome it is.
        name: The tool.
        is_error: Whether the call had no result.
        media: Its images, sounds and documents, in the order of ``media_of``.
    """

    id: int
    seq: int
    role: str
    text: str = ""
    is_cut: bool = False
    calls: tuple[JsonObject, ...] = ()
    call_id: str = ""
    name: str = ""
    is_error: bool = False
    media: tuple[Medium, ...] = ()


class Answered(Value, frozen=True, kw_only=True):
    """An answer to a question.

    Attributes:
        seq: The event.
        at: When.
        answer: The answer, with its author.
        asked: The question, None if the log does not have it.
    """

    seq: int
    at: Moment | None = None
    answer: AnyAnswer
    asked: Pending | None = None


class Head(Value, frozen=True, kw_only=True):
    """The facts about a run as a whole.

    Attributes:
        run_id: The run.
        agent: Its agent.
        status: As ``AgentResult.status``; "running" while a session works on it or was cut off.
        request: The text of the request.
        conversation: The conversation that it is a turn of.
        parent_run_id: The run that started it.
        owner: The user that it belongs to.
        tenant: The tenant that it belongs to.
        started_at: When it started.
        updated_at: When its last event was logged.
        took_s: Seconds of work.
        waited_s: Seconds in which no process worked on it, None if unknown.
        sessions: The number of sessions.
        usage: Its tokens; includes its child runs once it has settled.
        cost: Its cost, None if nothing had a price.
        inside_usage: The tokens of its child runs.
        inside_cost: The cost of its child runs, None if nothing in them had a price.
        effect: Its worst effect.
        model: The model that was called last.
        answer: Its answer.
        error: Why it did not complete.
        cause: Why it ended so, or what it is doing, in one sentence.
        warnings: Its warnings.
        rate_limit: The provider's windows, from the last reply that had any.
        artifacts: Its artifacts.
        pending: What it waits for.
        answered: The answers so far, in order.
        children: Its child runs.
        seq: Its last event.
        has_ended: Whether nothing is left to resume.
        is_masked: Whether the run has secrets, which are marks in its log.
        redacted: Who removed its content, and when; None if its content is there.
    """

    run_id: str = ""
    agent: str = ""
    status: str = ""
    request: str = ""
    conversation: str = ""
    parent_run_id: str = ""
    owner: str = ""
    tenant: str = ""
    started_at: Moment | None = None
    updated_at: Moment | None = None
    took_s: float = 0.0
    waited_s: float | None = None
    sessions: int = 0
    usage: Usage = Usage()
    cost: Cost | None = None
    inside_usage: Usage = Usage()
    inside_cost: Cost | None = None
    effect: Effect = Effect.NONE
    model: str = ""
    answer: str = ""
    error: AgentError | None = None
    cause: Cause = Cause()
    warnings: tuple[RunWarning, ...] = ()
    rate_limit: RateLimitState | None = None
    artifacts: tuple[Artifact, ...] = ()
    pending: tuple[Pending, ...] = ()
    answered: tuple[Answered, ...] = ()
    children: tuple[str, ...] = ()
    seq: int = 0
    has_ended: bool = False
    is_masked: bool = False
    redacted: Redacted | None = None


class RunView(Value, frozen=True, kw_only=True):
    """The page of a run, or what has changed in it.

    Attributes:
        head: The facts about the whole run, always complete.
        rows: The steps, by id; draw them in the order of ``start_s``.
        messages: The transcript, by id.
        text: All text so far of the reply under way.
        revision: Pass it to ``RunViewer.view`` to get what changed after this view.
    """

    head: Head
    rows: tuple[Row, ...] = ()
    messages: tuple[Said, ...] = ()
    text: str = ""
    revision: int = 0


class RunViewer:
    """Reads the events of one run, and shows it as of the last one.

    Attributes:
        activity: The timeline.
    """

    def __init__(self) -> None:
        self.activity: Activity = Activity()
        self._messages: list[tuple[int, Said]] = []
        self._asked: dict[str, Pending] = {}
        self._answered: list[Answered] = []
        self._limits: RateLimitState | None = None
        self._model = ""
        self._text: list[str] = []
        self._at: Moment | None = None

    def add(self, event: Event, state: RunState | None = None) -> None:
        """Process the next event, and the state after it if given."""
        self.activity.add(event, state)
        if not isinstance(event, RunEvent):
            return
        self._at = event.time or self._at
        match event:
            case RunStarted(request=request):
                self._add_message(event, "user", request.text, media=_to_media(event))
            case TextDelta(text=text) if not event.path:
                self._text.append(text)
            case ModelStarted(model=model):
                self._model = model
                self._text.clear()
            case ModelRetried() | RunResumed() | RunSettled():
                self._text.clear()
            case ModelReplied():
                self._replied(event)
            case ToolSettled(record=record):
                is_error = not isinstance(
                    record.outcome, ToolExecutionResult | ToolArtifactReference
                )
                text = outcome_to_model_content(record.outcome)
                more: Any = {"name": record.tool_name, "is_error": is_error}
                self._add_message(event, "tool", text, call_id=record.call_id, **more)
            case ApprovalRequested(pending=asked) | QuestionAsked(pending=asked):
                self._asked[bare_id(asked)] = asked
            case ApprovalAnswered(call_id=id) | QuestionAnswered(id=id):
                self._answer(event, self._asked.get(id))
            case _:
                pass

    def view(self, after: int = 0) -> RunView:
        """Return the run as of the last event.

        Args:
            after: Return only rows and messages that are new or changed since the view with this
                ``revision``; 0 returns all.
        """
        activity = self.activity
        steps = activity.logged
        return RunView(
            head=self._head(),
            rows=tuple(_row(id, step) for id, step in enumerate(steps) if step.changed > after),
            messages=tuple(message for changed, message in self._messages if changed > after),
            text="".join(self._text),
            revision=activity.revision,
        )

    def _head(self) -> Head:
        activity, state = self.activity, self.activity.state
        started, result = activity.started, activity.result
        given: JsonObject = {} if started is None else started.attributes
        usage, cost = activity.spent
        inside = [one for one in state.children.values() if one is not None]
        inside_usage, inside_cost = sum_of(counted_run(one.usage, one.cost) for one in inside)
        request = None if started is None else started.request
        return Head(
            run_id=activity.run_id,
            agent="" if started is None else started.agent.id,
            status=activity.status,
            request="" if request is None else request.text,
            conversation="" if request is None else request.context_id,
            parent_run_id="" if started is None else started.parent_run_id,
            owner=_text(given.get("user")),
            tenant=_text(given.get("tenant")),
            started_at=None if started is None else started.time,
            updated_at=self._at,
            took_s=activity.length_s,
            waited_s=activity.waited_s,
            sessions=activity.sessions,
            usage=usage,
            cost=cost,
            inside_usage=inside_usage,
            inside_cost=inside_cost,
            effect=effect_in(state),
            model=self._model,
            answer=_answer(result),
            error=None if result is None else result.error,
            cause=cause_of(activity),
            warnings=tuple(activity.warnings),
            rate_limit=self._limits,
            artifacts=() if result is None else tuple(result.artifacts),
            pending=activity.pending,
            answered=tuple(self._answered),
            children=tuple(state.children),
            seq=state.seq,
            has_ended=state.ended,
            is_masked=started is not None and MARKS_OPTION in started.options,
            redacted=None if started is None else started.redacted,
        )

    def _replied(self, event: ModelReplied) -> None:
        response = event.response
        self._text.clear()
        if response.rate_limit is not None and response.rate_limit.windows:
            self._limits = response.rate_limit
        media = _to_media(event)
        if event.purpose or not (response.content or response.tool_calls or media):
            return
        calls: list[JsonObject] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in response.tool_calls
        ]
        self._add_message(
            event, "assistant", response.content or "", calls=tuple(calls), media=media
        )

    def _answer(self, event: ApprovalAnswered | QuestionAnswered, asked: Pending | None) -> None:
        if isinstance(event, QuestionAnswered):
            given = event.value if isinstance(event.value, str) else encode(event.value).decode()
            self._add_message(event, "user", given)
            answer: AnyAnswer = Answer(event.id, event.value)
        else:
            answer = event.answer
        # One of several approvals may have been given long before a session logged it.
        at = getattr(answer, "at", None) or event.time
        self._answered.append(Answered(seq=event.seq, at=at, answer=answer, asked=asked))

    def _add_message(self, event: RunEvent, role: str, text: str, **more: Any) -> None:
        self._messages.append(
            (
                self.activity.revision,
                Said(
                    id=len(self._messages),
                    seq=event.seq,
                    role=role,
                    text=text[:_MOST_CHARS],
                    is_cut=len(text) > _MOST_CHARS,
                    **more,
                ),
            )
        )


def media_of(event: Event) -> tuple[Image | Audio | File, ...]:
    """Return the images, sounds and documents of the message in an event, in order."""
    match event:
        case RunStarted(request=request):
            parts = request.to_message().parts
        case ModelReplied(response=response):
            parts = response.parts
        case _:
            return ()
    return tuple(part for part in parts if isinstance(part, Image | Audio | File))


def _to_media(event: Event) -> tuple[Medium, ...]:
    return tuple(
        Medium(
            kind=str(part.kind),
            media_type=part.media_type,
            name=getattr(part, "name", ""),
            url="" if part.data is not None else part.url,
        )
        for part in media_of(event)
    )


def _answer(result: AgentResult[Json] | None) -> str:
    """Return the answer of a run: its text, or its output as JSON if it has no text."""
    if result is None or result.content is not None or result.output is None:
        return "" if result is None else result.content or ""
    return result.output if isinstance(result.output, str) else encode(result.output).decode()


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _row(id: int, step: Step) -> Row:
    ended, used, record = ending_of(step), step.response or step.inside, step.record
    effect = Effect.NONE if record is None else record.effect
    if record is None and step.lost and step.declared not in (Effect.NONE, Effect.READ):
        effect = Effect.UNKNOWN
    return Row(
        id=id,
        kind=step.kind,
        name=label_of(step),
        start_s=round(step.start_s, 4),
        end_s=None if step.end_s is None else round(step.end_s, 4),
        wait_s=step.wait_s,
        word=ended.word,
        tone=ended.tone,
        detail=ended.detail,
        note=step.note,
        lost=step.lost,
        seq=step.seq,
        end_seq=step.end_seq,
        model=step.name if step.kind == "model" else "",
        usage=Usage() if used is None else used.usage,
        cost=None if used is None else used.cost,
        call_id="" if record is None else record.call_id,
        effect=effect,
        gate="" if record is None else record.gate,
        reason=ended.detail if record is not None and record.gate else "",
        child=(child_of(step.name) or "") if step.kind == "step" else "",
    )
