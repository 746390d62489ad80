"""From a status, a body, headers or an exception to one AgentError."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from ..contract import AgentError, ErrorCode, Json, JsonObject, Origin
from ..contract.error import is_retryable
from .failure_facts import FailureFacts, read_body_facts, read_error_facts, read_exception_facts
from .failure_words import (
    CONTENT_TEXT,
    CONTEXT_TEXT,
    KEY_TEXT,
    MODEL_TEXT,
    NAME_PARTS,
    QUOTA,
    QUOTA_TEXT,
    RATE_TEXT,
    TIMEOUT_TEXT,
    WORDS,
    squash,
)
from .headers import Headers, normalize_headers, read_retry_after

__all__ = ["classify_error", "classify_error_object"]

_TIMEOUT_STATUS = frozenset({408, 504, 524})
_ABOUT_A_MODEL = frozenset({None, 400, 404, 410, 422})


def classify_error(
    *,
    status: int | None = None,
    body: bytes | None = None,
    headers: Headers = None,
    exception: BaseException | None = None,
    provider: str = "",
    now: float | None = None,
) -> AgentError:
    """Say what went wrong, from whatever is known of it.

    Args:
        status: The HTTP status, None where there was no reply.
        body: The reply's body, any bytes.
        headers: The reply's headers, any container.
        exception: What was raised; its status, body, headers and causes are looked at too.
        provider: Whom it came from, for ``details``.
        now: When it came, in unix seconds, for a Retry-After date; None takes this moment.

    Returns:
        The error with its code, whether the same request may succeed later, and how long to wait
        at least. Never raises.
    """
    facts = FailureFacts()
    if body is not None:
        facts.add(read_body_facts(body))
    if exception is not None:
        said = read_exception_facts(exception)
        facts.add(said)
        facts.exceptions = said.exceptions
    fields = {**facts.headers, **normalize_headers(headers)}
    return _to_error(facts, status=status, fields=fields, provider=provider, now=now)


def classify_error_object(
    error: Json, *, fields: Mapping[str, str], provider: str = "", now: float | None = None
) -> AgentError:
    """Say what went wrong, from an error object that came inside a reply or a stream.

    Args:
        error: The object, or the document around it.
        fields: Normalised headers.
        provider: Whom it came from.
        now: When it came, in unix seconds; None takes this moment.
    """
    facts = read_error_facts(error)
    return _to_error(facts, status=None, fields=fields, provider=provider, now=now)


def _to_error(
    facts: FailureFacts,
    *,
    status: int | None,
    fields: Mapping[str, str],
    provider: str,
    now: float | None,
) -> AgentError:
    if kind := fields.get("x-amzn-errortype"):
        facts.words.add(squash(kind))
        facts.type = facts.type or kind.partition(":")[0]
    # A 200 says nothing of an error that came inside it.
    failed = status if status is not None and status >= 400 else facts.status
    kind = _kind(facts, failed)
    wait = read_retry_after(fields, now=time.time() if now is None else now)
    details: JsonObject = {**facts.details, "provider": provider} if provider else facts.details
    return AgentError(
        ErrorCode.RATE_LIMIT if kind == QUOTA else ErrorCode(kind),
        facts.message or _default_message(failed, facts),
        type=facts.type,
        status_code=failed if failed is not None else status,
        # A quota that is spent is no limit that passes, though both have one code.
        retryable=kind != QUOTA and is_retryable(kind, failed),
        retry_after_s=facts.retry_after_s if wait is None else wait,
        provider_code=facts.code,
        origin=Origin.MODEL,
        details=details,
    )


def _default_message(status: int | None, facts: FailureFacts) -> str:
    if status is not None:
        return f"HTTP {status} without a message"
    if facts.parsed:
        return "the provider reported an error without a message"
    return "no usable reply"


# ---- the order of classification: the first test that holds decides
def _kind(facts: FailureFacts, status: int | None) -> str:
    for kind, holds in _TESTS:
        if holds(facts, status):
            return kind
    return _kind_of_exception(facts) or _kind_of_words(facts)


def _is_context(facts: FailureFacts, status: int | None) -> bool:
    # "Too many tokens" of a 429 are too many a minute, not too many in one prompt.
    return _has_word(facts, ErrorCode.CONTEXT_LENGTH) or (
        status != 429 and bool(CONTEXT_TEXT.search(facts.text))
    )


def _is_content(facts: FailureFacts, status: int | None) -> bool:
    return _has_word(facts, ErrorCode.CONTENT_FILTER) or (
        _is_refusing(status) and bool(CONTENT_TEXT.search(facts.text))
    )


def _is_quota(facts: FailureFacts, status: int | None) -> bool:
    if status == 402 or _has_word(facts, QUOTA):
        return True
    # Google says "exceeded your current quota" of a limit a minute.
    return "resourceexhausted" not in facts.words and bool(QUOTA_TEXT.search(facts.text))


def _is_auth(facts: FailureFacts, status: int | None) -> bool:
    if status in (401, 403):
        return True
    # Google and xAI refuse a bad key with a 400.
    if status is not None and status not in (400, 422):
        return False
    return _has_word(facts, ErrorCode.AUTH_ERROR) or bool(KEY_TEXT.search(facts.text))


def _is_model(facts: FailureFacts, status: int | None) -> bool:
    if status == 503:
        return "model" in facts.text.lower()
    if status not in _ABOUT_A_MODEL:
        return False
    return _has_word(facts, ErrorCode.MODEL_UNAVAILABLE) or bool(MODEL_TEXT.search(facts.text))


def _is_rate_limit(facts: FailureFacts, status: int | None) -> bool:
    if status == 429 or _has_word(facts, ErrorCode.RATE_LIMIT):
        return True
    return status is None and bool(RATE_TEXT.search(facts.text))


def _is_timeout(facts: FailureFacts, status: int | None) -> bool:
    if status in _TIMEOUT_STATUS or _has_word(facts, ErrorCode.TIMEOUT):
        return True
    return status is None and bool(TIMEOUT_TEXT.search(facts.text))


def _is_invalid(facts: FailureFacts, status: int | None) -> bool:
    return status is not None and 400 <= status < 500


def _is_server(facts: FailureFacts, status: int | None) -> bool:
    return status is not None and status >= 500


_TESTS: Final[tuple[tuple[str, Callable[[FailureFacts, int | None], bool]], ...]] = (
    (ErrorCode.CONTEXT_LENGTH, _is_context),
    (ErrorCode.CONTENT_FILTER, _is_content),
    (QUOTA, _is_quota),
    (ErrorCode.AUTH_ERROR, _is_auth),
    (ErrorCode.MODEL_UNAVAILABLE, _is_model),
    (ErrorCode.RATE_LIMIT, _is_rate_limit),
    (ErrorCode.TIMEOUT, _is_timeout),
    (ErrorCode.INVALID_REQUEST, _is_invalid),
    (ErrorCode.SERVER_ERROR, _is_server),
)


def _kind_of_words(facts: FailureFacts) -> str:
    """Classify by the words alone; an error of which nothing is known is the provider's."""
    for kind in (ErrorCode.INVALID_REQUEST, ErrorCode.SERVER_ERROR):
        if _has_word(facts, kind):
            return kind
    return ErrorCode.INTERNAL if facts.exceptions else ErrorCode.SERVER_ERROR


def _kind_of_exception(facts: FailureFacts) -> str | None:
    """Classify by class names, those of base classes and causes included."""
    for exception in facts.exceptions:
        names = [squash(each.__name__) for each in type(exception).__mro__]
        if "cancelled" in names[0] or "canceled" in names[0]:
            return ErrorCode.CANCELED
        for part, kind in NAME_PARTS:
            if any(part in name for name in names):
                return kind
    return None


def _has_word(facts: FailureFacts, kind: str) -> bool:
    return not WORDS[kind].isdisjoint(facts.words)


def _is_refusing(status: int | None) -> bool:
    return status is None or status in (400, 403, 422, 451)
