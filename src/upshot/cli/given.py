"""Given: the answers that stand on a command line."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..contract import Answer, AnyAnswer, Approve, Deny, Edit
from ..errors import Misuse
from .editing import Editing
from .waiting import Waiting

__all__ = ["Given"]


@dataclass(frozen=True, kw_only=True)
class Given:
    """The answers that stand on a command line.

    Attributes:
        approve: Calls that may run, by id or number.
        approve_all: Whether all calls may run that no other answer names.
        always: How far a yes holds: "tool", "arguments" or "".
        deny: Calls that may not run.
        reason: What the model is told of them.
        edit: Calls that run with other arguments, as JSON.
        answer: Questions and their answers.
        by: Who answers, "" for the user.
    """

    approve: Sequence[str] = ()
    approve_all: bool = False
    always: Literal["", "tool", "arguments"] = ""
    deny: Sequence[str] = ()
    reason: str = ""
    edit: Sequence[tuple[str, str]] = ()
    answer: Sequence[tuple[str, str]] = ()
    by: str = ""

    def check(self) -> None:
        """Check that nothing stands there in vain.

        Raises:
            Misuse: Something does.
        """
        if self.always and not (self.approve or self.approve_all):
            raise Misuse("--always says how far a yes holds: it needs --approve ID or --all")
        if self.reason and not self.deny:
            raise Misuse("--reason is what the model is told of a no: it needs --deny ID")

    @property
    def who(self) -> str:
        """Who answers."""
        return self.by or _user()

    def read(self, waiting: Waiting, editing: Editing) -> list[AnyAnswer]:
        """The answers, one for each that is named; empty where none stands there.

        Raises:
            Misuse: One is for nothing that waits, for the other kind, does not fit, or is the
                second to something.
        """
        by = self.who
        given: list[AnyAnswer] = []
        for name in self.approve:
            given.append(Approve(waiting.call(name).id, always=self.always, by=by))
        for name in self.deny:
            given.append(Deny(waiting.call(name).id, self.reason, by=by))
        for name, text in self.edit:
            call = waiting.call(name)
            given.append(Edit(call.id, editing.read(text, call), by=by))
        for name, text in self.answer:
            given.append(Answer(waiting.question(name).id, text, by=by))
        answers: dict[str, AnyAnswer] = {}
        for one in given:
            id = one.id if isinstance(one, Answer) else one.call_id
            if id in answers:
                raise Misuse(f"{id} is answered twice")
            answers[id] = one
        if self.approve_all:
            self._approve_rest(answers, waiting, by)
        return list(answers.values())

    def _approve_rest(self, answers: dict[str, AnyAnswer], waiting: Waiting, by: str) -> None:
        if not waiting.calls and not answers:
            number = next(iter(waiting.items))
            raise Misuse(f"--all is for calls, and no call waits: give --answer {number} TEXT")
        for call in waiting.calls:
            answers.setdefault(call.id, Approve(call.id, always=self.always, by=by))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A process whose user has no name.
        return ""
