"""Instrumented runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.telemetry.kit import Sight


@pytest.fixture
def sight() -> Iterator[Sight]:
    """Every run of the test is instrumented."""
    with Sight().instrumented() as made:
        yield made
