"""Real MCP servers from the package registries; run by ``make mcp``, in a separate environment.

Elsewhere nothing here is collected, because the servers are not installed.
"""

import os

if "UPSHOT_REAL_MCP" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
