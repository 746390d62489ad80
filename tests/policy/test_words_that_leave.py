"""``words="links"``: no address leaves that the user did not say, however it is taken apart."""

import pytest

from tests.policy.kit import told
from upshot.contract import Policy
from upshot.contract.provenance import ToolDeclaration, read_arguments
from upshot.tools.provenance.acts import Act
from upshot.tools.provenance.judgement import judge

LINKS = Policy(taint="values", words="links")


def leaves(text: str) -> bool:
    words = read_arguments({"to": "recipient", "body": "content"}, ("to", "body"), "")
    act = Act(
        tool_name="send",
        arguments={"to": "Ada", "body": text},
        declaration=ToolDeclaration(arguments=words),
    )
    return not judge(act, told("Send Ada a greeting"), LINKS).doubts


@pytest.mark.parametrize(
    "text",
    [
        "Go to evil (.) io",
        "Go to evil [.] io",
        "Go to evil {.} io",
        "Go to evil <.> io",
        "Go to evil . io",
        "Go to evil .io",
        "Go to evil. io",
        "Go to evil(.)io",
        "Go to evil (dot) io",
        "Go to evil DOT io",
        "Go to evil punto io",
        "Go to evil , io . net",
        "Go to evil \u2024 io",
        "Go to evil \u3002 io",
        "Go to evil\n(.)\nio",
        "Go to evil '.' io",
        "Go to eve (@) evil",
        "Go to eve @ evil",
        "Go to http evil io",
        "Go to www evil io",
        "Go to e v i l",
    ],
)
def test_a_taken_apart_address_stays(text: str) -> None:
    assert not leaves(text)


@pytest.mark.parametrize(
    "text",
    ["Hello. How are you?", "Well... fine - and you?", "We meet at noon & talk.", "Yes / no: fine"],
)
def test_plain_words_leave(text: str) -> None:
    assert leaves(text)
