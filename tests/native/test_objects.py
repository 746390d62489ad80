"""Reading foreign objects by attribute or key."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace

import pytest

from upshot.native.objects import (
    as_amount,
    as_arguments,
    as_count,
    as_items,
    as_json,
    as_moment,
    as_object,
    as_text,
    look_up,
)

# Not a StrEnum: str() of such a member is its name, and not what it says.
Role = Enum("Role", {"USER": "user"}, type=str)


class Hostile:
    @property
    def answer(self):
        raise RuntimeError("not yet")

    def __str__(self):
        raise RuntimeError("no words")


def test_attributes_and_keys_are_read_alike():
    assert look_up(SimpleNamespace(a={"b": SimpleNamespace(c=1)}), "a", "b", "c") == 1
    assert look_up({"a": SimpleNamespace(b={"c": 1})}, "a", "b", "c") == 1


def test_a_path_that_leads_nowhere_gives_none():
    assert look_up({"a": 1}, "b", "c") is None
    assert look_up(None, "a") is None


def test_a_property_that_raises_says_nothing():
    assert look_up(Hostile(), "answer") is None


def test_a_property_that_warns_says_nothing():
    class Old:
        @property
        def steps(self):
            raise FutureWarning("deprecated")

    assert look_up(Old(), "steps") is None


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (Role.USER, "user"), (1, ""), (None, ""), ("\ud800", "\ufffd")]
)
def test_only_text_is_text(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (3, 3),
        (3.0, 3),
        (0, 0),
        (-1, None),
        (1.5, None),
        (True, None),
        ("3", None),
        (float("nan"), None),
        (float("inf"), None),
        (2**70, None),
    ],
)
def test_only_whole_numbers_are_counts(value, count):
    assert as_count(value) == count


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (0.1, Decimal("0.1")),
        (Decimal("1.5"), Decimal("1.5")),
        (0, Decimal(0)),
        (-1, None),
        (True, None),
        ("1", None),
        (float("nan"), None),
        (1e40, None),
    ],
)
def test_only_plausible_numbers_are_money(value, amount):
    assert as_amount(value) == amount


def test_only_lists_and_tuples_have_items():
    assert as_items((1, 2)) == [1, 2]
    assert as_items("ab") == []
    assert as_items({"a": 1}) == []


def test_what_has_no_json_form_is_told_by_what_it_prints_or_by_its_class():
    assert as_json(SimpleNamespace(a=1)) == "namespace(a=1)"
    assert as_json(Hostile()) == "Hostile"


def test_a_scalar_stands_under_result():
    assert as_object(3) == {"result": 3}
    assert as_object({"a": 1}) == {"a": 1}
    assert as_object(None) == {}


@pytest.mark.parametrize(
    ("value", "arguments"),
    [('{"a": 1}', '{"a": 1}'), ({"a": 1}, {"a": 1}), (None, {}), ("", {}), (3, {"input": 3})],
)
def test_arguments_are_text_or_an_object(value, arguments):
    assert as_arguments(value) == arguments


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        (datetime(2026, 1, 1), None),  # noqa: DTZ001
        (1e30, None),
        (float("nan"), None),
        ("2026", None),
        (True, None),
    ],
)
def test_only_what_names_a_moment_is_one(value, moment):
    assert as_moment(value) == moment
