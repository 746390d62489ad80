"""ResultView: a result as the flat contract has it, a real dict, and as itself."""

from __future__ import annotations

from typing import Any

from .result import AgentResult
from .value import Json
from .views import to_contract

__all__ = ["ResultView"]


class ResultView(dict[str, Json]):
    """A dict equal to ``to_contract(result)``, whose attributes are the result's.

    So code that asks ``isinstance(output, dict)`` and reads ``output.get("error")`` works, and
    so does ``output.error.code``. Changing the dict does not change the result.

    Args:
        result: The whole result, of a success or a failure.

    Attributes:
        result: The same.
    """

    __slots__ = ("result",)

    def __init__(self, result: AgentResult[Any]) -> None:
        super().__init__(to_contract(result))
        self.result: AgentResult[Any] = result

    def __getattr__(self, name: str) -> Any:
        # Only asked for what a dict has not; without a result yet there is nothing to ask.
        if name == "result":
            raise AttributeError(name)
        return getattr(self.result, name)

    def __reduce__(self) -> tuple[type[ResultView], tuple[AgentResult[Any]], None, None, Any]:
        return type(self), (self.result,), None, None, iter(self.items())

    def __repr__(self) -> str:
        return f"ResultView({super().__repr__()})"
