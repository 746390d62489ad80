"""What an error body or an exception says, whatever shape its provider gave it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from ..contract import Json, JsonObject
from .document import as_count, as_list, as_object, as_text, parse_json
from .failure_words import STATUS_TEXT, squash
from .fields import parse_duration
from .headers import normalize_headers

__all__ = ["FailureFacts", "read_body_facts", "read_error_facts", "read_exception_facts"]

MAX_MESSAGE_CHARS: Final = 1000

_SPACE = re.compile(r"\s+")
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_KEY = re.compile(
    r"(?i)((?:api[ _-]?key|token)(?: provided)?: ?)[^\s,.]*[^\s,.]"
    r"|\b(?:sk|pk|rk|gsk|xai|key|hf|r8)[-_][A-Za-z0-9_\-]{16,}|\bAIza[\w\-]{20,}"
    r"|(?<=bearer )\S{12,}"
)
# Where an error object may keep its own error object.
_NESTED = ("innererror", "inner_error", "cause")
_CAUSES = 5
_TYPE_NAMES = ("type", "status", "error_type", "__type")
_STATUS_NAMES = ("status_code", "code", "status", "raw_status_code", "http_code")


@dataclass(slots=True)
class FailureFacts:
    """What is known of a failure before it is classified.

    Attributes:
        message: One line for people, keys masked.
        text: All text that may be searched.
        type: The provider's or the class's word for the kind.
        code: The provider's own code.
        words: Every word that names a kind, squashed.
        status: An error status that the body or exception tells.
        retry_after_s: Seconds to wait that the body tells.
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
        """Take from *other* what is not known here."""
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
        # Google wraps the document in an array when it was asked for a stream.
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
    """Read what an exception and its causes say, by the attributes that client libraries use.

    Nothing of any library is imported: status, body and headers are looked for under the usual
    names.
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
    # Providers do not agree on which of these is the telling one, so all of them are looked at.
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
    """Read what a gateway says of the provider behind it."""
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


# A library's exception often wraps the one that tells: the chain is followed, but not for ever.
def _causes(exception: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    one: BaseException | None = exception
    while one is not None and len(seen) < _CAUSES and one not in seen:
        seen.append(one)
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _is_parser_error(one: BaseException) -> bool:
    """Whether *one* says that what came was no HTTP.

    aiohttp's parser gives such errors the status 400, which no reply said.
    """
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
        # botocore's ClientError keeps a dictionary of its own make.
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
    # Foreign code: a property of a client's exception may raise anything, and a failure that is
    # being classified must not become another one.
    except Exception:
        return None


def _string(exception: BaseException) -> str:
    try:
        return str(exception)
    # As above: __str__ is foreign code.
    except Exception:
        return ""
