"""Repair: a model is asked once to correct the arguments that it got wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from ..contract import Coercion, Message, ModelRequest, ModelResponse, Role, to_free_json
from .case import Case
from .check import Refused
from .gate import Rewind
from .secrets import Secrets

__all__ = ["AskModel", "Repair", "coercion_of"]

# ``Model.call`` is one.
AskModel: TypeAlias = Callable[[ModelRequest], Awaitable[ModelResponse]]

_RULE = "model"

_SYSTEM = (
    "You correct the arguments of one tool call. Answer with the corrected arguments as one JSON "
    "object that fits the schema, and nothing else. Change only what is at fault; invent no values."
)
_MAX_CHARS = 20_000


class Repair:
    """Has a model correct arguments, for tools that want it (``@tool(repair=True)``).

    Args:
        ask: Calls the model; what it raises leaves the call denied.
        secrets: Arguments that hold one are not sent anywhere.
    """

    def __init__(self, ask: AskModel, secrets: Secrets) -> None:
        self._ask = ask
        self._secrets = secrets

    def is_due(self, case: Case) -> bool:
        """Whether the model is to be asked: once a call, and only about its own words."""
        wanted = case.known_tool.repair and not case.dry
        return wanted and case.source is case.call.arguments and case.refused is None

    async def mend(self, case: Case, refused: Refused) -> Rewind | None:
        """Ask for better arguments.

        Args:
            case: The call.
            refused: What is wrong with them.

        Returns:
            The way back to the gate on arguments; None where there are none.
        """
        if case.mended is None:
            said = await self._answer(case, refused)
            if not said:
                return None
            case.mended = said
        case.source, case.refused = case.mended, refused
        return Rewind("arguments")

    async def _answer(self, case: Case, refused: Refused) -> str:
        asked = _question(case, refused)
        if len(asked) > _MAX_CHARS or self._secrets.mask_text(asked) != asked:
            return ""
        try:
            response = await self._ask(ModelRequest((Message(Role.USER, asked),), system=_SYSTEM))
        except Exception:  # whatever a model does, the call still has its outcome: the denial
            return ""
        return _json_in(response.content or "") if response.success else ""


def coercion_of(case: Case) -> Coercion:
    """What the record of a call says of the repair that it went through."""
    before, _ = to_free_json(case.call.arguments)
    return Coercion(path="", rule=_RULE, before=before, after=case.given)


def _question(case: Case, refused: Refused) -> str:
    tool = case.known_tool
    told = {
        "tool": tool.name,
        "description": tool.description,
        "schema": tool.parameters,
        "arguments": to_free_json(case.call.arguments)[0],
        "faults": refused.details,
    }
    return msgspec.json.encode(told).decode()


def _json_in(text: str) -> str:
    """The object in *text*, whatever words or fences stand round it; "" for none."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else ""
