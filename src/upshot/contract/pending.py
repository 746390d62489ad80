"""What a parked run waits for, and the user's answers."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec.structs import replace

from upshot.contract.base.enums import Effect
from upshot.contract.base.json_values import settle_json
from upshot.contract.base.structs import (
    CheckedMeta,
    Json,
    JsonObject,
    Moment,
    Tagged,
    Value,
    check_types,
    freeze,
    settle_moments,
)
from upshot.contract.provenance import Doubt, Voucher


class TaintOrigin(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """What first brought untrusted content into a run.

    Attributes:
        source: The tool that returned it, "the description of" a tool of an untrusted source, or
            "an earlier run" if it came with the history.
        call_id: The call of that tool, "" if it did not come from a call.
        run_id: The child run or parent run that read it, "" for the run itself.
    """

    source: str = ""
    call_id: str = ""
    run_id: str = ""

    def seen_from(self, run_id: str) -> TaintOrigin:
        """The same as another run records it: content that *run_id* itself read gets its id."""
        return self if self.run_id else replace(self, run_id=run_id)

    def __str__(self) -> str:
        return f"{self.source} in run {self.run_id}" if self.run_id else self.source


EARLIER = TaintOrigin(source="an earlier run")
"""Untrusted content that a run has in its history."""


Audience: TypeAlias = Literal["staff", "user"]


class PendingApproval(Tagged, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """A tool call that waits for approval.

    Attributes:
        call_id: The call; an answer names it.
        tool_name: The tool.
        arguments: The validated arguments; secrets are masked.
        effect: The effect that the tool declares.
        digest: Identifies this question: SHA-256 of the arguments, the tool's version, the reply
            that asked for the call and the moment of the question. An answer repeats it.
        reason: Why approval is needed, "" if a rule requires it.
        taint: The untrusted content that made approval necessary, None if that is not why.
        doubts: What a stranger may have chosen, with ``Policy(taint="values")``.
        vouched: What vouches for the other values.
        asked_at: When it was first asked.
        expires_at: When the request expires and must be repeated; None is never.
        run_id: The child run that asks; "" is the run of the result itself.
        audience: Who may answer, as the tool's ``ask`` says: "user" is the user of the run, too.
    """

    call_id: str = ""
    tool_name: str = ""
    arguments: JsonObject = {}
    effect: Effect = Effect.WRITE
    digest: str = ""
    reason: str = ""
    taint: TaintOrigin | None = None
    doubts: tuple[Doubt, ...] = ()
    vouched: tuple[Voucher, ...] = ()
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""
    audience: Audience = "staff"

    def __post_init__(self) -> None:
        settle_moments(self, "asked_at", "expires_at")
        if self.doubts or self.vouched or self.audience != "staff":
            check_types(self, "doubts", "vouched", "audience")

    @property
    def id(self) -> str:
        """What an answer names."""
        return self.call_id

    def approve(self, *, always: Always = "", by: str = "") -> Approve:
        """A yes to this question, and to no other about the same call."""
        return Approve(self.call_id, digest=self.digest, always=always, by=by)

    def deny(self, reason: str = "", *, by: str = "") -> Deny:
        """A no to this question."""
        return Deny(self.call_id, reason, digest=self.digest, by=by)

    def edit(self, arguments: JsonObject, *, by: str = "") -> Edit:
        """A yes to the call with other arguments, all of them.

        Raises:
            Misuse: JSON cannot hold the arguments.
        """
        return Edit(self.call_id, arguments, digest=self.digest, by=by)


class PendingQuestion(Tagged, frozen=True, kw_only=True):
    """A question to the user.

    Attributes:
        id: What an answer names.
        question: The text.
        choices: The answers to choose from; empty means free text.
        schema: JSON Schema of the answer, None for any value.
        asked_at: When it was first asked.
        expires_at: When the run stops waiting; None is never.
        run_id: The child run that asks; "" is the run of the result itself.
    """

    id: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    schema: JsonObject | None = None
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""

    def __post_init__(self) -> None:
        freeze(self, "choices")
        settle_moments(self, "asked_at", "expires_at")
        check_types(self)

    @property
    def audience(self) -> Audience:
        """Who may answer: the user of the run, too."""
        return "user"


class PendingExternal(Tagged, frozen=True, kw_only=True):
    """A result that another system will deliver.

    Attributes:
        id: What an answer names.
        description: What the run waits for.
        asked_at: Since when.
        expires_at: When the run stops waiting; None is never.
        run_id: The child run that waits; "" is the run of the result itself.
    """

    id: str = ""
    description: str = ""
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""

    def __post_init__(self) -> None:
        settle_moments(self, "asked_at", "expires_at")
        check_types(self)

    @property
    def audience(self) -> Audience:
        """Who may answer: not the user of the run."""
        return "staff"


class PendingEffect(PendingQuestion, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """A call that may have taken effect: did it happen?

    Its answer settles the effect, as ``App.settle`` does: "yes" or True if it happened, "no" or
    False if not. The run goes on by itself when ``verify`` finds out first.

    Attributes:
        id: The id of the effect in the ledger; an answer names it.
        question: "Did this happen?", with the call.
        choices: "yes" and "no".
        schema: None.
        asked_at: When it was first asked.
        expires_at: None.
        run_id: The child run that asks; "" is the run of the result itself.
        call_id: The call.
        tool_name: The tool.
        arguments: What it was called with; secrets are masked.
        effect: The effect that the tool declares.
        error: What the tool said last.
        idempotency_key: The key that it was given to hand to a service.
        started_at: When the call started.
        ended_at: When it ended, None if its process was gone.
        audience: Who may answer, as the tool's ``ask`` says: "user" is the user of the run, too.
        digest: Names this attempt: an answer that carries another one is about an earlier attempt.
    """

    choices: tuple[str, ...] = ("yes", "no")
    call_id: str = ""
    tool_name: str = ""
    arguments: JsonObject = {}
    effect: Effect = Effect.WRITE
    error: str = ""
    idempotency_key: str = ""
    started_at: Moment | None = None
    ended_at: Moment | None = None
    digest: str = ""
    # Of any other question it follows from its kind.
    audience: Audience = "staff"  # pyright: ignore[reportIncompatibleMethodOverride]  # both are read only

    def __post_init__(self) -> None:
        freeze(self, "choices")
        settle_moments(self, "asked_at", "expires_at", "started_at", "ended_at")
        check_types(self)

    def happened(self, *, by: str = "", note: str = "") -> Answer:
        """The answer that the call took effect; *note* is what was seen."""
        return Answer(self.id, "yes", by=by, note=note, digest=self.digest)

    def did_not_happen(self, *, by: str = "", note: str = "") -> Answer:
        """The answer that the call took no effect; its key is free then."""
        return Answer(self.id, "no", by=by, note=note, digest=self.digest)


Pending: TypeAlias = PendingApproval | PendingQuestion | PendingExternal | PendingEffect


Always: TypeAlias = Literal["", "tool", "arguments"]


class _ForCall(Tagged, frozen=True, kw_only=False):
    call_id: str


class Approve(_ForCall, frozen=True, kw_only=True):
    """Let the call run; ``PendingApproval.approve`` makes one.

    Attributes:
        call_id: The call.
        digest: The digest of the question that it answers. "" is accepted only while the run has
            asked no more than one question about a call with this id.
        always: Which later calls may run too: "" for none, "tool" for all of the tool,
            "arguments" for those with the same arguments.
        by: Who answered, "" if unknown.

    Raises:
        Misuse: A field has the wrong type.
    """

    digest: str = ""
    always: Always = ""
    by: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class _Refusal(_ForCall, frozen=True, kw_only=False):
    reason: str = ""


class Deny(_Refusal, frozen=True, kw_only=True):
    """Do not run the call; final for the same tool and arguments.

    Attributes:
        call_id: The call.
        reason: The reason given to the model.
        digest: The digest of the question that it answers; "" is to any about the call.
        by: Who answered, "" if unknown.

    Raises:
        Misuse: A field has the wrong type.
    """

    digest: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class _Change(_ForCall, frozen=True, kw_only=False):
    arguments: JsonObject = {}


class Edit(_Change, frozen=True, kw_only=True):
    """Run the call with other arguments; they are validated like the original ones.

    Attributes:
        call_id: The call.
        arguments: All arguments, not only the changed ones.
        digest: As in ``Approve``.
        by: Who answered, "" if unknown.

    Raises:
        Misuse: A field has the wrong type, or JSON cannot hold the arguments.
    """

    digest: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        settle_json(self, "arguments")
        check_types(self)


class _Reply(Tagged, frozen=True, kw_only=False):
    id: str
    value: Json = None


class Answer(_Reply, frozen=True, kw_only=True):
    """The answer to a question, or the result from another system.

    Attributes:
        id: The id of the question or of the awaited result.
        value: The answer.
        by: Who answered, "" if unknown.
        note: What they saw, for a ``PendingEffect``; it is kept with the settlement.
        digest: That of the ``PendingEffect`` that was seen, "" for whichever is asked now.

    Raises:
        Misuse: A field has the wrong type, or JSON cannot hold the value.
    """

    by: str = ""
    note: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        settle_json(self, "value")
        check_types(self)


AnyAnswer: TypeAlias = Approve | Deny | Edit | Answer


def answers_question(
    answer: Approve | Deny | Edit, question: PendingApproval, *, times_asked: int
) -> bool:
    """Whether *answer* is to *question*, and not to another question about the same call id.

    Args:
        answer: An answer that names the call of *question*.
        question: The open question.
        times_asked: How many questions were asked about calls with this id.

    Returns:
        Whether it repeats the digest of *question*. Without a digest a no counts for any, and a yes
        only if no more than one question was asked.
    """
    if answer.digest:
        return answer.digest == question.digest
    return isinstance(answer, Deny) or times_asked <= 1


class Taken(Value, frozen=True, kw_only=True):
    """An answer that stands: whoever goes on with the run takes it.

    Attributes:
        answer: The answer.
    """

    answer: AnyAnswer

    def __post_init__(self) -> None:
        check_types(self)


class Outdated(Value, frozen=True, kw_only=True):
    """An answer that came too late.

    Attributes:
        answer: The answer.
        reason: Why it is not taken.
        decision: What was answered before it, None where that is not known.
        by: Who answered that, "" if unknown.
        at: When, None if unknown.
    """

    answer: AnyAnswer
    reason: str = ""
    decision: AnyAnswer | None = None
    by: str = ""
    at: Moment | None = None

    def __post_init__(self) -> None:
        settle_moments(self, "at")
        check_types(self)
