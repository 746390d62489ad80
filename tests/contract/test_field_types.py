"""A field of the wrong type is misuse where the value is made, so that every log can be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from upshot import (
    AgentCapabilities,
    AgentCard,
    Artifact,
    Audio,
    Checkpoint,
    File,
    FinalizeDecision,
    Image,
    Misuse,
    PendingExternal,
    PendingQuestion,
    ServerToolBlock,
    Skill,
    Text,
)

five = cast("Any", 5)
text = cast("Any", "x")


@pytest.mark.parametrize(
    "make",
    [
        lambda: FinalizeDecision.discard(cast("Any", None)),
        lambda: FinalizeDecision.revise(five),
        lambda: FinalizeDecision.keep_partial(five),
        lambda: FinalizeDecision.accept("", state=five),
        lambda: FinalizeDecision(verdict=text),
        lambda: Checkpoint("r", five),
        lambda: Checkpoint("r", "s", iteration=text),
        lambda: AgentCard(name="n", default_input_modes=text),
        lambda: AgentCard(name=five),
        lambda: AgentCard(name="n", skills=text),
        lambda: AgentCard(name="n", capabilities=five),
        lambda: AgentCapabilities(streaming=text),
        lambda: Skill(id="i", tags=text),
        lambda: PendingQuestion(id="q", question=cast("Any", None)),
        lambda: PendingQuestion(id="q", choices=cast("Any", [1, 2, 3])),
        lambda: PendingExternal(id=five),
        lambda: Text(cast("Any", None)),
        lambda: Text("x", citations=text),
        lambda: Image(media_type=five),
        lambda: Image(data=text),
        lambda: File(name=five),
        lambda: Audio(transcript=five),
        lambda: ServerToolBlock(provider=five),
        lambda: Artifact(five),
    ],
)
def test_a_field_of_the_wrong_type_is_misuse(make: Callable[[], object]) -> None:
    with pytest.raises(Misuse, match=r"expected|invalid"):
        make()
