"""The text shown to a reader, without voided parts, compared with what the model said."""

from __future__ import annotations

from typing import Any

from tests.whole.case import ENGINES, Case, script_key
from upshot import AgentResult, ModelReplied, ModelRetried, ModelStarted, TextDelta


class ShownText:
    """The text of each reply that a reader is shown.

    Args:
        strange: Faults are appended here.
        lags: Whether the end of a reply may come before its last pieces, which are then dropped.
    """

    def __init__(self, strange: list[str], *, lags: bool = False) -> None:
        self._strange, self._lags = strange, lags
        self._said: dict[str, str] = {}

    def add(self, event: Any) -> None:
        """Read an event; at the end of a reply, the text shown must be the reply's."""
        match event:
            case ModelStarted(purpose="") | ModelRetried():
                self._said[event.run_id] = ""
            case TextDelta() if event.run_id in self._said:
                self._said[event.run_id] += event.text
            case ModelReplied(purpose=""):
                said, response = self._said.pop(event.run_id, ""), event.response
                is_whole = response.error is None or response.error.code == "content_filter"
                content = (response.content or "")[: len(said) if self._lags else None]
                if said and is_whole and said != content:
                    self._strange.append(f"shown was {said!r} of {response.content!r}")
            case _:
                pass


def fault_of_text(case: Case, text: str, result: AgentResult[Any]) -> str | None:
    """Return the fault of the whole *text* of a run that ended with *result*, or None."""
    if not (result.success and case.is_calm):
        return None
    # The text of an agent that a tool runs is not shown.
    agents = "a" if case.engine in ("tool", "agent") else ENGINES[case.engine]
    said = "\n\n".join(
        reply.text or reply.refusal
        for attempt in range(result.attempts)
        for agent in agents
        for reply in case.scripts[script_key(0, attempt, agent)]
    )
    return None if text == said else f"its text was {text!r}, and should be {said!r}"
