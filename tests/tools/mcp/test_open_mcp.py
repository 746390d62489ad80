"""open_mcp without what it needs."""

import re
from typing import Any

import pytest

from tests.processes import run_python
from upshot import Misuse, Toolbox, open_mcp


def test_without_the_extra_it_is_named():
    program = (
        "import sys; sys.modules['mcp'] = None; import asyncio, upshot\n"
        "async def main():\n"
        "    async with upshot.open_mcp('s', command='x'): pass\n"
        "try: asyncio.run(main())\n"
        "except upshot.Misuse as error: print(error)"
    )
    done = run_python("-W", "error", "-c", program, text=True, check=True)
    assert "pip install 'upshot-agents[mcp]'" in done.stdout


def test_a_server_that_is_not_opened_says_how() -> None:
    tools: Any = open_mcp("files", command="server")
    assert repr(tools) == "<upshot.open_mcp(...), to be entered by async with>"
    with pytest.raises(
        Misuse, match=re.escape("enter it: async with upshot.open_mcp(...) as tools")
    ):
        Toolbox([tools])
