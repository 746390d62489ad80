"""Text as it comes, beside what else is told."""

from __future__ import annotations

import io

import pytest

from tests.cli.made_up import began_call, stamped
from upshot.cli.running import TextStream
from upshot.cli.terminal import Terminal
from upshot.contract import (
    AttemptEnded,
    AttemptLine,
    Event,
    ModelReplied,
    ModelResponse,
    ModelRetried,
    RunInterrupted,
    Status,
    TextDelta,
    ToolProgress,
)
from upshot.runs.services.hooks import refusal_error


class Tty(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def streamed(event: Event, *, tty: bool) -> str:
    """What stands on stdout after a text, another event and a text."""
    kind = Tty if tty else io.StringIO
    out = kind()
    stream = TextStream(Terminal(out=out, err=kind()))
    for one in stamped([(0, TextDelta(text="one")), (0, event), (0, TextDelta(text="two"))]):
        stream.add(one)
    return out.getvalue()


@pytest.mark.parametrize(
    ("event", "tty", "said"),
    [
        (RunInterrupted(), True, "one\ntwo"),
        (RunInterrupted(), False, "onetwo"),
        (ToolProgress(call_id="c", text="half"), True, "onetwo"),
        (began_call("c"), False, "one\ntwo"),
    ],
    ids=["told beside it", "told elsewhere", "told by nobody", "another part of the answer"],
)
def test_text_ends_its_line_before_something_else_is_told(
    event: Event, tty: bool, said: str
) -> None:
    assert streamed(event, tty=tty) == said


def test_text_that_is_void_is_said_to_be_so() -> None:
    out, err = io.StringIO(), io.StringIO()
    stream = TextStream(Terminal(out=out, err=err))
    cut = (0, TextDelta(text="Half")), (0, ModelRetried(turn=1))
    for one in stamped([*cut, (0, ModelRetried(turn=1))]):
        stream.add(one)
    # What comes whole now is printed at the end.
    assert not stream.wrote
    assert (out.getvalue(), err.getvalue().count("is void")) == ("Half\n", 1)


@pytest.mark.parametrize("tty", [False, True])
def test_text_that_a_guardrail_refused_is_said_to_be_void(*, tty: bool) -> None:
    kind = Tty if tty else io.StringIO
    out, err = kind(), kind()
    stream = TextStream(Terminal(out=out, err=err))
    error = refusal_error("polite", "answer", "it is rude")
    line = AttemptLine(status=Status.FAILED, error=error)
    replied = ModelReplied(turn=1, response=ModelResponse(content="You fool."))
    said = (0, TextDelta(text="You fool.")), (0, replied)
    for one in stamped([*said, (0, AttemptEnded(line=line))]):
        stream.add(one)
    assert not stream.wrote
    assert (out.getvalue(), err.getvalue().count("is void")) == ("You fool.\n", 1)
