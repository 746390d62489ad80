"""What is left to `make slow`: of each test something stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.slow import mark_slow


def slow(*items: Any) -> list[str]:
    mark_slow(items)
    return [item.nodeid for item in items if any(one.name == "slow" for one in item.own_markers)]


def an_item(nodeid: str, *marks: pytest.MarkDecorator) -> Any:
    item = SimpleNamespace(nodeid=nodeid, own_markers=[one.mark for one in marks])
    item.add_marker = lambda mark: item.own_markers.append(mark.mark)
    return item


def test_a_mark_with_patterns_holds_for_the_cases_that_one_of_them_names() -> None:
    mark = pytest.mark.slow("*-16", "script-*")
    cases = [an_item(f"t.py::test_it[{case}]", mark) for case in ("loop-1", "loop-16", "script-1")]
    assert slow(*cases) == ["t.py::test_it[loop-16]", "t.py::test_it[script-1]"]
    assert slow(an_item("t.py::test_it", pytest.mark.slow)) == ["t.py::test_it"]


@pytest.mark.parametrize("sqlite", ["sqlite", "file"])
def test_one_journal_of_two_stays_and_each_of_them_for_some_tests(sqlite: str) -> None:
    left = []
    for number in range(100):
        pair = [f"tests/fleet/t.py::test_{number}[{name}-x]" for name in (sqlite, "postgres")]
        (one,) = slow(*map(an_item, [f"tests/fleet/t.py::test_{number}[memory-x]", *pair]))
        assert one in pair
        left.append("postgres" in one)
    assert 20 < left.count(False) < 50


def test_a_test_of_one_journal_stays_and_so_do_those_of_the_journals() -> None:
    alone = [an_item("tests/fleet/t.py::test_it[postgres]"), an_item("tests/t.py::test_it[file]")]
    own = [an_item(f"tests/journal/t.py::test_it[{name}]") for name in ("sqlite", "postgres")]
    assert slow(*alone, *own) == []
