"""Waiting: what a run waits for, by number, by id or by the beginning of one."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract import Pending, PendingApproval
from ..errors import Misuse
from ..runs.kin import bare_id
from .figures import clean
from .story import Story

__all__ = ["Waiting"]


class Waiting:
    """What a run waits for, each with its number in that run, which no answer shifts.

    Args:
        story: The run.

    Attributes:
        items: They, by number, in the order in which they were asked.
    """

    def __init__(self, story: Story) -> None:
        self._numbers = story.numbers
        open_ = [one for one in story.pending if _key(one) not in story.answered]
        numbered = {self._numbers[_key(one)]: one for one in open_}
        self.items: dict[int, Pending] = dict(sorted(numbered.items()))

    @property
    def calls(self) -> list[PendingApproval]:
        """Those that are calls."""
        return [one for one in self.items.values() if isinstance(one, PendingApproval)]

    def call(self, name: str) -> PendingApproval:
        """The call that *name* names.

        Raises:
            Misuse: Nothing or several are called so, or it is a question.
        """
        number, found = self._find(name)
        if isinstance(found, PendingApproval):
            return found
        raise Misuse(f"{_described(number, found)} is a question: give --answer {number} TEXT")

    def question(self, name: str) -> Pending:
        """The question that *name* names.

        Raises:
            Misuse: Nothing or several are called so, or it is a call.
        """
        number, found = self._find(name)
        if not isinstance(found, PendingApproval):
            return found
        raise Misuse(
            f"{_described(number, found)} is a call: give --approve {number}, --deny {number} or "
            f"--edit {number} JSON"
        )

    def _find(self, name: str) -> tuple[int, Pending]:
        for number, one in self.items.items():
            if one.id == name:
                return number, one
        listed = ", ".join(self._listed([*self.items]))
        if name.isdecimal() and int(name) in self._numbers.values():
            number = int(name)
            if number in self.items:
                return number, self.items[number]
            raise Misuse(f"{number} is answered already: what waits is {listed}")
        begun = [n for n, one in self.items.items() if name and one.id.startswith(name)]
        if len(begun) > 1:
            raise Misuse(f"several that wait begin with {name}: {', '.join(self._listed(begun))}")
        if not begun:
            raise Misuse(f"nothing that waits is called {name}: there is {listed}")
        return begun[0], self.items[begun[0]]

    def _listed(self, numbers: Sequence[int]) -> list[str]:
        return [_described(number, self.items[number]) for number in numbers]


def _key(pending: Pending) -> tuple[str, str]:
    return pending.run_id, bare_id(pending)


def _described(number: int, pending: Pending) -> str:
    tool = f"{pending.tool_name}, " if isinstance(pending, PendingApproval) else ""
    return f"{number} ({clean(tool + pending.id, 60)})"
