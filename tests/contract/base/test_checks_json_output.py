"""Whether an output says more than the text beside it."""

from __future__ import annotations

from typing import Any

import pytest

from upshot.contract import Status
from upshot.contract.base.checks import has_own_output


class Mute:
    def __eq__(self, other: object) -> Any:
        raise RuntimeError("ask me not")

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@pytest.mark.parametrize(
    ("output", "content", "is_own"),
    [
        ("Hi.", "Hi.", False),
        (Status.FAILED, "failed", False),
        (None, "Hi.", False),
        (None, None, False),
        ("Hi.", None, True),
        ("Ho.", "Hi.", True),
        ("", None, True),
        (0, "0", True),
        ({"n": 1}, None, True),
        (Mute(), "Hi.", True),
    ],
)
def test_only_the_text_itself_and_nothing_are_no_output_of_their_own(
    output: object, content: str | None, is_own: bool
) -> None:
    assert has_own_output(output, content) is is_own
