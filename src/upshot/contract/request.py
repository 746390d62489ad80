"""What is asked: of an agent (Request) and of a model (ModelRequest)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, TypeAlias, cast

import msgspec

from ..errors import Misuse
from .call import ToolSpec
from .keyword import KeywordMeta
from .message import Conversation, Message
from .settings import ModelSettings
from .value import JsonObject, Root, Value, check_types, freeze, set_field
from .words import Role

__all__ = ["ModelInput", "ModelRequest", "Request", "RequestConfig"]


class RequestConfig(Value, frozen=True, kw_only=True, metaclass=KeywordMeta):
    """What the caller can take.

    Attributes:
        accepted_output_modes: Media types, ``image/*`` among them; empty takes all. An artifact
            of another type is told in a warning.
    """

    accepted_output_modes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze(self, "accepted_output_modes")
        check_types(self)


class _Asked(Root, frozen=True, kw_only=False):
    message: Message | str


# To look at all fields of a request at once; these types are right.
_fields_of = attrgetter(
    "message", "inputs", "metadata", "task_id", "context_id", "run_id", "config"
)
_USER = Role.USER
_USUAL_TYPES = (Message, dict, dict, str, str, str, NoneType)


class Request(_Asked, frozen=True, kw_only=True):
    """One request to an agent: ``Request("Where is order 7?")``.

    Attributes:
        message: The message; a string becomes one of role user.
        inputs: Variables put on the board before the engine starts; None is none.
        task_id: The caller's task, "" if none.
        context_id: The conversation that this run belongs to, "" if none.
        run_id: The id that the run shall have; "" mints one.
        config: What the caller can take.
        metadata: Free JSON of the caller; None is none.
    """

    inputs: JsonObject = {}
    task_id: str = ""
    context_id: str = ""
    run_id: str = ""
    config: RequestConfig | None = None
    metadata: JsonObject = {}

    def __post_init__(self) -> None:
        if isinstance(self.message, str):
            set_field(self, "message", Message(_USER, self.message))
        if (*map(type, _fields_of(self)),) == _USUAL_TYPES:
            return
        check_types(self, "message", "task_id", "context_id", "run_id", "config")
        if type(self.inputs) is dict and type(self.metadata) is dict:
            return
        for name in ("inputs", "metadata"):
            given: object = getattr(self, name)
            if given is None:
                set_field(self, name, {})
            elif not isinstance(given, Mapping):
                raise Misuse(
                    f"{name} of the request is of type {type(given).__name__}: give a mapping "
                    "from names to JSON values"
                )

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message if isinstance(self.message, str) else self.message.text

    def to_message(self) -> Message:
        """The message as a Message."""
        return Message("user", self.message) if isinstance(self.message, str) else self.message


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a model.

    Attributes:
        messages: The conversation so far. A ``Conversation`` lets an encoder keep
            its bytes from turn to turn; a text is one message of the user's.
        system: Instructions, apart from the messages; None for none.
        tools: The tools on offer, in order.
        output_schema: JSON Schema that the answer must follow, None for free text.
        settings: How to ask; None leaves all to the provider.

    Raises:
        Misuse: The messages are no messages.
    """

    messages: Sequence[Message]
    system: str | None = None
    tools: tuple[ToolSpec, ...] = ()
    output_schema: JsonObject | None = None
    settings: ModelSettings | None = None

    def __post_init__(self) -> None:
        if isinstance(self.messages, Conversation):
            return
        given = cast("object", self.messages)
        if isinstance(given, str):
            set_field(self, "messages", (Message("user", given),))
        elif isinstance(given, Message):
            set_field(self, "messages", (given,))
        elif not isinstance(given, Sequence):
            raise Misuse(f"messages is of type {type(given).__name__}: give a list of Messages")
        else:
            for one in cast("Sequence[object]", given):
                if not isinstance(one, Message):
                    from .article import kind_of

                    raise Misuse(f"messages hold {kind_of(one)}: give Message('user', ...)")

    @staticmethod
    def of(asked: ModelInput) -> ModelRequest:
        """Make a request of a string, of messages, or of a request."""
        return asked if isinstance(asked, ModelRequest) else ModelRequest(cast("Any", asked))


ModelInput: TypeAlias = str | Sequence[Message] | ModelRequest
