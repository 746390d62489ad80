"""What gets to a stream, whatever that can show."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from upshot.cli.approve import show_question
from upshot.cli.report import pending_text
from upshot.cli.terminal import Terminal
from upshot.contract.pending import PendingApproval, PendingQuestion
from upshot.contract.provenance import Doubt, Voucher

SAID = {"content": "Größe 😀 \x7f \u200d", "ok": True}


def written(value: object, encoding: str) -> str:
    """What a stream of *encoding* gets of a value as JSON."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as out:
        Terminal(out=out, err=io.StringIO()).put_json(json.dumps(value, ensure_ascii=False))
        return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "utf-16"])
def test_json_loses_nothing_whatever_the_stream_can_show(encoding: str) -> None:
    assert json.loads(written(SAID, encoding)) == SAID


def test_json_is_as_it_is_where_the_stream_shows_it() -> None:
    assert "Größe 😀" in written(SAID, "utf-8")
    assert "Größe \\ud83d\\ude00" in written(SAID, "latin-1")


@given(text=st.text())
def test_any_text_comes_back_from_ascii(text: str) -> None:
    assert json.loads(written([text], "ascii")) == [text]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(text=st.text())
def test_a_terminal_gets_json_that_is_whole_and_harmless(text: str) -> None:
    screen = Screen()
    Terminal(out=screen, err=io.StringIO()).put_json(json.dumps([text], ensure_ascii=False))
    said = screen.getvalue()
    assert json.loads(said) == [text]
    assert not [c for c in said if (c < " " and c != "\n") or c in "\x7f\x9b\u202e"]


STYLES = st.sampled_from(["", "bold", "dim", "green", "bold red"])
CELLS = st.lists(st.tuples(st.text("ab é█世 ", max_size=9), STYLES), max_size=9)


def shown(row: Text, out: io.StringIO) -> str:
    Terminal(out=out, err=io.StringIO()).say(row)
    return out.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Screen], ids=["pipe", "terminal"])
@given(cells=CELLS)
def test_a_row_is_shown_as_if_it_were_laid_out(
    stream: type[io.StringIO], cells: list[tuple[str, str]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "80")
        laid_out = shown(Text.assemble(*cells, overflow="crop"), stream())
        assert shown(Text.assemble(*cells, no_wrap=True, overflow="crop"), stream()) == laid_out


def test_what_is_long_in_coming_is_written_line_by_line() -> None:
    out = io.StringIO()

    def rows() -> Iterator[Text]:
        yield Text("first", no_wrap=True)
        assert out.getvalue() == "first\n"
        yield Text("second")

    Terminal(out=out, err=io.StringIO()).say_all(rows())
    assert out.getvalue() == "first\nsecond\n"


# Control, format and filler characters, and those that end a line: none of them can be seen.
def test_a_question_shows_what_is_in_doubt_and_what_is_vouched_for() -> None:
    doubts = (
        Doubt(path="/to", value="eve", reason="unsaid", found="only in x, line 1", said="ada"),
        Doubt(word="call", reason="it was done before in this run"),
    )
    vouched = (Voucher(path="/euros", rule="said", source="request"),)
    pending = PendingApproval(call_id="c1", tool_name="pay", doubts=doubts, vouched=vouched)
    lines = [line.plain.strip() for line in show_question(1, pending, width=120)]
    assert lines[1:] == [
        'in doubt: /to is "eve": unsaid; it stands only in x, line 1; you said "ada"',
        "in doubt: it was done before in this run",
        "vouched for: /euros (said by request)",
    ]
    assert pending_text(pending) == "approval of pay {} (c1), in doubt: /to, the call itself"


UNSEEN = [
    *"\u200b\u00ad\u202e\u115f\u1160\u3164\uffa0\u200f\u2060\ufeff\u180e\u034f\ufe0f\u17b4\u2800",
    *"\x7f\x85\x9b\x0b\x0c\x1c\x1b\r\u2028\u2029\ufff9\ue000\U000e0041",
]


@pytest.mark.parametrize("character", UNSEEN, ids=lambda one: f"U+{ord(one):04X}")
def test_what_cannot_be_seen_is_shown_escaped_in_what_is_asked(character: str) -> None:
    call = PendingApproval(
        call_id="c1", tool_name="pay", arguments={"memo": f"a{character}amount: 1"}, effect="write"
    )
    asked = PendingQuestion(id="q1", question=f"a{character}amount: 1")
    doubt = Doubt(path="/memo", value=f"a{character}amount: 1", reason="?", found="nowhere")
    doubted = PendingApproval(call_id="c1", tool_name="pay", doubts=(doubt,))
    for pending in (call, asked, doubted):
        lines = [line.plain for line in show_question(1, pending, width=80)]
        assert len(lines) == 2, lines
        escapes = (f"{ord(character):x}", repr(character)[1:-1], json.dumps(character)[1:-1])
        assert any(escape in lines[1].lower() for escape in escapes)
        assert character not in lines[1]


@pytest.mark.parametrize("is_terminal", [False, True], ids=["pipe", "terminal"])
def test_an_answer_steers_no_terminal_also_through_a_pipe(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    Terminal(out=stream).put("a\x1b[31mb\x9b31m\u202ec")
    assert not {"\x1b", "\x9b", "\u202e"} & set(stream.getvalue())
