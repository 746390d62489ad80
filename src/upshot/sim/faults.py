"""Faults: what goes wrong between a client and a provider, each a small value with a selector.

``at`` chooses the replies (by the number of assistant messages in the request, so 0 is the first;
None means any) and ``times`` how often it happens in one server process (None means always). At
most one fault happens to a request: the first in the list that is chosen and not used up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from upshot.contract.base.checks import check_amount, check_whole
from upshot.contract.base.structs import check_types, set_field
from upshot.errors import Misuse

GATEWAY_PAGE = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    "<center><h1>502 Bad Gateway</h1></center>\r\n"
    "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
)


class _Selected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """The selector that all faults share; see the module's docstring."""

    at: int | tuple[int, ...] | None = None
    times: int | None = 1

    def __post_init__(self) -> None:
        check_types(self)
        check_whole("times", self.times, least=1, none="always")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not value >= 0:
                raise Misuse(f"{name} must be 0 or more, got {value}")

    def chooses(self, reply: int) -> bool:
        """Whether it may happen to the reply with this index."""
        return self.at is None or (
            reply in self.at if isinstance(self.at, tuple) else reply == self.at
        )


class StatusFault(_Selected, frozen=True, kw_only=True, tag="status"):
    """An error reply in the provider's own form.

    Attributes:
        status: HTTP status, 400 to 599.
        message: Its text; "" for a usual one.
        code: The provider's code for it; "" for the usual one of the status.
        headers: Further headers, by name.
        retry_after_s: The value of ``retry-after``; None for no such header.
    """

    status: int
    message: str = ""
    code: str = ""
    headers: dict[str, str] = {}
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        check_amount("retry_after_s", self.retry_after_s, none="no such header")
        if self.retry_after_s is not None:
            set_field(self, "retry_after_s", float(self.retry_after_s))
        _settle_headers(self)
        super().__post_init__()
        if not 400 <= self.status <= 599:
            raise Misuse(f"status must be 400 to 599, got {self.status}")


def _settle_headers(fault: StatusFault) -> None:
    # Numbers are sent as their text.
    given = cast("object", fault.headers)
    if isinstance(given, dict):
        items = cast("dict[object, object]", given).items()
        read = {name: str(v) if isinstance(v, int | float) else v for name, v in items}
        set_field(fault, "headers", read)


class PageFault(_Selected, frozen=True, kw_only=True, tag="page"):
    """A gateway's HTML page in place of JSON.

    Attributes:
        status: HTTP status; a badly configured proxy even sends 200.
        body: The page.
    """

    status: int = 502
    body: str = GATEWAY_PAGE


class SlowFault(_Selected, frozen=True, kw_only=True, tag="slow"):
    """The right reply, late.

    Attributes:
        first_byte_ms: Silence before the status line, added to the reply's own latency.
    """

    first_byte_ms: int


class CutFault(_Selected, frozen=True, kw_only=True, tag="cut"):
    """The connection closes in the middle of the reply.

    Attributes:
        after_events: Stream events sent before it; a reply that is not streamed is cut at half of
            its bytes.
    """

    after_events: int = 3


class MalformedFault(_Selected, frozen=True, kw_only=True, tag="malformed"):
    """Broken JSON: half of the body, or one broken event in a stream that then continues.

    Attributes:
        after_events: Stream events sent before the broken one.
    """

    after_events: int = 1


class ErrorFault(_Selected, frozen=True, kw_only=True, tag="error"):
    """An error object inside a reply of status 200: as the body, or as the last event of a stream.

    Attributes:
        status: The status that the error would have had; it chooses the error's type.
        message: Its text; "" for a usual one.
        code: The provider's code for it; "" for the usual one of the status.
        after_events: Stream events sent before it.
    """

    status: int = 500
    message: str = ""
    code: str = ""
    after_events: int = 2


class ResetFault(_Selected, frozen=True, kw_only=True, tag="reset"):
    """The connection is reset (TCP RST) before the first byte."""


class HangFault(_Selected, frozen=True, kw_only=True, tag="hang"):
    """The server falls silent, with the connection open, until the client leaves.

    Attributes:
        after_events: Stream events sent before the silence; 0 for not even a status line.
    """

    after_events: int = 0


Fault: TypeAlias = (
    StatusFault
    | PageFault
    | SlowFault
    | CutFault
    | MalformedFault
    | ErrorFault
    | ResetFault
    | HangFault
)
"""Any fault. In a file its ``kind`` is status, page, slow, cut, malformed, error, reset or hang."""


def to_fault(given: object) -> Fault:
    """Return a fault unchanged, or read one from a mapping."""
    if isinstance(given, Fault):
        return given
    try:
        return msgspec.convert(given, cast("type[Fault]", Fault))
    except msgspec.ValidationError as error:
        raise Misuse(f"a fault of the simulator is not valid: {error}") from error


class FaultBox:
    """Faults, and how often each may still happen in this process."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = tuple(faults)
        self._left = [fault.times for fault in self._faults]

    def pick(self, reply: int) -> Fault | None:
        """Return the fault that happens to this reply and count it; None for none."""
        # Counted by place, not by value: two equal faults in a list are two.
        for place, fault in enumerate(self._faults):
            left = self._left[place]
            if left == 0 or not fault.chooses(reply):
                continue
            if left is not None:
                self._left[place] = left - 1
            return fault
        return None


def placed(faults: Sequence[Fault], reply: int) -> list[Fault]:
    """Limit the faults of one scripted reply to that reply."""
    return [msgspec.structs.replace(fault, at=reply) for fault in faults]
