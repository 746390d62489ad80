"""The effects of a journal are listed, the unknown ones first, and settled by key or id."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from upshot import Agent, Request, ScriptedModel, ToolCall, open_journal, run, tool

JOURNAL = ("--journal", "runs.db")


@tool(effect="write", once="order_id", may_differ="cents")
async def refund(order_id: str, cents: int = 1) -> str:
    """Refund an order."""
    if order_id != "1":
        raise TimeoutError("the bank did not answer")
    return "re_1"


@tool(effect="write", once="order_id")
async def ship(order_id: str) -> str:
    """Ship an order."""
    raise TimeoutError("the warehouse did not answer")


@pytest.fixture
def made(tmp_path: Path, command: Command) -> Command:
    """A journal with one effect that was made, and three of which nobody knows."""

    async def make() -> None:
        async with open_journal("runs.db") as journal:
            for name, order in (("refund", "1"), ("refund", "7"), ("refund", "8"), ("ship", "8")):
                script = [ToolCall(f"c-{name}-{order}", name, {"order_id": order}), "Done."]
                agent = Agent("desk", model=ScriptedModel(script), tools=[refund, ship])
                await run(agent, Request("Go.", run_id=f"run-{name}-{order}"), journal=journal)

    asyncio.run(make())
    return command


def listed(made: Command, *options: str) -> list[dict[str, Any]]:
    code, out, err = made("effects", *JOURNAL, "--json", *options)
    assert code == 0, err
    return json.loads(out)


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [f"{one['name']} {json.loads(one['key'])['order_id']}" for one in entries]


def test_the_unknown_ones_come_first_with_their_age(
    made: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = made("effects", *JOURNAL)
    heading, *rows = out.splitlines()
    assert code == 0
    assert " ".join(heading.split()) == "id state effect run call started (UTC) settled"
    assert ["unknown for" in row for row in rows] == [True, True, True, False]
    assert 'refund {"order_id":"1"} run-refund-1 c-refund-1' in rows[-1]
    first = listed(made)[0]["id"][:8]
    assert rows[0].startswith(first)
    assert f"upshot effects settle {first} --applied --journal runs.db" in err


def test_a_narrow_terminal_has_two_lines_for_each(
    made: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    heading, *rows = made("effects", *JOURNAL)[1].splitlines()
    assert heading.split() == ["id", "state", "effect"]
    assert rows[-2].split()[1:] == ["applied", "refund", '{"order_id":"1"}']
    assert rows[-1].startswith("  run-refund-1, c-refund-1, 20")
    assert len(rows) == 8


def test_filters(made: Command) -> None:
    assert names(listed(made)) == ["ship 8", "refund 8", "refund 7", "refund 1"]
    assert names(listed(made, "--unknown")) == ["ship 8", "refund 8", "refund 7"]
    assert names(listed(made, "--tool", "ship")) == ["ship 8"]
    assert names(listed(made, "--key", "8")) == ["ship 8", "refund 8"]
    assert names(listed(made, "--key", '{"order_id":"7"}')) == ["refund 7"]
    assert names(listed(made, "--run", "refund-7")) == ["refund 7"]
    assert names(listed(made, "--run", "last")) == ["ship 8"]
    assert names(listed(made, "--limit", "1")) == ["ship 8"]
    assert names(listed(made, "--limit", "0")) == names(listed(made))


def test_a_limit_says_that_there_are_more(made: Command) -> None:
    assert "there are more" in made("effects", *JOURNAL, "--limit", "2")[2]
    assert "there are more" not in made("effects", *JOURNAL, "--limit", "4")[2]


def test_several_are_settled_at_once(made: Command) -> None:
    ids = [one["id"] for one in listed(made, "--unknown")]
    code, out, _ = made("effects", "settle", *ids, "--applied", "--json", *JOURNAL)
    assert (code, [one["id"] for one in json.loads(out)]) == (0, ids)
    assert listed(made, "--unknown") == []
    code, _, err = made("effects", "settle", *ids, "--none", *JOURNAL)
    assert (code, err.count("the first answer counts")) == (1, 3)


@pytest.mark.parametrize("wanted", ["7", '{"order_id":"7"}', "id", "short id"])
def test_settled_by_key_or_id(made: Command, wanted: str) -> None:
    (entry,) = listed(made, "--key", "7")
    named = {"id": entry["id"], "short id": entry["id"][:8]}.get(wanted, wanted)
    note = ("--note", "re_7 at the bank")
    code, out, _ = made("effects", "settle", named, "--applied", "--by", "ann", *note, *JOURNAL)
    assert code == 0
    assert out == 'refund {"order_id":"7"} was settled as applied by ann: re_7 at the bank\n'
    (known,) = listed(made, "--key", "7")
    assert known["state"] == "applied"
    assert (known["settled"]["by"], known["settled"]["note"]) == ("ann", "re_7 at the bank")
    assert "by ann: re_7 at the bank" in made("effects", *JOURNAL, "--key", "7")[1]


def test_the_first_answer_counts(made: Command) -> None:
    assert made("effects", "settle", "7", "--none", "--by", "ann", *JOURNAL)[0] == 0
    code, out, err = made("effects", "settle", "7", "--applied", "--by", "sue", *JOURNAL)
    assert (code, out) == (1, 'refund {"order_id":"7"} was settled as none by ann\n')
    assert "the first answer counts" in err


def test_settled_by_the_user_unless_another_one_is_named(
    made: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "kim")
    _, out, _ = made("effects", "settle", "7", "--none", "--json", *JOURNAL)
    assert json.loads(out)["settled"]["by"] == "kim"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("7",), "give one of --applied and --none"),
        (("7", "--applied", "--none"), "give one of --applied and --none"),
        (("9", "--applied"), "the journal has no unknown effect '9'"),
        (("", "--applied"), "the journal has no unknown effect ''"),
        (("8", "--applied"), "several effects match '8'"),
        (("1", "--applied"), "its call says applied; only an unknown one can"),
    ],
)
def test_mistakes_are_one_sentence(made: Command, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = made("effects", "settle", *arguments, *JOURNAL)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert len(listed(made, "--unknown")) == 3


def test_nothing_to_list(made: Command) -> None:
    assert made("effects", "--tool", "mail", *JOURNAL)[2] == "there are no such effects\n"
    assert made("effects", "--tool", "mail", "--unknown", *JOURNAL)[2] == "no effect is unknown\n"


def exported(made: Command, *options: str) -> list[str]:
    code, out, err = made("effects", "export", *JOURNAL, *options)
    assert code == 0, err
    return out.splitlines(keepends=True)


def test_receipts_are_printed_and_found_whole(made: Command, tmp_path: Path) -> None:
    lines = exported(made, "--anchor", "head.txt")
    asked, *effects, head = map(json.loads, lines)
    assert asked["receipts"] == 1 and len(effects) == head["count"] == 4
    Path("file.jsonl").write_text("".join(lines))
    for anchor in ((), ("--anchor", "head.txt")):
        code, out, _ = made("effects", "export", "--verify", "file.jsonl", *anchor)
        assert (code, head["head"] in out) == (0, True)


def test_receipts_that_were_made_anew_are_not_those_of_the_anchor(made: Command) -> None:
    exported(made, "--anchor", "head.txt")
    made("effects", "settle", "7", "--applied", *JOURNAL)
    Path("file.jsonl").write_text("".join(exported(made)))
    code, _, err = made("effects", "export", "--verify", "file.jsonl", "--anchor", "head.txt")
    assert code == 1 and "head.txt has another head" in err


def test_a_receipt_that_was_changed_is_named(made: Command) -> None:
    lines = exported(made)
    lines[2] = lines[2].replace('"unknown"', '"applied"').replace('"applied"', '"none"', 1)
    Path("file.jsonl").write_text("".join(lines))
    code, _, err = made("effects", "export", "--verify", "file.jsonl")
    assert code == 1 and "file.jsonl: line 3 was changed" in err


def test_receipts_begin_with_a_day(made: Command) -> None:
    assert len(exported(made, "--since", "2020-01-01")) == 6
    assert len(exported(made, "--since", "2999-01-01")) == 2
    code, _, err = made("effects", "export", "--since", "monday", *JOURNAL)
    assert code == 2 and "--since is 'monday': give a moment such as" in err


def test_a_file_that_is_not_there_is_named(made: Command) -> None:
    code, _, err = made("effects", "export", "--verify", "none.jsonl")
    assert code == 2 and "--verify none.jsonl cannot be used: No such file or directory" in err
    code, _, err = made("effects", "export", "--verify", "none.jsonl", "--since", "2020-01-01")
    assert code == 2 and "exclude each other" in err


def test_a_run_that_met_an_effect_says_whose_it_was(made: Command) -> None:
    async def ask_again() -> None:
        script = [ToolCall("again", "refund", {"order_id": "1"}), "Done."]
        agent = Agent("desk", model=ScriptedModel(script), tools=[refund])
        await run(agent, Request("Go.", run_id="run-again"), journal="runs.db")

    asyncio.run(ask_again())
    _, out, _ = made("show", "run-again", *JOURNAL)
    assert "made before" in out and "by call c-refund-1 of run-refund-1" in out


DESK = """
from upshot import Agent, App, Lookup, ScriptedModel, tool

@tool(effect="write", verify=Lookup("made", {"order": "{order_id}"}, found="order == '7'"))
def refund(order_id: str, cents: int = 1) -> str: ...

@tool(effect="read")
def made(order: str) -> dict[str, str]:
    if order == "9":
        raise TimeoutError("the bank is closed")
    return {"order": order}

app = App([Agent("desk", model=ScriptedModel([]), tools=[refund, made])])
"""


def test_checked_by_the_tools_of_an_app(made: Command, tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK)
    code, out, err = made("effects", "check", "7", "desk.py", *JOURNAL)
    assert (code, out) == (0, 'refund {"order_id":"7"} is applied by verify\n')
    assert err == 'verify says that it happened.\nseen: {"order":"7"}\n'
    assert names(listed(made, "--unknown")) == ["ship 8", "refund 8"]
    # What no tool of the App can tell stays unknown.
    entry = next(one["id"] for one in listed(made) if one["name"] == "ship")
    code, out, err = made("effects", "check", entry, "desk.py", *JOURNAL, "--json")
    assert code == 1
    assert json.loads(out)["said"] == "No tool of the App has a verify for it."
    code, _, err = made("effects", "check", "9", "desk.py", *JOURNAL)
    assert code == 2
    assert "the journal has no unknown effect '9'" in err
