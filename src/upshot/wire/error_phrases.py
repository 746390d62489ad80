"""The words and phrases by which providers name their failures, as data.

A word is a type, code, status or reason in an error object, or a class name. Words are compared in
lower case without punctuation, so that RateLimitReached, rate_limit_reached and
RATE-LIMIT-REACHED are one word.
"""

from __future__ import annotations

import re
from typing import Final

from upshot.contract.base.enums import ErrorCode

_NOT_ALNUM = re.compile("[^a-z0-9]+")


def squash(word: str) -> str:
    """Make *word* comparable; what AWS puts after ":" and before "#" is dropped."""
    return _NOT_ALNUM.sub("", word.partition(":")[0].rpartition("#")[2].lower())


def _words(text: str) -> frozenset[str]:
    return frozenset(squash(word) for word in text.split())


QUOTA: Final = "quota"
"""The key of quota words: their code is rate_limit, but waiting does not help."""

WORDS: Final[dict[str, frozenset[str]]] = {
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
    QUOTA: _words(
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

NAME_PARTS: Final[tuple[tuple[str, str], ...]] = tuple(
    (part, kind)
    for kind, parts in (
        (ErrorCode.CONTEXT_LENGTH, "contextwindow contextlength"),
        (ErrorCode.CONTENT_FILTER, "contentpolicy contentfilter"),
        (QUOTA, "quota budgetexceeded"),
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


CONTEXT_TEXT: Final = _phrases(
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

CONTENT_TEXT: Final = _phrases(
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

QUOTA_TEXT: Final = _phrases(
    r"insufficient[ _](?:quota|balance|credits?|funds)",
    r"credit balance is too low",
    r"(?:out of|more|not enough|no remaining) credits",
    r"exceeded your (?:monthly|current) (?:included )?(?:credits|quota|usage)",
    r"billing hard limit",
    r"(?:spending|usage|budget) limit (?:has been )?(?:reached|exceeded)",
)

KEY_TEXT: Final = _phrases(
    r"api[ _-]?key (?:is )?(?:not valid|invalid|expired|missing|required|not found)",
    r"(?:invalid|incorrect|missing|expired|wrong|no)(?: or \w+)? (?:x-)?api[ _-]?key",
    r"api[ _-]?key provided",
    r"(?:invalid|missing|no) (?:authentication|auth)\b",
    r"authentication fail",
    r"security token included in the request",
    r"could not resolve authentication|unable to locate credentials",
)

MODEL_TEXT: Final = _phrases(
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

RATE_TEXT: Final = _phrases(
    r"rate[ _-]?limit", r"too many requests", r"throttl", r"requests per (?:min|sec|hour|day)"
)

TIMEOUT_TEXT: Final = _phrases(r"timed[ -]?out", r"\btime-?out\b", r"deadline exceeded")

# A number is a status only beside a word that makes it one: "512 tokens" is none.
STATUS_TEXT: Final = re.compile(
    r"(?:\bstatus(?:[ _-]?code)?|\berror(?:[ _-]?code)?|\bcode|\bhttp(?:/[0-9.]+)?)"
    r"(?:\s+(?:is|was|of))?[\s:=#('\"]{1,4}(?P<after>[45][0-9]{2})\b"
    r"(?!\.?[0-9]| ?(?:tok|char|byte|ms|sec|item|line|word|%))"
    r"|\b(?P<before>[45][0-9]{2}) (?:client error|server error|bad request|unauthori[sz]ed"
    r"|forbidden|not found|request timeout|conflict|too many requests|internal server error"
    r"|bad gateway|service unavailable|gateway time-?out)\b",
    re.IGNORECASE,
)
