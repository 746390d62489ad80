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
from upshot.wire.headers import Headers, normalize_headers, parse_duration, read_retry_after

# -- the words and phrases by which providers name their failures, as data
#
# A word is a type, code, status or reason in an error object, or a class name. Words are compared
# in lower case without punctuation: RateLimitReached, rate_limit_reached and RATE-LIMIT-REACHED
# are one word.

_NOT_ALNUM = re.compile("[^a-z0-9]+")


def _squash(word: str) -> str:
    """Make *word* comparable, without AWS's text after ":" and before "#"."""
    return _NOT_ALNUM.sub("", word.partition(":")[0].rpartition("#")[2].lower())


def _words(text: str) -> frozenset[str]:
    return frozenset(_squash(word) for word in text.split())


_QUOTA: Final = "quota"
"""The key of quota words: their code is rate_limit, but waiting does not help."""

_WORDS: Final[dict[str, frozenset[str]]] = {
    ErrorCode.CONTEXT_LENGTH: _words(
        "context_length_exceeded context_window_exceeded context_length too_many_prompt_tokens "
        "too_many_tokens prompt_too_long tokens_limit_reached input_too_long "
        "model_context_window_exceeded context_window_exceeded_error exceed_context_size_error"
    ),
    ErrorCode.CONTENT_FILTER: _words(
        "content_filter content_filtered content_policy_violation content_policy "
        "content_policy_violation_error content_filter_error responsible_ai_policy_violation "
        "moderation_blocked moderation data_inspection_failed invalid_prompt content_blocked "
        "sensitive_content prohibited_content safety_error cyber_policy_violation "
        "image_content_policy_violation"
    ),
    _QUOTA: _words(
        "insufficient_quota billing_hard_limit_reached billing_not_active insufficient_balance "
        "insufficient_credits insufficient_funds credit_balance_too_low arrearage billing_error "
        "exceeded_current_quota_error payment_required_error payment_required quota_exhausted "
        "insufficient_user_quota access_terminated_error"
    ),
    ErrorCode.AUTH_ERROR: _words(
        "invalid_api_key api_key_invalid authentication_error authentication_failed "
        "invalid_authentication invalid_authentication_error incorrect_api_key permission_error "
        "permission_denied permission_denied_error unauthenticated unauthorized unauthorized_error "
        "forbidden access_denied access_denied_exception unrecognized_client_exception "
        "expired_token_exception invalid_signature_exception missing_authentication_token "
        "missing_authentication_token_exception incomplete_signature account_deactivated "
        "no_credentials_error credentials_missing invalid_token not_authorized "
        "unauthorized_exception"
    ),
    ErrorCode.MODEL_UNAVAILABLE: _words(
        "model_not_found model_not_found_error deployment_not_found invalid_model unknown_model "
        "model_not_available model_deprecated model_decommissioned model_not_exist "
        "unsupported_model model_not_supported model_not_ready_exception model_overloaded "
        "invalid_model_error"
    ),
    ErrorCode.RATE_LIMIT: _words(
        "rate_limit rate_limit_exceeded rate_limit_error rate_limit_reached rate_limited "
        "too_many_requests too_many_requests_exception throttling throttling_exception throttled "
        "resource_exhausted request_limit_exceeded rate_limit_exceeded_error "
        "slow_down limit_requests limit_burst_rate"
    ),
    ErrorCode.TIMEOUT: _words(
        "timeout timeout_error request_timeout deadline_exceeded model_timeout_exception "
        "gateway_timeout upstream_timeout api_timeout_error request_timeout_error "
        "vector_store_timeout"
    ),
    ErrorCode.INVALID_REQUEST: _words(
        "invalid_request invalid_request_error invalid_argument bad_request bad_request_error "
        "validation_exception validation_error unsupported_value invalid_value "
        "unprocessable_entity unprocessable_entity_error not_found not_found_error "
        "failed_precondition out_of_range request_too_large resource_not_found_exception "
        "tool_use_failed json_validate_failed unsupported_parameter unknown_parameter "
        "missing_required_parameter invalid_image invalid_image_format invalid_base64_image "
        "invalid_image_url image_too_large image_too_small image_parse_error invalid_image_mode "
        "image_file_too_large unsupported_image_media_type empty_image_file "
        "failed_to_download_image image_file_not_found"
    ),
    ErrorCode.SERVER_ERROR: _words(
        "server_error api_error internal_error internal internal_server_error overloaded_error "
        "overloaded unavailable service_unavailable service_unavailable_error bad_gateway "
        "internal_server_exception service_unavailable_exception model_stream_error_exception "
        "model_error_exception engine_overloaded_error upstream_error provider_error "
        "internal_failure unknown"
    ),
}

_NAME_PARTS: Final[tuple[tuple[str, str], ...]] = tuple(
    (part, kind)
    for kind, parts in (
        (ErrorCode.CONTEXT_LENGTH, "contextwindow contextlength"),
        (ErrorCode.CONTENT_FILTER, "contentpolicy contentfilter"),
        (_QUOTA, "quota budgetexceeded"),
        (ErrorCode.RATE_LIMIT, "ratelimit toomanyrequests throttl resourceexhausted"),
        (ErrorCode.TIMEOUT, "timeout deadlineexceeded"),
        (
            ErrorCode.AUTH_ERROR,
            "authentication permissiondenied unauthorized forbidden credential apikey",
        ),
        (ErrorCode.MODEL_UNAVAILABLE, "modelnotfound"),
        (ErrorCode.INVALID_REQUEST, "badrequest unprocessableentity invalidrequest notfounderror"),
        (
            ErrorCode.SERVER_ERROR,
            "connect disconnect remoteprotocol protocolerror incompleteread payloaderror "
            "clientoserror brokenpipe readerror writeerror networkerror proxyerror sslerror "
            "certificateerror gaierror nameresolution dnserror internalserver "
            "serviceunavailable badgateway overloaded apierror jsondecode httperror "
            "clienterror",
        ),
    )
    for part in parts.split()
)
"""Parts of an exception's class name; the first that matches decides."""


def _phrases(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_CONTEXT_TEXT: Final = _phrases(
    r"context[ _-](?:length|window|size|limit)[^.]{0,40}exceed",
    r"exceed[^.]{0,60}context[ _-](?:length|window|size|limit)",
    r"maximum context length",
    r"max(?:imum)? context (?:length|window|size)",
    r"prompt (?:is )?too long",
    r"input (?:is |length is )?too long",
    r"too many (?:input |prompt )?tokens",
    r"token count\b[^.]{0,60}exceeds",
    r"input tokens? exceed",
    r"(?:prompt|input)\b[^.]{0,60}exceeds? the (?:maximum|model|limit)[^.]{0,40}token",
    r"number of input tokens exceeds",
    r"total length of all messages is too long",
    r"reduce the length of (?:the |your )?(?:messages|prompt|input|either)",
)

_CONTENT_TEXT: Final = _phrases(
    r"content (?:management|filtering|moderation|safety|usage) polic",
    r"content[ _-]?policy",
    r"content[ _-]?filter(?:ed|ing)?\b",
    r"responsible ai polic",
    r"flagged (?:as|by|for)\b",
    r"(?:input|prompt|content|request) was flagged",
    r"violat\w+ (?:our|the|\w+'s)?\s*(?:usage|content|safety|acceptable use) polic",
    r"rejected[^.]{0,40}safety system",
    r"blocked[^.]{0,60}\b(?:safety|moderation|content|prohibited)",
    r"inappropriate content",
)

_QUOTA_TEXT: Final = _phrases(
    r"insufficient[ _](?:quota|balance|credits?|funds)",
    r"credit balance is too low",
    r"(?:out of|more|not enough|no remaining) credits",
    r"exceeded your (?:monthly|current) (?:included )?(?:credits|quota|usage)",
    r"billing hard limit",
    r"(?:spending|usage|budget) limit (?:has been )?(?:reached|exceeded)",
)

_KEY_TEXT: Final = _phrases(
    r"api[ _-]?key (?:is )?(?:not valid|invalid|expired|missing|required|not found)",
    r"(?:invalid|incorrect|missing|expired|wrong|no)(?: or \w+)? (?:x-)?api[ _-]?key",
    r"api[ _-]?key provided",
    r"(?:invalid|missing|no) (?:authentication|auth)\b",
    r"authentication fail",
    r"security token included in the request",
    r"could not resolve authentication|unable to locate credentials",
)

_MODEL_TEXT: Final = _phrases(
    r"\b(?:model|deployment)s?\b[^.!?]{0,160}?(?:(?:does|do|did|is|are|was|could|can)? ?(?:not|n't)"
    r" (?:be )?(?:exist|found)|doesn't exist|not exist|deprecated|decommissioned"
    r"|has been (?:removed|retired|shut down)|no longer (?:available|supported|exists))",
    r"\bmodel\S* (?:[`'\"]?\S+[`'\"]? )?(?:is|are) (?:currently )?(?:not available|unavailable)",
    r"\bmodels?/\S+ is not found",
    r"(?:unknown|invalid|no such|nonexistent|unrecognized|unsupported) model\b"
    r"(?! (?:output|input|param))",
    r"model identifier is invalid",
    r"not a valid model",
    r"^model: \S+$",
    r"no endpoints found for \S+\.?$",
    r"requested model \S+ is not supported by",
    r"deployment[^.]{0,60}does not exist",
    r"model (?:version )?has reached the end of its life",
)

_RATE_TEXT: Final = _phrases(
    r"rate[ _-]?limit", r"too many requests", r"throttl", r"requests per (?:min|sec|hour|day)"
)

_TIMEOUT_TEXT: Final = _phrases(r"timed[ -]?out", r"\btime-?out\b", r"deadline exceeded")

_SERVER_TEXT: Final = _phrases(
    r"\b(?:temporarily|service|server|api|model|engine) (?:is )?(?:\w+ )?"
    r"(?:unavailable|overloaded|down|at capacity)\b",
    r"^overloaded\b",
)

# A number is a status only next to a word for it: "512 tokens" is not one.
_STATUS_TEXT: Final = re.compile(
    r"(?:\bstatus(?:[ _-]?code)?|\berror(?:[ _-]?code)?|\bcode|\bhttp(?:/[0-9.]+)?)"
    r"(?:\s+(?:is|was|of))?[\s:=#('\"]{1,4}(?P<after>[45][0-9]{2})\b"
    r"(?!\.?[0-9]| ?(?:tok|char|byte|ms|sec|item|line|word|%))"
    r"|\b(?P<before>[45][0-9]{2}) (?:client error|server error|bad request|unauthori[sz]ed"
    r"|forbidden|not found|request timeout|conflict|too many requests|internal server error"
    r"|bad gateway|service unavailable|gateway time-?out)\b",
    re.IGNORECASE,
)


# -- collecting the facts about a failure

MAX_MESSAGE_CHARS: Final = 1000
PROVIDER_TYPE: Final = "provider_type"
"""The key of the provider's word in an error's details if the type is an exception's class."""

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
    """What is known about a failure before it is classified.

    Attributes:
        message: One line for the user, keys masked.
        text: All text to search for phrases.
        type: The provider's word for the kind of failure.
        code: The provider's own code.
        words: Every word that names a kind, squashed.
        status: An error status in the body or exception.
        retry_after_s: Seconds to wait according to the body.
        headers: Normalised headers that came with an exception.
        details: Further facts by name.
        parsed: Whether the body was JSON.
        exceptions: The exception and its causes.
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
        """Fill in from *other* what is unknown here."""
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
            facts.words.add(_squash(type(one).__name__))
        _read_exception(one, facts)
    first = facts.exceptions[0]
    text = " ".join(_string(one) for one in facts.exceptions)
    facts.text = f"{facts.text} {text}".strip()
    facts.message = facts.message or one_line(_string(first)) or type(first).__name__
    # Its status is invented by the client: no reply was read.
    if any(map(_is_parser_error, facts.exceptions)):
        facts.status = None
    elif facts.status is None and (found := _STATUS_TEXT.search(text)):
        facts.status = int(found["after"] or found["before"])
    return facts


def one_line(text: str) -> str:
    """Return *text* on one line, with keys masked, cut to ``MAX_MESSAGE_CHARS``."""
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
    # Providers differ in which of these has the kind of failure, so all of them are read.
    for name in ("type", "code", "status", "error_type", "__type", "reason"):
        if word := as_text(error.get(name)):
            facts.words.add(_squash(word))
    for name in ("param", "failed_generation"):
        if text := as_text(error.get(name)):
            facts.details.setdefault(name, text)
    _read_google_details(as_list(error.get("details")), facts)
    _read_upstream(as_object(error.get("metadata")), facts)
    for name in _NESTED:
        inner = as_object(error.get(name))
        if word := as_text(inner.get("code")):
            facts.words.add(_squash(word))


def _message(error: JsonObject) -> str:
    for name in ("message", "Message", "detail", "error_message", "msg", "error_description"):
        value = error.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list):
            # FastAPI lists the errors of each field.
            texts = [as_text(as_object(item).get("msg")) for item in value]
            return "; ".join(text for text in texts if text)
        if isinstance(value, dict):
            return as_text(value.get("message")) or as_text(value.get("msg"))
    return ""


def _read_google_details(details: list[Json], facts: FailureFacts) -> None:
    for item in map(as_object, details):
        if reason := as_text(item.get("reason")):
            facts.words.add(_squash(reason))
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
            inner_facts = read_error_facts(inner)
            # The words of the provider behind the gateway say more than the gateway's status.
            facts.words |= inner_facts.words
            raw = inner_facts.text
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
    """Whether it means that the data was not HTTP: aiohttp then sets its own status 400."""
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
        # The dictionary of botocore's ClientError has a different form.
        aws = as_object(document.get("Error"))
        facts.add(FailureFacts(message=one_line(as_text(aws.get("Message")))))
        if word := as_text(aws.get("Code")):
            facts.words.add(_squash(word))
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
        The error with its code, whether the same request may succeed later, and the minimum wait.
        Never raises.
    """
    facts = FailureFacts()
    if body is not None:
        facts.add(read_body_facts(body))
    if exception is not None:
        exception_facts = read_exception_facts(exception)
        facts.add(exception_facts)
        facts.exceptions = exception_facts.exceptions
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
        facts.words.add(_squash(kind))
        facts.type = facts.type or kind.partition(":")[0]
    # A status 200 says nothing about an error inside the reply.
    failed = status if status is not None and status >= 400 else facts.status
    kind = _kind(facts, failed)
    wait = read_retry_after(fields, now=time.time() if now is None else now)
    details: JsonObject = {**facts.details, "provider": provider} if provider else facts.details
    raised = type(facts.exceptions[0]).__name__ if facts.exceptions else ""
    if raised and facts.type:
        details = {**details, PROVIDER_TYPE: facts.type}
    return AgentError(
        ErrorCode.RATE_LIMIT if kind == _QUOTA else ErrorCode(kind),
        facts.message or _default_message(failed, facts),
        type=raised or facts.type,
        status_code=failed if failed is not None else status,
        # An exhausted quota does not recover with time like a rate limit, though both have one
        # code.
        retryable=kind != _QUOTA and is_retryable(kind, failed),
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


# ---- the order of classification: the first test that matches decides
def _kind(facts: FailureFacts, status: int | None) -> str:
    for kind, holds in _TESTS:
        if holds(facts, status):
            return kind
    return _kind_of_exception(facts) or _kind_of_words(facts)


def _is_context(facts: FailureFacts, status: int | None) -> bool:
    # With a 429, "too many tokens" means per minute, not in one prompt.
    return _has_word(facts, ErrorCode.CONTEXT_LENGTH) or (
        status != 429 and bool(_CONTEXT_TEXT.search(facts.text))
    )


def _is_content(facts: FailureFacts, status: int | None) -> bool:
    return _has_word(facts, ErrorCode.CONTENT_FILTER) or (
        _is_refusing(status) and bool(_CONTENT_TEXT.search(facts.text))
    )


def _is_quota(facts: FailureFacts, status: int | None) -> bool:
    if status == 402 or _has_word(facts, _QUOTA):
        return True
    # Google says "exceeded your current quota" about a limit per minute.
    return "resourceexhausted" not in facts.words and bool(_QUOTA_TEXT.search(facts.text))


def _is_auth(facts: FailureFacts, status: int | None) -> bool:
    if status in (401, 403):
        return True
    # Google and xAI refuse a bad key with a 400.
    if status is not None and status not in (400, 422):
        return False
    return _has_word(facts, ErrorCode.AUTH_ERROR) or bool(_KEY_TEXT.search(facts.text))


def _is_model(facts: FailureFacts, status: int | None) -> bool:
    if status == 503:
        return "model" in facts.text.lower()
    if status not in _ABOUT_A_MODEL:
        return False
    return _has_word(facts, ErrorCode.MODEL_UNAVAILABLE) or bool(_MODEL_TEXT.search(facts.text))


def _is_rate_limit(facts: FailureFacts, status: int | None) -> bool:
    if status == 429 or _has_word(facts, ErrorCode.RATE_LIMIT):
        return True
    return status is None and bool(_RATE_TEXT.search(facts.text))


def _is_timeout(facts: FailureFacts, status: int | None) -> bool:
    if status in _TIMEOUT_STATUS or _has_word(facts, ErrorCode.TIMEOUT):
        return True
    return status is None and bool(_TIMEOUT_TEXT.search(facts.text))


def _is_invalid(facts: FailureFacts, status: int | None) -> bool:
    return status is not None and 400 <= status < 500


def _is_server(facts: FailureFacts, status: int | None) -> bool:
    if status is not None:
        return status >= 500
    return bool(facts.exceptions) and bool(_SERVER_TEXT.search(facts.text))


_TESTS: Final[tuple[tuple[str, Callable[[FailureFacts, int | None], bool]], ...]] = (
    (ErrorCode.CONTEXT_LENGTH, _is_context),
    (ErrorCode.CONTENT_FILTER, _is_content),
    (_QUOTA, _is_quota),
    (ErrorCode.AUTH_ERROR, _is_auth),
    (ErrorCode.MODEL_UNAVAILABLE, _is_model),
    (ErrorCode.RATE_LIMIT, _is_rate_limit),
    (ErrorCode.TIMEOUT, _is_timeout),
    (ErrorCode.INVALID_REQUEST, _is_invalid),
    (ErrorCode.SERVER_ERROR, _is_server),
)


def _kind_of_words(facts: FailureFacts) -> str:
    """Classify by the words alone; an unknown error is blamed on the provider."""
    for kind in (ErrorCode.INVALID_REQUEST, ErrorCode.SERVER_ERROR):
        if _has_word(facts, kind):
            return kind
    return ErrorCode.INTERNAL if facts.exceptions else ErrorCode.SERVER_ERROR


def _kind_of_exception(facts: FailureFacts) -> str | None:
    """Classify by class names, including those of base classes and causes."""
    for exception in facts.exceptions:
        names = [_squash(each.__name__) for each in type(exception).__mro__]
        if "cancelled" in names[0] or "canceled" in names[0]:
            return ErrorCode.CANCELED
        for part, kind in _NAME_PARTS:
            if any(part in name for name in names):
                return kind
    return None


def _has_word(facts: FailureFacts, kind: str) -> bool:
    return not _WORDS[kind].isdisjoint(facts.words)


def _is_refusing(status: int | None) -> bool:
    return status is None or status in (400, 403, 422, 451)
