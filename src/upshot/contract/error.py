"""AgentError and RunWarning: what went wrong, as a value."""

from __future__ import annotations

from upshot.contract.base.enums import ErrorCode, ErrorCodeField, Origin, OriginField, word
from upshot.contract.base.json_values import clean_fields, force_json
from upshot.contract.base.structs import (
    CheckedMeta,
    JsonObject,
    Value,
    check_types,
    set_field,
    written,
)

_RETRYABLE_STATUS = frozenset((408, 409, 425, 429))
_RETRYABLE_CODES = frozenset(
    (ErrorCode.RATE_LIMIT, ErrorCode.TIMEOUT, ErrorCode.SERVER_ERROR, ErrorCode.EMPTY_REPLY)
)
# These fail again, whatever the status.
_NEVER_RETRYABLE = frozenset(
    (ErrorCode.CONTEXT_LENGTH, ErrorCode.CONTENT_FILTER, ErrorCode.REFUSAL, ErrorCode.INTERNAL)
)


class AgentError(Value, frozen=True, kw_only=False, metaclass=CheckedMeta):
    """What went wrong in a run, a model call or a hook; never raised.

    Attributes:
        code: The kind of failure; an open word.
        message: One line that says what happened and, where possible, what to do.
            No traceback, no secret.
        type: The class of the original exception; ``details["provider_type"]`` then has the
            provider's own word. Without an exception it is that word; "" if there is none.
        status_code: The HTTP status, None if there was none.
        retryable: Whether the same request may succeed later.
        retry_after_s: The minimum seconds to wait before a retry; None if unknown.
        provider_code: The provider's own code, "" if none.
        origin: Where it arose; an open word.
        details: Facts by name, such as dimension, limit and used of an exceeded budget. ``charged``
            says whether the failed call may have used tokens, if status and phase do not show it.
    """

    code: ErrorCodeField = word(written(ErrorCode.INTERNAL))
    message: str = written("")
    type: str = ""
    status_code: int | None = None
    retryable: bool = written(False)
    retry_after_s: float | None = None
    provider_code: str = ""
    origin: OriginField = word(written(Origin.MODEL))
    details: JsonObject = {}

    def __post_init__(self) -> None:
        if type(self.code) is str:
            set_field(self, "code", ErrorCode(self.code))
        if type(self.origin) is str:
            set_field(self, "origin", Origin(self.origin))
        clean_fields(self, "message", "type", "provider_code")
        if self.details:
            force_json(self, "details")
        if type(self.message) is not str:
            check_types(self, "message")
        lines = self.message.splitlines()
        if lines and lines != [self.message]:
            set_field(self, "message", " ".join(filter(None, map(str.strip, lines))))

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def was_unsent(self) -> bool:
        """Whether the request certainly was not sent, and so cost nothing."""
        return self.details.get("phase") == "unsent"

    @property
    def guardrail(self) -> str:
        """The guardrail that refused the request or the answer, "" if none did."""
        return str(self.details.get("guardrail") or "")

    @property
    def was_free(self) -> bool:
        """Whether the call certainly used nothing: it was not sent, or was refused."""
        charged = self.details.get("charged")
        if charged is not None:
            return charged is False
        return (self.status_code or 0) >= 400 or self.was_unsent


def is_retryable(code: str, status: int | None) -> bool:
    """Return whether the same request may succeed later, judged by code and status.

    Args:
        code: The kind of failure, "" if unknown.
        status: The HTTP status; if known it decides, except for codes that are never retryable.
    """
    if code in _NEVER_RETRYABLE:
        return False
    if status is not None:
        return status in _RETRYABLE_STATUS or status >= 500
    return code in _RETRYABLE_CODES


class RunWarning(Value, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """Something that went wrong without failing the run.

    Attributes:
        code: A word for it, such as "observer_failed".
        message: One line.
        origin: Where it arose; an open word.
    """

    code: str = written("")
    message: str = written("")
    origin: Origin = written(Origin.HOST)
