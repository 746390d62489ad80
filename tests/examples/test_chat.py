"""The terminal chat, as a process that is typed at."""

from __future__ import annotations

import signal
import subprocess
from subprocess import PIPE
from typing import Any

from tests.examples.conftest import ROOT
from tests.processes import start_python

FILE = ROOT / "examples" / "chat" / "chat.py"


def chat() -> subprocess.Popen[str]:
    streams: Any = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE, "text": True}
    return start_python("-W", "error", FILE, **streams)


def read_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert any(word in line for line in process.stdout), f"it never said {word}"


def read_prompt(process: subprocess.Popen[str], prompt: str) -> str:
    assert process.stdout is not None
    shown = ""
    while prompt not in shown:
        piece = process.stdout.read(1)
        assert piece, f"it ended with {shown}"
        shown += piece
    return shown


def said(*lines: str) -> str:
    with chat() as process:
        out, err = process.communicate("".join(f"{line}\n" for line in lines))
    assert (process.returncode, err) == (0, "")
    return out


def test_it_is_short() -> None:
    assert len(FILE.read_text().splitlines()) < 60


def test_it_shows_tools_and_answers_and_remembers_what_was_said() -> None:
    out = said("Where is order 3?", "Please send it.", "y")
    assert "  . find_parcel {'order': 3}\n" in out
    assert '{"result":"on shelf 3"}' in out
    assert "  ? send_parcel {'order': 3} [y/N] y\n" in out
    assert "The parcel of order 3 is sent.\n" in out


def test_a_no_is_a_no() -> None:
    out = said("Send order 3.", "n")
    assert '"blocked":true' in out
    assert "The parcel of order 3 is still here." in out


def test_ctrl_c_stops_the_reply_and_not_the_chat() -> None:
    with chat() as process:
        assert process.stdin is not None
        process.stdin.write("Where is order 99?\n")
        process.stdin.flush()
        read_until(process, "find_parcel")
        process.send_signal(signal.SIGINT)
        read_until(process, "canceled")
        out, err = process.communicate("hello\n")
    assert (process.returncode, err) == (0, "")
    assert "Ask me where the parcel of an order is" in out


def test_ctrl_c_at_a_question_is_a_no_and_the_chat_goes_on() -> None:
    with chat() as process:
        assert process.stdin is not None
        process.stdin.write("Send order 3.\n")
        process.stdin.flush()
        read_prompt(process, "[y/N] ")
        process.send_signal(signal.SIGINT)
        # For a signal that came right before the reading began: it is read, and lost with it.
        process.stdin.write("y\n")
        process.stdin.flush()
        shown = read_prompt(process, "\n> ")
        out, err = process.communicate("hello\n")
    assert (process.returncode, err) == (0, "")
    assert "is sent" not in shown
    assert "Ask me where the parcel of an order is" in out


def test_the_end_of_the_input_leaves_the_shell_on_a_line_of_its_own() -> None:
    assert said().endswith("> \n")


def test_every_line_fits_80_columns() -> None:
    out = said("hello", "Where is order 3?", "Send it.", "n")
    assert max(map(len, out.splitlines())) <= 80
