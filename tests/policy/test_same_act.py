"""The same act a second time asks, however it is spelt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policy.kit import asks, make, told, verdict

PAY = "Pay Ada 50 euros today"
SEND = "Send plan.docx, f7, to ada@x.io, Ada and Bob"
POST = "Post https://x.io/a/b x.io/a/b at 10:00 on 2026-11-23, tomorrow"

TWICE: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (PAY, "pay", {"to": "ada@x.io", "amount": 50}, {"to": "Ada", "amount": 50}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": "ada@x.io", "amount": 50}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": "Ada Lovelace", "amount": 50}),
    (PAY, "pay", {"to": "Lovelace", "amount": 50}, {"to": "ADA@X.IO", "amount": 50}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": ["Ada"], "amount": "50.00"}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": "Ada;", "amount": "50 euros"}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": "Ada <ada@x.io>", "amount": 50}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": "mailto:ada@x.io", "amount": 50}),
    (PAY, "pay", {"to": "Ada", "amount": 50}, {"to": "Ada", "amount": 50, "note": "x"}),
    (
        PAY,
        "pay",
        {"to": "Ada", "amount": 50, "on": "2026-11-22"},
        {"to": "Ada", "amount": 50, "on": "today"},
    ),
    (
        PAY,
        "pay",
        {"to": "Ada", "amount": 50, "on": "2026-11-22"},
        {"to": "Ada", "amount": 50, "on": "Nov 22, 2026"},
    ),
    (SEND, "send", {"to": ["ada@x.io", "Bob"]}, {"to": ["Bob", "Ada"]}),
    (SEND, "send", {"to": ["ada@x.io", "Bob"]}, {"to": "Ada"}),
    (SEND, "send", {"to": "Ada"}, {"to": "Bob; ada@x.io"}),
    (SEND, "send", {"to": "Ada"}, {"cc": "ada@x.io"}),
    (SEND, "send", {"to": "Ada", "files": ["f7"]}, {"to": "Ada", "files": ["plan.docx"]}),
    (SEND, "send", {"to": "Ada", "files": "f7"}, {"to": "Ada", "files": ["file f7"]}),
    (SEND, "delete", {"file": "f7"}, {"file": "plan.docx"}),
    (SEND, "delete", {"file": "plan.docx"}, {"file": "'plan.docx'"}),
    (POST, "post", {"url": "https://x.io/a/b"}, {"url": "https://x.io/a/b/"}),
    (POST, "post", {"url": "https://x.io/a/b"}, {"url": "https://x.io:443/a/b"}),
    (POST, "post", {"url": "https://x.io/a/b"}, {"url": "x.io/a/b"}),
    (POST, "post", {"url": "https://x.io/a/b"}, {"url": "http://X.io/a/b"}),
    (POST, "post", {"url": "https://x.io/a/b"}, {"url": "https://www.x.io/a/b"}),
    (
        POST,
        "post",
        {"url": "x.io/a/b", "at": "2026-11-23 10:00"},
        {"url": "x.io/a/b", "at": "2026-11-23T10:00:00Z"},
    ),
    (
        POST,
        "post",
        {"url": "x.io/a/b", "at": "2026-11-23 10:00"},
        {"url": "x.io/a/b", "at": "tomorrow at 10am"},
    ),
]


def reasons(facts: Any, act: Any) -> list[str]:
    return [one.reason for one in verdict(act, facts).doubts if not one.path]


@pytest.mark.parametrize(("text", "tool", "first", "second"), TWICE)
def test_one_act_in_two_spellings_is_done_once(
    text: str, tool: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    facts = told(text)
    facts.begin(make(tool, "1", **first))
    assert "it was done before in this run" in reasons(facts, make(tool, "2", **second))
    assert "it was done before in this run" not in reasons(facts, make(tool, "1", **second))
    # A child run knew the names, and its parent does not.
    parent = told(text, known=False)
    parent.acts = facts.acts
    assert "it was done before in this run" in reasons(parent, make(tool, "2", **second))


@pytest.mark.parametrize(
    "to",
    [
        ["ada@x.io", "ada@x.io"],
        ["ada@x.io", "Ada"],
        "ada@x.io; ada@x.io",
        "ada@x.io, ADA@x.io",
        ["Ada", "Ada Lovelace"],
        ["ada@x.io", "Bob", "Ada"],
        "ada@x.io;ada@x.io",
    ],
)
def test_nobody_may_be_in_a_list_twice(to: Any) -> None:
    assert "it names the same one twice" in reasons(told(SEND), make("send", to=to))


def test_nor_in_two_lists_nor_may_a_file() -> None:
    facts = told(SEND)
    assert "it names the same one twice" in reasons(facts, make("send", to="Ada", cc="ada@x.io"))
    both = make("send", to="Ada", files=["f7", "plan.docx"])
    assert "it names the same one twice" in reasons(facts, both)


def test_another_act_is_no_second_one() -> None:
    facts = told("Pay Ada 50 and Bob 50")
    facts.begin(make("pay", "1", to="Ada", amount=50))
    assert not asks(make("pay", "2", to="Bob", amount=50), facts)
    facts.drop(make("pay", "1", to="Ada", amount=50))
    assert not asks(make("pay", "3", to="ada@x.io", amount=50), facts)
