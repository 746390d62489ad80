"""The gate on arguments."""

from __future__ import annotations

from ...contract import DeniedReason
from ..annotation import BuildError
from ..case import Case
from ..check import Refused
from ..gate import Denial

__all__ = ["ArgumentsGate"]


class ArgumentsGate:
    """Arguments have to fit the tool's schema and types."""

    name = "arguments"

    def check(self, case: Case) -> Denial | None:
        """Parse, coerce and validate; deny with every fault and its path."""
        tool = case.known_tool
        found = tool.check.read(case.source)
        if isinstance(found, Refused):
            return self._refuse(case, found)
        try:
            values = tool.body.build(found.given)
        except BuildError as error:
            return self._refuse(case, Refused(str(error), tool.check.hint))
        case.settle_arguments(found.given, found.filled, values, found.coercions)
        case.resources = tool.resources_of(found.filled)
        if not case.dry:
            case.turn.accept(case.tool_name)
        return None

    def _refuse(self, case: Case, refused: Refused) -> Denial:
        # An edit is a hook's or a person's fault, and must not count against the model.
        if case.source is case.call.arguments and not case.dry:
            case.turn.refuse(case.tool_name)
        return Denial(DeniedReason.VALIDATION, refused.details, refused.hint)
