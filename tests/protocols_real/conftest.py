"""The official clients and suites of the protocols; run by ``make protocols``, in a separate
environment.

Elsewhere nothing here is collected, because they are not installed.
"""

import os
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.browser_real.conftest import open_browser

if "UPSHOT_REAL_PROTOCOLS" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
async def browser() -> AsyncGenerator[Any]:
    """A browser of the test's own, for ``page_of``."""
    async with open_browser() as began:
        yield began
