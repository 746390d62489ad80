"""What a parked run waits for, and the user's answers."""

from __future__ import annotations

import unicodedata
from datetime import datetime
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
from upshot.errors import Misuse


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
        """Return this origin as another run records it, with *run_id* if it has no run id."""
        return self if self.run_id else replace(self, run_id=run_id)

    def __str__(self) -> str:
        return f"{self.source} in run {self.run_id}" if self.run_id else self.source


EARLIER = TaintOrigin(source="an earlier run")
"""Untrusted content in a run's history."""


Audience: TypeAlias = Literal["staff", "user"]


class GivenApproval(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """One user's approval of a call that several users must approve.

    Attributes:
        by: The user.
        at: When they approved it.
    """

    by: str = ""
    at: Moment | None = None

    def __post_init__(self) -> None:
        settle_moments(self, "at")


class PendingApproval(Tagged, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """A tool call that waits for approval.

    Attributes:
        call_id: The call; an answer names it.
        tool_name: The tool.
        arguments: The validated arguments; secrets are masked.
        effect: The effect that the tool declares.
        digest: Identifies this question: SHA-256 of the arguments, the tool's version, the reply
            that asked for the call and the time of the question. An answer repeats it.
        reason: Why approval is needed, "" if a rule requires it.
        taint: The untrusted content that made approval necessary, None if that is not the reason.
        doubts: What a stranger may have chosen, with ``Policy(taint="values")``.
        vouched: What vouches for the other values.
        asked_at: When it was first asked.
        expires_at: When the request expires and must be repeated; None means never.
        run_id: The child run that asks; "" is the run of the result itself.
        audience: Who may answer, as the tool's ``ask`` says: with "user" the run's user may, too.
            A call that several users must approve always waits for staff.
        approvals: How many different users must approve the call, 1 or more. A single denial
            denies it.
        approved_by: The users who have approved it so far, in order; empty if one is enough.
        edited_by: The user who changed the model's arguments, if others must approve the change.
            They are the first in ``approved_by``.
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
    approvals: int = 1
    approved_by: tuple[GivenApproval, ...] = ()
    edited_by: str = ""

    def __post_init__(self) -> None:
        settle_moments(self, "asked_at", "expires_at")
        if self.doubts or self.vouched or self.audience != "staff":
            check_types(self, "doubts", "vouched", "audience")
        if self.approvals != 1 or self.approved_by:
            check_types(self, "approvals", "approved_by")

    @property
    def id(self) -> str:
        """The id that an answer names."""
        return self.call_id

    @property
    def missing(self) -> int:
        """How many more users must approve the call."""
        return max(0, self.approvals - len(self.approved_by))

    def approval_of(self, user: str) -> GivenApproval | None:
        """Return the approval that *user* has given before, None if there is none."""
        key = user_key(user)
        return next((one for one in self.approved_by if user_key(one.by) == key), None)

    def with_approval(self, by: str, at: datetime | None) -> PendingApproval:
        """Return the question with one more approval, if several are needed.

        A user counts once, and an approval without a user does not count.
        """
        if self.approvals <= 1 or not user_key(by) or self.approval_of(by) is not None:
            return self
        return replace(self, approved_by=(*self.approved_by, GivenApproval(by=by, at=at)))

    def approve(self, *, always: Always = "", by: str = "") -> Approve:
        """Return an approval of this question, but not of other questions about the same call."""
        return Approve(self.call_id, digest=self.digest, always=always, by=by)

    def deny(self, reason: str = "", *, by: str = "") -> Deny:
        """Return a denial of this question."""
        return Deny(self.call_id, reason, digest=self.digest, by=by)

    def edit(self, arguments: JsonObject, *, by: str = "") -> Edit:
        """Return an approval of the call with other arguments; *arguments* replaces all of them.

        Raises:
            Misuse: JSON cannot express the arguments.
        """
        return Edit(self.call_id, arguments, digest=self.digest, by=by)


class PendingQuestion(Tagged, frozen=True, kw_only=True):
    """A question to the user.

    Attributes:
        id: The id that an answer names.
        question: The text.
        choices: The answers to choose from; empty means free text.
        schema: JSON Schema of the answer, None for any value.
        asked_at: When it was first asked.
        expires_at: When the run stops waiting; None means never.
        run_id: The child run that asks; "" is the run of the result itself.
        source: The stranger who asks, such as an MCP server; "" if the run itself asks. What a
            stranger's question offers is not the user's own words.
    """

    id: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    schema: JsonObject | None = None
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        freeze(self, "choices")
        settle_moments(self, "asked_at", "expires_at")
        check_types(self)

    @property
    def audience(self) -> Audience:
        """Who may answer: the user of the run may, too."""
        return "user"


class PendingExternal(Tagged, frozen=True, kw_only=True):
    """A result that another system will deliver.

    Attributes:
        id: The id that an answer names.
        description: What the run waits for.
        asked_at: When it started to wait.
        expires_at: When the run stops waiting; None means never.
        run_id: The child run that waits; "" is the run of the result itself.
        signal: The name of the signal that the run waits for; "" if it is no signal.
    """

    id: str = ""
    description: str = ""
    asked_at: Moment | None = None
    expires_at: Moment | None = None
    run_id: str = ""
    signal: str = ""

    def __post_init__(self) -> None:
        settle_moments(self, "asked_at", "expires_at")
        check_types(self)

    @property
    def audience(self) -> Audience:
        """Who may answer: not the user of the run."""
        return "staff"


class PendingEffect(PendingQuestion, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """A call that may have taken effect: did it happen?

    The answer settles the effect, as ``App.settle`` does: "yes" or True if it happened, "no" or
    False if not. If ``verify`` finds out first, the run continues without an answer.

    Attributes:
        id: The id of the effect in the ledger; an answer names it.
        question: "Did this happen?", with the call.
        choices: "yes" and "no".
        schema: None.
        asked_at: When it was first asked.
        expires_at: None.
        run_id: The child run that asks; "" is the run of the result itself.
        source: "".
        call_id: The call.
        tool_name: The tool.
        arguments: The arguments of the call; secrets are masked.
        effect: The effect that the tool declares.
        error: The tool's last error message.
        idempotency_key: The key that the tool was given for a service.
        started_at: When the call started.
        ended_at: When it ended, None if its process was gone.
        audience: Who may answer, as the tool's ``ask`` says: with "user" the run's user may, too.
        digest: Identifies this attempt: an answer with another digest is about an earlier attempt.
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
    # For other questions it follows from the kind.
    audience: Audience = "staff"  # pyright: ignore[reportIncompatibleMethodOverride]  # both are read only

    def __post_init__(self) -> None:
        freeze(self, "choices")
        settle_moments(self, "asked_at", "expires_at", "started_at", "ended_at")
        check_types(self)

    def happened(self, *, by: str = "", note: str = "") -> Answer:
        """Return the answer that the call took effect; *note* is what was seen."""
        return Answer(self.id, "yes", by=by, note=note, digest=self.digest)

    def did_not_happen(self, *, by: str = "", note: str = "") -> Answer:
        """Return the answer that the call took no effect, which frees its key."""
        return Answer(self.id, "no", by=by, note=note, digest=self.digest)


Pending: TypeAlias = PendingApproval | PendingQuestion | PendingExternal | PendingEffect


Always: TypeAlias = Literal["", "tool", "arguments"]


class _ForCall(Tagged, frozen=True, kw_only=False):
    call_id: str


class Approve(_ForCall, frozen=True, kw_only=True):
    """Permission to run the call; ``PendingApproval.approve`` creates one.

    Attributes:
        call_id: The call.
        digest: The digest of the question that it answers. "" is accepted only if the run has asked
            a single question about a call with this id.
        always: Which later calls may run too: "" for none, "tool" for all of the tool, "arguments"
            for calls with the same arguments.
        by: Who answered, "" if unknown.
        at: When it was given, if several users must approve the call; upshot sets it.

    Raises:
        Misuse: A field has the wrong type.
    """

    digest: str = ""
    always: Always = ""
    by: str = ""
    at: Moment | None = None

    def __post_init__(self) -> None:
        settle_moments(self, "at")
        check_types(self)


class _Refusal(_ForCall, frozen=True, kw_only=False):
    reason: str = ""


class Deny(_Refusal, frozen=True, kw_only=True):
    """Refusal to run the call; final for the same tool and arguments.

    Attributes:
        call_id: The call.
        reason: The reason given to the model.
        digest: The digest of the question that it answers; "" answers any question about the call.
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
    """Permission to run the call with other arguments, which are validated like the original ones.

    If several users must approve the call, the others are asked about the new arguments.

    Attributes:
        call_id: The call.
        arguments: All arguments, not only the changed ones.
        digest: As in ``Approve``.
        by: Who answered, "" if unknown.

    Raises:
        Misuse: A field has the wrong type, or JSON cannot express the arguments.
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
        note: What they saw, for a ``PendingEffect``; it is stored with the settlement.
        digest: The digest of the ``PendingEffect`` that was answered; "" answers the current one.

    Raises:
        Misuse: A field has the wrong type, or JSON cannot express the value.
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
    """Return whether *answer* is to *question*, and not to another question about the same call id.

    Args:
        answer: An answer that names the call of *question*.
        question: The open question.
        times_asked: How many questions were asked about calls with this id.

    Returns:
        Whether *answer* repeats the digest of *question*. Without a digest, a denial counts for any
        question, and an approval only if there was a single question.
    """
    if answer.digest:
        return answer.digest == question.digest
    return isinstance(answer, Deny) or times_asked <= 1


def check_approver(answer: AnyAnswer, question: PendingApproval) -> None:
    """Check that an approval can count as one of several.

    Raises:
        Misuse: It has no ``by``, or it is a standing approval.
    """
    if question.approvals <= 1 or not isinstance(answer, Approve | Edit):
        return
    call = f"{type(answer).__name__}({answer.call_id!r})"
    needed = f"{question.tool_name} needs the approval of {question.approvals} different users"
    if not user_key(answer.by):
        raise Misuse(f"{call} does not say who approves, and {needed}: give by=")
    if isinstance(answer, Approve) and answer.always:
        raise Misuse(f"{call} is a standing approval, and {needed}: approve each of its calls")


def user_key(name: str) -> str:
    """Return the key that names of users share if they look alike, so that each user counts once.

    Case, width, spaces and characters without a shape make no difference; "" for a name without
    any other character.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(one for one in folded if unicodedata.category(one)[0] not in "CZ")


def already_approved(user: str, call_id: str) -> str:
    """Return why a second approval of one user does not count."""
    return f"{user} has approved call {call_id} already: another user must approve it"


class Taken(Value, frozen=True, kw_only=True):
    """An accepted answer: the session that continues the run uses it.

    Attributes:
        answer: The answer.
        missing: How many more users must approve the call before it can run.
    """

    answer: AnyAnswer
    missing: int = 0

    def __post_init__(self) -> None:
        check_types(self)


class Outdated(Value, frozen=True, kw_only=True):
    """An answer that came too late.

    Attributes:
        answer: The answer.
        reason: Why it was not accepted.
        decision: The earlier answer, None if it is not known.
        by: Who gave the earlier answer, "" if unknown.
        at: When it was given, None if unknown.
    """

    answer: AnyAnswer
    reason: str = ""
    decision: AnyAnswer | None = None
    by: str = ""
    at: Moment | None = None

    def __post_init__(self) -> None:
        settle_moments(self, "at")
        check_types(self)
