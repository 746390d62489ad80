"""A place for a gateway."""

from pathlib import Path

import pytest

from tests.gateway.kit import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
