"""The lab from the command line: from a bad run to a check that fails."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command

DESK = '''\
from pathlib import Path

import upshot

BOOK = Path("book.txt")


@upshot.tool(effect="write")
def refund(cents: int) -> str:
    """Refund."""
    BOOK.write_text((BOOK.read_text() if BOOK.exists() else "") + "x")
    return "refunded"


def reply(messages):
    done = any(one.tool_call_id for one in messages)
    return "Done." if done else upshot.ToolCall("r", "refund", {"cents": CENTS})


CENTS = 5
agent = upshot.Agent("desk", model=upshot.ScriptedModel(reply), tools=[refund])
'''


def test_from_past_runs_to_a_check_that_fails(command: Command, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "desk_new.py").write_text(DESK.replace("CENTS = 5", "CENTS = 500"), "utf-8")
    for number in (1, 2):
        command("run", "desk.py", f"Refund {number}.", "--journal", "runs.db")
    book = (tmp_path / "book.txt").read_text("utf-8")
    code, out, _ = command("lab", "collect", "bad.jsonl", "--journal", "runs.db")
    assert (code, "bad.jsonl: 2 cases" in out) == (0, True)
    options = ("--fail-if", "effects.new > 0", "--html", "page.html", "--report", "report.json")
    code, out, err = command("lab", "run", "bad.jsonl", "desk.py", *options)
    assert (code, "same_effects" in out) == (0, True), err
    assert "read from" not in err
    code, out, err = command("lab", "run", "bad.jsonl", "desk.py", *options)
    assert (code, "of 2 runs, 2 were read from lab.db" in err) == (0, True), err
    more = ("--against", "desk_new.py")
    code, out, err = command("lab", "run", "bad.jsonl", "desk.py", *more, *options)
    assert code == 1
    assert "desk_new would have made 2 writes that the record does not have, in 2 cases" in out
    assert "desk_new: effects.new > 0" in err
    assert (tmp_path / "book.txt").read_text("utf-8") == book
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["cases"] == 2
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "refund" in page and "http" not in page.replace("httpequiv", "")


def test_mistakes_are_said_in_one_sentence(command: Command, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "none.jsonl").write_text("{}\n", "utf-8")
    command("run", "desk.py", "Refund.", "--journal", "runs.db")
    command("lab", "collect", "one.jsonl", "--journal", "runs.db")
    trial, runs = ("lab", "run", "one.jsonl", "desk.py"), ("--journal", "runs.db")
    said = {
        ("lab", "export", "gone.json", "--inspect", "logs"): "gone.json cannot be read",
        ("lab", "from-inspect", "x.eval", "gone/x.jsonl"): "there is no folder",
        ("lab", "collect", "x.jsonl", "--since", "soon"): "--since",
        ("lab", "collect", "x.jsonl", "--min-cost", "-1"): "--min-cost",
        ("lab", "collect", "x.jsonl", "--secrets", "gone.txt", *runs): "gone.txt cannot be read",
        ("lab", "collect", "x.jsonl", "--effect", "bad", *runs): "effect",
        (*trial, "--secrets", "gone.txt"): "gone.txt cannot be read",
        (*trial, "--unseen", "simulated"): "simulated tools need simulator=",
        (*trial, "--tools", "simulated", "--simulator", "desk.py:none"): "has no 'none'",
        (*trial, "--simulator", "openai:gpt-5"): "simulator= needs tools='simulated'",
        ("lab", "run", "none.jsonl", "desk.py"): "cannot be read as a dataset",
        ("lab", "run", "gone.jsonl", "desk.py"): "cannot be read as a dataset",
        ("lab", "collect", "x.jsonl", "--agent", "other", "--journal", "runs.db"): "no run fits",
        (*trial, "--fail-if", ""): "--fail-if is empty",
        (*trial, "--html", "."): ". is a folder: give the name of a file",
        (*trial, "--report", "."): ". is a folder",
        ("lab", "collect", ".", *runs): ". is a folder",
        ("lab", "run", "none.jsonl", "desk.py", "--fail-if", "efects.new > 0"): "efects",
        ("lab", "run", "none.jsonl", "desk.py", "--fail-if", "effects.nw > 0"): "effects.new",
        ("lab", "run", "none.jsonl", "desk.py", "--html", "gone/x.html"): "there is no folder",
        ("lab", "collect", "gone/x.jsonl", "--journal", "runs.db"): "there is no folder",
    }
    for arguments, words in said.items():
        code, _, err = command(*arguments)
        assert (code, words in err) == (2, True), (arguments, err)
    assert not (tmp_path / "lab.db").exists()


def test_a_report_that_cannot_be_written_is_a_mistake(command: Command, tmp_path: Path) -> None:
    # The scorer makes a folder of the file's name, after the check at the start.
    spoils = "from pathlib import Path\n\n\ndef spoil(case, result):\n"
    spoils += "    Path('page.html').mkdir(exist_ok=True)\n\n\nscorers = [spoil]\n"
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "spoil.py").write_text(spoils, "utf-8")
    command("run", "desk.py", "Refund.", "--journal", "runs.db")
    command("lab", "collect", "one.jsonl", "--journal", "runs.db")
    options = ("--scorers", "spoil.py", "--html", "page.html")
    code, out, err = command("lab", "run", "one.jsonl", "desk.py", *options)
    assert (code, "same_effects" in out) == (2, True)
    assert "page.html cannot be written: Is a directory" in err


def test_a_condition_may_name_one_of_several_scores(command: Command, tmp_path: Path) -> None:
    both = "def both(case, result):\n    return {'a': 1, 'b': 0}\n\n\nscorers = [both]\n"
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "both.py").write_text(both, "utf-8")
    command("run", "desk.py", "Refund.", "--journal", "runs.db")
    command("lab", "collect", "one.jsonl", "--journal", "runs.db")
    trial = ("lab", "run", "one.jsonl", "desk.py", "--scorers", "both.py", "--fail-if")
    assert command(*trial, "score.both_a > 0.0")[0] == 1
    assert command(*trial, "score.both_b > 0.0")[0] == 0
    code, _, err = command(*trial, "score.bot_b > 0.0")
    assert (code, "score.both" in err) == (2, True)


def test_a_function_of_a_file_answers_calls(command: Command, tmp_path: Path) -> None:
    new = DESK.replace("CENTS = 5", "CENTS = 500") + "\n\ndef pay(call):\n    return 'paid'\n"
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "desk_new.py").write_text(new, "utf-8")
    command("run", "desk.py", "Refund.", "--journal", "runs.db")
    command("lab", "collect", "one.jsonl", "--journal", "runs.db")
    options = ("--unseen", "simulated", "--simulator", "desk_new.py:pay")
    code, out, err = command("lab", "run", "one.jsonl", "desk_new.py", *options)
    assert (code, "a simulator answered 1 call of desk_new: refund 1" in out) == (0, True), err


def test_the_options_of_collect_choose_and_mask(command: Command, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, "utf-8")
    (tmp_path / "secrets.txt").write_text("ann@example.com\n", "utf-8")
    for text in ("Refund ann@example.com.", "Refund bob."):
        command("run", "desk.py", text, "--journal", "runs.db")
    options = ("--since", "2020-01-01", "--effect", "applied", "--text", "ann", "--seed", "3")
    masks = ("--secrets", "secrets.txt", "--journal", "runs.db", "--json")
    code, out, err = command("lab", "collect", "x.jsonl", *options, *masks)
    assert (code, json.loads(out)["cases"]) == (0, 1), err
    text = (tmp_path / "x.jsonl").read_text("utf-8")
    assert "Refund ***." in text and "ann@" not in text
    code, _, err = command("lab", "collect", "x.jsonl", "--min-cost", "1", "--journal", "runs.db")
    assert (code, "no run fits" in err) == (2, True)
