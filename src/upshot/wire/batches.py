"""Batches of model calls: requests that a provider answers within a day, at a lower price.

A batch here has one request, which the caller names by a key. A ``BatchForm`` is the batches of one
provider (``batch_forms``). Its methods are generators that yield requests and get the answers, so
nothing is sent here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from datetime import datetime
from typing import ClassVar, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlencode, urlsplit

from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.wire.decoding import (
    as_count,
    as_list,
    as_object,
    as_text,
    encode_json,
    parse_json,
    parse_object,
)

BATCH_TIER: Final = "batch"
"""The service tier of a reply in a batch; the standard price does not apply."""

_PAGES: Final = 20
# Words of all providers, without their prefix and in lower case.
_ENDED: Final = {
    "completed": ErrorCode.SERVER_ERROR,
    "success": ErrorCode.SERVER_ERROR,
    "succeeded": ErrorCode.SERVER_ERROR,
    "partially_succeeded": ErrorCode.SERVER_ERROR,
    "ended": ErrorCode.SERVER_ERROR,
    "failed": ErrorCode.SERVER_ERROR,
    "expired": ErrorCode.TIMEOUT,
    "early_stopped": ErrorCode.TIMEOUT,
    "timeout_exceeded": ErrorCode.TIMEOUT,
    "cancelled": ErrorCode.CANCELED,
    "canceled": ErrorCode.CANCELED,
    "deleting": ErrorCode.CANCELED,
    "deleting_cleaning_up": ErrorCode.CANCELED,
}
_PREFIXES: Final = ("batch_state_", "job_state_")


class BatchCall(NamedTuple):
    """A request that a form asks to be sent.

    Attributes:
        method: The HTTP method.
        url: The whole address.
        body: Its body.
        form: The content type of the body.
        accepts: Statuses from 300 on that are answers and no errors.
        is_open: Whether the address contains a signature: then the key is not sent.
    """

    method: str
    url: str
    body: bytes = b""
    form: str = "application/json"
    accepts: tuple[int, ...] = ()
    is_open: bool = False


class BatchAnswer(NamedTuple):
    """The answer to a ``BatchCall``.

    Attributes:
        status: The HTTP status, below 300 or one that the call accepts.
        body: The whole body.
    """

    status: int
    body: bytes

    @property
    def document(self) -> JsonObject:
        """The body as an object, empty if it is none."""
        return parse_object(self.body) or {}

    @property
    def listed(self) -> list[Json]:
        """The body as a list, empty if it is none."""
        value = parse_json(self.body)
        return value if isinstance(value, list) else []


class BatchResult(NamedTuple):
    """The result of one request: a reply as the provider would have sent it, or an error.

    Attributes:
        status: The HTTP status that the reply would have had.
        body: Its body.
        error: Why there is no reply; then the others do not count.
    """

    status: int = 200
    body: bytes = b""
    error: AgentError | None = None


class BatchTarget(NamedTuple):
    """What a form knows of the model.

    Attributes:
        beside: Returns the address of a path beside that of the surface.
        surface: The surface.
        model: The provider's name of the model.
        place: Where the requests and results are, "" if the provider keeps them.
    """

    beside: Callable[[str], str]
    surface: str
    model: str
    place: str = ""

    def url(self, path: str, **query: str) -> str:
        """Return the address of *path* beside that of the surface, with a query."""
        parts = urlsplit(self.beside(path))
        asked = "&".join(filter(None, (parts.query, urlencode(query))))
        return parts._replace(query=asked).geturl()


_T = TypeVar("_T")
BatchCalls: TypeAlias = Generator[BatchCall, BatchAnswer, _T]
"""A dialogue with a provider: it yields calls, gets their answers, and returns a value."""


class BatchForm(ABC):
    """The batches of one provider.

    Args:
        target: The model.

    Attributes:
        needs: What the place of the target must be, "" if the provider needs none.
        starts: How the place starts.
        surfaces: The surfaces that batches know.
    """

    needs: ClassVar[str] = ""
    starts: ClassVar[str] = ""
    surfaces: ClassVar[frozenset[str]] = frozenset({"chat"})

    def __init__(self, target: BatchTarget) -> None:
        self._target = target
        self._url = target.url

    @abstractmethod
    def submit(self, key: str, body: bytes) -> BatchCalls[str | None]:
        """Start the batch of one request.

        Args:
            key: Names the request: letters, digits, "-" and "_", at most 64.
            body: The body of the request.

        Returns:
            The provider's id of the batch; "" if it named none, None if the provider is not ready
            for it, and the same call later continues.
        """

    @abstractmethod
    def poll(self, batch_id: str, key: str, now: datetime) -> BatchCalls[BatchResult | None]:
        """Return the result of the request called *key*; None while the batch is in progress."""

    def find(self, key: str) -> BatchCalls[str | None]:
        """Return the id of the batch submitted as *key*, "" if there is none, None if unknown."""
        del key
        yield from ()
        return None


def search(
    url: str, items: str, tokens: tuple[str, str], match: Callable[[JsonObject], str]
) -> BatchCalls[str | None]:
    """Search a provider's list of batches, page by page.

    Args:
        url: The address of the first page, with a query.
        items: The field with the batches; the list itself may be the document.
        tokens: The field of a page that names the next, and the parameter for it.
        match: Returns the id of the batch that is searched for, "" for others.

    Returns:
        The id; "" if no page has it, None if there are too many pages to read.
    """
    more = ""
    for _ in range(_PAGES):
        answer = yield BatchCall("GET", url + more)
        document = answer.document
        for one in as_list(document.get(items)) or answer.listed:
            if found := match(as_object(one)):
                return found
        token = as_text(document.get(tokens[0]))
        if not token or document.get("has_more") is False:
            return ""
        more = f"&{urlencode({tokens[1]: token})}"
    return None


def read_results(lines: bytes, key: str) -> BatchResult | None:
    """Return the result of the request called *key*; None if the *lines* have none."""
    for line in lines.splitlines():
        document = parse_object(line)
        if document is not None and document.get("custom_id") == key:
            if "result" in document:
                return _read_message_result(as_object(document.get("result")))
            return read_line(document)
    return None


def read_word(document: JsonObject, field: str) -> str:
    """Return the provider's status of a batch, in lower case and without a prefix."""
    word = as_text(document.get(field)).lower()
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    return word


def has_ended(word: str) -> bool:
    """Whether a batch has ended, by its status from ``read_word``."""
    return word in _ENDED


def to_error(word: str, fault: JsonObject | None = None) -> AgentError:
    """Return the error of a batch that ended without a result.

    Args:
        word: How it ended, as ``read_word`` returns it.
        fault: The provider's reason, None or empty for none.
    """
    reason = as_text((fault or {}).get("message"))
    if reason in ("", "OK"):
        without = "" if word in ("failed", "expired", "cancelled") else " without a result"
        reason = f"the batch is {word.replace('_', ' ')}{without}"
    return batch_error(reason, _ENDED.get(word, ErrorCode.SERVER_ERROR))


def to_late_result(expires: Json, now: datetime) -> BatchResult | None:
    """Return the result of a batch in progress: None, unless it should have ended before *now*."""
    try:
        is_late = now >= datetime.fromisoformat(as_text(expires))
    # A time that cannot be read, or one without a zone.
    except (ValueError, TypeError):
        return None
    return BatchResult(error=to_error("expired")) if is_late else None


def batch_error(message: str, code: ErrorCode = ErrorCode.SERVER_ERROR) -> AgentError:
    """Return the error of a request that its batch did not answer."""
    return AgentError(code, message or "the batch gave no reason", origin=Origin.MODEL)


def read_line(document: JsonObject) -> BatchResult:
    """Read a result in the form of OpenAI; without a status, the response is the reply itself."""
    response = as_object(document.get("response"))
    status = as_count(response.get("status_code"))
    body = response.get("body") or (response if "choices" in response else None)
    if body:
        return BatchResult(200 if status is None else status, encode_json(body))
    error = as_object(document.get("error"))
    is_late = as_text(error.get("code")) == "batch_expired"
    code = ErrorCode.TIMEOUT if is_late else ErrorCode.SERVER_ERROR
    return BatchResult(error=batch_error(as_text(error.get("message")), code))


def _read_message_result(result: JsonObject) -> BatchResult:
    kind = as_text(result.get("type"))
    if kind == "succeeded":
        return BatchResult(200, encode_json(result.get("message")))
    if kind == "errored":
        # The error has the form of a refused request; its type decides.
        error: Json = result.get("error")
        return BatchResult(400, encode_json(error))
    code = ErrorCode.TIMEOUT if kind == "expired" else ErrorCode.CANCELED
    return BatchResult(error=batch_error(f"the request is {kind or 'unanswered'}", code))
