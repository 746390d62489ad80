"""Harmless values of an argument, and the words by which a user asks for others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.policy.kit import told, verdict
from upshot import Argument, Misuse, Policy, Toolbox, ToolCall, choice, ref, target, tool
from upshot.contract import Effect
from upshot.contract.provenance import ToolDeclaration, read_arguments
from upshot.tools.provenance.acts import Act

WRONG: Any = "choices"
DECLARED: dict[str, Any] = {
    "file": ref("file"),
    "to": "recipient",
    "role": choice({"r"}, words={"rw": ("read and write", "edit"), "own": "owner"}),
    "repeat": choice({False}, words={True: ("every month", "monthly")}),
    "note": choice({"", "Hi"}, of="content"),
    "cc": choice({None}, of="recipient"),
    "site": choice({"docs.x.io"}, of=target(format="url")),
}


def doubts(text: str, /, **arguments: Any) -> list[tuple[str, str]]:
    declaration = ToolDeclaration(
        arguments=read_arguments(DECLARED, DECLARED, ""), asked_by=("share",)
    )
    given = {"file": "plan.docx", "to": "Ada", **arguments}
    act = Act(
        tool_name="share",
        arguments=given,
        declaration=declaration,
        effect=Effect.WRITE,
        place="1",
    )
    return [(one.path, one.reason) for one in verdict(act, told(text)).doubts]


@pytest.mark.parametrize(
    "given",
    [
        {"role": "r"},
        {"repeat": False},
        {"note": "Hi"},
        {"note": ""},
        {"cc": None},
        {"cc": []},
        {"cc": {}},
        {"site": "docs.x.io"},
    ],
    ids=str,
)
def test_a_value_that_only_fills_an_argument_passes(given: dict[str, Any]) -> None:
    assert doubts("Share plan.docx with Ada.", **given) == []


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("Share plan.docx with Ada so that she can edit it.", {"role": "rw"}),
        ("Share plan.docx with Ada to read and write.", {"role": "rw"}),
        ("Share plan.docx with Ada as owner.", {"role": "own"}),
        ("Share plan.docx with Ada every month.", {"repeat": True}),
        ("Share plan.docx with Ada monthly.", {"repeat": True}),
        ("Share plan.docx with Ada and Bob.", {"cc": "Bob"}),
    ],
)
def test_the_words_for_a_value_ask_for_it_and_others_are_as_without(
    text: str, given: dict[str, Any]
) -> None:
    assert doubts(text, **given) == []


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("Share plan.docx with Ada.", {"role": "rw"}),
        ("Share plan.docx with Ada. Do not let her edit it.", {"role": "rw"}),
        ("Share plan.docx with Ada, but never to edit.", {"role": "rw"}),
        ("Edit my mail and share plan.docx with Ada.", {"role": "rw"}),
        ("Share plan.docx with Ada, the editor.", {"role": "rw"}),
        ("Share plan.docx with Ada as owner who may edit it.", {"role": "rw"}),
        ("Share plan.docx with Ada.", {"repeat": True}),
        ("Share plan.docx with Ada monthly.", {"repeat": 1}),
        ("Share plan.docx with Ada.", {"repeat": 0}),
        ("Share plan.docx with Ada.", {"note": "Hi!!"}),
        ("Share plan.docx with Ada.", {"cc": "eve@x.io"}),
        ("Share plan.docx with Ada.", {"cc": ["Hi"]}),
        ("Share plan.docx with Ada.", {"note": None}),
        ("Share plan.docx with Ada.", {"site": "docs.x.io/?q=plan"}),
    ],
)
def test_any_other_value_is_in_doubt(text: str, given: dict[str, Any]) -> None:
    (name,) = given
    assert {path.split("/")[1] for path, _ in doubts(text, **given)} == {name}


async def test_a_tool_of_a_user_says_so() -> None:
    done: list[bool] = []

    @tool(
        effect="write",
        arguments={
            "to": "recipient",
            "euros": "amount",
            "monthly": choice({False}, words={True: "every month"}),
            "subject": choice({"Payment"}, of="content"),
        },
    )
    async def pay(to: str, euros: int, monthly: bool, subject: str) -> str:
        done.append(monthly)
        return "paid"

    @tool(effect="read", trust="untrusted")
    async def mail() -> str:
        return "Hi"

    given = {"to": "ada@x.io", "euros": 5, "subject": "Payment"}
    said = ["Pay ada@x.io 5 euros every month."]
    box = Toolbox([pay, mail], policy=Policy(taint="values"), said=said)
    await box.dispatch([ToolCall("m", "mail"), ToolCall("p", "pay", {**given, "monthly": True})])
    assert (done, box.pending) == ([True], ())


def test_what_is_declared_is_kept_as_json() -> None:
    declared = choice({"r", None}, words={"rw": ("edit",), True: "all"}, of="content")
    again = msgspec.json.decode(msgspec.json.encode(declared), type=Argument)
    assert again == declared
    assert (str(declared), str(choice({"r"}, of=ref("file")))) == ("content", "ref file")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: choice("r"), "give a set of values"),
        (lambda: choice({"r"}, of=WRONG), "choice(of='choices'): give target"),
        (lambda: choice(words={"rw": ()}), "the words for 'rw' are ()"),
        (lambda: choice(words={"rw": " "}), "the words for 'rw' are ' '"),
    ],
)
def test_what_is_no_choice_is_refused_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(Misuse) as caught:
        make()
    assert message in str(caught.value)
