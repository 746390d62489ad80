"""The suite of adapters, on what the real packages give."""

import asyncio
import os
import tempfile

import pytest

from tests.adapters_real.plays import CASES, NATIVE, QUIET, is_here, play
from upshot import adapters
from upshot.testing import AdapterContract

HERE = [name for name in NATIVE if is_here(name)]


async def _record(name):
    return {case: (await play(name, case))[0] for case in CASES}


@pytest.fixture(scope="class", params=HERE)
def recorded(request):
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(QUIET, UPSHOT_PLAYS=folder)
        natives = asyncio.run(_record(request.param))
    os.environ.clear()
    os.environ.update(kept)
    return request.param, natives


class TestRealPackages(AdapterContract):
    @pytest.fixture(autouse=True)
    def _natives(self, recorded):
        self.name, self.natives = recorded

    def make(self):
        return getattr(adapters, f"from_{self.name}")
