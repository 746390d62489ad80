"""Messages, their parts, conversations and artifacts.

A model's reply is a sequence of parts in the order received: thoughts, text, tool calls, and blocks
of the provider's own tools. ``ModelResponse.parts`` and the content of the ``Message`` made from it
hold the same parts; ``content``, ``text``, ``tool_calls`` and ``reasoning`` are views of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast, overload

import msgspec

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Role, RoleField, RoleWord
from upshot.contract.base.json_values import clean_fields, clean_text, force_json
from upshot.contract.base.structs import (
    CheckedMeta,
    Formed,
    Json,
    JsonObject,
    Tagged,
    check_given,
    check_types,
    freeze,
    set_field,
    written,
)
from upshot.contract.tool_calls import FENCE_OPENING, UNTRUSTED, ToolCall
from upshot.errors import Misuse

if TYPE_CHECKING:
    from inspect import Signature


MAIN_CHANNEL = "main"
# The kind of an Unknown while it is encoded and decoded. It never reaches stored JSON, and no later
# version will use it as a kind.
UNKNOWN_TAG = "?"


class Text(Tagged, frozen=True, kw_only=False, metaclass=CheckedMeta):
    """Plain or marked-up text.

    Attributes:
        text: The text itself.
        trust: "untrusted" if the text comes from an untrusted source, otherwise "".
        citations: The sources that the provider cites, in its own form.
        signature: The provider's opaque proof of the reasoning behind the text; sent back to it.
        provider: The provider of citations and signature, which are sent back only to it.
    """

    text: str = written("")
    trust: str = ""
    citations: tuple[JsonObject, ...] = ()
    signature: str | None = None
    provider: str = ""

    def __post_init__(self) -> None:
        # Checked here to save the call: nearly every text is ASCII.
        if not (type(self.text) is str and self.text.isascii()):
            check_types(self, "text")
            clean_fields(self, "text")
        if self.citations:
            freeze(self, "citations")
            check_types(self, "citations")


class Image(Tagged, frozen=True, kw_only=True):
    """An image, by URL or by its bytes.

    Attributes:
        url: The URL to fetch it from; "" if the bytes are given.
        data: The bytes (base64 in JSON), None if only the URL is known.
        media_type: Such as "image/png".
        detail: How closely the model should look: "low", "high", "auto" or "".
        signature: What the provider wants back with an image that its model made; opaque.
        provider: The provider of the signature, which is sent back only to it.
    """

    url: str = ""
    data: bytes | None = None
    media_type: str = ""
    detail: str = ""
    signature: str | None = None
    provider: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class File(Tagged, frozen=True, kw_only=True):
    """A document, by URL, by its bytes, or by the id of the stored file.

    Attributes:
        name: The file name, "" if it has none.
        url: The URL to fetch it from, "" if there is none.
        data: The bytes (base64 in JSON), None if they are stored elsewhere.
        media_type: Such as "application/pdf".
        id: The id of the stored file, in the run's artifact store or at the provider.
        size_bytes: The size in bytes, 0 if unknown.
        sha256: Hex digest of the bytes, "" if unknown.
        lines: The number of lines of text, None if it is not text.
        summary: What it contains, in at most 200 characters.
    """

    name: str = ""
    url: str = ""
    data: bytes | None = None
    media_type: str = ""
    id: str = ""
    size_bytes: int = 0
    sha256: str = ""
    lines: int | None = None
    summary: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class Audio(Tagged, frozen=True, kw_only=True):
    """Sound, by URL, by its bytes, or by the provider's id.

    Attributes:
        url: The URL to fetch it from, "" if there is none.
        data: The bytes (base64 in JSON), None if they are stored elsewhere.
        media_type: Such as "audio/wav".
        id: The provider's id of the sound, "" if none.
        transcript: The spoken words, "" if unknown.
    """

    url: str = ""
    data: bytes | None = None
    media_type: str = ""
    id: str = ""
    transcript: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class Data(Tagged, frozen=True, kw_only=False, metaclass=CheckedMeta):
    """A JSON value as a part.

    Attributes:
        data: The value.
        media_type: "application/json" or a more specific type.
    """

    data: Json = None
    media_type: str = "application/json"

    def __post_init__(self) -> None:
        force_json(self, "data")


class Reasoning(Tagged, frozen=True, kw_only=True, metaclass=CheckedMeta):
    """What a model thought before it answered.

    Attributes:
        text: The thought or its summary, "" if the provider sent only the opaque form.
        signature: The provider's opaque form or proof of the thought; sent back to it.
        provider: The provider that signed the thought, which is sent back only to it.
        id: The provider's id of the thought, "" if none.
        redacted: Whether the provider withheld the text and sent only the signature.
    """

    text: str = ""
    signature: str | None = None
    provider: str = ""
    id: str = ""
    redacted: bool = False

    def __post_init__(self) -> None:
        clean_fields(self, "text")


class ServerToolBlock(Tagged, frozen=True, kw_only=False):
    """The output of a provider's own tool, such as a web search: its call, its result, or both.

    Attributes:
        raw: The block as the provider sent it; sent back unchanged.
        provider: The provider that sent the block, which is sent back only to it.
    """

    raw: JsonObject = {}
    provider: str = ""

    def __post_init__(self) -> None:
        check_types(self)


class _UnknownMeta(msgspec.StructMeta):
    """Metaclass that also accepts the kind and the object: ``Unknown(kind, raw)``."""

    # A type checker reads the field itself.
    if not TYPE_CHECKING:

        def __call__(cls, kind=None, raw=None):
            """Create the part; a given kind is also set in *raw*."""
            whole = {} if raw is None else raw
            if not isinstance(whole, dict):
                raise Misuse(f"Unknown takes the JSON object as received, got {kind_of(raw)}")
            return super().__call__(raw=whole if kind is None else {**whole, "kind": kind})


class Unknown(Tagged, frozen=True, kw_only=True, tag=UNKNOWN_TAG, metaclass=_UnknownMeta):
    """A part or an event of a kind that this version does not know, kept unchanged.

    Attributes:
        raw: The whole JSON object, including its kind; written back unchanged.
    """

    raw: JsonObject = {}

    def __post_init__(self) -> None:
        if not isinstance(self.raw.get("kind"), str):
            set_field(self, "raw", {**self.raw, "kind": "unknown"})

    @property
    def kind(self) -> str:
        """The unknown kind."""
        return str(self.raw["kind"])

    @property
    def run_id(self) -> str:
        """The id of the run if this is an event, otherwise ""."""
        return str(self.raw.get("run_id", ""))

    @property
    def seq(self) -> int:
        """The position in the run's log if this is an event, otherwise 0."""
        seq = self.raw.get("seq", 0)
        return seq if isinstance(seq, int) else 0


Part: TypeAlias = (
    Text | Image | File | Audio | Data | Reasoning | ToolCall | ServerToolBlock | Unknown
)


def with_views(known: Signature, *names: str) -> Signature:
    """Return *known* with the views *names* added as keywords, for help() and editors."""
    from inspect import Parameter

    views = [Parameter(name, Parameter.KEYWORD_ONLY, default=()) for name in names]
    return known.replace(parameters=[*known.parameters.values(), *views])


# Looked up once: messages are created often.
_make = msgspec.StructMeta.__call__


class _MessageMeta(msgspec.StructMeta):
    """Metaclass that also accepts ``tool_calls``, which it appends to the content."""

    # A type checker reads __init__ below. Decoding bypasses this.
    if not TYPE_CHECKING:

        def __call__(cls, *args, tool_calls=(), **fields):
            """Create the message."""
            message = _make(cls, *args, **fields)
            if fields:
                check_given(message, fields)
            if tool_calls:
                set_field(message, "content", (*message.parts, *_check_calls(tool_calls)))
            return message

        @property
        def __signature__(cls):
            return with_views(super().__signature__, "tool_calls")


class _Said(Tagged, frozen=True, kw_only=False):
    role: RoleField
    content: str | tuple[Part, ...] = written("")


CUT = "cut"
"""Set in the metadata of a reply that was cut off when its run was stopped."""


TAINTED = "tainted"
"""Set in the metadata of a message produced after untrusted content had reached its run."""


class Message(_Said, frozen=True, kw_only=True, gc=False, metaclass=_MessageMeta):
    """One message of a conversation: ``Message("user", "Hello")``.

    ``Message("assistant", text, tool_calls=calls)`` puts the calls after the text.

    Attributes:
        role: The role of the speaker; the output of a tool always has the role tool.
        content: Text, or parts in order, including an assistant's tool calls.
        tool_call_id: The call that a tool message answers, None for other roles.
        name: The tool's name on a tool message, otherwise the speaker's name; "" if none.
        paused: Whether the provider paused this reply and continues it when it is sent back.
        metadata: Free JSON; never sent to a model.
    """

    tool_call_id: str | None = None
    name: str = ""
    paused: bool = False
    metadata: JsonObject = {}

    if TYPE_CHECKING:

        def __init__(
            self,
            role: RoleWord,
            content: str | Sequence[Part] | None = "",
            *,
            tool_calls: Sequence[ToolCall] = (),
            tool_call_id: str | None = None,
            name: str = "",
            paused: bool = False,
            metadata: JsonObject = {},  # noqa: B006  # msgspec copies it
        ) -> None: ...

    def __post_init__(self) -> None:
        if type(self.role) is not Role:
            set_field(self, "role", Role(self.role))
        if self.metadata:
            force_json(self, "metadata")
        content = self.content
        if type(content) is tuple:
            check_parts(content)
        elif type(content) is not str:
            set_field(self, "content", _to_content(content))
        elif not content.isascii():
            clean_fields(self, "content")

    @property
    def text(self) -> str:
        """All text, joined without a separator."""
        content = self.content
        if isinstance(content, str):
            return content
        return "".join([part.text for part in content if isinstance(part, Text)])

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts; a non-empty string is one part."""
        if not isinstance(self.content, str):
            return self.content
        return (Text(self.content),) if self.content else ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls among its parts, in order."""
        content = self.content
        if type(content) is str:
            return ()
        # Called often: before Python 3.12 a comprehension costs a function call, a loop does not.
        calls: list[ToolCall] = []
        for part in content:
            if type(part) is ToolCall:
                calls.append(part)
        return tuple(calls)


def _check_calls(calls: object) -> Sequence[ToolCall]:
    given = cast("Sequence[object]", calls) if isinstance(calls, tuple | list) else [calls]
    for call in given:
        if not isinstance(call, ToolCall):
            raise Misuse(f"tool_calls must be ToolCall objects, got {kind_of(call)}")
    return cast("Sequence[ToolCall]", given)


def _to_content(content: object) -> object:
    """Return non-text content as parts. None, which other libraries use, means no content."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, tuple | list):
        raise Misuse(f"the content of a message must be a string or parts, got {kind_of(content)}")
    parts = tuple(cast("Sequence[object]", content))
    check_parts(parts)
    return parts


def check_parts(parts: tuple[object, ...]) -> None:
    """Check that *parts* can be the parts of a message.

    Raises:
        Misuse: A part is not a ``Tagged`` object.
    """
    for part in parts:
        if not isinstance(part, Tagged):
            hint = f": give Text({part!r})" if isinstance(part, str) else ""
            raise Misuse(
                f"the parts of a message must be Text, Image or the like, got {kind_of(part)}{hint}"
            )


class MessageList(Formed, Sequence[Message]):
    """An append-only sequence of messages, with a place for their encoded form.

    It behaves like any sequence and equals a list or tuple of the same messages. An encoder caches
    its bytes in ``encoded`` and next time encodes only the messages added since. A run of n turns
    therefore encodes n messages rather than n squared.

    Attributes:
        encoded: The caches of encoders, each under its own key.
        items: The underlying list; read only. In a view it also has later messages.
    """

    __slots__ = ("encoded", "items")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.items: list[Message] = list(messages)
        self.encoded: dict[object, object] = {}

    def append(self, message: Message) -> None:
        """Add *message* at the end."""
        self.items.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Add *messages* at the end, in order."""
        self.items.extend(messages)

    def copy(self) -> MessageList:
        """Return an independent copy of the messages, without the caches."""
        return MessageList(self)

    def __reduce__(self) -> tuple[type[MessageList], tuple[list[Message]]]:
        # Pickle only the messages of this view, without later ones and without caches.
        return MessageList, (self[:],)

    def json_form(self) -> list[Message]:
        """Return the messages as a list."""
        return self[:]

    def in_order(self, messages: Iterable[Message]) -> MessageList:
        """Return a separate list of *messages*, which are these messages in another order.

        Integers in ``encoded``, which are positions, are copied; the caches of encoders are not.
        """
        other = MessageList(messages)
        places = {key: made for key, made in self.encoded.items() if isinstance(made, int)}
        other.encoded.update(places)
        return other

    def so_far(self, count: int | None = None) -> MessageList:
        """Return a view of the current messages, which does not grow with this list.

        Nothing is copied; both share the caches of encoders.

        Args:
            count: How many of the messages; None means all.
        """
        return _SoFar(self, len(self) if count is None else count)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.items)

    def __add__(self, other: Sequence[Message]) -> list[Message]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Message]) -> list[Message]:
        return [*other, *self]

    # Mutable, so not hashable.
    __hash__: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MessageList | list | tuple):
            return self[:] == [*cast("Sequence[object]", other)]
        return NotImplemented

    def __repr__(self) -> str:
        return f"MessageList({self[:]!r})"


class _SoFar(MessageList):
    """A view of the first messages of a growing list; appending detaches it."""

    __slots__ = ("_count",)

    def __init__(self, whole: MessageList, count: int) -> None:
        self.items, self.encoded = whole.items, whole.encoded
        self._count = count

    def append(self, message: Message) -> None:
        self.extend((message,))

    def extend(self, messages: Iterable[Message]) -> None:
        self.items, self.encoded = [*self, *messages], {}
        self._count = len(self.items)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return self.items[slice(*index.indices(self._count))]
        return self.items[range(self._count)[index]]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Message]:
        return islice(self.items, self._count)


class _Bundle(Tagged, frozen=True, kw_only=False, metaclass=CheckedMeta):
    name: str
    parts: tuple[Part, ...] = ()


class Artifact(_Bundle, frozen=True, kw_only=True):
    """Something that a run produced besides its answer.

    Attributes:
        name: The channel that it comes from, or the tool that produced it.
        parts: Its content; a stored large output is a ``File`` with id, media_type,
            size_bytes, sha256 and summary.
        metadata: Free JSON.
    """

    metadata: JsonObject = {}

    def __post_init__(self) -> None:
        freeze(self, "parts")
        check_types(self, "name")


def mark_tainted(message: Message) -> Message:
    """Return *message* marked as produced after untrusted content."""
    if message.metadata.get(TAINTED):
        return message
    return msgspec.structs.replace(message, metadata={**message.metadata, TAINTED: True})


def without_mark(message: Message) -> Message:
    """Return *message* without the mark of ``mark_tainted``."""
    metadata = message.metadata
    if TAINTED not in metadata:
        return message
    left = {name: value for name, value in metadata.items() if name != TAINTED}
    return msgspec.structs.replace(message, metadata=left)


# Looked up once: in Python 3.11 looking up an enum member is slow.
_TOOL = Role.TOOL


def any_untrusted(messages: Iterable[Message]) -> bool:
    """Return whether any of *messages* may contain untrusted content.

    That is tool output, text that the caller marked as untrusted, and anything produced after it.
    """
    for message in messages:
        if message.metadata and message.metadata.get(TAINTED):
            return True
        content = message.content
        if message.role is _TOOL:
            text = content if type(content) is str else message.text
            # Tool output from trusted tools is JSON.
            if text.startswith(FENCE_OPENING):
                return True
        elif type(content) is not str:
            for part in content:
                if isinstance(part, Text) and part.trust == UNTRUSTED:
                    return True
    return False
