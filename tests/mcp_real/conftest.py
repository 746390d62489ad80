"""Real MCP servers from the package registries; run by ``make mcp``, in an environment of its own.

Elsewhere nothing here is collected, for the servers are not installed there.
"""

import os

if "UPSHOT_REAL_MCP" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
