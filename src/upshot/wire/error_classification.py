"""Classifies a failure: from status, body, headers or exception to one ``AgentError``."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError, is_retryable
from upshot.wire.decoding import as_count, as_list, as_object, as_text, parse_json
from upshot.wire.error_phrases import (
    CONTENT_TEXT,
    CONTEXT_TEXT,
    KEY_TEXT,
    MODEL_TEXT,
    NAME_PARTS,
    QUOTA,
    QUOTA_TEXT,
    RATE_TEXT,
    STATUS_TEXT,
    TIMEOUT_TEXT,
    WORDS,
    squash,
)
from upshot.wire.headers import Headers, normalize_headers, parse_duration, read_retry_after

MAX_MESSAGE_CHARS: Final = 1000

_SPACE = re.compile(r"\s+")
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_KEY = re.compile(
    r"(?i)((?:api[ _-]?key|token)(?: provided)?: ?)[^\s,.]*[^\s,.]"
    r"|\b(?:sk|pk|rk|gsk|xai|key|hf|r8)[-_][A-Za-z0-9_\-]{16,}|\bAIza[\w\-]{20,}"
    r"|(?<=bearer )\S{12,}"
)
# Where an error object may contain another error object.
_NESTED = ("innererror", "inner_error", "cause")
_CAUSES = 5
_TYPE_NAMES = ("type", "status", "error_type", "__type")
_STATUS_NAMES = ("status_code", "code", "status", "raw_status_code", "http_code")


@dataclass(slots=True)
class FailureFacts:
    """What is known of a failure before it is classified.

    Attributes:
        message: One line for the user, keys masked.
        text: All text to search for phrases.
        type: The provider's word for the kind of failure, or the class name.
        code: The provider's own code.
        words: Every word that names a kind, squashed.
        status: An error status in the body or exception.
        retry_after_s: Seconds to wait according to the body.
        headers: Normalised headers that came with an exception.
        details: Further facts by name.
        parsed: Whether the body was JSON.
        exceptions: The exception and what caused it.
    """

    message: str = ""
    text: str = ""
    type: str = ""
    code: str = ""
    words: set[str] = field(default_factory=set[str])
    status: int | None = None
    retry_after_s: float | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    details: JsonObject = field(default_factory=dict[str, Json])
    parsed: bool = False
    exceptions: tuple[BaseException, ...] = ()

    def add(self, other: FailureFacts) -> None:
        """Add from *other* what is unknown here."""
        self.message = self.message or other.message
        self.text = f"{self.text} {other.text}".strip()
        self.type = self.type or other.type
        self.code = self.code or other.code
        self.words |= other.words
        self.status = other.status if self.status is None else self.status
        if self.retry_after_s is None:
            self.retry_after_s = other.retry_after_s
        self.headers = {**other.headers, **self.headers}
        self.details = {**other.details, **self.details}
        self.parsed = self.parsed or other.parsed


def read_body_facts(body: bytes) -> FailureFacts:
    """Read an error body: JSON of any shape, a gateway's HTML page, text, or nothing."""
    if not body.strip():
        return FailureFacts()
    value = parse_json(body)
    if isinstance(value, (dict, list)):
        return read_error_facts(value)
    text = body[:20_000].decode("utf-8", "replace")
    if "<" in text:
        title = _TITLE.search(text)
        text = title[1] if title and title[1].strip() else _TAG.sub(" ", text)
    line = one_line(text)
    return FailureFacts(message=line, text=line)


def read_error_facts(value: Json) -> FailureFacts:
    """Read an error document, or the error object itself, in any provider's shape."""
    facts = FailureFacts(parsed=True)
    if isinstance(value, list):
        # Google wraps the document in an array if a stream was requested.
        value = value[0] if value else None
    document = as_object(value)
    # Cloudflare and some gateways list errors instead of naming one.
    errors = as_list(document.get("errors"))
    error = document.get("error") or (errors[0] if errors else None)
    for part in (error, document):
        if isinstance(part, dict):
            _read_object(part, facts)
        elif isinstance(part, str):
            facts.add(FailureFacts(message=one_line(part), text=part))
    if isinstance(value, str):
        facts.add(FailureFacts(message=one_line(value), text=value))
    return facts


def read_exception_facts(exception: BaseException) -> FailureFacts:
    """Read an exception and its causes, by the attributes that client libraries use.

    No library is imported: status, body and headers are looked up under the usual names.
    """
    facts = FailureFacts(exceptions=tuple(_causes(exception)))
    for one in facts.exceptions:
        # A library names its classes after the failure; Python's own names mean other things,
        # such as PermissionError, which is about files.
        if type(one).__module__ != "builtins":
            facts.words.add(squash(type(one).__name__))
        _read_exception(one, facts)
    first = facts.exceptions[0]
    facts.type = facts.type or type(first).__name__
    text = " ".join(_string(one) for one in facts.exceptions)
    facts.text = f"{facts.text} {text}".strip()
    facts.message = facts.message or one_line(_string(first)) or type(first).__name__
    if any(map(_is_parser_error, facts.exceptions)):
        facts.status = None
    elif facts.status is None and (found := STATUS_TEXT.search(text)):
        facts.status = int(found["after"] or found["before"])
    return facts


def one_line(text: str) -> str:
    """*text* on one line, without keys, cut to ``MAX_MESSAGE_CHARS``."""
    # Some libraries put a whole traceback into the text of their exceptions.
    text = text[: MAX_MESSAGE_CHARS * 4].partition("Traceback (most recent call last)")[0]
    line = _SPACE.sub(" ", text).strip()
    line = _KEY.sub(lambda found: f"{found[1] or ''}***", line)
    return line if len(line) <= MAX_MESSAGE_CHARS else line[: MAX_MESSAGE_CHARS - 3] + "..."


def _read_object(error: JsonObject, facts: FailureFacts) -> None:
    message = _message(error)
    kind = next((text for name in _TYPE_NAMES if (text := as_text(error.get(name)))), "")
    code = error.get("code")
    facts.add(
        FailureFacts(
            message=one_line(message),
            text=message,
            type=kind,
            code=str(code) if isinstance(code, (str, int)) and not isinstance(code, bool) else "",
            status=next(
                (status for name in _STATUS_NAMES if (status := _status(error.get(name)))), None
            ),
        )
    )
    # Providers differ in which of these names the kind of failure, so all of them are read.
    for name in ("type", "code", "status", "error_type", "__type", "reason"):
        if word := as_text(error.get(name)):
            facts.words.add(squash(word))
    for name in ("param", "failed_generation"):
        if text := as_text(error.get(name)):
            facts.details.setdefault(name, text)
    _read_google_details(as_list(error.get("details")), facts)
    _read_upstream(as_object(error.get("metadata")), facts)
    for name in _NESTED:
        inner = as_object(error.get(name))
        if word := as_text(inner.get("code")):
            facts.words.add(squash(word))


def _message(error: JsonObject) -> str:
    for name in ("message", "Message", "detail", "error_message", "msg", "error_description"):
        value = error.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list):
            # FastAPI lists what is wrong with each field.
            texts = [as_text(as_object(item).get("msg")) for item in value]
            return "; ".join(text for text in texts if text)
        if isinstance(value, dict):
            return as_text(value.get("message")) or as_text(value.get("msg"))
    return ""


def _read_google_details(details: list[Json], facts: FailureFacts) -> None:
    for item in map(as_object, details):
        if reason := as_text(item.get("reason")):
            facts.words.add(squash(reason))
        delay = parse_duration(as_text(item.get("retryDelay")))
        if delay is not None and facts.retry_after_s is None:
            facts.retry_after_s = delay


def _read_upstream(metadata: JsonObject, facts: FailureFacts) -> None:
    """Read what a gateway reports about the provider behind it."""
    if name := as_text(metadata.get("provider_name")):
        facts.details.setdefault("upstream", name)
    raw = as_text(metadata.get("raw"))
    if raw:
        facts.details.setdefault("upstream_error", one_line(raw))
        inner = parse_json(raw)
        if isinstance(inner, dict):
            said = read_error_facts(inner)
            facts.words |= said.words
            raw = said.text
        facts.text += f" {raw}"


def _status(value: object) -> int | None:
    status = as_count(value)
    return status if status is not None and 400 <= status <= 599 else None


# A library's exception often wraps the informative one; the chain may be long or circular.
def _causes(exception: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    one: BaseException | None = exception
    while one is not None and len(seen) < _CAUSES and one not in seen:
        seen.append(one)
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _is_parser_error(one: BaseException) -> bool:
    """Whether it says that the data was not HTTP: aiohttp then sets a status 400 of its own."""
    return any(each.__name__ == "HttpProcessingError" for each in type(one).__mro__)


def _read_exception(one: BaseException, facts: FailureFacts) -> None:
    response = _attribute(one, "response")
    for source in (one, response):
        for name in ("status_code", "status", "http_status", "code"):
            if facts.status is None:
                facts.status = _status(_attribute(source, name))
        headers = _attribute(source, "headers") or _attribute(source, "litellm_response_headers")
        if isinstance(headers, Mapping) or hasattr(headers, "items"):
            found = normalize_headers(cast("Mapping[str, object]", headers))
            facts.headers = {**found, **facts.headers}
    for body in (_attribute(one, "body"), _attribute(response, "content"), response):
        _read_exception_body(body, facts)


def _read_exception_body(body: object, facts: FailureFacts) -> None:
    if isinstance(body, (bytes, bytearray)):
        facts.add(read_body_facts(bytes(body)))
    elif isinstance(body, str):
        facts.add(read_body_facts(body.encode("utf-8", "replace")))
    elif isinstance(body, dict):
        document = cast("JsonObject", body)
        facts.add(read_error_facts(document))
        # botocore's ClientError has a dictionary of its own form.
        aws = as_object(document.get("Error"))
        facts.add(FailureFacts(message=one_line(as_text(aws.get("Message")))))
        if word := as_text(aws.get("Code")):
            facts.words.add(squash(word))
            facts.code = facts.code or word
        metadata = as_object(document.get("ResponseMetadata"))
        if facts.status is None:
            facts.status = _status(metadata.get("HTTPStatusCode"))


def _attribute(value: object, name: str) -> object:
    try:
        return getattr(value, name, None)
    # Foreign code: a property of a client's exception may raise anything. The promise kept:
    # classification never raises.
    except Exception:
        return None


def _string(exception: BaseException) -> str:
    try:
        return str(exception)
    # As above: __str__ is foreign code.
    except Exception:
        return ""


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
    """Classify a failed model call, from whatever is known about it.

    Args:
        status: The HTTP status, None if there was no reply.
        body: The reply's body, any bytes.
        headers: The reply's headers, any container.
        exception: What was raised; its status, body, headers and causes are read too.
        provider: The provider, for ``details``.
        now: When it was received, in unix seconds, for a Retry-After date; None means now.

    Returns:
        The error with its code, whether the same request may succeed later, and the least wait.
        Never raises.
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
    """Classify an error object inside a reply or a stream; *fields* are normalised headers."""
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
    # A status 200 says nothing about an error inside the reply.
    failed = status if status is not None and status >= 400 else facts.status
    kind = _kind(facts, failed)
    wait = read_retry_after(fields, now=time.time() if now is None else now)
    details: JsonObject = {**facts.details, "provider": provider} if provider else facts.details
    return AgentError(
        ErrorCode.RATE_LIMIT if kind == QUOTA else ErrorCode(kind),
        facts.message or _default_message(failed, facts),
        type=facts.type,
        status_code=failed if failed is not None else status,
        # A spent quota does not pass with time like a rate limit, though both have one code.
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
    # With a 429, "too many tokens" means per minute, not in one prompt.
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
    # Google says "exceeded your current quota" about a limit per minute.
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
    """Classify by the words alone; an unknown error is the provider's."""
    for kind in (ErrorCode.INVALID_REQUEST, ErrorCode.SERVER_ERROR):
        if _has_word(facts, kind):
            return kind
    return ErrorCode.INTERNAL if facts.exceptions else ErrorCode.SERVER_ERROR


def _kind_of_exception(facts: FailureFacts) -> str | None:
    """Classify by class names, including those of base classes and causes."""
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
