"""Equal arguments give equal bytes."""

from typing import Any

import pytest

from upshot.contract.base.json_values import canonical_json


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [{"d": 1, "c": 2}]}, {"b": [{"c": 2, "d": 1}], "a": 1}),
        ({"a": 5}, {"a": 5.0}),
        ([1e3], [1000]),
    ],
)
def test_order_and_form_of_numbers_do_not_matter(one: Any, other: Any):
    assert canonical_json(one) == canonical_json(other)


@pytest.mark.parametrize(
    ("one", "other"), [({"a": 1}, {"a": "1"}), ([1, 2], [2, 1]), ({"a": None}, {}), (1, True)]
)
def test_other_values_differ(one: Any, other: Any):
    assert canonical_json(one) != canonical_json(other)
