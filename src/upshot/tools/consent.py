"""Consent: what people said of calls for good."""

from __future__ import annotations

from ..contract import ApprovalRecord, ToolRecord

__all__ = ["Consent"]


class Consent:
    """What people have refused, and what they let run always.

    It outlives turns, and is built anew from records when a run goes on.
    """

    def __init__(self) -> None:
        self._refused: dict[str, ApprovalRecord] = {}
        self._granted: dict[str, ApprovalRecord] = {}

    def learn(self, approval: ApprovalRecord, *, tool_name: str, tool_version: str) -> None:
        """Keep what of an answer is for good.

        Args:
            approval: The answer; yes or no, it holds within its scope.
            tool_name: The tool of the call.
            tool_version: Its version; a yes for the tool does not hold for another one.
        """
        if approval.decision == "denied":
            if approval.scope:
                self._refused[approval.digest] = approval
        elif approval.scope == "arguments":
            self._granted[approval.digest] = approval
        elif approval.scope == "tool":
            self._granted[_key_of_tool(tool_name, tool_version)] = approval

    def learn_record(self, record: ToolRecord) -> None:
        """Keep what the record of an earlier call says."""
        if record.approval is not None:
            self.learn(
                record.approval, tool_name=record.tool_name, tool_version=record.tool_version
            )

    @property
    def is_empty(self) -> bool:
        """Whether nobody has said anything yet."""
        return not self._refused and not self._granted

    def refusal(self, digest: str) -> str:
        """What a person said when refusing the very same call, "" where nobody did."""
        refused = self._refused.get(digest)
        return "" if refused is None else refused.reason or "it was not approved"

    def grant(
        self, digest: str, *, tool_name: str, tool_version: str, distrusted: bool
    ) -> ApprovalRecord | None:
        """The standing yes that covers a call, None where there is none.

        Args:
            digest: Of the call.
            tool_name: Its tool.
            tool_version: The tool's version.
            distrusted: Whether it is asked about because of untrusted results. A yes for any
                arguments was not meant for those that strangers may have chosen.
        """
        found = self._granted.get(digest)
        if found is None and not distrusted:
            found = self._granted.get(_key_of_tool(tool_name, tool_version))
        return found


def _key_of_tool(name: str, version: str) -> str:
    return f"{name}\n{version}"
