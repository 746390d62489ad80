"""The gate on arguments."""

from __future__ import annotations

from collections.abc import Awaitable

from ...contract import DeniedReason
from ..annotation import BuildError
from ..case import Case
from ..check import Refused
from ..fault import cut_text
from ..gate import Denial, Rewind
from ..repair import Repair, coercion_of

__all__ = ["ArgumentsGate"]

# A type may refuse every item of a long list.
_MAX_CHARS = 4_000


class ArgumentsGate:
    """Arguments have to fit the tool's schema and types."""

    name = "arguments"

    def __init__(self, repair: Repair | None = None) -> None:
        """Make the gate.

        Args:
            repair: Who corrects arguments where a tool wants it; None for nobody.
        """
        self._repair = repair

    def check(self, case: Case) -> Denial | Awaitable[Denial | Rewind] | None:
        """Parse, coerce and validate; deny with every fault and its path."""
        tool = case.known_tool
        found = tool.check.read(case.source)
        if isinstance(found, Refused):
            return self._refuse(case, found)
        try:
            values = tool.body.build(found.given)
        except BuildError as error:
            return self._refuse(case, Refused(cut_text(str(error), _MAX_CHARS), tool.check.hint))
        case.settle_arguments(found.given, found.filled, values, found.coercions)
        if _is_mended(case):
            case.coercions = (coercion_of(case), *case.coercions)
        case.resources = tool.resources_of(found.filled)
        if not case.dry:
            case.turn.accept(case.tool_name)
        return None

    def _refuse(self, case: Case, refused: Refused) -> Denial | Awaitable[Denial | Rewind]:
        # An edit is a hook's or a person's fault, and must not count against the model.
        if case.source is case.call.arguments and not case.dry:
            case.turn.refuse(case.tool_name)
        if self._repair is not None and self._repair.is_due(case):
            return self._mend(case, self._repair, refused)
        # What a model made of them is no better, and the caller's model knows only its own.
        return _denial(case.refused if case.refused and _is_mended(case) else refused)

    async def _mend(self, case: Case, repair: Repair, refused: Refused) -> Denial | Rewind:
        return await repair.mend(case, refused) or _denial(refused)


def _is_mended(case: Case) -> bool:
    return case.mended is not None and case.source is case.mended


def _denial(refused: Refused) -> Denial:
    return Denial(DeniedReason.VALIDATION, refused.details, refused.hint)
