"""Events of a tool call: what people are asked of it, that it began, and what came of it."""

from __future__ import annotations

from .answer import AnyAnswer, PendingApproval
from .call import ToolCall
from .message import File
from .record import ToolRecord
from .stamp import RunEvent
from .value import Json, JsonObject
from .words import Effect

__all__ = [
    "ApprovalAnswered",
    "ApprovalRequested",
    "ArtifactStored",
    "ToolProgress",
    "ToolSettled",
    "ToolStarted",
]


class ToolStarted(RunEvent, frozen=True, kw_only=True):
    """All gates let the call pass; its body is about to run.

    Attributes:
        call: The call as the model made it.
        arguments: What the body gets; secrets are masked.
        turn: The label that the caller of ``dispatch`` gave.
        effect: What the tool says it may do.
        idempotent: Whether the tool says that running it again is safe.
        tool_version: Digest of the tool's schema and description.
        idempotency_key: What the tool is given to recognise a repetition.
    """

    call: ToolCall = ToolCall("", "")
    arguments: JsonObject = {}
    turn: int = 0
    effect: Effect = Effect.WRITE
    idempotent: bool = False
    tool_version: str = ""
    idempotency_key: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id


class ToolProgress(RunEvent, frozen=True, kw_only=True):
    """A tool tells how far it is.

    Attributes:
        call_id: The call.
        text: For people.
        data: For programs.
    """

    call_id: str = ""
    text: str = ""
    data: Json = None


class ToolSettled(RunEvent, frozen=True, kw_only=True):
    """A call has its outcome.

    Attributes:
        record: All facts of it.
    """

    record: ToolRecord

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.record.call_id


class ArtifactStored(RunEvent, frozen=True, kw_only=True):
    """A large output was stored.

    Attributes:
        call_id: The call that it came from.
        artifact: Where it is and what it is.
    """

    call_id: str = ""
    artifact: File = File()


class ApprovalRequested(RunEvent, frozen=True, kw_only=True):
    """A call waits for somebody's word.

    Attributes:
        pending: What is asked.
    """

    pending: PendingApproval = PendingApproval()

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.pending.call_id


class ApprovalAnswered(RunEvent, frozen=True, kw_only=True):
    """Somebody answered for a call.

    Attributes:
        answer: Approve, Deny or Edit.
        digest: Which arguments and version it was about.
    """

    answer: AnyAnswer
    digest: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call, "" where the answer is not about one."""
        return str(getattr(self.answer, "call_id", ""))
