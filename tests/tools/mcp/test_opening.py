"""open_mcp without what it needs."""

import subprocess
import sys


def test_without_the_extra_it_is_named():
    program = (
        "import sys; sys.modules['mcp'] = None; import asyncio, upshot\n"
        "async def main():\n"
        "    async with upshot.open_mcp('s', command='x'): pass\n"
        "try: asyncio.run(main())\n"
        "except upshot.Misuse as error: print(error)"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "pip install 'upshot[mcp]'" in done.stdout
