"""Policy: what its fields take."""

import re
from typing import Any

import pytest

from upshot.contract import Effect, Policy
from upshot.errors import Misuse


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"network": "no"}, "network"),
        ({"network": None}, "network"),
        ({"taint": 1}, "taint"),
        ({"taint": "maybe"}, "taint"),
        ({"approval_expires_s": "5"}, "approval_expires_s"),
        ({"approval_expires_s": True}, "approval_expires_s"),
        ({"approval_expires_s": -1}, "approval_expires_s"),
        ({"allow": "mail"}, "allow is 'mail': give a list"),
        ({"deny": [5]}, "deny contains 5"),
        ({"deny": None}, "deny is None"),
        ({"nework": False}, "Policy has no field 'nework': did you mean 'network'?"),
    ],
    ids=str,
)
def test_what_is_of_another_type_or_misspelt_is_misuse(fields: Any, said: str) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        Policy(**fields)


def test_rules_are_kept_as_they_are_written() -> None:
    rules: Any = ["a.*", Effect.READ]
    assert Policy(allow=rules, approval_expires_s=5).allow == ("a.*", "effect:read")


def test_a_policy_asks_after_untrusted_words_unless_it_says_otherwise() -> None:
    assert (Policy().taint, Policy(taint=True).taint, Policy(taint=False).taint) == (
        *("ask", "ask"),
        "off",
    )
