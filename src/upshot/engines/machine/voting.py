"""Counting the answers of a state that is worked on several times until one answer leads.

The rule is "first to lead by k": a state asks until its most frequent answer is *lead* votes ahead
of the next one. That finds a likelier answer than a fixed number of votes, with fewer of them. Each
round asks only as often as could decide it, so which answers are counted does not depend on which
comes first, and a resumed run decides the same.
"""

from __future__ import annotations

import json
from collections import Counter

from upshot.contract.base.structs import Json

_SHOWN_CHARS = 40


class Tally:
    """The votes so far.

    Args:
        lead: By how many votes an answer must lead, from 1.
    """

    def __init__(self, lead: int) -> None:
        self._lead = lead
        # In the order of the first vote for each, by which equals are ranked.
        self._votes = Counter[str]()

    def add(self, value: Json) -> None:
        """Count a vote; values with equal JSON are equal, whatever the order of their keys."""
        self._votes[_key_of(value)] += 1

    @property
    def needed(self) -> int:
        """How many more votes could decide it at the earliest; 0 if it is decided."""
        ranked = self._votes.most_common(2)
        first = ranked[0][1] if ranked else 0
        second = ranked[1][1] if len(ranked) > 1 else 0
        return max(0, self._lead - (first - second))

    def is_leading(self, value: Json) -> bool:
        """Whether *value* has the most votes; of equals, the earliest leads."""
        return self._votes.most_common(1)[0][0] == _key_of(value)

    def __str__(self) -> str:
        return ", ".join(f"{count} for {key[:_SHOWN_CHARS]}" for key, count in self._votes.items())


def _key_of(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
