"""What the tests of the suites share: one check, run on a subject that somebody made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import SkipTest

import pytest

from upshot import JournalError


def run_check(suite: type[Any], check: str, make: Callable[[], Any], **options: Any) -> None:
    """Run *check* of *suite* on what *make* gives."""

    class Suite(suite):
        def make(self) -> Any:
            return make()

    for name, value in options.items():
        setattr(Suite, name, value)
    asyncio.run(getattr(Suite(), check)())


def assert_red(
    suite: type[Any], check: str, make: Callable[[], Any], words: str, **options: Any
) -> None:
    """Hold that *check* fails and says *words*."""
    with pytest.raises((AssertionError, JournalError, KeyError, pytest.fail.Exception)) as caught:
        try:
            run_check(suite, check, make, **options)
        except SkipTest as skipped:
            raise RuntimeError(f"{check} was skipped and did not fail: {skipped}") from skipped
    assert words in str(caught.value), caught.value


def assert_skipped(
    suite: type[Any], check: str, make: Callable[[], Any], words: str, **options: Any
) -> None:
    """Hold that *check* is skipped, and says *words*."""
    with pytest.raises(SkipTest) as caught:
        run_check(suite, check, make, **options)
    assert words in str(caught.value), caught.value


def checks_of(suite: type[Any]) -> set[str]:
    """The names of its checks."""
    return {name for name in dir(suite) if name.startswith("test_")}


def tried_by(test: Any) -> set[str]:
    """The checks that a parametrized *test* tries, as its second argument."""
    return {values[1] for values in test.pytestmark[0].args[1]}
